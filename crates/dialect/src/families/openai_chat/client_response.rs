//! Writes Chat Completions responses and streams for clients.

use serde_json::{Map, Value, json};
use toolwire_contract::{StopReason, Usage};

use crate::Family;
use crate::client::{ClientEvent, ClientWriter, ResponseHead, StreamData, StreamEvent, custom_input};
use crate::request::SetFields;

/// A response that is being written.
#[derive(Debug)]
pub(super) struct ChatWriter {
    head: ResponseHead,
    text: String,
    reasoning: String,
    refusal: String,
    calls: Vec<Value>,
    /// Calls of servers' tools, for which this API has no format.
    server_calls: Vec<Value>,
    /// Whether the next text starts a new paragraph.
    is_new_round: bool,
    finish_reason: &'static str,
    usage: Option<Usage>,
}

impl ChatWriter {
    pub(super) fn new(head: ResponseHead) -> ChatWriter {
        ChatWriter {
            head,
            text: String::new(),
            reasoning: String::new(),
            refusal: String::new(),
            calls: Vec::new(),
            server_calls: Vec::new(),
            is_new_round: false,
            finish_reason: "stop",
            usage: None,
        }
    }

    fn chunk(&self, choices: Value) -> Value {
        json!({
            "id": self.head.id,
            "object": "chat.completion.chunk",
            "created": self.head.created,
            "model": self.head.model,
            "choices": choices,
        })
    }

    fn delta(&self, delta: Value) -> Vec<StreamEvent> {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": null});
        vec![StreamEvent::json(None, self.chunk(json!([choice])))]
    }

    fn call(&mut self, call: Value) -> Vec<StreamEvent> {
        if self.head.has_functions {
            let is_first = self.calls.is_empty();
            let delta = json!({"function_call": call["function"]});
            self.calls.extend(is_first.then_some(call));
            return if is_first { self.delta(delta) } else { Vec::new() };
        }
        let mut delta = call.clone();
        delta["index"] = json!(self.calls.len());
        self.calls.push(call);
        self.delta(json!({"tool_calls": [delta]}))
    }

    fn finish(&mut self, stop: &StopReason, usage: Option<Usage>) -> Vec<StreamEvent> {
        self.finish_reason = match stop {
            StopReason::Length => "length",
            _ if !self.calls.is_empty() && self.head.has_functions => "function_call",
            _ if !self.calls.is_empty() => "tool_calls",
            StopReason::Refusal if self.refusal.is_empty() => "content_filter",
            _ => "stop",
        };
        self.usage = usage;
        let choice = json!({"index": 0, "delta": {}, "logprobs": null, "finish_reason": self.finish_reason});
        let mut events = vec![StreamEvent::json(None, self.chunk(json!([choice])))];
        if self.head.stream_usage {
            let mut chunk = self.chunk(json!([]));
            chunk["usage"] = usage.map_or(Value::Null, |usage| write_usage(&usage));
            events.push(StreamEvent::json(None, chunk));
        }
        events.push(StreamEvent { name: None, data: StreamData::EndMarker });
        events
    }
}

impl ClientWriter for ChatWriter {
    fn start(&mut self) -> Vec<StreamEvent> {
        self.delta(json!({"role": "assistant", "content": "", "refusal": null}))
    }

    fn event(&mut self, event: &ClientEvent) -> Vec<StreamEvent> {
        match event {
            ClientEvent::Text(fragment) => {
                let is_new_round = std::mem::take(&mut self.is_new_round) && !self.text.is_empty();
                let fragment = if is_new_round { format!("\n\n{fragment}") } else { fragment.clone() };
                self.text.push_str(&fragment);
                self.delta(json!({"content": fragment}))
            }
            ClientEvent::Thinking(fragment) if self.head.shows_thinking => {
                self.reasoning.push_str(fragment);
                self.delta(json!({"reasoning_content": fragment}))
            }
            ClientEvent::Thinking(_) => Vec::new(),
            ClientEvent::Refusal(text) => {
                self.refusal.push_str(text);
                self.delta(json!({"refusal": text}))
            }
            ClientEvent::Call { id, name, arguments } if self.head.is_custom(name) => {
                self.event(&ClientEvent::CustomCall {
                    id: id.clone(),
                    name: name.clone(),
                    input: custom_input(arguments),
                })
            }
            ClientEvent::Call { id, name, arguments } => {
                let arguments = Value::Object(arguments.clone()).to_string();
                let function = json!({"name": name, "arguments": arguments});
                self.call(json!({"id": id, "type": "function", "function": function}))
            }
            ClientEvent::CustomCall { id, name, input } => {
                self.call(json!({"id": id, "type": "custom", "custom": {"name": name, "input": input}}))
            }
            ClientEvent::ServerCall(call) if self.head.shows_server_calls => {
                let shown = json!({
                    "server": call.server, "name": call.name, "arguments": call.arguments,
                    "isError": call.result.is_error(), "output": call.result_text(),
                });
                self.server_calls.push(shown.clone());
                // Clients ignore a key that is not in the delta.
                let choice = json!({"index": 0, "delta": {}, "logprobs": null, "finish_reason": null});
                let mut chunk = self.chunk(json!([choice]));
                chunk["toolwire"] = json!({"calls": [shown]});
                vec![StreamEvent::json(None, chunk)]
            }
            ClientEvent::ServerCall(_)
            | ClientEvent::ServerTools { .. }
            | ClientEvent::ServerUnavailable { .. }
            | ClientEvent::ApprovalRequest { .. } => Vec::new(),
            ClientEvent::RoundFinished => {
                self.is_new_round = true;
                Vec::new()
            }
            ClientEvent::Done { stop, usage } => self.finish(stop, *usage),
            ClientEvent::Failed(error) => vec![error.event(Family::OpenAiChat, "")],
        }
    }

    fn body(&self) -> Value {
        let mut message = Map::new();
        message.set("role", "assistant");
        let content = (!self.text.is_empty()).then(|| self.text.clone());
        message.set("content", content.map_or(Value::Null, Value::from));
        let refusal = (!self.refusal.is_empty()).then(|| self.refusal.clone());
        message.set("refusal", refusal.map_or(Value::Null, Value::from));
        message.set("annotations", json!([]));
        message.set_some("reasoning_content", (!self.reasoning.is_empty()).then(|| self.reasoning.clone()));
        match self.calls.first() {
            Some(call) if self.head.has_functions => message.set("function_call", call["function"].clone()),
            Some(_) => message.set("tool_calls", self.calls.clone()),
            None => {}
        }
        let choice =
            json!({"index": 0, "message": message, "logprobs": null, "finish_reason": self.finish_reason});
        let mut body = json!({
            "id": self.head.id,
            "object": "chat.completion",
            "created": self.head.created,
            "model": self.head.model,
            "system_fingerprint": null,
            "choices": [choice],
        });
        if let Some(usage) = &self.usage {
            body["usage"] = write_usage(usage);
        }
        if !self.server_calls.is_empty() {
            body["toolwire"] = json!({"calls": self.server_calls});
        }
        body
    }
}

fn write_usage(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens.saturating_add(usage.output_tokens),
        "prompt_tokens_details": {
            "cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.cache_write_tokens, "audio_tokens": 0,
        },
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens, "audio_tokens": 0},
    })
}
