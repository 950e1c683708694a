//! Ollama's own chat. It has no keys and reads over what it does not know, as Go's decoder does; what it cannot decode into
//! its structs it refuses in that decoder's words.
//!
//! | rule | source |
//! |---|---|
//! | path, `model` | 3.9 |
//! | content is text, also of results; images are base64 | 2.3, 3.9 (`api/types.go`) |
//! | arguments are an object | 3.9 |
//! | a schema is decoded into a fixed struct: a boolean property fails, other keywords vanish | 3.9 |

mod render;

pub(super) use render::{stream, whole};

use serde_json::{Value, json};

use super::json::{kind, list, object, present, text};
use super::judge::{Refusal, Request};
use super::media;

pub(super) fn judge(request: &Request<'_>) -> Result<(), Refusal> {
    if request.target.path != "/api/chat" {
        return Err(Refusal::new(404, json!("404 page not found")));
    }
    let body = request.body;
    if !body.is_object() {
        return Err(refuse("missing request body"));
    }
    if text(body, "model").is_none_or(str::is_empty) {
        return Err(refuse("model is required"));
    }
    list(body, "messages").iter().try_for_each(message)?;
    list(body, "tools").iter().try_for_each(tool)
}

fn message(message: &Value) -> Result<(), Refusal> {
    is_text(message, "role", "ChatRequest.messages.role")?;
    is_text(message, "content", "ChatRequest.messages.content")?;
    is_text(message, "thinking", "ChatRequest.messages.thinking")?;
    is_text(message, "tool_name", "ChatRequest.messages.tool_name")?;
    is_text(message, "tool_call_id", "ChatRequest.messages.tool_call_id")?;
    for image in list(message, "images") {
        if image.as_str().and_then(media::decode).is_none() {
            return Err(refuse("illegal base64 data at input byte 0"));
        }
    }
    for call in list(message, "tool_calls") {
        let function = call.get("function").unwrap_or(&Value::Null);
        is_text(call, "id", "ChatRequest.messages.tool_calls.id")?;
        is_text(function, "name", "ChatRequest.messages.tool_calls.function.name")?;
        if let Some(other) = present(function, "arguments").filter(|arguments| !arguments.is_object()) {
            let field = "ChatRequest.messages.tool_calls.function.arguments";
            return Err(undecodable(other, field, "api.ToolCallFunctionArguments"));
        }
    }
    Ok(())
}

fn tool(tool: &Value) -> Result<(), Refusal> {
    let function = tool.get("function").unwrap_or(&Value::Null);
    is_text(function, "name", "ChatRequest.tools.function.name")?;
    is_text(function, "description", "ChatRequest.tools.function.description")?;
    let parameters = function.get("parameters").unwrap_or(&Value::Null);
    is_text(parameters, "type", "ChatRequest.tools.function.parameters.type")?;
    let field = "ChatRequest.tools.function.parameters.properties";
    let properties = object(parameters, "properties").into_iter().flat_map(|properties| properties.values());
    properties
        .filter(|property| !property.is_object() && !property.is_null())
        .try_for_each(|property| Err(undecodable(property, field, "api.ToolProperty")))
}

fn is_text(value: &Value, key: &str, field: &str) -> Result<(), Refusal> {
    match present(value, key) {
        None | Some(Value::String(_)) => Ok(()),
        Some(other) => Err(undecodable(other, field, "string")),
    }
}

fn undecodable(value: &Value, field: &str, expected: &str) -> Refusal {
    let found = match kind(value) {
        "boolean" => "bool",
        "integer" | "decimal" => "number",
        other => other,
    };
    refuse(&format!("json: cannot unmarshal {found} into Go struct field {field} of type {expected}"))
}

fn refuse(message: &str) -> Refusal {
    Refusal::new(400, json!({"error": message}))
}
