//! Writes Messages responses and streams for clients.

use serde_json::{Map, Value, json};
use toolwire_contract::model::{Citation, ProviderPart, ResponseDetails, StopReason, Usage};

use crate::Family;
use crate::client::{
    ClientEvent, ClientWriter, ResponseHead, ServerCall, StreamEvent, known_tier, media_note,
};

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
    details: ResponseDetails,
    /// How often the provider called its own tools in the earlier rounds.
    earlier_tool_use: Map<String, Value>,
    has_omitted_citations: bool,
}

/// The service tiers that the API's clients know.
const TIERS: [&str; 3] = ["standard", "priority", "batch"];

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
            details: ResponseDetails::default(),
            earlier_tool_use: Map::new(),
            has_omitted_citations: false,
        }
    }

    /// Appends a fragment to the open block of this type, or to a new one.
    fn append(&mut self, type_name: &'static str, fragment: &str) -> Vec<StreamEvent> {
        let mut events = self.open_block(type_name);
        if let Some(Value::Object(block)) = self.blocks.last_mut() {
            append_text(block, type_name, fragment);
        }
        let delta = json!({"type": format!("{type_name}_delta"), type_name: fragment});
        events.push(event("content_block_delta", json!({"index": self.index(), "delta": delta})));
        events
    }

    /// Opens a block of this type, unless one is open.
    fn open_block(&mut self, type_name: &'static str) -> Vec<StreamEvent> {
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
        events
    }

    /// Adds a citation to the block of the current text, which may not have any text yet.
    fn cite(&mut self, citation: &Citation) -> Vec<StreamEvent> {
        if citation.family != Family::Anthropic.meta_key() {
            self.has_omitted_citations = true;
            return Vec::new();
        }
        let mut events = Vec::new();
        if std::mem::take(&mut self.is_new_round) && self.is_after_text() {
            events.extend(self.close());
            events.extend(self.append("text", "\n\n"));
        }
        events.extend(self.open_block("text"));
        if let Some(Value::Object(block)) = self.blocks.last_mut()
            && let Value::Array(citations) = block.entry("citations").or_insert_with(|| json!([]))
        {
            citations.push(citation.value.clone());
        }
        let delta = json!({"type": "citations_delta", "citation": citation.value});
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

    fn is_after_text(&self) -> bool {
        self.blocks.last().is_some_and(|block| block["type"] == "text")
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

    /// Adds a block of this API as the provider has written it.
    fn provider_part(&mut self, part: &ProviderPart) -> Vec<StreamEvent> {
        if part.family != Family::Anthropic.meta_key() {
            return Vec::new();
        }
        let mut events: Vec<StreamEvent> = self.close().into_iter().collect();
        let mut begun = part.value.clone();
        // The API streams the input of a call, and no other part of such blocks.
        let input = begun
            .get_mut("input")
            .filter(|input| input.is_object())
            .map(|input| std::mem::replace(input, json!({})));
        events.push(self.open(begun));
        if let Some(input) = input.filter(|input| *input != json!({})) {
            let delta = json!({"type": "input_json_delta", "partial_json": input.to_string()});
            events.push(event("content_block_delta", json!({"index": self.index(), "delta": delta})));
        }
        if let Some(block) = self.blocks.last_mut() {
            block.clone_from(&part.value);
        }
        events.extend(self.close());
        events
    }

    fn finish(&mut self, stop: &StopReason, usage: Option<Usage>) -> Vec<StreamEvent> {
        let has_calls = self.blocks.iter().any(|block| block["type"] == "tool_use");
        self.stop_reason = match stop {
            StopReason::Length if self.details.is_context_full => "model_context_window_exceeded",
            StopReason::Length => "max_tokens",
            _ if has_calls => "tool_use",
            StopReason::Refusal => "refusal",
            StopReason::Paused => "pause_turn",
            StopReason::Sequence(sequence) => {
                self.stop_sequence = Some(sequence.clone());
                "stop_sequence"
            }
            _ => "end_turn",
        };
        self.usage = usage.unwrap_or_default();
        let mut events: Vec<StreamEvent> = self.close().into_iter().collect();
        let mut delta = json!({
            "stop_reason": self.stop_reason, "stop_sequence": self.stop_sequence, "stop_details": self.stop_details(),
        });
        if let Some(container) = &self.details.container {
            delta["container"] = container.clone();
        }
        events.push(event("message_delta", json!({"delta": delta, "usage": self.write_usage()})));
        events.push(event("message_stop", json!({})));
        events
    }

    /// Returns the details of a refusal, which other providers do not report.
    fn stop_details(&self) -> Value {
        if self.stop_reason != "refusal" {
            return Value::Null;
        }
        let unknown = || json!({"type": "refusal", "category": null, "explanation": null});
        self.details.stop_details.clone().unwrap_or_else(unknown)
    }

    fn message(&self, content: &[Value], stop_reason: Option<&str>) -> Value {
        let mut message = json!({
            "id": self.head.id,
            "type": "message",
            "role": "assistant",
            "model": self.head.model,
            "content": content,
            "stop_reason": stop_reason,
            "stop_sequence": self.stop_sequence,
            "stop_details": self.stop_details(),
            "usage": self.write_usage(),
        });
        if let Some(container) = &self.details.container {
            message["container"] = container.clone();
        }
        message
    }

    /// Tokens that were read from the cache or written to it are not part of `input_tokens` here.
    fn write_usage(&self) -> Value {
        let usage = &self.usage;
        let of_cache = usage.cached_tokens.saturating_add(usage.cache_write_tokens);
        let mut written = json!({
            "input_tokens": usage.input_tokens.saturating_sub(of_cache),
            "output_tokens": usage.output_tokens,
            "cache_read_input_tokens": usage.cached_tokens,
            "cache_creation_input_tokens": usage.cache_write_tokens,
        });
        if let Some(tier) = known_tier(&self.details, &TIERS) {
            written["service_tier"] = json!(tier);
        }
        let tool_use = self.tool_use();
        if !tool_use.is_empty() {
            written["server_tool_use"] = Value::Object(tool_use);
        }
        written
    }

    /// Returns how often the provider called its own tools, in all rounds so far.
    fn tool_use(&self) -> Map<String, Value> {
        let mut total = self.earlier_tool_use.clone();
        let current = self.details.server_tool_use.as_ref().and_then(Value::as_object);
        for (name, calls) in current.into_iter().flatten() {
            let earlier = total.get(name).and_then(Value::as_u64).unwrap_or_default();
            total.insert(
                name.clone(),
                calls.as_u64().map_or_else(|| calls.clone(), |calls| json!(earlier.saturating_add(calls))),
            );
        }
        total
    }
}

impl ClientWriter for MessageWriter {
    fn start(&mut self) -> Vec<StreamEvent> {
        vec![event("message_start", json!({"message": self.message(&[], None)}))]
    }

    fn event(&mut self, event: &ClientEvent) -> Vec<StreamEvent> {
        match event {
            ClientEvent::TextPart => self.close().into_iter().collect(),
            ClientEvent::Citation(citation) => self.cite(citation),
            ClientEvent::ProviderPart(part) => self.provider_part(part),
            ClientEvent::Media(content) => {
                let mut events: Vec<StreamEvent> = self.close().into_iter().collect();
                let note = "the model generated it; this API cannot return it";
                events.extend(self.append("text", &media_note(content, note)));
                events.extend(self.close());
                events
            }
            ClientEvent::Details(details) => {
                // A later round may not use the container, but the client can still use it again.
                let container = details.container.clone().or(self.details.container.take());
                self.details.clone_from(details);
                self.details.container = container;
                Vec::new()
            }
            ClientEvent::Text(fragment) | ClientEvent::Refusal(fragment) => {
                match std::mem::take(&mut self.is_new_round) && self.is_after_text() {
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
            | ClientEvent::Usage(_)
            | ClientEvent::Cancelled
            | ClientEvent::ApprovalRequest { .. } => Vec::new(),
            ClientEvent::RoundFinished => {
                self.is_new_round = true;
                self.earlier_tool_use = self.tool_use();
                self.details.server_tool_use = None;
                Vec::new()
            }
            ClientEvent::Done { stop, usage } => self.finish(stop, *usage),
            ClientEvent::Failed(error) => {
                vec![error.event(Family::Anthropic, &self.head.request_id, 0)]
            }
        }
    }

    fn body(&self) -> Value {
        self.message(&self.blocks, Some(self.stop_reason))
    }

    fn has_omitted_citations(&self) -> bool {
        self.has_omitted_citations
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
