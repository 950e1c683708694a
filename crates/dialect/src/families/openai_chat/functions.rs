//! The deprecated `functions` of Chat Completions, as tools: they have no ids, and a message has one call at
//! most.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::client::{InvalidRequest, ReadRequest, RequestFields, expected};

/// The converted parts of a request.
#[derive(Debug, Default)]
pub(super) struct ConvertedFunctions {
    /// Whether the request has functions instead of tools.
    pub(super) has_functions: bool,
    /// Whether the request has `function_call` instead of `tool_choice`.
    has_choice: bool,
    /// The positions of messages that are not what the client sent.
    pub(super) messages: BTreeSet<usize>,
}

impl ConvertedFunctions {
    /// Replaces the path in an error by that of the parameter that the client sent.
    pub(super) fn with_original_path(&self, mut error: InvalidRequest) -> InvalidRequest {
        let path = &error.parameter;
        let original = if self.has_functions && path.starts_with("tools") {
            path.replacen("tools", "functions", 1).replacen("].function", "]", 1)
        } else if self.has_choice && path.starts_with("tool_choice") {
            let path = path.replacen("tool_choice", "function_call", 1);
            path.replacen("function_call.function", "function_call", 1)
        } else {
            return error;
        };
        error.parameter = original;
        error
    }
}

/// Converts `functions`, `function_call` and the messages with calls of functions.
pub(super) fn convert_functions(body: &mut Value) -> ReadRequest<ConvertedFunctions> {
    let mut converted = ConvertedFunctions::default();
    let Some(fields) = body.as_object_mut() else { return Ok(converted) };
    for (old, new) in [("functions", "tools"), ("function_call", "tool_choice")] {
        let Some(value) = fields.shift_remove(old).filter(|value| !value.is_null()) else { continue };
        if fields.get(new).is_some_and(|value| !value.is_null()) {
            let fields = RequestFields::new("", json!({}))?;
            return Err(fields.invalid(old, format!("cannot be sent together with `{new}`")));
        }
        converted.has_choice |= old == "function_call";
        let value = match (old, value) {
            ("functions", Value::Array(functions)) => {
                converted.has_functions = true;
                functions
                    .into_iter()
                    .map(|function| json!({"type": "function", "function": function}))
                    .collect()
            }
            ("functions", other) => return Err(expected(old.to_owned(), "an array", &other)),
            (_, function @ Value::Object(_)) => json!({"type": "function", "function": function}),
            (_, mode) => mode,
        };
        fields.insert(new.to_owned(), value);
    }
    // The result of a function follows its call.
    let mut last_id = String::new();
    let messages = fields.get_mut("messages").and_then(Value::as_array_mut);
    for (position, message) in messages.into_iter().flatten().enumerate() {
        let Some(message) = message.as_object_mut() else { continue };
        if convert_message(message, position, &mut last_id) {
            converted.messages.insert(position);
        }
    }
    Ok(converted)
}

/// Returns whether the message was converted.
fn convert_message(message: &mut Map<String, Value>, position: usize, last_id: &mut String) -> bool {
    let has_call = message.get("function_call").is_some_and(|call| !call.is_null());
    let calls = message.get("tool_calls").filter(|calls| !calls.is_null());
    // Some clients write an empty list, which APIs reject.
    let has_tool_calls = calls.is_some_and(|calls| calls.as_array().is_none_or(|calls| !calls.is_empty()));
    match message.get("role").and_then(Value::as_str) {
        Some("assistant") if has_call && !has_tool_calls => {
            *last_id = format!("call_function_{position}");
            let function = message.shift_remove("function_call").unwrap_or_default();
            let call = json!({"id": last_id, "type": "function", "function": function});
            message.insert("tool_calls".to_owned(), json!([call]));
        }
        Some("function") => {
            message.shift_remove("name");
            message.insert("role".to_owned(), json!("tool"));
            message.insert("tool_call_id".to_owned(), json!(last_id));
        }
        _ => return false,
    }
    true
}
