//! Ollama, which decodes the schema into a fixed struct and silently drops other keywords. Such a keyword is
//! an error here.

use serde_json::Value;

use super::{ApiErrors, context, schema_path};

const ROOT_KEYWORDS: [&str; 5] = ["type", "$defs", "items", "required", "properties"];
const PROPERTY_KEYWORDS: [&str; 7] =
    ["anyOf", "type", "items", "description", "enum", "properties", "required"];

pub(super) fn chat(definition: &Value, errors: &mut ApiErrors) {
    let Some(tool) = errors.check_keys("tools[0]", definition, &["type", "function"], &[]) else { return };
    errors.require(tool.get("type") == Some(&"function".into()), || "tools[0].type: unknown".into());
    let function = tool.get("function").unwrap_or(&Value::Null);
    let required_keys = ["name", "parameters"];
    let Some(function) = errors.check_keys("tools[0].function", function, &required_keys, &["description"])
    else {
        return;
    };
    errors.require(function.get("name").is_some_and(Value::is_string), || "name: expected a string".into());
    let schema = function.get("parameters").unwrap_or(&Value::Null);
    errors
        .require(schema.get("type") == Some(&"object".into()), || "parameters.type: expected object".into());
    errors.require(schema.get("properties").is_some_and(Value::is_object), || {
        "parameters.properties: expected an object".into()
    });
    schema_path::walk(schema, &mut |path, node| {
        let location = context(path);
        let Some(node) = node.as_object() else {
            errors.add(&format!("json: cannot unmarshal bool into a property at {location}"));
            return;
        };
        let keywords: &[&str] = if path.is_empty() { &ROOT_KEYWORDS } else { &PROPERTY_KEYWORDS };
        for keyword in node.keys() {
            errors.require(keywords.contains(&keyword.as_str()), || {
                format!("`{keyword}` is silently dropped at {location}")
            });
        }
        let kind = node.get("type");
        errors.require(kind.is_none_or(|kind| kind.is_string() || kind.is_array()), || {
            format!("json: cannot unmarshal type at {location}")
        });
    });
}
