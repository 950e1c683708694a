//! Results as Chat Completions messages.

use serde_json::{Map, Value, json};

use crate::Dialect;
use crate::results::{Carrier, Piece, Reply, note};

const MEGABYTE: usize = 1_000_000;
const IMAGES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];
const SEEING: Carrier = Carrier { image_types: IMAGES, image_bytes: 20 * MEGABYTE, ..Carrier::TEXT };

/// What the APIs of this shape differ in. Images go into a user message, so what counts is what that may hold.
pub(crate) fn carrier(dialect: Dialect) -> Carrier {
    match dialect {
        // An image part is refused.
        Dialect::DeepSeek => Carrier::TEXT,
        Dialect::Xai => Carrier { image_types: &["image/png", "image/jpeg"], ..SEEING },
        Dialect::Groq => Carrier { image_bytes: 3 * MEGABYTE, ..SEEING },
        Dialect::Mistral => Carrier { image_bytes: 10 * MEGABYTE, ..SEEING },
        Dialect::Dial => Carrier { attaches_all: true, file_bytes: 20 * MEGABYTE, ..SEEING },
        _ => SEEING,
    }
}

/// One tool message per call, always with a text: an array of parts is split up by some servers. A tool message holds no
/// images, so all images follow in one user message, after the last tool message.
pub(crate) fn write_results(dialect: Dialect, replies: Vec<Reply<'_>>) -> Vec<Value> {
    let mut messages = Vec::with_capacity(replies.len() + 1);
    let mut images = Vec::new();
    for reply in &replies {
        let attaches = dialect == Dialect::Dial;
        let place = if attaches { "attached" } else { "in the next user message" };
        let text = reply.prepared.plain_texts(|media| note(media, place)).join("\n");
        let mut message = Map::new();
        message.insert("role".to_owned(), json!("tool"));
        message.insert("tool_call_id".to_owned(), json!(reply.id));
        if dialect == Dialect::Mistral {
            message.insert("name".to_owned(), json!(reply.call.name));
        }
        message.insert("content".to_owned(), json!(text));
        if attaches {
            let attachments = attachments(reply);
            if !attachments.is_empty() {
                message.insert("custom_content".to_owned(), json!({"attachments": attachments}));
            }
        } else {
            images.extend(labelled_images(reply));
        }
        messages.push(Value::Object(message));
    }
    if !images.is_empty() {
        messages.push(json!({"role": "user", "content": images}));
    }
    messages
}

fn labelled_images(reply: &Reply<'_>) -> Vec<Value> {
    let mut parts = Vec::new();
    for piece in &reply.prepared.pieces {
        if let Piece::Image(media) = piece {
            parts.push(json!({"type": "text", "text": reply.label(media)}));
            parts.push(json!({"type": "image_url", "image_url": {"url": media.data_url()}}));
        }
    }
    parts
}

/// DIAL's own way to hand over media of any type.
fn attachments(reply: &Reply<'_>) -> Vec<Value> {
    let media = reply.prepared.media();
    media.map(|media| json!({"type": media.media_type, "title": media.name, "data": media.data})).collect()
}
