//! Gemini's `generateContent`, as in the Developer API.
//!
//! Protobuf JSON accepts every field in camel case and in snake case, so both are read.
//!
//! Rules in `docs/providers.md`: `gemini/endpoint`, `gemini/unknown-fields`, `gemini/system-instruction`,
//! `gemini/response-format`.

mod contents;
mod parameters;
mod render;
mod tools;

pub(super) use render::{complete_body, stream_array, stream_events};

use serde_json::{Value, json};

use super::API_KEY;
use super::check::{ApiRequest, Rejection};

pub(super) fn check(request: &ApiRequest<'_>) -> Result<(), Rejection> {
    let model = check_access(request)?;
    let body = request.body;
    if !body.is_object() {
        return Err(reject("Invalid JSON payload received. Expected an object."));
    }
    check_keys(body, "", &REQUEST_KEYS)?;
    if let Some(config) = field(body, "generationConfig") {
        check_keys(config, "generation_config", &CONFIG_KEYS)?;
        check_format(body, config, model)?;
    }
    if let Some(instruction) = field(body, "systemInstruction") {
        check_keys(instruction, "system_instruction", &["role", "parts"])?;
        if array_field(instruction, "parts").is_empty() {
            return Err(reject(
                "* GenerateContentRequest.system_instruction.parts: contents.parts must not be empty.\n",
            ));
        }
    }
    tools::check(body)?;
    contents::check(body, model)
}

/// Checks the format of the response.
fn check_format(body: &Value, config: &Value, model: &str) -> Result<(), Rejection> {
    let is_json = string_field(config, "responseMimeType") == Some("application/json");
    if is_json && !is_gemini_3(model) && !array_field(body, "tools").is_empty() {
        return Err(reject("Function calling with a response mime type: 'application/json' is unsupported"));
    }
    let (openapi, json_schema) = (field(config, "responseSchema"), field(config, "responseJsonSchema"));
    if (openapi.is_some() || json_schema.is_some()) && !is_json {
        return Err(reject(
            "* GenerateContentRequest.generation_config.response_schema: only allowed when response_mime_type is \
             'application/json'\n",
        ));
    }
    if openapi.is_some() && json_schema.is_some() {
        let message = "Only one of `response_schema` and `response_json_schema` can be set.";
        return Err(reject(message));
    }
    match openapi {
        Some(schema) => parameters::check_openapi("generation_config.response_schema", schema, false),
        None => Ok(()),
    }
}

/// Checks the key and the path. Returns the model.
fn check_access<'request>(request: &'request ApiRequest<'_>) -> Result<&'request str, Rejection> {
    match request.header("x-goog-api-key").or_else(|| request.target.query("key")) {
        Some(API_KEY) => {}
        Some(_) => {
            let mut rejection = reject("API key not valid. Please pass a valid API key.");
            rejection.body["error"]["details"] = json!([{
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "API_KEY_INVALID",
                "domain": "googleapis.com",
                "metadata": {"service": "generativelanguage.googleapis.com"},
            }]);
            return Err(rejection);
        }
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

/// Whether the model is Gemini 3 or later: calls need signatures, and results may contain media.
fn is_gemini_3(model: &str) -> bool {
    model.strip_prefix("gemini-").is_some_and(|version| !version.starts_with(['1', '2']))
}

fn error(code: u16, status: &str, message: &str) -> Rejection {
    Rejection::new(code, json!({"error": {"code": code, "message": message, "status": status}}))
}

fn reject(message: &str) -> Rejection {
    error(400, "INVALID_ARGUMENT", message)
}

/// Converts `functionCall` to `function_call`.
fn snake_case(key: &str) -> String {
    let mut converted = String::new();
    for character in key.chars() {
        if character.is_ascii_uppercase() {
            converted.push('_');
        }
        converted.push(character.to_ascii_lowercase());
    }
    converted
}

/// Returns a field in either spelling, unless it is `null`.
fn field<'value>(value: &'value Value, key: &str) -> Option<&'value Value> {
    value.get(key).or_else(|| value.get(snake_case(key))).filter(|value| !value.is_null())
}

/// Returns the string of a field.
fn string_field<'value>(value: &'value Value, key: &str) -> Option<&'value str> {
    field(value, key).and_then(Value::as_str)
}

/// Returns the array of a field, or an empty one.
fn array_field<'value>(value: &'value Value, key: &str) -> &'value [Value] {
    field(value, key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Rejects a protobuf message that is not an object or has an unknown field.
fn check_keys(value: &Value, path: &str, keys: &[&str]) -> Result<(), Rejection> {
    let Some(object) = value.as_object() else {
        return Err(reject(&format!("Invalid value at '{path}', {value}")));
    };
    let is_known = |key: &str| keys.iter().any(|known| *known == key || snake_case(known) == key);
    let Some(key) = object.keys().find(|key| !is_known(key)) else { return Ok(()) };
    let at = if path.is_empty() { String::new() } else { format!(" at '{path}'") };
    let description =
        format!("Invalid JSON payload received. Unknown name \"{key}\"{at}: Cannot find field.");
    let violation = json!({"field": path, "description": description});
    let details =
        json!([{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]}]);
    let mut rejection = reject(&description);
    rejection.body["error"]["details"] = details;
    Err(rejection)
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
