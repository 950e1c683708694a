//! A quick look whether a value belongs to a schema: enough to tell alternatives apart, not a verdict.

use std::cell::Cell;

use serde_json::Value;

use crate::json::{Decimal, unescape_segment};

/// How strictly keys are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// An object that names its properties takes no others.
    Closed,
    /// As JSON Schema says.
    Letter,
    /// Only the type counts.
    Loose,
}

/// How deep references and alternatives are followed.
const FAR: usize = 200;

/// How many more schemas are looked at for one set of arguments; after that, everything is said to fit.
#[derive(Debug)]
pub(crate) struct Patience(Cell<usize>);

impl Default for Patience {
    fn default() -> Patience {
        Patience(Cell::new(1_000_000))
    }
}

/// Whether `value` belongs to `schema`, whose references are looked up in `root`. OpenAPI's spelling is understood too.
pub(crate) fn fits(schema: &Value, value: &Value, root: &Value, fit: Fit, patience: &Patience) -> bool {
    Look { root, fit, patience }.within(schema, value, FAR)
}

struct Look<'r> {
    root: &'r Value,
    fit: Fit,
    patience: &'r Patience,
}

impl Look<'_> {
    fn within(&self, schema: &Value, value: &Value, far: usize) -> bool {
        let (root, fit) = (self.root, self.fit);
        let schema = match schema {
            Value::Bool(verdict) => return *verdict,
            Value::Object(schema) => schema,
            _ => return true,
        };
        let (Some(far), Some(left)) = (far.checked_sub(1), self.patience.0.get().checked_sub(1)) else {
            return true;
        };
        self.patience.0.set(left);
        if value.is_null() && schema.get("nullable") == Some(&Value::Bool(true)) {
            return true;
        }
        if let Some(Value::String(reference)) = schema.get("$ref")
            && let Some(target) = resolve(reference, root)
            && !self.within(target, value, far)
        {
            return false;
        }
        let typed = match schema.get("type") {
            None => true,
            Some(Value::String(name)) => is_type(name, value),
            Some(Value::Array(names)) => {
                names.iter().filter_map(Value::as_str).any(|name| is_type(name, value))
            }
            _ => true,
        };
        let listed_as_text =
            schema.get("format").and_then(Value::as_str) == Some("enum") && value.is_string();
        if !typed && !listed_as_text {
            return false;
        }
        if fit == Fit::Loose {
            return true;
        }
        if let Some(Value::Array(values)) = schema.get("enum")
            && !values.iter().any(|other| same(other, value))
        {
            return false;
        }
        if schema.get("const").is_some_and(|other| !same(other, value)) {
            return false;
        }
        let each = |keyword: &str| schema.get(keyword).and_then(Value::as_array);
        if each("anyOf")
            .is_some_and(|branches| !branches.iter().any(|branch| self.within(branch, value, far)))
            || each("oneOf")
                .is_some_and(|branches| !branches.iter().any(|branch| self.within(branch, value, far)))
            || each("allOf").is_some_and(|parts| {
                // Parts of a whole know only their own keys.
                let fit = if fit == Fit::Closed { Fit::Letter } else { fit };
                let look = Look { root, fit, patience: self.patience };
                !parts.iter().all(|part| look.within(part, value, far))
            })
        {
            return false;
        }
        match value {
            Value::Object(map) => self.object(schema, map, far),
            Value::Array(items) => {
                let positions = each("prefixItems").map_or(&[][..], Vec::as_slice);
                let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_u64);
                bound("minItems").is_none_or(|least| items.len() as u64 >= least)
                    && bound("maxItems").is_none_or(|most| items.len() as u64 <= most)
                    && items.iter().enumerate().all(|(index, item)| match positions.get(index) {
                        Some(position) => self.within(position, item, far),
                        None => schema.get("items").is_none_or(|items| self.within(items, item, far)),
                    })
            }
            Value::Number(number) => {
                let number = Decimal::of(number.as_str());
                let bound = |keyword: &str| match schema.get(keyword) {
                    Some(Value::Number(bound)) => Some(Decimal::of(bound.as_str())),
                    _ => None,
                };
                bound("minimum").is_none_or(|least| number >= least)
                    && bound("maximum").is_none_or(|most| number <= most)
                    && bound("exclusiveMinimum").is_none_or(|least| number > least)
                    && bound("exclusiveMaximum").is_none_or(|most| number < most)
            }
            Value::String(text) => {
                let length = text.chars().count() as u64;
                let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_u64);
                bound("minLength").is_none_or(|least| length >= least)
                    && bound("maxLength").is_none_or(|most| length <= most)
            }
            _ => true,
        }
    }

    fn object(
        &self,
        schema: &serde_json::Map<String, Value>,
        map: &serde_json::Map<String, Value>,
        far: usize,
    ) -> bool {
        let fit = self.fit;
        let properties = schema.get("properties").and_then(Value::as_object);
        let required = schema.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if !required.iter().filter_map(Value::as_str).all(|name| map.contains_key(name)) {
            return false;
        }
        let rest = schema.get("additionalProperties");
        let silent = rest.is_none() && schema.get("patternProperties").is_none();
        let closed =
            fit == Fit::Closed && silent && properties.is_some_and(|properties| !properties.is_empty());
        map.iter().all(|(key, value)| match properties.and_then(|properties| properties.get(key)) {
            Some(property) => self.within(property, value, far),
            None if schema.get("patternProperties").is_some() => true,
            None => !closed && rest.is_none_or(|rest| self.within(rest, value, far)),
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

fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => Decimal::of(a.as_str()) == Decimal::of(b.as_str()),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        _ => a == b,
    }
}

/// Where a reference inside `root` leads, if it is a pointer.
pub(crate) fn resolve<'r>(reference: &str, root: &'r Value) -> Option<&'r Value> {
    let path = reference.strip_prefix('#')?;
    if path.is_empty() {
        return Some(root);
    }
    let mut node = root;
    for token in path.strip_prefix('/')?.split('/') {
        let name = unescape_segment(token);
        node = match node {
            Value::Object(map) => map.get(name.as_ref())?,
            Value::Array(items) => items.get(name.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(node)
}
