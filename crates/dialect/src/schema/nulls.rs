//! Whether a schema of the original lets `null` pass.

use super::refs::Document;
use super::types::TypeSet;
use crate::json::{Node, get};

/// How far references and alternatives are followed before the careful answer is given.
const FAR: usize = 24;

/// Whether `null` fits, as far as can be told; `true` when in doubt, so that no `null` is ever taken out that counts.
/// `base` is the address of the resource that the schema stands in.
pub(crate) fn allowed(node: Node<'_>, document: Option<&Document<'_>>, base: &str) -> bool {
    allowed_within(node, document, base, FAR)
}

fn allowed_within(node: Node<'_>, document: Option<&Document<'_>>, base: &str, far: usize) -> bool {
    let members = match node {
        Node::Bool(value) => return value,
        Node::Object(members) => members,
        _ => return true,
    };
    if matches!(get(members, "not"), Some(Node::Bool(true) | Node::Object([]))) {
        return false;
    }
    let Some(far) = far.checked_sub(1) else { return true };
    let arena = bumpalo::Bump::new();
    if let (Some(reference), Some(document)) = (get(members, "$ref"), document) {
        let text = match reference {
            Node::Text(text) => text.to_owned(),
            other => crate::json::to_value(other, &arena).as_str().unwrap_or_default().to_owned(),
        };
        if let Some(target) = document.resolve(base, &text)
            && !allowed_within(target.node, Some(document), &document.base_of(&target.pointer), far)
        {
            return false;
        }
    }
    let typed = get(members, "type").is_none() || TypeSet::of(members).has(TypeSet::NULL);
    let nullable = matches!(get(members, "nullable"), Some(Node::Bool(true)));
    if !typed && !nullable {
        return false;
    }
    if let Some(values) = get(members, "enum").and_then(Node::list)
        && !values.iter().any(|value| matches!(value, Node::Null))
        && !nullable
    {
        return false;
    }
    if get(members, "const").is_some_and(|value| !matches!(value, Node::Null)) {
        return false;
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(branches) = get(members, keyword).and_then(Node::list)
            && !branches.iter().any(|branch| allowed_within(*branch, document, base, far))
        {
            return false;
        }
    }
    if let Some(parts) = get(members, "allOf").and_then(Node::list)
        && !parts.iter().all(|part| allowed_within(*part, document, base, far))
    {
        return false;
    }
    true
}
