//! The contents of a Gemini request.
//!
//! | rule | source |
//! |---|---|
//! | roles `user` and `model`; contents and parts are not empty | 3.5 [S] |
//! | fields of each part, one kind of data in each | 3.5 [S] |
//! | a turn of calls follows the user or results, and results follow their calls | gh:google-gemini/gemini-cli#11814, gh:langchain-ai/langchain#27799 |
//! | as many results as calls, in one turn, under the names (and ids) of the calls | 3.5, 8 Gemini |
//! | `args` and `response` are objects | 3.5 |
//! | no `$ref` in a response that names no part of it | 3.5, 8 Gemini |
//! | Gemini 3: the first call of each step of the turn under way has its signature | 3.5, 8 Gemini |
//! | media in results: Gemini 3 and later, five kinds | 2.3, 3.5 |

use serde_json::Value;

use super::{field, is_third, items, known, refuse, word};
use crate::provider::judge::Refusal;
use crate::provider::{media, seal};

/// What Google says to put where a history has no signature.
const SKIP: &str = "skip_thought_signature_validator";
const DATA: [&str; 7] = [
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
];
const BESIDE: [&str; 5] = ["thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata"];

pub(super) fn judge(body: &Value, model: &str) -> Result<(), Refusal> {
    let contents = items(body, "contents");
    if contents.is_empty() {
        return Err(refuse("* GenerateContentRequest.contents: contents is not specified\n"));
    }
    for (index, content) in contents.iter().enumerate() {
        let way = format!("contents[{index}]");
        known(content, &way, &["role", "parts"])?;
        match word(content, "role") {
            None | Some("user" | "model") => {}
            Some(_) => return Err(refuse("Please use a valid role: user, model.")),
        }
        if items(content, "parts").is_empty() {
            return Err(refuse(&format!(
                "* GenerateContentRequest.{way}.parts: contents.parts must not be empty.\n"
            )));
        }
        for (number, one) in items(content, "parts").iter().enumerate() {
            part(&format!("{way}.parts[{number}]"), one, model)?;
        }
    }
    turns(contents)?;
    if is_third(model) { signatures(contents) } else { Ok(()) }
}

fn part(way: &str, part: &Value, model: &str) -> Result<(), Refusal> {
    let keys: Vec<&str> = DATA.into_iter().chain(BESIDE).collect();
    known(part, way, &keys)?;
    let mut data = DATA.into_iter().filter(|kind| field(part, kind).is_some());
    let Some(kind) = data.next() else {
        return Err(refuse(&format!(
            "* GenerateContentRequest.{way}.data: required oneof field 'data' must have one initialized field\n"
        )));
    };
    if let Some(second) = data.next() {
        return Err(refuse(&format!(
            "Invalid value at '{way}' (oneof), oneof field 'data' is already set. Cannot set '{second}'"
        )));
    }
    if let Some(signature) = word(part, "thoughtSignature")
        && signature != SKIP
        && seal::unseal("thought", signature).is_none()
    {
        return Err(refuse("Corrupted thought signature."));
    }
    let inner = field(part, kind).unwrap_or(&Value::Null);
    match kind {
        "inlineData" => inline(&format!("{way}.inline_data"), inner, None),
        "functionCall" => call(&format!("{way}.function_call"), inner),
        "functionResponse" => response(&format!("{way}.function_response"), inner, model),
        _ => Ok(()),
    }
}

fn call(way: &str, call: &Value) -> Result<(), Refusal> {
    known(call, way, &["id", "name", "args"])?;
    named(way, call)?;
    structure(&format!("{way}.args"), field(call, "args"))
}

fn named(way: &str, value: &Value) -> Result<(), Refusal> {
    match word(value, "name") {
        None | Some("") => {
            Err(refuse(&format!("* GenerateContentRequest.{way}.name: Name cannot be empty.\n")))
        }
        Some(_) => Ok(()),
    }
}

fn structure(way: &str, value: Option<&Value>) -> Result<(), Refusal> {
    match value {
        None | Some(Value::Object(_)) => Ok(()),
        Some(other) => Err(refuse(&format!(
            "Invalid value at '{way}' (type.googleapis.com/google.protobuf.Struct), {other}"
        ))),
    }
}

fn response(way: &str, response: &Value, model: &str) -> Result<(), Refusal> {
    known(response, way, &["id", "name", "response", "parts", "willContinue", "scheduling"])?;
    named(way, response)?;
    let Some(said) = field(response, "response") else {
        return Err(refuse(&format!("* GenerateContentRequest.{way}.response: Response cannot be empty.\n")));
    };
    structure(&format!("{way}.response"), Some(said))?;
    let parts = items(response, "parts");
    let names: Vec<&str> = parts
        .iter()
        .filter_map(|part| field(part, "inlineData"))
        .filter_map(|data| word(data, "displayName"))
        .collect();
    if let Some(name) = references(said).into_iter().find(|name| !names.contains(name)) {
        return Err(refuse(&format!(
            "The referenced name `{name}` in function_response.response does not match to a display_name in the \
             function_response.parts."
        )));
    }
    if !parts.is_empty() && !is_third(model) {
        return Err(refuse("Multimodal function responses are not supported by this model."));
    }
    for (index, part) in parts.iter().enumerate() {
        let way = format!("{way}.parts[{index}]");
        known(part, &way, &["inlineData", "fileData"])?;
        if let Some(data) = field(part, "inlineData") {
            let kinds = ["image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"];
            inline(&format!("{way}.inline_data"), data, Some(&kinds))?;
        }
    }
    Ok(())
}

/// The values of all keys called `$ref`.
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

fn inline(way: &str, data: &Value, kinds: Option<&[&str]>) -> Result<(), Refusal> {
    known(data, way, &["mimeType", "data", "displayName"])?;
    let kind = word(data, "mimeType").unwrap_or_default();
    let images = ["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"];
    let is_taken = kinds.map_or_else(
        || !kind.is_empty() && (!kind.starts_with("image/") || images.contains(&kind)),
        |kinds| kinds.contains(&kind),
    );
    if !is_taken {
        return Err(refuse(&format!("Unsupported MIME type: {kind}")));
    }
    let content = word(data, "data").unwrap_or_default();
    // Proto JSON takes the other alphabet of base64 too.
    let Some(bytes) = media::decode(&content.replace('-', "+").replace('_', "/")) else {
        return Err(refuse(&format!(
            "Invalid value at '{way}.data' (TYPE_BYTES), Base64 decoding failed for \"{content}\""
        )));
    };
    let is_image = media::kind(&bytes).is_some_and(|found| found.starts_with("image/"));
    if matches!(kind, "image/png" | "image/jpeg" | "image/webp") && !is_image {
        return Err(refuse("Unable to process input image."));
    }
    Ok(())
}

fn of_kind<'content>(content: &'content Value, kind: &str) -> Vec<&'content Value> {
    items(content, "parts").iter().filter_map(|part| field(part, kind)).collect()
}

fn is_model(content: &Value) -> bool {
    word(content, "role") == Some("model")
}

fn turns(contents: &[Value]) -> Result<(), Refusal> {
    for (index, content) in contents.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| &contents[before]);
        let calls = of_kind(content, "functionCall");
        let responses = of_kind(content, "functionResponse");
        if !calls.is_empty() {
            if !is_model(content) || before.is_none_or(is_model) {
                return Err(refuse(
                    "Please ensure that function call turn comes immediately after a user turn or after a function response \
                     turn.",
                ));
            }
            let answers =
                contents.get(index + 1).map(|next| of_kind(next, "functionResponse")).unwrap_or_default();
            if answers.len() != calls.len() {
                return Err(refuse(
                    "Please ensure that the number of function response parts is equal to the number of function call parts \
                     of the function call turn.",
                ));
            }
            pairs(index + 1, &calls, &answers)?;
        }
        let follows = before.is_some_and(|before| !of_kind(before, "functionCall").is_empty());
        if !responses.is_empty() && (!follows || is_model(content)) {
            return Err(refuse(
                "Please ensure that function response turn comes immediately after a function call turn.",
            ));
        }
    }
    Ok(())
}

/// Results are told apart by id where the calls have one, else by their order. The wording is ours.
fn pairs(index: usize, calls: &[&Value], answers: &[&Value]) -> Result<(), Refusal> {
    for (number, (call, answer)) in calls.iter().zip(answers).enumerate() {
        let answered = match word(call, "id") {
            Some(id) => answers.iter().find(|answer| word(answer, "id") == Some(id)),
            None => Some(answer).filter(|answer| word(answer, "id").is_none()),
        };
        if answered.is_none_or(|answer| word(answer, "name") != word(call, "name")) {
            return Err(refuse(&format!(
                "* GenerateContentRequest.contents[{index}].parts[{number}].function_response: the function response does \
                 not match a function call of the previous turn.\n"
            )));
        }
    }
    Ok(())
}

/// The turn under way is what was said since the user last said anything but results.
fn signatures(contents: &[Value]) -> Result<(), Refusal> {
    let is_person = |content: &Value| !is_model(content) && of_kind(content, "functionResponse").is_empty();
    let start = contents.iter().rposition(is_person).map_or(0, |person| person + 1);
    for (index, content) in contents.iter().enumerate().skip(start) {
        let first = items(content, "parts").iter().find(|part| field(part, "functionCall").is_some());
        let Some(first) = first.filter(|part| word(part, "thoughtSignature").is_none()) else { continue };
        let name = field(first, "functionCall").and_then(|call| word(call, "name")).unwrap_or_default();
        return Err(refuse(&format!(
            "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, \
             and missing thought_signature may lead to degraded model performance. Additional data, function call \
             `default_api:{name}` , position {}. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for \
             more details.",
            index + 1
        )));
    }
    Ok(())
}
