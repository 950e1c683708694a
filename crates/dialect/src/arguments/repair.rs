//! Mends arguments where the schema says what was meant, and only there.
//!
//! The validator finds what is wrong; a mend is tried where the value is of a type that the schema does not allow at all,
//! and kept only if it leaves less wrong than before.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};
use serde::Serialize;
use serde_json::{Number, Value};

use super::verdict::Judge;
use crate::json::Decimal;

/// One mended place in a model's arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Repair {
    /// RFC 6901 pointer into the arguments.
    pub pointer: String,
    /// What was done, in words.
    pub detail: String,
}

/// How often a mended value may show something new to mend.
const ROUNDS: usize = 8;
/// More wrong places than this are left to the model.
const MOST: usize = 64;

/// How the detail of a value that was put into an array begins.
const LONE: &str = "a lone value";

/// What the schema would take at a place where the value has a type that it does not allow.
#[derive(Debug)]
struct Want {
    pointer: String,
    types: Vec<JsonType>,
    /// The values it lists, for a string that may be one of them in another case.
    options: Vec<String>,
}

/// Mends `value` in place; what was done goes to `repairs`.
pub(crate) fn repair(value: &mut Value, judge: &Judge, caseless: bool, repairs: &mut Vec<Repair>) {
    let first = repairs.len();
    let mut wrapped: Vec<(String, Value)> = Vec::new();
    let mut allowance = judge.allowance(value);
    'rounds: for _ in 0..ROUNDS {
        let mut wrong = 0;
        let wants = wants(judge.errors(value).inspect(|_| wrong += 1), caseless);
        let mut progress = false;
        for want in wants.into_iter().take(MOST) {
            let Some(place) = value.pointer(&want.pointer) else { continue };
            let Some((mended, detail)) = mend(place, &want) else { continue };
            if allowance == 0 {
                break 'rounds;
            }
            allowance -= 1;
            let wraps = mended.is_array() && detail.starts_with(LONE);
            let Some(place) = value.pointer_mut(&want.pointer) else { continue };
            let original = std::mem::replace(place, mended);
            match still_wrong(judge, value, &want.pointer) {
                Some((still, here)) if still < wrong || !here => {
                    wrong = still;
                    progress = true;
                    if wraps {
                        wrapped.push((want.pointer.clone(), original));
                    }
                    repairs.push(Repair { pointer: want.pointer, detail });
                }
                _ => {
                    if let Some(place) = value.pointer_mut(&want.pointer) {
                        *place = original;
                    }
                }
            }
        }
        if !progress {
            break;
        }
    }
    // An array around a value that does not fit as an item was not what was meant.
    for (pointer, original) in wrapped.into_iter().rev() {
        let inside = |other: &str| {
            other.strip_prefix(pointer.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if judge.errors(value).any(|error| inside(error.instance_path().as_str()))
            && let Some(place) = value.pointer_mut(&pointer)
        {
            *place = original;
            let mut index = 0;
            repairs.retain(|repair| {
                index += 1;
                index <= first || !inside(&repair.pointer)
            });
        }
    }
}

/// How much is wrong with the value, and whether it is refused at exactly this place; `None` if it cannot be judged.
fn still_wrong(judge: &Judge, value: &Value, pointer: &str) -> Option<(usize, bool)> {
    if judge.accepts(value).ok()? {
        return Some((0, false));
    }
    let (mut wrong, mut here) = (0, false);
    for error in judge.errors(value) {
        wrong += 1;
        here |= error.instance_path().as_str() == pointer;
    }
    Some((wrong, here))
}

fn wants<'e>(errors: impl Iterator<Item = ValidationError<'e>>, caseless: bool) -> Vec<Want> {
    let mut found: Vec<Want> = Vec::new();
    for error in errors {
        collect(&error, caseless, &mut found, 0);
    }
    found.dedup_by(|a, b| a.pointer == b.pointer && a.options == b.options);
    found
}

fn collect(error: &ValidationError<'_>, caseless: bool, found: &mut Vec<Want>, depth: usize) {
    if depth > 8 {
        return;
    }
    let pointer = error.instance_path().as_str();
    match error.kind() {
        ValidationErrorKind::Type { kind } => {
            found.push(Want { pointer: pointer.to_owned(), types: types(kind), options: Vec::new() });
        }
        ValidationErrorKind::Enum { options } if caseless => {
            let options = options.as_array().map_or(&[][..], Vec::as_slice);
            let options = options.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            found.push(Want { pointer: pointer.to_owned(), types: Vec::new(), options });
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            // Every alternative refuses the type: any of theirs will do. Otherwise the nearest alternative counts.
            let refused: Option<Vec<JsonType>> = context
                .iter()
                .map(|branch| {
                    branch.iter().find_map(|error| match error.kind() {
                        ValidationErrorKind::Type { kind } if error.instance_path().as_str() == pointer => {
                            Some(types(kind))
                        }
                        _ => None,
                    })
                })
                .collect::<Option<Vec<_>>>()
                .map(|types| types.concat());
            if let Some(types) = refused {
                found.push(Want { pointer: pointer.to_owned(), types, options: Vec::new() });
                return;
            }
            let inner = |branch: &&Vec<ValidationError<'static>>| {
                branch.iter().all(|error| error.instance_path().as_str().len() > pointer.len() || caseless)
            };
            if let Some(branch) = context.iter().filter(inner).min_by_key(|branch| branch.len()) {
                for error in branch {
                    collect(error, caseless, found, depth + 1);
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

/// What the value was meant to be, and the words for it.
fn mend(value: &Value, want: &Want) -> Option<(Value, String)> {
    let due = |kind: JsonType| want.types.contains(&kind);
    if let Value::String(text) = value {
        if !want.options.is_empty() {
            return in_another_case(text, &want.options);
        }
        let trimmed = text.trim();
        if (due(JsonType::Object) || due(JsonType::Array))
            && trimmed.starts_with(['{', '['])
            && let Ok(parsed) = serde_json::from_str::<Value>(trimmed)
        {
            let kind = if parsed.is_object() { JsonType::Object } else { JsonType::Array };
            if due(kind) {
                let word = if parsed.is_object() { "an object" } else { "an array" };
                return Some((parsed, format!("JSON text where {word} is due: parsed")));
            }
        }
        if (due(JsonType::Integer) || due(JsonType::Number))
            && let Some(number) = number(trimmed)
            && (due(JsonType::Number) || Decimal::of(number.as_str()).is_integer())
        {
            let word = if due(JsonType::Number) { "a number" } else { "an integer" };
            return Some((Value::Number(number), format!("a string where {word} is due: read as a number")));
        }
        if due(JsonType::Boolean) && matches!(trimmed, "true" | "false" | "True" | "False") {
            let truth = trimmed.eq_ignore_ascii_case("true");
            return Some((Value::Bool(truth), "a string where a boolean is due: read as one".to_owned()));
        }
        if due(JsonType::Null) && trimmed == "null" {
            return Some((Value::Null, "a string where null is due: read as null".to_owned()));
        }
    }
    if let Value::Number(number) = value
        && due(JsonType::Integer)
        && let Some((whole, fraction)) = number.as_str().split_once('.')
        && fraction.bytes().all(|digit| digit == b'0')
        && let Ok(whole) = serde_json::from_str(whole)
    {
        // Only in the oldest drafts is `3.0` no integer.
        return Some((
            Value::Number(whole),
            "a whole number with a fraction of zeros: without it".to_owned(),
        ));
    }
    if due(JsonType::Array) && !value.is_array() && !value.is_null() {
        return Some((
            Value::Array(vec![value.clone()]),
            format!("{LONE} where an array is due: put into one"),
        ));
    }
    None
}

fn in_another_case(text: &str, options: &[String]) -> Option<(Value, String)> {
    let folded = text.to_lowercase();
    let mut alike = options.iter().filter(|option| option.to_lowercase() == folded);
    match (alike.next(), alike.next()) {
        (Some(option), None) => {
            Some((Value::String(option.clone()), format!("`{text}` is listed as `{option}`")))
        }
        _ => None,
    }
}

/// Text that is a JSON number, with its digits.
fn number(text: &str) -> Option<Number> {
    let starts = text.bytes().next().is_some_and(|byte| byte == b'-' || byte.is_ascii_digit());
    if starts { serde_json::from_str(text).ok() } else { None }
}
