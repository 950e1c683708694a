//! Reasons for differences that the report does not list, because they never change which arguments are
//! valid.

use serde_json::{Map, Value};

use super::align::Row;
use super::origins::{Origins, prefixes};
use super::reasons::{Explained, changed, segments};

/// Returns why a line differs although no entry of the report explains it: the dialect writes it differently,
/// which never changes the valid arguments. `definition` is the schema on the right side.
pub(super) fn notation(
    row: &Row,
    explained: Explained,
    schema: &Value,
    definition: Option<&Value>,
    origins: &Origins,
) -> Option<&'static str> {
    let left = changed(row.left.as_ref()).filter(|_| explained.left.is_none());
    let right = changed(row.right.as_ref()).filter(|_| explained.right.is_none());
    if origins.is_between_definitions() {
        return left.or(right).map(|_| OTHER_NOTATION);
    }
    let left = left.map(|line| left_notation(&line.pointer, schema, origins));
    let right = right.map(|line| right_notation(&line.pointer, schema, definition, origins));
    match (left, right) {
        // Each side of a row needs a reason; one is displayed.
        (Some(left), Some(right)) => left.and(right),
        (Some(reason), None) | (None, Some(reason)) => reason,
        (None, None) => None,
    }
}

const OTHER_NOTATION: &str = "the dialects write the same part of the tool in different ways";
const INLINED: &str =
    "references are replaced by the schemas that they refer to, or point to another copy of them";
const VERSION: &str = "the dialect has no versions, ids or comments of schemas";
const ALTERNATIVES: &str = "the alternatives exclude each other, so `oneOf` and `anyOf` are the same";
const NULL: &str = "the alternative null is written in the dialect's way";
const TYPES: &str = "each of several types is an alternative";
const CONST: &str = "`const` is an `enum` with one value";
const ENUM_FORMAT: &str = "the dialect marks each `enum` with this format";
const MOVED: &str = "what is beside alternatives is moved into them";
const MERGED: &str = "the schemas of `allOf` are merged into one";
const ALL_TYPES: [&str; 6] = ["string", "number", "boolean", "object", "array", "null"];
const ENUM_TYPE: &str = "the type is that of the values of `enum`";
const NO_EFFECT: &str = "the keyword has no effect";

/// Returns why the tool differs at a place of its schema.
fn left_notation(pointer: &str, schema: &Value, origins: &Origins) -> Option<&'static str> {
    left_keyword(pointer, schema).or_else(|| {
        let is_split = |prefix: &str| origins.is_split(prefix) && has_types(schema, prefix);
        prefixes(pointer).any(is_split).then_some(TYPES)
    })
}

fn left_keyword(pointer: &str, schema: &Value) -> Option<&'static str> {
    let value = schema.pointer(pointer).unwrap_or(&Value::Null);
    match segments(pointer).as_slice() {
        ["$defs" | "definitions", ..] => Some(INLINED),
        // The name of a property is no keyword.
        [.., "properties" | "patternProperties", _] => around(pointer, schema),
        [.., "$ref"] => Some(INLINED),
        [.., "$schema" | "$id" | "id" | "$comment" | "$anchor"] => Some(VERSION),
        [.., "properties" | "patternProperties"] if value.as_object().is_some_and(Map::is_empty) => {
            Some(NO_EFFECT)
        }
        [.., "additionalProperties"] if *value == true => Some(NO_EFFECT),
        [.., "type"] if ALL_TYPES.iter().all(|name| names(value, name)) => Some(NO_EFFECT),
        [.., "type"] if names(value, "null") => Some(NULL),
        [.., "const"] => Some(CONST),
        [.., "oneOf"] if !is_beside_null(pointer, schema) => Some(ALTERNATIVES),
        [.., "description" | "title"] if is_annotation_of_alternatives(pointer, schema) => Some(MOVED),
        _ => around(pointer, schema),
    }
}

/// Whether the value of `type` contains a type.
fn names(value: &Value, name: &str) -> bool {
    match value {
        Value::Array(types) => types.iter().any(|one| one == name),
        one => one == name,
    }
}

/// Returns why a part of the tool differs because of what is around it.
fn around(pointer: &str, schema: &Value) -> Option<&'static str> {
    if pointer.contains("/allOf") {
        return Some(MERGED);
    }
    if is_beside_null(pointer, schema) {
        return Some(NULL);
    }
    is_beside_alternatives(pointer, schema).then_some(MOVED)
}

/// Returns why the definition differs at a place of its schema.
fn right_notation(
    pointer: &str,
    schema: &Value,
    definition: Option<&Value>,
    origins: &Origins,
) -> Option<&'static str> {
    if pointer.ends_with("/nullable") {
        return Some(NULL);
    }
    let value = definition.and_then(|definition| definition.pointer(pointer));
    if pointer.ends_with("/format") && value.is_some_and(|value| value == "enum") {
        return Some(ENUM_FORMAT);
    }
    if let [.., "anyOf", _, "description" | "title"] = segments(pointer).as_slice() {
        return Some(MOVED);
    }
    if pointer.starts_with("/$defs") || prefixes(pointer).any(|prefix| has_key(schema, prefix, &["$ref"])) {
        return Some(INLINED);
    }
    let mut from = origins.of_value(pointer).iter();
    let is_const =
        |origin: &String| schema.pointer(origin).is_some_and(|schema| schema.get("const").is_some());
    if (pointer.ends_with("/enum") || pointer.ends_with("/type")) && from.clone().any(is_const) {
        return Some(CONST);
    }
    if from.clone().any(|origin| origin.starts_with("/$defs/") || origin.starts_with("/definitions/")) {
        return Some(INLINED);
    }
    let is_type = pointer.ends_with("/type");
    let is_enum = |origin: &String| has_key(schema, origin, &["enum"]) && !has_key(schema, origin, &["type"]);
    if is_type && from.clone().any(is_enum) {
        return Some(ENUM_TYPE);
    }
    let has_null = |origin: &String| {
        let lists = ["anyOf", "oneOf"].map(|key| format!("{origin}/{key}"));
        is_type && lists.iter().any(|list| is_beside_null(list, schema))
    };
    if from.any(|origin| is_beside_null(origin, schema) || has_null(origin)) {
        return Some(NULL);
    }
    if prefixes(pointer).any(|prefix| has_key(schema, prefix, &["allOf"])) {
        return Some(MERGED);
    }
    if pointer.ends_with("/anyOf") {
        return Some(ALTERNATIVES);
    }
    if is_moved_to_alternative(pointer, schema) {
        return Some(MOVED);
    }
    let is_list = |origin: &String| has_types(schema, origin);
    if is_type && origins.of_value(pointer).iter().any(is_list) {
        return Some(NULL);
    }
    let is_of_types = |prefix: &str| origins.of_value(prefix).iter().any(is_list);
    prefixes(pointer).filter(|prefix| prefix.contains("/anyOf/")).any(is_of_types).then_some(TYPES)
}

/// Whether a schema has a list of types.
fn has_types(schema: &Value, pointer: &str) -> bool {
    schema.pointer(pointer).and_then(|schema| schema.get("type")).is_some_and(Value::is_array)
}

fn has_key(schema: &Value, pointer: &str, keys: &[&str]) -> bool {
    schema.pointer(pointer).is_some_and(|schema| keys.iter().any(|key| schema.get(key).is_some()))
}

fn is_annotation_of_alternatives(pointer: &str, schema: &Value) -> bool {
    let parent = pointer.rsplit_once('/').and_then(|(parent, _)| schema.pointer(parent));
    parent.is_some_and(|parent| {
        ["anyOf", "oneOf"].iter().any(|key| parent.get(key).is_some())
            // Alternatives have the texts of all of them.
            || pointer.contains("/anyOf/")
            || pointer.contains("/oneOf/")
    })
}

/// Whether a value is a keyword beside alternatives, or inside such a keyword.
fn is_beside_alternatives(pointer: &str, schema: &Value) -> bool {
    prefixes(pointer).any(|prefix| {
        let below = pointer[prefix.len()..].split('/').nth(1).unwrap_or_default();
        !below.is_empty()
            && !["anyOf", "oneOf"].contains(&below)
            && has_key(schema, prefix, &["anyOf", "oneOf"])
    })
}

/// Whether a value of a definition is a keyword in an alternative, which the tool has beside its
/// alternatives.
fn is_moved_to_alternative(pointer: &str, schema: &Value) -> bool {
    prefixes(pointer).any(|prefix| {
        let mut below = pointer[prefix.len()..].split('/').skip(1);
        let is_list = below.next() == Some("anyOf") && below.next().is_some();
        is_list && below.next().is_some_and(|key| has_key(schema, prefix, &[key]))
    })
}

/// Whether a value is in a list of alternatives of which one is null, or is that list.
fn is_beside_null(pointer: &str, schema: &Value) -> bool {
    let is_null = |alternative: &Value| alternative.get("type").and_then(Value::as_str) == Some("null");
    prefixes(pointer)
        .filter(|prefix| prefix.ends_with("/anyOf") || prefix.ends_with("/oneOf"))
        .filter_map(|prefix| schema.pointer(prefix)?.as_array())
        .any(|alternatives| alternatives.iter().any(is_null))
}
