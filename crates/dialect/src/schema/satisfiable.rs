//! Finds schemas that no value satisfies.

use super::keywords::{object_at, required_keys};
use super::node_id::{NodeMap, NodeSet, node_id};
use super::refs::Document;
use super::types::TypeSet;
use super::walk::each_child;
use crate::json::{Node, get};

/// Returns the schemas that no value satisfies. They are the schemas outside of a least fixpoint, so endless
/// recursion through required properties counts as unsatisfiable.
pub(crate) fn unsatisfiable_schemas<'a>(document: &Document<'a>) -> NodeSet {
    let mut schemas: Vec<Node<'a>> = Vec::new();
    let mut stack = vec![document.root];
    while let Some(node) = stack.pop() {
        if let Some(members) = node.object() {
            each_child(members, |_, child| stack.push(child));
            schemas.push(node);
        }
    }
    // Children come after their parents in the list, so one pass backwards settles most schemas.
    let mut satisfiable = NodeSet::with_capacity_and_hasher(schemas.len() + 1, Default::default());
    satisfiable.insert(0);
    let mut open: Vec<usize> = Vec::new();
    for (index, node) in schemas.iter().enumerate().rev() {
        if is_satisfiable(*node, document, &satisfiable) {
            satisfiable.insert(node_id(*node));
        } else {
            open.push(index);
        }
    }
    // The schemas to check again when a schema turns out to be satisfiable.
    let mut users: NodeMap<Vec<usize>> = NodeMap::default();
    for index in &open {
        let members = schemas[*index].object().unwrap_or_default();
        each_child(members, |_, child| users.entry(node_id(child)).or_default().push(*index));
        if let Some(reference) = get(members, "$ref").and_then(|value| value.text(document.arena))
            && let Some((target, _)) = document.find(reference)
        {
            users.entry(node_id(target)).or_default().push(*index);
        }
    }
    let mut queued = vec![false; schemas.len()];
    for index in &open {
        queued[*index] = true;
    }
    let mut waiting = open.clone();
    while let Some(index) = waiting.pop() {
        queued[index] = false;
        let node = schemas[index];
        let id = node_id(node);
        if !satisfiable.contains(&id) && is_satisfiable(node, document, &satisfiable) {
            satisfiable.insert(id);
            for user in users.get(&id).into_iter().flatten() {
                if !std::mem::replace(&mut queued[*user], true) {
                    waiting.push(*user);
                }
            }
        }
    }
    open.into_iter().map(|index| node_id(schemas[index])).filter(|id| !satisfiable.contains(id)).collect()
}

/// Whether a schema is satisfiable, given those that are known to be.
fn is_satisfiable<'a>(node: Node<'a>, document: &Document<'a>, satisfiable: &NodeSet) -> bool {
    let arena = document.arena;
    let Some(members) = node.object() else { return true };
    let can = |schema: Node<'a>| match schema {
        Node::Bool(value) => value,
        other => satisfiable.contains(&node_id(other)),
    };
    if let Some(reference) = get(members, "$ref").and_then(|value| value.text(arena)) {
        let target = document.find(reference);
        if target.is_some_and(|(target, ..)| !can(target)) {
            return false;
        }
    }
    if matches!(get(members, "enum"), Some(Node::List([])))
        || matches!(get(members, "not"), Some(Node::Bool(true) | Node::Object([])))
    {
        return false;
    }
    if let (Some(constant), Some(Node::List(values))) = (get(members, "const"), get(members, "enum"))
        && !values.iter().any(|value| value.same(constant))
    {
        return false;
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(Node::List(branches)) = get(members, keyword)
            && !branches.iter().any(|branch| can(*branch))
        {
            return false;
        }
    }
    let mut types = TypeSet::of(members);
    if let Some(Node::List(parts)) = get(members, "allOf") {
        for part in parts {
            if !can(*part) {
                return false;
            }
            if let Some(part) = part.object() {
                types = types.and(TypeSet::of(part));
            }
        }
    }
    if types.is_empty() {
        return false;
    }
    let needs_items = match get(members, "minItems") {
        Some(Node::Number(digits)) => digits.parse::<u64>().is_ok_and(|count| count > 0),
        _ => false,
    };
    if needs_items
        && types == TypeSet::named("array")
        && get(members, "prefixItems").is_none()
        && get(members, "items").is_some_and(|items| items.is_schema() && !can(items))
    {
        return false;
    }
    if types.is_only_object() {
        let properties = object_at(members, "properties");
        let closed = matches!(get(members, "additionalProperties"), Some(Node::Bool(false)))
            && get(members, "patternProperties").is_none();
        for name in required_keys(members, arena) {
            match document.lookup.get(properties, name) {
                Some(schema) if !can(schema) => return false,
                None if closed => return false,
                _ => {}
            }
        }
    }
    true
}
