//! The messages of the chat family.
//!
//! | rule | source |
//! |---|---|
//! | roles, fields and parts of each role | 3.1 [S] |
//! | a tool's message holds text only | 2.3, 3.1 (`ChatCompletionRequestToolMessage`); DIAL: `image_url` parts too, 3.16 |
//! | every call is answered, once, before anything else is said | 3.1, 6.1 |
//! | ids: at most 64 characters; nine letters and digits on Mistral | 3.1, 3.7, 8 Mistral |
//! | arguments are text; on Mistral an object too; not empty on xAI | 3.1, 3.7, 3.11 |
//! | `reasoning_content` comes back with calls on DeepSeek in thinking mode | 3.10 |
//! | `data` and `url` of an attachment exclude each other | 3.16 |

use serde_json::Value;

use super::flavour::{Flavour, Ids};
use crate::provider::json::{is_name, list, present, stranger, text};
use crate::provider::judge::Refusal;
use crate::provider::{Api, media};

pub(super) fn judge(flavour: &Flavour, body: &Value) -> Result<(), Refusal> {
    let mut open = Open::default();
    for (index, message) in list(body, "messages").iter().enumerate() {
        let way = format!("messages[{index}]");
        let role = text(message, "role").ok_or_else(|| flavour.missing(&format!("{way}.role")))?;
        if role != "tool" {
            open.close(flavour)?;
        }
        match role {
            "system" | "developer" | "user" => said(flavour, &way, role, message)?,
            "assistant" => {
                assistant(flavour, &way, message)?;
                if is_thinking(flavour, body) && present(message, "tool_calls").is_some() {
                    has_reasoning(flavour, index, message)?;
                }
                open.begin(index, message);
            }
            "tool" => {
                result(flavour, &way, message)?;
                open.answer(flavour, index, message)?;
            }
            other => {
                let roles = ["system", "assistant", "user", "function", "tool", "developer"];
                return Err(flavour.wrong_value(&format!("{way}.role"), other, &roles));
            }
        }
    }
    open.close(flavour)
}

/// The calls that wait for their results.
#[derive(Default)]
struct Open {
    index: usize,
    ids: Vec<String>,
    answered: usize,
}

impl Open {
    fn begin(&mut self, index: usize, message: &Value) {
        let ids = list(message, "tool_calls").iter().filter_map(|call| text(call, "id"));
        *self = Open { index, ids: ids.map(str::to_owned).collect(), answered: 0 };
    }

    fn answer(&mut self, flavour: &Flavour, index: usize, message: &Value) -> Result<(), Refusal> {
        let id = text(message, "tool_call_id").unwrap_or_default();
        if let Some(found) = self.ids.iter().position(|open| open == id) {
            self.ids.remove(found);
            self.answered += 1;
            return Ok(());
        }
        if matches!(flavour.api, Api::Mistral) {
            let message = "Not the same number of function calls and responses";
            return Err(flavour.mistral(message, "invalid_request_message_order", "3230"));
        }
        let message = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.";
        Err(flavour.refuse(message, Some(&format!("messages.[{index}].role")), None))
    }

    fn close(&mut self, flavour: &Flavour) -> Result<(), Refusal> {
        let open = std::mem::take(self);
        if open.ids.is_empty() {
            return Ok(());
        }
        if matches!(flavour.api, Api::Mistral) {
            let message = "Not the same number of function calls and responses";
            return Err(flavour.mistral(message, "invalid_request_message_order", "3230"));
        }
        let message = format!(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. \
             The following tool_call_ids did not have response messages: {}",
            open.ids.join(", ")
        );
        let way = format!("messages.[{}].role", open.index + open.answered + 1);
        Err(flavour.refuse(&message, Some(&way), None))
    }
}

/// What a person or the system says.
fn said(flavour: &Flavour, way: &str, role: &str, message: &Value) -> Result<(), Refusal> {
    let custom = matches!(flavour.api, Api::Dial).then_some(["custom_content", "custom_fields"]);
    let known = |key: &&str| custom.is_none_or(|custom| !custom.contains(key));
    if let Some(key) = stranger(message, &["role", "content", "name"]).filter(known)
        && flavour.is_closed
    {
        return Err(flavour.unknown(key, Some(way)));
    }
    attachments(flavour, way, message)?;
    let parts: &[&str] =
        if role == "user" { &["text", "image_url", "input_audio", "file"] } else { &["text"] };
    content(flavour, way, role, message, parts)
}

fn assistant(flavour: &Flavour, way: &str, message: &Value) -> Result<(), Refusal> {
    let known = ["role", "content", "name", "refusal", "audio", "tool_calls", "function_call"];
    if let Some(key) = stranger(message, &known).filter(|key| !flavour.assistant_keys.contains(key))
        && flavour.is_closed
    {
        return Err(flavour.unknown(key, Some(way)));
    }
    attachments(flavour, way, message)?;
    let calls = present(message, "tool_calls");
    if present(message, "content").is_some() {
        content(flavour, way, "assistant", message, &["text", "refusal"])?;
    } else if calls.is_none() && present(message, "refusal").is_none() && present(message, "audio").is_none()
    {
        let message = "Invalid value for 'content': expected a string, got null.";
        return Err(flavour.refuse(message, Some(&format!("{way}.content")), None));
    }
    let Some(calls) = calls else { return Ok(()) };
    let way = format!("{way}.tool_calls");
    let calls = calls.as_array().ok_or_else(|| flavour.wrong_type(&way, "array", calls))?;
    if calls.is_empty() && !matches!(flavour.api, Api::Vllm | Api::LlamaCpp) {
        return Err(flavour.empty(&way));
    }
    calls.iter().enumerate().try_for_each(|(index, one)| call(flavour, &format!("{way}[{index}]"), one))
}

fn call(flavour: &Flavour, way: &str, call: &Value) -> Result<(), Refusal> {
    let known = ["id", "type", "function", "custom"];
    let index = matches!(flavour.api, Api::Mistral | Api::Dial).then_some("index");
    if let Some(key) = stranger(call, &known).filter(|key| index != Some(*key))
        && flavour.is_closed
    {
        return Err(flavour.unknown(key, Some(way)));
    }
    let id = text(call, "id").ok_or_else(|| flavour.missing(&format!("{way}.id")))?;
    id_fits(flavour, &format!("{way}.id"), id)?;
    let kind = text(call, "type").ok_or_else(|| flavour.missing(&format!("{way}.type")))?;
    if kind != "function" {
        return Err(flavour.wrong_value(&format!("{way}.type"), kind, &["function", "custom"]));
    }
    let function = call.get("function").unwrap_or(&Value::Null);
    if let Some(key) = stranger(function, &["name", "arguments"])
        && flavour.is_closed
    {
        return Err(flavour.unknown(key, Some(&format!("{way}.function"))));
    }
    let name_way = format!("{way}.function.name");
    let name = text(function, "name").ok_or_else(|| flavour.missing(&name_way))?;
    super::tools::name_fits(flavour, &name_way, name)?;
    let way = format!("{way}.function.arguments");
    match function.get("arguments") {
        None => Err(flavour.missing(&way)),
        Some(Value::Object(_)) if matches!(flavour.api, Api::Mistral) => Ok(()),
        Some(Value::String(empty)) if empty.is_empty() && matches!(flavour.api, Api::Xai) => Err(
            flavour.refuse("Invalid request content: Invalid arguments for function call.", Some(&way), None)
        ),
        Some(Value::String(_)) => Ok(()),
        Some(other) => Err(flavour.wrong_type(&way, "string", other)),
    }
}

fn id_fits(flavour: &Flavour, way: &str, id: &str) -> Result<(), Refusal> {
    let length = id.chars().count();
    match flavour.ids {
        Ids::Nine if length != 9 || !is_name(id, 9, "") => {
            let message = format!("Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9.");
            Err(flavour.mistral(&message, "invalid_request_function_call", "3280"))
        }
        Ids::Long if length > 64 => {
            let message = format!(
                "Invalid '{way}': string too long. Expected a string with maximum length 64, but got a string with length \
                 {length} instead."
            );
            Err(flavour.refuse(&message, Some(way), Some("string_above_max_length")))
        }
        _ => Ok(()),
    }
}

fn result(flavour: &Flavour, way: &str, message: &Value) -> Result<(), Refusal> {
    let known = ["role", "content", "tool_call_id"];
    if let Some(key) = stranger(message, &known).filter(|key| !flavour.tool_keys.contains(key))
        && flavour.is_closed
    {
        return Err(flavour.unknown(key, Some(way)));
    }
    attachments(flavour, way, message)?;
    let id_way = format!("{way}.tool_call_id");
    let id = text(message, "tool_call_id").ok_or_else(|| flavour.missing(&id_way))?;
    id_fits(flavour, &id_way, id)?;
    let parts: &[&str] = match flavour.api {
        // Typed or untested there, so anything passes.
        Api::Dial | Api::LlamaCpp | Api::Groq | Api::Mistral | Api::Vllm | Api::Xai => {
            &["text", "image_url", "input_audio", "file", "document_url", "reference"]
        }
        _ => &["text"],
    };
    content(flavour, way, "tool", message, parts)
}

/// A text, or one part at least.
fn content(flavour: &Flavour, way: &str, role: &str, message: &Value, kinds: &[&str]) -> Result<(), Refusal> {
    let content_way = format!("{way}.content");
    let parts = match message.get("content") {
        Some(Value::String(_)) => return Ok(()),
        Some(Value::Array(parts)) => parts,
        None | Some(Value::Null) => return Err(flavour.missing(&content_way)),
        Some(other) => return Err(flavour.wrong_type(&content_way, "string", other)),
    };
    if parts.is_empty() {
        return Err(flavour.empty(&content_way));
    }
    for (index, part) in parts.iter().enumerate() {
        let part_way = format!("{content_way}[{index}]");
        let kind = text(part, "type").ok_or_else(|| flavour.missing(&format!("{part_way}.type")))?;
        if !kinds.contains(&kind) {
            if kind == "image_url" {
                let message = format!(
                    "Invalid '{way}'. Image URLs are only allowed for messages with role 'user', but this message with role \
                     '{role}' contains an image URL."
                );
                return Err(flavour.refuse(&message, Some(way), Some("invalid_value")));
            }
            return Err(flavour.wrong_value(&format!("{part_way}.type"), kind, kinds));
        }
        self::part(flavour, &part_way, kind, part)?;
    }
    Ok(())
}

fn part(flavour: &Flavour, way: &str, kind: &str, part: &Value) -> Result<(), Refusal> {
    if flavour.is_closed
        && let Some(key) = stranger(part, &["type", kind])
    {
        return Err(flavour.unknown(key, Some(way)));
    }
    let inner = part.get(kind).ok_or_else(|| flavour.missing(&format!("{way}.{kind}")))?;
    match kind {
        "text" | "refusal" if !inner.is_string() => {
            Err(flavour.wrong_type(&format!("{way}.{kind}"), "string", inner))
        }
        // Mistral also takes the bare text of the address.
        "image_url" => {
            let url =
                text(inner, "url").or_else(|| inner.as_str().filter(|_| matches!(flavour.api, Api::Mistral)));
            let url = url.ok_or_else(|| flavour.missing(&format!("{way}.image_url.url")))?;
            image(flavour, url)
        }
        _ => Ok(()),
    }
}

fn image(flavour: &Flavour, url: &str) -> Result<(), Refusal> {
    let Some((kind, data)) = media::data_url(url) else { return Ok(()) };
    if !kind.starts_with("image/") {
        let message = "Invalid MIME type. Only image types are supported.";
        return Err(flavour.refuse(message, None, Some("invalid_image_format")));
    }
    let is_image = media::decode(data)
        .is_some_and(|bytes| media::kind(&bytes).is_some_and(|found| found.starts_with("image/")));
    if is_image {
        return Ok(());
    }
    let message = "You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', \
                   'jpeg', 'gif', 'webp'].";
    Err(flavour.refuse(message, None, Some("invalid_image_format")))
}

/// DIAL's attachments.
fn attachments(flavour: &Flavour, way: &str, message: &Value) -> Result<(), Refusal> {
    let attachments =
        message.get("custom_content").map(|content| list(content, "attachments")).unwrap_or_default();
    for (index, attachment) in attachments.iter().enumerate() {
        let way = format!("{way}.custom_content.attachments[{index}]");
        let known = ["index", "type", "title", "data", "url", "reference_type", "reference_url"];
        if let Some(key) = stranger(attachment, &known) {
            return Err(flavour.unknown(key, Some(&way)));
        }
        if present(attachment, "data").is_some() == present(attachment, "url").is_some() {
            let message = format!(
                "Your request contained invalid structure on path {}. Attachment must have either 'data' or 'url'",
                way.replace('[', ".").replace(']', "")
            );
            return Err(flavour.refuse(&message, None, None));
        }
    }
    Ok(())
}

/// DeepSeek's thinking mode.
pub(super) fn is_thinking(flavour: &Flavour, body: &Value) -> bool {
    matches!(flavour.api, Api::DeepSeek)
        && (text(body, "model") == Some("deepseek-reasoner")
            || body.pointer("/thinking/type").and_then(Value::as_str) == Some("enabled"))
}

fn has_reasoning(flavour: &Flavour, index: usize, message: &Value) -> Result<(), Refusal> {
    if text(message, "reasoning_content").is_some() {
        return Ok(());
    }
    let message = format!(
        "Missing `reasoning_content` field in the assistant message at message index {index}. For more information, please \
         refer to https://api-docs.deepseek.com/guides/thinking_mode#tool-calls"
    );
    Err(flavour.refuse(&message, None, Some("invalid_request_error")))
}
