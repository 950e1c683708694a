//! The part of a response of the Responses API that another process has written, read from the events of its
//! stream.

use serde_json::{Value, json};

/// The items of a response so far, and the number of its next event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WrittenResponse {
    pub(crate) items: Vec<Value>,
    /// Whether the last item has no end.
    pub(crate) is_open: bool,
    /// The number of the next event; 0 if the response has not begun.
    pub(crate) sequence: u64,
}

impl WrittenResponse {
    /// Returns the items so far. The last one may have no end.
    pub fn items(&self) -> &[Value] {
        &self.items
    }

    /// Reads the next event.
    pub fn read(&mut self, event: &Value) {
        if let Some(number) = event["sequence_number"].as_u64() {
            self.sequence = number.saturating_add(1);
        }
        let kind = event["type"].as_str().unwrap_or_default();
        match kind {
            "response.output_item.added" => {
                self.items.push(event["item"].clone());
                self.is_open = true;
            }
            "response.output_item.done" => {
                if let Some(last) = self.items.last_mut() {
                    last.clone_from(&event["item"]);
                }
                self.is_open = false;
            }
            "response.content_part.added" => self.begin_part("content", &event["part"]),
            "response.reasoning_summary_part.added" => self.begin_part("summary", &event["part"]),
            "response.output_text.delta" => self.append("content", "text", &event["delta"]),
            "response.refusal.delta" => self.append("content", "refusal", &event["delta"]),
            "response.reasoning_summary_text.delta" => self.append("summary", "text", &event["delta"]),
            _ => {}
        }
    }

    fn begin_part(&mut self, key: &str, part: &Value) {
        if let Some(item) = self.items.last_mut().and_then(Value::as_object_mut) {
            item.insert(key.to_owned(), json!([part]));
        }
    }

    fn append(&mut self, parts: &str, key: &str, delta: &Value) {
        let part = self.items.last_mut().and_then(|item| item.get_mut(parts)?.get_mut(0)?.get_mut(key));
        if let (Some(Value::String(text)), Some(delta)) = (part, delta.as_str()) {
            text.push_str(delta);
        }
    }
}
