//! Whether two schemas share no value. Errs on the side of "they may".

use super::refs::Document;
use super::types::TypeSet;
use crate::json::{Node, Object, get};

/// How many levels are looked into.
const FAR: usize = 6;

/// Whether no value can fit both, counting objects that name their properties as closed.
pub(crate) fn disjoint<'a>(a: Node<'a>, b: Node<'a>, document: Option<&Document<'a>>) -> bool {
    within(a, b, document, FAR)
}

fn within<'a>(a: Node<'a>, b: Node<'a>, document: Option<&Document<'a>>, far: usize) -> bool {
    let Some(far) = far.checked_sub(1) else { return false };
    let (a, b) = match (a, b) {
        (Node::Bool(false), _) | (_, Node::Bool(false)) => return true,
        (Node::Object(a), Node::Object(b)) => (a, b),
        _ => return false,
    };
    for (here, there) in [(a, Node::Object(b)), (b, Node::Object(a))] {
        if let (Some(Node::Text(reference)), Some(document)) = (get(here, "$ref"), document)
            && let Some(target) = document.resolve("", reference)
        {
            return within(target.node, there, Some(document), far);
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(branches) = get(here, keyword).and_then(Node::list)
                && branches.iter().all(|branch| within(*branch, there, document, far))
            {
                return true;
            }
        }
        if let Some(parts) = get(here, "allOf").and_then(Node::list)
            && parts.iter().any(|part| within(*part, there, document, far))
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
    types.is_only_object() && objects(a, b, document, far)
}

/// The types a schema allows, by its values if it lists them.
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

fn objects<'a>(a: Object<'a>, b: Object<'a>, document: Option<&Document<'a>>, far: usize) -> bool {
    let properties =
        |schema: Object<'a>| get(schema, "properties").and_then(Node::object).unwrap_or_default();
    let required = |schema: Object<'a>| get(schema, "required").and_then(Node::list).unwrap_or_default();
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
                    if both && within(ours, theirs, document, far) {
                        return true;
                    }
                }
                _ => {}
            }
        }
    }
    false
}
