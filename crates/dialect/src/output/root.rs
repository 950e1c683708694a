//! Schemas of responses as schemas of arguments, which are objects.

use serde_json::{Map, Value, json};

/// The only property of a response that is not an object.
pub(super) const ANSWER: &str = "answer";

/// Keywords at the root that not every API accepts there.
const COMPOSITION: [&str; 9] =
    ["$ref", "anyOf", "oneOf", "allOf", "not", "if", "enum", "const", "$dynamicRef"];

/// Keywords whose values are data, not schemas.
const DATA: [&str; 4] = ["enum", "const", "default", "examples"];

/// Returns a schema that accepts only objects, and whether the given schema was wrapped: then it is the
/// schema of the only property.
pub(super) fn as_object(schema: &Value) -> (Value, bool) {
    let is_object = schema.get("type").is_some_and(|kind| kind == "object")
        && !COMPOSITION.iter().any(|keyword| schema.get(keyword).is_some());
    if is_object {
        return (schema.clone(), false);
    }
    let mut inner = schema.clone();
    let mut root = Map::new();
    if let Value::Object(fields) = &mut inner {
        root.extend(fields.shift_remove("$schema").map(|version| ("$schema".to_owned(), version)));
        // With an `$id`, references are relative to the schema itself and stay valid.
        if !fields.contains_key("$id") {
            move_references(&mut inner);
        }
    }
    root.extend([
        ("type".to_owned(), json!("object")),
        ("properties".to_owned(), json!({ANSWER: inner})),
        ("required".to_owned(), json!([ANSWER])),
        ("additionalProperties".to_owned(), json!(false)),
    ]);
    (Value::Object(root), true)
}

/// Rewrites references to other parts of the document, for a schema that is no longer its root.
fn move_references(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(move_references),
        Value::Object(fields) => {
            for (key, value) in fields.iter_mut() {
                match value {
                    Value::String(target) if key == "$ref" => {
                        if let Some(pointer) =
                            target.strip_prefix('#').filter(|rest| rest.is_empty() || rest.starts_with('/'))
                        {
                            *target = format!("#/properties/{ANSWER}{pointer}");
                        }
                    }
                    value if !DATA.contains(&key.as_str()) => move_references(value),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}
