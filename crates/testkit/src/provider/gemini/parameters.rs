//! The two kinds of schema Gemini takes.
//!
//! | rule | source |
//! |---|---|
//! | `parameters`: the keywords of the proto only, one type, `properties` and `items` where they belong | 3.5, 8 Gemini GO |
//! | `enum` on strings, two formats of strings | 3.5, 8 Gemini GO |
//! | `required` names what there is | 8 Gemini |
//! | `parametersJsonSchema`: an object | 2.1 |

use serde_json::Value;

use super::{known, refuse};
use crate::provider::json::{list, object, text};
use crate::provider::judge::Refusal;
use crate::provider::schema::ghosts;

const KEYWORDS: [&str; 20] = [
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
];
const MORE_KEYWORDS: [&str; 2] = ["example", "default"];

/// A schema of the proto.
pub(super) fn openapi(way: &str, schema: &Value, is_root: bool) -> Result<(), Refusal> {
    let keywords: Vec<&str> = KEYWORDS.into_iter().chain(MORE_KEYWORDS).collect();
    known(schema, way, &keywords)?;
    let problem = |at: &str, what: &str| refuse(&format!("* GenerateContentRequest.{way}{at}: {what}\n"));
    if schema.get("type").is_some_and(Value::is_array) {
        return Err(refuse(&format!(
            "Invalid JSON payload received. Unknown name \"type\" at '{way}': Proto field is not repeating, cannot start list."
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
        ("ARRAY", Some(items)) => openapi(&format!("{way}.items"), items, false)?,
        (_, Some(_)) => return Err(problem(".items", "field predicate failed: == Type.ARRAY")),
        _ => {}
    }
    let format = text(schema, "format");
    if kind == "STRING" && format.is_some_and(|format| !["enum", "date-time"].contains(&format)) {
        return Err(problem(".format", "only 'enum' and 'date-time' are supported for STRING type"));
    }
    for (index, value) in list(schema, "enum").iter().enumerate() {
        if !value.is_string() {
            return Err(refuse(&format!("Invalid value at '{way}.enum[{index}]' (TYPE_STRING), {value}")));
        }
    }
    if schema.get("enum").is_some() && kind != "STRING" && format != Some("enum") {
        return Err(problem(".enum", "only allowed for STRING type"));
    }
    required(way, schema)?;
    for (name, inner) in properties.into_iter().flatten() {
        openapi(&format!("{way}.properties[{name}]"), inner, false)?;
    }
    let branches = list(schema, "anyOf").iter().enumerate();
    branches
        .into_iter()
        .try_for_each(|(index, inner)| openapi(&format!("{way}.any_of[{index}]"), inner, false))
}

/// A JSON Schema.
pub(super) fn json_schema(way: &str, schema: &Value) -> Result<(), Refusal> {
    if text(schema, "type") != Some("object") {
        let message = "functionDeclaration parameters schema should be of type OBJECT.";
        return Err(refuse(&format!("* GenerateContentRequest.{way}: {message}\n")));
    }
    required(way, schema)
}

fn required(way: &str, schema: &Value) -> Result<(), Refusal> {
    let ghosts = ghosts(schema);
    if ghosts.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = ghosts.iter().map(|name| format!("'{name}'")).collect();
    Err(refuse(&format!(
        "* GenerateContentRequest.{way}.required: required fields [{}] are not defined in the schema properties\n",
        names.join(", ")
    )))
}
