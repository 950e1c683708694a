//! Sets of JSON types.

use crate::json::{Decimal, Node, Object, get};

/// Report detail where `nullable: true` takes effect.
pub(crate) const NULLABLE_DETAIL: &str = "nullable: true treated as in OpenAPI; null is allowed";

/// A set of JSON types, one bit each; `number` includes `integer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TypeSet(u8);

const NULL: u8 = 1;
const BOOLEAN: u8 = 2;
const INTEGER: u8 = 4;
/// Numbers that are not integers.
const FRACTION: u8 = 8;
const STRING: u8 = 16;
const ARRAY: u8 = 32;
const OBJECT: u8 = 64;

impl TypeSet {
    pub(crate) const ALL: TypeSet = TypeSet(127);
    pub(crate) const EMPTY: TypeSet = TypeSet(0);
    pub(crate) const NULL: TypeSet = TypeSet(NULL);
    pub(crate) const OBJECT: TypeSet = TypeSet(OBJECT);

    /// Returns the types in `type`, or all types without it.
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

    /// Returns the type of a value.
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

    /// Returns the names of the types, `null` last. `number` includes `integer`.
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
