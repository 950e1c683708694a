//! JSON text for reports and descriptions.

use toolwire_contract::text::truncate;

use crate::Layout;
use crate::json::{JsonWriter, Node};

/// The maximum length of an excerpt: enough for any sensible constraint, and still one line of text.
const MAX_EXCERPT_CHARS: usize = 200;

/// Returns compact JSON text, truncated if it is long.
pub(crate) fn excerpt(node: Node<'_>) -> String {
    // What follows is truncated: a character has at most four bytes.
    let mut writer = JsonWriter::new(Layout::Compact, 32).up_to(MAX_EXCERPT_CHARS * 4);
    writer.node(node);
    let text = writer.out;
    if text.len() <= MAX_EXCERPT_CHARS { text } else { truncate(&text, MAX_EXCERPT_CHARS).into_owned() }
}

/// Returns compact JSON text.
pub(crate) fn compact_json(node: Node<'_>) -> String {
    let mut writer = JsonWriter::new(Layout::Compact, 32);
    writer.node(node);
    writer.out
}
