//! OpenAI's strict mode: the subset of JSON Schema that `strict: true` allows.

use serde_json::{Map, Value};

use super::{ApiErrors, context, is_of_type, pattern, properties, required, schema_path, types};

const KEYWORDS: [&str; 24] = [
    "type",
    "title",
    "description",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "anyOf",
    "$ref",
    "$defs",
    "definitions",
    "pattern",
    "format",
    "multipleOf",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
];

const FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

const MAX_DEPTH: usize = 10;
const MAX_PROPERTIES: usize = 5000;
const MAX_CHARACTERS: usize = 120_000;
const MAX_ENUM_VALUES: usize = 1000;

/// The counts over the complete schema.
#[derive(Default)]
struct Totals {
    properties: usize,
    characters: usize,
    enum_values: usize,
}

pub(super) fn schema(schema: &Value, errors: &mut ApiErrors) {
    let mut totals = Totals::default();
    schema_path::walk(schema, &mut |path, node| match node.as_object() {
        Some(map) => check_node(path, map, &mut totals, errors),
        // Strict mode does not treat `additionalProperties: false` as a schema; it is the only allowed value.
        None if path.last().is_some_and(|step| step == "additionalProperties") => {}
        None => {
            errors.add(&format!("In context={}, schema must be an object, not a boolean.", context(path)))
        }
    });
    let depth = depth(schema).max(definitions(schema).map(|(_, schema)| depth(schema)).max().unwrap_or(0));
    errors.require(depth <= MAX_DEPTH, || format!("{depth} levels of nesting exceeds limit of {MAX_DEPTH}."));
    for (name, _) in definitions(schema) {
        totals.characters += name.chars().count();
    }
    errors.require(totals.properties <= MAX_PROPERTIES, || {
        format!("{} object properties exceeds limit of {MAX_PROPERTIES}.", totals.properties)
    });
    errors.require(totals.characters <= MAX_CHARACTERS, || {
        format!("{} characters of names and values exceeds limit of {MAX_CHARACTERS}.", totals.characters)
    });
    errors.require(totals.enum_values <= MAX_ENUM_VALUES, || {
        format!("{} enum values exceeds limit of {MAX_ENUM_VALUES}.", totals.enum_values)
    });
}

fn check_node(path: &[String], node: &Map<String, Value>, totals: &mut Totals, errors: &mut ApiErrors) {
    let location = context(path);
    for keyword in node.keys() {
        let is_known = KEYWORDS.contains(&keyword.as_str());
        errors.require(is_known, || format!("In context={location}, '{keyword}' is not permitted."));
    }
    if let Some(reference) = node.get("$ref").and_then(Value::as_str) {
        let siblings: Vec<&String> = node.keys().filter(|keyword| *keyword != "$ref").collect();
        errors.require(siblings.is_empty(), || {
            format!("In context={location}, $ref cannot have keywords {siblings:?}.")
        });
        let name = reference.strip_prefix("#/$defs/").or_else(|| reference.strip_prefix("#/definitions/"));
        errors.require(reference == "#" || name.is_some_and(|name| !name.contains('/')), || {
            "reference can only point to definitions defined at the top level of the schema.".into()
        });
        return;
    }
    let has_nested_definitions =
        !path.is_empty() && (node.contains_key("$defs") || node.contains_key("definitions"));
    errors.require(!has_nested_definitions, || format!("In context={location}, '$defs' is not permitted."));
    let kinds = types(node);
    errors.require(!kinds.is_empty() || node.contains_key("anyOf"), || {
        format!("In context={location}, schema must have a 'type' key.")
    });
    if kinds.contains(&"object") {
        check_closed(&location, node, errors);
        totals.properties += properties(node).len();
        totals.characters += properties(node).iter().map(|name| name.chars().count()).sum::<usize>();
    } else {
        for keyword in ["properties", "required", "additionalProperties"] {
            errors.require(!node.contains_key(keyword), || {
                format!("In context={location}, '{keyword}' is not permitted.")
            });
        }
    }
    if !kinds.contains(&"array") {
        errors.require(!node.contains_key("items"), || {
            format!("In context={location}, 'items' is not permitted.")
        });
    }
    if node.get("anyOf").is_some_and(|branches| branches.as_array().is_none_or(Vec::is_empty)) {
        errors.add(&format!("In context={location}, 'anyOf' must have at least one branch."));
    }
    check_values(&location, node, &kinds, totals, errors);
    if let Some(format) = node.get("format").and_then(Value::as_str) {
        errors.require(FORMATS.contains(&format), || {
            format!("In context={location}, '{format}' is not a valid format.")
        });
    }
    if let Some(regex) = node.get("pattern").and_then(Value::as_str) {
        errors.require(pattern::is_simple(regex, false), || {
            format!("In context={location}, pattern '{regex}' uses lookaround, which is not supported.")
        });
    }
}

/// Requires an object to be closed and to require every key.
fn check_closed(location: &str, node: &Map<String, Value>, errors: &mut ApiErrors) {
    errors.require(node.get("additionalProperties") == Some(&Value::Bool(false)), || {
        format!("In context={location}, 'additionalProperties' is required to be supplied and to be false.")
    });
    errors.require(node.get("properties").is_some_and(Value::is_object), || {
        format!("In context={location}, object schema missing properties.")
    });
    let required = required(node);
    let properties = properties(node);
    for name in &properties {
        errors.require(required.contains(name), || {
            format!(
                "In context={location}, 'required' is required to be supplied and to be an array including every key in properties. Missing '{name}'."
            )
        });
    }
    errors.require(node.contains_key("required"), || {
        format!("In context={location}, 'required' is required to be supplied.")
    });
    for name in required {
        errors.require(properties.contains(&name), || {
            format!("In context={location}, Extra required key '{name}' supplied.")
        });
    }
}

fn check_values(
    location: &str,
    node: &Map<String, Value>,
    kinds: &[&str],
    totals: &mut Totals,
    errors: &mut ApiErrors,
) {
    let values = node.get("enum").and_then(Value::as_array);
    errors.require(values.is_none_or(|values| !values.is_empty()), || {
        format!("In context={location}, 'enum' must not be empty.")
    });
    let values: Vec<&Value> = values.into_iter().flatten().collect();
    totals.enum_values += values.len();
    let char_count =
        |value: &&Value| value.as_str().map_or_else(|| value.to_string().len(), |text| text.chars().count());
    let length: usize = values.iter().map(char_count).sum();
    totals.characters += length + node.get("const").iter().map(char_count).sum::<usize>();
    errors.require(values.len() <= 250 || length <= 15_000, || {
        format!(
            "In context={location}, enum of {} values has {length} characters, limit 15000.",
            values.len()
        )
    });
    for value in values.into_iter().chain(node.get("const")) {
        let has_type = kinds.is_empty() || kinds.iter().any(|kind| is_of_type(value, kind));
        errors.require(has_type, || {
            format!(
                "In context={location}, enum value {value} does not validate against {{'type': {kinds:?}}}."
            )
        });
        errors.require(!value.is_object() && !value.is_array(), || {
            format!("In context={location}, enum value {value} is not a primitive.")
        });
    }
}

/// Returns the top-level definitions.
fn definitions(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    ["$defs", "definitions"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_object()).flatten()
}

/// Returns the nesting depth of objects, without following definitions.
fn depth(schema: &Value) -> usize {
    let child_depth = schema_path::children(schema)
        .into_iter()
        .filter(|(steps, _)| steps[0] != "$defs" && steps[0] != "definitions")
        .map(|(_, child)| depth(child))
        .max()
        .unwrap_or(0);
    let is_object = schema.as_object().is_some_and(|node| types(node).contains(&"object"));
    child_depth + usize::from(is_object)
}
