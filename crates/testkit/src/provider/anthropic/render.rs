//! Responses of Anthropic's Messages.
//!
//! Rules in `docs/providers.md`: `anthropic/stream`, `anthropic/thinking-blocks`.

use serde_json::{Value, json};

use super::searches;
use crate::provider::output::{FinishReason, pieces};
use crate::provider::render::named_event;
use crate::provider::{ModelOutput, opaque_token};

/// Renders a `message`.
pub(in crate::provider) fn complete_body(output: &ModelOutput) -> Value {
    let mut message = empty_message(output);
    let mut content = thinking_blocks(output);
    content.extend(output.searches.iter().flat_map(|query| searches::blocks(query)));
    content.extend(output.texts().map(|text| match searches::citation(output) {
        Some(citation) => json!({"type": "text", "text": text, "citations": [citation]}),
        None => json!({"type": "text", "text": text}),
    }));
    content.extend(
        output.calls.iter().map(
            |call| json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.object()}),
        ),
    );
    message["content"] = content.into();
    message["stop_reason"] = stop_reason(output).into();
    message["usage"]["output_tokens"] = output.usage.output.into();
    if let Some(searches) = searches::usage(output) {
        message["usage"]["server_tool_use"] = searches;
    }
    if let Some(id) = &output.container {
        message["container"] = container(id);
    }
    message
}

/// Renders the events of a stream.
pub(in crate::provider) fn stream_events(output: &ModelOutput) -> Vec<Vec<u8>> {
    let mut events = BlockEvents { written: Vec::new(), index: 0 };
    events.push("message_start", json!({"message": empty_message(output)}));
    events.push("ping", json!({}));
    for block in thinking_blocks(output) {
        if block["type"] == "redacted_thinking" {
            events.block(block, "", "", &[]);
            continue;
        }
        let start = json!({"type": "thinking", "thinking": "", "signature": ""});
        let signature = json!({"type": "signature_delta", "signature": block["signature"]});
        let text = block["thinking"].as_str().unwrap_or_default();
        events.begin(start);
        events.deltas("thinking_delta", "thinking", &pieces(text));
        events.push_delta(signature);
        events.end();
    }
    for query in &output.searches {
        let [mut call, result] = searches::blocks(query);
        let input = std::mem::replace(&mut call["input"], json!({})).to_string();
        events.block(call, "input_json_delta", "partial_json", &pieces(&input));
        events.block(result, "", "", &[]);
    }
    for text in output.texts() {
        let citation = searches::citation(output);
        let start = match &citation {
            Some(_) => json!({"type": "text", "text": "", "citations": []}),
            None => json!({"type": "text", "text": ""}),
        };
        events.begin(start);
        events.deltas("text_delta", "text", &pieces(text));
        if let Some(citation) = citation {
            events.push_delta(json!({"type": "citations_delta", "citation": citation}));
        }
        events.end();
    }
    for call in &output.calls {
        let start = json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}});
        // The API sends no delta for an empty object.
        let arguments = if call.arguments == "{}" { "" } else { &call.arguments };
        events.block(start, "input_json_delta", "partial_json", &pieces(arguments));
    }
    if let Some(error) = &output.stream_error {
        events.push("error", json!({"error": {"type": error.kind, "message": error.message}}));
        return events.written;
    }
    let mut delta = json!({"stop_reason": stop_reason(output), "stop_sequence": null});
    if let Some(id) = &output.container {
        delta["container"] = container(id);
    }
    let mut usage = json!({"output_tokens": output.usage.output});
    if let Some(searches) = searches::usage(output) {
        usage["server_tool_use"] = searches;
    }
    events.push("message_delta", json!({"delta": delta, "usage": usage}));
    events.push("message_stop", json!({}));
    events.written
}

/// Named events that count their blocks.
struct BlockEvents {
    written: Vec<Vec<u8>>,
    index: usize,
}

impl BlockEvents {
    fn push(&mut self, name: &str, fields: Value) {
        self.written.push(named_event(name, fields));
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

fn container(id: &str) -> Value {
    json!({"id": id, "expires_at": "2026-11-19T12:00:00Z"})
}

/// A message without content, with which a stream starts.
fn empty_message(output: &ModelOutput) -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": [],
        "stop_reason": null, "stop_sequence": null,
        "usage": {
            "input_tokens": output.usage.input - output.usage.cached - output.usage.written,
            "cache_creation_input_tokens": output.usage.written,
            "cache_read_input_tokens": output.usage.cached,
            "output_tokens": 1,
        },
    })
}

fn thinking_blocks(output: &ModelOutput) -> Vec<Value> {
    let visible = output.thinking.iter().map(|thinking| {
        json!({"type": "thinking", "thinking": thinking, "signature": opaque_token::sign_thinking(thinking)})
    });
    let hidden = output.hidden_thinking.then(
        || json!({"type": "redacted_thinking", "data": opaque_token::issue("redacted", "hidden thinking")}),
    );
    visible.chain(hidden).collect()
}

/// The API sends a refusal as text with a `stop_reason`.
fn stop_reason(output: &ModelOutput) -> String {
    match output.finish_reason() {
        _ if output.refusal.is_some() => "refusal".to_owned(),
        FinishReason::End => "end_turn".to_owned(),
        FinishReason::Calls => "tool_use".to_owned(),
        FinishReason::Length => "max_tokens".to_owned(),
        FinishReason::Refusal => "refusal".to_owned(),
        FinishReason::Other(reason) => reason,
    }
}
