//! The input items of a Responses request.
//!
//! Rules in `docs/providers.md`: `openai-responses/items`, `openai-responses/call-pairing`,
//! `openai-responses/call-ids`, `openai-responses/item-ids`, `openai-responses/reasoning`,
//! `openai-responses/searches`, `openai-responses/tool-results`, `openai-responses/images`.

use serde_json::Value;

use super::{check_keys, check_length, missing, reject, unsupported_value, wrong_type};
use crate::provider::check::Rejection;
use crate::provider::json::{list, present, text};
use crate::provider::{media, opaque_token};

const MAX_OUTPUT_CHARS: usize = 10_485_760;

pub(super) fn check(body: &Value) -> Result<(), Rejection> {
    let items = list(body, "input");
    let mut open: Vec<&str> = Vec::new();
    // The items of an earlier response or a conversation are not known here.
    let continues =
        present(body, "previous_response_id").is_some() || present(body, "conversation").is_some();
    for (index, item) in items.iter().enumerate() {
        let path = format!("input[{index}]");
        match text(item, "type").unwrap_or("message") {
            "message" => check_message(&path, item)?,
            "function_call" => {
                check_call(&path, item)?;
                open.extend(text(item, "call_id"));
            }
            "function_call_output" => {
                check_output(&path, item)?;
                let id = text(item, "call_id").unwrap_or_default();
                match open.iter().position(|open| *open == id) {
                    Some(found) => drop(open.remove(found)),
                    None if continues => {}
                    None => {
                        let message =
                            format!("No tool call found for function call output with call_id {id}.");
                        return Err(reject(&message, Some("input"), None));
                    }
                }
            }
            "web_search_call" => check_search(&path, item)?,
            "reasoning" => check_reasoning(body, &path, item, items.get(index + 1))?,
            _ => {}
        }
        check_preceding_reasoning(item, &items[..index])?;
    }
    open.first().map_or(Ok(()), |id| {
        let message = format!("No tool output found for function call {id}.");
        Err(reject(&message, Some("input"), None))
    })
}

fn check_message(path: &str, item: &Value) -> Result<(), Rejection> {
    check_keys(item, &["type", "role", "content", "id", "status", "phase"], Some(path))?;
    check_item_id(path, item, "msg")?;
    let role_path = format!("{path}.role");
    let role = text(item, "role").ok_or_else(|| missing(&role_path))?;
    let kinds: &[&str] = match role {
        "assistant" => &["output_text", "refusal"],
        "user" | "system" | "developer" => &["input_text", "input_image", "input_file"],
        other => {
            let roles = ["assistant", "system", "developer", "user"];
            return Err(unsupported_value(&role_path, other, &roles));
        }
    };
    check_parts(&format!("{path}.content"), item.get("content"), kinds)
}

fn check_parts(path: &str, content: Option<&Value>, kinds: &[&str]) -> Result<(), Rejection> {
    let parts = match content {
        Some(Value::String(_)) => return Ok(()),
        Some(Value::Array(parts)) => parts,
        None => return Err(missing(path)),
        Some(other) => return Err(wrong_type(path, "one of an array of objects or string", other)),
    };
    for (index, part) in parts.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let kind = text(part, "type").ok_or_else(|| missing(&format!("{path}.type")))?;
        if !kinds.contains(&kind) {
            return Err(unsupported_value(&path, kind, kinds));
        }
        let known: &[&str] = match kind {
            "input_text" => &["type", "text"],
            "output_text" => &["type", "text", "annotations", "logprobs"],
            "refusal" => &["type", "refusal"],
            "input_image" => &["type", "image_url", "file_id", "detail"],
            _ => &["type", "file_data", "file_id", "file_url", "filename"],
        };
        check_keys(part, known, Some(&path))?;
        match kind {
            "input_text" | "output_text" if text(part, "text").is_none() => {
                return Err(missing(&format!("{path}.text")));
            }
            "refusal" if text(part, "refusal").is_none() => return Err(missing(&format!("{path}.refusal"))),
            "input_image" => check_image(&path, part)?,
            _ => {}
        }
    }
    Ok(())
}

fn check_image(path: &str, part: &Value) -> Result<(), Rejection> {
    let path = format!("{path}.image_url");
    let Some(url) = present(part, "image_url") else {
        return if present(part, "file_id").is_some() { Ok(()) } else { Err(missing(&path)) };
    };
    let url = url.as_str().ok_or_else(|| wrong_type(&path, "an image URL", url))?;
    let Some((media_type, data)) = media::data_url(url) else { return Ok(()) };
    if media_type.starts_with("image/") && media::decode(data).is_some_and(|bytes| media::is_image(&bytes)) {
        return Ok(());
    }
    let message = "The image data you provided does not represent a valid image. Please check your input and try again with \
                   one of the supported image formats: ['image/jpeg', 'image/png', 'image/gif', 'image/webp'].";
    Err(reject(message, Some("input"), Some("invalid_value")))
}

fn check_call(path: &str, item: &Value) -> Result<(), Rejection> {
    let known = ["type", "id", "call_id", "name", "arguments", "status", "namespace"];
    check_keys(item, &known, Some(path))?;
    check_item_id(path, item, "fc")?;
    check_call_id(path, item)?;
    let name_path = format!("{path}.name");
    super::check_name(&name_path, text(item, "name").ok_or_else(|| missing(&name_path))?)?;
    let path = format!("{path}.arguments");
    match item.get("arguments") {
        Some(Value::String(_)) => Ok(()),
        Some(other) => Err(wrong_type(&path, "a string", other)),
        None => Err(missing(&path)),
    }
}

fn check_search(path: &str, item: &Value) -> Result<(), Rejection> {
    check_keys(item, &["type", "id", "status", "action"], Some(path))?;
    if text(item, "id").is_none() {
        return Err(missing(&format!("{path}.id")));
    }
    check_item_id(path, item, "ws")?;
    text(item, "status").map(drop).ok_or_else(|| missing(&format!("{path}.status")))
}

fn check_output(path: &str, item: &Value) -> Result<(), Rejection> {
    check_keys(item, &["type", "id", "call_id", "output", "status"], Some(path))?;
    check_call_id(path, item)?;
    let path = format!("{path}.output");
    check_length(&path, text(item, "output").unwrap_or_default(), MAX_OUTPUT_CHARS)?;
    check_parts(&path, item.get("output"), &["input_text", "input_image", "input_file"])
}

fn check_reasoning(body: &Value, path: &str, item: &Value, next: Option<&Value>) -> Result<(), Rejection> {
    let known = ["type", "id", "summary", "content", "encrypted_content", "status"];
    check_keys(item, &known, Some(path))?;
    check_item_id(path, item, "rs")?;
    if !item.get("summary").is_some_and(Value::is_array) {
        return Err(missing(&format!("{path}.summary")));
    }
    let id = text(item, "id").unwrap_or_default();
    match text(item, "encrypted_content") {
        Some(content) if opaque_token::open("reasoning", content).is_none() => {
            let start: String = content.chars().take(4).collect();
            let message = format!(
                "The encrypted content {start}... could not be verified. Reason: Encrypted content could not be decrypted or \
                 parsed."
            );
            return Err(reject(&message, None, Some("invalid_encrypted_content")));
        }
        None if body.get("store") == Some(&Value::Bool(false)) => {
            let message = format!(
                "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again with \
                 `store` set to true, or remove this item from your input."
            );
            return Err(Rejection { status: 404, ..reject(&message, Some("input"), None) });
        }
        _ => {}
    }
    // The next item must come from the model, not from the user or a tool.
    let is_followed = next.is_some_and(|next| match text(next, "type").unwrap_or("message") {
        "message" => text(next, "role") == Some("assistant"),
        "function_call_output" | "custom_tool_call_output" => false,
        _ => true,
    });
    if is_followed {
        return Ok(());
    }
    let message =
        format!("Item '{id}' of type 'reasoning' was provided without its required following item.");
    Err(reject(&message, Some("input"), None))
}

/// Checks that an item comes with its reasoning. The renderer puts the reasoning's id into the ids of the
/// items that follow it: `msg_REASONING_0` belongs to `rs_REASONING`.
fn check_preceding_reasoning(item: &Value, before: &[Value]) -> Result<(), Rejection> {
    let kind = text(item, "type").unwrap_or("message");
    let Some(id) = text(item, "id") else { return Ok(()) };
    let Some((prefix, rest)) = id.split_once('_') else { return Ok(()) };
    let Some((reasoning, _)) = rest.split_once('_').filter(|_| prefix != "rs") else { return Ok(()) };
    let reasoning = format!("rs_{reasoning}");
    if before.iter().any(|item| text(item, "id") == Some(&reasoning)) {
        return Ok(());
    }
    let message = format!(
        "Item '{id}' of type '{kind}' was provided without its required 'reasoning' item: '{reasoning}'."
    );
    Err(reject(&message, Some("input"), None))
}

fn check_item_id(path: &str, item: &Value, prefix: &str) -> Result<(), Rejection> {
    let Some(id) = text(item, "id") else { return Ok(()) };
    if id.starts_with(&format!("{prefix}_")) {
        return Ok(());
    }
    let message = format!("Invalid '{path}.id': '{id}'. Expected an ID that begins with '{prefix}'.");
    Err(reject(&message, Some(&format!("{path}.id")), Some("invalid_value")))
}

fn check_call_id(path: &str, item: &Value) -> Result<(), Rejection> {
    let path = format!("{path}.call_id");
    check_length(&path, text(item, "call_id").ok_or_else(|| missing(&path))?, 64)
}
