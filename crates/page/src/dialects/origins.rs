//! Determines which parts of the two sides of a comparison correspond to each other.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use toolwire_dialect::Dialect;
use toolwire_dialect::comparison::{ComparedDefinition, Comparison};

/// A side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Column {
    Left,
    Right,
}

/// The pointers into a tool's schema, by pointer into its definition.
type Places = HashMap<String, Vec<String>>;

/// The origins of the schemas of both sides. `None` for a side that is the tool itself.
pub(super) struct Origins {
    left: Option<Places>,
    right: Option<Places>,
    /// Pointers to the schemas of the tool that the right side writes as several alternatives.
    split: HashSet<String>,
    /// Whether a side writes types in capital letters, which does not count as a difference.
    has_capital_types: bool,
}

impl Origins {
    /// Returns the origins of two sides. `None` is the tool itself.
    pub(super) fn of(left: Option<&Comparison>, right: Option<&Comparison>) -> Origins {
        let places = |side: Option<&Comparison>| -> Option<Places> {
            let origins = side?.definition.as_ref()?.origins.iter();
            Some(origins.map(|origin| (origin.definition.clone(), origin.original.clone())).collect())
        };
        let mut sides = left.into_iter().chain(right);
        let (left_places, right_places) = (places(left), places(right));
        let alternatives = right_places.iter().flatten().filter(|(definition, _)| is_alternative(definition));
        Origins {
            split: alternatives.flat_map(|(_, originals)| originals.iter().cloned()).collect(),
            left: left_places,
            right: right_places,
            has_capital_types: sides.any(|side| side.report.dialect == Dialect::GeminiOpenApi),
        }
    }

    /// Whether neither side is the tool itself.
    pub(super) fn is_between_definitions(&self) -> bool {
        self.left.is_some() && self.right.is_some()
    }

    /// Returns the pointers into the tool's schema from which the schema at `pointer` of a side was made.
    pub(super) fn of_schema<'a>(&'a self, column: Column, pointer: &'a String) -> &'a [String] {
        let places = match column {
            Column::Left => &self.left,
            Column::Right => &self.right,
        };
        match places {
            Some(places) => places.get(pointer).map_or(&[], Vec::as_slice),
            None => std::slice::from_ref(pointer),
        }
    }

    /// Returns the pointers into the tool's schema from which the schema around a value of the right side was
    /// made.
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

    /// Whether the right side writes this schema of the tool as several alternatives.
    pub(super) fn is_split(&self, original: &str) -> bool {
        self.split.contains(original)
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

    /// Returns a text that two values without a key share exactly if they [are the same](Self::is_same).
    pub(super) fn comparable(&self, value: &Value) -> String {
        let mut text = String::new();
        self.write_comparable(value, None, &mut text);
        text
    }

    fn write_comparable(&self, value: &Value, key: Option<&str>, text: &mut String) {
        match value {
            Value::Object(members) => {
                let mut members: Vec<(&String, &Value)> = members.iter().collect();
                members.sort_unstable_by_key(|(key, _)| *key);
                text.push('{');
                for (key, value) in members {
                    text.push_str(&Value::from(key.as_str()).to_string());
                    self.write_comparable(value, Some(key), text);
                }
                text.push('}');
            }
            Value::Array(items) => {
                text.push('[');
                for item in items {
                    self.write_comparable(item, None, text);
                    text.push(',');
                }
                text.push(']');
            }
            Value::String(name) if self.has_capital_types && key == Some("type") => {
                text.push_str(&Value::from(name.to_ascii_lowercase()).to_string());
            }
            other => text.push_str(&other.to_string()),
        }
    }
}

/// Whether a pointer is to an item of `anyOf`.
fn is_alternative(pointer: &str) -> bool {
    pointer.rsplit('/').nth(1) == Some("anyOf")
}

/// Returns a pointer and the ones above it, from the root.
pub(super) fn prefixes(pointer: &str) -> impl Iterator<Item = &str> {
    let ends = pointer.match_indices('/').map(|(index, _)| index).chain([pointer.len()]);
    ends.map(move |end| &pointer[..end])
}

/// The schemas of a side, by the schemas of the tool from which they were made.
pub(super) struct ByOriginal<'a>(Option<HashMap<&'a str, Vec<&'a str>>>);

impl<'a> ByOriginal<'a> {
    /// `None` is the tool itself.
    pub(super) fn of(side: Option<&'a ComparedDefinition>) -> ByOriginal<'a> {
        let Some(side) = side else { return ByOriginal(None) };
        let mut places: HashMap<&str, Vec<&str>> = HashMap::new();
        for origin in &side.origins {
            for original in &origin.original {
                places.entry(original).or_default().push(&origin.definition);
            }
        }
        ByOriginal(Some(places))
    }

    /// Returns the pointers into the side that correspond to a pointer into the tool's schema: to the schemas
    /// that were made from the original one, or from the nearest schema around it.
    pub(super) fn places(&self, original: &str) -> Vec<String> {
        let Some(places) = &self.0 else { return vec![original.to_owned()] };
        let mut pointer = original;
        loop {
            match (places.get(pointer), pointer.rfind('/')) {
                (Some(found), _) => return found.iter().map(|&place| place.to_owned()).collect(),
                (None, Some(parent)) => pointer = &pointer[..parent],
                (None, None) => return Vec::new(),
            }
        }
    }
}
