//! The messages of a Chat Completions request.
//!
//! Rules in `docs/providers.md`: `openai-chat/roles`, `openai-chat/call-pairing`, `openai-chat/call-ids`,
//! `openai-chat/arguments`, `openai-chat/tool-results`, `openai-chat/images`, `dial/attachments`,
//! `mistral/call-ids`, `mistral/call-pairing`, `mistral/arguments`, `mistral/thinking`, `deepseek/thinking`,
//! `xai/arguments`.

use serde_json::Value;

use super::flavour::{CallIdRule, ChatFlavour, path_segments};
use crate::provider::check::Rejection;
use crate::provider::json::{is_name, list, present, text, unknown_key};
use crate::provider::{Api, media, openai_errors};

pub(super) fn check(flavour: &ChatFlavour, body: &Value) -> Result<(), Rejection> {
    let mut open = OpenCalls::default();
    for (index, message) in list(body, "messages").iter().enumerate() {
        let path = format!("messages[{index}]");
        let role = text(message, "role").ok_or_else(|| flavour.missing(&format!("{path}.role")))?;
        if role != "tool" {
            open.close(flavour)?;
        }
        match role {
            "system" | "developer" | "user" => check_prompt(flavour, &path, role, message)?,
            "assistant" => {
                check_assistant(flavour, &path, message)?;
                if is_thinking(flavour, body) && present(message, "tool_calls").is_some() {
                    check_reasoning(flavour, index, message)?;
                }
                open = OpenCalls::of(index, message);
            }
            "tool" => {
                check_result(flavour, &path, message)?;
                open.resolve(flavour, index, message)?;
            }
            other => {
                let roles = ["system", "assistant", "user", "function", "tool", "developer"];
                return Err(flavour.unsupported_value(&format!("{path}.role"), other, &roles));
            }
        }
    }
    open.close(flavour)
}

/// The calls of an assistant message that have no result yet.
#[derive(Default)]
struct OpenCalls {
    index: usize,
    ids: Vec<String>,
    resolved: usize,
}

impl OpenCalls {
    fn of(index: usize, message: &Value) -> OpenCalls {
        let ids = list(message, "tool_calls").iter().filter_map(|call| text(call, "id"));
        OpenCalls { index, ids: ids.map(str::to_owned).collect(), resolved: 0 }
    }

    fn resolve(&mut self, flavour: &ChatFlavour, index: usize, message: &Value) -> Result<(), Rejection> {
        let id = text(message, "tool_call_id").unwrap_or_default();
        if let Some(found) = self.ids.iter().position(|open| open == id) {
            self.ids.remove(found);
            self.resolved += 1;
            return Ok(());
        }
        let message = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.";
        Err(unpaired(flavour, message, index))
    }

    fn close(&mut self, flavour: &ChatFlavour) -> Result<(), Rejection> {
        let open = std::mem::take(self);
        if open.ids.is_empty() {
            return Ok(());
        }
        let message = format!(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. \
             The following tool_call_ids did not have response messages: {}",
            open.ids.join(", ")
        );
        Err(unpaired(flavour, &message, open.index + open.resolved + 1))
    }
}

fn unpaired(flavour: &ChatFlavour, message: &str, index: usize) -> Rejection {
    if flavour.api == Api::Mistral {
        let message = "Not the same number of function calls and responses";
        return flavour.mistral_error(message, "invalid_request_message_order", "3230");
    }
    flavour.reject(message, Some(&format!("messages.[{index}].role")), None)
}

/// Checks a system, developer or user message.
fn check_prompt(flavour: &ChatFlavour, path: &str, role: &str, message: &Value) -> Result<(), Rejection> {
    flavour.check_keys(message, &["role", "content", "name"], flavour.prompt_keys, Some(path))?;
    check_attachments(flavour, path, message)?;
    let parts: &[&str] =
        if role == "user" { &["text", "image_url", "input_audio", "file"] } else { &["text"] };
    check_content(flavour, path, role, message, parts)
}

fn check_assistant(flavour: &ChatFlavour, path: &str, message: &Value) -> Result<(), Rejection> {
    let known = ["role", "content", "name", "refusal", "audio", "tool_calls", "function_call"];
    flavour.check_keys(message, &known, flavour.assistant_keys, Some(path))?;
    check_attachments(flavour, path, message)?;
    let calls = present(message, "tool_calls");
    if present(message, "content").is_some() {
        let parts: &[&str] =
            if flavour.api == Api::Mistral { &["text", "thinking"] } else { &["text", "refusal"] };
        check_content(flavour, path, "assistant", message, parts)?;
    } else if calls.is_none() && present(message, "audio").is_none() {
        let message = "Invalid value for 'content': expected a string, got null.";
        return Err(flavour.reject(message, Some(&format!("{path}.content")), None));
    }
    let Some(calls) = calls else { return Ok(()) };
    let path = format!("{path}.tool_calls");
    let calls = calls.as_array().ok_or_else(|| flavour.wrong_type(&path, "an array", calls))?;
    if calls.is_empty() && !matches!(flavour.api, Api::Vllm | Api::LlamaCpp) {
        return Err(flavour.empty_array(&path));
    }
    calls
        .iter()
        .enumerate()
        .try_for_each(|(index, call)| check_call(flavour, &format!("{path}[{index}]"), call))
}

fn check_call(flavour: &ChatFlavour, path: &str, call: &Value) -> Result<(), Rejection> {
    let additional: &[&str] = if matches!(flavour.api, Api::Mistral | Api::Dial) { &["index"] } else { &[] };
    flavour.check_keys(call, &["id", "type", "function", "custom"], additional, Some(path))?;
    let id = text(call, "id").ok_or_else(|| flavour.missing(&format!("{path}.id")))?;
    check_id(flavour, &format!("{path}.id"), id)?;
    let kind = text(call, "type").ok_or_else(|| flavour.missing(&format!("{path}.type")))?;
    if kind != "function" {
        return Err(flavour.unsupported_value(&format!("{path}.type"), kind, &["function", "custom"]));
    }
    let path = format!("{path}.function");
    let function = call.get("function").unwrap_or(&Value::Null);
    flavour.check_keys(function, &["name", "arguments"], &[], Some(&path))?;
    let name_path = format!("{path}.name");
    let name = text(function, "name").ok_or_else(|| flavour.missing(&name_path))?;
    super::tools::check_name(flavour, &name_path, name)?;
    let path = format!("{path}.arguments");
    match function.get("arguments") {
        None => Err(flavour.missing(&path)),
        Some(Value::Object(_)) if flavour.api == Api::Mistral => Ok(()),
        Some(Value::String(empty)) if empty.is_empty() && flavour.api == Api::Xai => {
            let message = "Invalid request content: Invalid arguments for function call.";
            Err(flavour.reject(message, Some(&path), None))
        }
        Some(Value::String(_)) => Ok(()),
        Some(other) => Err(flavour.wrong_type(&path, "a string", other)),
    }
}

fn check_id(flavour: &ChatFlavour, path: &str, id: &str) -> Result<(), Rejection> {
    let length = id.chars().count();
    match flavour.call_ids {
        CallIdRule::NineAlphanumerics if length != 9 || !is_name(id, 9, "") => {
            let message = format!("Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9.");
            Err(flavour.mistral_error(&message, "invalid_request_function_call", "3280"))
        }
        CallIdRule::Max64Chars if length > 64 => {
            Err(flavour.reject_at(path, openai_errors::string_too_long(path, 64, length)))
        }
        _ => Ok(()),
    }
}

fn check_result(flavour: &ChatFlavour, path: &str, message: &Value) -> Result<(), Rejection> {
    flavour.check_keys(message, &["role", "content", "tool_call_id"], flavour.tool_keys, Some(path))?;
    check_attachments(flavour, path, message)?;
    let id_path = format!("{path}.tool_call_id");
    let id = text(message, "tool_call_id").ok_or_else(|| flavour.missing(&id_path))?;
    check_id(flavour, &id_path, id)?;
    let parts: &[&str] = match flavour.api {
        // The SDKs of these APIs allow other parts, or it is not known whether the API rejects them, so all
        // are accepted.
        Api::Dial | Api::LlamaCpp | Api::Groq | Api::Mistral | Api::Vllm | Api::Xai => {
            &["text", "image_url", "input_audio", "file", "document_url", "reference"]
        }
        _ => &["text"],
    };
    check_content(flavour, path, "tool", message, parts)
}

/// Checks that the content is a string or a non-empty array of parts.
fn check_content(
    flavour: &ChatFlavour,
    path: &str,
    role: &str,
    message: &Value,
    kinds: &[&str],
) -> Result<(), Rejection> {
    let content_path = format!("{path}.content");
    let parts = match message.get("content") {
        Some(Value::String(_)) => return Ok(()),
        Some(Value::Array(parts)) => parts,
        None | Some(Value::Null) => return Err(flavour.missing(&content_path)),
        Some(other) => return Err(flavour.wrong_type(&content_path, "a string", other)),
    };
    if parts.is_empty() {
        return Err(flavour.empty_array(&content_path));
    }
    for (index, part) in parts.iter().enumerate() {
        let part_path = format!("{content_path}[{index}]");
        let kind = text(part, "type").ok_or_else(|| flavour.missing(&format!("{part_path}.type")))?;
        if !kinds.contains(&kind) {
            if kind == "image_url" {
                let message = format!(
                    "Invalid '{path}'. Image URLs are only allowed for messages with role 'user', but this message with role \
                     '{role}' contains an image URL."
                );
                return Err(flavour.reject(&message, Some(path), Some("invalid_value")));
            }
            return Err(flavour.unsupported_value(&format!("{part_path}.type"), kind, kinds));
        }
        check_part(flavour, &part_path, kind, part)?;
    }
    Ok(())
}

fn check_part(flavour: &ChatFlavour, path: &str, kind: &str, part: &Value) -> Result<(), Rejection> {
    flavour.check_keys(part, &["type", kind], &[], Some(path))?;
    let inner = part.get(kind).ok_or_else(|| flavour.missing(&format!("{path}.{kind}")))?;
    match kind {
        "text" | "refusal" if !inner.is_string() => {
            Err(flavour.wrong_type(&format!("{path}.{kind}"), "a string", inner))
        }
        // Mistral also accepts the URL as a plain string.
        "image_url" => {
            let url = text(inner, "url").or_else(|| inner.as_str().filter(|_| flavour.api == Api::Mistral));
            let url = url.ok_or_else(|| flavour.missing(&format!("{path}.image_url.url")))?;
            check_image(flavour, url)
        }
        _ => Ok(()),
    }
}

fn check_image(flavour: &ChatFlavour, url: &str) -> Result<(), Rejection> {
    let Some((media_type, data)) = media::data_url(url) else { return Ok(()) };
    if !media_type.starts_with("image/") {
        let message = "Invalid MIME type. Only image types are supported.";
        return Err(flavour.reject(message, None, Some("invalid_image_format")));
    }
    if media::decode(data).is_some_and(|bytes| media::is_image(&bytes)) {
        return Ok(());
    }
    let message = "You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', \
                   'jpeg', 'gif', 'webp'].";
    Err(flavour.reject(message, None, Some("invalid_image_format")))
}

/// Checks the attachments of DIAL.
fn check_attachments(flavour: &ChatFlavour, path: &str, message: &Value) -> Result<(), Rejection> {
    let attachments =
        message.get("custom_content").map(|content| list(content, "attachments")).unwrap_or_default();
    for (index, attachment) in attachments.iter().enumerate() {
        let path = format!("{path}.custom_content.attachments[{index}]");
        let known = ["index", "type", "title", "data", "url", "reference_type", "reference_url"];
        if let Some(key) = unknown_key(attachment, &known) {
            return Err(flavour.unknown_field(key, Some(&path)));
        }
        if present(attachment, "data").is_some() == present(attachment, "url").is_some() {
            let path: Vec<&str> = path_segments(Some(&path)).collect();
            let message = format!(
                "Your request contained invalid structure on path {}. Attachment must have either 'data' or 'url'",
                path.join(".")
            );
            return Err(flavour.reject(&message, None, None));
        }
    }
    Ok(())
}

/// Whether the thinking mode of DeepSeek is on.
pub(super) fn is_thinking(flavour: &ChatFlavour, body: &Value) -> bool {
    flavour.api == Api::DeepSeek
        && (text(body, "model") == Some("deepseek-reasoner")
            || body.pointer("/thinking/type").and_then(Value::as_str) == Some("enabled"))
}

fn check_reasoning(flavour: &ChatFlavour, index: usize, message: &Value) -> Result<(), Rejection> {
    if text(message, "reasoning_content").is_some() {
        return Ok(());
    }
    let message = format!(
        "Missing `reasoning_content` field in the assistant message at message index {index}. For more information, please \
         refer to https://api-docs.deepseek.com/guides/thinking_mode#tool-calls"
    );
    Err(flavour.reject(&message, None, Some("invalid_request_error")))
}
