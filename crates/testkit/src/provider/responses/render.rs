//! What a model behind Responses answers.

use serde_json::{Value, json};

use crate::provider::said::{Stop, pieces};
use crate::provider::{Said, Tokens, seal};

/// A `response` object. Reasoning has its encrypted content when the request asked to include it.
pub(in crate::provider) fn whole(said: &Said, with_encrypted: bool) -> Value {
    response(said, items(said, with_encrypted), status(said).0)
}

/// The events of a stream.
pub(in crate::provider) fn stream(said: &Said, with_encrypted: bool) -> Vec<Vec<u8>> {
    let mut events = Events::default();
    let begun = response(said, Vec::new(), "in_progress");
    events.push("response.created", json!({"response": begun}));
    events.push("response.in_progress", json!({"response": begun}));
    let items = items(said, with_encrypted);
    for (index, item) in items.iter().enumerate() {
        events.item(index, item);
    }
    let (status, _) = status(said);
    if let Some(fault) = &said.fault {
        events.push("error", json!({"code": fault.kind, "message": fault.message, "param": null}));
        let mut failed = response(said, items, "failed");
        failed["error"] = json!({"code": fault.kind, "message": fault.message});
        events.push("response.failed", json!({"response": failed}));
    } else {
        events.push(&format!("response.{status}"), json!({"response": response(said, items, status)}));
    }
    events.written
}

/// Numbered events with names.
#[derive(Default)]
struct Events {
    written: Vec<Vec<u8>>,
}

impl Events {
    fn push(&mut self, name: &str, fields: Value) {
        let mut event = json!({"type": name, "sequence_number": self.written.len()});
        if let (Some(event), Value::Object(fields)) = (event.as_object_mut(), fields) {
            event.extend(fields);
        }
        self.written.push(format!("event: {name}\ndata: {event}\n\n").into_bytes());
    }

    /// An item from its beginning to its end.
    fn item(&mut self, output: usize, item: &Value) {
        let id = item["id"].clone();
        let mut begun = item.clone();
        begun["status"] = "in_progress".into();
        match item["type"].as_str() {
            Some("function_call") => begun["arguments"] = "".into(),
            Some("reasoning") => begun["summary"] = json!([]),
            _ => begun["content"] = json!([]),
        }
        self.push("response.output_item.added", json!({"output_index": output, "item": begun}));
        match item["type"].as_str() {
            Some("function_call") => {
                let arguments = item["arguments"].as_str().unwrap_or_default();
                let name = "response.function_call_arguments";
                for piece in pieces(arguments) {
                    let delta = json!({"item_id": id, "output_index": output, "delta": piece});
                    self.push(&format!("{name}.delta"), delta);
                }
                let done = json!({"item_id": id, "output_index": output, "arguments": arguments, "name": item["name"]});
                self.push(&format!("{name}.done"), done);
            }
            Some("reasoning") => {
                let parts = item["summary"].as_array().into_iter().flatten();
                for (index, part) in parts.enumerate() {
                    let at = json!({"item_id": id, "output_index": output, "summary_index": index});
                    self.part(
                        "response.reasoning_summary_part",
                        "response.reasoning_summary_text",
                        "text",
                        &at,
                        part,
                    );
                }
            }
            _ => {
                let parts = item["content"].as_array().into_iter().flatten();
                for (index, part) in parts.enumerate() {
                    let at = json!({"item_id": id, "output_index": output, "content_index": index});
                    if part["type"] == "refusal" {
                        self.part("response.content_part", "response.refusal", "refusal", &at, part);
                    } else {
                        self.part("response.content_part", "response.output_text", "text", &at, part);
                    }
                }
            }
        }
        self.push("response.output_item.done", json!({"output_index": output, "item": item}));
    }

    fn part(&mut self, around: &str, inside: &str, key: &str, at: &Value, part: &Value) {
        let with = |fields: Value| {
            let mut event = at.clone();
            if let (Some(event), Value::Object(fields)) = (event.as_object_mut(), fields) {
                event.extend(fields);
            }
            event
        };
        let text = part[key].as_str().unwrap_or_default();
        let mut begun = part.clone();
        begun[key] = "".into();
        self.push(&format!("{around}.added"), with(json!({"part": begun})));
        for piece in pieces(text) {
            self.push(&format!("{inside}.delta"), with(json!({"delta": piece})));
        }
        self.push(&format!("{inside}.done"), with(json!({key: text})));
        self.push(&format!("{around}.done"), with(json!({"part": part})));
    }
}

fn items(said: &Said, with_encrypted: bool) -> Vec<Value> {
    let mut items = Vec::new();
    let has_reasoning = said.thinking.is_some() || said.hidden_thinking;
    let thinking = said.thinking.as_deref().unwrap_or_default();
    // The id of an item tells the reasoning it belongs to; see `items::has_its_reasoning`.
    let mark = seal::digest("reasoning", thinking);
    let of = |kind: &str, number: usize| {
        if has_reasoning { format!("{kind}_{mark}_{number}") } else { format!("{kind}_{number}") }
    };
    if has_reasoning {
        let summary: Vec<Value> =
            said.thinking.iter().map(|text| json!({"type": "summary_text", "text": text})).collect();
        let mut item = json!({"type": "reasoning", "id": format!("rs_{mark}"), "summary": summary});
        if with_encrypted {
            item["encrypted_content"] = seal::seal("reasoning", &mark).into();
        }
        items.push(item);
    }
    let mut content: Vec<Value> = Vec::new();
    content.extend(
        said.text
            .iter()
            .map(|text| json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})),
    );
    content.extend(said.refusal.iter().map(|refusal| json!({"type": "refusal", "refusal": refusal})));
    let (status, _) = status(said);
    if !content.is_empty() {
        items.push(json!({
            "type": "message", "id": of("msg", 0), "status": status, "role": "assistant", "content": content,
        }));
    }
    items.extend(said.calls.iter().enumerate().map(|(number, call)| {
        json!({
            "type": "function_call", "id": of("fc", number), "call_id": call.id, "name": call.name,
            "arguments": call.arguments, "status": status,
        })
    }));
    items
}

/// `status`, and why it is not `completed`.
fn status(said: &Said) -> (&'static str, Option<String>) {
    match said.why() {
        Stop::End | Stop::Calls => ("completed", None),
        Stop::Length => ("incomplete", Some("max_output_tokens".to_owned())),
        Stop::Refusal => ("incomplete", Some("content_filter".to_owned())),
        Stop::Other(word) => ("incomplete", Some(word)),
    }
}

fn response(said: &Said, output: Vec<Value>, status_word: &str) -> Value {
    let is_over = status_word != "in_progress";
    let details = status(said).1.filter(|_| is_over).map(|reason| json!({"reason": reason}));
    json!({
        "id": "resp_1", "object": "response", "created_at": 1_790_000_000, "status": status_word, "error": null,
        "incomplete_details": details, "instructions": null, "max_output_tokens": null, "model": "scripted",
        "output": output, "parallel_tool_calls": true, "previous_response_id": null,
        "reasoning": {"effort": null, "summary": null}, "store": true, "temperature": 1.0,
        "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [], "top_p": 1.0,
        "truncation": "disabled", "usage": is_over.then(|| usage(said.usage)), "user": null, "metadata": {},
    })
}

fn usage(tokens: Tokens) -> Value {
    json!({
        "input_tokens": tokens.input,
        "input_tokens_details": {"cached_tokens": tokens.cached},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.thinking},
        "total_tokens": tokens.input + tokens.output,
    })
}
