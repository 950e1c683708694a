//! Items that only this API has, such as the calls of a web search that the provider has made.

use serde_json::{Value, json};
use toolwire_contract::model::ProviderPart;

use super::ItemWriter;
use crate::Family;
use crate::client::StreamEvent;

impl ItemWriter {
    /// Adds an item of this API as the provider has written it.
    pub(super) fn provider_part(&mut self, part: &ProviderPart) -> Vec<StreamEvent> {
        match part.family == Family::OpenAiResponses.meta_key() {
            true => self.provider_item(&part.value),
            false => Vec::new(),
        }
    }

    pub(super) fn provider_item(&mut self, item: &Value) -> Vec<StreamEvent> {
        self.complete_item(begun(item), progress(item), item.clone())
    }
}

/// Returns an item as its first event contains it: without the parts that follow in later events.
fn begun(item: &Value) -> Value {
    let mut begun = item.clone();
    for (key, value) in [
        ("status", json!("in_progress")),
        ("code", json!("")),
        ("outputs", Value::Null),
        ("results", Value::Null),
        ("result", Value::Null),
    ] {
        if let Some(known) = begun.get_mut(key) {
            *known = value;
        }
    }
    begun
}

/// Returns the events between the beginning and the end of an item.
fn progress(item: &Value) -> Vec<(&'static str, Value)> {
    let is_completed = item.get("status").is_none_or(|status| status == "completed");
    let names: [&'static str; 3] = match item.get("type").and_then(Value::as_str) {
        Some("web_search_call") => [
            "response.web_search_call.in_progress",
            "response.web_search_call.searching",
            "response.web_search_call.completed",
        ],
        Some("file_search_call") => [
            "response.file_search_call.in_progress",
            "response.file_search_call.searching",
            "response.file_search_call.completed",
        ],
        Some("code_interpreter_call") => [
            "response.code_interpreter_call.in_progress",
            "response.code_interpreter_call.interpreting",
            "response.code_interpreter_call.completed",
        ],
        Some("image_generation_call") => [
            "response.image_generation_call.in_progress",
            "response.image_generation_call.generating",
            "response.image_generation_call.completed",
        ],
        // Clients reject events that they do not know.
        _ => return Vec::new(),
    };
    let mut events: Vec<(&'static str, Value)> = names.map(|name| (name, json!({}))).into();
    if let Some(code) = item.get("code").and_then(Value::as_str) {
        let code = [
            ("response.code_interpreter_call_code.delta", json!({"delta": code})),
            ("response.code_interpreter_call_code.done", json!({"code": code})),
        ];
        events.splice(1..1, code);
    }
    if !is_completed {
        events.pop();
    }
    events
}
