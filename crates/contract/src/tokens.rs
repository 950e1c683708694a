//! Estimates of token counts.
//!
//! Three ASCII bytes count as one token, and so does each other character; an image counts as 1,600 tokens,
//! and a PDF as one token for 100 bytes. This is about right for JSON and code, and too high for prose. An
//! estimate that is too high only leaves some of the context window unused; if it is too low, the provider
//! may reject the request.

use serde_json::{Map, Value};

use crate::model::{ModelRequest, OutputFormat};
use crate::{Block, Content, Message, ResourceBody, Tool, ToolResult};

/// The tokens that providers add for each message, block and tool.
const OVERHEAD_TOKENS: u64 = 4;
/// The tokens of an image, an audio recording or a binary resource: providers scale an image down to about
/// 1.2 megapixels, and charge one token for 750 pixels.
const MEDIA_TOKENS: u64 = 1_600;
/// The bytes of a PDF for one token. Pages of text need more tokens than their bytes suggest, scanned pages
/// fewer.
const PDF_BYTES_PER_TOKEN: u64 = 100;

/// Estimates the tokens of a text: one for three ASCII characters, and one for each other character.
pub fn estimate_tokens(text: &str) -> u64 {
    let others = text.bytes().filter(|byte| *byte >= 0xc0).count() as u64;
    let ascii = text.bytes().filter(u8::is_ascii).count() as u64;
    ascii.div_ceil(3) + others
}

impl ModelRequest {
    /// Estimates the tokens of the request.
    pub fn estimated_tokens(&self) -> u64 {
        self.instructions.as_deref().map_or(0, estimate_tokens)
            + self.messages.iter().map(|message| message.estimated_tokens()).sum::<u64>()
            + self.tools.iter().map(Tool::estimated_tokens).sum::<u64>()
            + self.output.estimated_tokens()
    }
}

impl OutputFormat {
    /// Estimates the tokens of the schema, as it is sent to a model.
    pub fn estimated_tokens(&self) -> u64 {
        match self {
            OutputFormat::Schema { schema, .. } => OVERHEAD_TOKENS + value_tokens(schema),
            _ => 0,
        }
    }
}

impl Message {
    /// Estimates the tokens of the message.
    pub fn estimated_tokens(&self) -> u64 {
        OVERHEAD_TOKENS + self.content.iter().map(Block::estimated_tokens).sum::<u64>()
    }
}

impl Block {
    /// Estimates the tokens of the block.
    pub fn estimated_tokens(&self) -> u64 {
        OVERHEAD_TOKENS
            + match self {
                Block::Content(content) => content_tokens(content),
                Block::Call { id, call } => {
                    estimate_tokens(id)
                        + estimate_tokens(&call.name)
                        + call.arguments.as_ref().map_or(0, object_tokens)
                }
                Block::Result { id, result } => estimate_tokens(id) + result_tokens(result),
            }
    }
}

impl Tool {
    /// Estimates the tokens of the definition, as it is sent to a model.
    pub fn estimated_tokens(&self) -> u64 {
        OVERHEAD_TOKENS
            + estimate_tokens(&self.name)
            + self.description.as_deref().map_or(0, estimate_tokens)
            + self.input_schema.as_ref().map_or(0, value_tokens)
    }
}

fn result_tokens(result: &ToolResult) -> u64 {
    let blocks = result.blocks();
    if blocks.is_empty() {
        return result.structured_content.as_ref().map_or(0, value_tokens);
    }
    blocks.iter().map(content_tokens).sum()
}

fn content_tokens(content: &Content) -> u64 {
    match content {
        Content::Text { text, .. } => estimate_tokens(text),
        Content::Image { .. } | Content::Audio { .. } => MEDIA_TOKENS,
        Content::Resource { resource, .. } => match &resource.body {
            ResourceBody::Text(text) => estimate_tokens(text),
            ResourceBody::Blob(data) if resource.mime_type.as_deref() == Some("application/pdf") => {
                (data.len() as u64 / 4 * 3 / PDF_BYTES_PER_TOKEN).max(MEDIA_TOKENS)
            }
            ResourceBody::Blob(_) => MEDIA_TOKENS,
        },
        Content::ResourceLink(link) => estimate_tokens(&link.uri) + estimate_tokens(&link.name),
        Content::Other(value) => value_tokens(value),
    }
}

/// Estimates the tokens of a value as compact JSON, without serializing it.
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
    fn documents_are_estimated_by_their_size() {
        let tokens = |mime_type: &str, bytes: usize| {
            content_tokens(&Content::attached_file("a", mime_type, "A".repeat(bytes / 3 * 4)))
        };
        assert_eq!(tokens("image/png", 3_000_000), MEDIA_TOKENS);
        assert_eq!(tokens("application/pdf", 3_000), MEDIA_TOKENS);
        assert_eq!(tokens("application/pdf", 3_000_000), 30_000);
        assert_eq!(content_tokens(&Content::attached_text("a", "abcdef")), 2);
    }

    #[test]
    fn text_is_estimated_by_its_characters() {
        for (text, expected) in
            [("", 0), ("a", 1), ("abc", 1), ("abcd", 2), ("äöü", 3), ("日本語", 3), ("a日", 2)]
        {
            assert_eq!(estimate_tokens(text), expected, "{text}");
        }
    }
}
