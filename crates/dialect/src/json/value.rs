//! Conversion between the engine's tree and `serde_json::Value`, which callers of the crate use.

use bumpalo::Bump;
use serde_json::{Map, Number, Value};

use super::{Member, Node};

/// Returns a value as a tree in `arena` that borrows its strings and numbers.
pub(crate) fn from_value<'a>(value: &'a Value, arena: &'a Bump) -> Node<'a> {
    match value {
        Value::Null => Node::Null,
        Value::Bool(value) => Node::Bool(*value),
        Value::Number(number) => Node::Number(number.as_str()),
        Value::String(text) => Node::Text(text),
        Value::Array(items) => {
            Node::List(arena.alloc_slice_fill_iter(items.iter().map(|item| from_value(item, arena))))
        }
        Value::Object(map) => Node::Object(arena.alloc_slice_fill_iter(
            map.iter().map(|(key, value)| Member::new(key, from_value(value, arena))),
        )),
    }
}

/// Returns a tree as an owned value.
pub(crate) fn to_value(node: Node<'_>, arena: &Bump) -> Value {
    match node {
        Node::Null => Value::Null,
        Node::Bool(value) => Value::Bool(value),
        Node::Number(digits) => Value::Number(Number::from_string_unchecked(digits.to_owned())),
        Node::Text(text) => Value::String(text.to_owned()),
        Node::Escaped(raw) => Value::String(super::strings::unescape(raw, arena).to_owned()),
        Node::List(nodes) => Value::Array(nodes.iter().map(|node| to_value(*node, arena)).collect()),
        Node::Object(members) => Value::Object(
            members
                .iter()
                .map(|member| (member.key.to_owned(), to_value(member.value, arena)))
                .collect::<Map<_, _>>(),
        ),
    }
}
