//! Results in words.

use std::sync::Arc;

use serde_json::Value;
use toolwire_contract::{Block, Content, Message, ResourceBody, ToolCall, ToolResult};

/// More of one result is not told.
const LONGEST: usize = 2000;

/// The results in the last message, each with its call, if there are any.
pub(super) fn results(messages: &[Arc<Message>]) -> Vec<(Option<&ToolCall>, &ToolResult)> {
    let calls = || messages.iter().rev().flat_map(|message| message.calls());
    let last = messages.last().map(|message| message.content.as_slice()).unwrap_or_default();
    last.iter()
        .filter_map(|block| match block {
            Block::Result { id, result } => {
                let call = calls().find(|(called, _)| called == id).map(|(_, call)| call);
                Some((call, result))
            }
            _ => None,
        })
        .collect()
}

/// What a tool said, in one paragraph.
pub(super) fn tell(call: Option<&ToolCall>, result: &ToolResult) -> String {
    let name = call.map_or("the tool", |call| call.name.as_str());
    let said = words_of(result);
    if result.is_error() {
        return format!("`{name}` failed: {said}");
    }
    format!("`{name}` says: {said}")
}

fn words_of(result: &ToolResult) -> String {
    let structured = result.structured_content.as_ref().map(|value| match value {
        // What a toolkit puts around a value: whether it went well, and words for people.
        Value::Object(fields) if fields.get("success").is_some_and(Value::is_boolean) => {
            let told = ["error", "message", "value"].iter().find_map(|key| fields.get(*key));
            told.map_or_else(|| in_words(value), in_words)
        }
        other => in_words(other),
    });
    let words = structured.unwrap_or_else(|| {
        let blocks: Vec<String> =
            result.blocks().iter().filter(|block| block.is_for_model()).map(block_in_words).collect();
        blocks.join("\n")
    });
    if words.trim().is_empty() { "nothing".to_owned() } else { shorten(words) }
}

fn block_in_words(block: &Content) -> String {
    match block {
        Content::Text { text, .. } => match serde_json::from_str::<Value>(text) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => in_words(&value),
            _ => text.clone(),
        },
        Content::Image { mime_type, .. } => format!("(an image, {mime_type})"),
        Content::Audio { mime_type, .. } => format!("(a sound, {mime_type})"),
        Content::Resource { resource, .. } => match &resource.body {
            ResourceBody::Text(text) => text.clone(),
            ResourceBody::Blob(_) => format!("(a file, {})", resource.uri),
        },
        Content::ResourceLink(link) => format!("{} ({})", link.name, link.uri),
        Content::Other(_) => "(something that has no words)".to_owned(),
    }
}

/// `{"location": "Paris", "temperature": 12}` → `location Paris, temperature 12`.
fn in_words(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(in_words).collect::<Vec<_>>().join("; "),
        Value::Object(fields) => {
            let said =
                fields.iter().map(|(key, value)| format!("{} {}", key.replace('_', " "), in_words(value)));
            said.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

fn shorten(mut words: String) -> String {
    if let Some((cut, _)) = words.char_indices().nth(LONGEST) {
        words.truncate(cut);
        words.push('…');
    }
    words
}
