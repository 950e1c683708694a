//! Repairs arguments where the schema shows what was meant.
//!
//! A repair is tried only where the schema rejects the value, and it is accepted only if fewer errors remain there.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::mem::{Discriminant, discriminant};

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;
use toolwire_validation::{ErrorBudget, Validator};

use super::by_schema;
use super::repair::{Repair, RepairKind};
use super::replacement::{MAX_UNION_DEPTH, Replacement, pointer, rejects_every_type, replacements};
use crate::json::{escape_segment, unescape_segment};

/// The maximum number of rounds; each repair can make new errors visible.
const MAX_ROUNDS: usize = 8;

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
        let mut found = Vec::new();
        let Some(errors) = self.validator.errors(value, &mut self.budget) else { return false };
        for error in errors {
            count_error(&error, &mut before);
            let replacements = replacements(&error, 0).into_iter().flatten();
            found.extend(replacements.map(|replacement| (pointer(&error).to_owned(), replacement)));
        }
        // With each repair, the place of the error and the original value.
        let mut replaced: Vec<(Repair, String, Value)> = Vec::new();
        let mut places = BTreeSet::new();
        for (error_pointer, Replacement { pointer, value: meant, kind }) in found {
            let attempt = (pointer, discriminant(&kind));
            if self.failed.contains(&attempt) || overlaps(&attempt.0, &places) {
                continue;
            }
            let pointer = attempt.0;
            let Some(place) = value.pointer_mut(&pointer) else { continue };
            let original = std::mem::replace(place, meant);
            places.insert(pointer.clone());
            replaced.push((Repair { pointer, kind }, error_pointer, original));
        }
        let after = if replaced.is_empty() { None } else { self.count_errors(value) };
        let mut has_progress = false;
        for (repair, error_pointer, original) in replaced.into_iter().rev() {
            let helped = after.as_ref().is_some_and(|after| {
                let count = |counts: &ErrorCounts, pointer| counts.get(pointer).copied().unwrap_or(0);
                count(after, &error_pointer) < count(&before, &error_pointer)
                    // What was in the text is repaired in the next round.
                    || matches!(repair.kind, RepairKind::ParsedObject | RepairKind::ParsedArray)
                        && count(after, &repair.pointer) == 0
            });
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
        // Alternatives may need other repairs too, so their errors are counted one by one.
        let mut before = 0;
        let mut pointers = BTreeSet::new();
        let Some(errors) = self.validator.errors(value, &mut self.budget) else { return };
        for error in errors {
            before += 1;
            each_cause(&error, 0, &mut |cause| {
                before += 1;
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
                each_cause(&error, 0, &mut |cause| {
                    after += 1;
                    required.extend(missing_property(cause));
                });
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

/// Whether one of the places is at, around or inside a pointer.
fn overlaps(pointer: &str, places: &BTreeSet<String>) -> bool {
    let is_around = |(end, _): (usize, &str)| places.contains(&pointer[..end]);
    let inside = format!("{pointer}/");
    places.contains(pointer)
        || pointer.match_indices('/').any(is_around)
        || places.range(inside.clone()..).next().is_some_and(|place| place.starts_with(&inside))
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
