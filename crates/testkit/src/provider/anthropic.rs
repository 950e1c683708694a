//! Anthropic's Messages.

mod blocks;
mod messages;
mod render;
mod tools;

pub(super) use render::{stream, whole};

use serde_json::{Value, json};

use super::KEY;
use super::json::{list, present, stranger, text};
use super::judge::{Refusal, Request};

/// The rules of a request as a whole.
///
/// | rule | source |
/// |---|---|
/// | `x-api-key`, `anthropic-version`, path | 3.4 [D] |
/// | unknown and missing fields | 3.4 [S anthropic `types/message_create_params.py`] |
/// | `system` is text, not a role | 3.4 [S] |
/// | thinking: its budget, and no forced choice with it | 3.4 |
pub(super) fn judge(request: &Request<'_>) -> Result<(), Refusal> {
    admit(request)?;
    let body = request.body;
    if !body.is_object() {
        return Err(refuse("The request body is not valid JSON"));
    }
    if let Some(key) = stranger(body, &REQUEST_KEYS) {
        return Err(extra(key));
    }
    for key in ["model", "max_tokens", "messages"] {
        if present(body, key).is_none() {
            return Err(required(key));
        }
    }
    let most = body["max_tokens"].as_u64();
    let most = most.ok_or_else(|| refuse("max_tokens: Input should be a valid integer"))?;
    if most == 0 {
        return Err(refuse("max_tokens: Input should be greater than or equal to 1"));
    }
    system(body)?;
    thinking(body, most)?;
    tools::judge(body)?;
    messages::judge(body)
}

fn admit(request: &Request<'_>) -> Result<(), Refusal> {
    let failed = |message| Refusal { status: 401, ..error("authentication_error", message) };
    match request.header("x-api-key") {
        None => return Err(failed("x-api-key header is required")),
        Some(KEY) => {}
        Some(_) => return Err(failed("invalid x-api-key")),
    }
    if request.target.path != "/v1/messages" {
        return Err(Refusal { status: 404, ..error("not_found_error", "Not found") });
    }
    match request.header("anthropic-version") {
        None => return Err(refuse("anthropic-version: header is required")),
        Some("2023-06-01") => {}
        Some(other) => {
            return Err(refuse(&format!("anthropic-version: \"{other}\" is not a valid version")));
        }
    }
    if !request.is_json() {
        return Err(refuse("content-type: must be application/json"));
    }
    Ok(())
}

fn system(body: &Value) -> Result<(), Refusal> {
    match present(body, "system") {
        None | Some(Value::String(_)) => Ok(()),
        Some(Value::Array(blocks)) => blocks.iter().enumerate().try_for_each(|(index, block)| {
            if text(block, "type") != Some("text") {
                return Err(refuse(&format!("system.{index}.type: Input should be 'text'")));
            }
            if let Some(key) = stranger(block, &["type", "text", "cache_control", "citations"]) {
                return Err(extra(&format!("system.{index}.{key}")));
            }
            match text(block, "text") {
                None => Err(required(&format!("system.{index}.text"))),
                Some("") => Err(refuse("system: text content blocks must be non-empty")),
                Some(_) => Ok(()),
            }
        }),
        Some(_) => Err(refuse("system: Input should be a valid string")),
    }
}

/// Whether thinking is on with a budget, which is when its blocks must come back.
pub(super) fn is_thinking(body: &Value) -> bool {
    body.pointer("/thinking/type").and_then(Value::as_str) == Some("enabled")
}

fn thinking(body: &Value, most: u64) -> Result<(), Refusal> {
    let Some(thinking) = present(body, "thinking") else { return Ok(()) };
    let kind = text(thinking, "type").ok_or_else(|| required("thinking.type"))?;
    match kind {
        "disabled" => return Ok(()),
        "enabled" | "adaptive" => {}
        other => {
            return Err(refuse(&format!(
                "thinking: Input tag '{other}' found using 'type' does not match any of the expected tags: 'adaptive', \
                 'disabled', 'enabled'"
            )));
        }
    }
    if let Some(key) = stranger(thinking, &["type", "budget_tokens", "display"]) {
        return Err(extra(&format!("thinking.{kind}.{key}")));
    }
    if kind == "enabled" {
        let budget = thinking.get("budget_tokens").and_then(Value::as_u64);
        let budget = budget.ok_or_else(|| required("thinking.enabled.budget_tokens"))?;
        if budget < 1024 {
            let message = "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024";
            return Err(refuse(message));
        }
        if most <= budget {
            return Err(refuse("`max_tokens` must be greater than `thinking.budget_tokens`."));
        }
    }
    if present(body, "temperature").is_some_and(|temperature| temperature.as_f64() != Some(1.0)) {
        return Err(refuse("`temperature` may only be set to 1 when thinking is enabled."));
    }
    if matches!(body.pointer("/tool_choice/type").and_then(Value::as_str), Some("any" | "tool")) {
        return Err(refuse("Thinking may not be enabled when tool_choice forces tool use."));
    }
    Ok(())
}

fn error(kind: &str, message: &str) -> Refusal {
    let error = json!({"type": kind, "message": message});
    Refusal::new(400, json!({"type": "error", "error": error, "request_id": "req_1"}))
}

fn refuse(message: &str) -> Refusal {
    error("invalid_request_error", message)
}

fn extra(way: &str) -> Refusal {
    refuse(&format!("{way}: Extra inputs are not permitted"))
}

fn required(way: &str) -> Refusal {
    refuse(&format!("{way}: Field required"))
}

/// The blocks of a message; those of a text are that text.
fn blocks(message: &Value) -> &[Value] {
    list(message, "content")
}

const REQUEST_KEYS: [&str; 20] = [
    "model",
    "messages",
    "max_tokens",
    "cache_control",
    "container",
    "context_management",
    "inference_geo",
    "mcp_servers",
    "metadata",
    "output_config",
    "service_tier",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "thinking",
    "tool_choice",
    "tools",
    "top_k",
    "top_p",
];
