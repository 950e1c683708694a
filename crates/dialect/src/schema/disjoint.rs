//! Whether two schemas have no value in common.

use super::budget::Budget;
use super::keywords::{list_at, object_at};
use super::refs::Document;
use super::types::TypeSet;
use crate::json::{Node, Object, ValueSet, get};

/// Maximum depth of nested schemas that are compared.
const MAX_DEPTH: usize = 6;

/// The number of listed values that count as one comparison.
const VALUES_PER_COMPARISON: usize = 8;

/// Compares schemas within a budget.
pub(crate) struct Disjointness<'d, 'a> {
    pub(crate) document: Option<&'d Document<'a>>,
    pub(crate) budget: &'a Budget,
}

impl<'a> Disjointness<'_, 'a> {
    /// Whether no value satisfies both schemas, if objects with named properties are closed. Returns `false`
    /// when in doubt.
    pub(crate) fn holds(&self, a: Node<'a>, b: Node<'a>) -> bool {
        self.holds_within(a, b, MAX_DEPTH)
    }

    fn holds_within(&self, a: Node<'a>, b: Node<'a>, depth: usize) -> bool {
        let Some(depth) = depth.checked_sub(1) else { return false };
        if !self.budget.take_comparisons(1) {
            return false;
        }
        let (a, b) = match (a, b) {
            (Node::Bool(false), _) | (_, Node::Bool(false)) => return true,
            (Node::Object(a), Node::Object(b)) => (a, b),
            _ => return false,
        };
        for (here, there) in [(a, Node::Object(b)), (b, Node::Object(a))] {
            if let (Some(Node::Text(reference)), Some(document)) = (get(here, "$ref"), self.document)
                && let Some(target) = document.resolve(reference)
            {
                return self.holds_within(target.node, there, depth);
            }
            for keyword in ["anyOf", "oneOf"] {
                if let Some(branches) = get(here, keyword).and_then(Node::list)
                    && branches.iter().all(|branch| self.holds_within(*branch, there, depth))
                {
                    return true;
                }
            }
            if let Some(parts) = get(here, "allOf").and_then(Node::list)
                && parts.iter().any(|part| self.holds_within(*part, there, depth))
            {
                return true;
            }
        }
        let (ours, theirs) = (values(a), values(b));
        let count = ours.as_ref().map_or(0, Vec::len) + theirs.as_ref().map_or(0, Vec::len);
        if !self.budget.take_comparisons(count / VALUES_PER_COMPARISON) {
            return false;
        }
        let types = types_of(a, ours.as_deref()).and(types_of(b, theirs.as_deref()));
        if types.is_empty() {
            return true;
        }
        if let (Some(ours), Some(theirs)) = (&ours, &theirs) {
            let ours = ValueSet::of(ours);
            if !theirs.iter().any(|value| ours.contains(*value)) {
                return true;
            }
        }
        types.is_only_object() && self.holds_for_objects(a, b, depth)
    }

    fn holds_for_objects(&self, a: Object<'a>, b: Object<'a>, depth: usize) -> bool {
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
                        if both && self.holds_within(ours, theirs, depth) {
                            return true;
                        }
                    }
                    _ => {}
                }
            }
        }
        false
    }
}

/// Returns the types that a schema allows, taken from its values if it lists them.
fn types_of(members: Object<'_>, values: Option<&[Node<'_>]>) -> TypeSet {
    let types = TypeSet::of(members);
    let Some(values) = values else { return types };
    types.and(values.iter().fold(TypeSet::EMPTY, |set, value| set.or(TypeSet::of_value(*value))))
}

fn values<'a>(members: Object<'a>) -> Option<Vec<Node<'a>>> {
    match get(members, "const") {
        Some(value) => Some(vec![value]),
        None => get(members, "enum").and_then(Node::list).map(<[Node<'a>]>::to_vec),
    }
}
