//! Violations of a schema and their wording.

use std::fmt;
use std::sync::Arc;

use jsonschema::JsonType;
use serde::ser::{Serialize, SerializeStruct, Serializer};
use serde_json::Value;
use toolwire_contract::text::{counted, json_kind, nearest_names, truncate};

/// The maximum number of violations that are listed; the others are counted.
pub(crate) const MAX_LISTED: usize = 50;

/// The maximum length of a value from the arguments in a message.
const MAX_VALUE_CHARS: usize = 80;

/// The maximum length of a list or a schema in a message.
const MAX_SCHEMA_CHARS: usize = 500;

/// One violation of a schema.
///
/// Its text (`Display`) is the place and the message. It is serialized as `pointer`, `expected`, `found` and
/// `message`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Violation {
    /// The RFC 6901 pointer to the invalid value, or to the object that has a wrong set of properties.
    pub pointer: String,
    pub kind: ViolationKind,
}

/// The kinds of violations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ViolationKind {
    MissingProperty {
        name: String,
        /// A property of the object that the schema does not describe, with a similar name.
        similar: Option<String>,
    },
    UnknownProperty {
        name: String,
        /// The properties that the schema describes here, or `None` if that could not be determined.
        known: Option<Arc<[String]>>,
    },
    InvalidPropertyName {
        name: String,
        requirement: Requirement,
    },
    InvalidValue {
        requirement: Requirement,
        value: Value,
    },
    /// There are more violations than are listed. This is always the last entry.
    More {
        count: usize,
    },
}

/// A requirement that a value does not meet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Requirement {
    /// The value must have one of these types.
    Type(Vec<JsonType>),
    /// The value must be in this list.
    OneOf(Vec<Value>),
    /// Completes "must be …" and "is not …", for example with `at least 5`.
    Be(String),
    /// Completes "must have …" and "does not have …", for example with `at least 1 item`. The owner is `an
    /// array` or `an object`.
    Have { owner: &'static str, what: String },
    /// The value must not match this schema.
    NotMatch(Value),
    /// The value must be omitted.
    Nothing,
}

impl Violation {
    /// Returns the message with the invalid value quoted, such as `"kelvin" is not one of
    /// ["celsius","fahrenheit"]`.
    pub fn message(&self) -> String {
        match &self.kind {
            ViolationKind::InvalidValue { requirement, value } => requirement.unmet_by(value),
            ViolationKind::InvalidPropertyName { name, requirement } => {
                format!("property name {}", requirement.unmet_by(&Value::from(name.as_str())))
            }
            _ => self.message_without_value(),
        }
    }

    /// Returns the message without the invalid value, which may be secret, such as
    /// `must be one of ["celsius","fahrenheit"]`. Names of properties are quoted.
    pub fn message_without_value(&self) -> String {
        match &self.kind {
            ViolationKind::MissingProperty { name, similar } => {
                let mut message = format!("missing required property {}", quoted(name));
                if let Some(similar) = similar {
                    message.push_str(&format!("; {} is not a known property", quoted(similar)));
                }
                message
            }
            ViolationKind::UnknownProperty { name, known } => {
                let mut message = format!("unknown property {}", quoted(name));
                if let Some(known) = known {
                    message.push_str(&unknown_property_hint(name, known));
                }
                message
            }
            ViolationKind::InvalidPropertyName { name, requirement } => {
                format!("property name {} {}", quoted(name), requirement.must(&Value::from(name.as_str())))
            }
            ViolationKind::InvalidValue { requirement, value } => requirement.must(value),
            ViolationKind::More { count } => more(*count),
        }
    }

    /// Returns the property that is missing, unknown or misnamed.
    pub fn property(&self) -> Option<&str> {
        match &self.kind {
            ViolationKind::MissingProperty { name, .. }
            | ViolationKind::UnknownProperty { name, .. }
            | ViolationKind::InvalidPropertyName { name, .. } => Some(name),
            ViolationKind::InvalidValue { .. } | ViolationKind::More { .. } => None,
        }
    }

    /// Returns what the schema requires, such as `an integer` or `at least 5`.
    pub fn expected(&self) -> String {
        match &self.kind {
            ViolationKind::MissingProperty { name, .. } => format!("property {}", quoted(name)),
            ViolationKind::UnknownProperty { .. } => "only known properties".to_owned(),
            ViolationKind::InvalidPropertyName { requirement, .. } => requirement.expected(),
            ViolationKind::InvalidValue { requirement, .. } => requirement.expected(),
            ViolationKind::More { .. } => format!("at most {MAX_LISTED} listed violations"),
        }
    }

    /// Returns what was found instead: usually the value as JSON, truncated.
    pub fn found(&self) -> String {
        match &self.kind {
            ViolationKind::MissingProperty { .. } => "nothing".to_owned(),
            ViolationKind::UnknownProperty { name, .. } => format!("property {}", quoted(name)),
            ViolationKind::InvalidPropertyName { name, .. } => format!("property name {}", quoted(name)),
            ViolationKind::InvalidValue { value, .. } => json(value, MAX_VALUE_CHARS),
            ViolationKind::More { count } => more(*count),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.pointer.is_empty() {
            write!(formatter, "at {}: ", self.pointer)?;
        }
        formatter.write_str(&self.message())
    }
}

impl Serialize for Violation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Violation", 4)?;
        fields.serialize_field("pointer", &self.pointer)?;
        fields.serialize_field("expected", &self.expected())?;
        fields.serialize_field("found", &self.found())?;
        fields.serialize_field("message", &self.message())?;
        fields.end()
    }
}

impl Requirement {
    /// Returns the requirement in words, such as `an integer` or `an array with at least 1 item`.
    pub(crate) fn expected(&self) -> String {
        match self {
            Requirement::Type(types) => type_names(types),
            Requirement::OneOf(options) => format!("one of {}", list(options)),
            Requirement::Be(what) => what.clone(),
            Requirement::Have { owner, what } => format!("{owner} with {what}"),
            Requirement::NotMatch(schema) => {
                format!("a value that does not match {}", json(schema, MAX_SCHEMA_CHARS))
            }
            Requirement::Nothing => "nothing".to_owned(),
        }
    }

    /// Returns a sentence that quotes the value: `"x" is not an integer`.
    fn unmet_by(&self, value: &Value) -> String {
        let found = json(value, MAX_VALUE_CHARS);
        match self {
            Requirement::Have { what, .. } => format!("{found} does not have {what}"),
            Requirement::NotMatch(schema) => {
                format!("{found} matches {}, which is not allowed", json(schema, MAX_SCHEMA_CHARS))
            }
            Requirement::Nothing => format!("{found} is not allowed here"),
            _ => format!("{found} is not {}{}", self.expected(), self.suggestion(value)),
        }
    }

    /// Returns a sentence that does not quote the value: `must be an integer, not a string`.
    fn must(&self, value: &Value) -> String {
        match self {
            Requirement::Type(types) => {
                // An integer is a number too: only the fraction is wrong.
                let is_fraction = value.is_number() && types.contains(&JsonType::Integer);
                let found = if is_fraction { "a number with a fraction" } else { json_kind(value) };
                format!("must be {}, not {found}", self.expected())
            }
            Requirement::Have { what, .. } => format!("must have {what}"),
            Requirement::NotMatch(schema) => format!("must not match {}", json(schema, MAX_SCHEMA_CHARS)),
            Requirement::Nothing => "must be omitted".to_owned(),
            _ => format!("must be {}{}", self.expected(), self.suggestion(value)),
        }
    }

    /// Returns a `did you mean` suggestion if the value looks like a misspelled listed value.
    fn suggestion(&self, value: &Value) -> String {
        let (Requirement::OneOf(options), Value::String(text)) = (self, value) else { return String::new() };
        did_you_mean(text, options.iter().filter_map(Value::as_str)).unwrap_or_default()
    }
}

/// Returns the text for violations that are not listed.
fn more(count: usize) -> String {
    let verb = if count == 1 { "is" } else { "are" };
    format!("{} {verb} not listed", counted(count, "more violation"))
}

fn unknown_property_hint(name: &str, known: &[String]) -> String {
    if known.iter().any(|known| known == name) {
        return "; it belongs to another alternative".to_owned();
    }
    if known.is_empty() {
        return "; no properties are allowed here".to_owned();
    }
    did_you_mean(name, known.iter().map(String::as_str)).unwrap_or_else(|| {
        let names: Vec<String> = known.iter().map(|name| quoted(name)).collect();
        format!("; known properties are {}", truncate(&names.join(", "), MAX_SCHEMA_CHARS))
    })
}

fn did_you_mean<'n>(name: &str, candidates: impl IntoIterator<Item = &'n str>) -> Option<String> {
    let nearest = *nearest_names(name, candidates).first()?;
    Some(format!("; did you mean {}?", quoted(nearest)))
}

fn type_names(types: &[JsonType]) -> String {
    let names = types.iter().map(|one| match one {
        JsonType::Null => "null",
        JsonType::Boolean => "a boolean",
        JsonType::Integer => "an integer",
        JsonType::Number => "a number",
        JsonType::String => "a string",
        JsonType::Array => "an array",
        JsonType::Object => "an object",
    });
    names.collect::<Vec<_>>().join(" or ")
}

/// Returns a name as a JSON string.
pub(crate) fn quoted(name: &str) -> String {
    Value::from(name).to_string()
}

fn list(values: &[Value]) -> String {
    let values: Vec<String> = values.iter().map(Value::to_string).collect();
    truncate(&format!("[{}]", values.join(",")), MAX_SCHEMA_CHARS).into_owned()
}

fn json(value: &Value, max_chars: usize) -> String {
    truncate(&value.to_string(), max_chars).into_owned()
}
