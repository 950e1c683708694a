//! Results as Responses items.

use serde_json::{Value, json};

use super::request::part;
use crate::CallKind;
use crate::results::{Carrier, NO_OUTPUT, Piece, Reply, error_text};

pub(crate) const CARRIER: Carrier = Carrier {
    image_types: &["image/png", "image/jpeg", "image/gif", "image/webp"],
    image_bytes: 20_000_000,
    file_types: &["application/pdf"],
    file_bytes: 20_000_000,
    ..Carrier::TEXT
};

pub(crate) fn write_results(replies: Vec<Reply<'_>>) -> Vec<Value> {
    replies.iter().map(item).collect()
}

fn item(reply: &Reply<'_>) -> Value {
    let item_type = match reply.call.kind {
        CallKind::Function => "function_call_output",
        CallKind::Custom => "custom_tool_call_output",
    };
    json!({"type": item_type, "call_id": reply.id, "output": output(reply)})
}

/// A lone text is a string; everything else is a list of parts.
fn output(reply: &Reply<'_>) -> Value {
    let mut pieces = reply.prepared.pieces.clone();
    if pieces.is_empty() {
        pieces.push(Piece::Text(NO_OUTPUT.to_owned()));
    }
    if reply.prepared.failed {
        // There is no flag for errors, so the first text says it.
        match &mut pieces[0] {
            Piece::Text(text) => *text = error_text(text),
            _ => pieces.insert(0, Piece::Text("Error:".to_owned())),
        }
    }
    if let [Piece::Text(text)] = pieces.as_slice() {
        return json!(text);
    }
    pieces.iter().map(part).collect()
}
