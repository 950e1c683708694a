//! JSON as the engine sees it: a tree of small copyable nodes in an arena, borrowing from the text it was read from.
//!
//! Numbers keep their digits, objects their order, strings their escapes; a subtree that does not change is shared, never
//! cloned, and written back by copying slices (ADR 0003).

mod keyed;
mod number;
mod pointer;
mod read;
mod value;
mod write;

#[cfg(test)]
mod tests;

pub(crate) use keyed::Keyed;
pub(crate) use number::Decimal;
pub(crate) use pointer::{Place, escape_segment, unescape_segment};
pub(crate) use read::{Fault, Reader};
pub(crate) use value::{from_value, to_value};
pub(crate) use write::Writer;

use bumpalo::Bump;

/// Any JSON value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Node<'a> {
    Null,
    Bool(bool),
    /// The digits as they were written.
    Number(&'a str),
    /// A string by its characters. One that borrows from the text it was read from has nothing in it to escape.
    Text(&'a str),
    /// A string by the text between its quotes, escapes and all; it has at least one escape, and they are well formed.
    Escaped(&'a str),
    List(&'a [Node<'a>]),
    Object(Object<'a>),
}

/// The members of an object, in order, each key once.
pub(crate) type Object<'a> = &'a [Member<'a>];

/// One key of an object, by its characters, and its value.
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

    /// The characters of a string.
    pub(crate) fn text(self, arena: &'a Bump) -> Option<&'a str> {
        match self {
            Node::Text(text) => Some(text),
            Node::Escaped(raw) => Some(read::unescape(raw, arena)),
            _ => None,
        }
    }

    pub(crate) fn is_string(self) -> bool {
        matches!(self, Node::Text(_) | Node::Escaped(_))
    }

    /// Whether it can stand where a schema is due.
    pub(crate) fn is_schema(self) -> bool {
        matches!(self, Node::Object(_) | Node::Bool(_))
    }

    pub(crate) fn member(self, key: &str) -> Option<Node<'a>> {
        get(self.object()?, key)
    }

    /// What kind of value this is, as a sentence says it.
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

    /// Equality of values, as JSON Schema means it: numbers by value, objects without regard to order.
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
                // Mostly the order is the same too, and then nothing has to be looked up.
                let ordered = a.iter().zip(b).take_while(|(a, b)| a.key == b.key);
                let mut seen = 0;
                if !ordered.inspect(|_| seen += 1).all(|(a, b)| a.value.same(b.value)) {
                    return false;
                }
                let (a, b) = (&a[seen..], Keyed::of(&b[seen..]));
                a.iter().all(|member| b.get(member.key).is_some_and(|value| member.value.same(value)))
            }
            (a, b) if a.is_string() && b.is_string() => {
                let arena = Bump::new();
                match (a, b) {
                    (Node::Text(a), Node::Text(b)) => a == b,
                    (Node::Text(a), Node::Escaped(b)) => a == read::unescape(b, &arena),
                    (Node::Escaped(a), Node::Text(b)) => read::unescape(a, &arena) == b,
                    (Node::Escaped(a), Node::Escaped(b)) => {
                        a == b || read::unescape(a, &arena) == read::unescape(b, &arena)
                    }
                    _ => false,
                }
            }
            _ => false,
        }
    }
}

/// The value of `key`.
#[inline]
pub(crate) fn get<'a>(members: Object<'a>, key: &str) -> Option<Node<'a>> {
    members.iter().find(|member| member.key == key).map(|member| member.value)
}
