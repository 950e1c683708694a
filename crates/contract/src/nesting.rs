//! How deep values may be nested.

use serde_json::{Map, Value};

/// How many levels of arrays and objects the arguments or the result of a call may have in a conversation. Readers of JSON stop
/// at 128, so as not to be led too deep, and what is kept or exported has some levels around each message.
pub const MOST_LEVELS: usize = 100;

/// How many levels of arrays and objects a value has; a text or a number has none.
pub fn levels(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(levels).max().unwrap_or_default(),
        Value::Object(fields) => levels_of_fields(fields),
        _ => 0,
    }
}

/// The same for the fields of an object.
pub fn levels_of_fields(fields: &Map<String, Value>) -> usize {
    1 + fields.values().map(levels).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arrays_and_objects_are_levels() {
        assert_eq!(levels(&json!("[[")), 0);
        assert_eq!(levels(&json!([])), 1);
        assert_eq!(levels(&json!({"a": [{"b": 1}, []], "c": {}})), 3);
    }
}
