//! Reads a dialect's definition as the JSON Schema that says what its API lets a model send.

use serde_json::{Map, Value, json};
use toolwire_dialect::Dialect;

use super::{acceptance, place};

/// What a model may send under `definition`, as JSON Schema.
pub fn meaning(dialect: Dialect, definition: &Value) -> Value {
    match (dialect, acceptance::schema(dialect, definition)) {
        // No schema is the way to say that there are no arguments.
        (_, None) => json!({"type": "object", "properties": {}, "additionalProperties": false}),
        (Dialect::GeminiOpenApi, Some(schema)) => place::rewrite(schema, &from_open_api),
        (Dialect::Xai, Some(schema)) => closed_unless_said(schema),
        (_, Some(schema)) => schema.clone(),
    }
}

/// OpenAPI 3.0 as Gemini speaks it: types in upper case, `nullable`, and numbers listed as text.
fn from_open_api(node: &mut Map<String, Value>) {
    let nullable = node.remove("nullable") == Some(Value::Bool(true));
    if let Some(Value::String(kind)) = node.get("type") {
        let kind = kind.to_lowercase();
        let kind = if nullable { json!([kind, "null"]) } else { json!(kind) };
        node.insert("type".into(), kind);
    }
    if node.get("format") == Some(&json!("enum")) {
        node.remove("format");
        // The model answers with the listed text, whatever the type says.
        if node.contains_key("enum") {
            node.remove("type");
        }
    }
    if nullable && let Some(Value::Array(values)) = node.get_mut("enum") {
        values.push(Value::Null);
    }
    // The OpenAPI form has no word for other keys, and the model may send none.
    node.remove("propertyOrdering");
    node.remove("example");
}

/// xAI closes every object that does not say otherwise. A condition is no object, and closing one would change what it asks.
fn closed_unless_said(schema: &Value) -> Value {
    let conditions = ["not", "if", "then", "else", "allOf", "dependentSchemas", "contains"];
    let mut conditional = Vec::new();
    place::walk(schema, &mut |path, node| {
        let mut steps = path.iter();
        // A property may be named like a keyword: after these, the next step is a name.
        while let Some(step) = steps.next() {
            if conditions.contains(&step.as_str()) {
                conditional.push(std::ptr::from_ref(node));
                break;
            }
            if ["properties", "patternProperties", "$defs", "definitions"].contains(&step.as_str()) {
                steps.next();
            }
        }
    });
    closed_from(schema, &conditional)
}

fn closed_from(schema: &Value, conditional: &[*const Value]) -> Value {
    let Value::Object(map) = schema else { return schema.clone() };
    let mut result = map.clone();
    for (steps, child) in place::children(schema) {
        if conditional.contains(&std::ptr::from_ref(child)) {
            continue;
        }
        let slot = steps[1..].iter().fold(result.get_mut(&steps[0]), |slot, step| match slot? {
            Value::Array(list) => list.get_mut(step.parse::<usize>().ok()?),
            other => other.get_mut(step.as_str()),
        });
        *slot.expect("the path was just found") = closed_from(child, conditional);
    }
    let object = result.get("type") == Some(&json!("object")) || result.contains_key("properties");
    let composed = ["anyOf", "oneOf", "allOf", "$ref", "patternProperties"]
        .iter()
        .any(|keyword| result.contains_key(*keyword));
    if object && !composed && !result.contains_key("additionalProperties") {
        result.insert("additionalProperties".into(), Value::Bool(false));
    }
    Value::Object(result)
}
