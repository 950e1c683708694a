//! The JSON Schema of the arguments that an API lets a model send.

use serde_json::{Map, Value, json};
use toolwire_dialect::Dialect;

use super::{api_validator, schema_path};

/// Returns the JSON Schema of the arguments that a model may send for `definition`.
pub fn argument_schema(dialect: Dialect, definition: &Value) -> Value {
    match (dialect, api_validator::schema(dialect, definition)) {
        // A definition without a schema accepts no arguments.
        (_, None) => json!({"type": "object", "properties": {}, "additionalProperties": false}),
        (Dialect::GeminiOpenApi, Some(schema)) => schema_path::rewrite(schema, &convert_open_api),
        (Dialect::Xai, Some(schema)) => close_objects(schema),
        (_, Some(schema)) => schema.clone(),
    }
}

/// Converts Gemini's OpenAPI 3.0: types in upper case, `nullable`, and numbers listed as text.
fn convert_open_api(node: &mut Map<String, Value>) {
    let is_nullable = node.remove("nullable") == Some(Value::Bool(true));
    if let Some(Value::String(kind)) = node.get("type") {
        let kind = kind.to_lowercase();
        let kind = if is_nullable { json!([kind, "null"]) } else { json!(kind) };
        node.insert("type".into(), kind);
    }
    if node.get("format") == Some(&json!("enum")) {
        node.remove("format");
        // The model sends the listed text, regardless of the type.
        if node.contains_key("enum") {
            node.remove("type");
        }
    }
    if is_nullable && let Some(Value::Array(values)) = node.get_mut("enum") {
        values.push(Value::Null);
    }
    node.remove("propertyOrdering");
    node.remove("example");
}

/// Closes all objects without `additionalProperties`, as xAI does. Conditions stay open, since closing them
/// would change their meaning.
fn close_objects(schema: &Value) -> Value {
    let conditions = ["not", "if", "then", "else", "allOf", "dependentSchemas", "contains"];
    let mut conditional = Vec::new();
    schema_path::walk(schema, &mut |path, node| {
        let mut steps = path.iter();
        // After these keywords the next step is a name, which may look like a keyword.
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
    close_objects_except(schema, &conditional)
}

fn close_objects_except(schema: &Value, conditional: &[*const Value]) -> Value {
    let Value::Object(map) = schema else { return schema.clone() };
    let mut result = map.clone();
    for (steps, child) in schema_path::children(schema) {
        if conditional.contains(&std::ptr::from_ref(child)) {
            continue;
        }
        let slot = steps[1..].iter().fold(result.get_mut(&steps[0]), |slot, step| match slot? {
            Value::Array(list) => list.get_mut(step.parse::<usize>().ok()?),
            other => other.get_mut(step.as_str()),
        });
        *slot.expect("a path of a child") = close_objects_except(child, conditional);
    }
    let is_object = result.get("type") == Some(&json!("object")) || result.contains_key("properties");
    let is_composed = ["anyOf", "oneOf", "allOf", "$ref", "patternProperties"]
        .iter()
        .any(|keyword| result.contains_key(*keyword));
    if is_object && !is_composed && !result.contains_key("additionalProperties") {
        result.insert("additionalProperties".into(), Value::Bool(false));
    }
    Value::Object(result)
}
