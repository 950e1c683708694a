//! Repairs arguments where the schema shows what was meant.
//!
//! A repair is tried only where the schema rejects the value, and it is accepted only if fewer errors remain there.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::mem::{Discriminant, discriminant};

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};
use serde_json::{Number, Value};
use toolwire_validation::{ErrorBudget, Validator};

use super::repair::{Repair, RepairKind};
use super::{by_schema, lenient_json};
use crate::json::{Decimal, escape_segment, unescape_segment};

/// The maximum number of rounds; each repair can make new errors visible.
const MAX_ROUNDS: usize = 8;

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
///
/// Each kind of repair is made at all places, or at none if the budget does not suffice.
pub(crate) fn repair(value: &mut Value, validator: &Validator, repairs: &mut Vec<Repair>) {
    let mut repairing = Repairing {
        validator,
        budget: ErrorBudget::default(),
        first: repairs.len(),
        failed: HashSet::new(),
        wrapped: Vec::new(),
    };
    for _ in 0..MAX_ROUNDS {
        let known = repairs.len();
        use_known_keys(value, validator, repairs, &mut repairing.budget);
        repairing.remove_nulls(value, repairs);
        if !repairing.replace_values(value, repairs) && repairs.len() == known {
            break;
        }
        by_schema::remove_fractions(value, validator.schema(), repairs);
    }
    repairing.unwrap_invalid(value, repairs);
}

struct Repairing<'v> {
    validator: &'v Validator,
    budget: ErrorBudget,
    /// The number of repairs that were made before.
    first: usize,
    /// Repairs that did not help.
    failed: HashSet<(String, Discriminant<RepairKind>)>,
    /// The places of values that were wrapped in an array, and the values.
    wrapped: Vec<(String, Value)>,
}

/// The number of errors at each pointer that reject a value as a whole, not only its size or its properties.
type ErrorCounts = HashMap<String, usize>;

impl Repairing<'_> {
    fn count_errors(&mut self, value: &Value) -> Option<ErrorCounts> {
        let mut counts = ErrorCounts::new();
        for error in self.validator.errors(value, &mut self.budget)? {
            count_error(&error, &mut counts);
        }
        Some(counts)
    }

    /// Replaces values of other types and values in another case. Returns whether one was replaced.
    fn replace_values(&mut self, value: &mut Value, repairs: &mut Vec<Repair>) -> bool {
        let mut before = ErrorCounts::new();
        let mut places = Vec::new();
        let Some(errors) = self.validator.errors(value, &mut self.budget) else { return false };
        for error in errors {
            count_error(&error, &mut before);
            collect_accepted(&error, &mut places, 0);
        }
        let mut replaced: Vec<(Repair, Value)> = Vec::new();
        let mut seen = HashSet::new();
        for accepted in places {
            let Some(place) = value.pointer_mut(&accepted.pointer) else { continue };
            let Some((repaired, kind)) = repaired(place, &accepted) else { continue };
            let attempt = (accepted.pointer.clone(), discriminant(&kind));
            if self.failed.contains(&attempt) || !seen.insert(accepted.pointer.clone()) {
                continue;
            }
            let original = std::mem::replace(place, repaired);
            replaced.push((Repair { pointer: accepted.pointer, kind }, original));
        }
        let after = if replaced.is_empty() { None } else { self.count_errors(value) };
        let mut has_progress = false;
        for (repair, original) in replaced.into_iter().rev() {
            let count = |counts: &ErrorCounts| counts.get(&repair.pointer).copied().unwrap_or(0);
            let helped =
                after.as_ref().is_some_and(|after| count(after) == 0 || count(after) < count(&before));
            if helped {
                has_progress = true;
                if repair.kind == RepairKind::WrappedInArray {
                    self.wrapped.push((repair.pointer.clone(), original));
                }
                repairs.push(repair);
            } else if let Some(place) = value.pointer_mut(&repair.pointer) {
                *place = original;
                self.failed.insert((repair.pointer, discriminant(&repair.kind)));
            }
        }
        has_progress
    }

    /// Removes properties that are `null` although the schema does not allow it, if they are not required.
    fn remove_nulls(&mut self, value: &mut Value, repairs: &mut Vec<Repair>) {
        let mut before = 0;
        let mut pointers = BTreeSet::new();
        let Some(errors) = self.validator.errors(value, &mut self.budget) else { return };
        for error in errors {
            before += 1;
            each_cause(&error, 0, &mut |cause| {
                if cause.instance().is_null() {
                    pointers.insert(cause.instance_path().as_str().to_owned());
                }
            });
        }
        while !pointers.is_empty() {
            let mut without_nulls = value.clone();
            pointers.retain(|pointer| remove_property(&mut without_nulls, pointer));
            let Some(errors) = self.validator.errors(&without_nulls, &mut self.budget) else { return };
            let mut after = 0;
            let mut required = BTreeSet::new();
            for error in errors {
                after += 1;
                each_cause(&error, 0, &mut |cause| required.extend(missing_property(cause)));
            }
            if pointers.is_disjoint(&required) {
                if after < before {
                    *value = without_nulls;
                    let kind = RepairKind::RemovedNull;
                    let made = pointers.into_iter().map(|pointer| Repair { pointer, kind: kind.clone() });
                    repairs.extend(made);
                }
                return;
            }
            pointers.retain(|pointer| !required.contains(pointer));
        }
    }

    /// Restores values that are invalid as the only item of an array: they were not meant as one.
    fn unwrap_invalid(&mut self, value: &mut Value, repairs: &mut Vec<Repair>) {
        if self.wrapped.is_empty() {
            return;
        }
        let errors = self.validator.errors(value, &mut self.budget);
        let invalid: Option<Vec<String>> =
            errors.map(|errors| errors.map(|error| error.instance_path().as_str().to_owned()).collect());
        for (pointer, original) in std::mem::take(&mut self.wrapped).into_iter().rev() {
            let is_inside = |other: &str| {
                other
                    .strip_prefix(pointer.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            let is_invalid =
                invalid.as_ref().is_none_or(|places| places.iter().any(|other| is_inside(other)));
            if is_invalid && let Some(place) = value.pointer_mut(&pointer) {
                *place = original;
                let mut index = 0;
                repairs.retain(|repair| {
                    index += 1;
                    index <= self.first || !is_inside(&repair.pointer)
                });
            }
        }
    }
}

fn count_error(error: &ValidationError<'_>, counts: &mut ErrorCounts) {
    if matches!(
        error.kind(),
        ValidationErrorKind::Type { .. }
            | ValidationErrorKind::Enum { .. }
            | ValidationErrorKind::Constant { .. }
            | ValidationErrorKind::AnyOf { .. }
            | ValidationErrorKind::OneOfNotValid { .. }
    ) {
        *counts.entry(error.instance_path().as_str().to_owned()).or_default() += 1;
    }
}

/// Removes the property at a pointer. Returns whether there was one.
fn remove_property(value: &mut Value, pointer: &str) -> bool {
    let Some((parent, segment)) = pointer.rsplit_once('/') else { return false };
    let parent = value.pointer_mut(parent).and_then(Value::as_object_mut);
    parent.is_some_and(|map| map.shift_remove(unescape_segment(segment).as_ref()).is_some())
}

/// Returns the pointer to a property that is required and missing.
fn missing_property(error: &ValidationError<'_>) -> Option<String> {
    let ValidationErrorKind::Required { property: Value::String(name) } = error.kind() else { return None };
    let mut pointer = format!("{}/", error.instance_path().as_str());
    escape_segment(name, &mut pointer);
    Some(pointer)
}

/// Unwraps the arguments and renames keys, if fewer errors remain.
fn use_known_keys(
    value: &mut Value,
    validator: &Validator,
    repairs: &mut Vec<Repair>,
    budget: &mut ErrorBudget,
) {
    let Some((repaired, made)) = by_schema::with_known_keys(value, validator.schema()) else { return };
    let mut count = |value: &Value| {
        let mut causes = 0;
        for error in validator.errors(value, budget)? {
            causes += 1;
            each_cause(&error, 0, &mut |_| causes += 1);
        }
        Some(causes)
    };
    if let (Some(before), Some(after)) = (count(value), count(&repaired))
        && after < before
    {
        *value = repaired;
        repairs.extend(made);
    }
}

/// Calls `visit` with the error, or with those of the alternative that was probably meant.
fn each_cause(error: &ValidationError<'_>, depth: usize, visit: &mut dyn FnMut(&ValidationError<'_>)) {
    match error.kind() {
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }
            if depth < MAX_UNION_DEPTH && !rejects_every_type(error, context) =>
        {
            for cause in nearest_alternative(error, context) {
                each_cause(cause, depth + 1, visit);
            }
        }
        _ => visit(error),
    }
}

/// Returns the errors of the alternative with the fewest errors, preferably one that accepts the type of the value.
fn nearest_alternative<'e>(
    error: &ValidationError<'_>,
    alternatives: &'e [Vec<ValidationError<'static>>],
) -> &'e [ValidationError<'static>] {
    let length = error.instance_path().as_str().len();
    let is_inside = |alternative: &&Vec<ValidationError<'static>>| {
        alternative.iter().all(|error| error.instance_path().as_str().len() > length)
    };
    let nearest = alternatives.iter().filter(is_inside).min_by_key(|errors| errors.len());
    nearest.or_else(|| alternatives.iter().min_by_key(|errors| errors.len())).map_or(&[], Vec::as_slice)
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

fn rejects_every_type(error: &ValidationError<'_>, alternatives: &[Vec<ValidationError<'static>>]) -> bool {
    alternatives.iter().all(|alternative| expected_types(error, alternative).is_some())
}

fn collect_accepted(error: &ValidationError<'_>, found: &mut Vec<Accepted>, depth: usize) {
    let at = |types, options| Accepted { pointer: error.instance_path().as_str().to_owned(), types, options };
    match error.kind() {
        ValidationErrorKind::Type { kind } => found.push(at(types(kind), Vec::new())),
        ValidationErrorKind::Enum { .. } | ValidationErrorKind::Constant { .. } => {
            found.push(at(Vec::new(), listed_strings(error)));
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }
            if depth < MAX_UNION_DEPTH =>
        {
            // If every alternative rejects the type, any of their types is accepted. Otherwise the
            // alternative with the fewest errors is used.
            if rejects_every_type(error, context) {
                let types = context.iter().filter_map(|alternative| expected_types(error, alternative));
                return found.push(at(types.flatten().collect(), Vec::new()));
            }
            // A value in another case must be listed by one alternative only.
            let mut options: BTreeMap<&str, Vec<String>> = BTreeMap::new();
            for cause in context.iter().flatten() {
                let listed = listed_strings(cause);
                if !listed.is_empty() {
                    options.entry(cause.instance_path().as_str()).or_default().extend(listed);
                }
            }
            for (pointer, mut options) in options {
                options.sort();
                options.dedup();
                found.push(Accepted { pointer: pointer.to_owned(), types: Vec::new(), options });
            }
            for cause in nearest_alternative(error, context) {
                if listed_strings(cause).is_empty() {
                    collect_accepted(cause, found, depth + 1);
                }
            }
        }
        _ => {}
    }
}

/// Returns the strings that an `enum` or `const` lists.
fn listed_strings(error: &ValidationError<'_>) -> Vec<String> {
    let values = match error.kind() {
        ValidationErrorKind::Enum { options } => options.as_array().map_or(&[][..], Vec::as_slice),
        ValidationErrorKind::Constant { expected_value } => std::slice::from_ref::<Value>(expected_value),
        _ => &[],
    };
    values.iter().filter_map(Value::as_str).map(str::to_owned).collect()
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

/// Returns an integer without its fraction of zeros, if it has one.
pub(super) fn without_fraction(number: &Number) -> Option<Number> {
    let (integer, fraction) = number.as_str().split_once('.')?;
    let is_zero = !fraction.is_empty() && fraction.bytes().all(|digit| digit == b'0');
    is_zero.then(|| serde_json::from_str(integer).ok())?
}

/// Parses text that is a JSON number, with all its digits.
fn parse_number(text: &str) -> Option<Number> {
    let first = text.bytes().next()?;
    if first == b'-' || first.is_ascii_digit() { serde_json::from_str(text).ok() } else { None }
}
