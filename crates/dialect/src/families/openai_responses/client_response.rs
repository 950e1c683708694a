//! Writes Responses responses and streams for clients.

mod cited_content;
mod provider_items;
mod server_items;

use serde_json::{Map, Value, json};
use toolwire_contract::model::{ResponseDetails, StopReason, Usage};

use super::item_names::{CUSTOM, CallForm, FUNCTION, OpenItem};
use crate::client::{
    Annotations, ClientError, ClientEvent, ClientWriter, OPENAI_TIERS, ResponseHead, StreamEvent, ToolForm,
    custom_input, known_tier,
};
use crate::native_tools::{NativeTool, without_namespace};
use crate::request::SetFields;

/// A response that is being written. At most one item is open, the last one, because clients do not support
/// interleaved items.
#[derive(Debug)]
pub(super) struct ItemWriter {
    head: ResponseHead,
    items: Vec<Value>,
    open: Option<OpenItem>,
    /// The citations of the last message.
    citations: Annotations,
    has_omitted_citations: bool,
    details: ResponseDetails,
    /// Whether an item is a refusal.
    has_refused: bool,
    /// The number of the next event.
    sequence: u64,
    status: Status,
    usage: Option<Usage>,
}

#[derive(Clone, Debug, PartialEq)]
enum Status {
    Queued,
    InProgress,
    Completed,
    /// The reason.
    Incomplete(&'static str),
    Failed(ClientError),
    Cancelled,
}

impl ItemWriter {
    pub(super) fn new(mut head: ResponseHead) -> ItemWriter {
        let written = head.written.take().unwrap_or_default();
        let open = written.items.last().filter(|_| written.is_open).and_then(OpenItem::of);
        let status = match head.is_background && written.sequence == 0 {
            true => Status::Queued,
            false => Status::InProgress,
        };
        ItemWriter {
            head,
            items: written.items,
            open,
            citations: Annotations::default(),
            has_omitted_citations: false,
            details: ResponseDetails::default(),
            has_refused: false,
            sequence: written.sequence,
            status,
            usage: None,
        }
    }

    /// Returns an event with its type and number.
    fn event(&mut self, name: &'static str, fields: Value) -> StreamEvent {
        let mut data = Map::new();
        data.set("type", name);
        data.set("sequence_number", self.sequence);
        self.sequence += 1;
        if let Value::Object(fields) = fields {
            data.extend(fields);
        }
        StreamEvent::json(Some(name), Value::Object(data))
    }

    /// Returns an event about the part of the open item.
    fn part_event(&mut self, name: &'static str, item: OpenItem, key: &str, value: Value) -> StreamEvent {
        let index = self.items.len() - 1;
        let id = self.items[index]["id"].clone();
        let mut fields = json!({"item_id": id, "output_index": index, item.keys().1: 0, key: value});
        if item == OpenItem::Text && key != "part" {
            fields["logprobs"] = json!([]);
        }
        self.event(name, fields)
    }

    /// Returns the id of the next item. The ids are derived from that of the response, which is random.
    fn next_id(&self, prefix: &str) -> String {
        let random = self.head.id.strip_prefix("resp_").unwrap_or(&self.head.id);
        format!("{prefix}_{random}{}", self.items.len())
    }

    fn append(&mut self, kind: OpenItem, fragment: &str) -> Vec<StreamEvent> {
        let mut events = Vec::new();
        if self.open != Some(kind) {
            events.extend(self.close());
            let item = match kind {
                OpenItem::Text | OpenItem::Refusal => json!({
                    "id": self.next_id("msg"), "type": "message", "status": "in_progress", "role": "assistant",
                    "content": [],
                }),
                OpenItem::Reasoning => json!({"id": self.next_id("rs"), "type": "reasoning", "summary": []}),
            };
            let index = self.items.len();
            self.items.push(item.clone());
            self.open = Some(kind);
            events
                .push(self.event("response.output_item.added", json!({"output_index": index, "item": item})));
            let part = kind.part("");
            events.push(self.part_event(kind.part_events().0, kind, "part", part.clone()));
            self.items[index][kind.keys().0] = json!([part]);
        }
        let (_, key, delta, _) = kind.names();
        let index = self.items.len() - 1;
        if let Value::String(text) = &mut self.items[index][kind.keys().0][0][key] {
            text.push_str(fragment);
        }
        if kind == OpenItem::Text {
            self.citations.add_text(fragment);
        }
        events.push(self.part_event(delta, kind, "delta", json!(fragment)));
        events
    }

    /// Completes the open item.
    fn close(&mut self) -> Vec<StreamEvent> {
        self.close_as("completed")
    }

    fn close_as(&mut self, status: &str) -> Vec<StreamEvent> {
        let Some(kind) = self.open.take() else { return Vec::new() };
        let index = self.items.len() - 1;
        let (_, key, _, done) = kind.names();
        let mut events = self.annotations(index);
        let part = self.items[index][kind.keys().0][0].clone();
        events.push(self.part_event(done, kind, key, part[key].clone()));
        events.push(self.part_event(kind.part_events().1, kind, "part", part));
        if kind != OpenItem::Reasoning {
            self.items[index]["status"] = json!(status);
        }
        events.push(self.item_done(index));
        events
    }

    fn item_done(&mut self, index: usize) -> StreamEvent {
        let item = self.items[index].clone();
        self.event("response.output_item.done", json!({"output_index": index, "item": item}))
    }

    fn call(&mut self, form: &CallForm, id: &str, name: &str, text: &str) -> Vec<StreamEvent> {
        let mut events = self.close();
        let item_id = self.next_id(form.id_prefix);
        let index = self.items.len();
        let namespace = match self.head.tool_forms.get(name) {
            Some(ToolForm::Function { namespace } | ToolForm::Custom { namespace: Some(namespace) }) => {
                Some(namespace.clone())
            }
            _ => None,
        };
        let name = without_namespace(namespace.as_deref(), name);
        let item = |status: &str, text: &str| {
            let mut item = json!({
                "id": item_id, "type": form.item_type, "status": status, "call_id": id, "name": name,
                form.key: text,
            });
            if let Some(namespace) = &namespace {
                item["namespace"] = json!(namespace);
            }
            item
        };
        self.items.push(item("completed", text));
        let added = json!({"output_index": index, "item": item("in_progress", "")});
        events.push(self.event("response.output_item.added", added));
        let position = json!({"item_id": item_id, "output_index": index});
        let with = |key: &str, value: &str| {
            let mut fields = position.clone();
            fields[key] = json!(value);
            fields
        };
        events.push(self.event(form.delta, with("delta", text)));
        let mut done = with(form.key, text);
        if form.item_type == FUNCTION.item_type {
            done["name"] = json!(name);
        }
        events.push(self.event(form.done, done));
        events.push(self.item_done(index));
        events
    }

    /// Adds a call of a tool that OpenAI defines. Its arguments are fields of the item.
    fn native_call(
        &mut self,
        tool: &NativeTool,
        id: &str,
        arguments: &Map<String, Value>,
    ) -> Vec<StreamEvent> {
        let mut events = self.close();
        let mut item = json!({
            "id": self.next_id(tool.id_prefix), "type": tool.call, "status": "in_progress", "call_id": id,
        });
        for (key, value) in arguments {
            item[key] = value.clone();
        }
        let index = self.items.len();
        events.push(
            self.event("response.output_item.added", json!({"output_index": index, "item": item.clone()})),
        );
        item["status"] = json!("completed");
        self.items.push(item);
        events.push(self.item_done(index));
        events
    }

    /// Adds an item that is complete, such as a server's call. `middle` has the events between its start and
    /// its end.
    fn complete_item(
        &mut self,
        added: Value,
        middle: Vec<(&'static str, Value)>,
        done: Value,
    ) -> Vec<StreamEvent> {
        let mut events = self.close();
        let index = self.items.len();
        let id = done["id"].clone();
        self.items.push(done);
        events.push(self.event("response.output_item.added", json!({"output_index": index, "item": added})));
        for (name, mut fields) in middle {
            fields["item_id"] = id.clone();
            fields["output_index"] = json!(index);
            events.push(self.event(name, fields));
        }
        events.push(self.item_done(index));
        events
    }

    fn finish(&mut self, status: Status, usage: Option<Usage>) -> Vec<StreamEvent> {
        let mut events = match status {
            Status::Cancelled => self.close_as("incomplete"),
            _ => self.close(),
        };
        let name = match &status {
            // There is no event for a response that was cancelled; clients know this one as an end.
            Status::Incomplete(_) | Status::Cancelled => "response.incomplete",
            Status::Failed(_) => "response.failed",
            Status::Queued | Status::InProgress | Status::Completed => "response.completed",
        };
        self.status = status;
        self.usage = usage;
        let response = self.response();
        events.push(self.event(name, json!({"response": response})));
        events
    }

    fn response(&self) -> Value {
        let (status, error, reason) = match &self.status {
            Status::Queued => ("queued", None, None),
            Status::InProgress => ("in_progress", None, None),
            Status::Cancelled => ("cancelled", None, None),
            Status::Completed => ("completed", None, None),
            Status::Incomplete(reason) => ("incomplete", None, Some(*reason)),
            Status::Failed(error) => ("failed", Some(error), None),
        };
        let error = error.map(ClientError::failed_response);
        let mut response = json!({
            "id": self.head.id,
            "object": "response",
            "created_at": self.head.created,
            "status": status,
            "background": self.head.is_background,
            "error": error,
            "incomplete_details": reason.map(|reason| json!({"reason": reason})),
            "instructions": null,
            "max_output_tokens": null,
            "model": self.head.model,
            "output": self.items,
            "parallel_tool_calls": true,
            "previous_response_id": null,
            "reasoning": {"effort": null, "summary": null},
            "store": false,
            "temperature": 1.0,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": self.usage.as_ref().map(write_usage),
            "metadata": {},
        });
        for (key, value) in &self.head.echo {
            response[key] = value.clone();
        }
        if let Some(tier) = known_tier(&self.details, &OPENAI_TIERS) {
            response["service_tier"] = json!(tier);
        }
        response
    }
}

impl ClientWriter for ItemWriter {
    fn start(&mut self) -> Vec<StreamEvent> {
        if self.sequence > 0 {
            // Another writer has begun. Its last item stays as it is: the model writes it again.
            return self.close_as("incomplete");
        }
        let response = json!({"response": self.response()});
        let mut events = vec![self.event("response.created", response.clone())];
        if self.status == Status::Queued {
            events.push(self.event("response.queued", response));
            self.status = Status::InProgress;
        }
        let response = json!({"response": self.response()});
        events.push(self.event("response.in_progress", response));
        events
    }

    fn event(&mut self, event: &ClientEvent) -> Vec<StreamEvent> {
        match event {
            ClientEvent::Text(fragment) => self.append(OpenItem::Text, fragment),
            ClientEvent::TextPart => {
                self.citations.begin_part();
                Vec::new()
            }
            ClientEvent::Citation(citation) => self.cite(citation),
            ClientEvent::ProviderPart(part) => self.provider_part(part),
            ClientEvent::Media(content) => self.media(content),
            ClientEvent::Details(details) => {
                self.details.clone_from(details);
                Vec::new()
            }
            ClientEvent::Usage(usage) => {
                self.usage = Some(*usage);
                Vec::new()
            }
            ClientEvent::Refusal(text) => {
                self.has_refused = true;
                self.append(OpenItem::Refusal, text)
            }
            ClientEvent::Thinking(fragment) if self.head.shows_thinking => {
                self.append(OpenItem::Reasoning, fragment)
            }
            ClientEvent::Thinking(_) => Vec::new(),
            ClientEvent::Call { id, name, arguments } if self.head.is_custom(name) => {
                self.call(&CUSTOM, id, name, &custom_input(arguments))
            }
            ClientEvent::Call { id, name, arguments }
                if self.head.tool_forms.get(name) == Some(&ToolForm::Native) =>
            {
                NativeTool::named(name).map_or_else(Vec::new, |tool| self.native_call(tool, id, arguments))
            }
            ClientEvent::Call { id, name, arguments } => {
                self.call(&FUNCTION, id, name, &Value::Object(arguments.clone()).to_string())
            }
            ClientEvent::CustomCall { id, name, input } => self.call(&CUSTOM, id, name, input),
            ClientEvent::ServerTools { server, tools } if self.head.shows_server_calls => {
                self.server_tools(server, tools)
            }
            ClientEvent::ServerCall(call) if self.head.shows_server_calls => self.server_call(call),
            ClientEvent::ServerUnavailable { server, reason } if self.head.shows_server_calls => {
                self.server_unavailable(server, reason)
            }
            ClientEvent::ServerTools { .. }
            | ClientEvent::ServerUnavailable { .. }
            | ClientEvent::ServerCall(_) => Vec::new(),
            ClientEvent::ApprovalRequest { id, server, name, arguments } => {
                self.approval_request(id, server, name, arguments)
            }
            // Each round has its own message.
            ClientEvent::RoundFinished => self.close(),
            ClientEvent::Done { stop, usage } => {
                let status = match stop {
                    StopReason::Length | StopReason::Paused => Status::Incomplete("max_output_tokens"),
                    StopReason::Refusal if !self.has_refused => Status::Incomplete("content_filter"),
                    _ => Status::Completed,
                };
                self.finish(status, *usage)
            }
            ClientEvent::Failed(error) => self.finish(Status::Failed(error.clone()), self.usage),
            ClientEvent::Cancelled => self.finish(Status::Cancelled, self.usage),
        }
    }

    fn body(&self) -> Value {
        self.response()
    }

    fn has_omitted_citations(&self) -> bool {
        self.has_omitted_citations
    }
}

fn write_usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens.saturating_add(usage.output_tokens),
    })
}
