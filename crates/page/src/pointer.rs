//! JSON pointers.

use toolwire_contract::text::escape_pointer_segment;

/// Returns the JSON pointer of a member or an item.
pub(crate) fn child(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", escape_pointer_segment(key))
}
