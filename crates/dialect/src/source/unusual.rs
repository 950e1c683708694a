//! Schemas in unusual places.

use bumpalo::Bump;

use super::{Original, SourceTool, ToolReadError};
use crate::json::{Member, Node};

/// Keys that no API uses, but under which a schema describes the arguments.
const SCHEMA_KEYS: [&str; 2] = ["schema", "arguments"];

/// Members of a tool that do not describe its arguments.
const OTHER_KEYS: [&str; 5] = ["outputSchema", "annotations", "_meta", "icons", "execution"];

/// Beginnings of keys for what a tool returns.
const RESULT_KEYS: [&str; 4] = ["output", "return", "response", "result"];

impl<'a> SourceTool<'a> {
    /// Uses a schema under another key, if this is the only one. Refuses a tool that seems to describe
    /// arguments in any other way, so that they are not lost.
    pub(super) fn with_unusual_schema(self, members: &'a [Member<'a>], arena: &'a Bump) -> SourceTool<'a> {
        let has_schema = self.input_schema.is_some_and(|schema| !matches!(schema, Node::Null));
        if has_schema || self.error.is_some() {
            return self;
        }
        let is_other =
            |key: &str| OTHER_KEYS.contains(&key) || RESULT_KEYS.iter().any(|start| key.starts_with(start));
        let mut found = members
            .iter()
            .filter(|member| !is_other(member.key))
            .filter(|member| is_schema(member.value, arena) || describes_keys(member.value, arena));
        match (found.next(), found.next()) {
            (None, _) => self,
            (Some(only), None) if SCHEMA_KEYS.contains(&only.key) && is_schema(only.value, arena) => {
                SourceTool {
                    input_schema: Some(only.value),
                    schema_key: Some(only.key),
                    original: match self.original {
                        Original::Node(_) => Original::Node(with_input_schema(members, only, arena)),
                        other => other,
                    },
                    ..self
                }
            }
            (Some(first), _) => SourceTool::invalid(self.name, ToolReadError::SchemaUnder(first.key)),
        }
    }
}

/// Returns the tool with its schema under the usual key.
fn with_input_schema<'a>(members: &[Member<'a>], schema: &Member<'a>, arena: &'a Bump) -> Node<'a> {
    let others = members.iter().filter(|member| member.key != "inputSchema");
    let renamed = others.map(|member| match member.key == schema.key {
        true => Member::new("inputSchema", member.value),
        false => *member,
    });
    Node::Object(arena.alloc_slice_copy(&renamed.collect::<Vec<_>>()))
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
