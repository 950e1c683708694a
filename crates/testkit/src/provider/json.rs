//! Reading JSON of unknown shape.

use serde_json::{Map, Value};

/// Returns the first key that is not in `known`.
pub(super) fn unknown_key<'value>(value: &'value Value, known: &[&str]) -> Option<&'value str> {
    let object = value.as_object()?;
    object.keys().map(String::as_str).find(|key| !known.contains(key))
}

/// Returns the string at a key.
pub(super) fn text<'value>(value: &'value Value, key: &str) -> Option<&'value str> {
    value.get(key).and_then(Value::as_str)
}

/// Returns the array at a key, or an empty one.
pub(super) fn list<'value>(value: &'value Value, key: &str) -> &'value [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the object at a key.
pub(super) fn object<'value>(value: &'value Value, key: &str) -> Option<&'value Map<String, Value>> {
    value.get(key).and_then(Value::as_object)
}

/// Returns the value at a key unless it is `null`.
pub(super) fn present<'value>(value: &'value Value, key: &str) -> Option<&'value Value> {
    value.get(key).filter(|value| !value.is_null())
}

/// Whether the value at a key is `true`.
pub(super) fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or(false)
}

/// Returns the JSON type of a value; numbers are `integer` or `decimal`.
pub(super) fn type_name(value: &Value) -> &'static str {
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

/// Copies the fields of an object into another one.
pub(super) fn extended(mut object: Value, fields: Value) -> Value {
    if let (Some(object), Value::Object(fields)) = (object.as_object_mut(), fields) {
        object.extend(fields);
    }
    object
}

/// Whether a text has 1 to `max_bytes` bytes and only ASCII letters, digits and the characters of `extra`.
pub(super) fn is_name(text: &str, max_bytes: usize, extra: &str) -> bool {
    let is_allowed = |character: char| character.is_ascii_alphanumeric() || extra.contains(character);
    !text.is_empty() && text.len() <= max_bytes && text.chars().all(is_allowed)
}
