//! The blocks of a message that an item becomes.

use serde_json::{Value, json};

use super::OutputItem;
use crate::response::PartialBlock;

/// Returns the blocks of an item, which may be incomplete.
pub(super) fn blocks(item: &OutputItem) -> Vec<PartialBlock> {
    if let Some(call) = item.call {
        return vec![PartialBlock::Call(call)];
    }
    let fields = &item.fields;
    let list = |key: &str| fields.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let text_block = |text: &str, provider_data| PartialBlock::Text { text: text.to_owned(), provider_data };
    let refusal = |text: &str| text_block(text, Some(json!({"type": "refusal"})));
    match fields.get("type").and_then(Value::as_str) {
        Some("message") | None if !item.is_complete => {
            let thinking = PartialBlock::thinking(item.thinking.as_str(), None);
            let refusal = (!item.refusal.is_empty()).then(|| refusal(&item.refusal));
            [thinking, PartialBlock::text(item.text.as_str())].into_iter().chain(refusal).collect()
        }
        Some("message") => {
            let phase = fields.get("phase").filter(|phase| !phase.is_null());
            let provider_data = phase.map(|phase| json!({"phase": phase}));
            let part = |part: &Value| match part["type"].as_str()? {
                "output_text" | "text" => Some(text_block(part["text"].as_str()?, provider_data.clone())),
                "refusal" => Some(refusal(part["refusal"].as_str()?)),
                _ => None,
            };
            let is_empty =
                |block: &PartialBlock| matches!(block, PartialBlock::Text { text, .. } if text.is_empty());
            list("content").iter().filter_map(part).filter(|block| !is_empty(block)).collect()
        }
        Some("reasoning") if !item.is_complete => {
            vec![PartialBlock::thinking(item.thinking.as_str(), None)]
        }
        Some("reasoning") => {
            let texts = |key: &str| {
                let texts: Vec<&str> = list(key).iter().filter_map(|part| part["text"].as_str()).collect();
                texts.join("\n\n")
            };
            let summary = texts("summary");
            let text = if summary.is_empty() { texts("content") } else { summary };
            vec![PartialBlock::thinking(text, Some(Value::Object(fields.clone())))]
        }
        Some("function_call" | "custom_tool_call") | None => Vec::new(),
        Some(other) => vec![PartialBlock::opaque(other, fields.clone())],
    }
}
