//! Removes Rust-specific parts from a generated schema and normalizes the rest.

use serde_json::{Map, Value};

use super::walk::{each, subschemas_mut};
use crate::check::{allows_null, normalize};

/// Removes the names of Rust types; the tool has its own name and description.
pub(super) fn root(schema: &mut Value) {
    if let Some(fields) = schema.as_object_mut() {
        for key in ["$schema", "title", "description"] {
            fields.shift_remove(key);
        }
    }
}

/// Removes the formats of numbers, which are specific to Rust.
pub(super) fn formats(schema: &mut Value) {
    each(schema, &mut |schema| {
        let Some(fields) = schema.as_object_mut() else { return };
        let is_number = fields.get("type").is_some_and(|kind| {
            ["integer", "number"].iter().any(|name| {
                kind == name || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == name))
            })
        });
        if is_number {
            fields.shift_remove("format");
        }
    });
}

/// Removes `null` from optional fields, converts choices to `enum`, and closes objects.
///
/// A schema that describes only a part of an object (`is_whole` is false) does not close it.
pub(super) fn arguments(schema: &mut Value, is_whole: bool) {
    choices(schema);
    let Some(fields) = schema.as_object_mut() else { return };
    let required: Vec<String> = fields.get("required").map(texts).unwrap_or_default();
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        for (name, property) in properties {
            if !required.contains(name) {
                without_null(property);
            }
        }
    }
    let is_composed =
        ["allOf", "anyOf", "oneOf", "$ref", "if", "not"].iter().any(|key| fields.contains_key(*key));
    let others_unspecified = !["additionalProperties", "unevaluatedProperties", "patternProperties"]
        .iter()
        .any(|key| fields.contains_key(*key));
    let is_object = fields.get("type").is_some_and(|kind| kind == "object");
    if is_object && !fields.contains_key("properties") && others_unspecified && !is_composed && is_whole {
        fields.insert("properties".to_owned(), Map::new().into());
    }
    if fields.contains_key("properties") && others_unspecified && !is_composed && is_whole {
        fields.insert("additionalProperties".to_owned(), false.into());
    }
    let branches_are_whole = is_whole && !fields.contains_key("properties");
    for key in ["anyOf", "oneOf", "allOf"] {
        for branch in fields.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten() {
            arguments(branch, branches_are_whole);
        }
    }
    let composed: Vec<(String, Value)> = ["anyOf", "oneOf", "allOf"]
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), fields.get_mut(*key)?.take())))
        .collect();
    for inside in subschemas_mut(schema) {
        arguments(inside, true);
    }
    let Some(fields) = schema.as_object_mut() else { return };
    fields.extend(composed);
    // The default of a secret would be serialized as redacted.
    if fields.get("writeOnly").is_some_and(|flag| flag == true) {
        fields.shift_remove("default");
    }
    // Models use the default as an example, so it must match the schema.
    if let Some(mut default) = fields.get("default").cloned() {
        normalize(&mut default, schema, schema);
        schema["default"] = default;
    }
}

/// Returns the fields with a default that is not in the schema, because its type cannot be serialized.
///
/// The default of a secret is omitted on purpose.
pub(super) fn hidden_defaults(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    gather_hidden(schema, "", &mut found);
    found
}

fn gather_hidden(schema: &Value, path: &str, found: &mut Vec<String>) {
    let required: Vec<String> = schema.get("required").map(texts).unwrap_or_default();
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let is_shown = property.get("default").is_some() || property.get("writeOnly").is_some();
        if !required.contains(name) && !is_shown && !allows_null(property) {
            found.push(path.clone());
        }
        gather_hidden(property, &path, found);
    }
    for key in ["items", "anyOf", "oneOf", "allOf"] {
        match schema.get(key) {
            Some(Value::Array(branches)) => {
                branches.iter().for_each(|branch| gather_hidden(branch, path, found))
            }
            Some(inside) => gather_hidden(inside, path, found),
            None => (),
        }
    }
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Removes `null` from the schema of a field that can be omitted.
fn without_null(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    if let Some(Value::Array(kinds)) = fields.get_mut("type")
        && kinds.len() > 1
    {
        kinds.retain(|kind| kind != "null");
        if let [kind] = kinds.as_slice() {
            let kind = kind.clone();
            fields.insert("type".to_owned(), kind);
        }
    }
    if let Some(Value::Array(options)) = fields.get_mut("enum")
        && options.len() > 1
    {
        options.retain(|option| !option.is_null());
    }
    if fields.get("default").is_some_and(Value::is_null) {
        fields.shift_remove("default");
    }
    for key in ["anyOf", "oneOf"] {
        let Some(Value::Array(branches)) = fields.get_mut(key) else { continue };
        if branches.len() < 2 {
            continue;
        }
        branches.retain(|branch| branch.get("type").is_none_or(|kind| kind != "null"));
        if let [Value::Object(only)] = branches.as_slice() {
            let only = only.clone();
            fields.shift_remove(key);
            for (key, value) in only {
                // The field's own description takes precedence over that of its type.
                fields.entry(key).or_insert(value);
            }
        }
    }
}

/// Converts alternatives that are constant strings to an `enum`, and moves their descriptions into the
/// description of the field.
fn choices(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    for key in ["oneOf", "anyOf"] {
        let Some(branches) = fields.get(key).and_then(Value::as_array) else { continue };
        let Some(chosen) = branches.iter().map(choice).collect::<Option<Vec<_>>>() else { continue };
        let mut words: Vec<String> =
            fields.get("description").and_then(Value::as_str).map(str::to_owned).into_iter().collect();
        words.extend(chosen.iter().filter_map(|(options, description)| {
            let description = (*description)?;
            Some(format!("`{}`: {}", options.first()?.as_str()?, description.trim_end_matches('.')))
        }));
        let options: Vec<Value> = chosen.into_iter().flat_map(|(options, _)| options).collect();
        fields.shift_remove(key);
        fields.insert("type".to_owned(), "string".into());
        fields.insert("enum".to_owned(), options.into());
        if !words.is_empty() {
            fields.insert("description".to_owned(), words.join("\n").into());
        }
    }
}

/// Returns the strings that an alternative allows, if it allows nothing else.
fn choice(branch: &Value) -> Option<(Vec<Value>, Option<&str>)> {
    let fields = branch.as_object()?;
    if !fields.keys().all(|key| ["type", "const", "enum", "description"].contains(&key.as_str())) {
        return None;
    }
    let options = match (fields.get("const"), fields.get("enum")) {
        (Some(constant), None) => vec![constant.clone()],
        (None, Some(Value::Array(options))) => options.clone(),
        _ => return None,
    };
    options.iter().all(Value::is_string).then_some(())?;
    Some((options, fields.get("description").and_then(Value::as_str)))
}
