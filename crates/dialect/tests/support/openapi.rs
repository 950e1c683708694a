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
        (Dialect::Xai, Some(schema)) => place::rewrite(schema, &closed_unless_said),
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

/// xAI closes every object that does not say otherwise.
fn closed_unless_said(node: &mut Map<String, Value>) {
    let object = node.get("type") == Some(&json!("object")) || node.contains_key("properties");
    let composed = ["anyOf", "oneOf", "allOf", "$ref", "patternProperties"]
        .iter()
        .any(|keyword| node.contains_key(*keyword));
    if object && !composed && !node.contains_key("additionalProperties") {
        node.insert("additionalProperties".into(), Value::Bool(false));
    }
}
