//! Searches a body for parts that decide how it is handled: references to stored data, MCP servers, and options of
//! the gateway. Keys and values are compared after parsing, so that escapes such as `\u0074` cannot hide them.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The parts of a body that matter to the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BodyFacts {
    /// The name of a key that refers to something that the provider has stored.
    pub(crate) provider_state: Option<&'static str>,
    /// Whether it refers to items of earlier responses, which the gateway may have stored itself.
    pub(crate) has_item_references: bool,
    /// Whether it names MCP servers.
    pub(crate) names_servers: bool,
    /// Whether its `metadata` has options of the gateway.
    pub(crate) has_options: bool,
}

/// The keys that the search compares, sorted.
const KEYS: [&str; 23] = [
    "arguments",
    "audio",
    "container",
    "container_id",
    "conversation",
    "file_id",
    "file_ids",
    "function",
    "id",
    "input",
    "input_schema",
    "mcp_servers",
    "metadata",
    "parameters",
    "previous_response_id",
    "prompt",
    "response_format",
    "role",
    "schema",
    "tools",
    "toolwire",
    "type",
    "vector_store_ids",
];

/// The position of a value, which determines the meaning of its keys.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Metadata,
    Tools,
    Tool,
    /// An object that refers to stored data by its `id`.
    Reference(&'static str),
    /// Refers to stored data if it is not empty.
    Stored(&'static str),
    Type {
        is_tool: bool,
    },
    /// The items of a request, and one of them.
    Items,
    Item,
    /// Messages and blocks.
    Content,
    /// Schemas, arguments and other data of the client, which are not searched.
    Other,
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
}

impl Place {
    fn below(self, key: Option<&'static str>) -> Place {
        let Some(key) = key else {
            return if matches!(self, Place::Other | Place::Metadata) {
                Place::Other
            } else {
                Place::Content
            };
        };
        match (self, key) {
            (Place::Other | Place::Metadata, _) => Place::Other,
            (Place::Reference(name), "id") => Place::Stored(name),
            // Items may contain tools, too.
            (Place::Root | Place::Item | Place::Content, "tools") => Place::Tools,
            (Place::Root, "metadata") => Place::Metadata,
            (Place::Root, "input") => Place::Items,
            (Place::Root, "prompt") => Place::Reference(key),
            (Place::Root, "previous_response_id" | "conversation") => Place::Stored(key),
            (Place::Tool, "function") => Place::Other,
            (Place::Root | Place::Tool, "container") => Place::Stored(key),
            (_, "type") => Place::Type { is_tool: self == Place::Tool },
            (_, "audio") => Place::Reference(key),
            (_, "file_id" | "file_ids" | "vector_store_ids" | "container_id") => Place::Stored(key),
            (_, "arguments" | "input" | "input_schema" | "parameters" | "schema" | "response_format") => {
                Place::Other
            }
            (_, "metadata") => Place::Other,
            _ => Place::Content,
        }
    }
}

struct Scan<'f> {
    facts: &'f mut BodyFacts,
    place: Place,
}

impl Scan<'_> {
    /// Called for a value that is not empty.
    fn found(&mut self) {
        if let Place::Stored(key) = self.place {
            self.facts.provider_state.get_or_insert(key);
        }
    }
}

impl<'de> DeserializeSeed<'de> for Scan<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.place == Place::Other {
            return deserializer.deserialize_ignored_any(IgnoredAny).map(drop);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Scan<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        // A conversation or a container may be an object with an `id`. Without one, it does not refer to stored data.
        let place = match self.place {
            Place::Stored("conversation") => Place::Reference("conversation"),
            Place::Stored("container") => Place::Reference("container"),
            place => place,
        };
        self.place = place;
        let (mut has_id, mut has_kind) = (false, false);
        while let Some(key) = map.next_key_seed(KnownKey)? {
            if place == Place::Metadata && key == Some("toolwire") {
                self.facts.has_options = true;
            }
            if place == Place::Root && key == Some("mcp_servers") {
                self.facts.names_servers = true;
            }
            has_id |= key == Some("id");
            has_kind |= matches!(key, Some("type" | "role"));
            map.next_value_seed(Scan { facts: &mut *self.facts, place: place.below(key) })?;
        }
        // A reference may have no `type`.
        self.facts.has_item_references |= place == Place::Item && has_id && !has_kind;
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let place = match self.place {
            Place::Tools => Place::Tool,
            Place::Items => Place::Item,
            place => place,
        };
        while list.next_element_seed(Scan { facts: &mut *self.facts, place })?.is_some() {}
        Ok(())
    }

    fn visit_str<E>(mut self, text: &str) -> Result<(), E> {
        match self.place {
            Place::Type { is_tool: true } if text.starts_with("mcp") => self.facts.names_servers = true,
            Place::Type { .. } if text == "item_reference" => {
                self.facts.has_item_references = true;
            }
            _ if !text.is_empty() => self.found(),
            _ => {}
        }
        Ok(())
    }

    fn visit_bool<E>(mut self, value: bool) -> Result<(), E> {
        if value {
            self.found();
        }
        Ok(())
    }

    fn visit_u64<E>(mut self, _: u64) -> Result<(), E> {
        self.found();
        Ok(())
    }

    fn visit_i64<E>(mut self, _: i64) -> Result<(), E> {
        self.found();
        Ok(())
    }

    fn visit_f64<E>(mut self, _: f64) -> Result<(), E> {
        self.found();
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        // An item whose `type` is null may be a reference.
        self.facts.has_item_references |= matches!(self.place, Place::Type { is_tool: false });
        Ok(())
    }
}

/// Reads a key; `None` if it is not one of [`KEYS`].
struct KnownKey;

impl<'de> DeserializeSeed<'de> for KnownKey {
    type Value = Option<&'static str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for KnownKey {
    type Value = Option<&'static str>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(KEYS.binary_search(&key).ok().map(|index| KEYS[index]))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn facts(body: &str) -> BodyFacts {
        BodyFacts::of(body.as_bytes()).expect("a body")
    }

    #[test]
    fn keys_are_sorted() {
        assert!(KEYS.is_sorted());
    }

    #[test]
    fn references_to_stored_data_are_found_in_every_spelling() {
        for (body, key) in [
            (r#"{"previous_response_id":"resp_1"}"#, "previous_response_id"),
            (r#"{"conversation":"conv_1"}"#, "conversation"),
            (r#"{"conversation":{"id":"conv_1"}}"#, "conversation"),
            (r#"{"prompt":{"id":"pmpt_1","version":"2"}}"#, "prompt"),
            (r#"{"container":"container_1"}"#, "container"),
            (r#"{"container":{"id":"container_1"}}"#, "container"),
            (
                r#"{"input":[{"role":"user","content":[{"type":"input_file","file_id":"file-1"}]}]}"#,
                "file_id",
            ),
            (
                r#"{"input":[{"role":"user","content":[{"type":"input_file","\u0066ile_id":"file-1"}]}]}"#,
                "file_id",
            ),
            (
                r#"{"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"file-1"}}]}]}"#,
                "file_id",
            ),
            (r#"{"messages":[{"role":"assistant","audio":{"id":"audio_1"}}]}"#, "audio"),
            (
                r#"{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"file","file_id":"f"}}]}]}"#,
                "file_id",
            ),
            (r#"{"tools":[{"type":"file_search","vector_store_ids":["vs_1"]}]}"#, "vector_store_ids"),
            (r#"{"tools":[{"type":"code_interpreter","container":"cntr_1"}]}"#, "container"),
            (
                r#"{"tools":[{"type":"code_interpreter","container":{"type":"auto","file_ids":["file-1"]}}]}"#,
                "file_ids",
            ),
            (r#"{"input":[{"type":"code_interpreter_call","container_id":"cntr_1"}]}"#, "container_id"),
        ] {
            assert_eq!(facts(body).provider_state, Some(key), "{body}");
        }
    }

    #[test]
    fn other_data_may_have_the_same_keys() {
        let schema = json!({"type": "object", "properties": {"file_id": {"type": "string", "default": "x"}}});
        for body in [
            json!({"previous_response_id": null, "conversation": null, "container": null}),
            json!({"prompt": "A picture of a file_id"}),
            json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]}),
            json!({"tools": [{"type": "function", "name": "f", "parameters": schema}]}),
            json!({"tools": [{"name": "f", "input_schema": schema}]}),
            json!({"tools": [{"type": "code_interpreter", "container": {"type": "auto", "file_ids": []}}]}),
            json!({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {"file_id": "x"}}]}]}),
            json!({"messages": [{"role": "user", "content": "file_id"}], "metadata": {"file_id": "x"}}),
            json!({"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}),
            json!({"text": {"format": {"type": "json_schema", "schema": schema}}}),
            json!({"audio": {"voice": "alloy", "format": "wav"}, "messages": [{"content": [{"type": "input_audio"}]}]}),
        ] {
            assert_eq!(facts(&body.to_string()), BodyFacts::default(), "{body}");
        }
    }

    #[test]
    fn servers_and_options_are_found_in_every_spelling() {
        assert!(facts(r#"{"tools":[{"type":"\u006dcp","server_label":"a"}]}"#).names_servers);
        assert!(facts(r#"{"tools":[{"type":"mcp_toolset"}]}"#).names_servers);
        assert!(facts(r#"{"mcp_servers":[]}"#).names_servers);
        let nested = r#"{"input":[{"type":"additional_tools","tools":[{"type":"mcp","server_url":"https://other.example"}]}]}"#;
        assert!(facts(nested).names_servers);
        for reference in [
            r#"{"id":"msg_1"}"#,
            r#"{"id":"msg_1","type":null}"#,
            r#"{"type":"item_reference","id":"msg_1"}"#,
        ] {
            assert!(facts(&format!(r#"{{"input":[{reference}]}}"#)).has_item_references, "{reference}");
        }
        assert!(!facts(r#"{"input":[{"id":"msg_1","role":"user","content":"hi"}]}"#).has_item_references);
        assert!(facts(r#"{"input":[{"type":"item\u005freference","id":"msg_1"}]}"#).has_item_references);
        assert!(facts(r#"{"metadata":{"\u0074oolwire":"{}"}}"#).has_options);
        assert!(!facts(r#"{"messages":[{"type":"mcp","content":"\"mcp toolwire"}]}"#).names_servers);
        assert!(BodyFacts::of(b"{\"a\":01}").is_err() && BodyFacts::of(b"{} x").is_err());
    }
}
