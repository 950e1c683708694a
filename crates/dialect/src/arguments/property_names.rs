//! The names of all properties in a schema, to find arguments that may need a repair although the schema
//! accepts them.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::by_schema::{fold, only_wrapper};
use super::replacement::is_plain_integer;

/// How many names are compared with a key before it is looked up.
const COMPARED_NAMES: usize = 8;

/// The names of the properties anywhere in a schema. Most valid arguments have no others.
#[derive(Debug, Default)]
pub(super) struct PropertyNames {
    /// The names without another spelling in the schema, in the order of the schema. Most models write the
    /// arguments in this order, and comparing a key with the next names takes less time than hashing it.
    in_order: Vec<String>,
    /// Whether each name is the only spelling.
    names: HashMap<String, bool>,
    folded: HashSet<String>,
    /// Whether the schema rejects all other keys. Then accepted arguments have no key in another spelling,
    /// and the names are not collected.
    is_closed: bool,
}

/// The parts of arguments that may need a repair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unusual {
    /// A number with a fraction or an exponent.
    pub(super) number: bool,
    /// A key in another spelling, or arguments that are wrapped.
    pub(super) key: bool,
}

impl PropertyNames {
    pub(super) fn of(schema: &Value) -> PropertyNames {
        // The root must reject other keys even if it has no properties, because the arguments may be wrapped.
        if rejects_other_keys(schema) && is_closed(schema) {
            return PropertyNames { is_closed: true, ..PropertyNames::default() };
        }
        let mut spellings: HashMap<String, HashSet<&String>> = HashMap::new();
        let mut in_order = Vec::new();
        collect(schema, &mut |name| {
            spellings.entry(fold(name)).or_default().insert(name);
            in_order.push(name);
        });
        let mut found = PropertyNames::default();
        for (folded, names) in spellings {
            let is_only_spelling = names.len() == 1;
            found.names.extend(names.into_iter().map(|name| (name.clone(), is_only_spelling)));
            found.folded.insert(folded);
        }
        in_order.retain(|name| found.names[*name]);
        found.in_order = in_order.into_iter().cloned().collect();
        found
    }

    /// Whether accepted arguments have a key in another spelling, or are wrapped.
    pub(super) fn has_unusual_key(&self, arguments: &Value) -> bool {
        !self.is_closed && self.unusual_parts(arguments).key
    }

    /// Returns what is unusual in arguments. A key counts only if the schema may accept it.
    pub(super) fn unusual_parts(&self, arguments: &Value) -> Unusual {
        if self.is_closed {
            return Unusual { number: has_unusual_number(arguments), key: false };
        }
        let is_wrapped = only_wrapper(arguments).is_some_and(|(key, _)| !self.names.contains_key(key));
        let mut found = Unusual { number: false, key: is_wrapped };
        self.visit(arguments, 0, &mut found);
        found
    }

    /// Visits a value; `next` is the position after the name of the key before it.
    fn visit(&self, value: &Value, mut next: usize, found: &mut Unusual) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    match self.skipped_names(key, next) {
                        Some(skipped) => next += skipped + 1,
                        None => found.key = found.key || self.is_other_spelling(key),
                    }
                    match value {
                        Value::Null | Value::Bool(_) | Value::String(_) => {}
                        value => self.visit(value, next, found),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.visit(item, next, found)),
            Value::Number(number) => found.number |= !is_plain_integer(number),
            _ => {}
        }
    }

    /// Returns how many names there are between a position and a key, if it is one of the next names.
    fn skipped_names(&self, key: &str, next: usize) -> Option<usize> {
        self.in_order[next..].iter().take(COMPARED_NAMES).position(|name| name == key)
    }

    fn is_other_spelling(&self, key: &str) -> bool {
        match self.names.get(key) {
            Some(is_only_spelling) => !is_only_spelling,
            None => self.folded.contains(&fold(key)),
        }
    }
}

fn has_unusual_number(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.values().any(has_unusual_number),
        Value::Array(items) => items.iter().any(has_unusual_number),
        Value::Number(number) => !is_plain_integer(number),
        _ => false,
    }
}

/// The keywords that do not describe the keys of objects.
const OTHER_KEYWORDS: [&str; 20] = [
    "$schema",
    "const",
    "default",
    "description",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "multipleOf",
    "pattern",
    "required",
    "title",
    "type",
];

/// Whether each object with properties in a schema rejects other keys. Only simple schemas are examined;
/// others are not counted as closed.
fn is_closed(schema: &Value) -> bool {
    let Value::Object(keywords) = schema else { return false };
    keywords.iter().all(|(keyword, value)| match keyword.as_str() {
        "properties" => {
            rejects_other_keys(schema)
                && value.as_object().is_some_and(|properties| properties.values().all(is_closed))
        }
        "additionalProperties" => value.is_boolean() || is_closed(value),
        "items" => is_closed(value),
        "anyOf" => value.as_array().is_some_and(|branches| {
            branches.iter().all(is_closed) && branches.iter().filter(|branch| !is_scalar(branch)).count() <= 1
        }),
        keyword => OTHER_KEYWORDS.contains(&keyword),
    })
}

fn rejects_other_keys(schema: &Value) -> bool {
    schema.get("additionalProperties") == Some(&Value::Bool(false))
}

/// Whether a schema accepts neither objects nor arrays.
fn is_scalar(schema: &Value) -> bool {
    matches!(schema["type"].as_str(), Some("string" | "number" | "integer" | "boolean" | "null"))
}

/// Visits the names of all properties in a schema, those of an object before those in its properties.
fn collect<'s>(schema: &'s Value, visit: &mut impl FnMut(&'s String)) {
    let mut stack = vec![schema];
    while let Some(node) = stack.pop() {
        match node {
            Value::Object(map) => {
                let properties = map.get("properties").and_then(Value::as_object);
                properties.into_iter().flatten().for_each(|(name, _)| visit(name));
                stack.extend(map.values());
            }
            Value::Array(items) => stack.extend(items),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_in_another_spelling_are_found() {
        let long = "a".repeat(70);
        let names = ["a", "abcdefgh", "abcdefghi", "exactly_16_bytes", "a_name_of_more_than_16_bytes", &long];
        let properties: serde_json::Map<_, _> =
            names.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
        let known = PropertyNames::of(&json!({"properties": properties}));
        let has_unusual_key = |key: &str| known.unusual_parts(&json!({ "x": [{ key: 1 }] })).key;
        for name in names {
            assert!(!has_unusual_key(name), "{name}");
            assert!(has_unusual_key(&name.to_uppercase()), "{name}");
        }
        for other in ["b", "abcdefgx", "xbcdefghi", "a_name_of_other_than_16_bytes", &"b".repeat(70), ""] {
            assert!(!has_unusual_key(other), "{other}");
        }
        assert!(has_unusual_key("aNameOfMoreThan16Bytes"));
    }

    #[test]
    fn a_schema_is_closed_if_each_object_rejects_other_keys() {
        let closed = |inner: Value| json!({"properties": {"a": inner}, "additionalProperties": false});
        let open = json!({"properties": {"b": {}}});
        for (schema, expected) in [
            (json!({"type": "object", "description": "d"}), true),
            (closed(json!({"type": ["string", "null"]})), true),
            (closed(json!({"items": closed(json!({}))})), true),
            (closed(json!({"anyOf": [closed(json!({})), {"type": "null"}]})), true),
            (closed(json!({"anyOf": [closed(json!({})), {"type": "object"}]})), false),
            (closed(json!({"items": open})), false),
            (closed(json!({"additionalProperties": {"type": "string"}})), true),
            (closed(json!({"additionalProperties": open})), false),
            (closed(open.clone()), false),
            (closed(json!({"$ref": "#/$defs/x"})), false),
            (closed(json!({"not": {"type": "null"}})), false),
            (json!({"properties": {}, "additionalProperties": {}}), false),
            (json!(true), false),
            (open.clone(), false),
        ] {
            assert_eq!(is_closed(&schema), expected, "{schema}");
        }
        assert!(PropertyNames::of(&json!({"type": "object"})).unusual_parts(&json!({"arguments": {}})).key);
        let known = PropertyNames::of(&closed(json!({"type": "integer"})));
        assert!(known.unusual_parts(&json!({"a": [{"b": 2.0}]})).number);
        assert!(!known.unusual_parts(&json!({"a": [{"b": 2}]})).number);
    }

    #[test]
    fn wrapped_arguments_and_fractions_are_found() {
        let known = PropertyNames::of(&json!({"properties": {"input": {}}}));
        assert!(known.unusual_parts(&json!({"arguments": {}})).key);
        assert!(!known.unusual_parts(&json!({"input": {}})).key);
        assert!(known.unusual_parts(&json!({"input": [1, 2.0]})).number);
        assert!(!known.unusual_parts(&json!({"input": [1, -2]})).number);
    }
}
