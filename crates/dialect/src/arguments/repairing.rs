//! Repairs arguments where the schema shows what was meant.
//!
//! A value is replaced only where the schema rejects it, and only if fewer errors remain there.

use std::borrow::Borrow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::mem::{Discriminant, discriminant};
use std::ops::Bound;

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;
use toolwire_contract::text::unescape_pointer_segment;
use toolwire_validation::{ErrorBudget, Validator};

use super::by_schema;
use super::repair::{Repair, RepairKind};
use super::replacement::{MAX_UNION_DEPTH, Replacement, pointer, rejects_every_type, replacements};
use crate::json::push_segment;

/// The maximum number of rounds; each repair can make new errors visible.
const MAX_ROUNDS: usize = 8;

/// Repairs `value` in place, except at `protected`, and adds what was done to `repairs`.
///
/// Keys are unwrapped and renamed in a copy, because their values may need repairs too. If values stay
/// invalid under new names, these names are not used. Each kind of repair is made at all places, or at none
/// if the budget is too small.
pub(crate) fn repair(
    value: &mut Value,
    validator: &Validator,
    protected: Option<&str>,
    repairs: &mut Vec<Repair>,
) {
    let mut budget = ErrorBudget::default();
    let mut attempt = |except: Option<&BTreeSet<String>>| {
        let repairs = Vec::new();
        let failed = HashSet::new();
        let repairing = Repairing { validator, budget: &mut budget, protected, failed, wrapped: Vec::new() };
        repairing.attempt(RepairAttempt { value: value.clone(), repairs, errors: None }, except)
    };
    let mut except: BTreeSet<String> = protected.map(str::to_owned).into_iter().collect();
    let mut best = attempt(Some(&except));
    if !best.is_valid() && best.repairs.iter().any(|repair| repair.kind.is_of_keys()) {
        let protected = except.len();
        except.extend(best.invalid_names());
        let second = (except.len() > protected).then(|| attempt(Some(&except)));
        best = match second {
            Some(second) if second.is_valid() => second,
            // If attempts have the same number of errors, the one with the fewest changes is used.
            second => second
                .into_iter()
                .chain([attempt(None)])
                .fold(best, |best, other| if other.count() <= best.count() { other } else { best }),
        };
    }
    *value = best.value;
    repairs.append(&mut best.repairs);
}

/// A repaired copy of the arguments, which is used if no other attempt has fewer errors.
struct RepairAttempt {
    value: Value,
    repairs: Vec<Repair>,
    /// The places of the errors that remain; `None` if there are too many.
    errors: Option<Vec<String>>,
}

impl RepairAttempt {
    fn count(&self) -> usize {
        self.errors.as_ref().map_or(usize::MAX, Vec::len)
    }

    fn is_valid(&self) -> bool {
        self.count() == 0
    }

    /// Returns the new names of keys under which errors remain.
    fn invalid_names(&self) -> impl Iterator<Item = String> {
        let errors: BTreeSet<&str> = self.errors.iter().flatten().map(String::as_str).collect();
        let renamed =
            self.repairs.iter().filter(|repair| matches!(repair.kind, RepairKind::RenamedKey { .. }));
        renamed.map(|repair| repair.pointer.clone()).filter(move |pointer| is_at_or_around(pointer, &errors))
    }
}

struct Repairing<'v> {
    validator: &'v Validator,
    budget: &'v mut ErrorBudget,
    /// The pointer to a value that is not repaired.
    protected: Option<&'v str>,
    /// Repairs that did not help.
    failed: HashSet<(String, Discriminant<RepairKind>)>,
    /// The places of values that were wrapped in an array, and the values.
    wrapped: Vec<(String, Value)>,
}

/// The number of errors at each pointer that reject a value as a whole, not only its size or its properties.
type ErrorCounts = HashMap<String, usize>;

impl Repairing<'_> {
    /// Makes repairs until nothing changes. Without `except`, keys stay as they are.
    fn attempt(mut self, mut attempt: RepairAttempt, except: Option<&BTreeSet<String>>) -> RepairAttempt {
        let RepairAttempt { value, repairs, errors } = &mut attempt;
        let schema = self.validator.schema();
        let accepts = |value: &Value| self.validator.accepts(value).unwrap_or(false);
        let is_rejected = !accepts(value);
        for _ in 0..MAX_ROUNDS {
            let known = repairs.len();
            if let Some(except) = except {
                by_schema::use_known_keys(value, schema, except, is_rejected, repairs);
            }
            self.remove_nulls(value, repairs);
            if !self.replace_values(value, repairs) && repairs.len() == known {
                break;
            }
            by_schema::remove_fractions(value, schema, repairs);
        }
        self.unwrap_invalid(value, repairs);
        *errors = if accepts(value) { Some(Vec::new()) } else { self.remaining_errors(value) };
        attempt
    }

    /// Returns the places of errors, except those that concern the protected value.
    fn remaining_errors(&mut self, value: &Value) -> Option<Vec<String>> {
        let mut places = Vec::new();
        for error in self.validator.errors(value, self.budget)? {
            let is_protected = |place: &str| self.protected.is_some_and(|protected| protected == place);
            if is_protected(pointer(&error))
                || missing_property(&error).is_some_and(|name| is_protected(&name))
            {
                continue;
            }
            each_cause(&error, 0, &mut |cause| {
                let count = match cause.kind() {
                    ValidationErrorKind::AdditionalProperties { unexpected }
                    | ValidationErrorKind::UnevaluatedProperties { unexpected } => unexpected.len(),
                    _ => 1,
                };
                places.extend(std::iter::repeat_n(pointer(cause).to_owned(), count));
            });
        }
        Some(places)
    }

    fn count_errors(&mut self, value: &Value) -> Option<ErrorCounts> {
        let mut counts = ErrorCounts::new();
        for error in self.validator.errors(value, self.budget)? {
            count_error(&error, &mut counts);
        }
        Some(counts)
    }

    /// Replaces values of other types and values in another case. Returns whether one was replaced.
    fn replace_values(&mut self, value: &mut Value, repairs: &mut Vec<Repair>) -> bool {
        let mut before = ErrorCounts::new();
        let mut found = Vec::new();
        let Some(errors) = self.validator.errors(value, self.budget) else { return false };
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
            let is_protected = self.protected == Some(attempt.0.as_str());
            if is_protected || self.failed.contains(&attempt) || overlaps(&attempt.0, &places) {
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
        let Some(errors) = self.validator.errors(value, self.budget) else { return };
        for error in errors {
            before += 1;
            each_cause(&error, 0, &mut |cause| {
                before += 1;
                if cause.instance().is_null() && self.protected != Some(pointer(cause)) {
                    pointers.insert(pointer(cause).to_owned());
                }
            });
        }
        by_schema::remove_map_entries(&mut pointers, self.validator.schema());
        while !pointers.is_empty() {
            let mut without_nulls = value.clone();
            pointers.retain(|pointer| remove_property(&mut without_nulls, pointer));
            let Some(errors) = self.validator.errors(&without_nulls, self.budget) else { return };
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
        let errors = self.validator.errors(value, self.budget);
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
                repairs.retain(|repair| {
                    let is_renamed = repair.pointer == pointer && repair.kind.is_of_keys();
                    is_renamed || !is_inside(&repair.pointer)
                });
            }
        }
    }
}

/// Whether one of the places is at, around or inside a pointer.
fn overlaps(pointer: &str, places: &BTreeSet<String>) -> bool {
    let is_around = |(end, _): (usize, &str)| places.contains(&pointer[..end]);
    pointer.match_indices('/').any(is_around) || is_at_or_around(pointer, places)
}

/// Whether one of the places is at or inside a pointer.
fn is_at_or_around<P: Borrow<str> + Ord>(pointer: &str, places: &BTreeSet<P>) -> bool {
    let inside = format!("{pointer}/");
    let mut from_there = places.range::<str, _>((Bound::Included(inside.as_str()), Bound::Unbounded));
    places.contains(pointer) || from_there.next().is_some_and(|place| place.borrow().starts_with(&inside))
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
    parent.is_some_and(|map| map.shift_remove(unescape_pointer_segment(segment).as_ref()).is_some())
}

/// Returns the pointer to a property that is required and missing.
fn missing_property(error: &ValidationError<'_>) -> Option<String> {
    let ValidationErrorKind::Required { property: Value::String(name) } = error.kind() else { return None };
    let mut pointer = format!("{}/", error.instance_path().as_str());
    push_segment(name, &mut pointer);
    Some(pointer)
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

/// Returns the errors of the alternative with the fewest errors, preferably one that accepts the type of the
/// value.
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
