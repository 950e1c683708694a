//! Resolves `$ref` within one schema.

use std::collections::HashMap;

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

/// The schemas that references within one schema may point to, by JSON pointers, anchors and `$id`s.
#[derive(Clone, Debug)]
pub struct References<'s> {
    root: &'s Value,
    anchors: HashMap<&'s str, Vec<&'s Value>>,
    resources: Vec<(&'s str, &'s Value)>,
    /// The number of objects, and the length of the longest key or `$id`.
    objects: usize,
    longest_name: usize,
}

impl<'s> References<'s> {
    /// Collects the anchors and `$id`s of a schema.
    pub fn of(root: &'s Value) -> References<'s> {
        let (anchors, resources) = (HashMap::new(), Vec::new());
        let mut references = References { root, anchors, resources, objects: 0, longest_name: 0 };
        let mut stack = vec![root];
        while let Some(node) = stack.pop() {
            match node {
                Value::Object(map) => {
                    let text = |keyword| map.get(keyword).and_then(Value::as_str);
                    // Draft 4 has `id` instead of `$id`. Before 2019-09, an `$id` with only a fragment is an
                    // anchor.
                    let id = text("$id").or_else(|| text("id")).unwrap_or_default();
                    references.objects += 1;
                    let longest = map.keys().map(String::len).max().unwrap_or(0).max(id.len());
                    references.longest_name = references.longest_name.max(longest);
                    let (uri, fragment) = id.split_once('#').unwrap_or((id, ""));
                    for name in
                        [text("$anchor"), text("$dynamicAnchor"), Some(fragment)].into_iter().flatten()
                    {
                        if !name.is_empty() {
                            references.anchors.entry(name).or_default().push(node);
                        }
                    }
                    if !uri.is_empty() {
                        references.resources.push((uri, node));
                    }
                    stack.extend(map.values());
                }
                Value::Array(items) => stack.extend(items),
                _ => {}
            }
        }
        references
    }

    /// Returns the schema whose references these are.
    pub fn root(&self) -> &'s Value {
        self.root
    }

    /// Returns an upper bound for the total length of the last names in the paths to all schemas, in bytes.
    pub(crate) fn max_path_bytes(&self) -> usize {
        self.objects.saturating_mul(self.longest_name)
    }

    /// Returns how many resources are searched for the target of a reference.
    pub(crate) fn searched_resources(&self, reference: &str) -> usize {
        if reference.starts_with('#') { 0 } else { self.resources.len() }
    }

    /// Returns every schema that a reference may point to. A relative URI may refer to any resource
    /// whose URI ends with it.
    pub fn targets(&self, reference: &str) -> Vec<&'s Value> {
        if let Some(target) = reference_target(reference, self.root) {
            return vec![target];
        }
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let fragment = percent_decode_str(fragment).decode_utf8_lossy();
        let has_uri = |(id, _): &&(&str, &Value)| id.ends_with(uri) || uri.ends_with(id);
        let resources = self.resources.iter().filter(|_| !uri.is_empty()).filter(has_uri);
        let mut targets: Vec<&Value> =
            resources.filter_map(|(_, resource)| resource.pointer(&fragment)).collect();
        targets.extend(self.anchors.get(fragment.as_ref()).into_iter().flatten());
        targets
    }
}
