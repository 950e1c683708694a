//! Tells the fields we have a name for from those we carry.
//!
//! A field moves out of the map only when its value has the type MCP gives it. Whatever stays in the map (unknown
//! keys, a `null` title, a number where text is due) is the type's `extra` and is written back as it came.

use serde_json::{Map, Value};

/// Takes `key` when it holds text.
pub(crate) fn take_text(fields: &mut Map<String, Value>, key: &str) -> Option<String> {
    take_if(fields, key, Value::is_string).map(|value| match value {
        Value::String(text) => text,
        _ => unreachable!("`take_if` checked for text"),
    })
}

/// Takes `key` when it holds a boolean.
pub(crate) fn take_flag(fields: &mut Map<String, Value>, key: &str) -> Option<bool> {
    take_if(fields, key, Value::is_boolean).and_then(|value| value.as_bool())
}

/// Takes `key` when it is there, whatever it holds; an absent key is not a `null`.
pub(crate) fn take_any(fields: &mut Map<String, Value>, key: &str) -> Option<Value> {
    take_if(fields, key, |_| true)
}

/// Takes `key` when it holds an object.
pub(crate) fn take_object(fields: &mut Map<String, Value>, key: &str) -> Option<Map<String, Value>> {
    take_if(fields, key, Value::is_object).map(|value| match value {
        Value::Object(object) => object,
        _ => unreachable!("`take_if` checked for an object"),
    })
}

/// Takes `key` when it holds an array.
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
        // `remove` would move the last key into the gap and so change the order of the rest.
        fields.shift_remove(key)
    } else {
        None
    }
}

/// Writes known fields in MCP's order, then the carried ones.
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

    /// A known field wins over a carried one of the same name: it was set on purpose after reading.
    pub(crate) fn and(mut self, extra: Map<String, Value>) -> Value {
        for (key, value) in extra {
            self.0.entry(key).or_insert(value);
        }
        Value::Object(self.0)
    }
}

/// What a value is, in words for an error.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
