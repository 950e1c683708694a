//! Cohere's chat, version 2.
//!
//! Rules in `docs/providers.md`: `cohere/endpoint`, `cohere/unknown-fields`, `cohere/messages`,
//! `cohere/call-pairing`, `cohere/tool-definition`, `cohere/strict-tools`, `cohere/tool-choice`,
//! `cohere/response-format`.
//!
//! Except for unknown fields and keys, the messages of the rejections are our own: no public source quotes
//! any.

mod render;

pub(super) use render::{complete_body, stream_events};

use serde_json::{Value, json};

use super::API_KEY;
use super::check::{ApiRequest, Rejection};
use super::json::{flag, list, object, present, text, unknown_key};

pub(super) fn check(request: &ApiRequest<'_>) -> Result<(), Rejection> {
    match request.bearer() {
        Some(API_KEY) => {}
        None => return Err(error(401, "no api key supplied")),
        Some(_) => return Err(error(401, "invalid api token")),
    }
    if request.target.path != "/v2/chat" {
        return Err(error(404, "404 page not found"));
    }
    let body = request.body;
    if !body.is_object() {
        return Err(reject("the body is not a JSON object"));
    }
    check_keys(body, &REQUEST_KEYS)?;
    if text(body, "model").is_none() {
        return Err(reject("model is required"));
    }
    check_messages(body)?;
    check_tools(body)?;
    check_format(body)
}

fn check_format(body: &Value) -> Result<(), Rejection> {
    let Some(format) = present(body, "response_format") else { return Ok(()) };
    check_keys(format, &["type", "json_schema"])?;
    if !["text", "json_object"].contains(&text(format, "type").unwrap_or_default()) {
        return Err(reject("response_format.type must be text or json_object"));
    }
    if !list(body, "tools").is_empty() || !list(body, "documents").is_empty() {
        return Err(reject("response_format cannot be used with tools or documents"));
    }
    match present(format, "json_schema") {
        Some(schema) if text(schema, "type") != Some("object") => {
            Err(reject("response_format.json_schema must be of type object"))
        }
        _ => Ok(()),
    }
}

fn check_messages(body: &Value) -> Result<(), Rejection> {
    let messages = list(body, "messages");
    if messages.is_empty() {
        return Err(reject("messages must have at least one element"));
    }
    let mut open: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let role = text(message, "role").unwrap_or_default();
        if role != "tool" && !open.is_empty() {
            return Err(unresolved(&open));
        }
        match role {
            "system" => {
                check_keys(message, &["role", "content"])?;
                check_content(index, message, &["text"])?;
            }
            "user" => {
                check_keys(message, &["role", "content"])?;
                check_content(index, message, &["text", "image_url"])?;
            }
            "assistant" => {
                check_keys(message, &["role", "content", "tool_calls", "tool_plan", "citations"])?;
                let calls = list(message, "tool_calls");
                if present(message, "content").is_some() {
                    check_content(index, message, &["text", "thinking"])?;
                } else if calls.is_empty() {
                    return Err(reject(&format!("messages[{index}] must have content or tool_calls")));
                }
                calls.iter().try_for_each(|call| check_call(index, call))?;
                open = calls.iter().filter_map(|call| text(call, "id")).collect();
            }
            "tool" => {
                check_keys(message, &["role", "content", "tool_call_id"])?;
                check_content(index, message, &["text", "document"])?;
                let id = text(message, "tool_call_id").unwrap_or_default();
                let found = open.iter().position(|open| *open == id);
                let found = found.ok_or_else(|| {
                    reject(&format!("messages[{index}].tool_call_id `{id}` has no preceding tool call"))
                })?;
                open.remove(found);
            }
            other => {
                let message =
                    format!("messages[{index}].role `{other}` must be one of system, user, assistant, tool");
                return Err(reject(&message));
            }
        }
    }
    if open.is_empty() { Ok(()) } else { Err(unresolved(&open)) }
}

fn unresolved(ids: &[&str]) -> Rejection {
    reject(&format!("tool calls without a tool message: {}", ids.join(", ")))
}

fn check_call(index: usize, call: &Value) -> Result<(), Rejection> {
    check_keys(call, &["id", "type", "function"])?;
    let function = call.get("function").unwrap_or(&Value::Null);
    check_keys(function, &["name", "arguments"])?;
    let is_complete = text(call, "id").is_some_and(|id| !id.is_empty())
        && text(call, "type") == Some("function")
        && text(function, "name").is_some()
        && text(function, "arguments").is_some();
    if is_complete {
        return Ok(());
    }
    let message = format!(
        "messages[{index}].tool_calls need an id, the type `function`, a name, and arguments as a string"
    );
    Err(reject(&message))
}

fn check_content(index: usize, message: &Value, kinds: &[&str]) -> Result<(), Rejection> {
    let blocks = match message.get("content") {
        Some(Value::String(_)) => return Ok(()),
        Some(Value::Array(blocks)) => blocks,
        _ => return Err(reject(&format!("messages[{index}].content must be a string or an array"))),
    };
    for block in blocks {
        let kind = text(block, "type").unwrap_or_default();
        if !kinds.contains(&kind) {
            let message =
                format!("messages[{index}].content type `{kind}` must be one of {}", kinds.join(", "));
            return Err(reject(&message));
        }
        check_keys(block, &["type", kind])?;
        if block.get(kind).is_none() {
            return Err(reject(&format!("messages[{index}].content of type `{kind}` has no `{kind}`")));
        }
    }
    Ok(())
}

fn check_tools(body: &Value) -> Result<(), Rejection> {
    let tools = list(body, "tools");
    let is_strict = flag(body, "strict_tools");
    let mut fields = 0;
    for (index, tool) in tools.iter().enumerate() {
        check_keys(tool, &["type", "function"])?;
        let function = tool.get("function").unwrap_or(&Value::Null);
        check_keys(function, &["name", "description", "parameters"])?;
        if text(tool, "type") != Some("function") || text(function, "name").is_none() {
            return Err(reject(&format!("tools[{index}] needs the type `function` and a name")));
        }
        let parameters = function.get("parameters").unwrap_or(&Value::Null);
        if parameters.is_object() && text(parameters, "type") != Some("object") {
            return Err(reject(&format!("tools[{index}].function.parameters must be of type object")));
        }
        fields += object(parameters, "properties").map_or(0, serde_json::Map::len);
        if is_strict && list(parameters, "required").is_empty() {
            let message =
                format!("tools[{index}] must have at least one required parameter with strict_tools");
            return Err(reject(&message));
        }
    }
    if is_strict && fields > 200 {
        return Err(reject("strict_tools supports at most 200 fields across all tools"));
    }
    match present(body, "tool_choice") {
        None => Ok(()),
        Some(Value::String(mode)) if ["REQUIRED", "NONE"].contains(&mode.as_str()) => {
            if tools.is_empty() {
                Err(reject("tool_choice needs tools"))
            } else {
                Ok(())
            }
        }
        Some(other) => Err(reject(&format!("tool_choice {other} must be REQUIRED or NONE"))),
    }
}

fn error(status: u16, message: &str) -> Rejection {
    Rejection::new(status, json!({"id": "1", "message": message}))
}

fn reject(message: &str) -> Rejection {
    error(400, &format!("invalid request: {message}"))
}

fn check_keys(value: &Value, keys: &[&str]) -> Result<(), Rejection> {
    let Some(key) = unknown_key(value, keys) else { return Ok(()) };
    Err(error(
        422,
        &format!(
            "unknown field: parameter '{key}' is not a valid field. For proper usage, please refer to \
             https://docs.cohere.com/reference/chat"
        ),
    ))
}

const REQUEST_KEYS: [&str; 22] = [
    "model",
    "messages",
    "stream",
    "tools",
    "documents",
    "citation_options",
    "response_format",
    "safety_mode",
    "max_tokens",
    "stop_sequences",
    "temperature",
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "k",
    "p",
    "logprobs",
    "tool_choice",
    "strict_tools",
    "thinking",
    "raw_prompting",
    "priority",
];
