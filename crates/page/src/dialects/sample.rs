//! Sampled arguments for a tool for which the user has typed none.
//!
//! The same schema gives the same arguments.

use serde_json::{Map, Number, Value};
use toolwire_contract::text::unescape_pointer_segment;
use toolwire_dialect::Toolset;
use toolwire_dialect::arguments::ArgumentError;

use crate::json_schema::required;

/// The maximum nesting of a sample, and the maximum number of attempts to correct it.
const MAX_DEPTH: usize = 6;
const MAX_ATTEMPTS: usize = 16;

/// The maximum number of optional properties of an object that a sample has.
const MAX_OPTIONAL: usize = 3;

/// Texts that fit many patterns, the simplest first.
const TEXTS: [&str; 14] = [
    "text",
    "a",
    "A",
    "1",
    "ABC",
    "AB",
    "abc-1",
    "a_b",
    "2026-01-31",
    "2026-01-31T12:00:00Z",
    "1.2.3",
    "https://example.com",
    "a@example.com",
    "6f1c9d2e-3b4a-4c5d-8e6f-7a8b9c0d1e2f",
];

/// Returns arguments that fit a tool, if they can be found; else arguments that nearly do. `tools` has the
/// tool in MCP's own format.
pub(super) fn sample(schema: &Value, tools: &Toolset, tool: &str) -> Value {
    let sampler = Sampler { root: schema };
    let mut sample = sampler.value(schema, 0);
    if !sample.is_object() {
        sample = Value::Object(Map::new());
    }
    let mut tried: Vec<(String, usize)> = Vec::new();
    for _ in 0..MAX_ATTEMPTS {
        let Err(ArgumentError::Invalid { violations, .. }) = tools.encode(tool, &sample) else { break };
        let before = sample.clone();
        for violation in violations {
            correct(&mut sample, &violation.pointer, &mut tried);
        }
        if sample == before {
            break;
        }
    }
    sample
}

/// Changes the value at `pointer`, which does not fit: to the next text if it is one, else it is removed.
fn correct(sample: &mut Value, pointer: &str, tried: &mut Vec<(String, usize)>) {
    let Some(value) = sample.pointer_mut(pointer) else { return };
    if value.is_string() {
        let index = tried.iter().position(|(known, _)| known == pointer).unwrap_or_else(|| {
            tried.push((pointer.to_owned(), 0));
            tried.len() - 1
        });
        tried[index].1 += 1;
        if let Some(next) = TEXTS.get(tried[index].1) {
            *value = Value::from(*next);
            return;
        }
    }
    let Some((parent, last)) = pointer.rsplit_once('/') else { return };
    if let Some(Value::Object(members)) = sample.pointer_mut(parent) {
        members.shift_remove(unescape_pointer_segment(last).as_ref());
    }
}

struct Sampler<'a> {
    root: &'a Value,
}

impl Sampler<'_> {
    fn value(&self, schema: &Value, depth: usize) -> Value {
        let Some(members) = schema.as_object() else { return Value::from(TEXTS[0]) };
        if let Some(value) = listed(members) {
            return value;
        }
        if depth > MAX_DEPTH {
            return Value::Null;
        }
        if let Some(reference) = members.get("$ref").and_then(Value::as_str)
            && let Some(target) = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer))
        {
            return self.value(target, depth + 1);
        }
        let is_composed = members.contains_key("properties") || members.contains_key("type");
        for keyword in ["anyOf", "oneOf", "allOf"] {
            let schemas = members.get(keyword).and_then(Value::as_array);
            let is_null = |schema: &&Value| schema.get("type").and_then(Value::as_str) == Some("null");
            let first = schemas.and_then(|all| all.iter().find(|schema| !is_null(schema)));
            if let Some(first) = first.filter(|_| !is_composed) {
                return self.value(first, depth + 1);
            }
        }
        match type_of(members) {
            "object" => self.object(members, depth),
            "array" => self.array(members, depth),
            "boolean" => Value::from(true),
            "null" => Value::Null,
            "integer" => number(members, true),
            "number" => number(members, false),
            _ => text(members),
        }
    }

    fn object(&self, members: &Map<String, Value>, depth: usize) -> Value {
        let mut object = Map::new();
        let required: Vec<&str> = required(members).collect();
        let mut optional = 0;
        for (key, schema) in members.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let is_required = required.contains(&key.as_str());
            optional += usize::from(!is_required);
            if is_required || optional <= MAX_OPTIONAL && depth < 2 {
                object.insert(key.clone(), self.value(schema, depth + 1));
            }
        }
        for key in required {
            if !object.contains_key(key) {
                object.insert(key.to_owned(), Value::from(TEXTS[0]));
            }
        }
        if object.is_empty()
            && let Some(values) = members.get("additionalProperties").filter(|values| values.is_object())
        {
            object.insert("key".to_owned(), self.value(values, depth + 1));
        }
        Value::Object(object)
    }

    fn array(&self, members: &Map<String, Value>, depth: usize) -> Value {
        let first = members.get("prefixItems").and_then(Value::as_array);
        if let Some(schemas) = first {
            return Value::Array(schemas.iter().map(|schema| self.value(schema, depth + 1)).collect());
        }
        let count = members.get("minItems").and_then(Value::as_u64).unwrap_or(1).clamp(1, 4);
        let item = members.get("items").map_or(Value::from(TEXTS[0]), |items| self.value(items, depth + 1));
        Value::Array((0..count).map(|_| item.clone()).collect())
    }
}

/// Returns a value that the schema itself names.
fn listed(members: &Map<String, Value>) -> Option<Value> {
    let of_list = |key: &str| members.get(key)?.as_array()?.first().cloned();
    let default = || members.get("default").filter(|value| !value.is_null()).cloned();
    members.get("const").cloned().or_else(|| of_list("examples")).or_else(default).or_else(|| of_list("enum"))
}

fn type_of(members: &Map<String, Value>) -> &str {
    let declared = match members.get("type") {
        Some(Value::String(name)) => Some(name.as_str()),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).find(|name| *name != "null"),
        _ => None,
    };
    let implied = || if members.contains_key("properties") { "object" } else { "string" };
    declared.unwrap_or_else(implied)
}

/// Returns a number within the bounds.
fn number(members: &Map<String, Value>, is_integer: bool) -> Value {
    let bound = |key: &str| members.get(key).and_then(Value::as_f64);
    let least = bound("minimum").or_else(|| bound("exclusiveMinimum").map(|bound| bound + 1.0));
    let most = bound("maximum").or_else(|| bound("exclusiveMaximum").map(|bound| bound - 1.0));
    let wanted = if is_integer { 5.0 } else { 1.5 };
    let mut number = wanted;
    if let Some(least) = least.filter(|least| *least > number) {
        number = least.ceil();
    }
    if let Some(most) = most.filter(|most| *most < number) {
        number = if is_integer { most.floor() } else { most };
    }
    if let Some(step) = bound("multipleOf").filter(|step| *step > 0.0) {
        number = (number / step).ceil() * step;
    }
    if number.fract() == 0.0 && number.abs() < 1e15 {
        // The fraction is zero and the number is small, so nothing is lost.
        return Value::from(number as i64);
    }
    Number::from_f64(number).map_or(Value::from(1), Value::Number)
}

fn text(members: &Map<String, Value>) -> Value {
    let text = match members.get("format").and_then(Value::as_str) {
        Some("date") => "2026-01-31",
        Some("date-time") => "2026-01-31T12:00:00Z",
        Some("time") => "12:00:00Z",
        Some("duration") => "PT1H",
        Some("email" | "idn-email") => "a@example.com",
        Some("uri" | "url" | "iri" | "uri-reference") => "https://example.com",
        Some("uuid") => "6f1c9d2e-3b4a-4c5d-8e6f-7a8b9c0d1e2f",
        Some("ipv4") => "192.0.2.1",
        Some("ipv6") => "2001:db8::1",
        Some("hostname") => "example.com",
        _ => TEXTS[0],
    };
    let length =
        |key: &str| members.get(key).and_then(Value::as_u64).and_then(|length| usize::try_from(length).ok());
    let mut text = text.to_owned();
    let missing = length("minLength").unwrap_or(0).min(200).saturating_sub(text.chars().count());
    text.extend(std::iter::repeat_n('x', missing));
    if let Some(most) = length("maxLength") {
        text = text.chars().take(most).collect();
    }
    Value::from(text)
}
