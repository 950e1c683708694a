//! How much work it is to hold a value against a schema, found out before the work is done.
//!
//! A validator evaluates a definition once for every way that leads to it. Where references share definitions, the ways
//! can double at every step: sixty-four small definitions are enough to keep it busy for years. Counting the ways is
//! quick all the same, since equal questions have equal answers.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::fits::resolve;

/// Ways beyond which a schema is looked at anew for every value.
const FEW: u64 = 10_000;

/// Steps of counting after which the answer is "too many".
const MOST_STEPS: usize = 2_000_000;

/// As deep as it is counted: what is deeper is as good as endless.
const DEEPEST: usize = 600;

/// The work that schemas of one tool are.
#[derive(Debug)]
pub(crate) enum Effort {
    /// Whatever the value, it grows with the value alone.
    Plain,
    /// Depends on how the value leads through the references of this schema.
    Tangled { root: Value, names: Names },
}

/// Where references by name lead: every place that might be meant, by pointer.
#[derive(Debug, Default)]
pub(crate) struct Names {
    anchors: HashMap<String, Vec<String>>,
    resources: Vec<(String, String)>,
}

impl Effort {
    pub(crate) fn of(root: &Value) -> Effort {
        let mut names = Names::default();
        if !names.collect(root) {
            return Effort::Plain;
        }
        let ways = Counting::new(root, &names).ways(root, None);
        if ways <= FEW { Effort::Plain } else { Effort::Tangled { root: root.clone(), names } }
    }

    /// About how many schemas are evaluated when `value` is held against the schema; the largest number stands for
    /// "too many to count".
    pub(crate) fn for_value(&self, value: &Value) -> u64 {
        match self {
            Effort::Plain => nodes(value),
            Effort::Tangled { root, names } => Counting::new(root, names).ways(root, Some(value)),
        }
    }
}

fn nodes(value: &Value) -> u64 {
    match value {
        Value::Array(items) => 1 + items.iter().map(nodes).sum::<u64>(),
        Value::Object(map) => 1 + map.values().map(nodes).sum::<u64>(),
        _ => 1,
    }
}

impl Names {
    /// Looks for names; whether there is any reference at all.
    fn collect(&mut self, root: &Value) -> bool {
        let mut referring = false;
        let mut stack = vec![(root, String::new())];
        while let Some((node, pointer)) = stack.pop() {
            match node {
                Value::Object(map) => {
                    for keyword in ["$anchor", "$dynamicAnchor"] {
                        if let Some(Value::String(name)) = map.get(keyword) {
                            self.anchors.entry(name.clone()).or_default().push(pointer.clone());
                        }
                    }
                    if let Some(Value::String(id)) = map.get("$id") {
                        self.resources.push((id.trim_end_matches('#').to_owned(), pointer.clone()));
                    }
                    referring |= map.get("$ref").or_else(|| map.get("$dynamicRef")).is_some();
                    for (key, value) in map.iter().filter(|(_, value)| value.is_object() || value.is_array())
                    {
                        let mut below = format!("{pointer}/");
                        crate::json::escape_segment(key, &mut below);
                        stack.push((value, below));
                    }
                }
                Value::Array(items) => {
                    stack.extend(
                        items.iter().enumerate().map(|(index, item)| (item, format!("{pointer}/{index}"))),
                    );
                }
                _ => {}
            }
        }
        referring
    }

    /// Everything a reference may mean.
    fn targets<'r>(&self, reference: &str, root: &'r Value) -> Vec<&'r Value> {
        if let Some(target) = resolve(reference, root) {
            return vec![target];
        }
        let (address, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let at = |pointer: &String| root.pointer(pointer);
        if address.is_empty() {
            return self.anchors.get(fragment).into_iter().flatten().filter_map(at).collect();
        }
        let resources =
            self.resources.iter().filter(|(id, _)| id.ends_with(address) || address.ends_with(id.as_str()));
        resources
            .filter_map(|(_, pointer)| at(pointer))
            .flat_map(|resource| match resolve(&format!("#{fragment}"), resource) {
                Some(target) => vec![target],
                None => self.anchors.get(fragment).into_iter().flatten().filter_map(at).collect(),
            })
            .collect()
    }
}

struct Counting<'r, 'n> {
    root: &'r Value,
    names: &'n Names,
    /// By schema and value, each known by its place in memory.
    known: HashMap<(usize, usize), u64>,
    steps: usize,
    depth: usize,
}

fn place<T>(of: &T) -> usize {
    std::ptr::from_ref(of) as usize
}

impl<'r, 'n> Counting<'r, 'n> {
    fn new(root: &'r Value, names: &'n Names) -> Counting<'r, 'n> {
        Counting { root, names, known: HashMap::new(), steps: 0, depth: 0 }
    }

    /// How many schemas are evaluated for `value`; without one, for a value that goes everywhere the schema does.
    fn ways(&mut self, schema: &'r Value, value: Option<&Value>) -> u64 {
        let Value::Object(members) = schema else { return 1 };
        let question = (place(schema), value.map_or(0, place));
        if let Some(known) = self.known.get(&question) {
            return *known;
        }
        self.steps += 1;
        if self.steps > MOST_STEPS || self.depth == DEEPEST {
            return u64::MAX;
        }
        self.depth += 1;
        // A circle without a value never ends; with one it does, since a validator notices it.
        self.known.insert(question, if value.is_none() { u64::MAX } else { 1 });
        let mut ways: u64 = 1;
        for (keyword, below) in members {
            ways = ways.saturating_add(self.keyword(members, keyword, below, value));
        }
        self.depth -= 1;
        self.known.insert(question, ways);
        ways
    }

    fn each(&mut self, schemas: impl IntoIterator<Item = &'r Value>, value: Option<&Value>) -> u64 {
        schemas.into_iter().fold(0, |sum: u64, schema| sum.saturating_add(self.ways(schema, value)))
    }

    fn keyword(
        &mut self,
        members: &'r Map<String, Value>,
        keyword: &str,
        below: &'r Value,
        value: Option<&Value>,
    ) -> u64 {
        match (keyword, below) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                self.each(self.names.targets(reference, self.root), value)
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(parts)) => self.each(parts, value),
            ("not" | "if" | "then" | "else", schema) => self.ways(schema, value),
            ("dependentSchemas" | "dependencies", Value::Object(schemas)) => {
                self.each(schemas.values(), value)
            }
            ("properties", Value::Object(schemas)) => match value {
                None => self.each(schemas.values(), None),
                Some(Value::Object(map)) => map
                    .iter()
                    .filter_map(|(key, value)| Some((schemas.get(key)?, value)))
                    .fold(0, |sum: u64, (schema, value)| sum.saturating_add(self.ways(schema, Some(value)))),
                Some(_) => 0,
            },
            ("patternProperties", Value::Object(schemas)) => {
                schemas.values().fold(0, |sum: u64, schema| sum.saturating_add(self.inside(schema, value)))
            }
            ("prefixItems", Value::Array(positions)) | ("items", Value::Array(positions)) => match value {
                None => self.each(positions, None),
                Some(Value::Array(items)) => positions
                    .iter()
                    .zip(items)
                    .fold(0, |sum: u64, (schema, item)| sum.saturating_add(self.ways(schema, Some(item)))),
                Some(_) => 0,
            },
            ("unevaluatedProperties" | "unevaluatedItems", schema) => {
                // What was evaluated is found out by evaluating everything beside it once more.
                let beside: Vec<&'r Value> = members
                    .iter()
                    .filter(|(key, _)| matches!(key.as_str(), "allOf" | "anyOf" | "oneOf"))
                    .flat_map(|(_, parts)| parts.as_array().map_or(&[][..], Vec::as_slice))
                    .collect();
                self.each(beside, value).saturating_add(self.inside(schema, value))
            }
            ("additionalProperties" | "items" | "additionalItems" | "contains" | "propertyNames", schema) => {
                self.inside(schema, value)
            }
            _ => 0,
        }
    }

    /// For everything directly inside `value`.
    fn inside(&mut self, schema: &'r Value, value: Option<&Value>) -> u64 {
        match value {
            None => self.ways(schema, None),
            Some(Value::Array(items)) => {
                items.iter().fold(0, |sum: u64, item| sum.saturating_add(self.ways(schema, Some(item))))
            }
            Some(Value::Object(map)) => {
                map.values().fold(0, |sum: u64, item| sum.saturating_add(self.ways(schema, Some(item))))
            }
            Some(_) => 0,
        }
    }
}
