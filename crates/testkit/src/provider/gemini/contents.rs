//! The contents of a Gemini request.
//!
//! Rules in `docs/providers.md`: `gemini/roles`, `gemini/parts`, `gemini/turn-order`, `gemini/call-pairing`,
//! `gemini/arguments`, `gemini/tool-results`, `gemini/result-references`, `gemini/thought-signatures`,
//! `gemini/media`.

use serde_json::Value;

use super::{array_field, check_keys, field, is_gemini_3, reject, string_field};
use crate::provider::check::Rejection;
use crate::provider::{media, opaque_token};

/// Google's value for a history without a signature.
const SKIP_SIGNATURE: &str = "skip_thought_signature_validator";
const DATA_FIELDS: [&str; 7] = [
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
];
const METADATA_FIELDS: [&str; 5] =
    ["thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata"];

pub(super) fn check(body: &Value, model: &str) -> Result<(), Rejection> {
    let contents = array_field(body, "contents");
    if contents.is_empty() {
        return Err(reject("* GenerateContentRequest.contents: contents is not specified\n"));
    }
    for (index, content) in contents.iter().enumerate() {
        let path = format!("contents[{index}]");
        check_keys(content, &path, &["role", "parts"])?;
        match string_field(content, "role") {
            None | Some("user" | "model") => {}
            Some(_) => return Err(reject("Please use a valid role: user, model.")),
        }
        if array_field(content, "parts").is_empty() {
            return Err(reject(&format!(
                "* GenerateContentRequest.{path}.parts: contents.parts must not be empty.\n"
            )));
        }
        for (number, part) in array_field(content, "parts").iter().enumerate() {
            check_part(&format!("{path}.parts[{number}]"), part, model)?;
        }
    }
    check_turns(contents)?;
    if is_gemini_3(model) { check_signatures(contents) } else { Ok(()) }
}

fn check_part(path: &str, part: &Value, model: &str) -> Result<(), Rejection> {
    let keys: Vec<&str> = DATA_FIELDS.into_iter().chain(METADATA_FIELDS).collect();
    check_keys(part, path, &keys)?;
    let mut data = DATA_FIELDS.into_iter().filter(|kind| field(part, kind).is_some());
    let Some(kind) = data.next() else {
        return Err(reject(&format!(
            "* GenerateContentRequest.{path}.data: required oneof field 'data' must have one initialized field\n"
        )));
    };
    if let Some(second) = data.next() {
        return Err(reject(&format!(
            "Invalid value at '{path}' (oneof), oneof field 'data' is already set. Cannot set '{second}'"
        )));
    }
    if let Some(signature) = string_field(part, "thoughtSignature")
        && signature != SKIP_SIGNATURE
        && opaque_token::open("thought", signature).is_none()
    {
        return Err(reject("Corrupted thought signature."));
    }
    let inner = field(part, kind).unwrap_or(&Value::Null);
    match kind {
        "inlineData" => check_media(&format!("{path}.inline_data"), inner, None),
        "functionCall" => check_call(&format!("{path}.function_call"), inner),
        "functionResponse" => check_response(&format!("{path}.function_response"), inner, model),
        _ => Ok(()),
    }
}

fn check_call(path: &str, call: &Value) -> Result<(), Rejection> {
    check_keys(call, path, &["id", "name", "args"])?;
    check_name(path, call)?;
    check_struct(&format!("{path}.args"), field(call, "args"))
}

fn check_name(path: &str, value: &Value) -> Result<(), Rejection> {
    match string_field(value, "name") {
        None | Some("") => {
            Err(reject(&format!("* GenerateContentRequest.{path}.name: Name cannot be empty.\n")))
        }
        Some(_) => Ok(()),
    }
}

fn check_struct(path: &str, value: Option<&Value>) -> Result<(), Rejection> {
    match value {
        None | Some(Value::Object(_)) => Ok(()),
        Some(other) => Err(reject(&format!(
            "Invalid value at '{path}' (type.googleapis.com/google.protobuf.Struct), {other}"
        ))),
    }
}

fn check_response(path: &str, response: &Value, model: &str) -> Result<(), Rejection> {
    check_keys(response, path, &["id", "name", "response", "parts", "willContinue", "scheduling"])?;
    check_name(path, response)?;
    let Some(content) = field(response, "response") else {
        return Err(reject(&format!(
            "* GenerateContentRequest.{path}.response: Response cannot be empty.\n"
        )));
    };
    check_struct(&format!("{path}.response"), Some(content))?;
    let parts = array_field(response, "parts");
    let names: Vec<&str> = parts
        .iter()
        .filter_map(|part| field(part, "inlineData"))
        .filter_map(|data| string_field(data, "displayName"))
        .collect();
    if let Some(name) = references(content).into_iter().find(|name| !names.contains(name)) {
        return Err(reject(&format!(
            "The referenced name `{name}` in function_response.response does not match to a display_name in the \
             function_response.parts."
        )));
    }
    if !parts.is_empty() && !is_gemini_3(model) {
        return Err(reject("Multimodal function responses are not supported by this model."));
    }
    for (index, part) in parts.iter().enumerate() {
        let path = format!("{path}.parts[{index}]");
        check_keys(part, &path, &["inlineData", "fileData"])?;
        if let Some(data) = field(part, "inlineData") {
            let media_types = ["image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"];
            check_media(&format!("{path}.inline_data"), data, Some(&media_types))?;
        }
    }
    Ok(())
}

/// Returns the values of all keys named `$ref`.
fn references(value: &Value) -> Vec<&str> {
    match value {
        Value::Object(object) => {
            let here = object.get("$ref").and_then(Value::as_str);
            here.into_iter().chain(object.values().flat_map(references)).collect()
        }
        Value::Array(values) => values.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

/// Checks inline data. Without a list of media types, everything but unknown image types passes.
fn check_media(path: &str, data: &Value, media_types: Option<&[&str]>) -> Result<(), Rejection> {
    check_keys(data, path, &["mimeType", "data", "displayName"])?;
    let media_type = string_field(data, "mimeType").unwrap_or_default();
    let images = ["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"];
    let is_supported = media_types.map_or_else(
        || !media_type.is_empty() && (!media_type.starts_with("image/") || images.contains(&media_type)),
        |media_types| media_types.contains(&media_type),
    );
    if !is_supported {
        return Err(reject(&format!("Unsupported MIME type: {media_type}")));
    }
    let content = string_field(data, "data").unwrap_or_default();
    // Protobuf JSON also accepts the URL-safe alphabet of base64.
    let Some(bytes) = media::decode(&content.replace('-', "+").replace('_', "/")) else {
        return Err(reject(&format!(
            "Invalid value at '{path}.data' (TYPE_BYTES), Base64 decoding failed for \"{content}\""
        )));
    };
    if matches!(media_type, "image/png" | "image/jpeg" | "image/webp") && !media::is_image(&bytes) {
        return Err(reject("Unable to process input image."));
    }
    Ok(())
}

fn parts_of_kind<'content>(content: &'content Value, kind: &str) -> Vec<&'content Value> {
    array_field(content, "parts").iter().filter_map(|part| field(part, kind)).collect()
}

fn is_model(content: &Value) -> bool {
    string_field(content, "role") == Some("model")
}

fn check_turns(contents: &[Value]) -> Result<(), Rejection> {
    for (index, content) in contents.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| &contents[before]);
        let calls = parts_of_kind(content, "functionCall");
        if !calls.is_empty() {
            if !is_model(content) || before.is_none_or(is_model) {
                return Err(reject(
                    "Please ensure that function call turn comes immediately after a user turn or after a function response \
                     turn.",
                ));
            }
            let results = contents
                .get(index + 1)
                .map(|next| parts_of_kind(next, "functionResponse"))
                .unwrap_or_default();
            if results.len() != calls.len() {
                return Err(reject(
                    "Please ensure that the number of function response parts is equal to the number of function call parts \
                     of the function call turn.",
                ));
            }
            check_pairing(index + 1, &calls, &results)?;
        }
        let follows_calls = before.is_some_and(|before| !parts_of_kind(before, "functionCall").is_empty());
        let has_results = !parts_of_kind(content, "functionResponse").is_empty();
        if has_results && (!follows_calls || is_model(content)) {
            return Err(reject(
                "Please ensure that function response turn comes immediately after a function call turn.",
            ));
        }
    }
    Ok(())
}

/// Pairs results with calls by id where the calls have ids, otherwise by order. The error message is our own.
fn check_pairing(index: usize, calls: &[&Value], results: &[&Value]) -> Result<(), Rejection> {
    for (number, (call, result)) in calls.iter().zip(results).enumerate() {
        let paired = match string_field(call, "id") {
            Some(id) => results.iter().find(|result| string_field(result, "id") == Some(id)),
            None => Some(result).filter(|result| string_field(result, "id").is_none()),
        };
        if paired.is_none_or(|result| string_field(result, "name") != string_field(call, "name")) {
            return Err(reject(&format!(
                "* GenerateContentRequest.contents[{index}].parts[{number}].function_response: the function response does \
                 not match a function call of the previous turn.\n"
            )));
        }
    }
    Ok(())
}

/// Checks the current turn. It begins after the last user content that has no results.
fn check_signatures(contents: &[Value]) -> Result<(), Rejection> {
    let is_prompt =
        |content: &Value| !is_model(content) && parts_of_kind(content, "functionResponse").is_empty();
    let start = contents.iter().rposition(is_prompt).map_or(0, |prompt| prompt + 1);
    for (index, content) in contents.iter().enumerate().skip(start) {
        let first = array_field(content, "parts").iter().find(|part| field(part, "functionCall").is_some());
        let Some(first) = first.filter(|part| string_field(part, "thoughtSignature").is_none()) else {
            continue;
        };
        let name =
            field(first, "functionCall").and_then(|call| string_field(call, "name")).unwrap_or_default();
        return Err(reject(&format!(
            "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, \
             and missing thought_signature may lead to degraded model performance. Additional data, function call \
             `default_api:{name}` , position {}. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for \
             more details.",
            index + 1
        )));
    }
    Ok(())
}
