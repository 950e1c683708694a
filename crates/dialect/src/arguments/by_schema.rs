//! Repairs that follow from the schema: wrapped arguments, keys in another spelling, and integers with a
//! fraction of zeros or an exponent.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value};
use toolwire_contract::text::unescape_pointer_segment;
use toolwire_validation::References;

use super::lenient_json;
use super::quick_match::is_same;
use super::repair::{Repair, RepairKind};
use super::replacement::{is_plain_integer, without_fraction};
use crate::json::push_segment;

/// Keys under which models wrap the arguments of a call.
const WRAPPERS: [&str; 4] = ["arguments", "input", "parameters", "args"];

/// The maximum number of schemas that are considered for one value.
const MAX_SCHEMAS: usize = 64;

/// The maximum depth of nested values that are repaired.
const MAX_DEPTH: usize = 64;

/// Unwraps the arguments and renames keys, except to the properties at the pointers in `except`. If the
/// arguments were not `rejected`, objects that allow other keys stay as they are.
pub(super) fn use_known_keys(
    value: &mut Value,
    schema: &Value,
    except: &BTreeSet<String>,
    rejected: bool,
    repairs: &mut Vec<Repair>,
) {
    let mut walk = Walk::new(schema, Action::RenameKeys { except }, repairs);
    if let Some((key, inner)) = walk.wrapped_arguments(value, rejected) {
        walk.record(RepairKind::Unwrapped { key });
        *value = inner;
    }
    walk.run(value);
}

/// Writes integers without fractions of zeros and exponents.
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

/// Removes the pointers to entries of maps, which are not optional properties.
pub(super) fn remove_map_entries(pointers: &mut BTreeSet<String>, schema: &Value) {
    if !pointers.is_empty() {
        let walk_repairs = &mut Vec::new();
        let walk = Walk::new(schema, Action::RemoveFractions, walk_repairs);
        pointers.retain(|pointer| !walk.is_map_entry(pointer));
    }
}

/// Whether arguments may be wrapped, by their only key.
pub(super) fn only_wrapper(arguments: &Value) -> Option<(&String, &Value)> {
    let arguments = arguments.as_object().filter(|arguments| arguments.len() == 1)?;
    arguments.iter().next().filter(|(key, _)| WRAPPERS.contains(&key.as_str()))
}

#[derive(Clone, Copy)]
enum Action<'a> {
    RenameKeys { except: &'a BTreeSet<String> },
    RemoveFractions,
}

struct Walk<'s, 'a> {
    references: References<'s>,
    action: Action<'a>,
    pointer: String,
    repairs: &'a mut Vec<Repair>,
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

impl<'s, 'a> Walk<'s, 'a> {
    fn new(schema: &'s Value, action: Action<'a>, repairs: &'a mut Vec<Repair>) -> Walk<'s, 'a> {
        Walk { references: References::of(schema), action, pointer: String::new(), repairs }
    }

    fn run(mut self, value: &mut Value) {
        let schemas = self.applicable([self.references.root()]);
        self.visit(value, &schemas, MAX_DEPTH);
    }

    /// Returns arguments that are the only value of an object, and their key, which the tool does not have.
    fn wrapped_arguments(&self, arguments: &Value, rejected: bool) -> Option<(String, Value)> {
        let (key, wrapped) = only_wrapper(arguments)?;
        let schemas = self.applicable([self.references.root()]);
        if !rejected && !are_closed(&schemas) {
            return None;
        }
        let known: HashSet<String> = property_names(&schemas).map(|name| fold(name)).collect();
        let inner = wrapped.as_str().and_then(lenient_json::parse_any).unwrap_or_else(|| wrapped.clone());
        let keys = inner.as_object()?;
        let is_known = keys.is_empty() || keys.keys().any(|key| known.contains(&fold(key)));
        (is_known && !known.contains(key)).then(|| (key.clone(), inner))
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
            stack.extend(["if", "then", "else"].into_iter().filter_map(|keyword| schema.get(keyword)));
            let dependent = schema.get("dependentSchemas").and_then(Value::as_object);
            stack.extend(dependent.into_iter().flat_map(Map::values));
        }
        found
    }

    /// Whether a value is not a listed property, but has a schema for other properties.
    fn is_map_entry(&self, pointer: &str) -> bool {
        let Some((parent, name)) = pointer.rsplit_once('/') else { return false };
        let mut schemas = self.applicable([self.references.root()]);
        for segment in parent.split('/').skip(1) {
            let key = unescape_pointer_segment(segment);
            let mut below = schemas_of_key(&schemas, &key);
            below.extend(key.parse().into_iter().flat_map(|index| schemas_of_item(&schemas, Some(index))));
            schemas = self.applicable(below);
        }
        let name = unescape_pointer_segment(name);
        let is_listed = |schema: &&Value| {
            schema.get("properties").and_then(|properties| properties.get(name.as_ref())).is_some()
        };
        !schemas.iter().any(is_listed) && schemas_of_key(&schemas, &name).into_iter().any(Value::is_object)
    }

    /// Visits a value to which `schemas` may apply.
    fn visit(&mut self, value: &mut Value, schemas: &[&'s Value], depth: usize) {
        let Some(depth) = depth.checked_sub(1) else { return };
        match value {
            Value::Object(map) => {
                if let Action::RenameKeys { except } = self.action
                    && are_closed(schemas)
                {
                    self.rename_keys(map, schemas, except);
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
            Value::Number(_)
                if matches!(self.action, Action::RemoveFractions) && is_integer(value, schemas) =>
            {
                if let Value::Number(number) = value
                    && let Some(integer) = without_fraction(number)
                {
                    *number = integer;
                    self.record(RepairKind::RemovedFraction);
                }
            }
            _ => {}
        }
    }

    /// Renames an unknown key that differs from one missing property only in case, `_` and `-`, if no other
    /// key does. The keys keep their order.
    fn rename_keys(&mut self, map: &mut Map<String, Value>, schemas: &[&Value], except: &BTreeSet<String>) {
        // The properties and the number of keys, by folded name.
        let mut similar: HashMap<String, (Vec<&String>, usize)> = HashMap::new();
        for name in property_names(schemas) {
            let (names, _) = similar.entry(fold(name)).or_default();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        for key in map.keys() {
            similar.entry(fold(key)).and_modify(|(_, keys)| *keys += 1);
        }
        let known_name = |key: &String| match similar.get(&fold(key)) {
            Some((names, 1)) if names.len() == 1 && names[0] != key => Some(names[0]),
            _ => None,
        };
        let renamed = std::mem::take(map).into_iter().map(|(key, value)| {
            let Some(known) = known_name(&key) else { return (key, value) };
            self.below(known, |walk| {
                if except.contains(&walk.pointer) {
                    return (key, value);
                }
                walk.record(RepairKind::RenamedKey { found: key });
                (known.clone(), value)
            })
        });
        *map = renamed.collect();
    }

    fn record(&mut self, kind: RepairKind) {
        self.repairs.push(Repair { pointer: self.pointer.clone(), kind });
    }

    fn below<T>(&mut self, key: &str, visit: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.pointer.len();
        self.pointer.push('/');
        push_segment(key, &mut self.pointer);
        let result = visit(self);
        self.pointer.truncate(length);
        result
    }
}

fn property_names<'s>(schemas: &[&'s Value]) -> impl Iterator<Item = &'s String> {
    schemas.iter().filter_map(|schema| schema.get("properties")?.as_object()).flat_map(Map::keys)
}

/// Whether objects to which `schemas` apply should have only listed properties: no schema allows others
/// explicitly.
fn are_closed(schemas: &[&Value]) -> bool {
    let is_closed = |schema: &&Value| {
        let forbids = |keyword| schema.get(keyword).is_none_or(|rest| rest == false);
        let branches = ["anyOf", "oneOf"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_array());
        forbids("additionalProperties")
            && forbids("unevaluatedProperties")
            && schema.get("patternProperties").is_none()
            && !branches.flatten().any(is_free_form)
    };
    schemas.iter().all(is_closed)
}

/// Whether an alternative accepts every object.
fn is_free_form(schema: &Value) -> bool {
    let Value::Object(keywords) = schema else { return schema == true };
    let is_allowed = |keyword: &String| {
        matches!(keyword.as_str(), "type" | "title" | "description" | "default" | "examples")
    };
    keywords.keys().all(is_allowed) && (!keywords.contains_key("type") || has_type(schema, "object"))
}

/// Whether schemas require an integer, or list one that is equal to the number.
fn is_integer(number: &Value, schemas: &[&Value]) -> bool {
    let is_listed = |schema: &&Value| {
        let values = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
        let is_equal = |listed: &Value| {
            matches!(listed, Value::Number(listed) if is_plain_integer(listed)) && is_same(listed, number)
        };
        values.chain(schema.get("const")).any(is_equal)
    };
    let accepts = |name| schemas.iter().any(|schema| has_type(schema, name));
    accepts("integer") && !accepts("number") || schemas.iter().any(is_listed)
}

fn has_type(schema: &Value, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(own)) => own == name,
        Some(Value::Array(names)) => names.iter().any(|own| own == name),
        _ => false,
    }
}

/// Returns a key without case, `_` and `-`.
pub(super) fn fold(key: &str) -> String {
    key.chars().filter(|character| !matches!(character, '_' | '-')).flat_map(char::to_lowercase).collect()
}
