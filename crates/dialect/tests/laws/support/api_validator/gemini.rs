//! Gemini: `parametersJsonSchema`, and the OpenAPI form under `parameters` on the Developer API.

use serde_json::{Map, Value};

use super::{ApiErrors, check_references, context, find_cycle, properties, required, schema_path};

const DECLARATION: &str = "tools[0].function_declarations[0]";

pub(super) fn json_schema(definition: &Value, errors: &mut ApiErrors) {
    let Some(schema) = declaration(definition, "parametersJsonSchema", errors) else { return };
    let Some(root) = schema.as_object() else {
        errors.add(&format!("Invalid value at '{DECLARATION}.parameters_json_schema'"));
        return;
    };
    errors.require(root.get("type") == Some(&"object".into()), || {
        format!("{DECLARATION}.parameters_json_schema.type: must be object")
    });
    let is_open = root.get("additionalProperties").is_some_and(|rest| *rest != Value::Bool(false));
    errors.require(!properties(root).is_empty() || is_open, || {
        format!("{DECLARATION}.parameters_json_schema.properties: should be non-empty for OBJECT type")
    });
    if let Err(error) = jsonschema::draft202012::meta::validate(schema) {
        errors.add(&format!("{DECLARATION}.parameters_json_schema: {error}"));
    }
    check_references(schema, errors);
    if let Some(reference) = find_cycle(schema, true) {
        errors.add(&format!("{DECLARATION}: cyclic reference `{reference}` through required properties"));
    }
    schema_path::walk(schema, &mut |path, node| match node.as_object() {
        Some(map) => json_schema_node(path, map, errors),
        None if path.last().is_some_and(|step| step == "additionalProperties") => {}
        None => errors.add(&format!("boolean schema at {}", context(path))),
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

fn json_schema_node(path: &[String], node: &Map<String, Value>, errors: &mut ApiErrors) {
    let location = context(path);
    for keyword in node.keys() {
        errors.require(JSON_SCHEMA_KEYWORDS.contains(&keyword.as_str()), || {
            format!("Unknown name \"{keyword}\" at {location}: Cannot find field.")
        });
    }
    if let Some(reference) = node.get("$ref") {
        let siblings: Vec<&String> = node
            .keys()
            .filter(|keyword| !["$ref", "description", "$defs"].contains(&keyword.as_str()))
            .collect();
        errors.require(siblings.is_empty(), || {
            format!("`$ref` {reference} was set alongside unsupported fields {siblings:?}")
        });
    }
    let values = node.get("enum").and_then(Value::as_array);
    errors.require(values.is_none_or(|values| !values.is_empty()), || format!("enum: empty at {location}"));
    for value in values.into_iter().flatten() {
        errors.require(value.is_string() || value.is_number(), || {
            format!("enum: only strings and numbers are supported, got {value} at {location}")
        });
    }
    check_names(&location, node, errors);
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

pub(super) fn open_api(definition: &Value, errors: &mut ApiErrors) {
    let Some(schema) = declaration(definition, "parameters", errors) else { return };
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or("").to_uppercase();
    errors.require(kind == "OBJECT", || format!("{DECLARATION}.parameters.type: must be OBJECT"));
    open_api_node("parameters", schema, errors);
}

fn open_api_node(location: &str, schema: &Value, errors: &mut ApiErrors) {
    let Some(node) = schema.as_object() else {
        errors.add(&format!("Invalid value at '{DECLARATION}.{location}': a schema must be an object"));
        return;
    };
    for keyword in node.keys() {
        let is_known = OPEN_API_KEYWORDS.contains(&keyword.as_str()) || keyword == "default";
        errors.require(is_known, || {
            format!(
                "Invalid JSON payload received. Unknown name \"{keyword}\" at '{DECLARATION}.{location}': Cannot find field."
            )
        });
    }
    if let Some(branches) = node.get("anyOf") {
        errors.require(node.len() == 1, || {
            format!("{DECLARATION}.{location}.any_of: when using any_of, it must be the only field set")
        });
        let branches = branches.as_array().map(Vec::as_slice).unwrap_or_default();
        errors.require(!branches.is_empty(), || {
            format!("{DECLARATION}.{location}.any_of: should be non-empty")
        });
        for (index, branch) in branches.iter().enumerate() {
            open_api_node(&format!("{location}.any_of[{index}]"), branch, errors);
        }
        return;
    }
    let kind = match node.get("type") {
        None => String::new(),
        Some(Value::String(kind)) => kind.to_uppercase(),
        Some(_) => {
            errors.add(&format!(
                "Unknown name \"type\" at '{DECLARATION}.{location}': Proto field is not repeating, cannot start list."
            ));
            return;
        }
    };
    let is_known = ["", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT"].contains(&kind.as_str());
    errors.require(is_known, || {
        format!("Invalid value at '{DECLARATION}.{location}.type' (TYPE_ENUM), \"{kind}\"")
    });
    open_api_format(location, node, &kind, errors);
    errors.require(node.get("nullable").is_none_or(Value::is_boolean), || {
        format!("Invalid value at '{DECLARATION}.{location}.nullable' (TYPE_BOOL)")
    });
    errors.require(kind == "OBJECT" || !node.contains_key("properties"), || {
        format!("{DECLARATION}.{location}.properties: only allowed for OBJECT type")
    });
    errors.require(kind == "ARRAY" || !node.contains_key("items"), || {
        format!("{DECLARATION}.{location}.items: field predicate failed: == Type.ARRAY")
    });
    errors.require(kind != "ARRAY" || node.contains_key("items"), || {
        format!("{DECLARATION}.{location}.items: missing field.")
    });
    errors.require(kind != "OBJECT" || !properties(node).is_empty(), || {
        format!("{DECLARATION}.{location}.properties: should be non-empty for OBJECT type")
    });
    check_names(location, node, errors);
    for (steps, child) in schema_path::children(schema) {
        open_api_node(&format!("{location}.{}", steps.join(".")), child, errors);
    }
}

fn open_api_format(location: &str, node: &Map<String, Value>, kind: &str, errors: &mut ApiErrors) {
    let format = node.get("format").and_then(Value::as_str);
    let formats: &[&str] = match kind {
        "STRING" => &["enum", "date-time"],
        "INTEGER" => &["enum", "int32", "int64"],
        "NUMBER" => &["enum", "float", "double"],
        _ => &[],
    };
    errors.require(format.is_none_or(|format| formats.contains(&format)), || match kind {
        "STRING" => {
            format!(
                "{DECLARATION}.{location}.format: only 'enum' and 'date-time' are supported for STRING type"
            )
        }
        _ => format!("{DECLARATION}.{location}.format: not supported for {kind} type"),
    });
    let Some(values) = node.get("enum").and_then(Value::as_array) else { return };
    let is_number_as_text = matches!(kind, "INTEGER" | "NUMBER") && format == Some("enum");
    errors.require(kind == "STRING" || is_number_as_text, || {
        format!("{DECLARATION}.{location}.enum: only allowed for STRING type")
    });
    for (index, value) in values.iter().enumerate() {
        errors.require(value.is_string(), || {
            format!("Invalid value at '{DECLARATION}.{location}.enum[{index}]' (TYPE_STRING), {value}")
        });
        errors.require(value.as_str() != Some(""), || {
            format!("{DECLARATION}.{location}.enum[{index}]: cannot be empty")
        });
    }
}

/// Checks the wrapper and returns the schema, if there is one.
fn declaration<'definition>(
    definition: &'definition Value,
    field: &str,
    errors: &mut ApiErrors,
) -> Option<&'definition Value> {
    let map = errors.check_keys(DECLARATION, definition, &["name"], &["description", field])?;
    let name = map.get("name").and_then(Value::as_str).unwrap_or("");
    let is_valid = |character: char| character.is_ascii_alphanumeric() || "_.:-".contains(character);
    let has_valid_start = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    errors.require(has_valid_start && name.chars().all(is_valid) && name.len() <= 64, || {
        "Invalid function name. Must start with a letter or an underscore. Must be a-z, A-Z, 0-9, or contain underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64.".into()
    });
    errors.require(map.get("description").is_none_or(Value::is_string), || {
        format!("Invalid value at '{DECLARATION}.description' (TYPE_STRING)")
    });
    map.get(field)
}

/// Checks the property names, and that `required` lists properties only.
fn check_names(location: &str, node: &Map<String, Value>, errors: &mut ApiErrors) {
    let properties = properties(node);
    for name in &properties {
        let has_valid_start = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        let is_valid = |character: char| character.is_ascii_alphanumeric() || character == '_';
        errors.require(has_valid_start && name.chars().all(is_valid) && name.len() <= 64, || {
            format!("{location}: Invalid parameter name `{name}`")
        });
    }
    let undefined: Vec<&str> = required(node).into_iter().filter(|name| !properties.contains(name)).collect();
    errors.require(undefined.is_empty(), || {
        format!("{location}: required fields {undefined:?} are not defined in the schema properties")
    });
}
