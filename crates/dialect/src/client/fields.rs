//! Typed access to the fields of a request.

use std::iter::Enumerate;
use std::vec;

use serde_json::{Map, Value};
use toolwire_contract::text::{json_kind, truncate};

use super::{InvalidRequest, Problem};

/// The maximum length of a number in an error.
const MAX_NUMBER_CHARS: usize = 40;

pub(crate) type ReadRequest<T> = Result<T, InvalidRequest>;

/// The fields of an object in a request, with the path to it. Reading a field removes it, so that only
/// unknown fields remain at the end. `null` is treated as absent.
#[derive(Debug)]
pub(crate) struct RequestFields {
    path: String,
    fields: Map<String, Value>,
}

/// The elements of an array. The path of an element is created when it is read, so that an array with an
/// invalid element costs nothing for the elements after it.
#[derive(Debug, Default)]
pub(crate) struct Elements {
    path: String,
    items: Enumerate<vec::IntoIter<Value>>,
}

impl Iterator for Elements {
    type Item = (String, Value);

    fn next(&mut self) -> Option<(String, Value)> {
        let (index, item) = self.items.next()?;
        Some((format!("{}[{index}]", self.path), item))
    }
}

impl RequestFields {
    pub(crate) fn new(path: impl Into<String>, value: Value) -> ReadRequest<RequestFields> {
        let path = path.into();
        match value {
            Value::Object(fields) => Ok(RequestFields { path, fields }),
            other => Err(expected(path, "an object", &other)),
        }
    }

    /// Returns the path of a field in OpenAI's notation: `messages[0].role`.
    pub(crate) fn path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    pub(crate) fn own_path(&self) -> &str {
        &self.path
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.fields.get(key).is_some_and(|value| !value.is_null())
    }

    /// Returns the value of a field without removing it.
    pub(crate) fn peek(&self, key: &str) -> Option<&Value> {
        self.fields.get(key)
    }

    /// Returns the value of a text field without removing it.
    pub(crate) fn peek_text(&self, key: &str) -> Option<&str> {
        self.fields.get(key)?.as_str()
    }

    pub(crate) fn take(&mut self, key: &str) -> Option<Value> {
        self.fields.shift_remove(key).filter(|value| !value.is_null())
    }

    pub(crate) fn text(&mut self, key: &str) -> ReadRequest<Option<String>> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(expected(self.path(key), "a string", &other)),
        }
    }

    pub(crate) fn required_text(&mut self, key: &str) -> ReadRequest<String> {
        self.text(key)?.ok_or_else(|| self.missing(key))
    }

    pub(crate) fn flag(&mut self, key: &str) -> ReadRequest<Option<bool>> {
        self.take(key)
            .map(|value| value.as_bool().ok_or_else(|| expected(self.path(key), "a boolean", &value)))
            .transpose()
    }

    pub(crate) fn number(&mut self, key: &str) -> ReadRequest<Option<f64>> {
        self.take(key)
            .map(|value| {
                let kind =
                    if value.is_number() { "a number between -1.8e308 and 1.8e308" } else { "a number" };
                value.as_f64().ok_or_else(|| expected_number(self.path(key), kind, &value))
            })
            .transpose()
    }

    pub(crate) fn integer(&mut self, key: &str) -> ReadRequest<Option<i64>> {
        self.take(key)
            .map(|value| value.as_i64().ok_or_else(|| expected_number(self.path(key), "an integer", &value)))
            .transpose()
    }

    /// Reads a number of tokens.
    pub(crate) fn count(&mut self, key: &str) -> ReadRequest<Option<u64>> {
        let value = self.take(key);
        value
            .map(|value| {
                value
                    .as_u64()
                    .ok_or_else(|| expected_number(self.path(key), "an integer that is not negative", &value))
            })
            .transpose()
    }

    pub(crate) fn object(&mut self, key: &str) -> ReadRequest<Option<RequestFields>> {
        self.take(key).map(|value| RequestFields::new(self.path(key), value)).transpose()
    }

    /// Reads an array, each element with its path. An absent array is treated as empty.
    pub(crate) fn list(&mut self, key: &str) -> ReadRequest<Elements> {
        let path = self.path(key);
        match self.take(key) {
            None => Ok(Elements::default()),
            Some(Value::Array(items)) => Ok(Elements { path, items: items.into_iter().enumerate() }),
            Some(other) => Err(expected(path, "an array", &other)),
        }
    }

    /// Returns an array that must be present; see [`RequestFields::list`].
    pub(crate) fn required_list(&mut self, key: &str) -> ReadRequest<Elements> {
        if self.has(key) { self.list(key) } else { Err(self.missing(key)) }
    }

    /// Preserves the fields of an object that were not read, under their key.
    pub(crate) fn put_back(&mut self, key: &str, object: RequestFields) {
        if !object.fields.is_empty() {
            self.fields.insert(key.to_owned(), Value::Object(object.fields));
        }
    }

    /// Returns the fields that were not read.
    pub(crate) fn rest(self) -> Map<String, Value> {
        self.fields
    }

    pub(crate) fn missing(&self, key: &str) -> InvalidRequest {
        InvalidRequest { parameter: self.path(key), problem: Problem::Missing }
    }

    pub(crate) fn invalid(&self, key: &str, problem: impl Into<String>) -> InvalidRequest {
        InvalidRequest { parameter: self.path(key), problem: Problem::Invalid(problem.into()) }
    }

    pub(crate) fn unsupported(&self, key: &str, problem: impl Into<String>) -> InvalidRequest {
        InvalidRequest { parameter: self.path(key), problem: Problem::Unsupported(problem.into()) }
    }

    /// Returns the error for a tool that the client runs, and that only one API has.
    pub(crate) fn native_tool(&self, type_name: &str, api: &str) -> InvalidRequest {
        self.unsupported("type", format!("only {api} has tools of the type `{type_name}`"))
    }

    /// Returns the error for a tool that only the provider can run.
    pub(crate) fn provider_tool(&self, type_name: &str, provider: &'static str) -> InvalidRequest {
        let problem = Problem::ProviderTool { type_name: type_name.to_owned(), provider };
        InvalidRequest { parameter: self.path("type"), problem }
    }
}

pub(crate) fn expected(path: String, expected: &'static str, found: &Value) -> InvalidRequest {
    let found = json_kind(found).to_owned();
    InvalidRequest { parameter: path, problem: Problem::WrongType { expected, found } }
}

/// Like [`expected`], for a number. If a number was found, the error quotes it, because its type alone would
/// not show the problem.
fn expected_number(path: String, kind: &'static str, found: &Value) -> InvalidRequest {
    let Value::Number(number) = found else { return expected(path, kind, found) };
    let found = format!("`{}`", truncate(&number.to_string(), MAX_NUMBER_CHARS));
    InvalidRequest { parameter: path, problem: Problem::WrongType { expected: kind, found } }
}
