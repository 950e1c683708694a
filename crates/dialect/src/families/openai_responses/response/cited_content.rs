//! Citations, generated images, and the items of tools that the provider runs.

use serde_json::{Value, json};
use toolwire_contract::Content;
use toolwire_contract::model::ModelEvent;

use super::OutputItem;
use crate::Family;
use crate::response::ResponseParts;

impl OutputItem {
    /// Emits the citations of a complete message that had no events of their own, the image of a complete
    /// item, or a complete item that only this API has.
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
                    let mut content = Content::image(data, mime_type);
                    if let Content::Image { extra, .. } = &mut content {
                        // Clients of this API get the item itself.
                        let mut item = self.fields.clone();
                        item.insert("result".to_owned(), Value::Null);
                        let family = Family::OpenAiResponses.meta_key();
                        extra.insert("_meta".to_owned(), json!({family: item}));
                    }
                    response.events.push(ModelEvent::Media(content));
                    self.emitted = 1;
                }
            }
            Some("reasoning" | "function_call" | "custom_tool_call") | None => {}
            // The gateway has items of these types for its own calls.
            Some(kind) if kind.starts_with("mcp_") => {}
            Some(_) if self.emitted == 0 && self.call.is_none() => {
                let family = Family::OpenAiResponses.meta_key();
                response.emit_provider_part(family, Value::Object(self.fields.clone()));
                self.emitted = 1;
            }
            Some(_) => {}
        }
    }
}
