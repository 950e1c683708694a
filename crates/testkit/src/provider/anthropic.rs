//! Anthropic's Messages API.
//!
//! Rules in `docs/providers.md`: `anthropic/endpoint`, `anthropic/unknown-fields`,
//! `anthropic/required-fields`, `anthropic/system`, `anthropic/thinking-budget`, `anthropic/cache-control`,
//! `anthropic/output-format`, `anthropic/server-tools`.

mod blocks;
mod messages;
mod render;
mod searches;
mod tools;

pub(super) use render::{complete_body, stream_events};

use serde_json::{Value, json};

use super::API_KEY;
use super::check::{ApiRequest, Rejection};
use super::json::{list, present, text, unknown_key};

pub(super) fn check(request: &ApiRequest<'_>) -> Result<(), Rejection> {
    check_access(request)?;
    let body = request.body;
    if !body.is_object() {
        return Err(reject("The request body is not valid JSON"));
    }
    check_keys(body, &REQUEST_KEYS, None)?;
    for key in ["model", "max_tokens", "messages"] {
        if present(body, key).is_none() {
            return Err(required(key));
        }
    }
    let max_tokens = body["max_tokens"].as_u64();
    let max_tokens = max_tokens.ok_or_else(|| reject("max_tokens: Input should be a valid integer"))?;
    if max_tokens == 0 {
        return Err(reject("max_tokens: Input should be greater than or equal to 1"));
    }
    check_system(body)?;
    check_thinking(body, max_tokens)?;
    tools::check(body)?;
    check_output(body)?;
    messages::check(body)?;
    let breakpoints = count_breakpoints(body);
    if breakpoints > 4 {
        return Err(reject(&format!(
            "A maximum of 4 blocks with cache_control may be provided. Found {breakpoints}."
        )));
    }
    Ok(())
}

/// Counts the blocks with `cache_control`.
fn count_breakpoints(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(count_breakpoints).sum(),
        Value::Object(fields) => {
            usize::from(fields.contains_key("cache_control"))
                + fields.values().map(count_breakpoints).sum::<usize>()
        }
        _ => 0,
    }
}

/// Checks the key, the path, the version and the content type.
fn check_access(request: &ApiRequest<'_>) -> Result<(), Rejection> {
    let unauthorized = |message| Rejection { status: 401, ..error("authentication_error", message) };
    match request.header("x-api-key") {
        None => return Err(unauthorized("x-api-key header is required")),
        Some(API_KEY) => {}
        Some(_) => return Err(unauthorized("invalid x-api-key")),
    }
    if request.target.path != "/v1/messages" {
        return Err(Rejection { status: 404, ..error("not_found_error", "Not found") });
    }
    match request.header("anthropic-version") {
        None => return Err(reject("anthropic-version: header is required")),
        Some("2023-06-01") => {}
        Some(other) => {
            return Err(reject(&format!("anthropic-version: \"{other}\" is not a valid version")));
        }
    }
    if !request.is_json() {
        return Err(reject("content-type: must be application/json"));
    }
    Ok(())
}

fn check_system(body: &Value) -> Result<(), Rejection> {
    match present(body, "system") {
        None | Some(Value::String(_)) => Ok(()),
        Some(Value::Array(blocks)) => blocks.iter().enumerate().try_for_each(|(index, block)| {
            if text(block, "type") != Some("text") {
                return Err(reject(&format!("system.{index}.type: Input should be 'text'")));
            }
            let known = ["type", "text", "cache_control", "citations"];
            check_keys(block, &known, Some(&format!("system.{index}")))?;
            match text(block, "text") {
                None => Err(required(&format!("system.{index}.text"))),
                Some("") => Err(reject("system: text content blocks must be non-empty")),
                Some(_) => Ok(()),
            }
        }),
        Some(_) => Err(reject("system: Input should be a valid string")),
    }
}

/// Whether thinking is on with a budget; only then must its blocks be sent back.
pub(super) fn is_thinking(body: &Value) -> bool {
    body.pointer("/thinking/type").and_then(Value::as_str) == Some("enabled")
}

fn check_thinking(body: &Value, max_tokens: u64) -> Result<(), Rejection> {
    let Some(thinking) = present(body, "thinking") else { return Ok(()) };
    let kind = text(thinking, "type").ok_or_else(|| required("thinking.type"))?;
    match kind {
        "disabled" => return Ok(()),
        "enabled" | "adaptive" => {}
        other => {
            return Err(reject(&format!(
                "thinking: Input tag '{other}' found using 'type' does not match any of the expected tags: 'adaptive', \
                 'disabled', 'enabled'"
            )));
        }
    }
    check_keys(thinking, &["type", "budget_tokens", "display"], Some(&format!("thinking.{kind}")))?;
    if kind == "enabled" {
        let budget = thinking.get("budget_tokens").and_then(Value::as_u64);
        let budget = budget.ok_or_else(|| required("thinking.enabled.budget_tokens"))?;
        if budget < 1024 {
            let message = "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024";
            return Err(reject(message));
        }
        if max_tokens <= budget {
            return Err(reject("`max_tokens` must be greater than `thinking.budget_tokens`."));
        }
    }
    if present(body, "temperature").is_some_and(|temperature| temperature.as_f64() != Some(1.0)) {
        return Err(reject("`temperature` may only be set to 1 when thinking is enabled."));
    }
    if matches!(body.pointer("/tool_choice/type").and_then(Value::as_str), Some("any" | "tool")) {
        return Err(reject("Thinking may not be enabled when tool_choice forces tool use."));
    }
    Ok(())
}

fn check_output(body: &Value) -> Result<(), Rejection> {
    let Some(output) = present(body, "output_config") else { return Ok(()) };
    check_keys(output, &["effort", "format", "task_budget"], Some("output_config"))?;
    let Some(format) = present(output, "format") else { return Ok(()) };
    check_keys(format, &["type", "schema"], Some("output_config.format"))?;
    if text(format, "type") != Some("json_schema") {
        return Err(reject("output_config.format.type: Input should be 'json_schema'"));
    }
    let schema = format.get("schema").ok_or_else(|| required("output_config.format.schema"))?;
    if tools::is_open(schema) {
        let message = "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to \
                       false";
        return Err(reject(message));
    }
    Ok(())
}

fn error(kind: &str, message: &str) -> Rejection {
    let error = json!({"type": kind, "message": message});
    Rejection::new(400, json!({"type": "error", "error": error, "request_id": "req_1"}))
}

fn reject(message: &str) -> Rejection {
    error("invalid_request_error", message)
}

fn check_keys(value: &Value, known: &[&str], path: Option<&str>) -> Result<(), Rejection> {
    let Some(key) = unknown_key(value, known) else { return Ok(()) };
    let path = path.map_or_else(|| key.to_owned(), |path| format!("{path}.{key}"));
    Err(reject(&format!("{path}: Extra inputs are not permitted")))
}

fn required(path: &str) -> Rejection {
    reject(&format!("{path}: Field required"))
}

/// Returns the blocks of a message; a message whose content is a string has none.
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
