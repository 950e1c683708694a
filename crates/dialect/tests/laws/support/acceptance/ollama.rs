//! Ollama: the schema is decoded into a fixed struct. What the struct has no field for is lost without a word, so a
//! definition that carries it says something else than it seems to.

use serde_json::Value;

use super::{Complaints, context, place};

const ROOT: [&str; 5] = ["type", "$defs", "items", "required", "properties"];
const PROPERTY: [&str; 7] = ["anyOf", "type", "items", "description", "enum", "properties", "required"];

pub(super) fn chat(definition: &Value, complaints: &mut Complaints) {
    let Some(tool) = complaints.keys("tools[0]", definition, &["type", "function"], &[]) else { return };
    complaints.demand(tool.get("type") == Some(&"function".into()), || "tools[0].type: unknown".into());
    let function = tool.get("function").unwrap_or(&Value::Null);
    let needed = ["name", "parameters"];
    let Some(function) = complaints.keys("tools[0].function", function, &needed, &["description"]) else {
        return;
    };
    complaints
        .demand(function.get("name").is_some_and(Value::is_string), || "name: expected a string".into());
    let schema = function.get("parameters").unwrap_or(&Value::Null);
    complaints
        .demand(schema.get("type") == Some(&"object".into()), || "parameters.type: expected object".into());
    complaints.demand(schema.get("properties").is_some_and(Value::is_object), || {
        "parameters.properties: expected an object".into()
    });
    place::walk(schema, &mut |path, node| {
        let here = context(path);
        let Some(node) = node.as_object() else {
            complaints.say(&format!("json: cannot unmarshal bool into a property at {here}"));
            return;
        };
        let known: &[&str] = if path.is_empty() { &ROOT } else { &PROPERTY };
        for keyword in node.keys() {
            complaints
                .demand(known.contains(&keyword.as_str()), || format!("`{keyword}` vanishes at {here}"));
        }
        let kind = node.get("type");
        complaints.demand(kind.is_none_or(|kind| kind.is_string() || kind.is_array()), || {
            format!("json: cannot unmarshal type at {here}")
        });
    });
}
