//! Whole Gemini requests. The model, and whether to stream, stand in the URL.

use serde_json::{Map, Value, json};

use super::calls::write_calls;
use super::results::{CARRIER, inline};
use crate::openai_chat::calls_of;
use crate::requests::{Choice, RequestDraft, RequestError, Said, Turn};
use crate::results::{Carrier, Piece};

/// All of its models hear.
pub(crate) const USER_CARRIER: Carrier = Carrier {
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
    ..CARRIER
};

pub(crate) fn write_request(draft: &RequestDraft<'_>) -> Result<Map<String, Value>, RequestError> {
    let mut contents: Vec<Value> = Vec::new();
    for turn in &draft.turns {
        match turn {
            Turn::User(pieces) => push(&mut contents, "user", pieces.iter().map(part).collect()),
            Turn::Assistant(said) => push(&mut contents, "model", model_parts(said)),
            Turn::Results(results) => {
                for content in draft.results(results)? {
                    push(&mut contents, "user", content["parts"].as_array().cloned().unwrap_or_default());
                }
            }
        }
    }
    let mut body = Map::new();
    if let Some(instructions) = draft.instructions {
        body.insert("systemInstruction".to_owned(), json!({"parts": [{"text": instructions}]}));
    }
    body.insert("contents".to_owned(), Value::Array(contents));
    if !draft.tools.is_empty() {
        body.insert(
            "tools".to_owned(),
            Value::Array(vec![Value::Object(Map::from_iter([(
                "functionDeclarations".to_owned(),
                draft.listed(),
            )]))]),
        );
        let config = match draft.choice {
            Choice::Auto => None,
            Choice::None => Some(json!({"mode": "NONE"})),
            Choice::Required => Some(json!({"mode": "ANY"})),
            Choice::Tool(name) => Some(json!({"mode": "ANY", "allowedFunctionNames": [name]})),
        };
        let config = config.map(|config| json!({"functionCallingConfig": config}));
        body.extend(config.map(|config| ("toolConfig".to_owned(), config)));
    }
    let mut generation = Map::new();
    generation.extend(draft.max_output_tokens.map(|limit| ("maxOutputTokens".to_owned(), json!(limit))));
    generation.extend(draft.temperature.map(|temperature| ("temperature".to_owned(), json!(temperature))));
    if !generation.is_empty() {
        body.insert("generationConfig".to_owned(), Value::Object(generation));
    }
    Ok(body)
}

/// Adds to the last content, or begins one: user and model alternate.
fn push(contents: &mut Vec<Value>, role: &str, parts: Vec<Value>) {
    if parts.is_empty() {
        return;
    }
    if let Some(last) = contents.last_mut()
        && last["role"] == role
        && let Some(known) = last["parts"].as_array_mut()
    {
        known.extend(parts);
        return;
    }
    contents.push(json!({"role": role, "parts": parts}));
}

fn part(piece: &Piece) -> Value {
    match piece {
        Piece::Text(text) => json!({"text": text}),
        Piece::Image(media) | Piece::File(media) => inline(media),
    }
}

fn model_parts(said: &[Said<'_>]) -> Vec<Value> {
    let calls = calls_of(said);
    let written = (!calls.is_empty()).then(|| write_calls(&calls)).and_then(|mut contents| contents.pop());
    let calls = written.and_then(|mut content| match content["parts"].take() {
        Value::Array(parts) => Some(parts),
        _ => None,
    });
    let mut calls = calls.unwrap_or_default().into_iter();
    let signed = |mut part: Value, own: Option<&Value>| {
        if let Some(signature) = own.and_then(|own| own.get("thoughtSignature")) {
            part["thoughtSignature"] = signature.clone();
        }
        part
    };
    said.iter()
        .filter_map(|block| match block {
            Said::Text { text, own } => Some(signed(json!({"text": text}), *own)),
            Said::Own { value, .. } => Some((*value).clone()),
            Said::Media { piece, own } => Some(signed(part(piece), *own)),
            Said::Call(_) => calls.next(),
        })
        .collect()
}
