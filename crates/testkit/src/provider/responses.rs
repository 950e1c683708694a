//! OpenAI's Responses.
//!
//! Rules in `docs/providers.md`: `openai-responses/endpoint`, `openai-responses/unknown-fields`,
//! `openai-responses/tool-definition`, `openai-responses/tool-names`, `openai-responses/tool-choice`,
//! `openai-responses/response-format`, `openai-chat/schema`, `openai-strict/*`.

mod items;
mod render;

pub(super) use render::{complete_body, stream_events};

use serde_json::{Value, json};

use super::check::{ApiRequest, Rejection};
use super::json::{flag, is_name, list, present, text, unknown_key};
use super::openai_errors::CodedMessage;
use super::{API_KEY, openai_errors, schema};

pub(super) fn check(request: &ApiRequest<'_>) -> Result<(), Rejection> {
    check_access(request)?;
    let body = request.body;
    if !body.is_object() {
        return Err(reject("We could not parse the JSON body of your request.", None, None));
    }
    check_keys(body, &REQUEST_KEYS, None)?;
    if text(body, "model").is_none() {
        return Err(missing("model"));
    }
    if present(body, "stream_options").is_some() && !flag(body, "stream") {
        let message = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
        return Err(reject(message, Some("stream_options"), None));
    }
    match body.get("input") {
        Some(Value::String(_)) => {}
        Some(Value::Array(_)) => items::check(body)?,
        Some(other) => return Err(wrong_type("input", "one of a string or an array of input items", other)),
        None if present(body, "previous_response_id").is_some() => {}
        None => return Err(missing("input")),
    }
    for (index, tool) in list(body, "tools").iter().enumerate() {
        check_tool(&format!("tools[{index}]"), tool)?;
    }
    check_choice(body)?;
    check_format(body)
}

/// Checks `text.format`.
fn check_format(body: &Value) -> Result<(), Rejection> {
    let Some(format) = body.pointer("/text/format").filter(|format| !format.is_null()) else { return Ok(()) };
    let path = "text.format";
    match text(format, "type").ok_or_else(|| missing("text.format.type"))? {
        "text" => Ok(()),
        "json_object" => {
            let mentions = ["instructions", "input"]
                .iter()
                .any(|key| body[*key].to_string().to_ascii_lowercase().contains("json"));
            match mentions {
                true => Ok(()),
                false => {
                    let message = "Response input messages must contain the word 'json' in some form to use 'text.format' \
                                   of type 'json_object'.";
                    Err(reject(message, Some("input"), None))
                }
            }
        }
        "json_schema" => {
            check_keys(format, &["type", "name", "description", "schema", "strict"], Some(path))?;
            let name_path = format!("{path}.name");
            let name = text(format, "name").ok_or_else(|| missing(&name_path))?;
            check_name(&name_path, name)?;
            let schema = present(format, "schema").ok_or_else(|| missing(&format!("{path}.schema")))?;
            let problem = match flag(format, "strict") {
                true => schema::openai_strict_problem(schema),
                false => schema::openai_problem(schema),
            };
            match problem {
                Some(problem) => Err(reject_at(path, openai_errors::invalid_format(name, &problem))),
                None => Ok(()),
            }
        }
        other => Err(unsupported_value("text.format.type", other, &["json_object", "json_schema", "text"])),
    }
}

/// Checks the key, the path and the content type.
fn check_access(request: &ApiRequest<'_>) -> Result<(), Rejection> {
    match request.bearer() {
        Some(API_KEY) => {}
        None => {
            let message = "Missing bearer or basic authentication in header";
            return Err(Rejection { status: 401, ..reject(message, None, None) });
        }
        Some(key) => {
            let message = format!(
                "Incorrect API key provided: {key}. You can find your API key at https://platform.openai.com/account/api-keys."
            );
            return Err(Rejection { status: 401, ..reject(&message, None, Some("invalid_api_key")) });
        }
    }
    if request.target.path != "/v1/responses" {
        let message = format!("Invalid URL (POST {})", request.target.path);
        return Err(Rejection { status: 404, ..reject(&message, None, None) });
    }
    if !request.is_json() {
        let content_type = request.header("content-type").unwrap_or_default();
        let message = format!(
            "Unsupported content type: '{content_type}'. This API method only accepts 'application/json' requests."
        );
        return Err(reject(&message, None, Some("unsupported_content_type")));
    }
    Ok(())
}

fn check_tool(path: &str, tool: &Value) -> Result<(), Rejection> {
    let kind = text(tool, "type").ok_or_else(|| missing(&format!("{path}.type")))?;
    if kind != "function" {
        // The provider's own tools have other fields.
        return Ok(());
    }
    let known = [
        "type",
        "name",
        "description",
        "parameters",
        "strict",
        "defer_loading",
        "output_schema",
        "allowed_callers",
        "async",
    ];
    check_keys(tool, &known, Some(path))?;
    let name_path = format!("{path}.name");
    let name = text(tool, "name").ok_or_else(|| missing(&name_path))?;
    check_name(&name_path, name)?;
    let strict = tool.get("strict").ok_or_else(|| missing(&format!("{path}.strict")))?;
    let path = format!("{path}.parameters");
    let parameters = tool.get("parameters").ok_or_else(|| missing(&path))?;
    if parameters.is_null() {
        return Ok(());
    }
    let problem = if strict == &Value::Bool(true) {
        schema::openai_strict_problem(parameters)
    } else {
        schema::openai_problem(parameters)
    };
    match problem {
        Some(problem) => Err(reject_at(&path, openai_errors::invalid_schema(name, &problem))),
        None => Ok(()),
    }
}

fn check_name(path: &str, name: &str) -> Result<(), Rejection> {
    if !is_name(name, usize::MAX, "_-") {
        return Err(reject_at(path, openai_errors::name_mismatch(path)));
    }
    check_length(path, name, 128)
}

fn check_choice(body: &Value) -> Result<(), Rejection> {
    let Some(choice) = present(body, "tool_choice") else { return Ok(()) };
    let tools = list(body, "tools");
    match choice.as_str() {
        Some("auto" | "none") => return Ok(()),
        Some("required") if !tools.is_empty() => return Ok(()),
        Some("required") => {
            let message = "Tool choice 'required' must be specified with 'tools' parameter.";
            return Err(reject(message, Some("tool_choice"), None));
        }
        Some(other) => return Err(unsupported_value("tool_choice", other, &["none", "auto", "required"])),
        None => {}
    }
    match text(choice, "type") {
        Some("function") => {}
        Some(_) => return Ok(()),
        None => return Err(missing("tool_choice.type")),
    }
    check_keys(choice, &["type", "name"], Some("tool_choice"))?;
    let name = text(choice, "name").ok_or_else(|| missing("tool_choice.name"))?;
    if tools.iter().any(|tool| text(tool, "name") == Some(name)) {
        return Ok(());
    }
    let message = "Tool choice 'function' not found in 'tools' parameter.";
    Err(reject(message, Some("tool_choice"), None))
}

fn reject(message: &str, parameter: Option<&str>, code: Option<&str>) -> Rejection {
    let error =
        json!({"message": message, "type": "invalid_request_error", "param": parameter, "code": code});
    Rejection::new(400, json!({"error": error}))
}

fn reject_at(path: &str, (message, code): CodedMessage) -> Rejection {
    reject(&message, Some(path), Some(code))
}

fn missing(path: &str) -> Rejection {
    reject_at(path, openai_errors::missing_parameter(path))
}

/// `expected` begins with its article.
fn wrong_type(path: &str, expected: &str, got: &Value) -> Rejection {
    reject_at(path, openai_errors::wrong_type(path, expected, got))
}

fn unsupported_value(path: &str, got: &str, supported: &[&str]) -> Rejection {
    reject_at(path, openai_errors::unsupported_value(got, supported))
}

fn check_length(path: &str, text: &str, max_chars: usize) -> Result<(), Rejection> {
    let length = text.chars().count();
    if length > max_chars {
        return Err(reject_at(path, openai_errors::string_too_long(path, max_chars, length)));
    }
    Ok(())
}

fn check_keys(value: &Value, known: &[&str], path: Option<&str>) -> Result<(), Rejection> {
    let Some(key) = unknown_key(value, known) else { return Ok(()) };
    let path = path.map_or_else(|| key.to_owned(), |path| format!("{path}.{key}"));
    Err(reject_at(&path, openai_errors::unknown_parameter(&path)))
}

const REQUEST_KEYS: [&str; 30] = [
    "background",
    "client_metadata",
    "context_management",
    "conversation",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];
