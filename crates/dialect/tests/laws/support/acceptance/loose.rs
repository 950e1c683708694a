//! The APIs that look at little more than the wrapper: Mistral, Cohere, xAI, and MCP itself.

use serde_json::{Map, Value};

use super::{Complaints, circle, context, openai, place, references};

pub(super) fn mistral(definition: &Value, complaints: &mut Complaints) {
    let Some((name, schema)) = function(definition, complaints) else { return };
    let legal = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    complaints.demand((1..=64).contains(&name.len()) && name.chars().all(legal), || {
        format!(
            "Function name was {name} but must be a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum length of 64."
        )
    });
    if let Err(error) = jsonschema::draft7::meta::validate(schema) {
        complaints.say(&format!("Invalid tool schema: {error}"));
    }
    object(schema, complaints);
}

pub(super) fn cohere(definition: &Value, complaints: &mut Complaints) {
    let Some((name, schema)) = function(definition, complaints) else { return };
    openai::name_rule(name, "tools[0].function", 64, complaints);
    object(schema, complaints);
    valid(schema, complaints);
}

/// Strict decoding is always on here: what cannot be decoded strictly is refused.
pub(super) fn xai(definition: &Value, complaints: &mut Complaints) {
    let Some((name, schema)) = function(definition, complaints) else { return };
    openai::name_rule(name, "tools[0].function", 64, complaints);
    complaints.about("Invalid request content: Invalid function schema. ".into());
    object(schema, complaints);
    valid(schema, complaints);
    if let Some(reference) = circle(schema, false) {
        complaints.say(&format!("circular reference `{reference}`"));
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        complaints.demand(schema.get(keyword).is_none(), || format!("`{keyword}` at the top level"));
    }
    place::walk(schema, &mut |path, node| {
        let members = node.get("allOf").and_then(Value::as_array).map_or(0, Vec::len);
        complaints.demand(members <= 1, || format!("allOf of {members} members at {}", context(path)));
    });
}

/// Nothing changes here, so nothing but the outline is looked at.
pub(super) fn mcp(definition: &Value, complaints: &mut Complaints) {
    complaints
        .demand(definition.get("name").is_some_and(Value::is_string), || "name: expected a string".into());
}

/// The wrapper all of them take from OpenAI; none has use for `strict`.
fn function<'definition>(
    definition: &'definition Value,
    complaints: &mut Complaints,
) -> Option<(&'definition str, &'definition Value)> {
    let tool = complaints.keys("tools[0]", definition, &["type", "function"], &[])?;
    complaints
        .demand(tool.get("type") == Some(&"function".into()), || "Invalid value: 'tools[0].type'.".into());
    let function: &Map<String, Value> = complaints.keys(
        "tools[0].function",
        tool.get("function")?,
        &["name", "parameters"],
        &["description"],
    )?;
    complaints.demand(function.get("description").is_none_or(Value::is_string), || {
        "Invalid type for 'tools[0].function.description': expected a string.".into()
    });
    Some((function.get("name")?.as_str().unwrap_or(""), function.get("parameters")?))
}

fn object(schema: &Value, complaints: &mut Complaints) {
    complaints
        .demand(schema.get("type") == Some(&"object".into()), || "parameters must be of type object".into());
    references(schema, complaints);
}

fn valid(schema: &Value, complaints: &mut Complaints) {
    if let Err(error) = jsonschema::draft202012::meta::validate(schema) {
        complaints.say(&format!("not a valid schema: {error}"));
    }
}
