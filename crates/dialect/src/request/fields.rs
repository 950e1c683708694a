//! Shorter ways to fill a JSON object.

use serde_json::{Map, Value};

/// Sets fields of a JSON object under construction.
pub(crate) trait SetFields {
    fn set(&mut self, key: &str, value: impl Into<Value>);

    /// Sets a field if there is a value for it.
    fn set_some(&mut self, key: &str, value: Option<impl Into<Value>>);
}

impl SetFields for Map<String, Value> {
    fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.insert(key.to_owned(), value.into());
    }

    fn set_some(&mut self, key: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(key, value);
        }
    }
}
