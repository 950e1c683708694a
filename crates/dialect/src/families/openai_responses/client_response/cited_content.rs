//! Citations, and generated images.

use serde_json::{Value, json};
use toolwire_contract::Content;
use toolwire_contract::model::Citation;

use super::super::item_names::OpenItem;
use super::ItemWriter;
use crate::Family;
use crate::client::{Annotations, StreamEvent, media_note};

impl ItemWriter {
    /// Adds a citation to the current text, which may not have begun.
    pub(super) fn cite(&mut self, citation: &Citation) -> Vec<StreamEvent> {
        if !Annotations::can_express(citation) {
            self.has_omitted_citations = true;
            return Vec::new();
        }
        let is_open = self.open == Some(OpenItem::Text);
        let events = if is_open { Vec::new() } else { self.append(OpenItem::Text, "") };
        self.citations.add(citation);
        events
    }

    /// Ends the text of an item: adds its citations.
    pub(super) fn annotations(&mut self, index: usize) -> Vec<StreamEvent> {
        let mut events = Vec::new();
        for (position, annotation) in std::mem::take(&mut self.citations).finish().iter().enumerate() {
            let mut fields = json!({
                "item_id": self.items[index]["id"], "output_index": index, "content_index": 0,
                "annotation_index": position,
            });
            fields["annotation"] = annotation.clone();
            events.push(self.event("response.output_text.annotation.added", fields));
            if let Value::Array(annotations) = &mut self.items[index]["content"][0]["annotations"] {
                annotations.push(annotation.clone());
            }
        }
        events
    }

    /// Adds a generated image as an item.
    pub(super) fn media(&mut self, content: &Content) -> Vec<StreamEvent> {
        let Content::Image { data, mime_type, extra } = content else {
            let mut events = self.close();
            let note = "the model generated it; this API cannot return it";
            events.extend(self.append(OpenItem::Text, &media_note(content, note)));
            events.extend(self.close());
            return events;
        };
        let family = Family::OpenAiResponses.meta_key();
        if let Some(item) = extra.get("_meta").and_then(|meta| meta.get(family)) {
            let mut item = item.clone();
            item["result"] = json!(data);
            return self.provider_item(&item);
        }
        let id = self.next_id("ig");
        let format = mime_type.split_once('/').map_or("png", |(_, format)| format);
        let item = |status: &str, result: Option<&str>| {
            json!({
                "id": id, "type": "image_generation_call", "status": status, "result": result, "output_format": format,
            })
        };
        let middle = vec![
            ("response.image_generation_call.in_progress", json!({})),
            ("response.image_generation_call.completed", json!({})),
        ];
        self.complete_item(item("in_progress", None), middle, item("completed", Some(data)))
    }
}
