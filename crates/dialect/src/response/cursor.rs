//! Typed access to a JSON value, with positions in errors.

use std::fmt;

use serde_json::{Map, Value};
use toolwire_contract::text::{escape_pointer_segment, json_kind};

use super::{ReadResult, ResponseError};

/// A position in a response: a value and the path to it.
///
/// `null` reads as absent everywhere, because APIs use both for a missing value.
#[derive(Clone, Copy)]
pub(crate) struct JsonCursor<'a> {
    value: &'a Value,
    parent: Option<&'a JsonCursor<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Key(&'a str),
    Index(usize),
}

impl<'a> JsonCursor<'a> {
    pub(crate) fn root(value: &'a Value) -> JsonCursor<'a> {
        JsonCursor { value, parent: None, step: Step::Root }
    }

    pub(crate) fn value(&self) -> &'a Value {
        self.value
    }

    /// Moves to the value of a key, unless it is absent or `null`.
    pub(crate) fn get(&'a self, key: &'a str) -> Option<JsonCursor<'a>> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(JsonCursor { value, parent: Some(self), step: Step::Key(key) })
    }

    pub(crate) fn string(&'a self, key: &'a str) -> ReadResult<Option<&'a str>> {
        self.get(key).map(|cursor| cursor.value.as_str().ok_or_else(|| cursor.error("a string"))).transpose()
    }

    pub(crate) fn required_string(&'a self, key: &'a str) -> ReadResult<&'a str> {
        self.string(key)?.ok_or_else(|| self.error_at(key, "a string"))
    }

    pub(crate) fn index(&'a self, key: &'a str) -> ReadResult<Option<u64>> {
        self.get(key).map(|cursor| cursor.value.as_u64().ok_or_else(|| cursor.error("an index"))).transpose()
    }

    pub(crate) fn required_index(&'a self, key: &'a str) -> ReadResult<u64> {
        self.index(key)?.ok_or_else(|| self.error_at(key, "an index"))
    }

    pub(crate) fn is_true(&self, key: &str) -> bool {
        self.value.get(key) == Some(&Value::Bool(true))
    }

    /// Iterates over the elements of an array.
    pub(crate) fn items(&'a self) -> ReadResult<impl Iterator<Item = JsonCursor<'a>>> {
        let items = self.value.as_array().ok_or_else(|| self.error("an array"))?;
        Ok(items.iter().enumerate().map(|(index, value)| JsonCursor {
            value,
            parent: Some(self),
            step: Step::Index(index),
        }))
    }

    pub(crate) fn object(&self) -> ReadResult<&'a Map<String, Value>> {
        self.value.as_object().ok_or_else(|| self.error("an object"))
    }

    /// Returns the error that this value is not what was expected.
    pub(crate) fn error(&self, expected: &'static str) -> ResponseError {
        ResponseError::Malformed { pointer: self.to_string(), expected, found: json_kind(self.value) }
    }

    /// Returns the error that the value of a key, or the missing value, is not what was expected.
    pub(crate) fn error_at(&self, key: &str, expected: &'static str) -> ResponseError {
        let found = self.value.get(key).map_or("nothing", json_kind);
        ResponseError::Malformed { pointer: format!("{self}/{key}"), expected, found }
    }

    /// Returns the error that the provider sent this event or body instead of a response.
    pub(crate) fn provider_error(&self, message: impl Into<String>) -> ResponseError {
        let mut root = self;
        while let Some(parent) = root.parent {
            root = parent;
        }
        ResponseError::Provider { message: message.into(), body: root.value.clone() }
    }

    /// Fails if there is an `error`: `{"error": "…"}` or `{"error": {"message": "…"}}`.
    pub(crate) fn reject_error(&self) -> ReadResult {
        let Some(error) = self.value.get("error").filter(|error| !error.is_null()) else { return Ok(()) };
        let message = error.as_str().or_else(|| error.get("message")?.as_str());
        Err(self.provider_error(message.map_or_else(|| error.to_string(), str::to_owned)))
    }
}

/// Writes an RFC 6901 pointer.
impl fmt::Display for JsonCursor<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(formatter)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Key(key) => write!(formatter, "/{}", escape_pointer_segment(key)),
            Step::Index(index) => write!(formatter, "/{index}"),
        }
    }
}
