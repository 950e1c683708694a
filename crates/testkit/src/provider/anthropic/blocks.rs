//! The content blocks of an Anthropic message, each by itself.
//!
//! Rules in `docs/providers.md`: `anthropic/blocks`, `anthropic/empty-content`, `anthropic/call-ids`,
//! `anthropic/arguments`, `anthropic/images`, `anthropic/tool-results`, `anthropic/error-results`,
//! `anthropic/thinking-blocks`.

use serde_json::Value;

use super::tools::check_name;
use super::{check_keys, reject, required};
use crate::provider::check::Rejection;
use crate::provider::json::{flag, is_name, present, text};
use crate::provider::{media, opaque_token};

const MAX_IMAGE_BYTES: usize = 5_242_880;
const IMAGE_TYPES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];
const BLOCK_TYPES: [&str; 9] = [
    "document",
    "image",
    "redacted_thinking",
    "search_result",
    "server_tool_use",
    "text",
    "thinking",
    "tool_result",
    "tool_use",
];

/// Checks a block; `message` is the path of the message, `path` the path of the block.
pub(super) fn check(message: &str, role: &str, path: &str, block: &Value) -> Result<(), Rejection> {
    let kind = text(block, "type").ok_or_else(|| required(&format!("{path}.type")))?;
    match (kind, role) {
        ("tool_use", "user") => {
            return Err(reject(&format!("{message}: `tool_use` blocks can only be in `assistant` messages")));
        }
        ("tool_result", "assistant") => {
            return Err(reject(&format!("{message}: `tool_result` blocks can only be in `user` messages")));
        }
        _ => {}
    }
    check_content(path, kind, block)
}

fn check_content(block_path: &str, kind: &str, block: &Value) -> Result<(), Rejection> {
    let known: &[&str] = match kind {
        "text" => &["type", "text", "cache_control", "citations"],
        "image" => &["type", "source", "cache_control"],
        "document" => &["type", "source", "title", "context", "citations", "cache_control"],
        "tool_use" => &["type", "id", "name", "input", "cache_control", "caller"],
        "tool_result" => &["type", "tool_use_id", "content", "is_error", "cache_control"],
        "thinking" => &["type", "thinking", "signature"],
        "redacted_thinking" => &["type", "data"],
        // The blocks of the provider's own tools have other fields.
        "search_result" | "tool_reference" => return Ok(()),
        own if own.starts_with("server_") || own.starts_with("mcp_") || own.ends_with("_tool_result") => {
            return Ok(());
        }
        other => {
            let kinds: Vec<String> = BLOCK_TYPES.iter().map(|kind| format!("'{kind}'")).collect();
            return Err(reject(&format!(
                "{block_path}: Input tag '{other}' found using 'type' does not match any of the expected tags: {}",
                kinds.join(", ")
            )));
        }
    };
    let path = format!("{block_path}.{kind}");
    check_keys(block, known, Some(&path))?;
    match kind {
        "text" => match text(block, "text") {
            None => Err(required(&format!("{path}.text"))),
            Some("") => Err(reject("messages: text content blocks must be non-empty")),
            Some(_) => Ok(()),
        },
        "image" => check_image(&path, block),
        "document" => check_document(&path, block),
        "tool_use" => check_call(&path, block),
        "tool_result" => check_result(&path, block),
        "thinking" => {
            let thinking = text(block, "thinking").ok_or_else(|| required(&format!("{path}.thinking")))?;
            let signature = text(block, "signature").ok_or_else(|| required(&format!("{path}.signature")))?;
            if opaque_token::is_thinking_signature(thinking, signature) {
                return Ok(());
            }
            Err(reject(&format!("{block_path}: Invalid `signature` in `thinking` block")))
        }
        _ => {
            let data = text(block, "data").ok_or_else(|| required(&format!("{path}.data")))?;
            opaque_token::open("redacted", data)
                .map(drop)
                .ok_or_else(|| reject(&format!("{block_path}: Invalid `data` in `redacted_thinking` block")))
        }
    }
}

fn check_image(path: &str, block: &Value) -> Result<(), Rejection> {
    let source = block.get("source").ok_or_else(|| required(&format!("{path}.source")))?;
    if text(source, "type") != Some("base64") {
        return Ok(());
    }
    let path = format!("{path}.source.base64");
    check_keys(source, &["type", "media_type", "data"], Some(&path))?;
    let media_type = text(source, "media_type").ok_or_else(|| required(&format!("{path}.media_type")))?;
    if !IMAGE_TYPES.contains(&media_type) {
        let message = format!(
            "{path}.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"
        );
        return Err(reject(&message));
    }
    let bytes = text(source, "data").and_then(media::decode);
    let bytes = bytes.ok_or_else(|| reject(&format!("{path}.data: Invalid base64 data")))?;
    if bytes.len() > MAX_IMAGE_BYTES {
        let message =
            format!("{path}: image exceeds 5 MB maximum: {} bytes > {MAX_IMAGE_BYTES} bytes", bytes.len());
        return Err(reject(&message));
    }
    if media::media_type(&bytes) != Some(media_type) {
        return Err(reject(&format!(
            "{path}.data: Image does not match the provided media type {media_type}"
        )));
    }
    Ok(())
}

fn check_document(path: &str, block: &Value) -> Result<(), Rejection> {
    let source = block.get("source").ok_or_else(|| required(&format!("{path}.source")))?;
    let (kind, expected) = match text(source, "type") {
        Some("base64") => ("base64", "application/pdf"),
        Some("text") => ("text", "text/plain"),
        _ => return Ok(()),
    };
    let path = format!("{path}.source.{kind}");
    check_keys(source, &["type", "media_type", "data"], Some(&path))?;
    if text(source, "media_type") != Some(expected) {
        return Err(reject(&format!("{path}.media_type: Input should be '{expected}'")));
    }
    let data = text(source, "data").ok_or_else(|| required(&format!("{path}.data")))?;
    if kind == "base64" && media::decode(data).as_deref().and_then(media::media_type) != Some(expected) {
        return Err(reject("The PDF specified was not valid."));
    }
    Ok(())
}

fn check_call(path: &str, block: &Value) -> Result<(), Rejection> {
    check_id(&format!("{path}.id"), text(block, "id"))?;
    let name = text(block, "name").ok_or_else(|| required(&format!("{path}.name")))?;
    check_name(path, name)?;
    match block.get("input") {
        None => Err(required(&format!("{path}.input"))),
        Some(Value::Object(_)) => Ok(()),
        Some(_) => Err(reject(&format!("{path}.input: Input should be a valid dictionary"))),
    }
}

fn check_id(path: &str, id: Option<&str>) -> Result<(), Rejection> {
    let id = id.ok_or_else(|| required(path))?;
    if is_name(id, usize::MAX, "_-") {
        return Ok(());
    }
    Err(reject(&format!("{path}: String should match pattern '^[a-zA-Z0-9_-]+$'")))
}

fn check_result(path: &str, block: &Value) -> Result<(), Rejection> {
    check_id(&format!("{path}.tool_use_id"), text(block, "tool_use_id"))?;
    let blocks = match present(block, "content") {
        None | Some(Value::String(_)) => return Ok(()),
        Some(Value::Array(blocks)) => blocks,
        Some(_) => return Err(reject(&format!("{path}.content: Input should be a valid list"))),
    };
    for (index, block) in blocks.iter().enumerate() {
        let path = format!("{path}.content.{index}");
        let kind = text(block, "type").ok_or_else(|| required(&format!("{path}.type")))?;
        if !["text", "image", "document", "search_result", "tool_reference"].contains(&kind) {
            return Err(reject(&format!(
                "{path}: Input tag '{kind}' found using 'type' does not match any of the expected tags: 'document', 'image', \
                 'search_result', 'text', 'tool_reference'"
            )));
        }
        check_content(&path, kind, block)?;
    }
    if flag(block, "is_error") && blocks.iter().any(|block| text(block, "type") != Some("text")) {
        return Err(reject(&format!("{path}: all content must be type 'text' if 'is_error' is true")));
    }
    Ok(())
}
