//! Gemini: `parametersJsonSchema`, and the OpenAPI form under `parameters` on the Developer API.

use serde_json::{Map, Value};

use super::{Complaints, circle, context, place, properties, references, required};

const PLACE: &str = "tools[0].function_declarations[0]";

pub(super) fn json_schema(definition: &Value, complaints: &mut Complaints) {
    let Some(schema) = declaration(definition, "parametersJsonSchema", complaints) else { return };
    let Some(root) = schema.as_object() else {
        complaints.say(&format!("Invalid value at '{PLACE}.parameters_json_schema'"));
        return;
    };
    complaints.demand(root.get("type") == Some(&"object".into()), || {
        format!("{PLACE}.parameters_json_schema.type: must be object")
    });
    let open = root.get("additionalProperties").is_some_and(|rest| *rest != Value::Bool(false));
    complaints.demand(!properties(root).is_empty() || open, || {
        format!("{PLACE}.parameters_json_schema.properties: should be non-empty for OBJECT type")
    });
    if let Err(error) = jsonschema::draft202012::meta::validate(schema) {
        complaints.say(&format!("{PLACE}.parameters_json_schema: {error}"));
    }
    references(schema, complaints);
    if let Some(reference) = circle(schema, true) {
        complaints.say(&format!("{PLACE}: cyclic reference `{reference}` through required properties"));
    }
    place::walk(schema, &mut |path, node| match node.as_object() {
        Some(map) => json_schema_node(path, map, complaints),
        None if path.last().is_some_and(|step| step == "additionalProperties") => {}
        None => complaints.say(&format!("boolean schema at {}", context(path))),
    });
}

const JSON_SCHEMA_KEYWORDS: [&str; 21] = [
    "$id",
    "$defs",
    "$ref",
    "$anchor",
    "type",
    "format",
    "title",
    "description",
    "enum",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "anyOf",
    "oneOf",
    "properties",
    "additionalProperties",
    "required",
    "propertyOrdering",
];

fn json_schema_node(path: &[String], node: &Map<String, Value>, complaints: &mut Complaints) {
    let here = context(path);
    for keyword in node.keys() {
        complaints.demand(JSON_SCHEMA_KEYWORDS.contains(&keyword.as_str()), || {
            format!("Unknown name \"{keyword}\" at {here}: Cannot find field.")
        });
    }
    if let Some(reference) = node.get("$ref") {
        let siblings: Vec<&String> = node
            .keys()
            .filter(|keyword| !["$ref", "description", "$defs"].contains(&keyword.as_str()))
            .collect();
        complaints.demand(siblings.is_empty(), || {
            format!("`$ref` {reference} was set alongside unsupported fields {siblings:?}")
        });
    }
    let listed = node.get("enum").and_then(Value::as_array);
    complaints.demand(listed.is_none_or(|values| !values.is_empty()), || format!("enum: empty at {here}"));
    for value in listed.into_iter().flatten() {
        complaints.demand(value.is_string() || value.is_number(), || {
            format!("enum: only strings and numbers are supported, got {value} at {here}")
        });
    }
    keys(&here, node, complaints);
}

const OPEN_API_KEYWORDS: [&str; 21] = [
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "enum",
    "items",
    "minItems",
    "maxItems",
    "properties",
    "required",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "example",
    "anyOf",
    "propertyOrdering",
];

pub(super) fn open_api(definition: &Value, complaints: &mut Complaints) {
    let Some(schema) = declaration(definition, "parameters", complaints) else { return };
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or("").to_uppercase();
    complaints.demand(kind == "OBJECT", || format!("{PLACE}.parameters.type: must be OBJECT"));
    open_api_node("parameters", schema, complaints);
}

fn open_api_node(here: &str, schema: &Value, complaints: &mut Complaints) {
    let Some(node) = schema.as_object() else {
        complaints.say(&format!("Invalid value at '{PLACE}.{here}': a schema must be an object"));
        return;
    };
    for keyword in node.keys() {
        let known = OPEN_API_KEYWORDS.contains(&keyword.as_str()) || keyword == "default";
        complaints.demand(known, || {
            format!(
                "Invalid JSON payload received. Unknown name \"{keyword}\" at '{PLACE}.{here}': Cannot find field."
            )
        });
    }
    if let Some(branches) = node.get("anyOf") {
        complaints.demand(node.len() == 1, || {
            format!("{PLACE}.{here}.any_of: when using any_of, it must be the only field set")
        });
        let branches = branches.as_array().map(Vec::as_slice).unwrap_or_default();
        complaints.demand(!branches.is_empty(), || format!("{PLACE}.{here}.any_of: should be non-empty"));
        for (index, branch) in branches.iter().enumerate() {
            open_api_node(&format!("{here}.any_of[{index}]"), branch, complaints);
        }
        return;
    }
    let kind = match node.get("type") {
        None => String::new(),
        Some(Value::String(kind)) => kind.to_uppercase(),
        Some(_) => {
            complaints.say(&format!(
                "Unknown name \"type\" at '{PLACE}.{here}': Proto field is not repeating, cannot start list."
            ));
            return;
        }
    };
    let known = ["", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT"].contains(&kind.as_str());
    complaints.demand(known, || format!("Invalid value at '{PLACE}.{here}.type' (TYPE_ENUM), \"{kind}\""));
    open_api_format(here, node, &kind, complaints);
    complaints.demand(node.get("nullable").is_none_or(Value::is_boolean), || {
        format!("Invalid value at '{PLACE}.{here}.nullable' (TYPE_BOOL)")
    });
    complaints.demand(kind == "OBJECT" || !node.contains_key("properties"), || {
        format!("{PLACE}.{here}.properties: only allowed for OBJECT type")
    });
    complaints.demand(kind == "ARRAY" || !node.contains_key("items"), || {
        format!("{PLACE}.{here}.items: field predicate failed: == Type.ARRAY")
    });
    complaints.demand(kind != "ARRAY" || node.contains_key("items"), || {
        format!("{PLACE}.{here}.items: missing field.")
    });
    complaints.demand(kind != "OBJECT" || !properties(node).is_empty(), || {
        format!("{PLACE}.{here}.properties: should be non-empty for OBJECT type")
    });
    keys(here, node, complaints);
    for (steps, child) in place::children(schema) {
        open_api_node(&format!("{here}.{}", steps.join(".")), child, complaints);
    }
}

fn open_api_format(here: &str, node: &Map<String, Value>, kind: &str, complaints: &mut Complaints) {
    let format = node.get("format").and_then(Value::as_str);
    let formats: &[&str] = match kind {
        "STRING" => &["enum", "date-time"],
        "INTEGER" => &["enum", "int32", "int64"],
        "NUMBER" => &["enum", "float", "double"],
        _ => &[],
    };
    complaints.demand(format.is_none_or(|format| formats.contains(&format)), || match kind {
        "STRING" => {
            format!("{PLACE}.{here}.format: only 'enum' and 'date-time' are supported for STRING type")
        }
        _ => format!("{PLACE}.{here}.format: not supported for {kind} type"),
    });
    let Some(values) = node.get("enum").and_then(Value::as_array) else { return };
    let number_as_text = matches!(kind, "INTEGER" | "NUMBER") && format == Some("enum");
    complaints.demand(kind == "STRING" || number_as_text, || {
        format!("{PLACE}.{here}.enum: only allowed for STRING type")
    });
    for (index, value) in values.iter().enumerate() {
        complaints.demand(value.is_string(), || {
            format!("Invalid value at '{PLACE}.{here}.enum[{index}]' (TYPE_STRING), {value}")
        });
        complaints
            .demand(value.as_str() != Some(""), || format!("{PLACE}.{here}.enum[{index}]: cannot be empty"));
    }
}

/// The wrapper; gives the schema, if there is one.
fn declaration<'definition>(
    definition: &'definition Value,
    field: &str,
    complaints: &mut Complaints,
) -> Option<&'definition Value> {
    let map = complaints.keys(PLACE, definition, &["name"], &["description", field])?;
    let name = map.get("name").and_then(Value::as_str).unwrap_or("");
    let legal = |character: char| character.is_ascii_alphanumeric() || "_.:-".contains(character);
    let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    complaints.demand(starts && name.chars().all(legal) && name.len() <= 64, || {
        "Invalid function name. Must start with a letter or an underscore. Must be a-z, A-Z, 0-9, or contain underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64.".into()
    });
    complaints.demand(map.get("description").is_none_or(Value::is_string), || {
        format!("Invalid value at '{PLACE}.description' (TYPE_STRING)")
    });
    map.get(field)
}

/// Property names, and that `required` names properties only.
fn keys(here: &str, node: &Map<String, Value>, complaints: &mut Complaints) {
    let named = properties(node);
    for name in &named {
        let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        let legal = |character: char| character.is_ascii_alphanumeric() || character == '_';
        complaints.demand(starts && name.chars().all(legal) && name.len() <= 64, || {
            format!("{here}: Invalid parameter name `{name}`")
        });
    }
    let stale: Vec<&str> = required(node).into_iter().filter(|name| !named.contains(name)).collect();
    complaints.demand(stale.is_empty(), || {
        format!("{here}: required fields {stale:?} are not defined in the schema properties")
    });
}
