//! Draws random arguments that are valid for a schema.
//!
//! A draw is a guess based on the keywords, checked by a validator and repeated if it is invalid. An object
//! that lists properties and has no rule for others never gets undeclared keys.

mod number;
mod text;

use jsonschema::Validator;
use serde_json::{Map, Value, json};

use super::random::Random;
use super::schema_path;

/// The depth from which a draw prefers values without children.
const LEAF_DEPTH: usize = 5;

/// The depth at which a draw gives up.
const MAX_DEPTH: usize = 14;

/// The maximum number of guesses per draw.
const MAX_GUESSES: usize = 12;

/// Draws arguments for one schema.
pub struct ArgumentSampler {
    root: Value,
    validator: Validator,
}

impl ArgumentSampler {
    /// Returns `None` if `schema` is not a valid schema.
    pub fn new(schema: &Value) -> Option<ArgumentSampler> {
        Some(ArgumentSampler { root: schema.clone(), validator: validator(schema)? })
    }

    pub fn validator(&self) -> &Validator {
        &self.validator
    }

    /// Returns valid arguments, or `None` if no guess was valid.
    pub fn draw(&self, random: &mut Random) -> Option<Value> {
        (0..MAX_GUESSES).find_map(|_| {
            let value = self.guess(random)?;
            (value.is_object() && self.validator.is_valid(&value)).then_some(value)
        })
    }

    fn guess(&self, random: &mut Random) -> Option<Value> {
        let mut guess = Guess { root: &self.root, random, remaining_values: 400 };
        guess.object_root()
    }
}

/// Returns a validator for arguments. It treats `format` as an annotation, as MCP's default dialect of JSON
/// Schema does.
pub fn validator(schema: &Value) -> Option<Validator> {
    let mut options = jsonschema::options();
    if schema.get("$schema").is_none() {
        options = options.with_draft(jsonschema::Draft::Draft202012);
    }
    options.should_validate_formats(false).build(schema).ok()
}

struct Guess<'a> {
    root: &'a Value,
    random: &'a mut Random,
    /// The number of values that may still be created. It limits wide schemas.
    remaining_values: usize,
}

impl Guess<'_> {
    /// Draws the root object. In MCP a root without properties means that there are no arguments.
    fn object_root(&mut self) -> Option<Value> {
        let mut node = self.flattened(self.root, 0)?;
        let is_empty = ["properties", "patternProperties", "additionalProperties", "unevaluatedProperties"]
            .iter()
            .all(|keyword| !node.contains_key(*keyword));
        if is_empty {
            return Some(json!({}));
        }
        node.insert("type".into(), json!("object"));
        self.object(&node, 0)
    }

    fn value(&mut self, schema: &Value, depth: usize) -> Option<Value> {
        if depth > MAX_DEPTH || self.remaining_values == 0 {
            return None;
        }
        self.remaining_values -= 1;
        let node = self.flattened(schema, depth)?;
        if let Some(value) = node.get("const") {
            return Some(value.clone());
        }
        if let Some(values) = node.get("enum").and_then(Value::as_array) {
            return self.listed(&node, values);
        }
        let kinds = kinds(&node);
        for kind in self.kinds_in_order(kinds, depth) {
            let value = match kind {
                "null" => Some(Value::Null),
                "boolean" => Some(Value::Bool(self.random.chance(50))),
                "integer" => number::draw(&node, true, self.random),
                "number" => number::draw(&node, false, self.random),
                "string" => text::draw(&node, self.random),
                "array" => self.array(&node, depth),
                "object" => self.object(&node, depth),
                _ => None,
            };
            if value.is_some() {
                return value;
            }
        }
        None
    }

    /// Returns the types in random order; deep in a draw, types without children come first.
    fn kinds_in_order<'kind>(&mut self, kinds: Vec<&'kind str>, depth: usize) -> Vec<&'kind str> {
        let mut kinds = self.random.shuffled(kinds);
        if depth >= LEAF_DEPTH {
            kinds.sort_by_key(|kind| matches!(*kind, "object" | "array"));
        }
        kinds
    }

    fn listed(&mut self, node: &Map<String, Value>, values: &[Value]) -> Option<Value> {
        let kinds = kinds(node);
        let has_type = node.contains_key("type");
        let matching: Vec<&Value> = values
            .iter()
            .filter(|value| !has_type || kinds.iter().any(|kind| is_kind(value, kind)))
            .collect();
        self.random.pick(&matching).map(|value| (*value).clone())
    }

    fn array(&mut self, node: &Map<String, Value>, depth: usize) -> Option<Value> {
        let min_items = count(node, "minItems").unwrap_or(0);
        let (fixed, rest) = match (node.get("prefixItems"), node.get("items")) {
            (Some(Value::Array(fixed)), rest) => (fixed.as_slice(), rest),
            (None, Some(Value::Array(fixed))) => (fixed.as_slice(), node.get("additionalItems")),
            (_, rest) => (&[][..], rest),
        };
        let mut max_items = count(node, "maxItems").unwrap_or(usize::MAX);
        if rest == Some(&Value::Bool(false)) {
            max_items = max_items.min(fixed.len());
        }
        let length = if depth >= LEAF_DEPTH {
            min_items
        } else {
            min_items.max(fixed.len()).max(self.random.below(4))
        };
        let length = length.clamp(min_items, max_items.max(min_items)).min(2000);
        let any_schema = Value::Bool(true);
        let mut items = Vec::new();
        if let Some(inner) = node.get("contains") {
            items.push(self.value(inner, depth + 1)?);
        }
        while items.len() < length {
            let schema = fixed.get(items.len()).or(rest).unwrap_or(&any_schema);
            match self.value(schema, depth + 1) {
                Some(item) => items.push(item),
                None if items.len() >= min_items => break,
                None => return None,
            }
        }
        if node.get("uniqueItems") == Some(&Value::Bool(true)) {
            let mut unique: Vec<Value> = Vec::new();
            items.into_iter().for_each(|item| {
                if !unique.contains(&item) {
                    unique.push(item);
                }
            });
            items = unique;
        }
        Some(Value::Array(items))
    }

    fn object(&mut self, node: &Map<String, Value>, depth: usize) -> Option<Value> {
        let empty = Map::new();
        let properties = node.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let required: Vec<&str> = node
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let percent = self.random.pick(&[0, 30, 70, 100]).copied().unwrap_or(50);
        let percent = if depth >= LEAF_DEPTH { 0 } else { percent };
        let mut object = Map::new();
        for (name, schema) in properties {
            if required.contains(&name.as_str()) {
                object.insert(name.clone(), self.value(schema, depth + 1)?);
            } else if self.random.chance(percent)
                && let Some(value) = self.value(schema, depth + 1)
            {
                object.insert(name.clone(), value);
            }
        }
        let any_schema = Value::Bool(true);
        let rest = node.get("additionalProperties").or_else(|| node.get("unevaluatedProperties"));
        for name in required {
            if !properties.contains_key(name) {
                let value = self.value(rest.unwrap_or(&any_schema), depth + 1)?;
                object.insert(name.to_owned(), value);
            }
        }
        self.other_keys(node, rest, depth, &mut object)?;
        Some(Value::Object(object))
    }

    /// Adds keys that are not in `properties`, if the schema explicitly allows them.
    fn other_keys(
        &mut self,
        node: &Map<String, Value>,
        rest: Option<&Value>,
        depth: usize,
        object: &mut Map<String, Value>,
    ) -> Option<()> {
        let min_properties = count(node, "minProperties").unwrap_or(0);
        let max_properties = count(node, "maxProperties").unwrap_or(usize::MAX);
        let any_schema = Value::Bool(true);
        let patterns = node.get("patternProperties").and_then(Value::as_object);
        for (pattern, schema) in patterns.into_iter().flatten() {
            if depth < LEAF_DEPTH && self.random.chance(60) {
                let key = text::from_pattern(pattern, self.random);
                if let (Some(key), Some(value)) = (key, self.value(schema, depth + 1))
                    && object.len() < max_properties
                {
                    object.insert(key, value);
                }
            }
        }
        let rest_schema = match rest {
            Some(Value::Bool(false)) => None,
            Some(schema) => Some(schema),
            // An object without properties and without a rule for others is free-form.
            None if patterns.is_none() && !node.contains_key("properties") => Some(&any_schema),
            None => None,
        };
        let Some(schema) = rest_schema else { return Some(()) };
        let key_count = if depth >= LEAF_DEPTH { 0 } else { self.random.below(3) };
        let mut attempts = 8;
        while (object.len() < min_properties || key_count > object.len())
            && object.len() < max_properties
            && attempts > 0
        {
            attempts -= 1;
            let key = match node.get("propertyNames") {
                Some(rule) => match self.value(&string_schema(rule), depth + 1) {
                    Some(Value::String(key)) => key,
                    _ => return (object.len() >= min_properties).then_some(()),
                },
                None => text::key(self.random),
            };
            if let Some(value) = self.value(schema, depth + 1)
                && !object.contains_key(&key)
            {
                object.insert(key, value);
            }
        }
        Some(())
    }

    /// Returns `schema` without references and composition: branches are chosen at random, parts are merged.
    fn flattened(&mut self, schema: &Value, depth: usize) -> Option<Map<String, Value>> {
        let mut node = match schema {
            Value::Bool(true) => return Some(Map::new()),
            Value::Object(node) => node.clone(),
            _ => return None,
        };
        if depth > MAX_DEPTH + 10 {
            return None;
        }
        // In a single document, the other references have the same target as `$ref`.
        for keyword in ["$ref", "$recursiveRef", "$dynamicRef"] {
            let Some(Value::String(reference)) = node.remove(keyword) else { continue };
            let target = self.flattened(schema_path::resolve(self.root, &reference)?, depth + 1)?;
            node = merged(node, target)?;
        }
        for keyword in ["anyOf", "oneOf"] {
            let Some(Value::Array(branches)) = node.remove(keyword) else { continue };
            let mut branches = self.random.shuffled(branches);
            if depth >= LEAF_DEPTH {
                branches.sort_by_key(|branch| branch.to_string().contains("$ref"));
            }
            let parent = node.clone();
            node = branches
                .iter()
                .find_map(|branch| merged(parent.clone(), self.flattened(branch, depth + 1)?))?;
        }
        if let Some(Value::Array(members)) = node.remove("allOf") {
            for member in &members {
                let member = self.flattened(member, depth + 1)?;
                node = merged(node, member)?;
            }
        }
        let (condition, then, otherwise) = (node.remove("if"), node.remove("then"), node.remove("else"));
        if let Some(condition) = condition {
            let chosen = if self.random.chance(60) { [Some(condition), then] } else { [otherwise, None] };
            for part in chosen.iter().flatten() {
                let part = self.flattened(part, depth + 1)?;
                node = merged(node, part)?;
            }
        }
        Some(node)
    }
}

/// Merges two schemas, as far as the keywords of a single schema can express it.
fn merged(mut one: Map<String, Value>, other: Map<String, Value>) -> Option<Map<String, Value>> {
    for (keyword, value) in other {
        let Some(existing) = one.get(&keyword).cloned() else {
            one.insert(keyword, value);
            continue;
        };
        if existing == value {
            continue;
        }
        let combined = match keyword.as_str() {
            "type" => {
                let (existing, added) = (listed_kinds(&existing), listed_kinds(&value));
                let mut combined: Vec<&str> =
                    existing.iter().copied().filter(|kind| added.contains(kind)).collect();
                for (from, to) in [(&existing, &added), (&added, &existing)] {
                    if from.contains(&"integer") && to.contains(&"number") && !combined.contains(&"integer") {
                        combined.push("integer");
                    }
                }
                if combined.is_empty() {
                    return None;
                }
                json!(combined)
            }
            "required" => {
                let mut names = existing.as_array().cloned().unwrap_or_default();
                names.extend(value.as_array().cloned().unwrap_or_default());
                names.dedup();
                Value::Array(names)
            }
            "properties" | "patternProperties" => {
                let mut names = existing.as_object().cloned().unwrap_or_default();
                for (name, schema) in value.as_object().cloned().unwrap_or_default() {
                    let combined = match names.get(&name) {
                        Some(existing) => json!({"allOf": [existing, schema]}),
                        None => schema,
                    };
                    names.insert(name, combined);
                }
                Value::Object(names)
            }
            "items" | "additionalProperties" | "contains" | "propertyNames" => {
                json!({"allOf": [existing, value]})
            }
            "enum" => {
                let added = value.as_array().cloned().unwrap_or_default();
                let combined: Vec<Value> = existing
                    .as_array()
                    .cloned()
                    .unwrap_or_default()
                    .into_iter()
                    .filter(|value| added.contains(value))
                    .collect();
                Value::Array(combined)
            }
            "const" => return None,
            "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties" => {
                larger_or_smaller(existing, value, true)
            }
            "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties" => {
                larger_or_smaller(existing, value, false)
            }
            _ => existing,
        };
        one.insert(keyword, combined);
    }
    Some(one)
}

fn larger_or_smaller(one: Value, other: Value, is_larger: bool) -> Value {
    if (one.as_f64() > other.as_f64()) == is_larger { one } else { other }
}

fn string_schema(rule: &Value) -> Value {
    json!({"allOf": [{"type": "string"}, rule]})
}

fn listed_kinds(kind: &Value) -> Vec<&str> {
    match kind {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns the types that a schema allows. Without `type`, they are inferred from the keywords.
fn kinds(node: &Map<String, Value>) -> Vec<&str> {
    if let Some(kind) = node.get("type") {
        return listed_kinds(kind);
    }
    let has = |keywords: &[&str]| keywords.iter().any(|keyword| node.contains_key(*keyword));
    if has(&["properties", "additionalProperties", "required", "patternProperties", "propertyNames"]) {
        return vec!["object"];
    }
    if has(&["items", "prefixItems", "minItems", "maxItems", "contains", "uniqueItems"]) {
        return vec!["array"];
    }
    if has(&["minLength", "maxLength", "pattern", "format"]) {
        return vec!["string"];
    }
    if has(&["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]) {
        return vec!["number", "integer"];
    }
    vec!["string", "integer", "number", "boolean", "null", "object", "array"]
}

fn is_kind(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" | "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

fn count(node: &Map<String, Value>, keyword: &str) -> Option<usize> {
    let value = node.get(keyword)?;
    value.as_u64().or_else(|| value.as_f64().map(|float| float as u64)).map(|number| number as usize)
}
