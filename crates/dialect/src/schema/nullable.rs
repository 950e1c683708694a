//! Whether a schema accepts `null`, and how to make it do so.

use super::context::Context;
use super::edit::ObjectEdit;
use super::node_id::node_id;
use super::refs::{Document, Target};
use super::types::TypeSet;
use crate::json::{Member, Node, Object, get};

/// Maximum depth of references and alternatives that are checked for `null`.
const MAX_DEPTH: usize = 24;

/// Whether a schema accepts `null`. Returns `true` when in doubt: a `null` that may be a value
/// must not be read as an omitted property.
pub(crate) fn accepts_null(node: Node<'_>, document: Option<&Document<'_>>) -> bool {
    accepts_null_within(node, document, MAX_DEPTH)
}

fn accepts_null_within(node: Node<'_>, document: Option<&Document<'_>>, depth: usize) -> bool {
    let members = match node {
        Node::Bool(value) => return value,
        Node::Object(members) => members,
        _ => return true,
    };
    if matches!(get(members, "not"), Some(Node::Bool(true) | Node::Object([]))) {
        return false;
    }
    let Some(depth) = depth.checked_sub(1) else { return true };
    if let (Some(reference), Some(document)) = (get(members, "$ref"), document)
        && let Some(target) = reference.text(document.arena).and_then(|uri| document.resolve(uri))
        && !target_accepts_null(&target, document, depth)
    {
        return false;
    }
    // `nullable` is not a keyword of JSON Schema, so it does not allow `null`.
    if get(members, "type").is_some() && !TypeSet::of(members).has(TypeSet::NULL) {
        return false;
    }
    if get(members, "enum").and_then(Node::list).is_some_and(|values| !lists_null(values)) {
        return false;
    }
    if get(members, "const").is_some_and(|value| !matches!(value, Node::Null)) {
        return false;
    }
    let accepts = |schema: &Node<'_>| accepts_null_within(*schema, document, depth);
    let schemas = |keyword| get(members, keyword).and_then(Node::list);
    ["anyOf", "oneOf"].into_iter().filter_map(schemas).all(|branches| branches.iter().any(accepts))
        && schemas("allOf").unwrap_or_default().iter().all(accepts)
}

/// Checks each target once, because the number of paths to the same target can grow exponentially.
fn target_accepts_null(target: &Target<'_>, document: &Document<'_>, depth: usize) -> bool {
    let id = node_id(target.node);
    if let Some(known) = document.null_acceptance.borrow().get(&id) {
        return *known;
    }
    if !document.budget.take_comparisons(1) {
        return true;
    }
    let accepts = accepts_null_within(target.node, Some(document), depth);
    // The result for a cyclic target depends on the depth.
    if id != 0 && !document.is_cyclic(target.node) {
        document.null_acceptance.borrow_mut().insert(id, accepts);
    }
    accepts
}

/// Returns the schema with `null` added, in the shortest form.
pub(crate) fn make_nullable<'a>(node: Node<'a>, context: &Context<'a, '_>) -> Node<'a> {
    let Some(members) = node.object() else { return node };
    let mut edit = ObjectEdit::of(members);
    let composed = ["$ref", "oneOf", "allOf", "not", "if", "const"]
        .iter()
        .any(|keyword| get(members, keyword).is_some());
    match (get(members, "type"), get(members, "anyOf").and_then(Node::list)) {
        _ if composed => return any_of_null(members, context),
        (None, Some(branches)) => {
            if branches.iter().any(|branch| is_plainly_nullable(*branch)) {
                return node;
            }
            let mut branches = branches.to_vec();
            branches.push(null_schema(context));
            edit.put("anyOf", context.list(&branches));
        }
        (Some(Node::Text("null")), None) => return node,
        (Some(Node::Text("object")), _) | (_, Some(_)) => return any_of_null(members, context),
        (Some(name @ Node::Text(_)), None) => edit.put("type", context.list(&[name, Node::Text("null")])),
        (Some(Node::List(names)), None) => {
            if !names.iter().any(|name| matches!(name, Node::Text("null"))) {
                let mut names = names.to_vec();
                names.push(Node::Text("null"));
                edit.put("type", context.list(&names));
            }
        }
        (None, None) if get(members, "enum").is_some() => {}
        _ => return node,
    }
    if let Some(values) = edit.get("enum").and_then(Node::list)
        && !lists_null(values)
    {
        let mut values = values.to_vec();
        values.push(Node::Null);
        edit.put("enum", context.list(&values));
    }
    Node::Object(context.finish(edit))
}

/// Returns an `anyOf` of the schema and `null`, with the description on the outside.
pub(crate) fn any_of_null<'a>(members: Object<'a>, context: &Context<'a, '_>) -> Node<'a> {
    let mut inner = ObjectEdit::of(members);
    let description = inner.remove("description");
    let inner = context.object(inner.members());
    let mut outer = vec![Member::new("anyOf", context.list(&[inner, null_schema(context)]))];
    outer.extend(description.map(|text| Member::new("description", text)));
    context.object(&outer)
}

pub(crate) fn null_schema<'a>(context: &Context<'a, '_>) -> Node<'a> {
    context.object(&[Member::new("type", Node::Text("null"))])
}

/// Whether a schema accepts `null` without following references. Returns `false` for a reference.
fn is_plainly_nullable(node: Node<'_>) -> bool {
    let Some(members) = node.object() else { return matches!(node, Node::Bool(true)) };
    if get(members, "$ref").is_some() {
        return false;
    }
    let by_type = match get(members, "type") {
        None => true,
        Some(Node::Text(name)) => name == "null",
        Some(Node::List(names)) => names.iter().any(|name| matches!(name, Node::Text("null"))),
        _ => false,
    };
    let by_values = match get(members, "enum").and_then(Node::list) {
        None => get(members, "const").is_none_or(|value| matches!(value, Node::Null)),
        Some(values) => lists_null(values),
    };
    let by_branch = |keyword| {
        get(members, keyword)
            .and_then(Node::list)
            .is_none_or(|branches| branches.iter().any(|branch| is_plainly_nullable(*branch)))
    };
    by_type && by_values && by_branch("anyOf") && by_branch("oneOf")
}

fn lists_null(values: &[Node<'_>]) -> bool {
    values.iter().any(|value| matches!(value, Node::Null))
}
