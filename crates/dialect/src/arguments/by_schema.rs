//! Repairs that follow from the schema: wrapped arguments, keys in another spelling, and integers with a fraction
//! of zeros.

use std::collections::HashMap;

use serde_json::{Map, Value};
use toolwire_validation::resolve;

use super::lenient_json;
use super::repair::{Repair, RepairKind};

/// Keys under which models wrap the arguments of a call.
const WRAPPERS: [&str; 4] = ["arguments", "input", "parameters", "args"];

/// The maximum depth of nested values that are repaired.
const MAX_DEPTH: usize = 64;

/// Returns the arguments unwrapped and with known keys, if that changes them. Use it only for arguments that the
/// schema rejects.
pub(super) fn with_known_keys(value: &Value, schema: &Value) -> Option<(Value, Vec<Repair>)> {
    let mut repairs = Vec::new();
    let mut repaired = value.clone();
    if let Value::Object(map) = value
        && let Some((key, inner)) = wrapped_arguments(map, schema)
    {
        repairs.push(Repair::of_arguments(RepairKind::Unwrapped { key: key.to_owned() }));
        repaired = inner;
    }
    let mut walk =
        Walk { root: schema, action: Action::RenameKeys, pointer: String::new(), repairs: &mut repairs };
    walk.visit(&mut repaired, schema, MAX_DEPTH);
    (!repairs.is_empty()).then_some((repaired, repairs))
}

/// Removes fractions of zeros from integers.
pub(super) fn remove_fractions(value: &mut Value, schema: &Value, repairs: &mut Vec<Repair>) {
    if has_fraction(value) {
        let mut walk =
            Walk { root: schema, action: Action::RemoveFractions, pointer: String::new(), repairs };
        walk.visit(value, schema, MAX_DEPTH);
    }
}

fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.values().any(has_fraction),
        Value::Array(items) => items.iter().any(has_fraction),
        Value::Number(number) => number.as_str().contains('.'),
        _ => false,
    }
}

/// Returns arguments that are the only value of an object, and their key, which the tool does not have.
fn wrapped_arguments<'m>(arguments: &'m Map<String, Value>, schema: &Value) -> Option<(&'m str, Value)> {
    let (key, wrapped) = arguments.iter().next().filter(|_| arguments.len() == 1)?;
    let properties = resolve(schema, schema).get("properties").and_then(Value::as_object)?;
    if !WRAPPERS.contains(&key.as_str()) || properties.contains_key(key) {
        return None;
    }
    let inner = wrapped.as_str().and_then(lenient_json::parse_any).unwrap_or_else(|| wrapped.clone());
    let is_known = inner.as_object()?.keys().any(|key| properties.contains_key(key));
    is_known.then_some((key, inner))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    RenameKeys,
    RemoveFractions,
}

struct Walk<'s, 'r> {
    root: &'s Value,
    action: Action,
    pointer: String,
    repairs: &'r mut Vec<Repair>,
}

impl Walk<'_, '_> {
    fn visit(&mut self, value: &mut Value, schema: &Value, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else { return };
        let schema = resolve(schema, self.root);
        match value {
            Value::Object(map) => {
                let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
                if self.action == Action::RenameKeys
                    && schema.get("additionalProperties").is_none_or(|rest| rest == false)
                    && schema.get("patternProperties").is_none()
                {
                    self.rename_keys(map, properties);
                }
                for (key, value) in map {
                    if let Some(property) = properties.get(key) {
                        self.below(key, |walk| walk.visit(value, property, depth));
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = schema.get("items").filter(|schema| schema.is_object()) else { return };
                for (index, item) in items.iter_mut().enumerate() {
                    self.below(&index.to_string(), |walk| walk.visit(item, schema, depth));
                }
            }
            Value::Number(number)
                if self.action == Action::RemoveFractions
                    && schema.get("type").is_some_and(|name| name == "integer") =>
            {
                if let Some((integer, fraction)) = number.as_str().split_once('.')
                    && !fraction.is_empty()
                    && fraction.bytes().all(|digit| digit == b'0')
                    && let Ok(integer) = serde_json::from_str(integer)
                {
                    *value = Value::Number(integer);
                    self.record(RepairKind::RemovedFraction);
                }
            }
            _ => {}
        }
    }

    /// Renames an unknown key that differs from one missing property only in case, `_` and `-`, if no other key
    /// does.
    fn rename_keys(&mut self, map: &mut Map<String, Value>, properties: &Map<String, Value>) {
        let mut unknown: HashMap<String, Vec<String>> = HashMap::new();
        for key in map.keys().filter(|key| !properties.contains_key(*key)) {
            unknown.entry(fold(key)).or_default().push(key.clone());
        }
        for (folded, keys) in unknown {
            let mut similar = properties.keys().filter(|known| fold(known) == folded);
            let ([found], Some(known), None) = (keys.as_slice(), similar.next(), similar.next()) else {
                continue;
            };
            if map.contains_key(known) {
                continue;
            }
            // The other keys keep their order.
            let renamed = std::mem::take(map).into_iter();
            *map = renamed
                .map(|(key, value)| (if key == *found { known.clone() } else { key }, value))
                .collect();
            self.below(known, |walk| walk.record(RepairKind::RenamedKey { found: found.clone() }));
        }
    }

    fn record(&mut self, kind: RepairKind) {
        self.repairs.push(Repair { pointer: self.pointer.clone(), kind });
    }

    fn below(&mut self, key: &str, visit: impl FnOnce(&mut Self)) {
        let length = self.pointer.len();
        self.pointer.push('/');
        crate::json::escape_segment(key, &mut self.pointer);
        visit(self);
        self.pointer.truncate(length);
    }
}

/// Returns a key without case, `_` and `-`.
fn fold(key: &str) -> String {
    key.chars().filter(|character| !matches!(character, '_' | '-')).flat_map(char::to_lowercase).collect()
}
