//! What a model behind Converse answers: JSON when whole, AWS's binary frames when streamed.

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use serde_json::{Value, json};

use crate::provider::said::{Stop, pieces};
use crate::provider::{Said, Tokens, seal};

/// A `ConverseResponse`.
pub(in crate::provider) fn whole(said: &Said) -> Value {
    let mut content: Vec<Value> =
        thoughts(said).into_iter().map(|thought| json!({"reasoningContent": thought})).collect();
    content.extend(texts(said).map(|text| json!({"text": text})));
    content.extend(
        said.calls.iter().map(
            |call| json!({"toolUse": {"toolUseId": call.id, "name": call.name, "input": call.object()}}),
        ),
    );
    json!({
        "metrics": {"latencyMs": 7},
        "output": {"message": {"content": content, "role": "assistant"}},
        "stopReason": reason(said),
        "usage": usage(said.usage),
    })
}

/// The frames of a `ConverseStream`.
pub(in crate::provider) fn stream(said: &Said) -> Vec<Vec<u8>> {
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
    for thought in thoughts(said) {
        let deltas = match thought.get("reasoningText") {
            Some(thought) => {
                let text = pieces(thought["text"].as_str().unwrap_or_default());
                let text = text.into_iter().map(|piece| json!({"reasoningContent": {"text": piece}}));
                text.chain([json!({"reasoningContent": {"signature": thought["signature"]}})]).collect()
            }
            None => vec![json!({"reasoningContent": thought})],
        };
        block(None, deltas);
    }
    for text in texts(said) {
        block(None, pieces(text).into_iter().map(|piece| json!({"text": piece})).collect());
    }
    for call in &said.calls {
        let start = json!({"toolUse": {"toolUseId": call.id, "name": call.name}});
        let deltas = pieces(&call.arguments).into_iter().map(|piece| json!({"toolUse": {"input": piece}}));
        block(Some(start), deltas.collect());
    }
    if let Some(fault) = &said.fault {
        let headers = [(":exception-type", fault.kind.as_str()), (":message-type", "exception")];
        frames.push(frame(&headers, &json!({"message": fault.message})));
        return frames;
    }
    frames.push(event("messageStop", json!({"stopReason": reason(said)})));
    frames.push(event("metadata", json!({"metrics": {"latencyMs": 7}, "usage": usage(said.usage)})));
    frames
}

/// An event, padded as Bedrock pads its events against those who count bytes.
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
    let mut written = Vec::new();
    write_message_to(&message, &mut written).expect("a small message with short headers can be framed");
    written
}

fn thoughts(said: &Said) -> Vec<Value> {
    let shown = said.thinking.iter().map(|text| {
        let signature = seal::seal("thinking", &seal::digest("thought", text));
        json!({"reasoningText": {"text": text, "signature": signature}})
    });
    let hidden =
        said.hidden_thinking.then(|| json!({"redactedContent": seal::seal("redacted", "hidden thinking")}));
    shown.chain(hidden).collect()
}

/// A refusal has no form of its own here.
fn texts(said: &Said) -> impl Iterator<Item = &str> {
    said.text.iter().chain(&said.refusal).map(String::as_str)
}

fn reason(said: &Said) -> String {
    match said.why() {
        Stop::End => "end_turn".to_owned(),
        Stop::Calls => "tool_use".to_owned(),
        Stop::Length => "max_tokens".to_owned(),
        Stop::Refusal => "content_filtered".to_owned(),
        Stop::Other(word) => word,
    }
}

fn usage(tokens: Tokens) -> Value {
    json!({
        "inputTokens": tokens.input - tokens.cached,
        "outputTokens": tokens.output,
        "totalTokens": tokens.input + tokens.output,
        "cacheReadInputTokens": tokens.cached,
        "cacheWriteInputTokens": 0,
    })
}
