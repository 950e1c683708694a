//! Responses of Gemini.
//!
//! Rules in `docs/providers.md`: `gemini/stream`, `gemini/finish-reasons`, `gemini/thought-signatures`.

use serde_json::{Value, json};

use crate::provider::output::{FinishReason, pieces};
use crate::provider::{ModelOutput, TokenCounts, opaque_token};

/// Renders a `GenerateContentResponse`.
pub(in crate::provider) fn complete_body(output: &ModelOutput) -> Value {
    let mut parts: Vec<Value> =
        output.thinking.iter().map(|text| json!({"text": text, "thought": true})).collect();
    parts.extend(output.texts().map(|text| json!({"text": text})));
    parts.extend(calls(output));
    sign_text(output, &mut parts);
    response(output, parts, true)
}

/// Renders the chunks of a stream; each is a response with some of the parts.
fn chunks(output: &ModelOutput) -> Vec<Value> {
    let mut parts: Vec<Value> = Vec::new();
    if let Some(thinking) = &output.thinking {
        parts.extend(pieces(thinking).iter().map(|piece| json!({"text": piece, "thought": true})));
    }
    for text in output.texts() {
        parts.extend(pieces(text).iter().map(|piece| json!({"text": piece})));
    }
    // Each call is in one chunk.
    parts.extend(calls(output));
    sign_text(output, &mut parts);
    let last = match &output.stream_error {
        Some(error) => json!({"error": {"code": 503, "message": error.message, "status": error.kind}}),
        None => response(output, parts.pop().into_iter().collect(), true),
    };
    let chunks = parts.into_iter().map(|part| response(output, vec![part], false));
    chunks.chain([last]).collect()
}

/// Renders the events of a stream with `alt=sse`; they have no names, and their lines end with CR LF.
pub(in crate::provider) fn stream_events(output: &ModelOutput) -> Vec<Vec<u8>> {
    chunks(output).iter().map(|chunk| format!("data: {chunk}\r\n\r\n").into_bytes()).collect()
}

/// Renders the stream without `alt=sse`: one JSON array, sent an element at a time.
pub(in crate::provider) fn stream_array(output: &ModelOutput) -> Vec<Vec<u8>> {
    let mut pieces: Vec<Vec<u8>> = chunks(output)
        .iter()
        .enumerate()
        .map(|(index, chunk)| format!("{}{chunk}", if index == 0 { "[" } else { ",\r\n" }).into_bytes())
        .collect();
    pieces.push(b"]".to_vec());
    pieces
}

/// Only the first of parallel calls has a signature.
fn calls(output: &ModelOutput) -> impl Iterator<Item = Value> {
    output.calls.iter().enumerate().map(|(index, call)| {
        let mut function = json!({"name": call.name, "args": call.object()});
        if !call.id.is_empty() {
            function["id"] = call.id.as_str().into();
        }
        let mut part = json!({"functionCall": function});
        if index == 0 {
            part["thoughtSignature"] = opaque_token::issue("thought", &call.name).into();
        }
        part
    })
}

/// Without calls, the last text part carries the signature of the thinking.
fn sign_text(output: &ModelOutput, parts: &mut [Value]) {
    if output.thinking.is_some()
        && output.calls.is_empty()
        && let Some(last) = parts.last_mut().filter(|part| part.get("thought").is_none())
    {
        last["thoughtSignature"] = opaque_token::issue("thought", "text").into();
    }
}

fn response(output: &ModelOutput, parts: Vec<Value>, is_last: bool) -> Value {
    let mut candidate = json!({"index": 0});
    if !parts.is_empty() {
        candidate["content"] = json!({"parts": parts, "role": "model"});
    }
    if is_last {
        candidate["finishReason"] = finish_reason(output).into();
    }
    json!({
        "candidates": [candidate], "usageMetadata": usage(output.usage), "modelVersion": "scripted", "responseId": "r1",
    })
}

/// Returns the finish reason. A response with calls also has `STOP`.
fn finish_reason(output: &ModelOutput) -> String {
    match output.finish_reason() {
        FinishReason::End | FinishReason::Calls => "STOP".to_owned(),
        FinishReason::Length => "MAX_TOKENS".to_owned(),
        FinishReason::Refusal => "SAFETY".to_owned(),
        FinishReason::Other(reason) => reason,
    }
}

fn usage(tokens: TokenCounts) -> Value {
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
