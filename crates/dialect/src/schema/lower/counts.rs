//! The size of a lowered schema, in what strict APIs count.

use crate::json::{Member, Node, get};
use crate::schema::excerpt::compact_json;
use crate::schema::keywords::list_at;

/// An enum with more values than this has a limit on its characters.
const LARGE_ENUM: usize = 250;

/// Counts of a schema, or the limits that a strict API sets on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SchemaSize {
    /// Levels of nested objects.
    pub(crate) depth: usize,
    pub(crate) properties: usize,
    pub(crate) enum_values: usize,
    /// Characters of property names, definition names, enum values and constants.
    pub(crate) characters: usize,
    /// Characters of the largest enum that has more than [`LARGE_ENUM`] values.
    pub(crate) enum_characters: usize,
    pub(crate) optional: usize,
    pub(crate) unions: usize,
}

impl SchemaSize {
    pub(crate) const UNLIMITED: SchemaSize = SchemaSize {
        depth: usize::MAX,
        properties: usize::MAX,
        enum_values: usize::MAX,
        characters: usize::MAX,
        enum_characters: usize::MAX,
        optional: usize::MAX,
        unions: usize::MAX,
    };

    pub(crate) fn of(node: Node<'_>) -> SchemaSize {
        let mut size = SchemaSize::default();
        size.add(node, 0);
        size
    }

    fn add(&mut self, node: Node<'_>, depth: usize) {
        let Some(members) = node.object() else { return };
        let names_types = get(members, "type").and_then(Node::list).is_some();
        self.unions += usize::from(names_types || get(members, "anyOf").is_some());
        let required = list_at(members, "required").len();
        for Member { key, value } in members {
            match *key {
                "properties" => {
                    let properties = value.object().unwrap_or_default();
                    self.depth = self.depth.max(depth + 1);
                    self.properties += properties.len();
                    self.optional += properties.len().saturating_sub(required);
                    for property in properties {
                        self.characters += property.key.chars().count();
                        self.add(property.value, depth + 1);
                    }
                }
                "$defs" => {
                    for definition in value.object().unwrap_or_default() {
                        self.characters += definition.key.chars().count();
                        self.add(definition.value, 0);
                    }
                }
                "items" | "additionalProperties" => self.add(*value, depth),
                "anyOf" | "prefixItems" => {
                    for branch in value.list().unwrap_or_default() {
                        self.add(*branch, depth);
                    }
                }
                "enum" => {
                    let values = value.list().unwrap_or_default();
                    let text = values.iter().map(|value| compact_json(*value).chars().count()).sum::<usize>();
                    let quotes = values.iter().filter(|value| value.is_string()).count() * 2;
                    self.enum_values += values.len();
                    self.characters += text - quotes;
                    if values.len() > LARGE_ENUM {
                        self.enum_characters = self.enum_characters.max(text - quotes);
                    }
                }
                "const" => self.characters += compact_json(*value).chars().count(),
                _ => {}
            }
        }
    }

    /// Returns the message for the first limit that is exceeded.
    pub(crate) fn exceeded(&self, limits: &SchemaSize) -> Option<String> {
        [
            (self.depth, limits.depth, "levels of nested objects"),
            (self.properties, limits.properties, "properties"),
            (self.enum_values, limits.enum_values, "enum values"),
            (self.characters, limits.characters, "characters in names and enum values"),
            (self.enum_characters, limits.enum_characters, "characters in one enum"),
            (self.optional, limits.optional, "optional properties"),
            (self.unions, limits.unions, "unions (anyOf or several types)"),
        ]
        .into_iter()
        .find(|(count, limit, _)| count > limit)
        .map(|(count, limit, what)| format!("{count} {what} exceed the limit of {limit}"))
    }
}
