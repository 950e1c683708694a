//! Secret arguments and their redaction.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::schema::{resolve, subschemas};

/// A secret argument, such as a password or a token. It works as a field of a struct and as a parameter.
///
/// Its schema is that of the inner type with `writeOnly`, which marks it for redaction in the log. A field of
/// a type that cannot be wrapped can set it directly: `#[schemars(extend("writeOnly" = true))]`.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    pub fn new(value: T) -> Secret<T> {
        Secret(value)
    }

    /// Returns the value. The caller must keep it out of logs and results.
    pub fn reveal(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(REDACTED)
    }
}

/// Serializes a placeholder instead of the value.
impl<T> Serialize for Secret<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(REDACTED)
    }
}

impl<T: JsonSchema> JsonSchema for Secret<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("Secret_{}", T::schema_name()).into()
    }

    fn schema_id() -> Cow<'static, str> {
        format!("{}::Secret<{}>", module_path!(), T::schema_id()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = generator.subschema_for::<T>();
        schema.insert("writeOnly".to_owned(), true.into());
        schema
    }
}

const REDACTED: &str = "…";

/// Whether a schema contains a secret.
pub(crate) fn has_secrets(schema: &Value) -> bool {
    contains_secret(schema, schema)
}

/// Whether a part of the schema `root` contains a secret, also behind references.
fn contains_secret(part: &Value, root: &Value) -> bool {
    let mut seen: Vec<&Value> = Vec::new();
    let mut pending = vec![part];
    while let Some(schema) = pending.pop() {
        if is_secret(schema) {
            return true;
        }
        if !seen.iter().any(|known| std::ptr::eq(*known, schema)) {
            seen.push(schema);
            pending.push(resolve(schema, root));
            pending.extend(subschemas(schema));
        }
    }
    false
}

fn is_secret(schema: &Value) -> bool {
    schema.get("writeOnly").is_some_and(|flag| flag == true)
}

/// Returns the arguments for the log. Secrets are redacted. If the schema has secrets, unknown values are
/// redacted too, because they may be secrets under a wrong name or in a wrong place.
pub(crate) fn redacted(arguments: &Value, schema: &Value) -> Value {
    if has_secrets(schema) { redact_value(arguments, &[schema], schema) } else { arguments.clone() }
}

/// The secrets of one call, to be redacted in other texts about it.
pub(crate) struct Secrets(Vec<String>);

/// Shorter texts would match too often.
const MIN_SECRET_CHARS: usize = 4;

impl Secrets {
    pub(crate) fn of(arguments: &Value, schema: &Value) -> Secrets {
        let mut texts = Vec::new();
        collect_redacted(arguments, &redacted(arguments, schema), &mut texts);
        texts.retain(|text| text.chars().count() >= MIN_SECRET_CHARS);
        // Longer secrets come first, because a shorter one may be a prefix of a longer one.
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        Secrets(texts)
    }

    /// Redacts the secrets in a text: an error or a panic may quote its input.
    pub(crate) fn redact(&self, text: String) -> String {
        self.0.iter().fold(text, |text, secret| text.replace(secret.as_str(), REDACTED))
    }
}

/// Collects the texts and numbers of `value` that are missing in `redacted`.
fn collect_redacted(value: &Value, redacted: &Value, texts: &mut Vec<String>) {
    match (value, redacted) {
        (Value::Object(fields), Value::Object(others)) => {
            fields.iter().for_each(|(key, value)| {
                collect_redacted(value, others.get(key).unwrap_or(&Value::Null), texts)
            });
        }
        (Value::Array(items), Value::Array(others)) => {
            items.iter().zip(others).for_each(|(value, redacted)| collect_redacted(value, redacted, texts));
        }
        (value, redacted) if value == redacted => (),
        (Value::String(text), _) => texts.push(text.clone()),
        (Value::Number(number), _) => texts.push(number.to_string()),
        (Value::Object(fields), _) => {
            fields.values().for_each(|value| collect_redacted(value, &Value::Null, texts));
        }
        (Value::Array(items), _) => {
            items.iter().for_each(|value| collect_redacted(value, &Value::Null, texts))
        }
        _ => (),
    }
}

/// Redacts a value to which all of `schemas` apply.
fn redact_value(value: &Value, schemas: &[&Value], root: &Value) -> Value {
    let mut applicable: Vec<&Value> = Vec::new();
    let mut pending: Vec<&Value> = schemas.to_vec();
    while let Some(schema) = pending.pop() {
        if is_secret(schema) {
            return REDACTED.into();
        }
        let schema = resolve(schema, root);
        if applicable.iter().any(|known| std::ptr::eq(*known, schema)) {
            continue;
        }
        applicable.push(schema);
        for key in ["anyOf", "oneOf", "allOf"] {
            pending.extend(schema.get(key).and_then(Value::as_array).into_iter().flatten());
        }
    }
    if applicable.is_empty() || applicable.iter().any(|schema| is_secret(schema)) {
        return REDACTED.into();
    }
    match value {
        Value::Object(fields) => {
            let property_schemas = |key: &str| -> Vec<&Value> {
                let named: Vec<&Value> =
                    applicable.iter().filter_map(|schema| schema.get("properties")?.get(key)).collect();
                if !named.is_empty() {
                    return named;
                }
                applicable
                    .iter()
                    .filter_map(|schema| schema.get("additionalProperties"))
                    .filter(|schema| **schema != false)
                    .collect()
            };
            fields
                .iter()
                .map(|(key, value)| (key.clone(), redact_value(value, &property_schemas(key), root)))
                .collect::<Map<_, _>>()
                .into()
        }
        Value::Array(items) => {
            let item_schemas = |index: usize| -> Vec<&Value> {
                applicable
                    .iter()
                    .filter_map(|schema| {
                        schema
                            .get("prefixItems")
                            .and_then(|items| items.get(index))
                            .or_else(|| schema.get("items"))
                    })
                    .collect()
            };
            items
                .iter()
                .enumerate()
                .map(|(index, value)| redact_value(value, &item_schemas(index), root))
                .collect::<Vec<_>>()
                .into()
        }
        // A string in place of a structure that contains a secret may be that structure as JSON text.
        _ if applicable.iter().any(|schema| contains_secret(schema, root)) => REDACTED.into(),
        plain => plain.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(arguments: Value, expected: Value) {
        let schema = json!({
            "type": "object",
            "properties": {
                "user": {"type": "string"},
                "token": {"type": "string", "writeOnly": true},
                "login": {"anyOf": [
                    {"type": "object", "properties": {"password": {"type": "string", "writeOnly": true}, "host": {"type": "string"}}},
                    {"type": "boolean"}
                ]},
                "keys": {"type": "array", "items": {"$ref": "#/$defs/key"}},
                "rest": {"type": "object", "additionalProperties": {"type": "integer"}}
            },
            "$defs": {"key": {"type": "object", "properties": {"secret": {"writeOnly": true}, "more": {"$ref": "#/$defs/key"}}}}
        });
        assert_eq!(redacted(&arguments, &schema), expected);
    }

    #[test]
    fn secrets_are_redacted_at_any_depth() {
        check(
            json!({"user": "u", "token": "t", "rest": {"a": 1}}),
            json!({"user": "u", "token": "…", "rest": {"a": 1}}),
        );
        check(
            json!({"login": {"password": "p", "host": "h"}, "keys": [{"secret": 1, "more": {"secret": [2]}}]}),
            json!({"login": {"password": "…", "host": "h"}, "keys": [{"secret": "…", "more": {"secret": "…"}}]}),
        );
    }

    #[test]
    fn unknown_values_are_redacted() {
        check(json!({"tokn": "t", "user": ["u"]}), json!({"tokn": "…", "user": ["…"]}));
        check(json!({"login": "{\"password\":\"p\"}"}), json!({"login": "…"}));
        check(json!({"keys": "[{\"secret\":\"s\"}]"}), json!({"keys": "…"}));
    }

    #[test]
    fn a_secret_may_be_marked_next_to_a_reference() {
        let schema = json!({
            "properties": {"key": {"$ref": "#/$defs/key", "writeOnly": true}},
            "$defs": {"key": {"type": "object", "properties": {"id": {"type": "string"}}}}
        });
        assert_eq!(redacted(&json!({"key": {"id": "k"}}), &schema), json!({"key": "…"}));
    }

    #[test]
    fn secrets_are_redacted_in_texts() {
        let schema = json!({"type": "object", "properties": {
            "user": {"type": "string"},
            "key": {"type": "object", "writeOnly": true},
        }});
        let arguments =
            json!({"user": "somebody", "key": {"parts": ["open", "open sesame", "no"], "pin": 12345}});
        let secrets = Secrets::of(&arguments, &schema);
        let text = "somebody entered `open sesame`, open, no and 12345".to_owned();
        assert_eq!(secrets.redact(text), "somebody entered `…`, …, no and …");
    }

    #[test]
    fn a_secret_is_never_serialized() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret:?}"), "…");
        assert_eq!(json!(secret), json!("…"));
        assert_eq!(secret.reveal(), &"hunter2");
    }
}
