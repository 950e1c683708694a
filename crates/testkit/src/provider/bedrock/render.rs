//! Responses of Converse: JSON when complete, AWS's binary frames when streamed.
//!
//! Rules in `docs/providers.md`: `bedrock/stream`, `bedrock/reasoning`.

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use serde_json::{Value, json};

use crate::provider::output::{FinishReason, pieces};
use crate::provider::{ModelOutput, TokenCounts, opaque_token};

/// Renders a `ConverseResponse`.
pub(in crate::provider) fn complete_body(output: &ModelOutput) -> Value {
    let mut content: Vec<Value> =
        reasoning(output).into_iter().map(|reasoning| json!({"reasoningContent": reasoning})).collect();
    content.extend(output.texts().map(|text| json!({"text": text})));
    content.extend(
        output.calls.iter().map(
            |call| json!({"toolUse": {"toolUseId": call.id, "name": call.name, "input": call.object()}}),
        ),
    );
    json!({
        "metrics": {"latencyMs": 7},
        "output": {"message": {"content": content, "role": "assistant"}},
        "stopReason": stop_reason(output),
        "usage": usage(output.usage),
    })
}

/// Renders the frames of a `ConverseStream`.
pub(in crate::provider) fn stream_events(output: &ModelOutput) -> Vec<Vec<u8>> {
    let mut frames = vec![event("messageStart", json!({"role": "assistant"}))];
    let mut index = 0;
    let mut block = |start: Option<Value>, deltas: Vec<Value>| {
        if let Some(start) = start {
            frames.push(event("contentBlockStart", json!({"contentBlockIndex": index, "start": start})));
        }
        for delta in deltas {
            frames.push(event("contentBlockDelta", json!({"contentBlockIndex": index, "delta": delta})));
        }
        frames.push(event("contentBlockStop", json!({"contentBlockIndex": index})));
        index += 1;
    };
    for reasoning in reasoning(output) {
        let deltas = match reasoning.get("reasoningText") {
            Some(visible) => {
                let text = pieces(visible["text"].as_str().unwrap_or_default());
                let text = text.into_iter().map(|piece| json!({"reasoningContent": {"text": piece}}));
                text.chain([json!({"reasoningContent": {"signature": visible["signature"]}})]).collect()
            }
            None => vec![json!({"reasoningContent": reasoning})],
        };
        block(None, deltas);
    }
    for text in output.texts() {
        block(None, pieces(text).into_iter().map(|piece| json!({"text": piece})).collect());
    }
    for call in &output.calls {
        let start = json!({"toolUse": {"toolUseId": call.id, "name": call.name}});
        let deltas = pieces(&call.arguments).into_iter().map(|piece| json!({"toolUse": {"input": piece}}));
        block(Some(start), deltas.collect());
    }
    if let Some(error) = &output.stream_error {
        let headers = [(":exception-type", error.kind.as_str()), (":message-type", "exception")];
        frames.push(frame(&headers, &json!({"message": error.message})));
        return frames;
    }
    frames.push(event("messageStop", json!({"stopReason": stop_reason(output)})));
    frames.push(event("metadata", json!({"metrics": {"latencyMs": 7}, "usage": usage(output.usage)})));
    frames
}

/// An event with padding; Bedrock pads its events so that their sizes reveal nothing.
fn event(kind: &str, mut payload: Value) -> Vec<u8> {
    payload["p"] = "abcdefghij".into();
    frame(&[(":event-type", kind), (":message-type", "event")], &payload)
}

fn frame(headers: &[(&str, &str)], payload: &Value) -> Vec<u8> {
    let json = [(":content-type", "application/json")];
    let mut message = Message::new(payload.to_string());
    for (name, value) in headers.iter().chain(&json) {
        message = message
            .add_header(Header::new((*name).to_owned(), HeaderValue::String((*value).to_owned().into())));
    }
    let mut frame = Vec::new();
    write_message_to(&message, &mut frame).expect("a small message with short headers can be framed");
    frame
}

fn reasoning(output: &ModelOutput) -> Vec<Value> {
    let visible = output
        .thinking
        .iter()
        .map(|text| json!({"reasoningText": {"text": text, "signature": opaque_token::sign_thinking(text)}}));
    let hidden = output
        .hidden_thinking
        .then(|| json!({"redactedContent": opaque_token::issue("redacted", "hidden thinking")}));
    visible.chain(hidden).collect()
}

fn stop_reason(output: &ModelOutput) -> String {
    match output.finish_reason() {
        FinishReason::End => "end_turn".to_owned(),
        FinishReason::Calls => "tool_use".to_owned(),
        FinishReason::Length => "max_tokens".to_owned(),
        FinishReason::Refusal => "content_filtered".to_owned(),
        FinishReason::Other(reason) => reason,
    }
}

fn usage(tokens: TokenCounts) -> Value {
    json!({
        "inputTokens": tokens.input - tokens.cached - tokens.written,
        "outputTokens": tokens.output,
        "totalTokens": tokens.input + tokens.output,
        "cacheReadInputTokens": tokens.cached,
        "cacheWriteInputTokens": tokens.written,
    })
}
