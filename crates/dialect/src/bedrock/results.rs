//! Results as one Converse user turn.

use serde_json::{Map, Value, json};

use crate::ResultOptions;
use crate::ids::fingerprint;
use crate::results::{Carrier, Media, NO_OUTPUT, Piece, Reply, Structured, note};

pub(crate) const CARRIER: Carrier = Carrier {
    image_types: &["image/png", "image/jpeg", "image/gif", "image/webp"],
    image_bytes: 3_750_000,
    image_side: 8_000,
    file_types: &["application/pdf"],
    file_bytes: 4_500_000,
    structured: Structured::Value,
    ..Carrier::TEXT
};

/// Nothing but results stands in the message: some models refuse anything beside them.
pub(crate) fn write_results(replies: Vec<Reply<'_>>, options: &ResultOptions) -> Vec<Value> {
    let content: Vec<Value> = replies.iter().map(|reply| result_block(reply, options)).collect();
    vec![json!({"role": "user", "content": content})]
}

fn result_block(reply: &Reply<'_>, options: &ResultOptions) -> Value {
    let prepared = &reply.prepared;
    let mut content: Vec<Value> = if prepared.failed {
        // Media beside an error is refused by the model behind, and may not stand after the results either.
        let is_bare = prepared.pieces.is_empty() && prepared.structured.is_some();
        let texts = match options.error_flag {
            _ if is_bare && options.error_flag => Vec::new(),
            _ if is_bare => vec!["Error:".to_owned()],
            true => prepared.texts(|media| note(media, "not shown")),
            false => prepared.plain_texts(|media| note(media, "not shown")),
        };
        texts.into_iter().map(|text| json!({"text": text})).collect()
    } else {
        prepared.pieces.iter().enumerate().map(|(place, piece)| block(reply, place, piece)).collect()
    };
    if let Some(value) = &prepared.structured {
        // Most models take an object here and nothing else.
        let value = if value.is_object() { value.clone() } else { json!({"output": value}) };
        content.push(json!({"json": value}));
    }
    if content.is_empty() {
        content.push(json!({"text": NO_OUTPUT}));
    }
    let mut result = Map::new();
    result.insert("toolUseId".to_owned(), json!(reply.id));
    result.insert("content".to_owned(), Value::Array(content));
    if options.error_flag {
        result.insert("status".to_owned(), json!(if prepared.failed { "error" } else { "success" }));
    }
    json!({"toolResult": result})
}

fn block(reply: &Reply<'_>, place: usize, piece: &Piece) -> Value {
    match piece {
        Piece::Text(text) => json!({"text": text}),
        Piece::Image(media) => image(media),
        Piece::File(media) => document(media, &format!("{}\n{place}", reply.id)),
    }
}

pub(super) fn image(media: &Media) -> Value {
    json!({"image": {"format": format(media), "source": {"bytes": media.data}}})
}

/// A document; `place` is where it stands in the conversation and makes its name its own.
pub(super) fn document(media: &Media, place: &str) -> Value {
    let name = document_name(place, media);
    json!({"document": {"format": format(media), "name": name, "source": {"bytes": media.data}}})
}

/// The subtype is Bedrock's word for every type it takes.
fn format(media: &Media) -> &str {
    media.media_type.rsplit('/').next().unwrap_or_default()
}

/// Letters, digits and hyphens, and no other document's name: two of one name in a conversation are refused.
fn document_name(place: &str, media: &Media) -> String {
    let stem = media.name.rsplit_once('.').map_or(media.name.as_str(), |(stem, _)| stem);
    let stem: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!("{stem}-{}", &fingerprint(place)[..8])
}
