//! Determines which parts of the two sides of a comparison correspond to each other.

use std::collections::HashMap;

use serde_json::Value;
use toolwire_dialect::Dialect;
use toolwire_dialect::comparison::{ComparedDefinition, Comparison};

/// The pointers into a tool's schema, by pointer into its definition.
type Places = HashMap<String, Vec<String>>;

/// The origins of the schemas of both sides. `None` for a side that is the tool itself.
pub(super) struct Origins {
    left: Option<Places>,
    right: Option<Places>,
    /// Whether a side writes types in capital letters, which does not count as a difference.
    has_capital_types: bool,
}

impl Origins {
    /// Returns the origins of two sides. `None` is the tool itself.
    pub(super) fn of(left: Option<&Comparison>, right: Option<&Comparison>) -> Origins {
        let places = |side: Option<&Comparison>| {
            let origins = side?.definition.as_ref()?.origins.iter();
            Some(origins.map(|origin| (origin.definition.clone(), origin.original.clone())).collect())
        };
        let mut sides = left.into_iter().chain(right);
        Origins {
            left: places(left),
            right: places(right),
            has_capital_types: sides.any(|side| side.report.dialect == Dialect::GeminiOpenApi),
        }
    }

    /// Whether neither side is the tool itself.
    pub(super) fn is_between_definitions(&self) -> bool {
        self.left.is_some() && self.right.is_some()
    }

    /// Whether schemas of both sides were made from the same one.
    pub(super) fn is_from(&self, right: &str, left: &str) -> bool {
        let made_from = |places: &Places, pointer: &str, original: &str| {
            places.get(pointer).is_some_and(|origins| origins.iter().any(|origin| origin == original))
        };
        match (&self.left, &self.right) {
            (None, None) => left == right,
            (None, Some(places)) => made_from(places, right, left),
            (Some(places), None) => made_from(places, left, right),
            (Some(lefts), Some(rights)) => {
                lefts.get(left).into_iter().flatten().any(|original| made_from(rights, right, original))
            }
        }
    }

    /// Returns the pointers into the tool's schema from which the schema around a value of the right side was made.
    pub(super) fn of_value(&self, mut pointer: &str) -> &[String] {
        let Some(origins) = &self.right else { return &[] };
        loop {
            if let Some(origins) = origins.get(pointer) {
                return origins;
            }
            let Some((parent, _)) = pointer.rsplit_once('/') else { return &[] };
            pointer = parent;
        }
    }

    /// Whether two values of a key are the same, except for the order of keys.
    pub(super) fn is_same(&self, left: &Value, right: &Value, key: Option<&str>) -> bool {
        match (left, right) {
            (Value::Object(a), Value::Object(b)) => {
                let is_same = |(key, value): (&String, &Value)| {
                    b.get(key).is_some_and(|other| self.is_same(value, other, Some(key)))
                };
                a.len() == b.len() && a.iter().all(is_same)
            }
            (Value::Array(a), Value::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.is_same(a, b, None))
            }
            (Value::String(a), Value::String(b)) if self.has_capital_types && key == Some("type") => {
                a.eq_ignore_ascii_case(b)
            }
            _ => left == right,
        }
    }
}

/// Returns the pointers into a side that correspond to a pointer into the tool's schema: to the schemas that were made
/// from the original one, or from the nearest schema around it.
pub(super) fn places(side: Option<&ComparedDefinition>, original: &str) -> Vec<String> {
    let Some(side) = side else { return vec![original.to_owned()] };
    let mut pointer = original;
    loop {
        let made_from = |places: &[String]| places.iter().any(|place| place == pointer);
        let found = side.origins.iter().filter(|origin| made_from(&origin.original));
        let found: Vec<String> = found.map(|origin| origin.definition.clone()).collect();
        match pointer.rfind('/') {
            Some(parent) if found.is_empty() => pointer = &pointer[..parent],
            _ => return found,
        }
    }
}
