//! APIs that check little more than the wrapper: Mistral, Cohere, xAI, and MCP itself.

use serde_json::{Map, Value};

use super::{ApiErrors, check_references, context, find_cycle, openai, pattern, schema_path};

pub(super) fn mistral(definition: &Value, errors: &mut ApiErrors) {
    let Some((name, schema)) = function(definition, errors) else { return };
    let is_valid = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    errors.require((1..=64).contains(&name.len()) && name.chars().all(is_valid), || {
        format!(
            "Function name was {name} but must be a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum length of 64."
        )
    });
    if let Err(error) = jsonschema::draft7::meta::validate(schema) {
        errors.add(&format!("Invalid tool schema: {error}"));
    }
    check_object(schema, errors);
}

pub(super) fn cohere(definition: &Value, errors: &mut ApiErrors) {
    let Some((name, schema)) = function(definition, errors) else { return };
    openai::check_name(name, "tools[0].function", 64, errors);
    check_object(schema, errors);
    check_metaschema(schema, errors);
}

/// Strict decoding is always on, so the API rejects what cannot be decoded strictly.
pub(super) fn xai(definition: &Value, errors: &mut ApiErrors) {
    let Some((name, schema)) = function(definition, errors) else { return };
    openai::check_name(name, "tools[0].function", 64, errors);
    errors.set_subject("Invalid request content: Invalid function schema. ".into());
    check_object(schema, errors);
    check_metaschema(schema, errors);
    if let Some(reference) = find_cycle(schema, false) {
        errors.add(&format!("circular reference `{reference}`"));
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        errors.require(schema.get(keyword).is_none(), || format!("`{keyword}` at the top level"));
    }
    schema_path::walk(schema, &mut |path, node| {
        let members = node.get("allOf").and_then(Value::as_array).map_or(0, Vec::len);
        errors.require(members <= 1, || format!("allOf of {members} members at {}", context(path)));
        let regex = node.get("pattern").and_then(Value::as_str).unwrap_or_default();
        errors.require(pattern::is_simple(regex, true), || format!("pattern '{regex}' is not supported"));
    });
    pattern::check(schema, errors);
}

/// MCP definitions are not converted, so only the outline is checked.
pub(super) fn mcp(definition: &Value, errors: &mut ApiErrors) {
    errors.require(definition.get("name").is_some_and(Value::is_string), || "name: expected a string".into());
}

/// Checks the wrapper that all of them share with OpenAI, without `strict`. Returns the name and the schema.
fn function<'definition>(
    definition: &'definition Value,
    errors: &mut ApiErrors,
) -> Option<(&'definition str, &'definition Value)> {
    let tool = errors.check_keys("tools[0]", definition, &["type", "function"], &[])?;
    errors.require(tool.get("type") == Some(&"function".into()), || "Invalid value: 'tools[0].type'.".into());
    let function: &Map<String, Value> = errors.check_keys(
        "tools[0].function",
        tool.get("function")?,
        &["name", "parameters"],
        &["description"],
    )?;
    errors.require(function.get("description").is_none_or(Value::is_string), || {
        "Invalid type for 'tools[0].function.description': expected a string.".into()
    });
    Some((function.get("name")?.as_str().unwrap_or(""), function.get("parameters")?))
}

fn check_object(schema: &Value, errors: &mut ApiErrors) {
    errors
        .require(schema.get("type") == Some(&"object".into()), || "parameters must be of type object".into());
    check_references(schema, errors);
}

fn check_metaschema(schema: &Value, errors: &mut ApiErrors) {
    if let Err(error) = jsonschema::draft202012::meta::validate(schema) {
        errors.add(&format!("not a valid schema: {error}"));
    }
}
