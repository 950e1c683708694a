//! What a Cohere model answers.

use serde_json::{Value, json};

use crate::provider::said::{Call, Stop, pieces};
use crate::provider::{Said, Tokens};

/// A response with its message. What is said beside calls is the plan of them.
pub(in crate::provider) fn whole(said: &Said) -> Value {
    let mut message = json!({"role": "assistant"});
    let mut content: Vec<Value> =
        said.thinking.iter().map(|thinking| json!({"type": "thinking", "thinking": thinking})).collect();
    if said.calls.is_empty() {
        content.extend(texts(said).map(|text| json!({"type": "text", "text": text})));
    } else {
        message["tool_plan"] = texts(said).collect::<String>().into();
        message["tool_calls"] = said.calls.iter().map(|one| call(one, &one.arguments)).collect();
    }
    if !content.is_empty() {
        message["content"] = content.into();
    }
    json!({"id": "1", "finish_reason": reason(said), "message": message, "usage": usage(said.usage)})
}

/// The events of a stream.
pub(in crate::provider) fn stream(said: &Said) -> Vec<Vec<u8>> {
    let mut events = Events { written: Vec::new() };
    let start =
        json!({"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []});
    events.push("message-start", json!({"id": "1"}), json!({"message": start}));
    let mut blocks: Vec<(&str, &str)> =
        said.thinking.iter().map(|text| ("thinking", text.as_str())).collect();
    if said.calls.is_empty() {
        blocks.extend(texts(said).map(|text| ("text", text)));
    }
    for (index, (kind, text)) in blocks.into_iter().enumerate() {
        let at = json!({"index": index});
        let start = json!({"message": {"content": {"type": kind, kind: ""}}});
        events.push("content-start", at.clone(), start);
        for piece in pieces(text) {
            events.push("content-delta", at.clone(), json!({"message": {"content": {kind: piece}}}));
        }
        events.push("content-end", at, Value::Null);
    }
    if !said.calls.is_empty() {
        for piece in texts(said).flat_map(pieces) {
            events.push("tool-plan-delta", json!({}), json!({"message": {"tool_plan": piece}}));
        }
    }
    for (number, one) in said.calls.iter().enumerate() {
        let at = json!({"index": number});
        let start = json!({"message": {"tool_calls": call(one, "")}});
        events.push("tool-call-start", at.clone(), start);
        for piece in pieces(&one.arguments) {
            let delta = json!({"message": {"tool_calls": {"function": {"arguments": piece}}}});
            events.push("tool-call-delta", at.clone(), delta);
        }
        events.push("tool-call-end", at, Value::Null);
    }
    let end = match &said.fault {
        Some(fault) => json!({"finish_reason": "ERROR", "error": fault.message}),
        None => json!({"finish_reason": reason(said), "usage": usage(said.usage)}),
    };
    events.push("message-end", json!({"id": "1"}), end);
    events.written
}

struct Events {
    written: Vec<Vec<u8>>,
}

impl Events {
    fn push(&mut self, name: &str, fields: Value, delta: Value) {
        let mut event = json!({"type": name});
        if let (Some(event), Value::Object(fields)) = (event.as_object_mut(), fields) {
            event.extend(fields);
        }
        if !delta.is_null() {
            event["delta"] = delta;
        }
        self.written.push(format!("event: {name}\ndata: {event}\n\n").into_bytes());
    }
}

fn call(call: &Call, arguments: &str) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
}

fn texts(said: &Said) -> impl Iterator<Item = &str> {
    said.text.iter().chain(&said.refusal).map(String::as_str)
}

fn reason(said: &Said) -> String {
    match said.why() {
        Stop::End => "COMPLETE".to_owned(),
        Stop::Calls => "TOOL_CALL".to_owned(),
        Stop::Length => "MAX_TOKENS".to_owned(),
        Stop::Refusal => "ERROR_TOXIC".to_owned(),
        Stop::Other(word) => word,
    }
}

fn usage(tokens: Tokens) -> Value {
    let counts = json!({"input_tokens": tokens.input, "output_tokens": tokens.output});
    json!({"billed_units": counts, "tokens": counts, "cached_tokens": tokens.cached})
}
