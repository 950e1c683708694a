//! Responses of OpenAI's Responses API.
//!
//! Rules in `docs/providers.md`: `openai-responses/stream`, `openai-responses/reasoning`.

use serde_json::{Value, json};

use crate::provider::json::extended;
use crate::provider::output::{FinishReason, pieces};
use crate::provider::render::named_event;
use crate::provider::{ModelOutput, TokenCounts, opaque_token};

/// Renders a `response` object. Reasoning has its encrypted content when the request includes it.
pub(in crate::provider) fn complete_body(output: &ModelOutput, with_encrypted: bool) -> Value {
    response(output, output_items(output, with_encrypted), status(output).0)
}

/// Renders the events of a stream.
pub(in crate::provider) fn stream_events(output: &ModelOutput, with_encrypted: bool) -> Vec<Vec<u8>> {
    let mut events = NumberedEvents::default();
    let started = response(output, Vec::new(), "in_progress");
    events.push("response.created", json!({"response": started}));
    events.push("response.in_progress", json!({"response": started}));
    let items = output_items(output, with_encrypted);
    for (index, item) in items.iter().enumerate() {
        events.item(index, item);
    }
    let (status, _) = status(output);
    if let Some(error) = &output.stream_error {
        events.push("error", json!({"code": error.kind, "message": error.message, "param": null}));
        let mut failed = response(output, items, "failed");
        failed["error"] = json!({"code": error.kind, "message": error.message});
        events.push("response.failed", json!({"response": failed}));
    } else {
        events.push(&format!("response.{status}"), json!({"response": response(output, items, status)}));
    }
    events.written
}

/// Events with names and sequence numbers.
#[derive(Default)]
struct NumberedEvents {
    written: Vec<Vec<u8>>,
}

impl NumberedEvents {
    fn push(&mut self, name: &str, fields: Value) {
        let number = json!({"sequence_number": self.written.len()});
        self.written.push(named_event(name, extended(number, fields)));
    }

    /// Adds all events of an item.
    fn item(&mut self, output_index: usize, item: &Value) {
        let id = item["id"].clone();
        let mut started = item.clone();
        started["status"] = "in_progress".into();
        match item["type"].as_str() {
            Some("function_call") => started["arguments"] = "".into(),
            Some("reasoning") => started["summary"] = json!([]),
            Some("web_search_call") => {}
            _ => started["content"] = json!([]),
        }
        self.push("response.output_item.added", json!({"output_index": output_index, "item": started}));
        match item["type"].as_str() {
            Some("function_call") => {
                let arguments = item["arguments"].as_str().unwrap_or_default();
                let name = "response.function_call_arguments";
                for piece in pieces(arguments) {
                    let delta = json!({"item_id": id, "output_index": output_index, "delta": piece});
                    self.push(&format!("{name}.delta"), delta);
                }
                let done = json!({"item_id": id, "output_index": output_index, "arguments": arguments, "name": item["name"]});
                self.push(&format!("{name}.done"), done);
            }
            Some("web_search_call") => {
                for stage in ["in_progress", "searching", "completed"] {
                    let position = json!({"item_id": id, "output_index": output_index});
                    self.push(&format!("response.web_search_call.{stage}"), position);
                }
            }
            Some("reasoning") => {
                let parts = item["summary"].as_array().into_iter().flatten();
                for (index, part) in parts.enumerate() {
                    let position =
                        json!({"item_id": id, "output_index": output_index, "summary_index": index});
                    self.part(
                        "response.reasoning_summary_part",
                        "response.reasoning_summary_text",
                        "text",
                        &position,
                        part,
                    );
                }
            }
            _ => {
                let parts = item["content"].as_array().into_iter().flatten();
                for (index, part) in parts.enumerate() {
                    let position =
                        json!({"item_id": id, "output_index": output_index, "content_index": index});
                    if part["type"] == "refusal" {
                        self.part("response.content_part", "response.refusal", "refusal", &position, part);
                    } else {
                        self.part("response.content_part", "response.output_text", "text", &position, part);
                    }
                }
            }
        }
        self.push("response.output_item.done", json!({"output_index": output_index, "item": item}));
    }

    /// Adds all events of a part; `position` holds the ids and indexes that each event repeats.
    fn part(&mut self, part_event: &str, text_event: &str, key: &str, position: &Value, part: &Value) {
        let with = |fields: Value| extended(position.clone(), fields);
        let text = part[key].as_str().unwrap_or_default();
        let mut started = part.clone();
        started[key] = "".into();
        self.push(&format!("{part_event}.added"), with(json!({"part": started})));
        // Only the text of a message has probabilities.
        let with_logprobs = |fields: Value| match text_event {
            "response.output_text" => with(extended(fields, json!({"logprobs": []}))),
            _ => with(fields),
        };
        for piece in pieces(text) {
            self.push(&format!("{text_event}.delta"), with_logprobs(json!({"delta": piece})));
        }
        self.push(&format!("{text_event}.done"), with_logprobs(json!({key: text})));
        self.push(&format!("{part_event}.done"), with(json!({"part": part})));
    }
}

fn output_items(output: &ModelOutput, with_encrypted: bool) -> Vec<Value> {
    let mut items = Vec::new();
    let has_reasoning = output.thinking.is_some() || output.hidden_thinking;
    let thinking = output.thinking.as_deref().unwrap_or_default();
    // The id of an item names the reasoning it belongs to; `items::check_preceding_reasoning` reads it.
    let reasoning_id = opaque_token::digest("reasoning", thinking);
    let item_id = |prefix: &str, number: usize| {
        if has_reasoning { format!("{prefix}_{reasoning_id}_{number}") } else { format!("{prefix}_{number}") }
    };
    if has_reasoning {
        let summary: Vec<Value> =
            output.thinking.iter().map(|text| json!({"type": "summary_text", "text": text})).collect();
        let mut item = json!({"type": "reasoning", "id": format!("rs_{reasoning_id}"), "summary": summary});
        if with_encrypted {
            item["encrypted_content"] = opaque_token::issue("reasoning", &reasoning_id).into();
        }
        items.push(item);
    }
    items.extend(output.searches.iter().enumerate().map(|(number, query)| {
        let action = json!({"type": "search", "query": query});
        json!({"type": "web_search_call", "id": item_id("ws", number), "status": "completed", "action": action})
    }));
    let annotations: Vec<Value> = output.searches.last().map(|_| citation()).into_iter().collect();
    let mut content: Vec<Value> = Vec::new();
    content.extend(output.text.iter().map(
        |text| json!({"type": "output_text", "text": text, "annotations": annotations, "logprobs": []}),
    ));
    content.extend(output.refusal.iter().map(|refusal| json!({"type": "refusal", "refusal": refusal})));
    let (status, _) = status(output);
    if !content.is_empty() {
        items.push(json!({
            "type": "message", "id": item_id("msg", 0), "status": status, "role": "assistant", "content": content,
        }));
    }
    items.extend(output.calls.iter().enumerate().map(|(number, call)| {
        json!({
            "type": "function_call", "id": item_id("fc", number), "call_id": call.id, "name": call.name,
            "arguments": call.arguments, "status": status,
        })
    }));
    items
}

/// Returns the citation of a text that follows a search.
fn citation() -> Value {
    json!({"type": "url_citation", "start_index": 0, "end_index": 1, "url": "https://example.com/page", "title": "A page"})
}

/// Returns the `status`, and the reason when it is not `completed`.
fn status(output: &ModelOutput) -> (&'static str, Option<String>) {
    match output.finish_reason() {
        FinishReason::End | FinishReason::Calls => ("completed", None),
        FinishReason::Length => ("incomplete", Some("max_output_tokens".to_owned())),
        FinishReason::Refusal => ("incomplete", Some("content_filter".to_owned())),
        FinishReason::Other(reason) => ("incomplete", Some(reason)),
    }
}

fn response(output: &ModelOutput, items: Vec<Value>, status_value: &str) -> Value {
    let is_complete = status_value != "in_progress";
    let details = status(output).1.filter(|_| is_complete).map(|reason| json!({"reason": reason}));
    json!({
        "id": "resp_1", "object": "response", "created_at": 1_790_000_000, "status": status_value, "error": null,
        "incomplete_details": details, "instructions": null, "max_output_tokens": null, "model": "scripted",
        "output": items, "parallel_tool_calls": true, "previous_response_id": null,
        "reasoning": {"effort": null, "summary": null}, "store": true, "temperature": 1.0,
        "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [], "top_p": 1.0,
        "truncation": "disabled", "usage": is_complete.then(|| usage(output.usage)), "user": null, "metadata": {},
    })
}

fn usage(tokens: TokenCounts) -> Value {
    json!({
        "input_tokens": tokens.input,
        "input_tokens_details": {"cached_tokens": tokens.cached, "cache_write_tokens": tokens.written},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.thinking},
        "total_tokens": tokens.input + tokens.output,
    })
}
