//! Flattens alternatives of an object into plain fields.
//!
//! A flattened enum produces an object with fixed fields and a choice between further ones, which no dialect
//! supports. The served schema has all fields side by side and describes in text which belong together. The
//! checked schema keeps the choice.

use serde_json::{Map, Value, json};

use super::walk::each;

/// Flattens the alternatives of objects, if all alternatives are objects.
pub(super) fn flatten_alternatives(schema: &mut Value) {
    each(schema, &mut |schema| {
        let Some(object) = schema.as_object_mut() else { return };
        if object.get("type").is_none_or(|kind| kind != "object") {
            return;
        }
        let choices = take_choices(object);
        for choice in choices {
            flatten_choice(object, &choice);
        }
    });
}

/// Removes and returns the choices between sets of fields; each is a list of alternatives.
fn take_choices(object: &mut Map<String, Value>) -> Vec<Vec<Value>> {
    let mut choices = Vec::new();
    for key in ["oneOf", "anyOf"] {
        if object.get(key).is_some_and(is_choice) {
            choices.extend(object.shift_remove(key));
        }
    }
    let all_are = |parts: &Value| {
        parts.as_array().is_some_and(|parts| {
            parts.iter().all(|part| {
                let choice = part.as_object().filter(|fields| fields.len() == 1);
                choice
                    .and_then(|fields| fields.get("oneOf").or_else(|| fields.get("anyOf")))
                    .is_some_and(is_choice)
            })
        })
    };
    if object.get("allOf").is_some_and(all_are) {
        let parts = object.shift_remove("allOf");
        let parts = parts.as_ref().and_then(Value::as_array).cloned().unwrap_or_default();
        choices
            .extend(parts.iter().filter_map(|part| part.get("oneOf").or_else(|| part.get("anyOf")).cloned()));
    }
    choices.into_iter().filter_map(|choice| choice.as_array().cloned()).collect()
}

fn is_choice(alternatives: &Value) -> bool {
    let is_object = |alternative: &Value| {
        alternative.get("type").is_some_and(|kind| kind == "object")
            && !["oneOf", "anyOf", "allOf", "$ref"].iter().any(|key| alternative.get(key).is_some())
    };
    alternatives.as_array().is_some_and(|alternatives| alternatives.iter().all(is_object))
}

/// A field of some of the alternatives.
struct Field {
    name: String,
    /// The distinct schemas of the field.
    schemas: Vec<Value>,
    /// The indices of the alternatives that have the field, and whether they require it.
    places: Vec<(usize, bool)>,
}

fn flatten_choice(object: &mut Map<String, Value>, alternatives: &[Value]) {
    let mut fields: Vec<Field> = Vec::new();
    for (place, alternative) in alternatives.iter().enumerate() {
        let properties = alternative.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            let needed = list(alternative.get("required")).iter().any(|each| each == name);
            match fields.iter_mut().find(|field| field.name == *name) {
                Some(field) => {
                    field.places.push((place, needed));
                    if !field.schemas.contains(property) {
                        field.schemas.push(property.clone());
                    }
                }
                None => fields.push(Field {
                    name: name.clone(),
                    schemas: vec![property.clone()],
                    places: vec![(place, needed)],
                }),
            }
        }
    }
    let tag = fields.iter().position(|field| {
        field.places.len() == alternatives.len()
            && field.schemas.len() == alternatives.len()
            && field.schemas.iter().all(|schema| schema.get("const").is_some_and(Value::is_string))
    });
    let tag = tag.map(|place| fields.remove(place));
    let mut required = list(object.get("required"));
    let mut properties = Map::new();
    if let Some(tag) = &tag {
        if tag.places.iter().all(|(_, needed)| *needed) {
            required.push(json!(tag.name));
        }
        properties.insert(tag.name.clone(), tag_schema(tag, alternatives));
    }
    for field in &fields {
        if field.places.len() == alternatives.len() && field.places.iter().all(|(_, needed)| *needed) {
            required.push(json!(field.name));
        }
        properties.insert(field.name.clone(), field_schema(field, tag.as_ref(), alternatives.len()));
    }
    let all = object.entry("properties").or_insert_with(|| Map::new().into());
    if let Some(all) = all.as_object_mut() {
        for (name, property) in properties {
            all.entry(name).or_insert(property);
        }
    }
    if !required.is_empty() {
        object.insert("required".to_owned(), required.into());
    }
    object.entry("additionalProperties").or_insert(Value::Bool(false));
}

fn list(value: Option<&Value>) -> Vec<Value> {
    value.and_then(Value::as_array).cloned().unwrap_or_default()
}

/// Returns the schema of the tag field, with the descriptions of the alternatives.
fn tag_schema(tag: &Field, alternatives: &[Value]) -> Value {
    let names: Vec<&Value> = tag.schemas.iter().filter_map(|schema| schema.get("const")).collect();
    let text = names.iter().zip(alternatives).map(|(name, alternative)| {
        let name = name.as_str().unwrap_or_default();
        match alternative.get("description").and_then(Value::as_str) {
            Some(text) => format!("`{name}`: {}", text.trim_end_matches('.')),
            None => format!("`{name}`"),
        }
    });
    let is_described = alternatives.iter().any(|alternative| alternative.get("description").is_some());
    let text = match is_described {
        true => text.collect::<Vec<_>>().join("\n"),
        false => "Selects which of the other arguments apply".to_owned(),
    };
    json!({"type": "string", "enum": names, "description": text})
}

fn field_schema(field: &Field, tag: Option<&Field>, alternatives: usize) -> Value {
    let mut schema = match field.schemas.as_slice() {
        [only] => only.clone(),
        several => json!({"anyOf": several}),
    };
    if field.places.len() == alternatives {
        return schema;
    }
    let is_needed = field.places.iter().all(|(_, needed)| *needed);
    let text = match tag {
        Some(tag) => {
            let names: Vec<String> = field
                .places
                .iter()
                .filter_map(|(place, _)| {
                    Some(format!("`{}`", tag.schemas.get(*place)?.get("const")?.as_str()?))
                })
                .collect();
            let verb = if is_needed { "Required when" } else { "Only allowed when" };
            format!("{verb} `{}` is {}", tag.name, names.join(" or "))
        }
        None => {
            "Belongs to one of several alternatives; do not combine it with arguments of another alternative"
                .to_owned()
        }
    };
    if let Some(fields) = schema.as_object_mut() {
        let description = match fields.get("description").and_then(Value::as_str) {
            Some(own) => format!("{}. {text}", own.trim_end().trim_end_matches('.')),
            None => text,
        };
        fields.insert("description".to_owned(), description.into());
    }
    schema
}
