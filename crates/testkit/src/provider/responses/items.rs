//! The items of a Responses request.
//!
//! | rule | source |
//! |---|---|
//! | fields of each item, parts of each role | 3.3 [S] |
//! | an output has its call before it, and every call its one output | 3.3, 6.1, gh:RooCodeInc/Roo-Code#10763 |
//! | `call_id` of at most 64 characters | 3.3 |
//! | ids begin with their kind | 3.3: an id from elsewhere may fail |
//! | reasoning comes with the item after it, and that item with its reasoning | gh:vercel/ai#7099 |
//! | reasoning that is not stored comes with its encrypted content, unaltered | gh:earendil-works/pi#5059 |
//! | images are png, jpeg, gif or webp | 3.3 |

use serde_json::Value;

use super::{missing, refuse, too_long, unknown, wrong_type};
use crate::provider::json::{list, present, stranger, text};
use crate::provider::judge::Refusal;
use crate::provider::{media, seal};

pub(super) fn judge(body: &Value) -> Result<(), Refusal> {
    let items = list(body, "input");
    let mut open: Vec<&str> = Vec::new();
    // What an earlier response or a conversation holds is not known here.
    let goes_on = present(body, "previous_response_id").is_some() || present(body, "conversation").is_some();
    for (index, item) in items.iter().enumerate() {
        let way = format!("input[{index}]");
        match text(item, "type").unwrap_or("message") {
            "message" => message(&way, item)?,
            "function_call" => {
                call(&way, item)?;
                open.extend(text(item, "call_id"));
            }
            "function_call_output" => {
                output(&way, item)?;
                let id = text(item, "call_id").unwrap_or_default();
                match open.iter().position(|open| *open == id) {
                    Some(found) => drop(open.remove(found)),
                    None if goes_on => {}
                    None => {
                        let message =
                            format!("No tool call found for function call output with call_id {id}.");
                        return Err(refuse(&message, Some("input"), None));
                    }
                }
            }
            "reasoning" => reasoning(body, &way, item, items.get(index + 1))?,
            _ => {}
        }
        has_its_reasoning(item, &items[..index])?;
    }
    open.first().map_or(Ok(()), |id| {
        let message = format!("No tool output found for function call {id}.");
        Err(refuse(&message, Some("input"), None))
    })
}

fn message(way: &str, item: &Value) -> Result<(), Refusal> {
    if let Some(key) = stranger(item, &["type", "role", "content", "id", "status", "phase"]) {
        return Err(unknown(&format!("{way}.{key}")));
    }
    id(way, item, "msg")?;
    let role_way = format!("{way}.role");
    let role = text(item, "role").ok_or_else(|| missing(&role_way))?;
    let kinds: &[&str] = match role {
        "assistant" => &["output_text", "refusal"],
        "user" | "system" | "developer" => &["input_text", "input_image", "input_file"],
        other => {
            return Err(value(&role_way, other, &["assistant", "system", "developer", "user"]));
        }
    };
    parts(&format!("{way}.content"), item.get("content"), kinds)
}

fn parts(way: &str, content: Option<&Value>, kinds: &[&str]) -> Result<(), Refusal> {
    let parts = match content {
        Some(Value::String(_)) => return Ok(()),
        Some(Value::Array(parts)) => parts,
        None => return Err(missing(way)),
        Some(other) => return Err(wrong_type(way, "one of an array of objects or string", other)),
    };
    for (index, part) in parts.iter().enumerate() {
        let way = format!("{way}[{index}]");
        let kind = text(part, "type").ok_or_else(|| missing(&format!("{way}.type")))?;
        if !kinds.contains(&kind) {
            return Err(value(&way, kind, kinds));
        }
        let known: &[&str] = match kind {
            "input_text" => &["type", "text"],
            "output_text" => &["type", "text", "annotations", "logprobs"],
            "refusal" => &["type", "refusal"],
            "input_image" => &["type", "image_url", "file_id", "detail"],
            _ => &["type", "file_data", "file_id", "file_url", "filename"],
        };
        if let Some(key) = stranger(part, known) {
            return Err(unknown(&format!("{way}.{key}")));
        }
        match kind {
            "input_text" | "output_text" if text(part, "text").is_none() => {
                return Err(missing(&format!("{way}.text")));
            }
            "refusal" if text(part, "refusal").is_none() => return Err(missing(&format!("{way}.refusal"))),
            "input_image" => image(&way, part)?,
            _ => {}
        }
    }
    Ok(())
}

fn image(way: &str, part: &Value) -> Result<(), Refusal> {
    let Some(url) = present(part, "image_url") else {
        return if present(part, "file_id").is_some() {
            Ok(())
        } else {
            Err(missing(&format!("{way}.image_url")))
        };
    };
    let way = format!("{way}.image_url");
    let url = url.as_str().ok_or_else(|| wrong_type(&way, "an image URL", url))?;
    let Some((kind, data)) = media::data_url(url) else { return Ok(()) };
    let found =
        media::decode(data).as_deref().and_then(media::kind).filter(|found| found.starts_with("image/"));
    if kind.starts_with("image/") && found.is_some() {
        return Ok(());
    }
    let message = "The image data you provided does not represent a valid image. Please check your input and try again with \
                   one of the supported image formats: ['image/jpeg', 'image/png', 'image/gif', 'image/webp'].";
    Err(refuse(message, Some("input"), Some("invalid_value")))
}

fn call(way: &str, item: &Value) -> Result<(), Refusal> {
    if let Some(key) = stranger(item, &["type", "id", "call_id", "name", "arguments", "status", "namespace"])
    {
        return Err(unknown(&format!("{way}.{key}")));
    }
    id(way, item, "fc")?;
    call_id(way, item)?;
    let name_way = format!("{way}.name");
    super::name_fits(&name_way, text(item, "name").ok_or_else(|| missing(&name_way))?)?;
    let way = format!("{way}.arguments");
    match item.get("arguments") {
        Some(Value::String(_)) => Ok(()),
        Some(other) => Err(wrong_type(&way, "a string", other)),
        None => Err(missing(&way)),
    }
}

fn output(way: &str, item: &Value) -> Result<(), Refusal> {
    if let Some(key) = stranger(item, &["type", "id", "call_id", "output", "status"]) {
        return Err(unknown(&format!("{way}.{key}")));
    }
    call_id(way, item)?;
    let way = format!("{way}.output");
    if let Some(output) = text(item, "output")
        && output.chars().count() > 10_485_760
    {
        return Err(too_long(&way, 10_485_760, output.chars().count()));
    }
    parts(&way, item.get("output"), &["input_text", "input_image", "input_file"])
}

fn reasoning(body: &Value, way: &str, item: &Value, next: Option<&Value>) -> Result<(), Refusal> {
    if let Some(key) = stranger(item, &["type", "id", "summary", "content", "encrypted_content", "status"]) {
        return Err(unknown(&format!("{way}.{key}")));
    }
    id(way, item, "rs")?;
    if !item.get("summary").is_some_and(Value::is_array) {
        return Err(missing(&format!("{way}.summary")));
    }
    let name = text(item, "id").unwrap_or_default();
    match text(item, "encrypted_content") {
        Some(content) if seal::unseal("reasoning", content).is_none() => {
            let start: String = content.chars().take(4).collect();
            let message = format!(
                "The encrypted content {start}... could not be verified. Reason: Encrypted content could not be decrypted or \
                 parsed."
            );
            return Err(refuse(&message, None, Some("invalid_encrypted_content")));
        }
        None if body.get("store") == Some(&Value::Bool(false)) => {
            let message = format!(
                "Item with id '{name}' not found. Items are not persisted when `store` is set to false. Try again with \
                 `store` set to true, or remove this item from your input."
            );
            return Err(Refusal { status: 404, ..refuse(&message, Some("input"), None) });
        }
        _ => {}
    }
    // What the model itself said comes next; a person or a result cannot.
    let is_followed = next.is_some_and(|next| match text(next, "type").unwrap_or("message") {
        "message" => text(next, "role") == Some("assistant"),
        "function_call_output" | "custom_tool_call_output" => false,
        _ => true,
    });
    if is_followed {
        return Ok(());
    }
    let message =
        format!("Item '{name}' of type 'reasoning' was provided without its required following item.");
    Err(refuse(&message, Some("input"), None))
}

/// What was said after reasoning has the name of that reasoning in its id, and is not taken without it.
fn has_its_reasoning(item: &Value, before: &[Value]) -> Result<(), Refusal> {
    let kind = text(item, "type").unwrap_or("message");
    let Some((start, rest)) = text(item, "id").and_then(|id| id.split_once('_')) else { return Ok(()) };
    let Some((reasoning, _)) = rest.split_once('_').filter(|_| start != "rs") else { return Ok(()) };
    let reasoning = format!("rs_{reasoning}");
    let is_there = before.iter().any(|item| text(item, "id") == Some(&reasoning));
    if is_there {
        return Ok(());
    }
    let message = format!(
        "Item '{start}_{rest}' of type '{kind}' was provided without its required 'reasoning' item: '{reasoning}'."
    );
    Err(refuse(&message, Some("input"), None))
}

fn id(way: &str, item: &Value, start: &str) -> Result<(), Refusal> {
    let Some(id) = text(item, "id") else { return Ok(()) };
    if id.starts_with(&format!("{start}_")) {
        return Ok(());
    }
    let message = format!("Invalid '{way}.id': '{id}'. Expected an ID that begins with '{start}'.");
    Err(refuse(&message, Some(&format!("{way}.id")), Some("invalid_value")))
}

fn call_id(way: &str, item: &Value) -> Result<(), Refusal> {
    let way = format!("{way}.call_id");
    let id = text(item, "call_id").ok_or_else(|| missing(&way))?;
    let length = id.chars().count();
    if length > 64 { Err(too_long(&way, 64, length)) } else { Ok(()) }
}

fn value(way: &str, got: &str, supported: &[&str]) -> Refusal {
    let quoted: Vec<String> = supported.iter().map(|value| format!("'{value}'")).collect();
    let supported = match quoted.as_slice() {
        [first, second] => format!("{first} and {second}"),
        [rest @ .., last] => format!("{}, and {last}", rest.join(", ")),
        [] => String::new(),
    };
    let message = format!("Invalid value: '{got}'. Supported values are: {supported}.");
    refuse(&message, Some(way), Some("invalid_value"))
}
