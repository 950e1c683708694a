//! OpenAI's Chat Completions and Responses, and compatible APIs: the wrapper, and the rules without strict
//! mode.

use serde_json::{Map, Value};

use super::{ApiErrors, check_references, context, pattern, schema_path, strict, types};

/// The rule for the `strict` field of a definition.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Strict {
    /// Chat omits the field; Responses sets it to `false`.
    Never,
    /// The field is present, `true` or `false`.
    Required,
}

pub(super) fn chat(definition: &Value, strict: Strict, errors: &mut ApiErrors) {
    let Some(tool) = errors.check_keys("tools[0]", definition, &["type", "function"], &[]) else { return };
    errors.require(tool.get("type") == Some(&"function".into()), || "Invalid value: 'tools[0].type'.".into());
    let mut required_keys = vec!["name", "description", "parameters"];
    if strict == Strict::Required {
        required_keys.push("strict");
    }
    let function = tool.get("function").unwrap_or(&Value::Null);
    if let Some(function) = errors.check_keys("tools[0].function", function, &required_keys, &[]) {
        check_function(function, "tools[0].function", 64, errors);
    }
}

pub(super) fn responses(definition: &Value, strict: Strict, errors: &mut ApiErrors) {
    let required_keys = ["type", "name", "description", "parameters", "strict"];
    let Some(tool) = errors.check_keys("tools[0]", definition, &required_keys, &[]) else { return };
    errors.require(tool.get("type") == Some(&"function".into()), || "Invalid value: 'tools[0].type'.".into());
    if strict == Strict::Never {
        errors.require(tool.get("strict") == Some(&Value::Bool(false)), || {
            "'tools[0].strict' must be false: left out or null, the server tries strict mode.".into()
        });
    }
    check_function(tool, "tools[0]", 128, errors);
}

pub(super) fn check_count(count: usize, errors: &mut ApiErrors) {
    errors.require(count > 0, || {
        "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead."
            .into()
    });
    errors.require(count <= 128, || {
        format!(
            "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length {count} instead."
        )
    });
}

/// Checks the name and the description, then the schema by the rules of the mode that the function claims.
fn check_function(function: &Map<String, Value>, location: &str, max_len: usize, errors: &mut ApiErrors) {
    let name = function.get("name").and_then(Value::as_str).unwrap_or("");
    check_name(name, location, max_len, errors);
    errors.require(function.get("description").is_some_and(Value::is_string), || {
        format!("Invalid type for '{location}.description': expected a string.")
    });
    let strict = match function.get("strict") {
        None | Some(Value::Bool(false)) => false,
        Some(Value::Bool(true)) => true,
        Some(_) => {
            errors.add(&format!("Invalid type for '{location}.strict': expected a boolean."));
            false
        }
    };
    let parameters = function.get("parameters").unwrap_or(&Value::Null);
    errors.set_subject(format!("Invalid schema for function '{name}': "));
    schema(parameters, errors);
    if strict {
        strict::schema(parameters, errors);
    }
}

pub(super) fn check_name(name: &str, location: &str, max_len: usize, errors: &mut ApiErrors) {
    let is_valid =
        |character: char| character.is_ascii_alphanumeric() || character == '_' || character == '-';
    errors.require(!name.is_empty() && name.chars().all(is_valid), || {
        format!(
            "Invalid '{location}.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
        )
    });
    let length = name.chars().count();
    errors.require(length <= max_len, || {
        format!(
            "Invalid '{location}.name': string too long. Expected a string with maximum length {max_len}, but got a string with length {length} instead."
        )
    });
}

/// Checks the rules that apply in either mode.
pub(super) fn schema(schema: &Value, errors: &mut ApiErrors) {
    let Some(root) = schema.as_object() else {
        errors.add(&format!("{schema} is not of type 'object'"));
        return;
    };
    let kind =
        root.get("type").map_or_else(|| "None".into(), |kind| kind.as_str().unwrap_or("list").to_owned());
    errors.require(kind == "object", || {
        format!("schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'.")
    });
    errors.require(root.get("properties").is_some_and(Value::is_object), || {
        "In context=(), object schema missing properties.".into()
    });
    for keyword in ["oneOf", "anyOf", "allOf", "enum", "not", "const"] {
        errors.require(!root.contains_key(keyword), || {
            format!(
                "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level. (`{keyword}`)"
            )
        });
    }
    if let Err(error) = jsonschema::draft202012::meta::validate(schema) {
        errors.add(&error.to_string());
    }
    check_references(schema, errors);
    schema_path::walk(schema, &mut |path, node| {
        let Some(node) = node.as_object() else { return };
        errors.require(!types(node).contains(&"array") || node.contains_key("items"), || {
            format!("In context={}, array schema missing items.", context(path))
        });
    });
    pattern::check(schema, errors);
}
