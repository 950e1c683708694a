//! Resolves `$ref` within one schema.

use percent_encoding::percent_decode_str;
use serde_json::Value;

/// Returns the schema that a reference like `#/$defs/City` points to, or `None` if it is not a JSON pointer
/// into `root`.
///
/// ```
/// use serde_json::json;
/// use toolwire_validation::reference_target;
///
/// let root = json!({"$defs": {"City": {"type": "string"}}});
/// assert_eq!(reference_target("#/$defs/City", &root), Some(&json!({"type": "string"})));
/// assert_eq!(reference_target("#/%24defs/City", &root), Some(&json!({"type": "string"})));
/// assert_eq!(reference_target("#", &root), Some(&root));
/// assert_eq!(reference_target("https://example.com/city.json", &root), None);
/// ```
pub fn reference_target<'r>(reference: &str, root: &'r Value) -> Option<&'r Value> {
    let fragment = percent_decode_str(reference.strip_prefix('#')?).decode_utf8_lossy();
    root.pointer(&fragment)
}

/// Returns the schema that the `$ref` of `schema` points to, or `schema` itself if it has none that can be
/// followed.
pub fn resolve<'s>(schema: &'s Value, root: &'s Value) -> &'s Value {
    let reference = schema.get("$ref").and_then(Value::as_str);
    reference.and_then(|reference| reference_target(reference, root)).unwrap_or(schema)
}
