//! Searches a body for parts that decide how it is handled: references to stored data, MCP servers, and
//! options of the gateway. Keys and values are compared after parsing, so that escapes such as `\u0074`
//! cannot hide them.
//!
//! A provider may ignore the case of keys, and may use the first or the last of two equal keys. Of all these
//! interpretations, the one that refers to the most stored data is used.

mod object;
mod place;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::top_level::folded;
use object::ObjectFields;
use place::{Key, Place};

/// The parts of a body that matter to the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BodyFacts {
    /// The name of a key that refers to something that the provider has stored.
    pub(crate) provider_state: Option<&'static str>,
    /// Whether it refers to items of earlier responses, which the gateway may have stored itself.
    pub(crate) has_item_references: bool,
    /// Whether it has reasoning that only the provider's store contains. The gateway leaves it out of
    /// requests that it writes.
    pub(crate) has_stored_reasoning: bool,
    /// Whether it has blocks that only a gateway writes: thinking without a signature, and calls of servers.
    /// Anthropic's API rejects them.
    pub(crate) has_gateway_blocks: bool,
    /// Whether it names MCP servers.
    pub(crate) names_servers: bool,
    /// Whether its `metadata` has options of the gateway.
    pub(crate) has_options: bool,
}

impl BodyFacts {
    /// Reads a body completely.
    pub(crate) fn of(body: &[u8]) -> Result<BodyFacts, serde_json::Error> {
        let mut facts = BodyFacts::default();
        let mut deserializer = serde_json::Deserializer::from_slice(body);
        Scan { facts: &mut facts, place: Place::Root }.deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(facts)
    }

    fn add_provider_state(&mut self, key: &'static str) {
        self.provider_state.get_or_insert(key);
    }
}

/// The kind of a value, for the object that contains it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Null,
    /// `false` or an empty text.
    Empty,
    Something,
    /// The value of a `type`.
    Type(ObjectType),
}

/// The types of objects that may refer to stored data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ObjectType {
    ItemReference,
    Reasoning,
    ImageGenerationCall,
    Thinking,
    /// A call of a server's tool, or its result.
    ServerCall,
    /// The type of skills that Anthropic provides, which belong to no user.
    PublicSkill,
    Other,
}

impl ObjectType {
    fn from_name(name: &str) -> ObjectType {
        match name {
            "item_reference" => ObjectType::ItemReference,
            "reasoning" => ObjectType::Reasoning,
            "image_generation_call" => ObjectType::ImageGenerationCall,
            "thinking" => ObjectType::Thinking,
            "mcp_tool_use" | "mcp_tool_result" => ObjectType::ServerCall,
            "anthropic" => ObjectType::PublicSkill,
            _ => ObjectType::Other,
        }
    }
}

struct Scan<'f> {
    facts: &'f mut BodyFacts,
    place: Place,
}

impl Scan<'_> {
    /// Handles a text, a number or `true` at this place.
    fn found(self) -> Found {
        match self.place {
            Place::Stored(key) => self.facts.add_provider_state(key),
            // Only a text is a type.
            Place::Type | Place::ToolType => return Found::Empty,
            _ => {}
        }
        Found::Something
    }
}

impl<'de> DeserializeSeed<'de> for Scan<'_> {
    type Value = Found;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Found, D::Error> {
        if self.place == Place::Other {
            return deserializer.deserialize_ignored_any(IgnoredAny).map(|_| Found::Something);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Scan<'_> {
    type Value = Found;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found, A::Error> {
        let place = self.place.of_object();
        let facts = self.facts;
        let mut fields = ObjectFields::default();
        while let Some(KnownKey { key, is_exact }) = map.next_key_seed(ReadKey)? {
            let found = map.next_value_seed(Scan { facts: &mut *facts, place: place.below(key) })?;
            match (place, key.map(|key| key.name)) {
                (Place::Stored(name), _) => facts.add_provider_state(name),
                (Place::Metadata, Some("toolwire")) => facts.has_options = true,
                (Place::Root, Some("mcp_servers")) => facts.names_servers |= found != Found::Null,
                (_, Some(name)) => fields.add(name, is_exact, found),
                (_, None) => {}
            }
        }
        fields.report(place, facts);
        Ok(Found::Something)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Found, A::Error> {
        let place = self.place.of_element();
        while list.next_element_seed(Scan { facts: &mut *self.facts, place })?.is_some() {}
        Ok(Found::Something)
    }

    fn visit_str<E>(self, text: &str) -> Result<Found, E> {
        Ok(match self.place {
            _ if text.is_empty() => Found::Empty,
            Place::Type => Found::Type(ObjectType::from_name(text)),
            Place::ToolType => {
                self.facts.names_servers |= text.starts_with("mcp");
                Found::Type(ObjectType::from_name(text))
            }
            // A new container.
            Place::Stored("container") if text == "auto" => Found::Something,
            _ => self.found(),
        })
    }

    fn visit_bool<E>(self, value: bool) -> Result<Found, E> {
        Ok(if value { self.found() } else { Found::Empty })
    }

    fn visit_u64<E>(self, _: u64) -> Result<Found, E> {
        Ok(self.found())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Found, E> {
        Ok(self.found())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Found, E> {
        Ok(self.found())
    }

    fn visit_unit<E>(self) -> Result<Found, E> {
        Ok(Found::Null)
    }
}

/// A key of an object.
struct KnownKey {
    /// `None` if the key has no meaning here.
    key: Option<&'static Key>,
    /// Whether it is written as the API writes it. Other spellings are read only by parsers that ignore case.
    is_exact: bool,
}

/// Reads a key.
struct ReadKey;

impl<'de> DeserializeSeed<'de> for ReadKey {
    type Value = KnownKey;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<KnownKey, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for ReadKey {
    type Value = KnownKey;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E>(self, text: &str) -> Result<KnownKey, E> {
        let name = folded(text);
        Ok(KnownKey { key: Key::find(&name), is_exact: matches!(name, Cow::Borrowed(_)) })
    }
}
