//! Results as one Gemini user turn.

use serde_json::{Map, Value, json};

use crate::ResultOptions;
use crate::results::{Carrier, Media, Reply, Structured, note};

pub(crate) const CARRIER: Carrier = Carrier {
    image_types: &["image/png", "image/jpeg", "image/webp"],
    image_bytes: 15_000_000,
    file_types: &["application/pdf"],
    file_bytes: 15_000_000,
    structured: Structured::ValueWithoutRefs,
    ..Carrier::TEXT
};

/// As many responses as calls, in their order and in one turn: calls without an id are paired by order alone.
pub(crate) fn write_results(replies: Vec<Reply<'_>>, options: &ResultOptions) -> Vec<Value> {
    let mut parts: Vec<Value> = replies.iter().map(|reply| response_part(reply, options)).collect();
    if !options.nested_media {
        for reply in &replies {
            for media in reply.prepared.media() {
                parts.push(json!({"text": reply.label(media)}));
                parts.push(inline(media));
            }
        }
    }
    vec![json!({"role": "user", "parts": parts})]
}

fn response_part(reply: &Reply<'_>, options: &ResultOptions) -> Value {
    let mut response = Map::new();
    if reply.call.id.given().is_some() {
        response.insert("id".to_owned(), json!(reply.id));
    }
    response.insert("name".to_owned(), json!(reply.call.name));
    // The value always stands under a key of our own: a bare object with a key `error` would read as a failure.
    let key = if reply.prepared.failed { "error" } else { "output" };
    response.insert("response".to_owned(), json!({key: outcome(reply, options)}));
    let media: Vec<Value> = reply.prepared.media().map(inline).collect();
    if options.nested_media && !media.is_empty() {
        response.insert("parts".to_owned(), Value::Array(media));
    }
    json!({"functionResponse": response})
}

fn outcome(reply: &Reply<'_>, options: &ResultOptions) -> Value {
    let prepared = &reply.prepared;
    let place = if options.nested_media { "attached" } else { "after the results" };
    let text = || prepared.texts(|media| note(media, place)).join("\n");
    match (&prepared.structured, prepared.pieces.is_empty()) {
        (Some(value), true) => value.clone(),
        (Some(value), false) => json!({"text": text(), "structuredContent": value}),
        (None, true) if !prepared.failed => json!(""),
        (None, _) => json!(text()),
    }
}

pub(super) fn inline(media: &Media) -> Value {
    json!({"inlineData": {"mimeType": media.media_type, "data": media.data}})
}
