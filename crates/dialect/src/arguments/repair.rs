//! Repairs arguments where the schema shows what was meant.
//!
//! A repair is tried only where the schema does not allow the type of the value, and it is accepted only if
//! fewer errors remain.

use std::fmt;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};
use serde::{Serialize, Serializer};
use serde_json::{Number, Value};
use toolwire_validation::{ErrorBudget, Validator};

use super::{by_schema, lenient_json};
use crate::json::{Decimal, unescape_segment};

/// One repaired place in a model's arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Repair {
    /// The RFC 6901 pointer into the arguments.
    pub pointer: String,
    /// Serialized as its description.
    #[serde(rename = "detail")]
    pub kind: RepairKind,
}

/// The kinds of repairs. The text (`Display`) describes the repair.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepairKind {
    /// The arguments were `null`.
    NullArguments,
    /// The arguments were empty text.
    EmptyArguments,
    /// The arguments were JSON text in JSON text.
    EncodedTwice,
    /// The arguments were JSON text with mistakes, such as single quotes or trailing commas.
    InvalidJson,
    /// The arguments were the value of this key, which the tool does not have.
    Unwrapped { key: String },
    /// A key was spelled differently.
    RenamedKey { found: String },
    /// An optional property that does not allow `null` was `null`.
    RemovedNull,
    /// A list of entries had a key twice.
    DuplicateKey { key: String },
    /// A string was JSON text of an object.
    ParsedObject,
    /// A string was JSON text of an array.
    ParsedArray,
    /// A string was a number.
    ParsedNumber,
    /// A string was an integer.
    ParsedInteger,
    /// A string was `true` or `false`.
    ParsedBoolean,
    /// A string was `null`.
    ParsedNull,
    /// An integer had a fraction of zeros.
    RemovedFraction,
    /// A single value was put into an array.
    WrappedInArray,
    /// A listed value was written in another case.
    CorrectedCase { found: String, listed: String },
}

impl Repair {
    /// A repair of the arguments as a whole.
    pub(super) fn of_arguments(kind: RepairKind) -> Repair {
        Repair { pointer: String::new(), kind }
    }
}

impl fmt::Display for RepairKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            RepairKind::NullArguments => "null instead of an object; treated as no arguments",
            RepairKind::EmptyArguments => "empty text instead of an object; treated as no arguments",
            RepairKind::EncodedTwice => "arguments encoded as JSON twice; decoded twice",
            RepairKind::InvalidJson => "invalid JSON text; read with its mistakes corrected",
            RepairKind::Unwrapped { key } => {
                return write!(formatter, "arguments wrapped in `{key}`; unwrapped");
            }
            RepairKind::RenamedKey { found } => {
                return write!(formatter, "key `{found}` in another spelling; renamed");
            }
            RepairKind::RemovedNull => "null for an optional property that does not allow it; removed",
            RepairKind::DuplicateKey { key } => {
                return write!(formatter, "duplicate key `{key}` in the entries; the last value is used");
            }
            RepairKind::ParsedObject => "JSON text instead of an object; parsed",
            RepairKind::ParsedArray => "JSON text instead of an array; parsed",
            RepairKind::ParsedNumber => "a string instead of a number; parsed",
            RepairKind::ParsedInteger => "a string instead of an integer; parsed",
            RepairKind::ParsedBoolean => "a string instead of a boolean; parsed",
            RepairKind::ParsedNull => "a string instead of null; parsed",
            RepairKind::RemovedFraction => "an integer with a fraction of zeros; fraction removed",
            RepairKind::WrappedInArray => "a single value instead of an array; wrapped in an array",
            RepairKind::CorrectedCase { found, listed } => {
                return write!(formatter, "`{found}` instead of the listed value `{listed}`; replaced");
            }
        })
    }
}

impl Serialize for RepairKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The maximum number of rounds; each repair can make new errors visible.
const MAX_ROUNDS: usize = 8;

/// The maximum number of places that are repaired in one round.
const MAX_REPAIRS_PER_ROUND: usize = 64;

/// The maximum depth of nested `anyOf` and `oneOf` in which types are looked for.
const MAX_UNION_DEPTH: usize = 8;

/// The types and strings that the schema accepts at a place where it rejects the value.
#[derive(Debug)]
struct Accepted {
    pointer: String,
    types: Vec<JsonType>,
    /// The listed strings; the value may be one of them in another case.
    options: Vec<String>,
}

/// Repairs `value` in place and adds what was done to `repairs`.
pub(crate) fn repair(value: &mut Value, validator: &Validator, repairs: &mut Vec<Repair>) {
    let mut budget = ErrorBudget::default();
    use_known_keys(value, validator, repairs, &mut budget);
    remove_nulls(value, validator, repairs, &mut budget);
    let first = repairs.len();
    let mut wrapped: Vec<(String, Value)> = Vec::new();
    for _ in 0..MAX_ROUNDS {
        let mut error_count = 0;
        let Some(errors) = validator.errors(value, &mut budget) else { break };
        let places = accepted(errors.inspect(|_| error_count += 1));
        let mut has_progress = false;
        for accepted in places.into_iter().take(MAX_REPAIRS_PER_ROUND) {
            let Some(place) = value.pointer(&accepted.pointer) else { continue };
            let Some((repaired, kind)) = repaired(place, &accepted) else { continue };
            let Some(place) = value.pointer_mut(&accepted.pointer) else { continue };
            let original = std::mem::replace(place, repaired);
            match remaining_errors(validator, value, &accepted.pointer, &mut budget) {
                Some((remaining, is_rejected)) if remaining < error_count || !is_rejected => {
                    error_count = remaining;
                    has_progress = true;
                    if kind == RepairKind::WrappedInArray {
                        wrapped.push((accepted.pointer.clone(), original));
                    }
                    repairs.push(Repair { pointer: accepted.pointer, kind });
                }
                _ => {
                    if let Some(place) = value.pointer_mut(&accepted.pointer) {
                        *place = original;
                    }
                }
            }
        }
        if !has_progress {
            break;
        }
    }
    // A value that is invalid as an item of the array was not meant as one.
    for (pointer, original) in wrapped.into_iter().rev() {
        let is_inside = |other: &str| {
            other.strip_prefix(pointer.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let errors = validator.errors(value, &mut budget);
        let is_invalid =
            errors.is_none_or(|mut errors| errors.any(|error| is_inside(error.instance_path().as_str())));
        if is_invalid && let Some(place) = value.pointer_mut(&pointer) {
            *place = original;
            let mut index = 0;
            repairs.retain(|repair| {
                index += 1;
                index <= first || !is_inside(&repair.pointer)
            });
        }
    }
}

/// Unwraps the arguments and renames keys, if fewer errors remain.
fn use_known_keys(
    value: &mut Value,
    validator: &Validator,
    repairs: &mut Vec<Repair>,
    budget: &mut ErrorBudget,
) {
    let Some((repaired, made)) = by_schema::with_known_keys(value, validator.schema()) else { return };
    let mut count = |value: &Value| validator.errors(value, budget).map(Iterator::count);
    if let (Some(before), Some(after)) = (count(value), count(&repaired))
        && after < before
    {
        *value = repaired;
        repairs.extend(made);
    }
}

/// Removes properties that are `null` although the schema does not allow it, if they are not required.
fn remove_nulls(
    value: &mut Value,
    validator: &Validator,
    repairs: &mut Vec<Repair>,
    budget: &mut ErrorBudget,
) {
    let Some(errors) = validator.errors(value, budget) else { return };
    let mut error_count = 0;
    let mut pointers: Vec<String> = errors
        .inspect(|_| error_count += 1)
        .filter(|error| error.instance().is_null())
        .map(|error| error.instance_path().as_str().to_owned())
        .collect();
    pointers.dedup();
    for pointer in pointers.into_iter().take(MAX_REPAIRS_PER_ROUND) {
        let Some((parent, segment)) = pointer.rsplit_once('/') else { continue };
        let key = unescape_segment(segment);
        let Some(Value::Object(map)) = value.pointer_mut(parent) else { continue };
        let original = map.clone();
        map.shift_remove(key.as_ref());
        match remaining_errors(validator, value, &pointer, budget) {
            Some((remaining, _)) if remaining < error_count => {
                error_count = remaining;
                repairs.push(Repair { pointer, kind: RepairKind::RemovedNull });
            }
            _ => {
                if let Some(map) = value.pointer_mut(parent) {
                    *map = Value::Object(original);
                }
            }
        }
    }
}

/// Returns the number of errors, and whether one is at `pointer`; `None` if the budget does not suffice.
fn remaining_errors(
    validator: &Validator,
    value: &Value,
    pointer: &str,
    budget: &mut ErrorBudget,
) -> Option<(usize, bool)> {
    let (mut count, mut is_rejected) = (0, false);
    for error in validator.errors(value, budget)? {
        count += 1;
        is_rejected |= error.instance_path().as_str() == pointer;
    }
    Some((count, is_rejected))
}

fn accepted<'e>(errors: impl Iterator<Item = ValidationError<'e>>) -> Vec<Accepted> {
    let mut found: Vec<Accepted> = Vec::new();
    for error in errors {
        collect_accepted(&error, &mut found, 0);
    }
    found.dedup_by(|a, b| a.pointer == b.pointer && a.options == b.options);
    found
}

fn collect_accepted(error: &ValidationError<'_>, found: &mut Vec<Accepted>, depth: usize) {
    if depth > MAX_UNION_DEPTH {
        return;
    }
    let pointer = error.instance_path().as_str();
    match error.kind() {
        ValidationErrorKind::Type { kind } => {
            found.push(Accepted { pointer: pointer.to_owned(), types: types(kind), options: Vec::new() });
        }
        ValidationErrorKind::Enum { options } => {
            let options = options.as_array().map_or(&[][..], Vec::as_slice);
            let options = options.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            found.push(Accepted { pointer: pointer.to_owned(), types: Vec::new(), options });
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            // If every alternative rejects the type, any of their types is accepted. Otherwise the
            // alternative with the fewest errors is used.
            let expected_types: Option<Vec<Vec<JsonType>>> = context
                .iter()
                .map(|alternative| {
                    alternative.iter().find_map(|error| match error.kind() {
                        ValidationErrorKind::Type { kind } if error.instance_path().as_str() == pointer => {
                            Some(types(kind))
                        }
                        _ => None,
                    })
                })
                .collect();
            if let Some(types) = expected_types {
                let types = types.concat();
                found.push(Accepted { pointer: pointer.to_owned(), types, options: Vec::new() });
                return;
            }
            let is_inside = |alternative: &&Vec<ValidationError<'static>>| {
                alternative.iter().all(|error| error.instance_path().as_str().len() > pointer.len())
            };
            let nearest = context.iter().filter(is_inside).min_by_key(|errors| errors.len());
            if let Some(alternative) = nearest.or_else(|| context.iter().min_by_key(|errors| errors.len())) {
                for error in alternative {
                    collect_accepted(error, found, depth + 1);
                }
            }
        }
        _ => {}
    }
}

fn types(kind: &TypeKind) -> Vec<JsonType> {
    match kind {
        TypeKind::Single(one) => vec![*one],
        TypeKind::Multiple(set) => set.iter().collect(),
    }
}

/// Returns the value that was meant and the kind of repair.
fn repaired(value: &Value, accepted: &Accepted) -> Option<(Value, RepairKind)> {
    let accepts = |kind: JsonType| accepted.types.contains(&kind);
    if let Value::String(text) = value {
        if !accepted.options.is_empty() {
            return listed_in_other_case(text, &accepted.options);
        }
        let trimmed = text.trim();
        if (accepts(JsonType::Object) || accepts(JsonType::Array))
            && trimmed.starts_with(['{', '['])
            && let Some(parsed) = lenient_json::parse_any(trimmed)
        {
            if parsed.is_object() && accepts(JsonType::Object) {
                return Some((parsed, RepairKind::ParsedObject));
            }
            if parsed.is_array() && accepts(JsonType::Array) {
                return Some((parsed, RepairKind::ParsedArray));
            }
        }
        if (accepts(JsonType::Integer) || accepts(JsonType::Number))
            && let Some(number) = parse_number(trimmed)
        {
            if accepts(JsonType::Number) {
                return Some((Value::Number(number), RepairKind::ParsedNumber));
            }
            if Decimal::of(number.as_str()).is_integer() {
                return Some((Value::Number(number), RepairKind::ParsedInteger));
            }
        }
        if accepts(JsonType::Boolean) && matches!(trimmed, "true" | "false" | "True" | "False") {
            return Some((Value::Bool(trimmed.eq_ignore_ascii_case("true")), RepairKind::ParsedBoolean));
        }
        if accepts(JsonType::Null) && trimmed == "null" {
            return Some((Value::Null, RepairKind::ParsedNull));
        }
    }
    if let Value::Number(number) = value
        && accepts(JsonType::Integer)
        && let Some((integer, fraction)) = number.as_str().split_once('.')
        && fraction.bytes().all(|digit| digit == b'0')
        && let Ok(integer) = serde_json::from_str(integer)
    {
        // Only the oldest drafts do not treat `3.0` as an integer.
        return Some((Value::Number(integer), RepairKind::RemovedFraction));
    }
    // Text that may be meant as a list, as nothing, or as JSON that was cut off.
    let is_doubtful = value.as_str().is_some_and(|text| {
        let text = text.trim();
        text.contains([',', '\n'])
            || text.starts_with(['[', '{', '`'])
            || matches!(text, "" | "null" | "None")
    });
    if accepts(JsonType::Array) && !value.is_array() && !value.is_null() && !is_doubtful {
        return Some((Value::Array(vec![value.clone()]), RepairKind::WrappedInArray));
    }
    None
}

fn listed_in_other_case(text: &str, options: &[String]) -> Option<(Value, RepairKind)> {
    let lowercase = text.to_lowercase();
    let mut equal = options.iter().filter(|option| option.to_lowercase() == lowercase);
    match (equal.next(), equal.next()) {
        (Some(option), None) => {
            let kind = RepairKind::CorrectedCase { found: text.to_owned(), listed: option.clone() };
            Some((Value::String(option.clone()), kind))
        }
        _ => None,
    }
}

/// Parses text that is a JSON number, with all its digits.
fn parse_number(text: &str) -> Option<Number> {
    let first = text.bytes().next()?;
    if first == b'-' || first.is_ascii_digit() { serde_json::from_str(text).ok() } else { None }
}
