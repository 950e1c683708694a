//! Looking into JSON that may be anything.

use serde_json::{Map, Value};

/// The first key that is not one of these.
pub(super) fn stranger<'value>(value: &'value Value, known: &[&str]) -> Option<&'value str> {
    let object = value.as_object()?;
    object.keys().map(String::as_str).find(|key| !known.contains(key))
}

/// The text under a key.
pub(super) fn text<'value>(value: &'value Value, key: &str) -> Option<&'value str> {
    value.get(key).and_then(Value::as_str)
}

/// The list under a key; empty when there is none.
pub(super) fn list<'value>(value: &'value Value, key: &str) -> &'value [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The object under a key.
pub(super) fn object<'value>(value: &'value Value, key: &str) -> Option<&'value Map<String, Value>> {
    value.get(key).and_then(Value::as_object)
}

/// What there is under a key, where `null` is nothing.
pub(super) fn present<'value>(value: &'value Value, key: &str) -> Option<&'value Value> {
    value.get(key).filter(|value| !value.is_null())
}

/// Whether something is there and is `true`.
pub(super) fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or(false)
}

/// JSON's word for what a value is.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() || number.is_u64() => "integer",
        Value::Number(_) => "decimal",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Whether a text is between one and `most` characters long, each a letter, a digit or one of `extra`.
pub(super) fn is_name(text: &str, most: usize, extra: &str) -> bool {
    let fits = |character: char| character.is_ascii_alphanumeric() || extra.contains(character);
    !text.is_empty() && text.len() <= most && text.chars().all(fits)
}
