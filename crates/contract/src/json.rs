//! The nesting depth and the type names of JSON values, and the segments of JSON pointers.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// The deepest nesting of arrays and objects that the arguments or the result of a call may have in a
/// conversation.
///
/// JSON parsers stop at 128 levels to protect their stack, and a stored or exported message has some levels
/// around it.
pub const MAX_NESTING_DEPTH: usize = 100;

/// Returns how many levels of arrays and objects a value has; a string or a number has none.
pub fn nesting_depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(nesting_depth).max().unwrap_or_default(),
        Value::Object(fields) => object_nesting_depth(fields),
        _ => 0,
    }
}

/// Returns the nesting depth of an object with these fields.
pub fn object_nesting_depth(fields: &Map<String, Value>) -> usize {
    1 + fields.values().map(nesting_depth).max().unwrap_or_default()
}

/// Returns the JSON type of a value with its article, for error messages: `a string`, `an array`, `null`.
pub fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Escapes a key as a segment of a JSON pointer (RFC 6901).
pub fn escape_pointer_segment(key: &str) -> Cow<'_, str> {
    match key.contains(['~', '/']) {
        true => Cow::Owned(key.replace('~', "~0").replace('/', "~1")),
        false => Cow::Borrowed(key),
    }
}

/// Returns the key in a segment of a JSON pointer (RFC 6901).
pub fn unescape_pointer_segment(segment: &str) -> Cow<'_, str> {
    match segment.contains('~') {
        true => Cow::Owned(segment.replace("~1", "/").replace("~0", "~")),
        false => Cow::Borrowed(segment),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn segments_of_pointers_are_escaped_and_unescaped() {
        for (key, segment) in [("a", "a"), ("a/b~c", "a~1b~0c"), ("~1", "~01"), ("", "")] {
            assert_eq!(escape_pointer_segment(key), segment);
            assert_eq!(unescape_pointer_segment(segment), key);
        }
    }

    #[test]
    fn only_arrays_and_objects_add_depth() {
        assert_eq!(nesting_depth(&json!("[[")), 0);
        assert_eq!(nesting_depth(&json!([])), 1);
        assert_eq!(nesting_depth(&json!({"a": [{"b": 1}, []], "c": {}})), 3);
    }
}
