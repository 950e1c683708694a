//! Which parts of a definition correspond to which parts of the tool.

use std::collections::HashMap;

use serde_json::Value;
use toolwire_dialect::Dialect;
use toolwire_dialect::comparison::ComparedDefinition;

/// The places of a definition's schemas in the original.
pub(super) struct Origins {
    /// The pointers into the original, by pointer into the definition.
    by_definition: HashMap<String, Vec<String>>,
    /// Whether the definition spells types in capital letters, which is no change.
    has_capital_types: bool,
}

impl Origins {
    pub(super) fn of(definition: &ComparedDefinition, dialect: Dialect) -> Origins {
        let origins = definition.origins.iter();
        Origins {
            by_definition: origins
                .map(|origin| (origin.definition.clone(), origin.original.clone()))
                .collect(),
            has_capital_types: dialect == Dialect::GeminiOpenApi,
        }
    }

    /// Whether a schema of the definition was made from one of the original.
    pub(super) fn is_from(&self, definition: &str, original: &str) -> bool {
        self.by_definition
            .get(definition)
            .is_some_and(|origins| origins.iter().any(|origin| origin == original))
    }

    /// Returns the places in the original of the schema that a value of the definition is in.
    pub(super) fn of_value(&self, mut pointer: &str) -> &[String] {
        loop {
            if let Some(origins) = self.by_definition.get(pointer) {
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
