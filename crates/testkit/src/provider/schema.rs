//! What APIs say to the schemas of tools.
//!
//! | rule | source |
//! |---|---|
//! | OpenAI: root type, root composition, root `properties`, `items`, metaschema, Python regular expressions | 3.1, 8 OpenAI |
//! | OpenAI strict: closed, all required, keywords, formats, references, sizes | 3.2, 8 OS |
//! | Anthropic: root type, root composition, 2020-12, keys of properties | 3.4, 8 Anthropic |
//! | Mistral: draft 7 | 3.7 |

use serde_json::{Map, Value};

use super::json::{self, is_name};

/// OpenAI's message about a schema after `Invalid schema for function 'X': `.
pub(super) fn openai(schema: &Value) -> Option<String> {
    let kind = schema.get("type");
    if kind != Some(&"object".into()) {
        let kind = kind
            .map_or("None".to_owned(), |kind| kind.as_str().map_or_else(|| kind.to_string(), str::to_owned));
        return Some(format!("schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'."));
    }
    if ["oneOf", "anyOf", "allOf", "enum", "not"].iter().any(|&key| schema.get(key).is_some()) {
        return Some(
            "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level."
                .to_owned(),
        );
    }
    if let Err(error) = jsonschema::draft202012::meta::validate(schema) {
        return Some(error.to_string());
    }
    if schema.get("properties").is_none() {
        return Some("In context=(), object schema missing properties.".to_owned());
    }
    walk(schema, &mut Vec::new(), &mut |node, context| {
        if types(node).any(|kind| kind == "array") && !node.contains_key("items") {
            return Some(format!("In context={}, array schema missing items.", tuple(context)));
        }
        let pattern = node.get("pattern").and_then(Value::as_str)?;
        (!is_python(pattern)).then(|| format!("'{}' is not a 'regex'", pattern.replace('\\', "\\\\")))
    })
}

/// Keywords that strict mode names as not permitted.
const NOT_STRICT: [&str; 24] = [
    "allOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "default",
    "dependentRequired",
    "dependentSchemas",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
    "prefixItems",
    "additionalItems",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
    "contentEncoding",
    "contentMediaType",
    "$anchor",
];
const STRICT_FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// The same for a function with `strict: true`.
pub(super) fn openai_strict(schema: &Value) -> Option<String> {
    if let Some(problem) = openai(schema) {
        return Some(problem);
    }
    let levels = levels(schema);
    if levels > 10 {
        return Some(format!("{levels} levels of nesting exceeds limit of 10."));
    }
    walk(schema, &mut Vec::new(), &mut |node, context| {
        let at = format!("In context={}", tuple(context));
        if let Some(keyword) = NOT_STRICT.iter().find(|&&keyword| node.contains_key(keyword)) {
            return Some(format!("{at}, '{keyword}' is not permitted."));
        }
        if let Some(format) = node.get("format").and_then(Value::as_str)
            && !STRICT_FORMATS.contains(&format)
        {
            return Some(format!("{at}, '{format}' is not a valid format."));
        }
        if let Some(reference) = node.get("$ref").and_then(Value::as_str) {
            let is_top = reference == "#"
                || ["#/$defs/", "#/definitions/"]
                    .iter()
                    .any(|start| reference.strip_prefix(start).is_some_and(|name| !name.contains('/')));
            if !is_top {
                return Some(format!(
                    "{at}, reference can only point to definitions defined at the top level of the schema."
                ));
            }
        }
        if types(node).any(|kind| kind == "object") {
            if node.get("additionalProperties") != Some(&Value::Bool(false)) {
                return Some(format!(
                    "{at}, 'additionalProperties' is required to be supplied and to be false."
                ));
            }
            let required = node.get("required").and_then(Value::as_array);
            let is_required = |key: &str| {
                required.is_some_and(|required| required.iter().any(|name| name.as_str() == Some(key)))
            };
            let properties = node.get("properties").and_then(Value::as_object);
            let missing = properties.into_iter().flat_map(Map::keys).find(|key| !is_required(key));
            if let Some(missing) = missing {
                return Some(format!(
                    "{at}, 'required' is required to be supplied and to be an array including every key in properties. \
                     Missing '{missing}'."
                ));
            }
        }
        None
    })
}

/// Anthropic's message about a schema after `tools.N.custom.`.
pub(super) fn anthropic(schema: &Value) -> Option<String> {
    match schema.get("type") {
        None => return Some("input_schema.type: Field required".to_owned()),
        Some(kind) if kind != "object" => {
            return Some("input_schema.type: Input should be 'object'".to_owned());
        }
        Some(_) => {}
    }
    if ["oneOf", "allOf", "anyOf"].iter().any(|&key| schema.get(key).is_some()) {
        return Some(
            "input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level".to_owned(),
        );
    }
    if jsonschema::draft202012::meta::validate(schema).is_err() {
        return Some(
            "input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12".to_owned(),
        );
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let is_bad = properties.is_some_and(|properties| properties.keys().any(|key| !is_name(key, 64, "_.-")));
    is_bad.then(|| {
        "input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'".to_owned()
    })
}

/// Whether a schema passes the metaschema of draft 7.
pub(super) fn is_draft7(schema: &Value) -> bool {
    jsonschema::draft7::meta::validate(schema).is_ok()
}

/// The types a node names.
fn types(node: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let kinds = match node.get("type") {
        Some(Value::Array(kinds)) => kinds.as_slice(),
        Some(kind) => std::slice::from_ref(kind),
        None => &[],
    };
    kinds.iter().filter_map(Value::as_str)
}

type Context = Vec<String>;

/// Looks at every place where a schema stands, outer before inner; the first answer ends it.
fn walk<Answer>(
    schema: &Value,
    context: &mut Context,
    visit: &mut impl FnMut(&Map<String, Value>, &Context) -> Option<Answer>,
) -> Option<Answer> {
    let node = schema.as_object()?;
    if let Some(answer) = visit(node, context) {
        return Some(answer);
    }
    for (key, inner) in places(node) {
        let depth = context.len();
        context.extend(key);
        let answer = walk(inner, context, visit);
        context.truncate(depth);
        if answer.is_some() {
            return answer;
        }
    }
    None
}

/// The schemas right inside of one, each with the way to it.
fn places(node: &Map<String, Value>) -> Vec<(Vec<String>, &Value)> {
    let mut places = Vec::new();
    for (key, value) in node {
        match key.as_str() {
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                let named = value.as_object().into_iter().flatten();
                places.extend(named.map(|(name, inner)| (vec![key.clone(), name.clone()], inner)));
            }
            "prefixItems" | "anyOf" | "oneOf" | "allOf" => {
                let listed = value.as_array().into_iter().flatten().enumerate();
                places.extend(listed.map(|(index, inner)| (vec![key.clone(), index.to_string()], inner)));
            }
            "items"
            | "additionalProperties"
            | "propertyNames"
            | "contains"
            | "not"
            | "if"
            | "then"
            | "else"
            | "unevaluatedItems"
            | "unevaluatedProperties" => places.push((vec![key.clone()], value)),
            _ => {}
        }
    }
    places
}

/// How deep objects stand inside of objects.
fn levels(schema: &Value) -> usize {
    let Some(node) = schema.as_object() else { return 0 };
    let inner =
        places(node).into_iter().filter(|(way, _)| !way[0].ends_with("efs")).map(|(_, inner)| levels(inner));
    usize::from(types(node).any(|kind| kind == "object")) + inner.max().unwrap_or(0)
}

/// A way as Python prints a tuple.
fn tuple(context: &Context) -> String {
    match context.as_slice() {
        [] => "()".to_owned(),
        [one] => format!("('{one}',)"),
        several => format!("('{}')", several.join("', '")),
    }
}

/// Whether Python's `re` compiles a pattern, as far as the forms that are ECMAScript's alone go (4.3).
fn is_python(pattern: &str) -> bool {
    let named_group = pattern.match_indices("(?<").any(|(at, _)| {
        let after = pattern[at + 3..].chars().next();
        !matches!(after, Some('=' | '!'))
    });
    !named_group && !["\\p{", "\\P{", "\\u{", "\\c", "[^]", "[]"].iter().any(|form| pattern.contains(form))
}

/// The properties a schema requires and does not name.
pub(super) fn ghosts(schema: &Value) -> Vec<&str> {
    let properties = json::object(schema, "properties");
    let required = json::list(schema, "required").iter().filter_map(Value::as_str);
    required.filter(|key| !properties.is_some_and(|properties| properties.contains_key(*key))).collect()
}
