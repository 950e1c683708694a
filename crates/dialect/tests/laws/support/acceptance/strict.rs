//! OpenAI's strict mode: the subset that `strict: true` promises.

use serde_json::{Map, Value};

use super::{Complaints, context, is_of_type, pattern, place, properties, required, types};

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

const DEEPEST: usize = 10;
const MOST_PROPERTIES: usize = 5000;
const MOST_CHARACTERS: usize = 120_000;
const MOST_ENUM_VALUES: usize = 1000;

/// What is counted over the whole schema.
#[derive(Default)]
struct Totals {
    properties: usize,
    characters: usize,
    enum_values: usize,
}

pub(super) fn schema(schema: &Value, complaints: &mut Complaints) {
    let mut totals = Totals::default();
    place::walk(schema, &mut |path, node| match node.as_object() {
        Some(map) => checked(path, map, &mut totals, complaints),
        // `additionalProperties: false` is no schema to strict mode but the one allowed value.
        None if path.last().is_some_and(|step| step == "additionalProperties") => {}
        None => {
            complaints.say(&format!("In context={}, schema must be an object, not a boolean.", context(path)))
        }
    });
    let deepest =
        deepest(schema).max(definitions(schema).map(|(_, schema)| deepest(schema)).max().unwrap_or(0));
    complaints
        .demand(deepest <= DEEPEST, || format!("{deepest} levels of nesting exceeds limit of {DEEPEST}."));
    for (name, _) in definitions(schema) {
        totals.characters += name.chars().count();
    }
    complaints.demand(totals.properties <= MOST_PROPERTIES, || {
        format!("{} object properties exceeds limit of {MOST_PROPERTIES}.", totals.properties)
    });
    complaints.demand(totals.characters <= MOST_CHARACTERS, || {
        format!("{} characters of names and values exceeds limit of {MOST_CHARACTERS}.", totals.characters)
    });
    complaints.demand(totals.enum_values <= MOST_ENUM_VALUES, || {
        format!("{} enum values exceeds limit of {MOST_ENUM_VALUES}.", totals.enum_values)
    });
}

fn checked(path: &[String], node: &Map<String, Value>, totals: &mut Totals, complaints: &mut Complaints) {
    let here = context(path);
    for keyword in node.keys() {
        let known = KEYWORDS.contains(&keyword.as_str()) || keyword == "maxLength";
        complaints.demand(known, || format!("In context={here}, '{keyword}' is not permitted."));
    }
    if let Some(reference) = node.get("$ref").and_then(Value::as_str) {
        let siblings: Vec<&String> = node.keys().filter(|keyword| *keyword != "$ref").collect();
        complaints.demand(siblings.is_empty(), || {
            format!("In context={here}, $ref cannot have keywords {siblings:?}.")
        });
        let named = reference.strip_prefix("#/$defs/").or_else(|| reference.strip_prefix("#/definitions/"));
        complaints.demand(reference == "#" || named.is_some_and(|name| !name.contains('/')), || {
            "reference can only point to definitions defined at the top level of the schema.".into()
        });
        return;
    }
    let nested_definitions =
        !path.is_empty() && (node.contains_key("$defs") || node.contains_key("definitions"));
    complaints.demand(!nested_definitions, || format!("In context={here}, '$defs' is not permitted."));
    let kinds = types(node);
    complaints.demand(!kinds.is_empty() || node.contains_key("anyOf"), || {
        format!("In context={here}, schema must have a 'type' key.")
    });
    let object = kinds.contains(&"object");
    if object {
        closed(&here, node, complaints);
        totals.properties += properties(node).len();
        totals.characters += properties(node).iter().map(|name| name.chars().count()).sum::<usize>();
    } else {
        for keyword in ["properties", "required", "additionalProperties"] {
            complaints.demand(!node.contains_key(keyword), || {
                format!("In context={here}, '{keyword}' is not permitted.")
            });
        }
    }
    if !kinds.contains(&"array") {
        complaints
            .demand(!node.contains_key("items"), || format!("In context={here}, 'items' is not permitted."));
    }
    if node.get("anyOf").is_some_and(|branches| branches.as_array().is_none_or(Vec::is_empty)) {
        complaints.say(&format!("In context={here}, 'anyOf' must have at least one branch."));
    }
    values(&here, node, &kinds, totals, complaints);
    if let Some(format) = node.get("format").and_then(Value::as_str) {
        complaints.demand(FORMATS.contains(&format), || {
            format!("In context={here}, '{format}' is not a valid format.")
        });
    }
    if let Some(regex) = node.get("pattern").and_then(Value::as_str) {
        complaints.demand(pattern::is_simple(regex, false), || {
            format!("In context={here}, pattern '{regex}' uses lookaround, which is not supported.")
        });
    }
}

/// An object must say that it is closed, and require every key.
fn closed(here: &str, node: &Map<String, Value>, complaints: &mut Complaints) {
    complaints.demand(node.get("additionalProperties") == Some(&Value::Bool(false)), || {
        format!("In context={here}, 'additionalProperties' is required to be supplied and to be false.")
    });
    complaints.demand(node.get("properties").is_some_and(Value::is_object), || {
        format!("In context={here}, object schema missing properties.")
    });
    let needed = required(node);
    let named = properties(node);
    for name in &named {
        complaints.demand(needed.contains(name), || {
            format!(
                "In context={here}, 'required' is required to be supplied and to be an array including every key in properties. Missing '{name}'."
            )
        });
    }
    complaints.demand(node.contains_key("required"), || {
        format!("In context={here}, 'required' is required to be supplied.")
    });
    for name in needed {
        complaints.demand(named.contains(&name), || {
            format!("In context={here}, Extra required key '{name}' supplied.")
        });
    }
}

fn values(
    here: &str,
    node: &Map<String, Value>,
    kinds: &[&str],
    totals: &mut Totals,
    complaints: &mut Complaints,
) {
    let listed = node.get("enum").and_then(Value::as_array);
    complaints.demand(listed.is_none_or(|values| !values.is_empty()), || {
        format!("In context={here}, 'enum' must not be empty.")
    });
    let listed: Vec<&Value> = listed.into_iter().flatten().collect();
    totals.enum_values += listed.len();
    let text =
        |value: &&Value| value.as_str().map_or_else(|| value.to_string().len(), |text| text.chars().count());
    let length: usize = listed.iter().map(text).sum();
    totals.characters += length + node.get("const").iter().map(text).sum::<usize>();
    complaints.demand(listed.len() <= 250 || length <= 15_000, || {
        format!("In context={here}, enum of {} values has {length} characters, limit 15000.", listed.len())
    });
    for value in listed.into_iter().chain(node.get("const")) {
        let fits = kinds.is_empty() || kinds.iter().any(|kind| is_of_type(value, kind));
        complaints.demand(fits, || {
            format!("In context={here}, enum value {value} does not validate against {{'type': {kinds:?}}}.")
        });
        complaints.demand(!value.is_object() && !value.is_array(), || {
            format!("In context={here}, enum value {value} is not a primitive.")
        });
    }
}

/// The top-level definitions.
fn definitions(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    ["$defs", "definitions"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_object()).flatten()
}

/// How many objects stand inside one another, definitions not followed.
fn deepest(schema: &Value) -> usize {
    let below = place::children(schema)
        .into_iter()
        .filter(|(steps, _)| steps[0] != "$defs" && steps[0] != "definitions")
        .map(|(_, child)| deepest(child))
        .max()
        .unwrap_or(0);
    let object = schema.as_object().is_some_and(|node| types(node).contains(&"object"));
    below + usize::from(object)
}
