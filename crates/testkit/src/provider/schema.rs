//! Checks of tool schemas that several APIs share.
//!
//! Rules in `docs/providers.md`: `openai-chat/schema`, `openai-strict/*`, `anthropic/schema`,
//! `mistral/schema`.

use serde_json::{Map, Value};

use super::json::{self, is_name};

/// Returns the part of OpenAI's error message after `Invalid schema for function 'X': `.
pub(super) fn openai_problem(schema: &Value) -> Option<String> {
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
    walk(schema, &mut Vec::new(), &mut |node, path| {
        if types(node).any(|kind| kind == "array") && !node.contains_key("items") {
            return Some(format!("In context={}, array schema missing items.", python_tuple(path)));
        }
        let pattern = node.get("pattern").and_then(Value::as_str)?;
        (!compiles_in_python(pattern))
            .then(|| format!("'{}' is not a 'regex'", pattern.replace('\\', "\\\\")))
    })
}

/// Keywords that strict mode does not permit.
const STRICT_FORBIDDEN: [&str; 24] = [
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

/// Like [`openai_problem`], for a function with `strict: true`.
pub(super) fn openai_strict_problem(schema: &Value) -> Option<String> {
    if let Some(problem) = openai_problem(schema) {
        return Some(problem);
    }
    let depth = object_depth(schema);
    if depth > 10 {
        return Some(format!("{depth} levels of nesting exceeds limit of 10."));
    }
    walk(schema, &mut Vec::new(), &mut |node, path| {
        let at = format!("In context={}", python_tuple(path));
        if let Some(keyword) = STRICT_FORBIDDEN.iter().find(|&&keyword| node.contains_key(keyword)) {
            return Some(format!("{at}, '{keyword}' is not permitted."));
        }
        if let Some(format) = node.get("format").and_then(Value::as_str)
            && !STRICT_FORMATS.contains(&format)
        {
            return Some(format!("{at}, '{format}' is not a valid format."));
        }
        if let Some(reference) = node.get("$ref").and_then(Value::as_str) {
            let is_definition = reference == "#"
                || ["#/$defs/", "#/definitions/"]
                    .iter()
                    .any(|start| reference.strip_prefix(start).is_some_and(|name| !name.contains('/')));
            if !is_definition {
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

/// Returns the part of Anthropic's error message after `tools.N.custom.`.
pub(super) fn anthropic_problem(schema: &Value) -> Option<String> {
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
    let has_bad_key =
        properties.is_some_and(|properties| properties.keys().any(|key| !is_name(key, 64, "_.-")));
    has_bad_key.then(|| {
        "input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'".to_owned()
    })
}

/// Whether a schema is valid according to the metaschema of draft 7.
pub(super) fn is_draft7(schema: &Value) -> bool {
    jsonschema::draft7::meta::validate(schema).is_ok()
}

/// Returns the types that a schema declares.
fn types(node: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let kinds = match node.get("type") {
        Some(Value::Array(kinds)) => kinds.as_slice(),
        Some(kind) => std::slice::from_ref(kind),
        None => &[],
    };
    kinds.iter().filter_map(Value::as_str)
}

/// Visits a schema and all its subschemas, parents first. Returns the first problem.
fn walk(
    schema: &Value,
    path: &mut Vec<String>,
    visit: &mut impl FnMut(&Map<String, Value>, &[String]) -> Option<String>,
) -> Option<String> {
    let node = schema.as_object()?;
    if let Some(problem) = visit(node, path) {
        return Some(problem);
    }
    for (keys, inner) in subschemas(node) {
        let depth = path.len();
        path.extend(keys);
        let problem = walk(inner, path, visit);
        path.truncate(depth);
        if problem.is_some() {
            return problem;
        }
    }
    None
}

/// Returns the direct subschemas of a schema, each with its path.
fn subschemas(node: &Map<String, Value>) -> Vec<(Vec<String>, &Value)> {
    let mut subschemas = Vec::new();
    for (key, value) in node {
        match key.as_str() {
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                let named = value.as_object().into_iter().flatten();
                subschemas.extend(named.map(|(name, inner)| (vec![key.clone(), name.clone()], inner)));
            }
            "prefixItems" | "anyOf" | "oneOf" | "allOf" => {
                let listed = value.as_array().into_iter().flatten().enumerate();
                subschemas.extend(listed.map(|(index, inner)| (vec![key.clone(), index.to_string()], inner)));
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
            | "unevaluatedProperties" => subschemas.push((vec![key.clone()], value)),
            _ => {}
        }
    }
    subschemas
}

/// Returns how deeply objects are nested; the definitions in `$defs` do not count.
fn object_depth(schema: &Value) -> usize {
    let Some(node) = schema.as_object() else { return 0 };
    let inner = subschemas(node)
        .into_iter()
        .filter(|(path, _)| path[0] != "$defs")
        .map(|(_, inner)| object_depth(inner));
    usize::from(types(node).any(|kind| kind == "object")) + inner.max().unwrap_or(0)
}

/// Formats a path as Python prints a tuple.
fn python_tuple(path: &[String]) -> String {
    match path {
        [] => "()".to_owned(),
        [single] => format!("('{single}',)"),
        several => format!("('{}')", several.join("', '")),
    }
}

/// Whether Python's `re` compiles a pattern. Only constructs specific to ECMAScript are detected.
fn compiles_in_python(pattern: &str) -> bool {
    let has_named_group = pattern.match_indices("(?<").any(|(at, _)| {
        let after = pattern[at + 3..].chars().next();
        !matches!(after, Some('=' | '!'))
    });
    !has_named_group
        && !["\\p{", "\\P{", "\\u{", "\\c", "[^]", "[]"].iter().any(|construct| pattern.contains(construct))
}

/// Returns the properties that a schema requires but does not define.
pub(super) fn undefined_required(schema: &Value) -> Vec<&str> {
    let properties = json::object(schema, "properties");
    let required = json::list(schema, "required").iter().filter_map(Value::as_str);
    required.filter(|key| !properties.is_some_and(|properties| properties.contains_key(*key))).collect()
}
