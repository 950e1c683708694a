//! Estimates how many schemas a validator evaluates for a value, before it does.
//!
//! A validator evaluates a definition once for every path of references that leads to it. When references
//! share definitions, the number of paths can double at every step: sixty-four small definitions can take
//! years to evaluate. Counting the paths is fast, because each pair of schema and value is counted only once.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::reference::References;

/// If a schema needs at most this many evaluations whatever the value, they are not counted for each value.
const MAX_UNCOUNTED_EVALUATIONS: u64 = 10_000;

/// The maximum number of schemas that may apply to the same value, counted once for each path of references.
pub const MAX_SCHEMAS_PER_VALUE: u64 = 20_000;

/// The maximum number of counting steps, which limits the memory for the counts. If it is exceeded, the count
/// is `u64::MAX`.
const MAX_STEPS: usize = 900_000;

/// The maximum memory for the paths and URIs that the validator stores for each schema.
const MAX_PATH_BYTES: usize = 50_000_000;

/// The maximum depth of counting. If it is reached, the count is `u64::MAX`.
const MAX_DEPTH: usize = 600;

/// If the paths through the references of a recursive schema have at most this many schemas, the evaluations
/// are not counted for each value.
const MAX_UNFOLDED: u64 = 4_000;

/// The maximum number of references on a path.
const MAX_PATH_REFERENCES: usize = 100;

/// The growth of the number of evaluations of a schema.
#[derive(Debug)]
pub(crate) enum EvaluationCost {
    /// It grows only with the size of the value: at most `width` schemas apply to each value in it.
    Linear { width: u64 },
    /// It grows with the number of paths that the value takes through the references of the schema.
    ByReferences {
        /// The number of schemas that are evaluated for each part of the value to decide whether it matches;
        /// `None` if it is large. The validator caches which values match the target of a recursive
        /// reference.
        remembered: Option<u64>,
    },
    /// More than [`MAX_SCHEMAS_PER_VALUE`] schemas apply to one value, or the names in the schema are too
    /// long.
    TooComplex,
}

impl EvaluationCost {
    pub(crate) fn of(schema: &Value) -> EvaluationCost {
        let mut counter = Counter::new(schema);
        if counter.references.max_path_bytes() > MAX_PATH_BYTES {
            return EvaluationCost::TooComplex;
        }
        let width = counter.max_in_place();
        if !counter.multiplies {
            return EvaluationCost::Linear { width };
        }
        if width > MAX_SCHEMAS_PER_VALUE {
            return EvaluationCost::TooComplex;
        }
        match counter.count(schema, None) {
            0..=MAX_UNCOUNTED_EVALUATIONS => EvaluationCost::Linear { width },
            _ => EvaluationCost::ByReferences { remembered: Unfolding::size(&counter.references) },
        }
    }

    /// Whether at most `max` schemas, approximately, are evaluated to find out whether `value` matches
    /// `schema`.
    pub(crate) fn is_decided_within(&self, max: u64, schema: &Value, value: &Value) -> bool {
        match self {
            EvaluationCost::Linear { .. } => true,
            EvaluationCost::ByReferences { remembered } => {
                remembered.is_some_and(|per_value| count_values(value).saturating_mul(per_value) <= max)
                    || self.evaluations(schema, value) <= max
            }
            EvaluationCost::TooComplex => false,
        }
    }

    /// Returns the approximate number of schemas that are evaluated to collect the errors of `value`; if the
    /// cost is linear, the number of values in it. `u64::MAX` means that there are too many to count.
    pub(crate) fn evaluations(&self, schema: &Value, value: &Value) -> u64 {
        match self {
            EvaluationCost::Linear { .. } => count_values(value),
            EvaluationCost::ByReferences { .. } => Counter::new(schema).count(schema, Some(value)),
            EvaluationCost::TooComplex => u64::MAX,
        }
    }
}

/// Like [`EvaluationCost::evaluations`], for a part of a schema.
pub(crate) fn evaluations_of_part<'r>(root: &'r Value, part: &'r Value, value: &Value) -> u64 {
    Counter::new(root).count(part, Some(value))
}

pub(crate) fn count_values(value: &Value) -> u64 {
    match value {
        Value::Array(items) => 1 + items.iter().map(count_values).sum::<u64>(),
        Value::Object(map) => 1 + map.values().map(count_values).sum::<u64>(),
        _ => 1,
    }
}

/// Follows all references until they lead back to a schema on the current path. Every such cycle has a
/// reference whose results the validator caches, so the schemas on one path are evaluated at most once for
/// each start of the path.
struct Unfolding<'r> {
    references: &'r References<'r>,
    /// The targets of the references on the current path.
    path: Vec<usize>,
    /// The targets of all references. A path starts at each of them.
    starts: Vec<&'r Value>,
    schemas: u64,
}

impl<'r> Unfolding<'r> {
    /// Returns the number of schemas on all paths; `None` if there are too many, or if a keyword evaluates
    /// others again.
    fn size(references: &'r References<'r>) -> Option<u64> {
        let starts = vec![references.root()];
        let mut unfolding = Unfolding { references, path: Vec::new(), starts, schemas: 0 };
        let mut next = 0;
        while let Some(start) = unfolding.starts.get(next).copied() {
            next += 1;
            unfolding.follow(start)?;
        }
        Some(unfolding.schemas)
    }

    fn follow(&mut self, target: &'r Value) -> Option<()> {
        if self.path.contains(&address(target)) {
            return Some(());
        }
        if !self.starts.iter().any(|start| std::ptr::eq(*start, target)) {
            self.starts.push(target);
        }
        self.path.push(address(target));
        self.add(target)?;
        self.path.pop();
        Some(())
    }

    fn add(&mut self, schema: &'r Value) -> Option<()> {
        self.schemas += 1;
        if self.schemas > MAX_UNFOLDED || self.path.len() > MAX_PATH_REFERENCES {
            return None;
        }
        for (keyword, operand) in schema.as_object().into_iter().flatten() {
            match (keyword.as_str(), operand) {
                ("$ref", Value::String(reference)) => match self.references.targets(reference)[..] {
                    [target] => self.follow(target)?,
                    _ => return None,
                },
                ("$dynamicRef" | "$recursiveRef" | "unevaluatedProperties" | "unevaluatedItems", _) => {
                    return None;
                }
                ("$id" | "id", _) if !std::ptr::eq(schema, self.references.root()) => return None,
                ("$defs" | "definitions" | "enum" | "const" | "default" | "examples", _) => {}
                (
                    "properties" | "patternProperties" | "dependentSchemas" | "dependencies",
                    Value::Object(schemas),
                ) => schemas.values().try_for_each(|schema| self.add(schema))?,
                (_, Value::Array(schemas)) => schemas.iter().try_for_each(|schema| self.add(schema))?,
                (_, Value::Object(_)) => self.add(operand)?,
                _ => {}
            }
        }
        Some(())
    }
}

struct Counter<'r> {
    references: References<'r>,
    /// Counts by the addresses of schema and value.
    counted: HashMap<(usize, usize), u64>,
    /// Whether a keyword was counted that makes the number of evaluations grow faster than the schema.
    multiplies: bool,
    steps: usize,
    depth: usize,
}

fn address<T>(of: &T) -> usize {
    std::ptr::from_ref(of) as usize
}

impl<'r> Counter<'r> {
    fn new(root: &'r Value) -> Counter<'r> {
        let references = References::of(root);
        Counter { references, counted: HashMap::new(), multiplies: false, steps: 0, depth: 0 }
    }

    /// Returns the largest number of schemas that apply to the same value.
    fn max_in_place(&mut self) -> u64 {
        // No schema for properties or items applies to `null`.
        let value = Value::Null;
        let mut max = 1;
        let mut stack = vec![self.references.root()];
        while let Some(node) = stack.pop() {
            match node {
                Value::Object(map) => {
                    max = max.max(self.count(node, Some(&value)));
                    stack.extend(map.values());
                }
                Value::Array(items) => stack.extend(items),
                _ => {}
            }
        }
        max
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
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                self.multiplies = true;
                let targets = self.references.targets(reference);
                self.steps += targets.len() + self.references.searched_resources(reference);
                self.count_all(targets, value)
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
                self.multiplies = true;
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
