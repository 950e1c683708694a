//! Responses of Cohere's chat.
//!
//! Rules in `docs/providers.md`: `cohere/stream`, `cohere/tool-plan`.

use serde_json::{Value, json};

use crate::provider::json::extended;
use crate::provider::output::{FinishReason, OutputCall, pieces};
use crate::provider::render::named_event;
use crate::provider::{ModelOutput, TokenCounts};

/// Renders a response. The text beside calls is the `tool_plan`.
pub(in crate::provider) fn complete_body(output: &ModelOutput) -> Value {
    let mut message = json!({"role": "assistant"});
    let mut content: Vec<Value> =
        output.thinking.iter().map(|thinking| json!({"type": "thinking", "thinking": thinking})).collect();
    if output.calls.is_empty() {
        content.extend(output.texts().map(|text| json!({"type": "text", "text": text})));
    } else {
        message["tool_plan"] = output.texts().collect::<String>().into();
        message["tool_calls"] = output.calls.iter().map(|call| call_json(call, &call.arguments)).collect();
    }
    if !content.is_empty() {
        message["content"] = content.into();
    }
    json!({"id": "1", "finish_reason": finish_reason(output), "message": message, "usage": usage(output.usage)})
}

/// Renders the events of a stream.
pub(in crate::provider) fn stream_events(output: &ModelOutput) -> Vec<Vec<u8>> {
    let mut events = Vec::new();
    let mut push = |name: &str, fields: Value, delta: Value| {
        let delta = if delta.is_null() { json!({}) } else { json!({"delta": delta}) };
        events.push(named_event(name, extended(fields, delta)));
    };
    let start =
        json!({"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []});
    push("message-start", json!({"id": "1"}), json!({"message": start}));
    let mut blocks: Vec<(&str, &str)> =
        output.thinking.iter().map(|text| ("thinking", text.as_str())).collect();
    if output.calls.is_empty() {
        blocks.extend(output.texts().map(|text| ("text", text)));
    }
    for (index, (kind, text)) in blocks.into_iter().enumerate() {
        let position = json!({"index": index});
        let start = json!({"message": {"content": {"type": kind, kind: ""}}});
        push("content-start", position.clone(), start);
        for piece in pieces(text) {
            push("content-delta", position.clone(), json!({"message": {"content": {kind: piece}}}));
        }
        push("content-end", position, Value::Null);
    }
    if !output.calls.is_empty() {
        for piece in output.texts().flat_map(pieces) {
            push("tool-plan-delta", json!({}), json!({"message": {"tool_plan": piece}}));
        }
    }
    for (number, call) in output.calls.iter().enumerate() {
        let position = json!({"index": number});
        let start = json!({"message": {"tool_calls": call_json(call, "")}});
        push("tool-call-start", position.clone(), start);
        for piece in pieces(&call.arguments) {
            let delta = json!({"message": {"tool_calls": {"function": {"arguments": piece}}}});
            push("tool-call-delta", position.clone(), delta);
        }
        push("tool-call-end", position, Value::Null);
    }
    let end = match &output.stream_error {
        Some(error) => json!({"finish_reason": "ERROR", "error": error.message}),
        None => json!({"finish_reason": finish_reason(output), "usage": usage(output.usage)}),
    };
    push("message-end", json!({"id": "1"}), end);
    events
}

fn call_json(call: &OutputCall, arguments: &str) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
}

fn finish_reason(output: &ModelOutput) -> String {
    match output.finish_reason() {
        FinishReason::End => "COMPLETE".to_owned(),
        FinishReason::Calls => "TOOL_CALL".to_owned(),
        FinishReason::Length => "MAX_TOKENS".to_owned(),
        FinishReason::Refusal => "ERROR_TOXIC".to_owned(),
        FinishReason::Other(reason) => reason,
    }
}

fn usage(tokens: TokenCounts) -> Value {
    let counts = json!({"input_tokens": tokens.input, "output_tokens": tokens.output});
    json!({"billed_units": counts, "tokens": counts, "cached_tokens": tokens.cached})
}
