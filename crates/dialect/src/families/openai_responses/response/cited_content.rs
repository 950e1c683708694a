//! Citations and generated images in complete items.

use serde_json::Value;
use toolwire_contract::Content;
use toolwire_contract::model::ModelEvent;

use super::OutputItem;
use crate::Family;
use crate::response::ResponseParts;

impl OutputItem {
    /// Emits the citations of a complete message that had no events of their own, or the image of a complete
    /// item.
    pub(super) fn emit_rest(&mut self, response: &mut ResponseParts) {
        let of = |part: &Value, key: &str| part[key].as_array().cloned().unwrap_or_default();
        match self.fields.get("type").and_then(Value::as_str) {
            Some("message") => {
                let content = self.fields.get("content").and_then(Value::as_array).into_iter().flatten();
                let citations: Vec<Value> = content.flat_map(|part| of(part, "annotations")).collect();
                for citation in citations.iter().skip(self.emitted) {
                    response.emit_citation(Family::OpenAiResponses.meta_key(), citation.clone());
                }
                self.emitted = self.emitted.max(citations.len());
            }
            Some("image_generation_call") if self.emitted == 0 => {
                let text = |key: &str| self.fields.get(key).and_then(Value::as_str);
                if let Some(data) = text("result").filter(|data| !data.is_empty()) {
                    let mime_type = format!("image/{}", text("output_format").unwrap_or("png"));
                    response.events.push(ModelEvent::Media(Content::image(data, mime_type)));
                    self.emitted = 1;
                }
            }
            _ => {}
        }
    }
}
