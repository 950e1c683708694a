//! Searches a body for parts that decide how it is handled: references to stored data, MCP servers, and options of
//! the gateway. Keys and values are compared after parsing, so that escapes such as `\u0074` cannot hide them.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::top_level::folded;

/// The parts of a body that matter to the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BodyFacts {
    /// The name of a key that refers to something that the provider has stored.
    pub(crate) provider_state: Option<&'static str>,
    /// Whether it refers to items of earlier responses, which the gateway may have stored itself.
    pub(crate) has_item_references: bool,
    /// Whether it has reasoning that only the provider's store contains. The gateway leaves it out of requests that it writes.
    pub(crate) has_stored_reasoning: bool,
    /// Whether it names MCP servers.
    pub(crate) names_servers: bool,
    /// Whether its `metadata` has options of the gateway.
    pub(crate) has_options: bool,
}

/// The keys that the search compares, sorted.
const KEYS: [&str; 30] = [
    "annotations",
    "arguments",
    "audio",
    "citations",
    "container",
    "container_id",
    "conversation",
    "encrypted_content",
    "file_id",
    "file_ids",
    "function",
    "id",
    "input",
    "input_examples",
    "input_schema",
    "mcp_servers",
    "metadata",
    "parameters",
    "previous_response_id",
    "prompt",
    "response_format",
    "result",
    "results",
    "role",
    "schema",
    "skill_id",
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

/// A value, as far as the object that contains it must know it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    /// `null`, `false` or an empty text.
    Nothing,
    Something,
    ItemReference,
    Reasoning,
    ImageGenerationCall,
    /// The type of skills that are not those of a user.
    PublicSkill,
}

impl Found {
    /// Reads the value of a `type`.
    fn of_type(name: &str) -> Found {
        match name {
            "item_reference" => Found::ItemReference,
            "reasoning" => Found::Reasoning,
            "image_generation_call" => Found::ImageGenerationCall,
            "anthropic" => Found::PublicSkill,
            _ => Found::Something,
        }
    }
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
            // Examples of arguments, and what a model returned: nothing is looked up there.
            (_, "input_examples" | "annotations" | "citations") | (Place::Item, "results") => Place::Other,
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
    fn found(self) -> Found {
        if let Place::Stored(key) = self.place {
            self.facts.provider_state.get_or_insert(key);
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
        // A conversation or a container may be an object with an `id`. Without one, it does not refer to stored data.
        let place = match self.place {
            Place::Stored("conversation") => Place::Reference("conversation"),
            Place::Stored("container") => Place::Reference("container"),
            place => place,
        };
        let facts = self.facts;
        let (mut kind, mut has_kind) = (Found::Nothing, false);
        let [mut has_id, mut has_content, mut has_skill] = [false; 3];
        while let Some(key) = map.next_key_seed(KnownKey)? {
            let found = map.next_value_seed(Scan { facts: &mut *facts, place: place.below(key) })?;
            let is_set = found != Found::Nothing;
            match key {
                Some("toolwire") => facts.has_options |= place == Place::Metadata,
                Some("mcp_servers") => facts.names_servers |= place == Place::Root && is_set,
                Some("id") => has_id = true,
                Some("role") => has_kind = true,
                Some("type") => (kind, has_kind) = (found, true),
                Some("encrypted_content" | "result") => has_content |= is_set,
                Some("skill_id") => has_skill |= is_set,
                _ => {}
            }
        }
        if has_skill && kind != Found::PublicSkill {
            facts.provider_state.get_or_insert("skill_id");
        }
        if place == Place::Item && has_id {
            // A reference may have no `type`.
            facts.has_item_references |= !has_kind;
            facts.has_stored_reasoning |= kind == Found::Reasoning && !has_content;
            if kind == Found::ImageGenerationCall && !has_content {
                facts.provider_state.get_or_insert("image_generation_call");
            }
        }
        Ok(Found::Something)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Found, A::Error> {
        let place = match self.place {
            Place::Tools => Place::Tool,
            Place::Items => Place::Item,
            place => place,
        };
        while list.next_element_seed(Scan { facts: &mut *self.facts, place })?.is_some() {}
        Ok(Found::Something)
    }

    fn visit_str<E>(self, text: &str) -> Result<Found, E> {
        Ok(match self.place {
            Place::Type { is_tool } => {
                let kind = Found::of_type(text);
                self.facts.names_servers |= is_tool && text.starts_with("mcp");
                self.facts.has_item_references |= kind == Found::ItemReference;
                kind
            }
            _ if text.is_empty() => Found::Nothing,
            // A new container.
            Place::Stored("container") if text == "auto" => Found::Something,
            _ => self.found(),
        })
    }

    fn visit_bool<E>(self, value: bool) -> Result<Found, E> {
        Ok(if value { self.found() } else { Found::Nothing })
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
        // An item whose `type` is null may be a reference.
        self.facts.has_item_references |= matches!(self.place, Place::Type { is_tool: false });
        Ok(Found::Nothing)
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
        let key = folded(key);
        Ok(KEYS.binary_search(&&*key).ok().map(|index| KEYS[index]))
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
            (r#"{"input":[{"type":"image_generation_call","id":"ig_1"}]}"#, "image_generation_call"),
            (
                r#"{"input":[{"id":"ig_1","result":null,"type":"image_generation_call"}]}"#,
                "image_generation_call",
            ),
            (r#"{"container":{"skills":[{"type":"custom","skill_id":"skill_1"}]}}"#, "skill_id"),
            (
                r#"{"tools":[{"type":"shell","environment":{"skills":[{"type":"skill_reference","skill_id":"skill_1"}]}}]}"#,
                "skill_id",
            ),
            (
                r#"{"input":[{"role":"user","content":[{"type":"input_file","File_ID":"file-1"}]}]}"#,
                "file_id",
            ),
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
            json!({"tools": [{"name": "f", "input_schema": schema, "input_examples": [{"file_id": "x"}]}]}),
            json!({"tools": [{"type": "code_interpreter", "container": "auto"}]}),
            json!({"input": [{"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "t",
                "annotations": [{"type": "container_file_citation", "container_id": "cntr_1", "file_id": "cfile_1"}]}]}]}),
            json!({"input": [{"type": "file_search_call", "id": "fs_1", "results": [{"file_id": "file-1", "text": "t"}]}]}),
            json!({"input": [{"type": "image_generation_call", "id": "ig_1", "result": "aW1n"}]}),
            json!({"input": [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VjcmV0"}]}),
            json!({"messages": [{"role": "assistant", "content": [{"type": "text", "text": "t", "citations": [{"file_id": "file_1"}]}]}]}),
            json!({"container": {"skills": [{"type": "anthropic", "skill_id": "pptx", "version": "latest"}]}}),
            json!({"mcp_servers": null}),
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
        for (content, is_stored) in
            [("", true), (r#","encrypted_content":null"#, true), (r#","encrypted_content":"YQ""#, false)]
        {
            let body = format!(r#"{{"input":[{{"type":"reasoning","id":"rs_1","summary":[]{content}}}]}}"#);
            assert_eq!(facts(&body).has_stored_reasoning, is_stored, "{body}");
        }
        assert!(facts(r#"{"metadata":{"\u0074oolwire":"{}"}}"#).has_options);
        assert!(!facts(r#"{"messages":[{"type":"mcp","content":"\"mcp toolwire"}]}"#).names_servers);
        assert!(BodyFacts::of(b"{\"a\":01}").is_err() && BodyFacts::of(b"{} x").is_err());
    }
}
