//! Bedrock's Converse, with a Claude model behind it.

mod blocks;
mod messages;
mod render;
mod signature;
mod tools;

pub(super) use render::{stream, whole};
pub(super) use signature::verify;

use serde_json::{Value, json};

use super::KEY;
use super::json::{present, stranger, text};
use super::judge::{Refusal, Request};

/// The rules of a request as a whole.
///
/// | rule | source |
/// |---|---|
/// | a signature of version 4, or a key as bearer; path | 3.6 [D] |
/// | fields | 3.6 [S botocore]: the service model has no others; the wording of this refusal is ours |
/// | `system` is text, not a role | 3.6 [S] |
pub(super) fn judge(request: &Request<'_>) -> Result<(), Refusal> {
    admit(request)?;
    let body = request.body;
    if !body.is_object() {
        return Err(error(400, "SerializationException", "The request body is not valid JSON"));
    }
    known(body, "", &REQUEST_KEYS)?;
    if let Some(config) = present(body, "inferenceConfig") {
        known(config, "inferenceConfig", &["maxTokens", "temperature", "topP", "stopSequences"])?;
    }
    let system = present(body, "system");
    if let Some(system) = system {
        let blocks = system
            .as_array()
            .ok_or_else(|| error(400, "SerializationException", "Expected list or null at 'system'"))?;
        for (index, block) in blocks.iter().enumerate() {
            let way = format!("system.{index}");
            known(block, &way, &["text", "guardContent", "cachePoint"])?;
            if text(block, "text").is_some_and(|text| text.trim().is_empty()) {
                return Err(refuse(&format!(
                    "The text field in the SystemContentBlock object at {way} is blank. Add text to the text field, and try \
                     again."
                )));
            }
        }
    }
    tools::judge(body)?;
    messages::judge(body)
}

fn admit(request: &Request<'_>) -> Result<(), Refusal> {
    match request.bearer() {
        Some(KEY) => {}
        Some(_) => {
            let message = "Authentication failed: Please make sure your API Key is valid.";
            return Err(error(403, "AccessDeniedException", message));
        }
        None => signature::has_form(request)?,
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

fn error(status: u16, kind: &str, message: &str) -> Refusal {
    let headers = vec![("x-amzn-errortype".to_owned(), kind.to_owned())];
    Refusal { status, headers, body: json!({"message": message}) }
}

fn refuse(message: &str) -> Refusal {
    error(400, "ValidationException", message)
}

/// A value outside of what the service model allows, with the way as AWS writes it: lists have members, counted from 1.
fn constraint(value: &str, way: &str, rule: &str) -> Refusal {
    refuse(&format!(
        "1 validation error detected: Value '{value}' at '{way}' failed to satisfy constraint: {rule}"
    ))
}

fn missing(way: &str) -> Refusal {
    refuse(&format!(
        "1 validation error detected: Value null at '{way}' failed to satisfy constraint: Member must not be null"
    ))
}

fn known(value: &Value, way: &str, keys: &[&str]) -> Result<(), Refusal> {
    if !value.is_object() {
        return Err(error(400, "SerializationException", &format!("Expected structure or null at '{way}'")));
    }
    let Some(key) = stranger(value, keys) else { return Ok(()) };
    let way = if way.is_empty() { key.to_owned() } else { format!("{way}.{key}") };
    Err(error(400, "SerializationException", &format!("'{way}' is not a member of the service model")))
}

/// The one member of a union.
fn member<'value>(
    value: &'value Value,
    way: &str,
    keys: &[&'static str],
) -> Result<(&'static str, &'value Value), Refusal> {
    known(value, way, keys)?;
    let mut set = keys.iter().filter_map(|key| present(value, key).map(|inner| (*key, inner)));
    match (set.next(), set.next()) {
        (Some(one), None) => Ok(one),
        _ => {
            let message = format!("Exactly one member of the union at '{way}' must be set");
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
