//! The blocks of an Anthropic message, each by itself.
//!
//! | rule | source |
//! |---|---|
//! | fields of each block, and whose it is | 3.4 [S] |
//! | no empty text | 6.2, gh:vercel/ai#5576 |
//! | ids match `^[a-zA-Z0-9_-]+$` | 3.4, 6.1, gh:HKUDS/nanobot#4356 |
//! | input is an object | 3.4 [S] |
//! | four kinds of image, of at most 5 MB, that are what they say | 2.3, 6.2 |
//! | an error holds text only | 3.4, 8 |
//! | thinking comes back with the signature it was given | 3.4 [D] |

use serde_json::Value;

use super::{extra, refuse, required};
use crate::provider::json::{flag, is_name, present, stranger, text};
use crate::provider::judge::Refusal;
use crate::provider::{media, seal};

const IMAGES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];
const KINDS: [&str; 9] = [
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

/// `message` is the way to the message, `way` the way to the block.
pub(super) fn judge(message: &str, role: &str, way: &str, block: &Value) -> Result<(), Refusal> {
    let kind = text(block, "type").ok_or_else(|| required(&format!("{way}.type")))?;
    match (kind, role) {
        ("tool_use", "user") => {
            return Err(refuse(&format!("{message}: `tool_use` blocks can only be in `assistant` messages")));
        }
        ("tool_result", "assistant") => {
            return Err(refuse(&format!("{message}: `tool_result` blocks can only be in `user` messages")));
        }
        _ => {}
    }
    content(way, kind, block)
}

fn content(way: &str, kind: &str, block: &Value) -> Result<(), Refusal> {
    let known: &[&str] = match kind {
        "text" => &["type", "text", "cache_control", "citations"],
        "image" => &["type", "source", "cache_control"],
        "document" => &["type", "source", "title", "context", "citations", "cache_control"],
        "tool_use" => &["type", "id", "name", "input", "cache_control", "caller"],
        "tool_result" => &["type", "tool_use_id", "content", "is_error", "cache_control"],
        "thinking" => &["type", "thinking", "signature"],
        "redacted_thinking" => &["type", "data"],
        // The provider's own tools have their own forms.
        "search_result" | "tool_reference" => return Ok(()),
        own if own.starts_with("server_") || own.starts_with("mcp_") || own.ends_with("_tool_result") => {
            return Ok(());
        }
        other => {
            let kinds: Vec<String> = KINDS.iter().map(|kind| format!("'{kind}'")).collect();
            return Err(refuse(&format!(
                "{way}: Input tag '{other}' found using 'type' does not match any of the expected tags: {}",
                kinds.join(", ")
            )));
        }
    };
    let way = format!("{way}.{kind}");
    if let Some(key) = stranger(block, known) {
        return Err(extra(&format!("{way}.{key}")));
    }
    match kind {
        "text" => match text(block, "text") {
            None => Err(required(&format!("{way}.text"))),
            Some("") => Err(refuse("messages: text content blocks must be non-empty")),
            Some(_) => Ok(()),
        },
        "image" => image(&way, block),
        "document" => document(&way, block),
        "tool_use" => call(&way, block),
        "tool_result" => result(&way, block),
        "thinking" => thinking(&way, block),
        _ => {
            let data = text(block, "data").ok_or_else(|| required(&format!("{way}.data")))?;
            let way = way.trim_end_matches(".redacted_thinking");
            seal::unseal("redacted", data)
                .map(drop)
                .ok_or_else(|| refuse(&format!("{way}: Invalid `data` in `redacted_thinking` block")))
        }
    }
}

fn image(way: &str, block: &Value) -> Result<(), Refusal> {
    let source = block.get("source").ok_or_else(|| required(&format!("{way}.source")))?;
    if text(source, "type") != Some("base64") {
        return Ok(());
    }
    let way = format!("{way}.source.base64");
    if let Some(key) = stranger(source, &["type", "media_type", "data"]) {
        return Err(extra(&format!("{way}.{key}")));
    }
    let kind = text(source, "media_type").ok_or_else(|| required(&format!("{way}.media_type")))?;
    if !IMAGES.contains(&kind) {
        let message = format!(
            "{way}.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"
        );
        return Err(refuse(&message));
    }
    let bytes = text(source, "data").and_then(media::decode);
    let bytes = bytes.ok_or_else(|| refuse(&format!("{way}.data: Invalid base64 data")))?;
    if bytes.len() > 5_242_880 {
        let message = format!("{way}: image exceeds 5 MB maximum: {} bytes > 5242880 bytes", bytes.len());
        return Err(refuse(&message));
    }
    if media::kind(&bytes) != Some(kind) {
        return Err(refuse(&format!("{way}.data: Image does not match the provided media type {kind}")));
    }
    Ok(())
}

fn document(way: &str, block: &Value) -> Result<(), Refusal> {
    let source = block.get("source").ok_or_else(|| required(&format!("{way}.source")))?;
    let (kind, expected) = match text(source, "type") {
        Some("base64") => ("base64", "application/pdf"),
        Some("text") => ("text", "text/plain"),
        _ => return Ok(()),
    };
    let way = format!("{way}.source.{kind}");
    if let Some(key) = stranger(source, &["type", "media_type", "data"]) {
        return Err(extra(&format!("{way}.{key}")));
    }
    if text(source, "media_type") != Some(expected) {
        return Err(refuse(&format!("{way}.media_type: Input should be '{expected}'")));
    }
    let data = text(source, "data").ok_or_else(|| required(&format!("{way}.data")))?;
    if kind == "base64" && media::decode(data).as_deref().and_then(media::kind) != Some(expected) {
        return Err(refuse("The PDF specified was not valid."));
    }
    Ok(())
}

fn call(way: &str, block: &Value) -> Result<(), Refusal> {
    id(&format!("{way}.id"), text(block, "id"))?;
    let name = text(block, "name").ok_or_else(|| required(&format!("{way}.name")))?;
    if !is_name(name, 128, "_-") {
        let message = format!("{way}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'");
        return Err(refuse(&message));
    }
    match block.get("input") {
        None => Err(required(&format!("{way}.input"))),
        Some(Value::Object(_)) => Ok(()),
        Some(_) => Err(refuse(&format!("{way}.input: Input should be a valid dictionary"))),
    }
}

fn id(way: &str, id: Option<&str>) -> Result<(), Refusal> {
    let id = id.ok_or_else(|| required(way))?;
    if is_name(id, usize::MAX, "_-") {
        return Ok(());
    }
    Err(refuse(&format!("{way}: String should match pattern '^[a-zA-Z0-9_-]+$'")))
}

fn result(way: &str, block: &Value) -> Result<(), Refusal> {
    id(&format!("{way}.tool_use_id"), text(block, "tool_use_id"))?;
    let blocks = match present(block, "content") {
        None | Some(Value::String(_)) => return Ok(()),
        Some(Value::Array(blocks)) => blocks,
        Some(_) => return Err(refuse(&format!("{way}.content: Input should be a valid list"))),
    };
    for (index, block) in blocks.iter().enumerate() {
        let way = format!("{way}.content.{index}");
        let kind = text(block, "type").ok_or_else(|| required(&format!("{way}.type")))?;
        if !["text", "image", "document", "search_result", "tool_reference"].contains(&kind) {
            return Err(refuse(&format!(
                "{way}: Input tag '{kind}' found using 'type' does not match any of the expected tags: 'document', 'image', \
                 'search_result', 'text', 'tool_reference'"
            )));
        }
        content(&way, kind, block)?;
    }
    if flag(block, "is_error") && blocks.iter().any(|block| text(block, "type") != Some("text")) {
        return Err(refuse(&format!("{way}: all content must be type 'text' if 'is_error' is true")));
    }
    Ok(())
}

fn thinking(way: &str, block: &Value) -> Result<(), Refusal> {
    let thought = text(block, "thinking").ok_or_else(|| required(&format!("{way}.thinking")))?;
    let signature = text(block, "signature").ok_or_else(|| required(&format!("{way}.signature")))?;
    if seal::unseal("thinking", signature) == Some(seal::digest("thought", thought)) {
        return Ok(());
    }
    let way = way.trim_end_matches(".thinking");
    Err(refuse(&format!("{way}: Invalid `signature` in `thinking` block")))
}
