//! Calls back into history, for a conversation that moves to another provider.

use serde_json::{Map, Value};

use super::{CallKind, ReceivedCall};
use crate::{
    Dialect, Family, anthropic, bedrock, cohere, gemini, mcp, ollama, openai_chat, openai_responses,
};

/// Writes an assistant turn that asks for `calls`, as messages or items for the request.
///
/// Within one provider, send the provider's own message back instead: it may hold reasoning, plans and state that the
/// provider wants to see again. Ids go through [`wire_id`](crate::wire_id) here and in
/// [`write_results`](crate::write_results), so they match.
pub fn write_calls(dialect: Dialect, calls: &[ReceivedCall]) -> Vec<Value> {
    if calls.is_empty() {
        return Vec::new();
    }
    match dialect.family() {
        Family::OpenAiChat => openai_chat::write_calls(dialect, calls),
        Family::OpenAiResponses => openai_responses::write_calls(dialect, calls),
        Family::Anthropic => anthropic::write_calls(dialect, calls),
        Family::Gemini => gemini::write_calls(calls),
        Family::Bedrock => bedrock::write_calls(dialect, calls),
        Family::Cohere => cohere::write_calls(dialect, calls),
        Family::Ollama => ollama::write_calls(calls),
        Family::Mcp => mcp::write_calls(calls),
    }
}

/// The arguments as JSON text, never empty: xAI refuses an empty string in history.
pub(crate) fn arguments_text(call: &ReceivedCall) -> String {
    match &call.arguments {
        Value::Null => "{}".to_owned(),
        Value::String(text) if text.trim().is_empty() => "{}".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The arguments as an object, for APIs that take nothing else. What is no object is kept under a key of its own, so
/// that the model still sees what it wrote and why it was answered with an error.
pub(crate) fn arguments_object(call: &ReceivedCall) -> Map<String, Value> {
    let lone = |key: &str, value: Value| Map::from_iter([(key.to_owned(), value)]);
    match &call.arguments {
        Value::Null => Map::new(),
        Value::Object(arguments) => arguments.clone(),
        Value::String(text) if call.kind == CallKind::Custom => lone("input", Value::String(text.clone())),
        Value::String(text) if text.trim().is_empty() => Map::new(),
        Value::String(text) => match serde_json::from_str(text) {
            Ok(Value::Object(arguments)) => arguments,
            Ok(Value::Null) => Map::new(),
            _ => lone("arguments", Value::String(text.clone())),
        },
        other => lone("arguments", other.clone()),
    }
}
