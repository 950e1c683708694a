//! Writes Gemini requests, calls and results. The model, and whether to stream, are in the URL.

use serde_json::{Map, Value, json};

use crate::Dialect;
use crate::output::OutputField;
use crate::request::{AssistantBlock, Choice, PreparedRequest, SetFields, Turn, add_content, calls};
use crate::response::ReceivedCall;
use crate::result::ResultOptions;
use crate::result::{ContentLimits, ContentPart, Media, PreparedResult, ResultTurn, StructuredContent};

/// The value that Gemini 3 accepts instead of a signature for a call from another model.
const FOREIGN_SIGNATURE: &str = "skip_thought_signature_validator";

const RESULT_LIMITS: ContentLimits = ContentLimits {
    image_types: &["image/png", "image/jpeg", "image/webp"],
    max_image_bytes: 15_000_000,
    file_types: &["application/pdf"],
    max_file_bytes: 15_000_000,
    structured: StructuredContent::ValueWithoutRefs,
    ..ContentLimits::TEXT
};

/// All models accept audio.
pub(super) const USER_LIMITS: ContentLimits = ContentLimits {
    file_types: &[
        "application/pdf",
        "audio/wav",
        "audio/mp3",
        "audio/mpeg",
        "audio/aiff",
        "audio/aac",
        "audio/ogg",
        "audio/flac",
    ],
    ..RESULT_LIMITS
};

pub(super) fn write_request(request: &PreparedRequest<'_>) -> Map<String, Value> {
    let mut contents: Vec<Value> = Vec::new();
    for turn in &request.turns {
        let (role, parts) = match turn {
            Turn::User(parts) => ("user", parts.iter().map(content_part).collect()),
            Turn::Assistant(blocks) => ("model", model_parts(blocks)),
            Turn::Results(calls) => ("user", request.write_results(calls, result_parts)),
        };
        add_content(&mut contents, role, "parts", parts);
    }
    let mut body = Map::new();
    body.set_some("systemInstruction", request.instructions.map(|text| json!({"parts": [{"text": text}]})));
    body.set("contents", contents);
    if !request.tools.is_empty() {
        let mut declarations = Map::new();
        declarations.set("functionDeclarations", request.definitions());
        body.set("tools", vec![Value::Object(declarations)]);
        let config = match request.choice {
            Choice::Auto => None,
            Choice::None => Some(json!({"mode": "NONE"})),
            Choice::Required => Some(json!({"mode": "ANY"})),
            Choice::Tool(name) => Some(json!({"mode": "ANY", "allowedFunctionNames": [name]})),
        };
        body.set_some("toolConfig", config.map(|config| json!({"functionCallingConfig": config})));
    }
    let mut generation = Map::new();
    generation.set_some("maxOutputTokens", request.max_output_tokens);
    generation.set_some("temperature", request.temperature);
    if let Some(output) = request.output {
        generation.set("responseMimeType", "application/json");
        if let OutputField::Schema(output) = output {
            let key = match request.dialect {
                Dialect::GeminiOpenApi => "responseSchema",
                _ => "responseJsonSchema",
            };
            generation.set(key, output.schema.clone());
        }
    }
    if !generation.is_empty() {
        body.set("generationConfig", generation);
    }
    body
}

fn content_part(part: &ContentPart) -> Value {
    match part {
        ContentPart::Text(text) => json!({"text": text}),
        ContentPart::Image(media) | ContentPart::File(media) => inline_data(media),
        ContentPart::Native(part) => part.clone(),
    }
}

fn inline_data(media: &Media) -> Value {
    json!({"inlineData": {"mimeType": media.media_type, "data": media.data}})
}

fn model_parts(blocks: &[AssistantBlock<'_>]) -> Vec<Value> {
    let mut calls = call_parts(&calls(blocks)).into_iter();
    let signed = |mut part: Value, provider_data: Option<&Value>| {
        if let Some(signature) = provider_data.and_then(|data| data.get("thoughtSignature")) {
            part["thoughtSignature"] = signature.clone();
        }
        part
    };
    let part = |block: &AssistantBlock<'_>| match block {
        AssistantBlock::Text { text, provider_data } => Some(signed(json!({"text": text}), *provider_data)),
        AssistantBlock::Opaque { provider_data, .. } => Some((*provider_data).clone()),
        AssistantBlock::Media { part, provider_data } => Some(signed(content_part(part), *provider_data)),
        AssistantBlock::Call(_) => calls.next(),
    };
    blocks.iter().filter_map(part).collect()
}

fn call_parts(calls: &[&ReceivedCall]) -> Vec<Value> {
    let is_foreign = calls.iter().all(|call| call.signature.is_none());
    let part = |(position, call): (usize, &&ReceivedCall)| {
        let mut function_call = Map::new();
        function_call.set_some("id", call.id.given());
        function_call.set("name", call.name.as_str());
        function_call.set("args", call.arguments_object());
        let mut part = json!({"functionCall": function_call});
        // Only the first of parallel calls has a signature.
        let foreign = (is_foreign && position == 0).then_some(FOREIGN_SIGNATURE);
        if let Some(signature) = call.signature.as_deref().or(foreign) {
            part["thoughtSignature"] = json!(signature);
        }
        part
    };
    calls.iter().enumerate().map(part).collect()
}

pub(super) fn write_calls(_: Dialect, calls: &[&ReceivedCall]) -> Vec<Value> {
    vec![json!({"role": "model", "parts": call_parts(calls)})]
}

pub(super) fn write_results(turn: &ResultTurn<'_>) -> Vec<Value> {
    vec![json!({"role": "user", "parts": result_parts(turn)})]
}

/// Writes one response per call, in the order of the calls and in one turn: calls without ids are paired by
/// order.
fn result_parts(turn: &ResultTurn<'_>) -> Vec<Value> {
    let results = turn.prepare(RESULT_LIMITS);
    let mut parts: Vec<Value> = results.iter().map(|result| response_part(result, turn.options)).collect();
    if !turn.options.nested_media {
        for result in &results {
            for media in result.media() {
                parts.push(json!({"text": result.label(media)}));
                parts.push(inline_data(media));
            }
        }
    }
    parts
}

fn response_part(result: &PreparedResult<'_>, options: &ResultOptions) -> Value {
    let mut response = Map::new();
    if result.call.id.given().is_some() {
        response.set("id", result.id.as_str());
    }
    response.set("name", result.call.name.as_str());
    // The value always has its own key: a bare object with a key `error` would be read as a failure.
    let key = if result.is_error { "error" } else { "output" };
    response.set("response", json!({key: output(result, options)}));
    let media: Vec<Value> = result.media().map(inline_data).collect();
    if options.nested_media && !media.is_empty() {
        response.set("parts", media);
    }
    json!({"functionResponse": response})
}

fn output(result: &PreparedResult<'_>, options: &ResultOptions) -> Value {
    let location = if options.nested_media { "attached" } else { "after the results" };
    let text = || result.texts(location).join("\n");
    match (&result.structured, result.parts.is_empty()) {
        (Some(value), true) => value.clone(),
        (Some(value), false) => json!({"text": text(), "structuredContent": value}),
        (None, true) if !result.is_error => json!(""),
        (None, _) => json!(text()),
    }
}
