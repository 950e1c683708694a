//! OpenAI's strict mode: the subset of JSON Schema that `strict: true` allows.

use serde_json::{Map, Value};

use super::{ApiErrors, context, is_of_type, pattern, properties, required, schema_path, types};

const KEYWORDS: [&str; 23] = [
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
        Some(map) => checked(path, map, &mut totals, errors),
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

fn checked(path: &[String], node: &Map<String, Value>, totals: &mut Totals, errors: &mut ApiErrors) {
    let here = context(path);
    for keyword in node.keys() {
        let known = KEYWORDS.contains(&keyword.as_str()) || keyword == "maxLength";
        errors.require(known, || format!("In context={here}, '{keyword}' is not permitted."));
    }
    if let Some(reference) = node.get("$ref").and_then(Value::as_str) {
        let siblings: Vec<&String> = node.keys().filter(|keyword| *keyword != "$ref").collect();
        errors.require(siblings.is_empty(), || {
            format!("In context={here}, $ref cannot have keywords {siblings:?}.")
        });
        let named = reference.strip_prefix("#/$defs/").or_else(|| reference.strip_prefix("#/definitions/"));
        errors.require(reference == "#" || named.is_some_and(|name| !name.contains('/')), || {
            "reference can only point to definitions defined at the top level of the schema.".into()
        });
        return;
    }
    let nested_definitions =
        !path.is_empty() && (node.contains_key("$defs") || node.contains_key("definitions"));
    errors.require(!nested_definitions, || format!("In context={here}, '$defs' is not permitted."));
    let kinds = types(node);
    errors.require(!kinds.is_empty() || node.contains_key("anyOf"), || {
        format!("In context={here}, schema must have a 'type' key.")
    });
    let object = kinds.contains(&"object");
    if object {
        closed(&here, node, errors);
        totals.properties += properties(node).len();
        totals.characters += properties(node).iter().map(|name| name.chars().count()).sum::<usize>();
    } else {
        for keyword in ["properties", "required", "additionalProperties"] {
            errors.require(!node.contains_key(keyword), || {
                format!("In context={here}, '{keyword}' is not permitted.")
            });
        }
    }
    if !kinds.contains(&"array") {
        errors
            .require(!node.contains_key("items"), || format!("In context={here}, 'items' is not permitted."));
    }
    if node.get("anyOf").is_some_and(|branches| branches.as_array().is_none_or(Vec::is_empty)) {
        errors.add(&format!("In context={here}, 'anyOf' must have at least one branch."));
    }
    values(&here, node, &kinds, totals, errors);
    if let Some(format) = node.get("format").and_then(Value::as_str) {
        errors.require(FORMATS.contains(&format), || {
            format!("In context={here}, '{format}' is not a valid format.")
        });
    }
    if let Some(regex) = node.get("pattern").and_then(Value::as_str) {
        errors.require(pattern::is_simple(regex, false), || {
            format!("In context={here}, pattern '{regex}' uses lookaround, which is not supported.")
        });
    }
}

/// Requires an object to be closed and to require every key.
fn closed(here: &str, node: &Map<String, Value>, errors: &mut ApiErrors) {
    errors.require(node.get("additionalProperties") == Some(&Value::Bool(false)), || {
        format!("In context={here}, 'additionalProperties' is required to be supplied and to be false.")
    });
    errors.require(node.get("properties").is_some_and(Value::is_object), || {
        format!("In context={here}, object schema missing properties.")
    });
    let needed = required(node);
    let named = properties(node);
    for name in &named {
        errors.require(needed.contains(name), || {
            format!(
                "In context={here}, 'required' is required to be supplied and to be an array including every key in properties. Missing '{name}'."
            )
        });
    }
    errors.require(node.contains_key("required"), || {
        format!("In context={here}, 'required' is required to be supplied.")
    });
    for name in needed {
        errors.require(named.contains(&name), || {
            format!("In context={here}, Extra required key '{name}' supplied.")
        });
    }
}

fn values(
    here: &str,
    node: &Map<String, Value>,
    kinds: &[&str],
    totals: &mut Totals,
    errors: &mut ApiErrors,
) {
    let listed = node.get("enum").and_then(Value::as_array);
    errors.require(listed.is_none_or(|values| !values.is_empty()), || {
        format!("In context={here}, 'enum' must not be empty.")
    });
    let listed: Vec<&Value> = listed.into_iter().flatten().collect();
    totals.enum_values += listed.len();
    let text =
        |value: &&Value| value.as_str().map_or_else(|| value.to_string().len(), |text| text.chars().count());
    let length: usize = listed.iter().map(text).sum();
    totals.characters += length + node.get("const").iter().map(text).sum::<usize>();
    errors.require(listed.len() <= 250 || length <= 15_000, || {
        format!("In context={here}, enum of {} values has {length} characters, limit 15000.", listed.len())
    });
    for value in listed.into_iter().chain(node.get("const")) {
        let matches = kinds.is_empty() || kinds.iter().any(|kind| is_of_type(value, kind));
        errors.require(matches, || {
            format!("In context={here}, enum value {value} does not validate against {{'type': {kinds:?}}}.")
        });
        errors.require(!value.is_object() && !value.is_array(), || {
            format!("In context={here}, enum value {value} is not a primitive.")
        });
    }
}

/// Returns the top-level definitions.
fn definitions(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    ["$defs", "definitions"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_object()).flatten()
}

/// Returns the nesting depth of objects, without following definitions.
fn depth(schema: &Value) -> usize {
    let below = schema_path::children(schema)
        .into_iter()
        .filter(|(steps, _)| steps[0] != "$defs" && steps[0] != "definitions")
        .map(|(_, child)| depth(child))
        .max()
        .unwrap_or(0);
    let object = schema.as_object().is_some_and(|node| types(node).contains(&"object"));
    below + usize::from(object)
}
