//! What a model behind Messages answers.

use serde_json::{Value, json};

use crate::provider::said::{Stop, pieces};
use crate::provider::{Said, seal};

/// A `message`.
pub(in crate::provider) fn whole(said: &Said) -> Value {
    let mut message = message(said);
    let mut content = thoughts(said);
    content.extend(texts(said).map(|text| json!({"type": "text", "text": text})));
    content.extend(
        said.calls.iter().map(
            |call| json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.object()}),
        ),
    );
    message["content"] = content.into();
    message["stop_reason"] = reason(said).into();
    message["usage"]["output_tokens"] = said.usage.output.into();
    message
}

/// The events of a stream.
pub(in crate::provider) fn stream(said: &Said) -> Vec<Vec<u8>> {
    let mut events = Events { written: Vec::new(), index: 0 };
    events.push("message_start", json!({"message": message(said)}));
    events.push("ping", json!({}));
    for thought in thoughts(said) {
        if thought["type"] == "redacted_thinking" {
            events.block(thought, "", "", &[]);
            continue;
        }
        let start = json!({"type": "thinking", "thinking": "", "signature": ""});
        let signature = json!({"type": "signature_delta", "signature": thought["signature"]});
        let text = thought["thinking"].as_str().unwrap_or_default();
        events.begin(start);
        events.deltas("thinking_delta", "thinking", &pieces(text));
        events.push_delta(signature);
        events.end();
    }
    for text in texts(said) {
        events.block(json!({"type": "text", "text": ""}), "text_delta", "text", &pieces(text));
    }
    for call in &said.calls {
        let start = json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}});
        // No delta at all is how an empty object is said (3.4).
        let arguments = if call.arguments == "{}" { "" } else { &call.arguments };
        events.block(start, "input_json_delta", "partial_json", &pieces(arguments));
    }
    if let Some(fault) = &said.fault {
        events.push("error", json!({"error": {"type": fault.kind, "message": fault.message}}));
        return events.written;
    }
    let delta = json!({"stop_reason": reason(said), "stop_sequence": null});
    events.push("message_delta", json!({"delta": delta, "usage": {"output_tokens": said.usage.output}}));
    events.push("message_stop", json!({}));
    events.written
}

struct Events {
    written: Vec<Vec<u8>>,
    index: usize,
}

impl Events {
    fn push(&mut self, name: &str, fields: Value) {
        let mut event = json!({"type": name});
        if let (Some(event), Value::Object(fields)) = (event.as_object_mut(), fields) {
            event.extend(fields);
        }
        self.written.push(format!("event: {name}\ndata: {event}\n\n").into_bytes());
    }

    fn begin(&mut self, block: Value) {
        self.push("content_block_start", json!({"index": self.index, "content_block": block}));
    }

    fn push_delta(&mut self, delta: Value) {
        self.push("content_block_delta", json!({"index": self.index, "delta": delta}));
    }

    fn deltas(&mut self, kind: &str, key: &str, pieces: &[&str]) {
        pieces.iter().for_each(|piece| self.push_delta(json!({"type": kind, key: piece})));
    }

    fn end(&mut self) {
        self.push("content_block_stop", json!({"index": self.index}));
        self.index += 1;
    }

    fn block(&mut self, start: Value, kind: &str, key: &str, pieces: &[&str]) {
        self.begin(start);
        self.deltas(kind, key, pieces);
        self.end();
    }
}

/// The message before anything of it is said.
fn message(said: &Said) -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": [],
        "stop_reason": null, "stop_sequence": null,
        "usage": {
            "input_tokens": said.usage.input - said.usage.cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": said.usage.cached,
            "output_tokens": 1,
        },
    })
}

fn thoughts(said: &Said) -> Vec<Value> {
    let shown = said.thinking.iter().map(|thinking| {
        let signature = seal::seal("thinking", &seal::digest("thought", thinking));
        json!({"type": "thinking", "thinking": thinking, "signature": signature})
    });
    let hidden = said
        .hidden_thinking
        .then(|| json!({"type": "redacted_thinking", "data": seal::seal("redacted", "hidden thinking")}));
    shown.chain(hidden).collect()
}

/// A refusal has no form of its own here: it is text, and the reason to stop.
fn texts(said: &Said) -> impl Iterator<Item = &str> {
    said.text.iter().chain(&said.refusal).map(String::as_str)
}

fn reason(said: &Said) -> String {
    match said.why() {
        _ if said.refusal.is_some() => "refusal".to_owned(),
        Stop::End => "end_turn".to_owned(),
        Stop::Calls => "tool_use".to_owned(),
        Stop::Length => "max_tokens".to_owned(),
        Stop::Refusal => "refusal".to_owned(),
        Stop::Other(word) => word,
    }
}
