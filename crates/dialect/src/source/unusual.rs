//! Schemas in unusual places.

use bumpalo::Bump;

use super::{Original, SourceTool, ToolReadError, UnusualSchema};
use crate::json::{JsonReader, Member, Node};

/// Keys under which a schema is one of arguments, though no API has it there.
const SCHEMA_KEYS: [&str; 2] = ["schema", "arguments"];

/// Members of a tool that do not describe its arguments.
const OTHER_KEYS: [&str; 5] = ["outputSchema", "annotations", "_meta", "icons", "execution"];

/// Beginnings of keys for what a tool returns.
const RESULT_KEYS: [&str; 4] = ["output", "return", "response", "result"];

impl<'a> SourceTool<'a> {
    /// Uses a schema that is JSON text or under another key, if this is the only one. Refuses a tool that seems to
    /// describe arguments in any other way, so that they are not lost.
    pub(super) fn with_unusual_schema(self, members: &'a [Member<'a>], arena: &'a Bump) -> SourceTool<'a> {
        if self.error.is_some() {
            return self;
        }
        let using = |schema: Node<'a>, unusual: UnusualSchema<'a>| {
            let original = Original::NotRetained;
            SourceTool { input_schema: Some(schema), unusual: Some(unusual), original, ..self }
        };
        match self.input_schema {
            Some(text) if text.is_string() => match json_text(text, arena) {
                Some(schema) => using(schema, UnusualSchema::JsonText),
                None => self,
            },
            Some(schema) if !matches!(schema, Node::Null) => self,
            _ => {
                let is_result = |key: &str| {
                    OTHER_KEYS.contains(&key) || RESULT_KEYS.iter().any(|start| key.starts_with(start))
                };
                let mut found = members
                    .iter()
                    .filter(|member| !is_result(member.key))
                    .filter(|member| is_schema(member.value, arena) || describes_keys(member.value, arena));
                match (found.next(), found.next()) {
                    (None, _) => self,
                    (Some(only), None) if SCHEMA_KEYS.contains(&only.key) && is_schema(only.value, arena) => {
                        using(only.value, UnusualSchema::Under(only.key))
                    }
                    (Some(first), _) => SourceTool::invalid(self.name, ToolReadError::SchemaUnder(first.key)),
                }
            }
        }
    }
}

/// Reads a schema that is JSON text.
fn json_text<'a>(text: Node<'a>, arena: &'a Bump) -> Option<Node<'a>> {
    let mut reader = JsonReader::new(text.text(arena)?, arena);
    let schema = reader.value().ok()?;
    (reader.end().is_ok() && is_schema(schema, arena)).then_some(schema)
}

/// Whether a value looks like the schema of an object.
fn is_schema<'a>(node: Node<'a>, arena: &'a Bump) -> bool {
    let has_type = |name| node.member("type").and_then(|kind| kind.text(arena)) == Some(name);
    let has_object = |keyword| node.member(keyword).is_some_and(|value| value.object().is_some());
    has_type("object") || has_object("properties") || node.member("$ref").is_some_and(Node::is_string)
}

/// Whether a value describes each of some keys with a type.
fn describes_keys<'a>(node: Node<'a>, arena: &'a Bump) -> bool {
    let has_type =
        |member: &Member<'a>| member.value.member("type").is_some_and(|kind| kind.text(arena).is_some());
    node.object().is_some_and(|members| !members.is_empty() && members.iter().all(has_type))
}
