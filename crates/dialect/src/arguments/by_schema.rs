//! Repairs that follow from the schema alone: wrapped arguments, keys in another spelling, and integers with a
//! fraction of zeros.

use std::sync::OnceLock;

use serde_json::{Map, Value};
use toolwire_validation::resolve;

use super::lenient_json;
use super::repair::{Repair, RepairKind};

/// Keys under which models wrap the arguments of a call.
const WRAPPERS: [&str; 4] = ["arguments", "input", "parameters", "args"];

/// The maximum depth of nested values that are repaired.
const MAX_DEPTH: usize = 64;

/// Unwraps arguments that are the only value of an object under a key that the tool does not have.
pub(super) fn unwrap(
    arguments: Map<String, Value>,
    schema: &Value,
    repairs: &mut Vec<Repair>,
) -> Map<String, Value> {
    let only =
        arguments.iter().next().filter(|(key, _)| arguments.len() == 1 && WRAPPERS.contains(&key.as_str()));
    let Some((key, wrapped)) = only else { return arguments };
    let properties = resolve(schema, schema).get("properties").and_then(Value::as_object);
    let Some(properties) = properties.filter(|properties| !properties.contains_key(key)) else {
        return arguments;
    };
    let parsed = wrapped
        .as_str()
        .and_then(|text| serde_json::from_str(text).ok().or_else(|| lenient_json::parse(text)));
    let inner = match parsed.as_ref().unwrap_or(wrapped) {
        Value::Object(inner) if inner.keys().any(|key| properties.contains_key(key)) => inner.clone(),
        _ => return arguments,
    };
    repairs.push(Repair::of_arguments(RepairKind::Unwrapped { key: key.clone() }));
    inner
}

/// The names of all properties in a schema, sorted, collected when the first arguments are decoded. Most
/// arguments have only known keys and need no walk through the schema.
#[derive(Debug, Default)]
pub(super) struct PropertyNames(OnceLock<Vec<String>>);

impl PropertyNames {
    /// Repairs keys and integers in a value that the schema describes.
    pub(super) fn repair(&self, value: &mut Value, schema: &Value, repairs: &mut Vec<Repair>) {
        let names = self.0.get_or_init(|| property_names(schema));
        if may_need_repair(value, names) {
            let mut walk = Walk { root: schema, pointer: String::new(), repairs };
            walk.visit(value, schema, MAX_DEPTH);
        }
    }
}

fn property_names(schema: &Value) -> Vec<String> {
    let mut names = Vec::new();
    let mut pending = vec![schema];
    while let Some(node) = pending.pop() {
        match node {
            Value::Object(map) => {
                let properties = map.get("properties").and_then(Value::as_object);
                names.extend(properties.into_iter().flat_map(Map::keys).cloned());
                pending.extend(map.values());
            }
            Value::Array(items) => pending.extend(items),
            _ => {}
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// Whether a value has an unknown key or a number with a fraction.
fn may_need_repair(value: &Value, names: &[String]) -> bool {
    match value {
        Value::Object(map) => {
            map.iter().any(|(key, value)| names.binary_search(key).is_err() || may_need_repair(value, names))
        }
        Value::Array(items) => items.iter().any(|item| may_need_repair(item, names)),
        Value::Number(number) => number.as_str().contains('.'),
        _ => false,
    }
}

struct Walk<'s, 'r> {
    root: &'s Value,
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
                if schema.get("additionalProperties").is_none_or(|rest| rest == false)
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
            Value::Number(number) if schema.get("type").is_some_and(|name| name == "integer") => {
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

    /// Renames unknown keys that differ from one missing property only in case, `_` and `-`.
    fn rename_keys(&mut self, map: &mut Map<String, Value>, properties: &Map<String, Value>) {
        let unknown: Vec<String> = map.keys().filter(|key| !properties.contains_key(*key)).cloned().collect();
        for found in unknown {
            let folded = fold(&found);
            let mut similar = properties.keys().filter(|known| fold(known) == folded);
            let (Some(known), None) = (similar.next(), similar.next()) else { continue };
            if map.contains_key(known) {
                continue;
            }
            // The other keys keep their order.
            let renamed = std::mem::take(map).into_iter();
            *map =
                renamed.map(|(key, value)| (if key == found { known.clone() } else { key }, value)).collect();
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
