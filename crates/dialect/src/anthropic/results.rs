//! Results as one Messages user turn.

use serde_json::{Map, Value, json};

use crate::results::{Carrier, NO_OUTPUT, Piece, Reply, note};

pub(crate) const CARRIER: Carrier = Carrier {
    image_types: &["image/jpeg", "image/png", "image/gif", "image/webp"],
    image_bytes: 5_242_880,
    image_side: 8_000,
    file_types: &["application/pdf"],
    file_bytes: 24_000_000,
    ..Carrier::TEXT
};

/// All results of a turn stand first in the one next user message. A result that is an error holds nothing but text, so
/// its media follows after the last result.
pub(crate) fn write_results(replies: Vec<Reply<'_>>) -> Vec<Value> {
    let mut content: Vec<Value> = replies.iter().map(result_block).collect();
    for reply in replies.iter().filter(|reply| reply.prepared.failed) {
        for piece in &reply.prepared.pieces {
            if let Piece::Image(media) | Piece::File(media) = piece {
                content.push(json!({"type": "text", "text": reply.label(media)}));
                content.push(block(piece));
            }
        }
    }
    vec![json!({"role": "user", "content": content})]
}

fn result_block(reply: &Reply<'_>) -> Value {
    let prepared = &reply.prepared;
    let content: Vec<Value> = if prepared.failed {
        let texts = prepared.texts(|media| note(media, "after the results"));
        texts.into_iter().map(|text| json!({"type": "text", "text": text})).collect()
    } else if prepared.pieces.is_empty() {
        vec![json!({"type": "text", "text": NO_OUTPUT})]
    } else {
        prepared.pieces.iter().map(block).collect()
    };
    let mut result = Map::new();
    result.insert("type".to_owned(), json!("tool_result"));
    result.insert("tool_use_id".to_owned(), json!(reply.id));
    result.insert("content".to_owned(), Value::Array(content));
    if prepared.failed {
        result.insert("is_error".to_owned(), json!(true));
    }
    Value::Object(result)
}

pub(super) fn block(piece: &Piece) -> Value {
    let (block_type, media) = match piece {
        Piece::Text(text) => return json!({"type": "text", "text": text}),
        Piece::Image(media) => ("image", media),
        Piece::File(media) => ("document", media),
    };
    json!({
        "type": block_type,
        "source": {"type": "base64", "media_type": media.media_type, "data": media.data},
    })
}
