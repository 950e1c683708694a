//! Ollama's own chat. It has no keys and ignores unknown fields, like Go's JSON decoder. A request that does
//! not decode into its structs gets the decoder's error message.
//!
//! Rules in `docs/providers.md`: `ollama/endpoint`, `ollama/unknown-fields`, `ollama/content`,
//! `ollama/arguments`, `ollama/schema`, `ollama/format`.

mod render;

pub(super) use render::{complete_body, stream_events};

use serde_json::{Value, json};

use super::check::{ApiRequest, Rejection};
use super::json::{list, object, present, text, type_name};
use super::media;

pub(super) fn check(request: &ApiRequest<'_>) -> Result<(), Rejection> {
    if request.target.path != "/api/chat" {
        return Err(Rejection::new(404, json!("404 page not found")));
    }
    let body = request.body;
    if !body.is_object() {
        return Err(reject("missing request body"));
    }
    if text(body, "model").is_none_or(str::is_empty) {
        return Err(reject("model is required"));
    }
    match present(body, "format") {
        None | Some(Value::Object(_)) => {}
        Some(Value::String(format)) if format == "json" || format.is_empty() => {}
        Some(other) => {
            return Err(reject(&format!(
                "invalid format: {other}; expected \"json\" or a valid JSON Schema object"
            )));
        }
    }
    list(body, "messages").iter().try_for_each(check_message)?;
    list(body, "tools").iter().try_for_each(check_tool)
}

fn check_message(message: &Value) -> Result<(), Rejection> {
    check_string(message, "role", "ChatRequest.messages.role")?;
    check_string(message, "content", "ChatRequest.messages.content")?;
    check_string(message, "thinking", "ChatRequest.messages.thinking")?;
    check_string(message, "tool_name", "ChatRequest.messages.tool_name")?;
    check_string(message, "tool_call_id", "ChatRequest.messages.tool_call_id")?;
    for image in list(message, "images") {
        if image.as_str().and_then(media::decode).is_none() {
            return Err(reject("illegal base64 data at input byte 0"));
        }
    }
    for call in list(message, "tool_calls") {
        let function = call.get("function").unwrap_or(&Value::Null);
        check_string(call, "id", "ChatRequest.messages.tool_calls.id")?;
        check_string(function, "name", "ChatRequest.messages.tool_calls.function.name")?;
        if let Some(other) = present(function, "arguments").filter(|arguments| !arguments.is_object()) {
            let field = "ChatRequest.messages.tool_calls.function.arguments";
            return Err(undecodable(other, field, "api.ToolCallFunctionArguments"));
        }
    }
    Ok(())
}

fn check_tool(tool: &Value) -> Result<(), Rejection> {
    let function = tool.get("function").unwrap_or(&Value::Null);
    check_string(function, "name", "ChatRequest.tools.function.name")?;
    check_string(function, "description", "ChatRequest.tools.function.description")?;
    let parameters = function.get("parameters").unwrap_or(&Value::Null);
    check_string(parameters, "type", "ChatRequest.tools.function.parameters.type")?;
    let field = "ChatRequest.tools.function.parameters.properties";
    let properties = object(parameters, "properties").into_iter().flat_map(|properties| properties.values());
    properties
        .filter(|property| !property.is_object() && !property.is_null())
        .try_for_each(|property| Err(undecodable(property, field, "api.ToolProperty")))
}

fn check_string(value: &Value, key: &str, field: &str) -> Result<(), Rejection> {
    match present(value, key) {
        None | Some(Value::String(_)) => Ok(()),
        Some(other) => Err(undecodable(other, field, "string")),
    }
}

fn undecodable(value: &Value, field: &str, expected: &str) -> Rejection {
    let found = match type_name(value) {
        "boolean" => "bool",
        "integer" | "decimal" => "number",
        other => other,
    };
    reject(&format!("json: cannot unmarshal {found} into Go struct field {field} of type {expected}"))
}

fn reject(message: &str) -> Rejection {
    Rejection::new(400, json!({"error": message}))
}
