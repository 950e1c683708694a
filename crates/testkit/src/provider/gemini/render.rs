//! What a Gemini model answers.

use serde_json::{Value, json};

use crate::provider::said::{Stop, pieces};
use crate::provider::{Said, Tokens, seal};

/// A `GenerateContentResponse`.
pub(in crate::provider) fn whole(said: &Said) -> Value {
    let mut parts: Vec<Value> =
        said.thinking.iter().map(|text| json!({"text": text, "thought": true})).collect();
    parts.extend(texts(said).map(|text| json!({"text": text})));
    parts.extend(calls(said));
    sign_text(said, &mut parts);
    response(said, parts, true)
}

/// The chunks of a stream, each a response with some of the parts.
pub(in crate::provider) fn chunks(said: &Said) -> Vec<Value> {
    let mut parts: Vec<Value> = Vec::new();
    if let Some(thinking) = &said.thinking {
        parts.extend(pieces(thinking).iter().map(|piece| json!({"text": piece, "thought": true})));
    }
    for text in texts(said) {
        parts.extend(pieces(text).iter().map(|piece| json!({"text": piece})));
    }
    // A call comes whole (3.5).
    parts.extend(calls(said));
    sign_text(said, &mut parts);
    if let Some(fault) = &said.fault {
        let mut chunks: Vec<Value> =
            parts.into_iter().map(|part| response(said, vec![part], false)).collect();
        chunks.push(json!({"error": {"code": 503, "message": fault.message, "status": fault.kind}}));
        return chunks;
    }
    let last = parts.pop();
    let mut chunks: Vec<Value> = parts.into_iter().map(|part| response(said, vec![part], false)).collect();
    chunks.push(response(said, last.into_iter().collect(), true));
    chunks
}

/// The events of a stream with `alt=sse`; they have no names, and Google ends its lines with both characters.
pub(in crate::provider) fn stream(said: &Said) -> Vec<Vec<u8>> {
    chunks(said).iter().map(|chunk| format!("data: {chunk}\r\n\r\n").into_bytes()).collect()
}

/// The same without `alt=sse`: one JSON list, an element at a time.
pub(in crate::provider) fn listed(said: &Said) -> Vec<Vec<u8>> {
    let mut pieces: Vec<Vec<u8>> = chunks(said)
        .iter()
        .enumerate()
        .map(|(index, chunk)| format!("{}{chunk}", if index == 0 { "[" } else { ",\r\n" }).into_bytes())
        .collect();
    pieces.push(b"]".to_vec());
    pieces
}

/// A refusal has no form of its own here.
fn texts(said: &Said) -> impl Iterator<Item = &str> {
    said.text.iter().chain(&said.refusal).map(String::as_str)
}

/// Only the first of parallel calls is signed (3.5).
fn calls(said: &Said) -> impl Iterator<Item = Value> {
    said.calls.iter().enumerate().map(|(index, call)| {
        let mut function = json!({"name": call.name, "args": call.object()});
        if !call.id.is_empty() {
            function["id"] = call.id.as_str().into();
        }
        let mut part = json!({"functionCall": function});
        if index == 0 {
            part["thoughtSignature"] = seal::seal("thought", &call.name).into();
        }
        part
    })
}

/// Thinking that led to no call is signed on the last piece of the text.
fn sign_text(said: &Said, parts: &mut [Value]) {
    if said.thinking.is_some()
        && said.calls.is_empty()
        && let Some(last) = parts.last_mut().filter(|part| part.get("thought").is_none())
    {
        last["thoughtSignature"] = seal::seal("thought", "text").into();
    }
}

fn response(said: &Said, parts: Vec<Value>, is_last: bool) -> Value {
    let mut candidate = json!({"index": 0});
    if !parts.is_empty() {
        candidate["content"] = json!({"parts": parts, "role": "model"});
    }
    if is_last {
        candidate["finishReason"] = reason(said).into();
    }
    json!({
        "candidates": [candidate], "usageMetadata": usage(said.usage), "modelVersion": "scripted", "responseId": "r1",
    })
}

/// `STOP` also for calls (3.5).
fn reason(said: &Said) -> String {
    match said.why() {
        Stop::End | Stop::Calls => "STOP".to_owned(),
        Stop::Length => "MAX_TOKENS".to_owned(),
        Stop::Refusal => "SAFETY".to_owned(),
        Stop::Other(word) => word,
    }
}

fn usage(tokens: Tokens) -> Value {
    let mut usage = json!({
        "promptTokenCount": tokens.input,
        "candidatesTokenCount": tokens.output - tokens.thinking,
        "totalTokenCount": tokens.input + tokens.output,
    });
    if tokens.thinking > 0 {
        usage["thoughtsTokenCount"] = tokens.thinking.into();
    }
    if tokens.cached > 0 {
        usage["cachedContentTokenCount"] = tokens.cached.into();
    }
    usage
}
