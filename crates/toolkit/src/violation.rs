//! What is wrong with arguments, in words that a model can act on.
//!
//! The words never quote what was sent: it may be secret, and the model knows it.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::paths::LocationSegment;
use jsonschema::{ValidationError, Validator};
use serde::Serialize;
use serde_json::Value;

use crate::names::nearest;

/// One thing that is wrong with arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Violation {
    /// Where, as one would write it in code: `filters[0].name`.
    pub(crate) field: String,
    pub(crate) message: String,
}

/// Everything that is wrong, in the order of the schema's fields; what the schema does not know comes last.
pub(crate) fn violations(validator: &Validator, schema: &Value, arguments: &Value) -> Vec<Violation> {
    let mut found = Vec::new();
    let errors: Vec<ValidationError<'_>> = validator.iter_errors(arguments).collect();
    // Where no alternative fits, their fields count as unknown, which is not what is wrong with them.
    let is_undecided = |error: &ValidationError<'_>| {
        matches!(error.kind(), ValidationErrorKind::UnevaluatedProperties { .. })
            && errors.iter().any(|other| {
                use ValidationErrorKind as Kind;
                matches!(other.kind(), Kind::AnyOf { .. } | Kind::OneOfNotValid { .. })
                    && other.instance_path() == error.instance_path()
            })
    };
    for error in &errors {
        let mut explained = Vec::new();
        explain(error, schema, &mut explained);
        if is_undecided(error) {
            let names = known_names(error, schema);
            let here = field(error);
            explained.retain(|violation| !names.iter().any(|name| violation.field == inside(&here, name)));
        }
        found.extend(explained);
    }
    let names: Vec<&String> = schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(|properties| properties.keys())
        .collect();
    let place = |violation: &Violation| {
        let first = violation.field.split(['.', '[']).next().unwrap_or_default();
        names.iter().position(|name| *name == first).unwrap_or(usize::MAX)
    };
    found.sort_by_cached_key(|violation| {
        (place(violation), steps(&violation.field), violation.message.clone())
    });
    found.dedup();
    found
}

/// The steps of a path, so that `[10]` comes after `[9]`.
fn steps(field: &str) -> Vec<(usize, String)> {
    let steps = field.split(['.', '[', ']']).filter(|step| !step.is_empty());
    steps.map(|step| (step.parse().unwrap_or_default(), step.to_owned())).collect()
}

fn explain(error: &ValidationError<'_>, schema: &Value, found: &mut Vec<Violation>) {
    use ValidationErrorKind as Kind;
    let here = field(error);
    let mut say = |field: String, message: String| found.push(Violation { field, message });
    match error.kind() {
        Kind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            say(inside(&here, name), "is required and missing".to_owned());
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let known = known_names(error, schema);
            for name in unexpected {
                let hint = match nearest(name, known.iter().map(String::as_str)).first() {
                    Some(near) => format!("is not known; did you mean `{near}`?"),
                    None if known.is_empty() => "is not known; there is nothing to be given here".to_owned(),
                    None => {
                        format!("is not known; known are {}", quoted_list(known.iter().map(String::as_str)))
                    }
                };
                say(inside(&here, name), hint);
            }
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            if let Some(branch) = meant(error, context) {
                branch.iter().for_each(|error| explain(error, schema, found));
            } else if let Some((field, message)) = wrong_tag(context) {
                say(field, message);
            } else {
                say(named(here), format!("must be {}", alternatives(context)));
            }
        }
        _ => say(named(here), format!("must be {}", wanted(error))),
    }
}

/// What is wanted instead, to follow "must be".
fn wanted(error: &ValidationError<'_>) -> String {
    use ValidationErrorKind as Kind;
    match error.kind() {
        Kind::Type { kind } => {
            let given = match kind_of(error.instance()) {
                // An integer is a number too; what is wrong is its fraction.
                "a number" if type_names(kind).contains("an integer") => "a number with a fraction",
                given => given,
            };
            format!("{}, not {given}", type_names(kind))
        }
        Kind::Enum { options } => {
            let options: Vec<String> = options.as_array().into_iter().flatten().map(plain).collect();
            let hint = error.instance().as_str().and_then(|text| {
                nearest(text, options.iter().map(String::as_str))
                    .first()
                    .map(|near| format!("; did you mean `{near}`?"))
            });
            format!("one of {}{}", quoted_list(options.iter().map(String::as_str)), hint.unwrap_or_default())
        }
        Kind::Constant { expected_value } => format!("`{}`", plain(expected_value)),
        Kind::Minimum { limit } => format!("at least {limit}"),
        Kind::Maximum { limit } => format!("at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("less than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("a multiple of {multiple_of}"),
        Kind::MinLength { limit } => format!("at least {limit} characters long"),
        Kind::MaxLength { limit } => format!("at most {limit} characters long"),
        Kind::MinItems { limit } => format!("a list of at least {limit}"),
        Kind::MaxItems { limit } => format!("a list of at most {limit}"),
        Kind::MinProperties { limit } => format!("an object of at least {limit}"),
        Kind::MaxProperties { limit } => format!("an object of at most {limit}"),
        Kind::Pattern { pattern } => format!("text that matches `{pattern}`"),
        Kind::Format { format } => format!("text in the format `{format}`"),
        Kind::UniqueItems => "a list without repetitions".to_owned(),
        Kind::FalseSchema => "left out".to_owned(),
        other => format!("something that fits `{}`", other.keyword()),
    }
}

type Branch = Vec<ValidationError<'static>>;

/// The one alternative that was meant: the only one of the right kind and with the right tag.
fn meant<'c>(whole: &ValidationError<'_>, context: &'c [Branch]) -> Option<&'c Branch> {
    let is_meant = |branch: &&Branch| {
        !branch.iter().any(|error| match error.kind() {
            ValidationErrorKind::Constant { .. } => true,
            ValidationErrorKind::Type { .. } | ValidationErrorKind::Enum { .. } => {
                error.instance_path() == whole.instance_path()
            }
            // A variant is named by its only key.
            ValidationErrorKind::Required { .. } => branch.iter().any(|other| {
                matches!(other.kind(), ValidationErrorKind::AdditionalProperties { .. })
                    && other.instance_path() == error.instance_path()
            }),
            _ => false,
        })
    };
    let mut candidates = context.iter().filter(is_meant);
    let only = candidates.next()?;
    candidates.next().is_none().then_some(only)
}

/// The tag that tells the alternatives apart, when it is wrong or missing in all of them.
fn wrong_tag(context: &[Branch]) -> Option<(String, String)> {
    let tags = |branch: &Branch| -> Vec<(String, Option<String>)> {
        let tag = |error: &ValidationError<'static>| match error.kind() {
            ValidationErrorKind::Constant { expected_value } => {
                Some((field(error), Some(plain(expected_value))))
            }
            ValidationErrorKind::Required { property } => {
                Some((inside(&field(error), &plain(property)), None))
            }
            _ => None,
        };
        branch.iter().filter_map(tag).collect()
    };
    let all: Vec<Vec<(String, Option<String>)>> = context.iter().map(tags).collect();
    let (place, constant) = all.first()?.iter().find(|(place, constant)| {
        all.iter().all(|tags| {
            tags.iter().any(|(other, value)| other == place && value.is_some() == constant.is_some())
        })
    })?;
    if constant.is_none() {
        return Some((place.clone(), "is required and missing".to_owned()));
    }
    let known: Vec<&str> = all
        .iter()
        .flatten()
        .filter(|(other, _)| other == place)
        .filter_map(|(_, value)| value.as_deref())
        .collect();
    Some((place.clone(), format!("must be one of {}", quoted_list(known.into_iter()))))
}

fn alternatives(context: &[Vec<ValidationError<'static>>]) -> String {
    let mut words: Vec<String> = Vec::new();
    for branch in context {
        let reasons: Vec<String> = branch
            .iter()
            .map(|error| match error.kind() {
                ValidationErrorKind::Type { kind } => type_names(kind),
                ValidationErrorKind::Required { property } => format!("an object with `{}`", plain(property)),
                ValidationErrorKind::AdditionalProperties { .. } => String::new(),
                _ => wanted(error),
            })
            .filter(|reason| !reason.is_empty())
            .collect();
        let reason = reasons.join(" and ");
        if !reason.is_empty() && !words.contains(&reason) {
            words.push(reason);
        }
    }
    words.join(", or ")
}

/// The names that are known where an unknown one was found.
fn known_names(error: &ValidationError<'_>, schema: &Value) -> Vec<String> {
    let pointer = error.schema_path().as_str();
    let holder = pointer.rsplit_once('/').map_or("", |(holder, _)| holder);
    let mut names = Vec::new();
    if let Some(holder) = schema.pointer(holder) {
        gather_names(holder, &mut names);
    }
    names
}

/// The names of an object's fields, those of its alternatives too.
fn gather_names(schema: &Value, names: &mut Vec<String>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for name in properties.into_iter().flat_map(|properties| properties.keys()) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    for key in ["oneOf", "anyOf", "allOf"] {
        for part in schema.get(key).and_then(Value::as_array).into_iter().flatten() {
            gather_names(part, names);
        }
    }
}

fn field(error: &ValidationError<'_>) -> String {
    let mut path = String::new();
    for segment in error.instance_path() {
        match segment {
            LocationSegment::Property(name) => path = inside(&path, &name),
            LocationSegment::Index(index) => path = format!("{path}[{index}]"),
        }
    }
    path
}

fn inside(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn named(path: String) -> String {
    if path.is_empty() { "arguments".to_owned() } else { path }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn quoted_list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn type_names(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(name) => with_article(name.as_str()).to_owned(),
        TypeKind::Multiple(names) => {
            names.iter().map(|name| with_article(name.as_str())).collect::<Vec<_>>().join(" or ")
        }
    }
}

fn with_article(name: &str) -> &str {
    match name {
        "string" => "text",
        "array" => "a list",
        "object" => "an object",
        "integer" => "an integer",
        "number" => "a number",
        "boolean" => "true or false",
        other => other,
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
