//! The two kinds of schema that Gemini accepts.
//!
//! Rules in `docs/providers.md`: `gemini/parameters`, `gemini/parameters-json-schema`.

use serde_json::Value;

use super::{check_keys, reject};
use crate::provider::check::Rejection;
use crate::provider::json::{list, object, text};
use crate::provider::schema::undefined_required;

const KEYWORDS: [&str; 22] = [
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
    "anyOf",
    "propertyOrdering",
    "example",
    "default",
];

/// Checks a schema in `parameters`.
pub(super) fn check_openapi(path: &str, schema: &Value, is_root: bool) -> Result<(), Rejection> {
    check_keys(schema, path, &KEYWORDS)?;
    let problem = |at: &str, what: &str| reject(&format!("* GenerateContentRequest.{path}{at}: {what}\n"));
    if schema.get("type").is_some_and(Value::is_array) {
        return Err(reject(&format!(
            "Invalid JSON payload received. Unknown name \"type\" at '{path}': Proto field is not repeating, cannot start list."
        )));
    }
    let kind = text(schema, "type").unwrap_or_default().to_ascii_uppercase();
    if is_root && kind != "OBJECT" {
        return Err(problem("", "functionDeclaration parameters schema should be of type OBJECT."));
    }
    let properties = object(schema, "properties");
    match (kind.as_str(), properties) {
        ("OBJECT", properties) if properties.is_none_or(|properties| properties.is_empty()) => {
            return Err(problem(".properties", "should be non-empty for OBJECT type"));
        }
        ("OBJECT", _) | (_, None) => {}
        _ => return Err(problem(".properties", "only allowed for OBJECT type")),
    }
    match (kind.as_str(), schema.get("items")) {
        ("ARRAY", None) => return Err(problem(".items", "missing field.")),
        ("ARRAY", Some(items)) => check_openapi(&format!("{path}.items"), items, false)?,
        (_, Some(_)) => return Err(problem(".items", "field predicate failed: == Type.ARRAY")),
        _ => {}
    }
    let format = text(schema, "format");
    if kind == "STRING" && format.is_some_and(|format| !["enum", "date-time"].contains(&format)) {
        return Err(problem(".format", "only 'enum' and 'date-time' are supported for STRING type"));
    }
    for (index, value) in list(schema, "enum").iter().enumerate() {
        if !value.is_string() {
            return Err(reject(&format!("Invalid value at '{path}.enum[{index}]' (TYPE_STRING), {value}")));
        }
    }
    if schema.get("enum").is_some() && kind != "STRING" && format != Some("enum") {
        return Err(problem(".enum", "only allowed for STRING type"));
    }
    check_required(path, schema)?;
    for (name, inner) in properties.into_iter().flatten() {
        check_openapi(&format!("{path}.properties[{name}]"), inner, false)?;
    }
    for (index, inner) in list(schema, "anyOf").iter().enumerate() {
        check_openapi(&format!("{path}.any_of[{index}]"), inner, false)?;
    }
    Ok(())
}

/// Checks a schema in `parametersJsonSchema`.
pub(super) fn check_json_schema(path: &str, schema: &Value) -> Result<(), Rejection> {
    if text(schema, "type") != Some("object") {
        let message = "functionDeclaration parameters schema should be of type OBJECT.";
        return Err(reject(&format!("* GenerateContentRequest.{path}: {message}\n")));
    }
    check_required(path, schema)
}

fn check_required(path: &str, schema: &Value) -> Result<(), Rejection> {
    let undefined = undefined_required(schema);
    if undefined.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = undefined.iter().map(|name| format!("'{name}'")).collect();
    Err(reject(&format!(
        "* GenerateContentRequest.{path}.required: required fields [{}] are not defined in the schema properties\n",
        names.join(", ")
    )))
}
