//! Sets of JSON types.

use crate::json::{Decimal, Node, Object, get};

/// What a report says where `nullable` was taken at its word.
pub(crate) const NULLABLE: &str = "OpenAPI's word for `null`, which JSON Schema does not know";

/// The seven types as bits; `integer` is part of `number`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TypeSet(u8);

const NULL: u8 = 1;
const BOOLEAN: u8 = 2;
const INTEGER: u8 = 4;
/// Numbers that are no integers.
const FRACTION: u8 = 8;
const STRING: u8 = 16;
const ARRAY: u8 = 32;
const OBJECT: u8 = 64;

impl TypeSet {
    pub(crate) const ALL: TypeSet = TypeSet(127);
    pub(crate) const EMPTY: TypeSet = TypeSet(0);
    pub(crate) const NULL: TypeSet = TypeSet(NULL);
    pub(crate) const OBJECT: TypeSet = TypeSet(OBJECT);

    /// What `type` allows; everything without it.
    pub(crate) fn of(members: Object<'_>) -> TypeSet {
        match get(members, "type") {
            Some(Node::Text(name)) => TypeSet::named(name),
            Some(Node::List(names)) => names.iter().fold(TypeSet(0), |set, name| match name {
                Node::Text(name) => TypeSet(set.0 | TypeSet::named(name).0),
                _ => set,
            }),
            _ => TypeSet::ALL,
        }
    }

    pub(crate) fn named(name: &str) -> TypeSet {
        TypeSet(match name {
            "null" => NULL,
            "boolean" => BOOLEAN,
            "integer" => INTEGER,
            "number" => INTEGER | FRACTION,
            "string" => STRING,
            "array" => ARRAY,
            "object" => OBJECT,
            _ => 0,
        })
    }

    /// The type of a value.
    pub(crate) fn of_value(value: Node<'_>) -> TypeSet {
        TypeSet(match value {
            Node::Null => NULL,
            Node::Bool(_) => BOOLEAN,
            Node::Number(digits) if Decimal::of(digits).is_integer() => INTEGER,
            Node::Number(_) => FRACTION,
            Node::Text(_) | Node::Escaped(_) => STRING,
            Node::List(_) => ARRAY,
            Node::Object(_) => OBJECT,
        })
    }

    pub(crate) const fn and(self, other: TypeSet) -> TypeSet {
        TypeSet(self.0 & other.0)
    }

    pub(crate) const fn or(self, other: TypeSet) -> TypeSet {
        TypeSet(self.0 | other.0)
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn has(self, other: TypeSet) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) const fn is_only_object(self) -> bool {
        self.0 == OBJECT
    }

    /// The names, `number` standing for both kinds of number, `null` last.
    pub(crate) fn names(self) -> Vec<&'static str> {
        let number = if self.0 & FRACTION != 0 { "number" } else { "integer" };
        [
            (STRING, "string"),
            (INTEGER | FRACTION, number),
            (BOOLEAN, "boolean"),
            (ARRAY, "array"),
            (OBJECT, "object"),
            (NULL, "null"),
        ]
        .into_iter()
        .filter(|(bits, _)| self.0 & bits != 0)
        .map(|(_, name)| name)
        .collect()
    }
}
