//! Writes Chat Completions responses and streams for clients.

use serde_json::{Map, Value, json};
use toolwire_contract::Content;
use toolwire_contract::model::{Citation, ResponseDetails, StopReason, Usage};

use crate::Family;
use crate::client::{
    Annotations, ClientEvent, ClientWriter, OPENAI_TIERS, ResponseHead, StreamData, StreamEvent,
    custom_input, known_tier, media_note,
};
use crate::request::SetFields;

/// A response that is being written.
#[derive(Debug)]
pub(super) struct ChatWriter {
    head: ResponseHead,
    text: String,
    reasoning: String,
    refusal: String,
    calls: Vec<Value>,
    citations: Annotations,
    /// The citations that precede the text of a new round.
    early_citations: Vec<Citation>,
    /// The citations in the format of this API, at the end.
    annotations: Vec<Value>,
    has_omitted_citations: bool,
    /// Generated images. The API has no format for them; several servers and clients use this one.
    images: Vec<Value>,
    details: ResponseDetails,
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
            citations: Annotations::default(),
            early_citations: Vec::new(),
            annotations: Vec::new(),
            has_omitted_citations: false,
            images: Vec::new(),
            details: ResponseDetails::default(),
            server_calls: Vec::new(),
            is_new_round: false,
            finish_reason: "stop",
            usage: None,
        }
    }

    fn chunk(&self, choices: Value) -> Value {
        let mut chunk = json!({
            "id": self.head.id,
            "object": "chat.completion.chunk",
            "created": self.head.created,
            "model": self.head.model,
            "choices": choices,
        });
        self.add_details(&mut chunk);
        chunk
    }

    fn add_details(&self, body: &mut Value) {
        if let Some(fingerprint) = &self.details.system_fingerprint {
            body["system_fingerprint"] = json!(fingerprint);
        }
        if let Some(tier) = known_tier(&self.details, &OPENAI_TIERS) {
            body["service_tier"] = json!(tier);
        }
    }

    /// Returns the text between the text of earlier rounds and that of a new one.
    fn separator(&self) -> &'static str {
        if self.is_new_round && !self.text.is_empty() { "\n\n" } else { "" }
    }

    /// Starts the text of a round, and adds the citations that precede it.
    fn begin_round(&mut self) {
        self.citations.begin_round();
        for citation in self.early_citations.drain(..) {
            self.citations.add(&citation);
        }
    }

    /// Adds a fragment. A new round starts after a separator of this size.
    fn append(&mut self, fragment: &str, separator_bytes: usize) -> Vec<StreamEvent> {
        let (separator, text) = fragment.split_at(separator_bytes);
        if !separator.is_empty() {
            self.citations.add_text(separator);
            self.begin_round();
        }
        self.citations.add_text(text);
        self.text.push_str(fragment);
        self.delta(json!({"content": fragment}))
    }

    fn media(&mut self, content: &Content) -> Vec<StreamEvent> {
        let Content::Image { data, mime_type, .. } = content else {
            return self.append(&media_note(content, "the model generated it; this API cannot return it"), 0);
        };
        let mut image =
            json!({"type": "image_url", "image_url": {"url": format!("data:{mime_type};base64,{data}")}});
        let mut events = self.append(&media_note(content, "see `images`"), 0);
        // Clients append the entries of a list only if they have an index.
        let index = self.images.len();
        self.images.push(image.clone());
        image["index"] = json!(index);
        events.extend(self.delta(json!({"images": [image]})));
        events
    }

    /// Returns the event with all citations: some clients only keep the last such list.
    fn annotations(&mut self) -> Vec<StreamEvent> {
        let nested = |citation: &Value| {
            let kind = citation["type"].as_str().unwrap_or_default().to_owned();
            let mut fields = citation.clone();
            if let Value::Object(fields) = &mut fields {
                fields.shift_remove("type");
            }
            json!({"type": kind, kind: fields})
        };
        if !self.early_citations.is_empty() {
            self.begin_round();
        }
        self.annotations = self.citations.finish().iter().map(nested).collect();
        if self.annotations.is_empty() {
            return Vec::new();
        }
        let with_index = |(index, annotation): (usize, &Value)| {
            let mut annotation = annotation.clone();
            annotation["index"] = json!(index);
            annotation
        };
        let annotations: Vec<Value> = self.annotations.iter().enumerate().map(with_index).collect();
        self.delta(json!({"annotations": annotations}))
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
            StopReason::Length | StopReason::Paused => "length",
            _ if !self.calls.is_empty() && self.head.has_functions => "function_call",
            _ if !self.calls.is_empty() => "tool_calls",
            StopReason::Refusal if self.refusal.is_empty() => "content_filter",
            _ => "stop",
        };
        self.usage = usage;
        let mut events = self.annotations();
        let choice = json!({"index": 0, "delta": {}, "logprobs": null, "finish_reason": self.finish_reason});
        events.push(StreamEvent::json(None, self.chunk(json!([choice]))));
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
                let separator = self.separator();
                self.is_new_round = false;
                self.append(&format!("{separator}{fragment}"), separator.len())
            }
            ClientEvent::TextPart => {
                self.citations.begin_part();
                Vec::new()
            }
            ClientEvent::Citation(citation) => {
                if !Annotations::has_url(citation) {
                    self.has_omitted_citations = true;
                    return Vec::new();
                }
                match self.separator() {
                    "" => self.citations.add(citation),
                    // The round may have no text.
                    _ => self.early_citations.push(citation.clone()),
                }
                Vec::new()
            }
            ClientEvent::Media(content) => self.media(content),
            ClientEvent::Details(details) => {
                self.details.clone_from(details);
                Vec::new()
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
            | ClientEvent::ProviderPart(_)
            | ClientEvent::Usage(_)
            | ClientEvent::Cancelled
            | ClientEvent::ApprovalRequest { .. } => Vec::new(),
            ClientEvent::RoundFinished => {
                self.citations.begin_part();
                self.is_new_round = true;
                Vec::new()
            }
            ClientEvent::Done { stop, usage } => self.finish(stop, *usage),
            ClientEvent::Failed(error) => vec![error.event(Family::OpenAiChat, "", 0)],
        }
    }

    fn body(&self) -> Value {
        let mut message = Map::new();
        message.set("role", "assistant");
        // OpenAI's API requires content in a message of the history that has no calls.
        let has_content = !self.text.is_empty() || (self.calls.is_empty() && self.refusal.is_empty());
        let content = has_content.then(|| self.text.clone());
        message.set("content", content.map_or(Value::Null, Value::from));
        let refusal = (!self.refusal.is_empty()).then(|| self.refusal.clone());
        message.set("refusal", refusal.map_or(Value::Null, Value::from));
        message.set("annotations", self.annotations.clone());
        message.set_some("images", (!self.images.is_empty()).then(|| self.images.clone()));
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
        self.add_details(&mut body);
        if let Some(usage) = &self.usage {
            body["usage"] = write_usage(usage);
        }
        if !self.server_calls.is_empty() {
            body["toolwire"] = json!({"calls": self.server_calls});
        }
        body
    }

    fn has_omitted_citations(&self) -> bool {
        self.has_omitted_citations
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
