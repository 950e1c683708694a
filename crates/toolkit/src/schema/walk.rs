//! Traversal of the schemas inside a schema.

use serde_json::Value;

/// Keywords whose value is a schema.
const SCHEMA_KEYWORDS: [&str; 11] = [
    "items",
    "additionalProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "contentSchema",
];

/// Keywords whose value is a list of schemas.
const SCHEMA_LIST_KEYWORDS: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];

/// Keywords whose value is a map of schemas.
const SCHEMA_MAP_KEYWORDS: [&str; 5] =
    ["properties", "$defs", "definitions", "patternProperties", "dependentSchemas"];

/// Returns the direct subschemas. A property with the name of a keyword is a property.
pub(crate) fn subschemas(schema: &Value) -> Vec<&Value> {
    let Some(fields) = schema.as_object() else { return Vec::new() };
    let mut found = Vec::new();
    for (key, value) in fields {
        if SCHEMA_KEYWORDS.contains(&key.as_str()) {
            found.push(value);
        } else if SCHEMA_LIST_KEYWORDS.contains(&key.as_str()) {
            found.extend(value.as_array().into_iter().flatten());
        } else if SCHEMA_MAP_KEYWORDS.contains(&key.as_str()) {
            found.extend(value.as_object().into_iter().flat_map(|named| named.values()));
        }
    }
    found
}

/// Returns the direct subschemas for modification.
pub(super) fn subschemas_mut(schema: &mut Value) -> Vec<&mut Value> {
    let Some(fields) = schema.as_object_mut() else { return Vec::new() };
    let mut found = Vec::new();
    for (key, value) in fields {
        if SCHEMA_KEYWORDS.contains(&key.as_str()) {
            found.push(value);
        } else if SCHEMA_LIST_KEYWORDS.contains(&key.as_str()) {
            found.extend(value.as_array_mut().into_iter().flatten());
        } else if SCHEMA_MAP_KEYWORDS.contains(&key.as_str()) {
            found.extend(value.as_object_mut().into_iter().flat_map(|named| named.values_mut()));
        }
    }
    found
}

/// Applies a change to a schema and all its subschemas, outermost first.
pub(crate) fn each(schema: &mut Value, change: &mut impl FnMut(&mut Value)) {
    change(schema);
    for inside in subschemas_mut(schema) {
        each(inside, change);
    }
}
