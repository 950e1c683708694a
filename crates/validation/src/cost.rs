//! Estimates how many schemas a validator evaluates for a value, before it does.
//!
//! A validator evaluates a definition once for every path of references that leads to it. When references
//! share definitions, the number of paths can double at every step: sixty-four small definitions can take
//! years to evaluate. Counting the paths is fast, because each pair of schema and value is counted only once.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::reference::reference_target;

/// If a schema needs at most this many evaluations whatever the value, they are not counted for each value.
const MAX_UNCOUNTED_EVALUATIONS: u64 = 10_000;

/// The maximum number of schemas that may apply to the same value, counted once for each path of references.
pub const MAX_SCHEMAS_PER_VALUE: u64 = 20_000;

/// The maximum number of counting steps. If it is exceeded, the count is `u64::MAX`.
const MAX_STEPS: usize = 2_000_000;

/// The maximum depth of counting. If it is reached, the count is `u64::MAX`.
const MAX_DEPTH: usize = 600;

/// The keywords that refer to another schema.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// The growth of the number of evaluations of a schema.
#[derive(Debug)]
pub(crate) enum EvaluationCost {
    /// It grows only with the size of the value.
    Linear,
    /// It grows with the number of paths that the value takes through the references of the schema.
    ByReferences(ReferenceIndex),
    /// More than [`MAX_SCHEMAS_PER_VALUE`] schemas apply to one value.
    TooComplex,
}

/// JSON pointers to the schemas that references can name by an anchor or an `$id`.
#[derive(Debug, Default)]
pub(crate) struct ReferenceIndex {
    anchors: HashMap<String, Vec<String>>,
    resources: Vec<(String, String)>,
}

impl EvaluationCost {
    pub(crate) fn of(schema: &Value) -> EvaluationCost {
        let mut index = ReferenceIndex::default();
        if !index.collect(schema) {
            return EvaluationCost::Linear;
        }
        if exceeds_in_place_limit(schema, &index) {
            return EvaluationCost::TooComplex;
        }
        match Counter::new(schema, &index).count(schema, None) {
            0..=MAX_UNCOUNTED_EVALUATIONS => EvaluationCost::Linear,
            _ => EvaluationCost::ByReferences(index),
        }
    }

    /// Returns the approximate number of schemas that are evaluated to validate `value` against `schema`;
    /// `u64::MAX` if there are too many to count.
    pub(crate) fn evaluations(&self, schema: &Value, value: &Value) -> u64 {
        match self {
            EvaluationCost::Linear => count_values(value),
            EvaluationCost::ByReferences(index) => Counter::new(schema, index).count(schema, Some(value)),
            EvaluationCost::TooComplex => u64::MAX,
        }
    }
}

/// Whether too many schemas apply to the same value somewhere in the schema.
fn exceeds_in_place_limit(root: &Value, index: &ReferenceIndex) -> bool {
    // No schema for properties or items applies to `null`.
    let value = Value::Null;
    let mut counter = Counter::new(root, index);
    let mut stack = vec![root];
    while let Some(node) = stack.pop() {
        match node {
            Value::Object(map) => {
                if counter.count(node, Some(&value)) > MAX_SCHEMAS_PER_VALUE {
                    return true;
                }
                stack.extend(map.values());
            }
            Value::Array(items) => stack.extend(items),
            _ => {}
        }
    }
    false
}

fn count_values(value: &Value) -> u64 {
    match value {
        Value::Array(items) => 1 + items.iter().map(count_values).sum::<u64>(),
        Value::Object(map) => 1 + map.values().map(count_values).sum::<u64>(),
        _ => 1,
    }
}

impl ReferenceIndex {
    /// Adds the anchors and `$id`s of a schema. Returns whether it has any reference.
    fn collect(&mut self, root: &Value) -> bool {
        let mut has_references = false;
        let mut stack = vec![(root, String::new())];
        while let Some((node, pointer)) = stack.pop() {
            match node {
                Value::Object(map) => {
                    for keyword in ["$anchor", "$dynamicAnchor"] {
                        if let Some(Value::String(name)) = map.get(keyword) {
                            self.anchors.entry(name.clone()).or_default().push(pointer.clone());
                        }
                    }
                    // Draft 4 names it `id`.
                    if let Some(Value::String(id)) = map.get("$id").or_else(|| map.get("id")) {
                        self.resources.push((id.trim_end_matches('#').to_owned(), pointer.clone()));
                    }
                    has_references |= REFERENCES.iter().any(|keyword| map.contains_key(*keyword));
                    for (key, value) in map.iter().filter(|(_, value)| value.is_object() || value.is_array())
                    {
                        let segment = key.replace('~', "~0").replace('/', "~1");
                        stack.push((value, format!("{pointer}/{segment}")));
                    }
                }
                Value::Array(items) => {
                    let items = items.iter().enumerate();
                    stack.extend(items.map(|(index, item)| (item, format!("{pointer}/{index}"))));
                }
                _ => {}
            }
        }
        has_references
    }

    /// Returns every schema that a reference may point to.
    fn targets<'r>(&self, reference: &str, root: &'r Value) -> Vec<&'r Value> {
        if let Some(target) = reference_target(reference, root) {
            return vec![target];
        }
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let schema_at = |pointer: &String| root.pointer(pointer);
        if uri.is_empty() {
            return self.anchors.get(fragment).into_iter().flatten().filter_map(schema_at).collect();
        }
        let resources =
            self.resources.iter().filter(|(id, _)| id.ends_with(uri) || uri.ends_with(id.as_str()));
        resources
            .filter_map(|(_, pointer)| schema_at(pointer))
            .flat_map(|resource| match reference_target(&format!("#{fragment}"), resource) {
                Some(target) => vec![target],
                None => self.anchors.get(fragment).into_iter().flatten().filter_map(schema_at).collect(),
            })
            .collect()
    }
}

struct Counter<'r, 'n> {
    root: &'r Value,
    index: &'n ReferenceIndex,
    /// Counts by the addresses of schema and value.
    counted: HashMap<(usize, usize), u64>,
    steps: usize,
    depth: usize,
}

fn address<T>(of: &T) -> usize {
    std::ptr::from_ref(of) as usize
}

impl<'r, 'n> Counter<'r, 'n> {
    fn new(root: &'r Value, index: &'n ReferenceIndex) -> Counter<'r, 'n> {
        Counter { root, index, counted: HashMap::new(), steps: 0, depth: 0 }
    }

    /// Returns how many schemas are evaluated for `value`; without a value, for one that has every property
    /// and item that the schema describes.
    fn count(&mut self, schema: &'r Value, value: Option<&Value>) -> u64 {
        let Value::Object(members) = schema else { return 1 };
        let key = (address(schema), value.map_or(0, address));
        if let Some(count) = self.counted.get(&key) {
            return *count;
        }
        self.steps += 1;
        if self.steps > MAX_STEPS || self.depth == MAX_DEPTH {
            return u64::MAX;
        }
        self.depth += 1;
        // Without a value, a reference cycle never ends. With a value it does: the validator detects it.
        self.counted.insert(key, if value.is_none() { u64::MAX } else { 1 });
        let mut count: u64 = 1;
        for (keyword, operand) in members {
            count = count.saturating_add(self.count_keyword(members, keyword, operand, value));
        }
        self.depth -= 1;
        self.counted.insert(key, count);
        count
    }

    fn count_all(&mut self, schemas: impl IntoIterator<Item = &'r Value>, value: Option<&Value>) -> u64 {
        schemas.into_iter().fold(0, |sum: u64, schema| sum.saturating_add(self.count(schema, value)))
    }

    fn count_keyword(
        &mut self,
        members: &'r Map<String, Value>,
        keyword: &str,
        operand: &'r Value,
        value: Option<&Value>,
    ) -> u64 {
        match (keyword, operand) {
            (keyword, Value::String(reference)) if REFERENCES.contains(&keyword) => {
                self.count_all(self.index.targets(reference, self.root), value)
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(parts)) => self.count_all(parts, value),
            ("not" | "if" | "then" | "else", schema) => self.count(schema, value),
            ("dependentSchemas" | "dependencies", Value::Object(schemas)) => {
                self.count_all(schemas.values(), value)
            }
            ("properties", Value::Object(schemas)) => match value {
                None => self.count_all(schemas.values(), None),
                Some(Value::Object(map)) => map
                    .iter()
                    .filter_map(|(key, value)| Some((schemas.get(key)?, value)))
                    .fold(0, |sum: u64, (schema, value)| sum.saturating_add(self.count(schema, Some(value)))),
                Some(_) => 0,
            },
            ("patternProperties", Value::Object(schemas)) => schemas
                .values()
                .fold(0, |sum: u64, schema| sum.saturating_add(self.count_children(schema, value))),
            ("prefixItems", Value::Array(positions)) | ("items", Value::Array(positions)) => match value {
                None => self.count_all(positions, None),
                Some(Value::Array(items)) => positions
                    .iter()
                    .zip(items)
                    .fold(0, |sum: u64, (schema, item)| sum.saturating_add(self.count(schema, Some(item)))),
                Some(_) => 0,
            },
            ("unevaluatedProperties" | "unevaluatedItems", schema) => {
                // To find out what was evaluated, the validator evaluates the neighbouring keywords again.
                let neighbours: Vec<&'r Value> = members
                    .iter()
                    .filter(|(key, _)| matches!(key.as_str(), "allOf" | "anyOf" | "oneOf"))
                    .flat_map(|(_, parts)| parts.as_array().map_or(&[][..], Vec::as_slice))
                    .collect();
                self.count_all(neighbours, value).saturating_add(self.count_children(schema, value))
            }
            ("additionalProperties" | "items" | "additionalItems" | "contains" | "propertyNames", schema) => {
                self.count_children(schema, value)
            }
            _ => 0,
        }
    }

    /// Returns the count for every item or property of `value`.
    fn count_children(&mut self, schema: &'r Value, value: Option<&Value>) -> u64 {
        match value {
            None => self.count(schema, None),
            Some(Value::Array(items)) => {
                items.iter().fold(0, |sum: u64, item| sum.saturating_add(self.count(schema, Some(item))))
            }
            Some(Value::Object(map)) => {
                map.values().fold(0, |sum: u64, item| sum.saturating_add(self.count(schema, Some(item))))
            }
            Some(_) => 0,
        }
    }
}
