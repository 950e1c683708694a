//! Whether two schemas have no value in common.

use super::keywords::{list_at, object_at};
use super::refs::Document;
use super::types::TypeSet;
use crate::json::{Node, Object, get};

/// Maximum depth of nested schemas that are compared.
const MAX_DEPTH: usize = 6;

/// Whether no value satisfies both schemas, if objects with named properties are closed. Returns `false` when
/// in doubt.
pub(crate) fn are_disjoint<'a>(a: Node<'a>, b: Node<'a>, document: Option<&Document<'a>>) -> bool {
    disjoint_within(a, b, document, MAX_DEPTH)
}

fn disjoint_within<'a>(a: Node<'a>, b: Node<'a>, document: Option<&Document<'a>>, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    if document.is_some_and(|document| !document.budget.take_comparison()) {
        return false;
    }
    let (a, b) = match (a, b) {
        (Node::Bool(false), _) | (_, Node::Bool(false)) => return true,
        (Node::Object(a), Node::Object(b)) => (a, b),
        _ => return false,
    };
    for (here, there) in [(a, Node::Object(b)), (b, Node::Object(a))] {
        if let (Some(Node::Text(reference)), Some(document)) = (get(here, "$ref"), document)
            && let Some(target) = document.resolve(reference)
        {
            return disjoint_within(target.node, there, Some(document), depth);
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(branches) = get(here, keyword).and_then(Node::list)
                && branches.iter().all(|branch| disjoint_within(*branch, there, document, depth))
            {
                return true;
            }
        }
        if let Some(parts) = get(here, "allOf").and_then(Node::list)
            && parts.iter().any(|part| disjoint_within(*part, there, document, depth))
        {
            return true;
        }
    }
    let types = types_of(a).and(types_of(b));
    if types.is_empty() {
        return true;
    }
    if let (Some(ours), Some(theirs)) = (values(a), values(b))
        && !ours.iter().any(|one| theirs.iter().any(|other| one.same(*other)))
    {
        return true;
    }
    types.is_only_object() && are_disjoint_objects(a, b, document, depth)
}

/// Returns the types that a schema allows, taken from its values if it lists them.
fn types_of(members: Object<'_>) -> TypeSet {
    let types = TypeSet::of(members);
    match values(members) {
        None => types,
        Some(values) => {
            let listed = values.iter().fold(TypeSet::EMPTY, |set, value| set.or(TypeSet::of_value(*value)));
            types.and(listed)
        }
    }
}

fn values<'a>(members: Object<'a>) -> Option<Vec<Node<'a>>> {
    match get(members, "const") {
        Some(value) => Some(vec![value]),
        None => get(members, "enum").and_then(Node::list).map(<[Node<'a>]>::to_vec),
    }
}

fn are_disjoint_objects<'a>(
    a: Object<'a>,
    b: Object<'a>,
    document: Option<&Document<'a>>,
    depth: usize,
) -> bool {
    let properties = |schema: Object<'a>| object_at(schema, "properties");
    let required = |schema: Object<'a>| list_at(schema, "required");
    let closed = |schema: Object<'a>| match get(schema, "additionalProperties") {
        Some(Node::Bool(false)) => true,
        None => !properties(schema).is_empty() && get(schema, "patternProperties").is_none(),
        _ => false,
    };
    for (here, there) in [(a, b), (b, a)] {
        for name in required(here) {
            let Node::Text(key) = *name else { continue };
            match (get(properties(here), key), get(properties(there), key)) {
                (_, None) if closed(there) => return true,
                (Some(ours), Some(theirs)) => {
                    let both = required(there).iter().any(|other| other.same(*name));
                    if both && disjoint_within(ours, theirs, document, depth) {
                        return true;
                    }
                }
                _ => {}
            }
        }
    }
    false
}
