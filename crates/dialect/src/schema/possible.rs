//! Schemas that no value can satisfy.

use crate::json::{Node, Place, get};
use crate::schema::identity::{ByIdentity, Identities, identity};
use crate::schema::refs::Document;
use crate::schema::walk::each_child;

/// Which schemas no value can satisfy: a least fixpoint, so that recursion without an end counts as impossible.
pub(crate) fn impossible<'a>(document: &Document<'a>) -> Identities {
    let mut schemas: Vec<(Node<'a>, &'a Place<'a>)> = Vec::new();
    let mut stack: Vec<(Node<'a>, &'a Place<'a>)> = vec![(document.root, &Place::ROOT)];
    while let Some((node, place)) = stack.pop() {
        if let Some(members) = node.object() {
            each_child(members, |path, child| stack.push((child, path.below(place, document.arena))));
            schemas.push((node, place));
        }
    }
    // Children come after their parents in the list, so going backwards settles most at the first look.
    let mut possible = Identities::with_capacity_and_hasher(schemas.len() + 1, Default::default());
    possible.insert(0);
    let mut open: Vec<usize> = Vec::new();
    for (index, (node, place)) in schemas.iter().enumerate().rev() {
        if is_possible(*node, place, document, &possible) {
            possible.insert(identity(*node));
        } else {
            open.push(index);
        }
    }
    // Who must be looked at again when a schema turns out possible.
    let mut users: ByIdentity<Vec<usize>> = ByIdentity::default();
    for index in &open {
        let (node, place) = schemas[*index];
        let members = node.object().unwrap_or_default();
        each_child(members, |_, child| users.entry(identity(child)).or_default().push(*index));
        if let Some(reference) = get(members, "$ref").and_then(|value| value.text(document.arena))
            && let Some((target, ..)) = document.find(&document.base_at(place), reference)
        {
            users.entry(identity(target)).or_default().push(*index);
        }
    }
    let mut queued = vec![false; schemas.len()];
    for index in &open {
        queued[*index] = true;
    }
    let mut waiting = open.clone();
    while let Some(index) = waiting.pop() {
        queued[index] = false;
        let (node, place) = schemas[index];
        let id = identity(node);
        if !possible.contains(&id) && is_possible(node, place, document, &possible) {
            possible.insert(id);
            for user in users.get(&id).into_iter().flatten() {
                if !std::mem::replace(&mut queued[*user], true) {
                    waiting.push(*user);
                }
            }
        }
    }
    open.into_iter().map(|index| identity(schemas[index].0)).filter(|id| !possible.contains(id)).collect()
}

fn is_possible<'a>(
    node: Node<'a>,
    place: &Place<'_>,
    document: &Document<'a>,
    possible: &Identities,
) -> bool {
    let arena = document.arena;
    let Some(members) = node.object() else { return true };
    let can = |schema: Node<'a>| match schema {
        Node::Bool(value) => value,
        other => possible.contains(&identity(other)),
    };
    if let Some(reference) = get(members, "$ref").and_then(|value| value.text(arena)) {
        let target = document.find(&document.base_at(place), reference);
        if target.is_some_and(|(target, ..)| !can(target)) {
            return false;
        }
    }
    if matches!(get(members, "enum"), Some(Node::List([])))
        || matches!(get(members, "not"), Some(Node::Bool(true) | Node::Object([])))
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
    let mut types = super::types::TypeSet::of(members);
    if let Some(Node::List(parts)) = get(members, "allOf") {
        for part in parts {
            if !can(*part) {
                return false;
            }
            if let Some(part) = part.object() {
                types = types.and(super::types::TypeSet::of(part));
            }
        }
    }
    if types.is_empty() {
        return false;
    }
    let least = matches!(get(members, "minItems"), Some(Node::Number(digits)) if digits.parse::<u64>().is_ok_and(|least| least > 0));
    if least
        && types == super::types::TypeSet::named("array")
        && get(members, "prefixItems").is_none()
        && get(members, "items").is_some_and(|items| items.is_schema() && !can(items))
    {
        return false;
    }
    if types.is_only_object() {
        let properties = get(members, "properties").and_then(Node::object).unwrap_or_default();
        let required = get(members, "required").and_then(Node::list).unwrap_or_default();
        let closed = matches!(get(members, "additionalProperties"), Some(Node::Bool(false)))
            && get(members, "patternProperties").is_none();
        for name in required {
            let Some(name) = name.text(arena) else { continue };
            match document.lookup.get(properties, name) {
                Some(schema) if !can(schema) => return false,
                None if closed => return false,
                _ => {}
            }
        }
    }
    true
}
