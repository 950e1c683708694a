//! Gemini's `generateContent`, as the Developer API has it.

mod contents;
mod parameters;
mod render;
mod tools;

pub(super) use render::{listed, stream, whole};

use serde_json::{Value, json};

use super::KEY;
use super::judge::{Refusal, Request};

/// The rules of a request as a whole. Proto JSON takes every field in camel case and in snake case, so both are read.
///
/// | rule | source |
/// |---|---|
/// | key in a header or in the query, path | 3.5 [D] |
/// | unknown fields | 8 Gemini GO |
/// | `systemInstruction` is text, not a role | 3.5 [S] |
pub(super) fn judge(request: &Request<'_>) -> Result<(), Refusal> {
    let model = admit(request)?;
    let body = request.body;
    if !body.is_object() {
        return Err(refuse("Invalid JSON payload received. Expected an object."));
    }
    known(body, "", &REQUEST_KEYS)?;
    if let Some(config) = field(body, "generationConfig") {
        known(config, "generation_config", &CONFIG_KEYS)?;
    }
    if let Some(instruction) = field(body, "systemInstruction") {
        known(instruction, "system_instruction", &["role", "parts"])?;
        if items(instruction, "parts").is_empty() {
            return Err(refuse(
                "* GenerateContentRequest.system_instruction.parts: contents.parts must not be empty.\n",
            ));
        }
    }
    tools::judge(body)?;
    contents::judge(body, model)
}

/// The model that is asked.
fn admit<'request>(request: &'request Request<'_>) -> Result<&'request str, Refusal> {
    match request.header("x-goog-api-key").or_else(|| request.target.query("key")) {
        Some(KEY) => {}
        Some(_) => return Err(refuse("API key not valid. Please pass a valid API key.")),
        None => {
            let message = "Method doesn't allow unregistered callers (callers without established identity). Please use API \
                           Key or other form of API consumer identity to call this API.";
            return Err(error(403, "PERMISSION_DENIED", message));
        }
    }
    let path = request.target.path;
    let model = ["/v1beta/models/", "/v1/models/"].iter().find_map(|start| path.strip_prefix(start));
    let model = model.and_then(|rest| {
        rest.strip_suffix(":generateContent").or_else(|| rest.strip_suffix(":streamGenerateContent"))
    });
    model
        .filter(|model| !model.is_empty() && !model.contains('/'))
        .ok_or_else(|| error(404, "NOT_FOUND", "Requested entity was not found."))
}

/// Whether calls must come with signatures and results may hold media.
fn is_third(model: &str) -> bool {
    model.strip_prefix("gemini-").is_some_and(|version| !version.starts_with(['1', '2']))
}

fn error(code: u16, status: &str, message: &str) -> Refusal {
    Refusal::new(code, json!({"error": {"code": code, "message": message, "status": status}}))
}

fn refuse(message: &str) -> Refusal {
    error(400, "INVALID_ARGUMENT", message)
}

/// `functionCall` as `function_call`.
fn snake(key: &str) -> String {
    let mut snake = String::new();
    for character in key.chars() {
        if character.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(character.to_ascii_lowercase());
    }
    snake
}

/// A field in either spelling, where `null` is nothing.
fn field<'value>(value: &'value Value, key: &str) -> Option<&'value Value> {
    value.get(key).or_else(|| value.get(snake(key))).filter(|value| !value.is_null())
}

/// The text of a field.
fn word<'value>(value: &'value Value, key: &str) -> Option<&'value str> {
    field(value, key).and_then(Value::as_str)
}

/// The list of a field; empty when there is none.
fn items<'value>(value: &'value Value, key: &str) -> &'value [Value] {
    field(value, key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Refuses a message of the proto that is no object or has a field nobody knows.
fn known(value: &Value, way: &str, keys: &[&str]) -> Result<(), Refusal> {
    let Some(object) = value.as_object() else {
        return Err(refuse(&format!("Invalid value at '{way}', {value}")));
    };
    let is_known = |key: &str| keys.iter().any(|known| *known == key || snake(known) == key);
    let Some(key) = object.keys().find(|key| !is_known(key)) else { return Ok(()) };
    let at = if way.is_empty() { String::new() } else { format!(" at '{way}'") };
    let description =
        format!("Invalid JSON payload received. Unknown name \"{key}\"{at}: Cannot find field.");
    let violation = json!({"field": way, "description": description});
    let details =
        json!([{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]}]);
    let mut refusal = refuse(&description);
    refusal.body["error"]["details"] = details;
    Err(refusal)
}

const REQUEST_KEYS: [&str; 10] = [
    "contents",
    "tools",
    "toolConfig",
    "safetySettings",
    "systemInstruction",
    "generationConfig",
    "cachedContent",
    "model",
    "store",
    "serviceTier",
];
const CONFIG_KEYS: [&str; 21] = [
    "temperature",
    "topP",
    "topK",
    "candidateCount",
    "maxOutputTokens",
    "stopSequences",
    "responseMimeType",
    "responseSchema",
    "responseJsonSchema",
    "responseFormat",
    "presencePenalty",
    "frequencyPenalty",
    "responseLogprobs",
    "logprobs",
    "enableEnhancedCivicAnswers",
    "responseModalities",
    "speechConfig",
    "thinkingConfig",
    "imageConfig",
    "mediaResolution",
    "seed",
];
