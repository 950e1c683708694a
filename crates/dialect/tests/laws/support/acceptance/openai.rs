//! OpenAI's Chat Completions and Responses, and who follows them: the wrapper, and the rules without strict mode.

use serde_json::{Map, Value};

use super::{Complaints, context, pattern, place, references, strict, types};

/// What a definition may say about strict mode.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Strict {
    /// Chat leaves the field out, Responses says `false`.
    Never,
    /// Always said, `true` or `false`.
    Said,
}

pub(super) fn chat(definition: &Value, strict: Strict, complaints: &mut Complaints) {
    let Some(tool) = complaints.keys("tools[0]", definition, &["type", "function"], &[]) else { return };
    complaints
        .demand(tool.get("type") == Some(&"function".into()), || "Invalid value: 'tools[0].type'.".into());
    let mut needed = vec!["name", "description", "parameters"];
    if strict == Strict::Said {
        needed.push("strict");
    }
    let function = tool.get("function").unwrap_or(&Value::Null);
    if let Some(function) = complaints.keys("tools[0].function", function, &needed, &[]) {
        checked(function, "tools[0].function", 64, complaints);
    }
}

pub(super) fn responses(definition: &Value, strict: Strict, complaints: &mut Complaints) {
    let needed = ["type", "name", "description", "parameters", "strict"];
    let Some(tool) = complaints.keys("tools[0]", definition, &needed, &[]) else { return };
    complaints
        .demand(tool.get("type") == Some(&"function".into()), || "Invalid value: 'tools[0].type'.".into());
    if strict == Strict::Never {
        complaints.demand(tool.get("strict") == Some(&Value::Bool(false)), || {
            "'tools[0].strict' must be false: left out or null, the server tries strict mode.".into()
        });
    }
    checked(tool, "tools[0]", 128, complaints);
}

pub(super) fn count(count: usize, complaints: &mut Complaints) {
    complaints.demand(count > 0, || {
        "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead."
            .into()
    });
    complaints.demand(count <= 128, || {
        format!(
            "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length {count} instead."
        )
    });
}

/// Name and description, then the schema by the rules of the mode that the function claims.
fn checked(function: &Map<String, Value>, place: &str, longest: usize, complaints: &mut Complaints) {
    let name = function.get("name").and_then(Value::as_str).unwrap_or("");
    name_rule(name, place, longest, complaints);
    complaints.demand(function.get("description").is_some_and(Value::is_string), || {
        format!("Invalid type for '{place}.description': expected a string.")
    });
    let strict = match function.get("strict") {
        None | Some(Value::Bool(false)) => false,
        Some(Value::Bool(true)) => true,
        Some(_) => {
            complaints.say(&format!("Invalid type for '{place}.strict': expected a boolean."));
            false
        }
    };
    let parameters = function.get("parameters").unwrap_or(&Value::Null);
    complaints.about(format!("Invalid schema for function '{name}': "));
    schema(parameters, complaints);
    if strict {
        strict::schema(parameters, complaints);
    }
}

pub(super) fn name_rule(name: &str, place: &str, longest: usize, complaints: &mut Complaints) {
    let legal = |character: char| character.is_ascii_alphanumeric() || character == '_' || character == '-';
    complaints.demand(!name.is_empty() && name.chars().all(legal), || {
        format!(
            "Invalid '{place}.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
        )
    });
    let length = name.chars().count();
    complaints.demand(length <= longest, || {
        format!(
            "Invalid '{place}.name': string too long. Expected a string with maximum length {longest}, but got a string with length {length} instead."
        )
    });
}

/// The rules that hold in either mode.
pub(super) fn schema(schema: &Value, complaints: &mut Complaints) {
    let Some(root) = schema.as_object() else {
        complaints.say(&format!("{schema} is not of type 'object'"));
        return;
    };
    let kind =
        root.get("type").map_or_else(|| "None".into(), |kind| kind.as_str().unwrap_or("list").to_owned());
    complaints.demand(kind == "object", || {
        format!("schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'.")
    });
    complaints.demand(root.get("properties").is_some_and(Value::is_object), || {
        "In context=(), object schema missing properties.".into()
    });
    for keyword in ["oneOf", "anyOf", "allOf", "enum", "not", "const"] {
        complaints.demand(!root.contains_key(keyword), || {
            format!(
                "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level. (`{keyword}`)"
            )
        });
    }
    if let Err(error) = jsonschema::draft202012::meta::validate(schema) {
        complaints.say(&error.to_string());
    }
    references(schema, complaints);
    place::walk(schema, &mut |path, node| {
        let Some(node) = node.as_object() else { return };
        complaints.demand(!types(node).contains(&"array") || node.contains_key("items"), || {
            format!("In context={}, array schema missing items.", context(path))
        });
        let keys = node.get("patternProperties").and_then(Value::as_object);
        let keys = keys.into_iter().flatten().map(|(key, _)| key.as_str());
        for regex in node.get("pattern").and_then(Value::as_str).into_iter().chain(keys) {
            complaints.demand(pattern::compiles_in_python(regex), || format!("'{regex}' is not a 'regex'"));
        }
    });
}
