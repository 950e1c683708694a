//! JSON as it is quoted in a report or a description: short.

use crate::Layout;
use crate::json::{JsonWriter, Node};

/// Long enough for any sensible constraint, short enough for a line of text.
const LONGEST: usize = 200;

/// Compact JSON text, cut with an ellipsis when it is long.
pub(crate) fn brief(node: Node<'_>) -> String {
    let text = whole(node);
    match text.char_indices().nth(LONGEST) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// Compact JSON text.
pub(crate) fn whole(node: Node<'_>) -> String {
    let mut writer = JsonWriter::new(Layout::Compact, 32);
    writer.node(node);
    writer.out
}
