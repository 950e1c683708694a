//! How many tokens something takes, roughly.
//!
//! Four bytes of ASCII count as a token, and so does each other character; an image counts as a thousand. For English and
//! JSON that is a little too much, for most other languages too. What the provider counts corrects it
//! ([`Memory::calibrate`](super::Memory::calibrate)), so only the proportions between messages matter in the long run.

use serde_json::{Map, Value};
use toolwire_contract::{Block, Content, Message, ResourceBody, Tool, ToolResult};

/// What providers put around each message and each block.
const AROUND: u64 = 4;
const PICTURE: u64 = 1_000;

/// How many tokens a text takes, roughly: a quarter of its ASCII characters and one for each other.
pub fn estimate_tokens(text: &str) -> u64 {
    let others = text.bytes().filter(|byte| *byte >= 0xc0).count() as u64;
    let ascii = text.bytes().filter(u8::is_ascii).count() as u64;
    ascii.div_ceil(4) + others
}

pub(crate) fn message_tokens(message: &Message) -> u64 {
    AROUND + message.content.iter().map(block_tokens).sum::<u64>()
}

pub(super) fn block_tokens(block: &Block) -> u64 {
    AROUND
        + match block {
            Block::Content(content) => content_tokens(content),
            Block::Call { call, .. } => {
                estimate_tokens(&call.name) + call.arguments.as_ref().map_or(0, object_tokens)
            }
            Block::Result { result, .. } => result_tokens(result),
        }
}

pub(super) fn result_tokens(result: &ToolResult) -> u64 {
    let blocks = result.blocks();
    if blocks.is_empty() {
        return result.structured_content.as_ref().map_or(0, value_tokens);
    }
    blocks.iter().map(content_tokens).sum()
}

fn content_tokens(content: &Content) -> u64 {
    match content {
        Content::Text { text, .. } => estimate_tokens(text),
        Content::Image { .. } | Content::Audio { .. } => PICTURE,
        Content::Resource { resource, .. } => match &resource.body {
            ResourceBody::Text(text) => estimate_tokens(text),
            ResourceBody::Blob(_) => PICTURE,
        },
        Content::ResourceLink(link) => estimate_tokens(&link.uri) + estimate_tokens(&link.name),
        Content::Other(value) => value_tokens(value),
    }
}

/// Of a tool's definition: what a model is told of it.
pub(crate) fn tool_tokens(tool: &Tool) -> u64 {
    AROUND
        + estimate_tokens(&tool.name)
        + tool.description.as_deref().map_or(0, estimate_tokens)
        + tool.input_schema.as_ref().map_or(0, value_tokens)
}

/// Of a value as compact JSON, without writing it.
fn value_tokens(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) => 1,
        Value::Number(number) => estimate_tokens(number.as_str()) + 1,
        Value::String(text) => estimate_tokens(text) + 1,
        Value::Array(items) => 1 + items.iter().map(value_tokens).sum::<u64>(),
        Value::Object(fields) => object_tokens(fields),
    }
}

fn object_tokens(fields: &Map<String, Value>) -> u64 {
    1 + fields.iter().map(|(key, value)| estimate_tokens(key) + 1 + value_tokens(value)).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_counts_by_its_characters() {
        for (text, expected) in
            [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("äöü", 3), ("日本語", 3), ("a日", 2)]
        {
            assert_eq!(estimate_tokens(text), expected, "{text}");
        }
    }
}
