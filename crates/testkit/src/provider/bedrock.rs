//! Bedrock's Converse, with a Claude model.
//!
//! Rules in `docs/providers.md`: `bedrock/endpoint`, `bedrock/unknown-fields`, `bedrock/system`,
//! `bedrock/output-config`.
//!
//! The messages of `SerializationException` are our own: no public source quotes any.

mod blocks;
mod messages;
mod render;
mod signature;
mod tools;

pub(super) use render::{complete_body, stream_events};
pub(super) use signature::verify as verify_signature;

use serde_json::{Value, json};

use super::API_KEY;
use super::check::{ApiRequest, Rejection};
use super::json::{present, text, unknown_key};

pub(super) fn check(request: &ApiRequest<'_>) -> Result<(), Rejection> {
    check_access(request)?;
    let body = request.body;
    if !body.is_object() {
        return Err(error(400, "SerializationException", "The request body is not valid JSON"));
    }
    check_keys(body, "", &REQUEST_KEYS)?;
    if let Some(config) = present(body, "inferenceConfig") {
        check_keys(config, "inferenceConfig", &["maxTokens", "temperature", "topP", "stopSequences"])?;
    }
    if let Some(system) = present(body, "system") {
        let blocks = system
            .as_array()
            .ok_or_else(|| error(400, "SerializationException", "Expected list or null at 'system'"))?;
        for (index, block) in blocks.iter().enumerate() {
            let path = format!("system.{index}");
            check_keys(block, &path, &["text", "guardContent", "cachePoint"])?;
            if text(block, "text").is_some_and(|text| text.trim().is_empty()) {
                return Err(reject(&format!(
                    "The text field in the SystemContentBlock object at {path} is blank. Add text to the text field, and try \
                     again."
                )));
            }
        }
    }
    if let Some(config) = present(body, "outputConfig") {
        check_output(config)?;
    }
    tools::check(body)?;
    messages::check(body)
}

fn check_output(config: &Value) -> Result<(), Rejection> {
    check_keys(config, "outputConfig", &["textFormat"])?;
    let Some(format) = present(config, "textFormat") else { return Ok(()) };
    check_keys(format, "outputConfig.textFormat", &["type", "structure"])?;
    let path = "outputConfig.textFormat.structure";
    let (_, schema) = union_member(format.get("structure").unwrap_or(&Value::Null), path, &["jsonSchema"])?;
    check_keys(schema, &format!("{path}.jsonSchema"), &["schema", "name", "description"])?;
    let parsed = text(schema, "schema").and_then(|schema| serde_json::from_str::<Value>(schema).ok());
    match parsed {
        Some(Value::Object(_)) => Ok(()),
        _ => Err(reject("The JSON schema in outputConfig.textFormat is not valid JSON.")),
    }
}

/// Checks the key or the form of the signature, and the path.
fn check_access(request: &ApiRequest<'_>) -> Result<(), Rejection> {
    match request.bearer() {
        Some(API_KEY) => {}
        Some(_) => {
            let message = "Authentication failed: Please make sure your API Key is valid.";
            return Err(error(403, "AccessDeniedException", message));
        }
        None => signature::check_form(request)?,
    }
    let model =
        request.target.path.strip_prefix("/model/").and_then(|rest| {
            rest.strip_suffix("/converse").or_else(|| rest.strip_suffix("/converse-stream"))
        });
    if model.is_none_or(|model| model.is_empty() || model.contains('/')) {
        return Err(error(404, "UnknownOperationException", "The requested operation is not known"));
    }
    Ok(())
}

fn error(status: u16, kind: &str, message: &str) -> Rejection {
    let headers = vec![("x-amzn-errortype".to_owned(), kind.to_owned())];
    Rejection { status, headers, body: json!({"message": message}) }
}

fn reject(message: &str) -> Rejection {
    error(400, "ValidationException", message)
}

/// A violated constraint of the service model.
///
/// `member_path` is the path as AWS writes it in these errors: the members of an array are counted from 1.
fn constraint(value: &str, member_path: &str, rule: &str) -> Rejection {
    reject(&format!(
        "1 validation error detected: Value '{value}' at '{member_path}' failed to satisfy constraint: {rule}"
    ))
}

fn missing(member_path: &str) -> Rejection {
    reject(&format!(
        "1 validation error detected: Value null at '{member_path}' failed to satisfy constraint: Member must not be null"
    ))
}

fn check_keys(value: &Value, path: &str, keys: &[&str]) -> Result<(), Rejection> {
    if !value.is_object() {
        return Err(error(400, "SerializationException", &format!("Expected structure or null at '{path}'")));
    }
    let Some(key) = unknown_key(value, keys) else { return Ok(()) };
    let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    Err(error(400, "SerializationException", &format!("'{path}' is not a member of the service model")))
}

/// Returns the name and the value of the only member of a union.
fn union_member<'value>(
    value: &'value Value,
    path: &str,
    keys: &[&'static str],
) -> Result<(&'static str, &'value Value), Rejection> {
    check_keys(value, path, keys)?;
    let mut set = keys.iter().filter_map(|key| present(value, key).map(|inner| (*key, inner)));
    match (set.next(), set.next()) {
        (Some(one), None) => Ok(one),
        _ => {
            let message = format!("Exactly one member of the union at '{path}' must be set");
            Err(error(400, "SerializationException", &message))
        }
    }
}

const REQUEST_KEYS: [&str; 12] = [
    "messages",
    "system",
    "inferenceConfig",
    "toolConfig",
    "guardrailConfig",
    "additionalModelRequestFields",
    "promptVariables",
    "additionalModelResponseFieldPaths",
    "requestMetadata",
    "performanceConfig",
    "serviceTier",
    "outputConfig",
];
