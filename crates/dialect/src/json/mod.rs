//! The engine's JSON tree: small copyable nodes in an arena that borrow from the text they were read from.
//!
//! Numbers keep their digits, objects keep their order and strings keep their escapes. A subtree that does
//! not change is shared instead of cloned, and is written back by copying slices (ADR 0003).

mod key_index;
mod number;
mod pointer;
mod read;
mod strings;
mod value;
mod value_set;
mod write;

#[cfg(test)]
mod tests;

pub(crate) use key_index::KeyIndex;
pub(crate) use number::Decimal;
pub(crate) use pointer::{Place, push_segment};
pub(crate) use read::{JsonError, JsonReader, MAX_DEPTH};
pub(crate) use value::{from_value, to_value};
pub(crate) use value_set::ValueSet;
pub(crate) use write::JsonWriter;

use bumpalo::Bump;

/// Any JSON value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Node<'a> {
    Null,
    Bool(bool),
    /// The digits as they were written.
    Number(&'a str),
    /// A decoded string. If it borrows from the text it was read from, it contains nothing that needs
    /// escaping.
    Text(&'a str),
    /// An undecoded string: the text between the quotes. It contains at least one escape, and all are well
    /// formed.
    Escaped(&'a str),
    List(&'a [Node<'a>]),
    Object(Object<'a>),
}

/// The members of an object, in order and with unique keys.
pub(crate) type Object<'a> = &'a [Member<'a>];

/// A key of an object, decoded, and its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    pub(crate) key: &'a str,
    pub(crate) value: Node<'a>,
}

/// The object `{}`.
pub(crate) const EMPTY: Node<'static> = Node::Object(&[]);

impl<'a> Member<'a> {
    pub(crate) const fn new(key: &'a str, value: Node<'a>) -> Self {
        Member { key, value }
    }
}

impl<'a> Node<'a> {
    pub(crate) fn object(self) -> Option<Object<'a>> {
        match self {
            Node::Object(members) => Some(members),
            _ => None,
        }
    }

    pub(crate) fn list(self) -> Option<&'a [Node<'a>]> {
        match self {
            Node::List(nodes) => Some(nodes),
            _ => None,
        }
    }

    /// Returns the decoded text of a string.
    pub(crate) fn text(self, arena: &'a Bump) -> Option<&'a str> {
        match self {
            Node::Text(text) => Some(text),
            Node::Escaped(raw) => Some(strings::unescape(raw, arena)),
            _ => None,
        }
    }

    pub(crate) fn is_string(self) -> bool {
        matches!(self, Node::Text(_) | Node::Escaped(_))
    }

    /// Whether this is a valid JSON Schema by its type: an object or a boolean.
    pub(crate) fn is_schema(self) -> bool {
        matches!(self, Node::Object(_) | Node::Bool(_))
    }

    pub(crate) fn member(self, key: &str) -> Option<Node<'a>> {
        get(self.object()?, key)
    }

    /// Returns the type of the value with an article, for messages.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Node::Null => "null",
            Node::Bool(_) => "a boolean",
            Node::Number(_) => "a number",
            Node::Text(_) | Node::Escaped(_) => "a string",
            Node::List(_) => "an array",
            Node::Object(_) => "an object",
        }
    }

    /// Compares values as JSON Schema does: numbers by value, objects regardless of order.
    pub(crate) fn same(self, other: Node<'_>) -> bool {
        match (self, other) {
            (Node::Null, Node::Null) => true,
            (Node::Bool(a), Node::Bool(b)) => a == b,
            (Node::Number(a), Node::Number(b)) => a == b || Decimal::of(a) == Decimal::of(b),
            (Node::List(a), Node::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(*b)),
            (Node::Object(a), Node::Object(b)) => {
                if a.len() != b.len() {
                    return false;
                }
                // Keys usually have the same order, and then no lookup is needed.
                let ordered = a.iter().zip(b).take_while(|(a, b)| a.key == b.key);
                let mut compared = 0;
                if !ordered.inspect(|_| compared += 1).all(|(a, b)| a.value.same(b.value)) {
                    return false;
                }
                let (a, b) = (&a[compared..], KeyIndex::of(&b[compared..]));
                a.iter().all(|member| b.get(member.key).is_some_and(|value| member.value.same(value)))
            }
            (a, b) if a.is_string() && b.is_string() => {
                let arena = Bump::new();
                match (a, b) {
                    (Node::Text(a), Node::Text(b)) => a == b,
                    (Node::Text(a), Node::Escaped(b)) => a == strings::unescape(b, &arena),
                    (Node::Escaped(a), Node::Text(b)) => strings::unescape(a, &arena) == b,
                    (Node::Escaped(a), Node::Escaped(b)) => {
                        a == b || strings::unescape(a, &arena) == strings::unescape(b, &arena)
                    }
                    _ => false,
                }
            }
            _ => false,
        }
    }
}

/// Returns the value of `key`.
#[inline]
pub(crate) fn get<'a>(members: Object<'a>, key: &str) -> Option<Node<'a>> {
    members.iter().find(|member| member.key == key).map(|member| member.value)
}
