//! Parts of JSON Schemas.

use serde_json::{Map, Value};

/// Returns the names of the required properties.
pub(crate) fn required(schema: &Map<String, Value>) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}
