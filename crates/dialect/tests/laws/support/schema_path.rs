//! Subschemas of a schema, and the arguments that a location in a schema describes.

use serde_json::{Map, Value};

/// Keywords whose value is a schema.
const SCHEMA_KEYWORDS: [&str; 11] = [
    "additionalProperties",
    "additionalItems",
    "propertyNames",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
];

/// Keywords whose value is a list of schemas.
const LIST_KEYWORDS: [&str; 4] = ["prefixItems", "anyOf", "oneOf", "allOf"];

/// Keywords whose value maps names to schemas.
const MAP_KEYWORDS: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

/// Returns the direct subschemas of `schema`, each with its relative path.
pub fn children(schema: &Value) -> Vec<(Vec<String>, &Value)> {
    let mut children = Vec::new();
    let Some(map) = schema.as_object() else { return children };
    for (keyword, value) in map {
        match value {
            Value::Array(list) if LIST_KEYWORDS.contains(&keyword.as_str()) || keyword == "items" => {
                for (index, item) in list.iter().enumerate() {
                    children.push((vec![keyword.clone(), index.to_string()], item));
                }
            }
            Value::Object(named) if MAP_KEYWORDS.contains(&keyword.as_str()) => {
                for (name, item) in named {
                    // `dependencies` may contain lists of names besides schemas.
                    if !item.is_array() {
                        children.push((vec![keyword.clone(), name.clone()], item));
                    }
                }
            }
            Value::Object(_) | Value::Bool(_)
                if SCHEMA_KEYWORDS.contains(&keyword.as_str()) || keyword == "items" =>
            {
                children.push((vec![keyword.clone()], value));
            }
            _ => {}
        }
    }
    children
}

/// Calls `visit` with `schema` and each subschema, with its path.
pub fn walk<'schema>(schema: &'schema Value, visit: &mut dyn FnMut(&[String], &'schema Value)) {
    walk_from(&mut Vec::new(), schema, visit);
}

fn walk_from<'schema>(
    path: &mut Vec<String>,
    schema: &'schema Value,
    visit: &mut dyn FnMut(&[String], &'schema Value),
) {
    visit(path, schema);
    for (steps, child) in children(schema) {
        let length = path.len();
        path.extend(steps);
        walk_from(path, child, visit);
        path.truncate(length);
    }
}

/// Returns `schema` with `edit` applied to it and to every subschema, subschemas first.
pub fn rewrite(schema: &Value, edit: &dyn Fn(&mut Map<String, Value>)) -> Value {
    let Value::Object(map) = schema else { return schema.clone() };
    let mut result = map.clone();
    for (steps, child) in children(schema) {
        let mut slot = result.get_mut(&steps[0]).expect("a path of a child");
        if let Some(step) = steps.get(1) {
            slot = match slot {
                Value::Array(list) => &mut list[step.parse::<usize>().expect("an index")],
                other => other.get_mut(step.as_str()).expect("a path of a child"),
            };
        }
        *slot = rewrite(child, edit);
    }
    edit(&mut result);
    Value::Object(result)
}

/// Resolves a local `$ref`.
pub fn resolve<'schema>(root: &'schema Value, reference: &str) -> Option<&'schema Value> {
    if let Some(pointer) = reference.strip_prefix('#') {
        if pointer.is_empty() || pointer.starts_with('/') {
            return root.pointer(&percent_decode(pointer));
        }
        let mut found = None;
        walk(root, &mut |_, schema| {
            let anchors = ["$anchor", "$dynamicAnchor"].map(|keyword| schema.get(keyword));
            if anchors.into_iter().flatten().any(|anchor| anchor == pointer) {
                found = Some(schema);
            }
        });
        return found;
    }
    (root.get("$id").and_then(Value::as_str) == Some(reference)).then_some(root)
}

fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while index < bytes.len() {
        let code = text.get(index + 1..index + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (bytes[index], code) {
            (b'%', Some(code)) => {
                decoded.push(code);
                index += 3;
            }
            (byte, _) => {
                decoded.push(byte);
                index += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Returns the steps of an RFC 6901 pointer.
pub fn steps(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect()
}

/// One step of a path in the arguments, as far as a schema determines it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Key(String),
    AnyKey,
    Index(usize),
    AnyIndex,
    /// Any path from here on: the location is in a definition that is used in several places.
    Anywhere,
}

/// Returns the path in the arguments that the location `pointer` in a schema describes.
pub fn argument_path(pointer: &str) -> Vec<Step> {
    let mut path = Vec::new();
    let mut steps = steps(pointer).into_iter();
    while let Some(keyword) = steps.next() {
        match keyword.as_str() {
            "properties" | "dependentSchemas" | "dependencies" => match steps.next() {
                Some(name) if keyword == "properties" => path.push(Step::Key(name)),
                _ => {}
            },
            "patternProperties" => {
                steps.next();
                path.push(Step::AnyKey);
            }
            "additionalProperties" | "unevaluatedProperties" | "propertyNames" => path.push(Step::AnyKey),
            "prefixItems" => {
                path.extend(steps.next().and_then(|index| index.parse().ok()).map(Step::Index));
            }
            "items" | "contains" | "additionalItems" | "unevaluatedItems" => {
                path.push(Step::AnyIndex);
                // In the array form of `items` an index follows; a keyword is never a number.
                let mut ahead = steps.clone();
                if ahead.next().is_some_and(|step| step.parse::<usize>().is_ok()) {
                    steps = ahead;
                }
            }
            "anyOf" | "oneOf" | "allOf" => {
                steps.next();
            }
            "$defs" | "definitions" => {
                path.push(Step::Anywhere);
                return path;
            }
            "not" | "if" | "then" | "else" => {}
            // The keyword has no subschema, so the location is the schema itself.
            _ => break,
        }
    }
    path
}

/// Whether the location `pointer` in a schema describes `argument`, or a value above or below it.
pub fn covers(pointer: &str, argument: &str) -> bool {
    for (step, actual) in argument_path(pointer).iter().zip(steps(argument)) {
        let matches = match step {
            Step::Key(name) => *name == actual,
            Step::Index(index) => index.to_string() == actual,
            Step::AnyIndex => actual.parse::<usize>().is_ok(),
            Step::AnyKey => true,
            Step::Anywhere => return true,
        };
        if !matches {
            return false;
        }
    }
    true
}
