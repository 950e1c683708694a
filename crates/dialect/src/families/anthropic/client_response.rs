//! Writes Messages responses and streams for clients.

use serde_json::{Map, Value, json};
use toolwire_contract::{StopReason, Usage};

use crate::Family;
use crate::client::{ClientEvent, ClientWriter, ResponseHead, ServerCall, StreamEvent};

/// A response that is being written. At most one block is open, the last one.
#[derive(Debug)]
pub(super) struct MessageWriter {
    head: ResponseHead,
    blocks: Vec<Value>,
    is_open: bool,
    is_new_round: bool,
    stop_reason: &'static str,
    stop_sequence: Option<String>,
    usage: Usage,
}

impl MessageWriter {
    pub(super) fn new(head: ResponseHead) -> MessageWriter {
        MessageWriter {
            head,
            blocks: Vec::new(),
            is_open: false,
            is_new_round: false,
            stop_reason: "end_turn",
            stop_sequence: None,
            usage: Usage::default(),
        }
    }

    /// Appends a fragment to the open block of this type, or to a new one.
    fn append(&mut self, type_name: &'static str, fragment: &str) -> Vec<StreamEvent> {
        let mut events = Vec::new();
        let is_same = self.is_open && self.blocks.last().is_some_and(|block| block["type"] == type_name);
        if !is_same {
            events.extend(self.close());
            let mut block = json!({"type": type_name, type_name: ""});
            if type_name == "thinking" {
                // Only Claude signs its thinking; an empty signature is never sent to it.
                block["signature"] = json!("");
            }
            events.push(self.open(block));
        }
        if let Some(Value::Object(block)) = self.blocks.last_mut() {
            append_text(block, type_name, fragment);
        }
        let delta = json!({"type": format!("{type_name}_delta"), type_name: fragment});
        events.push(event("content_block_delta", json!({"index": self.index(), "delta": delta})));
        events
    }

    fn open(&mut self, block: Value) -> StreamEvent {
        self.blocks.push(block.clone());
        self.is_open = true;
        event("content_block_start", json!({"index": self.index(), "content_block": block}))
    }

    fn close(&mut self) -> Option<StreamEvent> {
        let was_open = std::mem::take(&mut self.is_open);
        was_open.then(|| event("content_block_stop", json!({"index": self.index()})))
    }

    fn index(&self) -> usize {
        self.blocks.len().saturating_sub(1)
    }

    fn call(&mut self, id: &str, name: &str, arguments: &Map<String, Value>) -> Vec<StreamEvent> {
        let mut events: Vec<StreamEvent> = self.close().into_iter().collect();
        events.push(self.open(json!({"type": "tool_use", "id": id, "name": name, "input": {}})));
        if !arguments.is_empty() {
            let text = Value::Object(arguments.clone()).to_string();
            let delta = json!({"type": "input_json_delta", "partial_json": text});
            events.push(event("content_block_delta", json!({"index": self.index(), "delta": delta})));
        }
        if let Some(block) = self.blocks.last_mut() {
            block["input"] = Value::Object(arguments.clone());
        }
        events.extend(self.close());
        events
    }

    /// Adds a call and its result as two blocks. Each is complete in its first event, because most clients do
    /// not append deltas to these blocks.
    fn server_call(&mut self, call: &ServerCall) -> Vec<StreamEvent> {
        let mut events: Vec<StreamEvent> = self.close().into_iter().collect();
        let random = self.head.id.strip_prefix("msg_").unwrap_or(&self.head.id);
        let id = format!("mcptoolu_{random}{}", self.blocks.len());
        let input = Value::Object(call.arguments.clone());
        let content = json!([{"type": "text", "text": call.result_text()}]);
        events.push(self.open(json!({
            "type": "mcp_tool_use", "id": id, "name": call.name, "server_name": call.server, "input": input,
        })));
        events.extend(self.close());
        events.push(self.open(json!({
            "type": "mcp_tool_result", "tool_use_id": id, "is_error": call.result.is_error(), "content": content,
        })));
        events.extend(self.close());
        events
    }

    fn finish(&mut self, stop: &StopReason, usage: Option<Usage>) -> Vec<StreamEvent> {
        let has_calls = self.blocks.iter().any(|block| block["type"] == "tool_use");
        self.stop_reason = match stop {
            StopReason::Length => "max_tokens",
            _ if has_calls => "tool_use",
            StopReason::Refusal => "refusal",
            StopReason::Sequence(sequence) => {
                self.stop_sequence = Some(sequence.clone());
                "stop_sequence"
            }
            _ => "end_turn",
        };
        self.usage = usage.unwrap_or_default();
        let mut events: Vec<StreamEvent> = self.close().into_iter().collect();
        let delta = json!({"stop_reason": self.stop_reason, "stop_sequence": self.stop_sequence});
        events.push(event("message_delta", json!({"delta": delta, "usage": write_usage(&self.usage)})));
        events.push(event("message_stop", json!({})));
        events
    }

    fn message(&self, content: &[Value], stop_reason: Option<&str>) -> Value {
        json!({
            "id": self.head.id,
            "type": "message",
            "role": "assistant",
            "model": self.head.model,
            "content": content,
            "stop_reason": stop_reason,
            "stop_sequence": self.stop_sequence,
            "usage": write_usage(&self.usage),
        })
    }
}

impl ClientWriter for MessageWriter {
    fn start(&mut self) -> Vec<StreamEvent> {
        vec![event("message_start", json!({"message": self.message(&[], None)}))]
    }

    fn event(&mut self, event: &ClientEvent) -> Vec<StreamEvent> {
        match event {
            ClientEvent::Text(fragment) | ClientEvent::Refusal(fragment) => {
                let has_text = self.blocks.last().is_some_and(|block| block["type"] == "text");
                match std::mem::take(&mut self.is_new_round) && has_text {
                    true => self.append("text", &format!("\n\n{fragment}")),
                    false => self.append("text", fragment),
                }
            }
            ClientEvent::Thinking(fragment) if self.head.shows_thinking => self.append("thinking", fragment),
            ClientEvent::Thinking(_) => Vec::new(),
            ClientEvent::Call { id, name, arguments } => self.call(id, name, arguments),
            ClientEvent::CustomCall { id, name, input } => {
                self.call(id, name, &Map::from_iter([("input".to_owned(), json!(input))]))
            }
            ClientEvent::ServerCall(call) if self.head.shows_server_calls => self.server_call(call),
            // This API has no format for these events and no approvals.
            ClientEvent::ServerCall(_)
            | ClientEvent::ServerTools { .. }
            | ClientEvent::ServerUnavailable { .. }
            | ClientEvent::ApprovalRequest { .. } => Vec::new(),
            ClientEvent::RoundFinished => {
                self.is_new_round = true;
                Vec::new()
            }
            ClientEvent::Done { stop, usage } => self.finish(stop, *usage),
            ClientEvent::Failed(error) => {
                vec![error.event(Family::Anthropic, &self.head.request_id)]
            }
        }
    }

    fn body(&self) -> Value {
        self.message(&self.blocks, Some(self.stop_reason))
    }
}

/// Returns an event, whose name is also the `type` of its data.
fn event(name: &'static str, mut data: Value) -> StreamEvent {
    if let Value::Object(fields) = &mut data {
        fields.shift_insert(0, "type".to_owned(), json!(name));
    }
    StreamEvent::json(Some(name), data)
}

fn append_text(block: &mut Map<String, Value>, key: &str, fragment: &str) {
    if let Some(Value::String(text)) = block.get_mut(key) {
        text.push_str(fragment);
    }
}

/// Tokens that were read from the cache or written to it are not part of `input_tokens` here.
fn write_usage(usage: &Usage) -> Value {
    let of_cache = usage.cached_tokens.saturating_add(usage.cache_write_tokens);
    json!({
        "input_tokens": usage.input_tokens.saturating_sub(of_cache),
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
    })
}
