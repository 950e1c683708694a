//! Separates known fields from unknown ones when a JSON object becomes a Rust type.
//!
//! A field is taken out of the map only when its value has the type that MCP defines. Everything that stays
//! in the map (unknown keys, a `null` title, a number where a string is expected) becomes the type's `extra`
//! and is written back unchanged.

use serde_json::{Map, Value};

/// Takes the value of `key` if it is a string.
pub(crate) fn take_text(fields: &mut Map<String, Value>, key: &str) -> Option<String> {
    take_if(fields, key, Value::is_string).map(|value| match value {
        Value::String(text) => text,
        _ => unreachable!("`take_if` checked for a string"),
    })
}

/// Takes the value of `key` if it is a boolean.
pub(crate) fn take_flag(fields: &mut Map<String, Value>, key: &str) -> Option<bool> {
    take_if(fields, key, Value::is_boolean).and_then(|value| value.as_bool())
}

/// Takes the value of `key`, of any type; an absent key is different from `null`.
pub(crate) fn take_any(fields: &mut Map<String, Value>, key: &str) -> Option<Value> {
    take_if(fields, key, |_| true)
}

/// Takes the value of `key` if it is an object.
pub(crate) fn take_object(fields: &mut Map<String, Value>, key: &str) -> Option<Map<String, Value>> {
    take_if(fields, key, Value::is_object).map(|value| match value {
        Value::Object(object) => object,
        _ => unreachable!("`take_if` checked for an object"),
    })
}

/// Takes the value of `key` if it is an array.
pub(crate) fn take_array(fields: &mut Map<String, Value>, key: &str) -> Option<Vec<Value>> {
    take_if(fields, key, Value::is_array).map(|value| match value {
        Value::Array(items) => items,
        _ => unreachable!("`take_if` checked for an array"),
    })
}

fn take_if(
    fields: &mut Map<String, Value>,
    key: &str,
    is_wanted: impl FnOnce(&Value) -> bool,
) -> Option<Value> {
    if fields.get(key).is_some_and(is_wanted) {
        // `swap_remove` would change the order of the other keys.
        fields.shift_remove(key)
    } else {
        None
    }
}

/// Builds a JSON object: known fields in MCP's order, then the unknown ones.
#[derive(Default)]
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    pub(crate) fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.insert(key.to_owned(), value.into());
        self
    }

    pub(crate) fn set_some(self, key: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.set(key, value),
            None => self,
        }
    }

    /// Adds the unknown fields. A known field of the same name wins, because it was set after reading.
    pub(crate) fn with_extra(mut self, extra: Map<String, Value>) -> Value {
        for (key, value) in extra {
            self.0.entry(key).or_insert(value);
        }
        Value::Object(self.0)
    }
}
