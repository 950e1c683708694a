//! The deprecated `functions` of Chat Completions, as tools: they have no ids, and a message has one call at most.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::client::{ReadRequest, RequestFields, expected};

/// What was converted in a request.
#[derive(Debug, Default)]
pub(super) struct ConvertedFunctions {
    /// Whether the request has functions instead of tools.
    pub(super) has_functions: bool,
    /// The positions of messages that are not what the client sent.
    pub(super) messages: BTreeSet<usize>,
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
    let has = |key: &str| message.get(key).is_some_and(|value| !value.is_null());
    match message.get("role").and_then(Value::as_str) {
        Some("assistant") if has("function_call") && !has("tool_calls") => {
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
