//! Cohere's chat, version 2.
//!
//! | rule | source |
//! |---|---|
//! | key, path | 3.8 [D] |
//! | unknown fields | gh:agno-agi/agno#3503 |
//! | roles and fields of messages; results are text or documents, no images | 2.3, 3.8 [S cohere] |
//! | every call is answered, once, before anything else is said | 6.1 |
//! | definitions without `strict`; arguments are text | 3.8 |
//! | `strict_tools`: at least one required parameter in each tool, 200 fields in all | 2.1, 3.8 |
//! | `tool_choice`: `REQUIRED`, `NONE`, or left out | 3.8 |
//!
//! But for unknown fields and keys, the wording of the refusals is ours: none is quoted anywhere we know.

mod render;

pub(super) use render::{stream, whole};

use serde_json::{Value, json};

use super::KEY;
use super::json::{flag, list, object, present, stranger, text};
use super::judge::{Refusal, Request};

pub(super) fn judge(request: &Request<'_>) -> Result<(), Refusal> {
    match request.bearer() {
        Some(KEY) => {}
        None => return Err(error(401, "no api key supplied")),
        Some(_) => return Err(error(401, "invalid api token")),
    }
    if request.target.path != "/v2/chat" {
        return Err(error(404, "404 page not found"));
    }
    let body = request.body;
    if !body.is_object() {
        return Err(refuse("the body is not a JSON object"));
    }
    known(body, &REQUEST_KEYS)?;
    if text(body, "model").is_none() {
        return Err(refuse("model is required"));
    }
    messages(body)?;
    tools(body)
}

fn messages(body: &Value) -> Result<(), Refusal> {
    let messages = list(body, "messages");
    if messages.is_empty() {
        return Err(refuse("messages must have at least one element"));
    }
    let mut open: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let role = text(message, "role").unwrap_or_default();
        if role != "tool" && !open.is_empty() {
            return Err(unanswered(&open));
        }
        match role {
            "system" => {
                known(message, &["role", "content"])?;
                content(index, message, &["text"])?;
            }
            "user" => {
                known(message, &["role", "content"])?;
                content(index, message, &["text", "image_url"])?;
            }
            "assistant" => {
                known(message, &["role", "content", "tool_calls", "tool_plan", "citations"])?;
                let calls = list(message, "tool_calls");
                if present(message, "content").is_some() {
                    content(index, message, &["text", "thinking"])?;
                } else if calls.is_empty() {
                    return Err(refuse(&format!("messages[{index}] must have content or tool_calls")));
                }
                calls.iter().try_for_each(|one| call(index, one))?;
                open = calls.iter().filter_map(|call| text(call, "id")).collect();
            }
            "tool" => {
                known(message, &["role", "content", "tool_call_id"])?;
                content(index, message, &["text", "document"])?;
                let id = text(message, "tool_call_id").unwrap_or_default();
                let found = open.iter().position(|open| *open == id);
                let found = found.ok_or_else(|| {
                    refuse(&format!("messages[{index}].tool_call_id `{id}` has no preceding tool call"))
                })?;
                open.remove(found);
            }
            other => {
                let message =
                    format!("messages[{index}].role `{other}` must be one of system, user, assistant, tool");
                return Err(refuse(&message));
            }
        }
    }
    if open.is_empty() { Ok(()) } else { Err(unanswered(&open)) }
}

fn unanswered(ids: &[&str]) -> Refusal {
    refuse(&format!("tool calls without a tool message: {}", ids.join(", ")))
}

fn call(index: usize, call: &Value) -> Result<(), Refusal> {
    known(call, &["id", "type", "function"])?;
    let function = call.get("function").unwrap_or(&Value::Null);
    known(function, &["name", "arguments"])?;
    let is_whole = text(call, "id").is_some_and(|id| !id.is_empty())
        && text(call, "type") == Some("function")
        && text(function, "name").is_some()
        && text(function, "arguments").is_some();
    if is_whole {
        return Ok(());
    }
    let message = format!(
        "messages[{index}].tool_calls need an id, the type `function`, a name, and arguments as a string"
    );
    Err(refuse(&message))
}

fn content(index: usize, message: &Value, kinds: &[&str]) -> Result<(), Refusal> {
    let blocks = match message.get("content") {
        Some(Value::String(_)) => return Ok(()),
        Some(Value::Array(blocks)) => blocks,
        _ => return Err(refuse(&format!("messages[{index}].content must be a string or a list"))),
    };
    for block in blocks {
        let kind = text(block, "type").unwrap_or_default();
        if !kinds.contains(&kind) {
            let message =
                format!("messages[{index}].content type `{kind}` must be one of {}", kinds.join(", "));
            return Err(refuse(&message));
        }
        known(block, &["type", kind])?;
        if block.get(kind).is_none() {
            return Err(refuse(&format!("messages[{index}].content of type `{kind}` has no `{kind}`")));
        }
    }
    Ok(())
}

fn tools(body: &Value) -> Result<(), Refusal> {
    let tools = list(body, "tools");
    let is_strict = flag(body, "strict_tools");
    let mut fields = 0;
    for (index, tool) in tools.iter().enumerate() {
        known(tool, &["type", "function"])?;
        let function = tool.get("function").unwrap_or(&Value::Null);
        known(function, &["name", "description", "parameters"])?;
        if text(tool, "type") != Some("function") || text(function, "name").is_none() {
            return Err(refuse(&format!("tools[{index}] needs the type `function` and a name")));
        }
        let parameters = function.get("parameters").unwrap_or(&Value::Null);
        if parameters.is_object() && text(parameters, "type") != Some("object") {
            return Err(refuse(&format!("tools[{index}].function.parameters must be of type object")));
        }
        fields += object(parameters, "properties").map_or(0, serde_json::Map::len);
        if is_strict && list(parameters, "required").is_empty() {
            let message =
                format!("tools[{index}] must have at least one required parameter with strict_tools");
            return Err(refuse(&message));
        }
    }
    if is_strict && fields > 200 {
        return Err(refuse("strict_tools supports at most 200 fields across all tools"));
    }
    match present(body, "tool_choice") {
        None => Ok(()),
        Some(Value::String(word)) if ["REQUIRED", "NONE"].contains(&word.as_str()) => {
            if tools.is_empty() {
                Err(refuse("tool_choice needs tools"))
            } else {
                Ok(())
            }
        }
        Some(other) => Err(refuse(&format!("tool_choice {other} must be REQUIRED or NONE"))),
    }
}

fn error(status: u16, message: &str) -> Refusal {
    Refusal::new(status, json!({"id": "1", "message": message}))
}

fn refuse(message: &str) -> Refusal {
    error(400, &format!("invalid request: {message}"))
}

fn known(value: &Value, keys: &[&str]) -> Result<(), Refusal> {
    let Some(key) = stranger(value, keys) else { return Ok(()) };
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
