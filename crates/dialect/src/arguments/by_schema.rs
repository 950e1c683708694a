//! Repairs that follow from the schema: wrapped arguments, keys in another spelling, and integers with a fraction
//! of zeros.

use std::collections::HashMap;

use serde_json::{Map, Value};
use toolwire_validation::{References, resolve};

use super::lenient_json;
use super::repair::{Repair, RepairKind};
use super::replacement::without_fraction;

/// Keys under which models wrap the arguments of a call.
const WRAPPERS: [&str; 4] = ["arguments", "input", "parameters", "args"];

/// The maximum number of schemas that are considered for one value.
const MAX_SCHEMAS: usize = 64;

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
    Walk::new(schema, Action::RenameKeys, &mut repairs).run(&mut repaired);
    (!repairs.is_empty()).then_some((repaired, repairs))
}

/// Removes fractions of zeros from integers.
pub(super) fn remove_fractions(value: &mut Value, schema: &Value, repairs: &mut Vec<Repair>) {
    if has_fraction(value) {
        Walk::new(schema, Action::RemoveFractions, repairs).run(value);
    }
}

fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.values().any(has_fraction),
        Value::Array(items) => items.iter().any(has_fraction),
        Value::Number(number) => without_fraction(number).is_some(),
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
    references: References<'s>,
    action: Action,
    pointer: String,
    repairs: &'r mut Vec<Repair>,
}

/// Returns the schemas for the value of a key.
fn schemas_of_key<'s>(schemas: &[&'s Value], key: &str) -> Vec<&'s Value> {
    let mut found = Vec::new();
    for schema in schemas {
        match schema.get("properties").and_then(|properties| properties.get(key)) {
            Some(property) => found.push(property),
            None => {
                let patterns = schema.get("patternProperties").and_then(Value::as_object);
                found.extend(patterns.into_iter().flat_map(Map::values));
                found.extend(schema.get("additionalProperties"));
            }
        }
    }
    found
}

/// Returns the schemas for the item at an index; for `None`, those of items after the listed ones.
fn schemas_of_item<'s>(schemas: &[&'s Value], index: Option<usize>) -> Vec<&'s Value> {
    let schema_of = |schema: &&'s Value| {
        let positions = ["prefixItems", "items"].iter().find_map(|keyword| schema.get(*keyword)?.as_array());
        let listed = index.and_then(|index| positions?.get(index));
        listed.or_else(|| {
            ["items", "additionalItems"]
                .iter()
                .find_map(|key| schema.get(*key).filter(|rest| rest.is_object()))
        })
    };
    schemas.iter().filter_map(schema_of).collect()
}

/// Returns how many items have a schema of their own.
fn listed_items(schemas: &[&Value]) -> usize {
    let positions = |schema: &&Value| {
        let lists = ["prefixItems", "items"].map(|keyword| schema.get(keyword).and_then(Value::as_array));
        lists.into_iter().flatten().map(Vec::len).max().unwrap_or(0)
    };
    schemas.iter().map(positions).max().unwrap_or(0)
}

impl<'s, 'r> Walk<'s, 'r> {
    fn new(schema: &'s Value, action: Action, repairs: &'r mut Vec<Repair>) -> Walk<'s, 'r> {
        Walk { references: References::of(schema), action, pointer: String::new(), repairs }
    }

    fn run(mut self, value: &mut Value) {
        let schemas = self.applicable([self.references.root()]);
        self.visit(value, &schemas, MAX_DEPTH);
    }

    /// Returns the schemas that may apply to one value: the given ones, their parts and their alternatives.
    fn applicable(&self, schemas: impl IntoIterator<Item = &'s Value>) -> Vec<&'s Value> {
        let mut found: Vec<&Value> = Vec::new();
        let mut stack: Vec<&Value> = schemas.into_iter().collect();
        while let Some(schema) = stack.pop() {
            if found.len() == MAX_SCHEMAS || found.iter().any(|known| std::ptr::eq(*known, schema)) {
                continue;
            }
            found.push(schema);
            for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
                if let Some(reference) = schema.get(keyword).and_then(Value::as_str) {
                    stack.extend(self.references.targets(reference));
                }
            }
            for keyword in ["allOf", "anyOf", "oneOf"] {
                stack.extend(schema.get(keyword).and_then(Value::as_array).into_iter().flatten());
            }
        }
        found
    }

    /// Visits a value to which `schemas` may apply.
    fn visit(&mut self, value: &mut Value, schemas: &[&'s Value], depth: usize) {
        let Some(depth) = depth.checked_sub(1) else { return };
        match value {
            Value::Object(map) => {
                if self.action == Action::RenameKeys && schemas.iter().all(|schema| is_closed(schema)) {
                    self.rename_keys(map, schemas);
                }
                for (key, value) in map {
                    let schemas = self.applicable(schemas_of_key(schemas, key));
                    self.below(key, |walk| walk.visit(value, &schemas, depth));
                }
            }
            Value::Array(items) => {
                let listed = listed_items(schemas);
                let rest = self.applicable(schemas_of_item(schemas, None));
                for (index, item) in items.iter_mut().enumerate() {
                    let own =
                        (index < listed).then(|| self.applicable(schemas_of_item(schemas, Some(index))));
                    let schemas = own.as_ref().unwrap_or(&rest);
                    if !schemas.is_empty() {
                        self.below(&index.to_string(), |walk| walk.visit(item, schemas, depth));
                    }
                }
            }
            Value::Number(number)
                if self.action == Action::RemoveFractions
                    && schemas.iter().any(|schema| has_type(schema, "integer"))
                    && !schemas.iter().any(|schema| has_type(schema, "number")) =>
            {
                if let Some(integer) = without_fraction(number) {
                    *value = Value::Number(integer);
                    self.record(RepairKind::RemovedFraction);
                }
            }
            _ => {}
        }
    }

    /// Renames an unknown key that differs from one missing property only in case, `_` and `-`, if no other key
    /// does. The keys keep their order.
    fn rename_keys(&mut self, map: &mut Map<String, Value>, schemas: &[&Value]) {
        // The properties and the number of keys, by folded name.
        let mut similar: HashMap<String, (Vec<&String>, usize)> = HashMap::new();
        let properties =
            schemas.iter().filter_map(|schema| schema.get("properties").and_then(Value::as_object));
        for name in properties.flat_map(Map::keys) {
            let (names, _) = similar.entry(fold(name)).or_default();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        for key in map.keys() {
            similar.entry(fold(key)).and_modify(|(_, keys)| *keys += 1);
        }
        let renamed = std::mem::take(map).into_iter().map(|(key, value)| {
            match similar.get(&fold(&key)).map(|(names, keys)| (names.as_slice(), keys)) {
                Some(([known], 1)) if **known != key => {
                    self.below(known, |walk| walk.record(RepairKind::RenamedKey { found: key }));
                    ((*known).clone(), value)
                }
                _ => (key, value),
            }
        });
        *map = renamed.collect();
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

fn is_closed(schema: &Value) -> bool {
    schema.get("additionalProperties").is_none_or(|rest| rest == false)
        && schema.get("patternProperties").is_none()
}

fn has_type(schema: &Value, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(own)) => own == name,
        Some(Value::Array(names)) => names.iter().any(|own| own == name),
        _ => false,
    }
}

/// Returns a key without case, `_` and `-`.
fn fold(key: &str) -> String {
    key.chars().filter(|character| !matches!(character, '_' | '-')).flat_map(char::to_lowercase).collect()
}
