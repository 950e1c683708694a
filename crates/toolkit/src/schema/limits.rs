//! Limits on values: text in the served schema, keywords in the checked schema.

use serde_json::{Map, Value};
use toolwire_contract::text::counted;

use super::walk::each;

/// Moves limits into the descriptions.
pub(super) fn describe_limits(schema: &mut Value) {
    each(schema, &mut |schema| {
        let Some(fields) = schema.as_object_mut() else { return };
        // A tuple needs its number of items.
        if fields.contains_key("prefixItems") {
            return;
        }
        let texts: Vec<String> = LIMITS
            .iter()
            .filter_map(|(keyword, describe)| {
                let limit = fields.shift_remove(*keyword)?;
                (limit != false).then(|| describe(&limit))
            })
            .collect();
        if texts.is_empty() {
            return;
        }
        let mut sentence = texts.join(", ");
        if let Some(first) = sentence.get(..1).map(str::to_uppercase) {
            sentence.replace_range(..1, &first);
        }
        let description = match fields.get("description").and_then(Value::as_str) {
            Some(description) => format!("{}. {sentence}", description.trim_end().trim_end_matches('.')),
            None => sentence,
        };
        fields.insert("description".to_owned(), description.into());
    });
}

type DescribeLimit = fn(&Value) -> String;

const LIMITS: [(&str, DescribeLimit); 12] = [
    ("minimum", |limit| format!("at least {limit}")),
    ("exclusiveMinimum", |limit| format!("more than {limit}")),
    ("maximum", |limit| format!("at most {limit}")),
    ("exclusiveMaximum", |limit| format!("less than {limit}")),
    ("multipleOf", |limit| format!("a multiple of {limit}")),
    ("minLength", |limit| format!("at least {}", counted(limit.clone(), "character"))),
    ("maxLength", |limit| format!("at most {}", counted(limit.clone(), "character"))),
    ("pattern", |limit| format!("matching `{}`", limit.as_str().unwrap_or_default())),
    ("minItems", |limit| format!("at least {}", counted(limit.clone(), "item"))),
    ("maxItems", |limit| format!("at most {}", counted(limit.clone(), "item"))),
    ("uniqueItems", |_| "all different".to_owned()),
    ("minProperties", |limit| format!("at least {}", counted(limit.clone(), "entry"))),
];

/// Adds limits of the Rust types to the checked schema: the ranges of integers, and that composed objects
/// allow no other properties.
pub(super) fn add_bounds(schema: &mut Value) {
    each(schema, &mut |schema| {
        let Some(fields) = schema.as_object_mut() else { return };
        if let Some((least, most)) = fields.get("format").and_then(Value::as_str).and_then(range) {
            fields.entry("minimum").or_insert(least);
            fields.entry("maximum").or_insert(most);
        }
        let is_in_parts = fields.contains_key("properties")
            && ["allOf", "anyOf", "oneOf"].iter().any(|key| fields.contains_key(*key));
        if is_in_parts && allows_other_properties_by_default(fields) {
            fields.insert("unevaluatedProperties".to_owned(), false.into());
        }
    });
}

fn allows_other_properties_by_default(fields: &Map<String, Value>) -> bool {
    !["additionalProperties", "unevaluatedProperties", "patternProperties"]
        .iter()
        .any(|key| fields.contains_key(*key))
}

fn range(format: &str) -> Option<(Value, Value)> {
    Some(match format {
        "int8" => (i8::MIN.into(), i8::MAX.into()),
        "int16" => (i16::MIN.into(), i16::MAX.into()),
        "int32" => (i32::MIN.into(), i32::MAX.into()),
        "int64" => (i64::MIN.into(), i64::MAX.into()),
        "int" => (isize::MIN.into(), isize::MAX.into()),
        "uint8" => (0.into(), u8::MAX.into()),
        "uint16" => (0.into(), u16::MAX.into()),
        "uint32" => (0.into(), u32::MAX.into()),
        "uint64" => (0.into(), u64::MAX.into()),
        "uint" => (0.into(), usize::MAX.into()),
        // Larger values would become infinite floats.
        "float" => (f32::MIN.into(), f32::MAX.into()),
        "double" => (f64::MIN.into(), f64::MAX.into()),
        _ => return None,
    })
}
