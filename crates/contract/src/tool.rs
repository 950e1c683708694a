//! A tool, as a server lists it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::fields::{Fields, take_any, take_object, take_text};
use crate::json::json_kind;

/// A tool, as a server lists it.
///
/// Only the name is required. Real servers omit `inputSchema` or send `null`, a boolean or a string. The
/// value is kept unchanged, and the code that reads the schema decides what to do with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct Tool {
    pub name: String,
    /// A display name for users.
    pub title: Option<String>,
    /// A description for the model.
    pub description: Option<String>,
    /// `None` if the server omitted it; `Some(Value::Null)` if it sent `null`.
    pub input_schema: Option<Value>,
    pub output_schema: Option<Value>,
    /// `title`, `readOnlyHint`, `destructiveHint`, `idempotentHint`, `openWorldHint`; see [`Tool::hints`].
    pub annotations: Option<Map<String, Value>>,
    /// All other fields: `_meta`, `icons`, `execution`, and fields of later revisions.
    pub extra: Map<String, Value>,
}

/// A JSON value that is not a tool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTool {
    #[error("a tool must be an object, not {found}")]
    NotAnObject { found: &'static str },
    #[error("a tool must have a `name` that is a string")]
    NoName,
}

impl Tool {
    /// Creates a tool with a name and a schema.
    pub fn new(name: impl Into<String>, input_schema: Value) -> Tool {
        Tool { name: name.into(), input_schema: Some(input_schema), ..Tool::default() }
    }

    /// Returns the name to display: the tool's title, else the title in its annotations, else its name.
    pub fn display_name(&self) -> &str {
        let annotated = || self.annotations.as_ref()?.get("title")?.as_str();
        self.title.as_deref().or_else(annotated).unwrap_or(&self.name)
    }

    pub fn hints(&self) -> ToolHints {
        let hint = |name: &str| self.annotations.as_ref()?.get(name)?.as_bool();
        ToolHints {
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
            open_world: hint("openWorldHint"),
        }
    }

    /// Whether a second call with the same arguments has no additional effect, so a call may be retried.
    pub fn is_repeatable(&self) -> bool {
        let hints = self.hints();
        hints.read_only == Some(true) || hints.idempotent == Some(true)
    }
}

/// MCP's behaviour hints of a tool; `None` if the server does not state a hint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolHints {
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
    pub open_world: Option<bool>,
}

impl TryFrom<Value> for Tool {
    type Error = InvalidTool;

    fn try_from(value: Value) -> Result<Tool, InvalidTool> {
        let Value::Object(mut fields) = value else {
            return Err(InvalidTool::NotAnObject { found: json_kind(&value) });
        };
        Ok(Tool {
            name: take_text(&mut fields, "name").ok_or(InvalidTool::NoName)?,
            title: take_text(&mut fields, "title"),
            description: take_text(&mut fields, "description"),
            input_schema: take_any(&mut fields, "inputSchema"),
            output_schema: take_any(&mut fields, "outputSchema"),
            annotations: take_object(&mut fields, "annotations"),
            extra: fields,
        })
    }
}

impl From<Tool> for Value {
    fn from(tool: Tool) -> Value {
        Fields::default()
            .set("name", tool.name)
            .set_some("title", tool.title)
            .set_some("description", tool.description)
            .set_some("inputSchema", tool.input_schema)
            .set_some("outputSchema", tool.output_schema)
            .set_some("annotations", tool.annotations)
            .with_extra(tool.extra)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_round_trip(text: &str) -> Tool {
        let value: Value = serde_json::from_str(text).expect("valid JSON");
        let tool: Tool = serde_json::from_str(text).expect("a valid tool");
        assert_eq!(serde_json::to_value(&tool).expect("valid JSON"), value);
        assert_eq!(Tool::try_from(value).expect("a valid tool"), tool);
        tool
    }

    #[test]
    fn a_tool_of_a_newer_revision_round_trips() {
        let text = r#"{"name":"f","title":"F","description":"d","inputSchema":{"type":"object","maximum":1.0e+2},"outputSchema":{"type":"array"},"annotations":{"readOnlyHint":true,"later":1},"icons":[{"src":"a"}],"execution":{"taskSupport":"optional"},"_meta":{"n":12345678901234567890.10},"later":null}"#;
        let tool = check_round_trip(text);
        // With the keys in MCP's usual order, the bytes are the same too.
        assert_eq!(serde_json::to_string(&tool).expect("valid JSON"), text);
    }

    #[test]
    fn any_input_schema_round_trips() {
        assert_eq!(check_round_trip(r#"{"name":"f"}"#).input_schema, None);
        assert_eq!(check_round_trip(r#"{"name":"f","inputSchema":null}"#).input_schema, Some(Value::Null));
        check_round_trip(r#"{"name":"f","inputSchema":true}"#);
        check_round_trip(r#"{"name":"f","inputSchema":"{}"}"#);
        check_round_trip(r#"{"name":"f","inputSchema":[1]}"#);
    }

    #[test]
    fn fields_of_a_wrong_type_round_trip() {
        let tool = check_round_trip(r#"{"title":null,"description":5,"name":"f","annotations":[]}"#);
        assert_eq!((tool.title, tool.description, tool.annotations), (None, None, None));
    }

    #[test]
    fn unknown_fields_keep_their_order() {
        let tool = check_round_trip(r#"{"z":1,"name":"f","y":2,"description":"d","x":3}"#);
        let text = serde_json::to_string(&tool).expect("valid JSON");
        assert_eq!(text, r#"{"name":"f","description":"d","z":1,"y":2,"x":3}"#);
    }

    #[test]
    fn a_field_that_is_set_replaces_the_unknown_value() {
        let mut tool = check_round_trip(r#"{"name":"f","title":null}"#);
        tool.title = Some("F".to_owned());
        assert_eq!(Value::from(tool), json!({"name": "f", "title": "F"}));
    }

    #[test]
    fn only_the_name_is_required() {
        assert_eq!(Tool::try_from(json!({})), Err(InvalidTool::NoName));
        assert_eq!(Tool::try_from(json!({"name": 1})), Err(InvalidTool::NoName));
        assert_eq!(Tool::try_from(json!([])), Err(InvalidTool::NotAnObject { found: "an array" }));
    }

    #[test]
    fn the_title_has_precedence_over_the_name() {
        let mut tool = Tool::new("f", json!({"type": "object"}));
        assert_eq!(tool.display_name(), "f");
        tool.annotations = json!({"title": "A"}).as_object().cloned();
        assert_eq!(tool.display_name(), "A");
        tool.title = Some("T".to_owned());
        assert_eq!(tool.display_name(), "T");
    }

    #[test]
    fn a_read_only_or_idempotent_tool_is_repeatable() {
        let cases = [
            (json!({}), false),
            (json!({"readOnlyHint": true}), true),
            (json!({"idempotentHint": true, "destructiveHint": true}), true),
            (json!({"readOnlyHint": "true", "idempotentHint": false}), false),
        ];
        for (annotations, expected) in cases {
            let tool = Tool { annotations: annotations.as_object().cloned(), ..Tool::default() };
            assert_eq!(tool.is_repeatable(), expected, "{annotations}");
        }
    }
}
