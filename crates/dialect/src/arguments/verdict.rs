//! Whether arguments fit a tool's own schema, and if not, every reason in words a model can act on.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{ValidationError, Validator};
use serde::Serialize;
use serde_json::Value;

use super::effort::Effort;

/// One way in which arguments do not fit a tool's schema.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Violation {
    /// RFC 6901 pointer into the arguments.
    pub pointer: String,
    pub expected: String,
    pub found: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.pointer.is_empty() {
            write!(formatter, "at `{}` ", self.pointer)?;
        }
        write!(formatter, "expected {}, found {}", self.expected, self.found)
    }
}

/// Longer values are cut when they are quoted.
const LONGEST: usize = 80;

/// More schemas than this are not evaluated to judge one value.
const MOST_EFFORT: u64 = 1_000_000;

/// Judging the value would take so long that it can only be meant to do harm.
#[derive(Debug)]
pub(crate) struct TooMuch;

/// Says whether values fit a schema.
#[derive(Debug)]
pub(crate) struct Judge {
    validator: Validator,
    effort: Effort,
}

impl Judge {
    /// A judge for `schema`, if it is a schema that one can be made of.
    pub(crate) fn of(schema: &Value) -> Option<Judge> {
        // `format` annotates; servers differ in what they take for an e-mail address, and theirs is the last word.
        let validator = jsonschema::options().offline().should_validate_formats(false).build(schema).ok()?;
        Some(Judge { validator, effort: Effort::of(schema) })
    }

    fn is_bearable(&self, value: &Value) -> Result<(), TooMuch> {
        match &self.effort {
            Effort::Plain => Ok(()),
            tangled if tangled.for_value(value) <= MOST_EFFORT => Ok(()),
            _ => Err(TooMuch),
        }
    }

    pub(crate) fn accepts(&self, value: &Value) -> Result<bool, TooMuch> {
        self.is_bearable(value)?;
        Ok(self.validator.is_valid(value))
    }

    /// Every violation, in the order they were found.
    pub(crate) fn violations(&self, value: &Value) -> Result<Vec<Violation>, TooMuch> {
        if self.accepts(value)? {
            return Ok(Vec::new());
        }
        let mut seen = std::collections::HashSet::new();
        let errors = self.validator.iter_errors(value).map(|error| describe(&error));
        Ok(errors.filter(|violation| seen.insert(violation.clone())).collect())
    }

    /// What is wrong with the value, as the validator says it. To be asked only about values that are bearable.
    pub(crate) fn errors<'j>(&'j self, value: &'j Value) -> impl Iterator<Item = ValidationError<'j>> {
        self.validator.iter_errors(value)
    }

    /// How often a value like this one may be judged before it takes too long.
    pub(crate) fn allowance(&self, value: &Value) -> u64 {
        8 * MOST_EFFORT / self.effort.for_value(value).max(1)
    }
}

fn describe(error: &ValidationError<'_>) -> Violation {
    use ValidationErrorKind as Kind;
    let found = quoted(error.instance());
    let (expected, found) = match error.kind() {
        Kind::Type { kind } => (type_names(kind), kind_and_value(error.instance())),
        Kind::Required { property } => {
            let name = property.as_str().map_or_else(|| property.to_string(), str::to_owned);
            (format!("the required property `{name}`"), "nothing of that name".to_owned())
        }
        Kind::FalseSchema => ("nothing: no value may stand here".to_owned(), found),
        Kind::UnevaluatedItems { .. } | Kind::AdditionalItems { .. } => {
            ("only the items that are described".to_owned(), found)
        }
        Kind::Enum { options } => (format!("one of {}", quoted(options)), found),
        Kind::Constant { expected_value } => (quoted(expected_value), found),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            ("only the properties that are described".to_owned(), format!("also {}", names(unexpected)))
        }
        Kind::AnyOf { context } => (alternatives(context), found),
        Kind::OneOfNotValid { context } => (alternatives(context), found),
        Kind::OneOfMultipleValid { .. } => {
            ("exactly one of the alternatives to fit".to_owned(), format!("{found}, which fits several"))
        }
        Kind::Minimum { limit } => (format!("at least {limit}"), found),
        Kind::Maximum { limit } => (format!("at most {limit}"), found),
        Kind::ExclusiveMinimum { limit } => (format!("more than {limit}"), found),
        Kind::ExclusiveMaximum { limit } => (format!("less than {limit}"), found),
        Kind::MultipleOf { multiple_of } => (format!("a multiple of {multiple_of}"), found),
        Kind::MinLength { limit } => (format!("at least {limit} characters"), found),
        Kind::MaxLength { limit } => (format!("at most {limit} characters"), found),
        Kind::MinItems { limit } => (format!("at least {limit} items"), counted(error.instance())),
        Kind::MaxItems { limit } => (format!("at most {limit} items"), counted(error.instance())),
        Kind::MinProperties { limit } => (format!("at least {limit} properties"), counted(error.instance())),
        Kind::MaxProperties { limit } => (format!("at most {limit} properties"), counted(error.instance())),
        Kind::Pattern { pattern } => (format!("a string that matches `{pattern}`"), found),
        Kind::Format { format } => (format!("a string in the format `{format}`"), found),
        Kind::UniqueItems => ("items that are all different".to_owned(), found),
        Kind::Not { schema } => (format!("anything but what fits {}", quoted(schema)), found),
        Kind::PropertyNames { error } => (format!("property names that fit: {error}"), found),
        _ => (error.to_string(), found),
    };
    Violation { pointer: error.instance_path().as_str().to_owned(), expected, found }
}

fn type_names(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(name) => with_article(name.as_str()),
        TypeKind::Multiple(set) => {
            set.iter().map(|name| with_article(name.as_str())).collect::<Vec<_>>().join(" or ")
        }
    }
}

fn with_article(name: &str) -> String {
    match name {
        "null" => "null".to_owned(),
        "array" | "object" | "integer" => format!("an {name}"),
        _ => format!("a {name}"),
    }
}

fn kind_and_value(value: &Value) -> String {
    let kind = match value {
        Value::Null => return "null".to_owned(),
        Value::Bool(_) => "the boolean",
        Value::Number(_) => "the number",
        Value::String(_) => "the string",
        Value::Array(_) => "the array",
        Value::Object(_) => "the object",
    };
    format!("{kind} {}", quoted(value))
}

fn alternatives(context: &[Vec<ValidationError<'static>>]) -> String {
    let mut wanted: Vec<String> = Vec::new();
    for branch in context {
        let reasons: Vec<String> = branch
            .iter()
            .map(|error| {
                let violation = describe(error);
                let inside = error.instance_path().as_str();
                if inside.is_empty() {
                    violation.expected
                } else {
                    format!("{} at `{inside}`", violation.expected)
                }
            })
            .collect();
        let reason = reasons.join(" and ");
        if !reason.is_empty() && !wanted.contains(&reason) {
            wanted.push(reason);
        }
    }
    wanted.join(", or ")
}

fn counted(value: &Value) -> String {
    let count = match value {
        Value::Array(items) => items.len(),
        Value::Object(map) => map.len(),
        _ => return quoted(value),
    };
    count.to_string()
}

fn names(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn quoted(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
