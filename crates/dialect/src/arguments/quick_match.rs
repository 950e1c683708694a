//! A fast, incomplete validation that is good enough to distinguish alternatives.

use std::cell::Cell;

use serde_json::Value;

use toolwire_validation::reference_target;

use crate::json::Decimal;

/// The strictness of comparing a value with a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// As JSON Schema says, but an object that lists properties allows no others.
    ClosedObjects,
    /// As JSON Schema says.
    JsonSchema,
    /// Only the type is compared.
    TypeOnly,
}

impl Strictness {
    /// The strictest first.
    pub(crate) const DESCENDING: [Strictness; 3] =
        [Strictness::ClosedObjects, Strictness::JsonSchema, Strictness::TypeOnly];
}

/// The maximum depth of references and alternatives.
const MAX_DEPTH: usize = 200;

/// The number of schemas that may still be compared for one set of arguments; after that, everything matches.
#[derive(Debug)]
pub(crate) struct MatchBudget(Cell<usize>);

impl Default for MatchBudget {
    fn default() -> MatchBudget {
        MatchBudget(Cell::new(1_000_000))
    }
}

/// Whether `value` probably matches `schema`, whose references point into `root`. Also understands OpenAPI
/// schemas.
pub(crate) fn quick_match(
    schema: &Value,
    value: &Value,
    root: &Value,
    strictness: Strictness,
    budget: &MatchBudget,
) -> bool {
    QuickMatcher { root, strictness, budget }.matches(schema, value, MAX_DEPTH)
}

struct QuickMatcher<'r> {
    root: &'r Value,
    strictness: Strictness,
    budget: &'r MatchBudget,
}

impl QuickMatcher<'_> {
    fn matches(&self, schema: &Value, value: &Value, depth_left: usize) -> bool {
        let (root, strictness) = (self.root, self.strictness);
        let schema = match schema {
            Value::Bool(accepts) => return *accepts,
            Value::Object(schema) => schema,
            _ => return true,
        };
        let (Some(depth_left), Some(budget_left)) =
            (depth_left.checked_sub(1), self.budget.0.get().checked_sub(1))
        else {
            return true;
        };
        self.budget.0.set(budget_left);
        if value.is_null() && schema.get("nullable") == Some(&Value::Bool(true)) {
            return true;
        }
        if let Some(Value::String(reference)) = schema.get("$ref")
            && let Some(target) = reference_target(reference, root)
            && !self.matches(target, value, depth_left)
        {
            return false;
        }
        let has_type = match schema.get("type") {
            None => true,
            Some(Value::String(name)) => is_type(name, value),
            Some(Value::Array(names)) => {
                names.iter().filter_map(Value::as_str).any(|name| is_type(name, value))
            }
            _ => true,
        };
        // Gemini's OpenAPI schemas list numbers as strings.
        let is_enum_text = schema.get("format").and_then(Value::as_str) == Some("enum") && value.is_string();
        if !has_type && !is_enum_text {
            return false;
        }
        if strictness == Strictness::TypeOnly {
            return true;
        }
        if let Some(Value::Array(values)) = schema.get("enum")
            && !values.iter().any(|other| is_same(other, value))
        {
            return false;
        }
        if schema.get("const").is_some_and(|other| !is_same(other, value)) {
            return false;
        }
        let each = |keyword: &str| schema.get(keyword).and_then(Value::as_array);
        if each("anyOf")
            .is_some_and(|branches| !branches.iter().any(|branch| self.matches(branch, value, depth_left)))
            || each("oneOf").is_some_and(|branches| {
                !branches.iter().any(|branch| self.matches(branch, value, depth_left))
            })
            || each("allOf").is_some_and(|parts| {
                // A part lists only some of the properties. `TypeOnly` returned above.
                let matcher = QuickMatcher { root, strictness: Strictness::JsonSchema, budget: self.budget };
                !parts.iter().all(|part| matcher.matches(part, value, depth_left))
            })
        {
            return false;
        }
        match value {
            Value::Object(map) => self.matches_object(schema, map, depth_left),
            Value::Array(items) => {
                let positions = each("prefixItems").map_or(&[][..], Vec::as_slice);
                let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_u64);
                bound("minItems").is_none_or(|min| items.len() as u64 >= min)
                    && bound("maxItems").is_none_or(|max| items.len() as u64 <= max)
                    && items.iter().enumerate().all(|(index, item)| match positions.get(index) {
                        Some(position) => self.matches(position, item, depth_left),
                        None => schema.get("items").is_none_or(|items| self.matches(items, item, depth_left)),
                    })
            }
            Value::Number(number) => {
                let number = Decimal::of(number.as_str());
                let bound = |keyword: &str| match schema.get(keyword) {
                    Some(Value::Number(bound)) => Some(Decimal::of(bound.as_str())),
                    _ => None,
                };
                bound("minimum").is_none_or(|min| number >= min)
                    && bound("maximum").is_none_or(|max| number <= max)
                    && bound("exclusiveMinimum").is_none_or(|min| number > min)
                    && bound("exclusiveMaximum").is_none_or(|max| number < max)
            }
            Value::String(text) => {
                let length = text.chars().count() as u64;
                let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_u64);
                bound("minLength").is_none_or(|min| length >= min)
                    && bound("maxLength").is_none_or(|max| length <= max)
            }
            _ => true,
        }
    }

    fn matches_object(
        &self,
        schema: &serde_json::Map<String, Value>,
        map: &serde_json::Map<String, Value>,
        depth_left: usize,
    ) -> bool {
        let properties = schema.get("properties").and_then(Value::as_object);
        let required = schema.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if !required.iter().filter_map(Value::as_str).all(|name| map.contains_key(name)) {
            return false;
        }
        let rest = schema.get("additionalProperties");
        let is_closed = self.strictness == Strictness::ClosedObjects
            && rest.is_none()
            && schema.get("patternProperties").is_none()
            && properties.is_some_and(|properties| !properties.is_empty());
        map.iter().all(|(key, value)| match properties.and_then(|properties| properties.get(key)) {
            Some(property) => self.matches(property, value, depth_left),
            None if schema.get("patternProperties").is_some() => true,
            None => !is_closed && rest.is_none_or(|rest| self.matches(rest, value, depth_left)),
        })
    }
}

fn is_type(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => name.eq_ignore_ascii_case("null"),
        Value::Bool(_) => name.eq_ignore_ascii_case("boolean"),
        Value::Number(number) => {
            name.eq_ignore_ascii_case("number")
                || name.eq_ignore_ascii_case("integer") && Decimal::of(number.as_str()).is_integer()
        }
        Value::String(_) => name.eq_ignore_ascii_case("string"),
        Value::Array(_) => name.eq_ignore_ascii_case("array"),
        Value::Object(_) => name.eq_ignore_ascii_case("object"),
    }
}

/// Whether two values are equal; numbers are compared by value.
pub(crate) fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => Decimal::of(a.as_str()) == Decimal::of(b.as_str()),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| is_same(value, other)))
        }
        _ => a == b,
    }
}
