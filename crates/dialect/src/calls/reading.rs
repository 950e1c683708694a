//! Typed reading of an answer, with the place in the error.

use std::fmt;

use serde_json::{Map, Value};

use super::CallError;

/// A place in an answer: the value there and the way to it.
///
/// `null` reads as absent everywhere: APIs write both for "nothing".
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    value: &'a Value,
    parent: Option<&'a At<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Key(&'a str),
    Index(usize),
}

impl<'a> At<'a> {
    pub(crate) fn root(value: &'a Value) -> At<'a> {
        At { value, parent: None, step: Step::Root }
    }

    pub(crate) fn value(&self) -> &'a Value {
        self.value
    }

    /// The value of a key, unless it is absent or `null`.
    pub(crate) fn get(&'a self, key: &'a str) -> Option<At<'a>> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(At { value, parent: Some(self), step: Step::Key(key) })
    }

    /// The text of a key.
    pub(crate) fn text(&'a self, key: &'a str) -> Result<Option<&'a str>, CallError> {
        self.get(key).map(|at| at.value.as_str().ok_or_else(|| at.expected("text"))).transpose()
    }

    /// The text of a key that must be there.
    pub(crate) fn need_text(&'a self, key: &'a str) -> Result<&'a str, CallError> {
        self.text(key)?.ok_or_else(|| self.expected_under(key, "text"))
    }

    /// The whole number of a key.
    pub(crate) fn index(&'a self, key: &'a str) -> Result<Option<u64>, CallError> {
        self.get(key).map(|at| at.value.as_u64().ok_or_else(|| at.expected("an index"))).transpose()
    }

    /// The items of a list.
    pub(crate) fn items(&'a self) -> Result<impl Iterator<Item = At<'a>>, CallError> {
        let items = self.value.as_array().ok_or_else(|| self.expected("an array"))?;
        Ok(items.iter().enumerate().map(|(index, value)| At {
            value,
            parent: Some(self),
            step: Step::Index(index),
        }))
    }

    pub(crate) fn object(&self) -> Result<&'a Map<String, Value>, CallError> {
        self.value.as_object().ok_or_else(|| self.expected("an object"))
    }

    pub(crate) fn expected(&self, expected: &'static str) -> CallError {
        CallError::Malformed { pointer: self.to_string(), expected, found: kind_of(self.value) }
    }

    pub(crate) fn expected_under(&self, key: &str, expected: &'static str) -> CallError {
        let found = self.value.get(key).map_or("nothing", kind_of);
        CallError::Malformed { pointer: format!("{self}/{key}"), expected, found }
    }
}

/// An RFC 6901 pointer.
impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Key(key) => write!(f, "/{}", key.replace('~', "~0").replace('/', "~1")),
            Step::Index(index) => write!(f, "/{index}"),
        }
    }
}

/// The error an API answered with instead of a message: `{"error": "…"}` or `{"error": {"message": "…"}}`.
pub(crate) fn failure_in(answer: &At<'_>) -> Result<(), CallError> {
    match answer.get("error") {
        Some(error) => Err(CallError::ErrorAnswer { message: message_of(error.value) }),
        None => Ok(()),
    }
}

/// The message of an error; the whole error where it has none.
fn message_of(error: &Value) -> String {
    let message = error.as_str().or_else(|| error.get("message")?.as_str());
    message.map_or_else(|| error.to_string(), str::to_owned)
}

/// What a value is, in words for an error.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
