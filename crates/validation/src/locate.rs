//! Finds the invalid place in a value that is too deep to collect all its errors.
//!
//! For every alternative of a recursive schema, `jsonschema` collects the errors of everything below it, so
//! their number can double at every level. Deciding whether a part is valid is fast, so the search descends
//! to the innermost invalid part and collects the errors only there.

use std::collections::HashMap;

use jsonschema::{Registry, ValidationError};
use serde_json::Value;
use toolwire_contract::text::escape_pointer_segment;

use crate::cost::{count_values, evaluations_of_part};
use crate::reference::resolve;

const ROOT: &str = "toolwire:schema";

/// The maximum number of schemas that are considered for one value.
const MAX_SCHEMAS: usize = 1000;

/// The maximum number of values in all parts that are validated.
const MAX_VALUES: u64 = 20_000;

/// Keywords with other schemas for the same value, or with schemas for its parts that are not followed.
const NOT_FOLLOWED: [&str; 16] = [
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "dependentSchemas",
    "dependencies",
    "patternProperties",
    "propertyNames",
    "contains",
    "unevaluatedProperties",
    "unevaluatedItems",
    "additionalItems",
];

/// A part of a value, and the schema for it.
struct Part<'v> {
    pointer: String,
    value: &'v Value,
    schema: String,
}

struct Search<'s> {
    root: &'s Value,
    registry: Registry<'s>,
    checks_formats: bool,
    /// By the pointer of the schema; `None` if it cannot be compiled alone.
    validators: HashMap<String, Option<jsonschema::Validator>>,
}

/// Passes the errors of the innermost invalid part that can be found to `explain`, with its pointer. The
/// errors of alternatives are collected if that takes at most `max_evaluations`.
pub(crate) fn innermost_errors<T>(
    root: &Value,
    value: &Value,
    checks_formats: bool,
    max_evaluations: u64,
    explain: impl FnOnce(&str, &mut dyn Iterator<Item = ValidationError<'_>>) -> T,
) -> Option<T> {
    let registry = Registry::new().add(ROOT, root).ok()?.prepare().ok()?;
    let mut search = Search { root, registry, checks_formats, validators: HashMap::new() };
    let mut part = Part { pointer: String::new(), value, schema: String::new() };
    let mut values = 0;
    let schemas = loop {
        values += count_values(part.value);
        if values > MAX_VALUES {
            return None;
        }
        let schemas = search.schemas_of(&part);
        let parts = schemas.iter().flat_map(|schema| search.parts(schema, &part)).collect::<Vec<_>>();
        match parts.into_iter().find(|part| !search.accepts(part)) {
            Some(invalid) => part = invalid,
            None => break schemas,
        }
    };
    // All parts are valid, so collecting the errors of these schemas takes no longer than validating the
    // value.
    let is_followed = |schema: &&String| {
        let schema = root.pointer(schema);
        schema.is_some_and(|schema| !NOT_FOLLOWED.iter().any(|keyword| schema.get(keyword).is_some()))
    };
    let mut collected: Vec<&String> = schemas.iter().filter(is_followed).collect();
    if collected.iter().all(|schema| search.compile(schema).is_none_or(|found| found.is_valid(part.value))) {
        let is_small = root
            .pointer(&part.schema)
            .is_some_and(|schema| evaluations_of_part(root, schema, part.value) <= max_evaluations);
        collected = Vec::from_iter(is_small.then_some(&part.schema));
        search.compile(&part.schema);
    }
    let validators = collected.iter().filter_map(|schema| search.validators[*schema].as_ref());
    let mut errors = validators.flat_map(|validator| validator.iter_errors(part.value)).peekable();
    errors.peek()?;
    Some(explain(&part.pointer, &mut errors))
}

impl Search<'_> {
    fn compile(&mut self, schema: &str) -> Option<&jsonschema::Validator> {
        let (registry, checks_formats) = (&self.registry, self.checks_formats);
        let validator = self.validators.entry(schema.to_owned()).or_insert_with(|| {
            let reference = serde_json::json!({"$ref": format!("{ROOT}#{}", percent_encoded(schema))});
            let options = jsonschema::options().offline().with_registry(registry);
            options.should_validate_formats(checks_formats).build(&reference).ok()
        });
        validator.as_ref()
    }

    fn accepts(&mut self, part: &Part<'_>) -> bool {
        self.compile(&part.schema).is_none_or(|validator| validator.is_valid(part.value))
    }

    /// Returns the pointers of the schemas that apply to a part. Of alternatives, the only one that can match
    /// is included.
    fn schemas_of(&self, part: &Part<'_>) -> Vec<String> {
        let mut schemas = vec![part.schema.clone()];
        let mut next = 0;
        while let Some(pointer) = schemas.get(next).cloned().filter(|_| next < MAX_SCHEMAS) {
            next += 1;
            let Some(schema) = self.root.pointer(&pointer) else { continue };
            let reference = schema.get("$ref").and_then(Value::as_str);
            let target = reference.and_then(|reference| reference.strip_prefix('#')).map(percent_decoded);
            let mut found = Vec::from_iter(target);
            for keyword in ["allOf", "anyOf", "oneOf"] {
                let parts = schema.get(keyword).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                let chosen = |fits: fn(&Value, &Value, &Value) -> bool| {
                    let mut fitting =
                        parts.iter().enumerate().filter(|(_, schema)| fits(schema, part.value, self.root));
                    fitting.next().filter(|_| fitting.next().is_none())
                };
                match keyword {
                    "allOf" => found.extend((0..parts.len()).map(|index| format!("{pointer}/allOf/{index}"))),
                    _ => {
                        let chosen = chosen(may_match).or_else(|| chosen(is_tagged));
                        found.extend(chosen.map(|(index, _)| format!("{pointer}/{keyword}/{index}")));
                    }
                }
            }
            for pointer in found {
                if !schemas.contains(&pointer) {
                    schemas.push(pointer);
                }
            }
        }
        schemas
    }

    /// Returns the properties and items of a part that a schema describes.
    fn parts<'v>(&self, schema_pointer: &str, part: &Part<'v>) -> Vec<Part<'v>> {
        let Some(schema) = self.root.pointer(schema_pointer) else { return Vec::new() };
        let below = |step: &str, value: &'v Value, schema: String| Part {
            pointer: format!("{}/{}", part.pointer, escape_pointer_segment(step)),
            value,
            schema: format!("{schema_pointer}/{schema}"),
        };
        let has_schema = |keyword: &str| schema.get(keyword).is_some_and(Value::is_object);
        match part.value {
            Value::Object(map) => map
                .iter()
                .filter_map(|(key, value)| {
                    let described = schema.get("properties").is_some_and(|map| map.get(key).is_some());
                    match described {
                        true => {
                            Some(below(key, value, format!("properties/{}", escape_pointer_segment(key))))
                        }
                        false if has_schema("additionalProperties") && !has_schema("patternProperties") => {
                            Some(below(key, value, "additionalProperties".to_owned()))
                        }
                        false => None,
                    }
                })
                .collect(),
            Value::Array(items) => {
                let positions = ["prefixItems", "items"]
                    .into_iter()
                    .find_map(|keyword| Some((keyword, schema.get(keyword)?.as_array()?.len())));
                let items = items.iter().enumerate().filter_map(|(index, item)| match positions {
                    Some((keyword, count)) if index < count => {
                        Some(below(&index.to_string(), item, format!("{keyword}/{index}")))
                    }
                    Some(("items", _)) => None,
                    _ => has_schema("items").then(|| below(&index.to_string(), item, "items".to_owned())),
                });
                items.collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Whether a value can match an alternative, judged only by its type, its keys and its tag.
fn may_match(schema: &Value, value: &Value, root: &Value) -> bool {
    let schema = resolved(schema, root);
    let required = schema.get("required").and_then(Value::as_array).filter(|_| value.is_object());
    let has_key = |name: &Value| name.as_str().is_none_or(|name| value.get(name).is_some());
    let has_type = match schema.get("type") {
        Some(Value::Array(names)) => names.iter().any(|name| is_of_type(name, value)),
        Some(name) => is_of_type(name, value),
        None => true,
    };
    let is_listed = schema.get("enum").and_then(Value::as_array).is_none_or(|listed| listed.contains(value));
    let is_constant = schema.get("const").is_none_or(|only| only == value);
    has_type
        && is_listed
        && is_constant
        && required.is_none_or(|names| names.iter().all(has_key))
        && tags(schema, value).all(|is_same| is_same)
}

/// Whether a value has at least one constant of an alternative and contradicts none. Other keys may be
/// missing.
fn is_tagged(schema: &Value, value: &Value, root: &Value) -> bool {
    let mut tags = tags(resolved(schema, root), value).peekable();
    tags.peek().is_some() && tags.all(|is_same| is_same)
}

/// Compares the properties of a value with the constants that an alternative requires. Returns one result for
/// each constant whose property exists.
fn tags<'t>(schema: &'t Value, value: &'t Value) -> impl Iterator<Item = bool> + 't {
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    properties.filter_map(|(key, schema)| Some(schema.get("const")? == value.get(key)?))
}

fn resolved<'s>(schema: &'s Value, root: &'s Value) -> &'s Value {
    // A longer chain of references is treated as a cycle.
    (0..16).fold(schema, |schema, _| resolve(schema, root))
}

fn is_of_type(name: &Value, value: &Value) -> bool {
    match name.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("number" | "integer") => value.is_number(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => true,
    }
}

fn percent_decoded(fragment: &str) -> String {
    percent_encoding::percent_decode_str(fragment).decode_utf8_lossy().into_owned()
}

fn percent_encoded(pointer: &str) -> String {
    percent_encoding::utf8_percent_encode(pointer, percent_encoding::NON_ALPHANUMERIC)
        .to_string()
        .replace("%2F", "/")
}
