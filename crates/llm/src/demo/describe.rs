//! Describes tool results in text.

use std::sync::Arc;

use serde_json::Value;
use toolwire_contract::text::truncate;
use toolwire_contract::{Block, Content, Message, ResourceBody, ToolCall, ToolResult};

/// The maximum length of one described result.
const MAX_RESULT_CHARS: usize = 2000;

/// Returns the results in the last message, each with its call if that is known.
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

/// Describes a result in one paragraph.
pub(super) fn describe_result(call: Option<&ToolCall>, result: &ToolResult) -> String {
    let name = call.map_or("the tool", |call| call.name.as_str());
    let text = result_text(result);
    if result.is_error() {
        return format!("`{name}` failed: {text}");
    }
    format!("`{name}` returned: {text}")
}

fn result_text(result: &ToolResult) -> String {
    let structured = result.structured_content.as_ref().map(|value| match value {
        // The toolkit wraps a value with `success` and a message for the user.
        Value::Object(fields) if fields.get("success").is_some_and(Value::is_boolean) => {
            let content = ["error", "message", "value"].iter().find_map(|key| fields.get(*key));
            content.map_or_else(|| value_text(value), value_text)
        }
        other => value_text(other),
    });
    let text = structured.unwrap_or_else(|| {
        let blocks: Vec<String> =
            result.blocks().iter().filter(|block| block.is_for_model()).map(block_text).collect();
        blocks.join("\n")
    });
    if text.trim().is_empty() { "nothing".to_owned() } else { truncate(&text, MAX_RESULT_CHARS).into_owned() }
}

fn block_text(block: &Content) -> String {
    match block {
        Content::Text { text, .. } => match serde_json::from_str::<Value>(text) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => value_text(&value),
            _ => text.clone(),
        },
        Content::Image { mime_type, .. } => format!("(an image, {mime_type})"),
        Content::Audio { mime_type, .. } => format!("(audio, {mime_type})"),
        Content::Resource { resource, .. } => match &resource.body {
            ResourceBody::Text(text) => text.clone(),
            ResourceBody::Blob(_) => format!("(a file, {})", resource.uri),
        },
        Content::ResourceLink(link) => format!("{} ({})", link.name, link.uri),
        Content::Other(_) => "(unsupported content)".to_owned(),
    }
}

/// `{"location": "Paris", "temperature": 12}` → `location Paris, temperature 12`.
fn value_text(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(value_text).collect::<Vec<_>>().join("; "),
        Value::Object(fields) => {
            let entries =
                fields.iter().map(|(key, value)| format!("{} {}", key.replace('_', " "), value_text(value)));
            entries.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}
