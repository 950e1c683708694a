//! Values that were probably meant instead of those that a schema rejects.

use std::collections::{HashMap, HashSet};

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};
use serde_json::{Number, Value};

use super::lenient_json;
use super::repair::RepairKind;
use crate::json::Decimal;

/// The maximum depth of nested `anyOf` and `oneOf` in which types are looked for.
pub(super) const MAX_UNION_DEPTH: usize = 8;

/// The value that was probably meant at a place.
#[derive(Debug, PartialEq)]
pub(super) struct Replacement {
    pub(super) pointer: String,
    pub(super) value: Value,
    pub(super) kind: RepairKind,
}

pub(super) fn pointer<'e>(error: &'e ValidationError<'_>) -> &'e str {
    error.instance_path().as_str()
}

/// Returns the types that an alternative accepts, if it rejects the type of the value.
fn expected_types(error: &ValidationError<'_>, alternative: &[ValidationError<'_>]) -> Option<Vec<JsonType>> {
    alternative.iter().find_map(|cause| match cause.kind() {
        ValidationErrorKind::Type { kind } if cause.instance_path() == error.instance_path() => {
            Some(types(kind))
        }
        _ => None,
    })
}

pub(super) fn rejects_every_type(
    error: &ValidationError<'_>,
    alternatives: &[Vec<ValidationError<'static>>],
) -> bool {
    alternatives.iter().all(|alternative| expected_types(error, alternative).is_some())
}

/// Returns the replacements that an error asks for, or `None` if there are none or several are possible.
pub(super) fn replacements(error: &ValidationError<'_>, depth: usize) -> Option<Vec<Replacement>> {
    let (value, kind) = match error.kind() {
        ValidationErrorKind::Type { kind } => of_types(error.instance(), &types(kind))?,
        ValidationErrorKind::Enum { options } => in_listed_case(error.instance(), options.as_array()?)?,
        ValidationErrorKind::Constant { expected_value } => {
            in_listed_case(error.instance(), std::slice::from_ref(expected_value))?
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }
            if depth < MAX_UNION_DEPTH =>
        {
            if !rejects_every_type(error, context) {
                return replacements_of_all(context, depth + 1);
            }
            let types = context.iter().filter_map(|alternative| expected_types(error, alternative));
            of_types(error.instance(), &types.flatten().collect::<Vec<_>>())?
        }
        _ => return None,
    };
    Some(vec![Replacement { pointer: pointer(error).to_owned(), value, kind }])
}

/// Returns the replacements after which one of the alternatives may accept the value. They are
/// unambiguous only if all other alternatives that could accept the value need them too.
fn replacements_of_all(
    alternatives: &[Vec<ValidationError<'static>>],
    depth: usize,
) -> Option<Vec<Replacement>> {
    let mut possible: Vec<Vec<Replacement>> = alternatives
        .iter()
        .filter_map(|alternative| {
            let (mut found, mut open) = (Vec::new(), Vec::new());
            for error in alternative {
                match replacements(error, depth) {
                    Some(replacements) => found.extend(replacements),
                    None => open.push(pointer(error)),
                }
            }
            let places: HashSet<&str> = found.iter().map(|found| found.pointer.as_str()).collect();
            open.iter().all(|place| places.contains(place)).then_some(found)
        })
        .collect();
    possible.sort_by_key(Vec::len);
    let (fewest, others) = possible.split_first()?;
    let is_needed_by = |other: &Vec<Replacement>| {
        let other: HashMap<&str, &Replacement> =
            other.iter().map(|other| (other.pointer.as_str(), other)).collect();
        fewest.iter().all(|one| other.get(one.pointer.as_str()) == Some(&one))
    };
    others.iter().all(is_needed_by).then(|| possible.swap_remove(0))
}

fn types(kind: &TypeKind) -> Vec<JsonType> {
    match kind {
        TypeKind::Single(one) => vec![*one],
        TypeKind::Multiple(set) => set.iter().collect(),
    }
}

/// Returns the value of one of the types that was meant, and the kind of repair.
fn of_types(value: &Value, types: &[JsonType]) -> Option<(Value, RepairKind)> {
    let accepts = |kind: JsonType| types.contains(&kind);
    if let Value::String(text) = value {
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
                let number = without_fraction(&number).unwrap_or(number);
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
    // Only the oldest drafts do not treat `3.0` as an integer.
    if let Value::Number(number) = value
        && accepts(JsonType::Integer)
        && let Some(integer) = without_fraction(number)
    {
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

/// Returns the only listed value that differs from a string only in case.
fn in_listed_case(value: &Value, options: &[Value]) -> Option<(Value, RepairKind)> {
    let text = value.as_str()?;
    let has_same_letters = |option: &&str| {
        option.chars().flat_map(char::to_lowercase).eq(text.chars().flat_map(char::to_lowercase))
    };
    let mut equal = options.iter().filter_map(Value::as_str).filter(has_same_letters);
    let (Some(listed), None) = (equal.next(), equal.next()) else { return None };
    let kind = RepairKind::CorrectedCase { found: text.to_owned(), listed: listed.to_owned() };
    Some((Value::from(listed), kind))
}

/// The maximum number of digits of an integer that is written without its exponent.
const MAX_DIGITS: usize = 64;

pub(super) fn is_plain_integer(number: &Number) -> bool {
    number.as_str().bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

/// Returns an integer without its fraction of zeros and its exponent, if it has one.
pub(super) fn without_fraction(number: &Number) -> Option<Number> {
    if is_plain_integer(number) {
        return None;
    }
    serde_json::from_str(&Decimal::of(number.as_str()).integer_digits(MAX_DIGITS)?).ok()
}

/// Parses text that is a JSON number, with all its digits.
fn parse_number(text: &str) -> Option<Number> {
    let first = text.bytes().next()?;
    if first == b'-' || first.is_ascii_digit() { serde_json::from_str(text).ok() } else { None }
}
