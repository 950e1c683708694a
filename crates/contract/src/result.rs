//! The result of a tool call.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Content;
use crate::fields::{Fields, take_any, take_array, take_flag, take_text};
use crate::json::json_kind;

/// The result of `tools/call`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct ToolResult {
    /// `None` if the server omitted it; [`ToolResult::blocks`] treats that as empty.
    pub content: Option<Vec<Content>>,
    /// Any JSON value. `Some(Value::Null)` is a structured `null`; `None` means no structured content.
    pub structured_content: Option<Value>,
    /// [`ToolResult::is_error`] treats an absent flag as success.
    pub is_error: Option<bool>,
    /// `complete`; `input_required` if the server needs more input before it can return a result; or `task`.
    pub result_type: Option<String>,
    /// All other fields: `_meta`, `inputRequests`, `requestState`, and fields of later revisions.
    pub extra: Map<String, Value>,
}

/// A JSON value that is not a tool result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a result must be an object, not {found}")]
pub struct InvalidResult {
    pub found: &'static str,
}

impl ToolResult {
    /// Creates a result with one text block.
    pub fn text(text: impl Into<String>) -> ToolResult {
        ToolResult { content: Some(vec![Content::text(text)]), ..ToolResult::default() }
    }

    /// Creates an error result with a text for the model.
    pub fn error(text: impl Into<String>) -> ToolResult {
        ToolResult { is_error: Some(true), ..ToolResult::text(text) }
    }

    /// Creates a result with structured content, and its JSON as text for clients that only support text.
    pub fn structured(value: Value) -> ToolResult {
        ToolResult { structured_content: Some(value.clone()), ..ToolResult::text(value.to_string()) }
    }

    /// Returns the content blocks; empty if there is no content.
    pub fn blocks(&self) -> &[Content] {
        self.content.as_deref().unwrap_or_default()
    }

    /// Whether the tool ran and reported an error.
    pub fn is_error(&self) -> bool {
        self.is_error == Some(true)
    }

    /// Whether the server asks for input (`inputRequests`) before it returns a final result.
    pub fn needs_input(&self) -> bool {
        self.result_type.as_deref() == Some("input_required")
    }

    /// Whether the server continues the call as a task, and this is only its beginning (`taskId`).
    pub fn is_task(&self) -> bool {
        self.result_type.as_deref() == Some("task")
    }

    pub(crate) fn read(mut fields: Map<String, Value>) -> ToolResult {
        ToolResult {
            content: take_array(&mut fields, "content")
                .map(|blocks| blocks.into_iter().map(Content::from).collect()),
            structured_content: take_any(&mut fields, "structuredContent"),
            is_error: take_flag(&mut fields, "isError"),
            result_type: take_text(&mut fields, "resultType"),
            extra: fields,
        }
    }

    pub(crate) fn write(self, fields: Fields) -> Value {
        let blocks = self.content.map(|blocks| blocks.into_iter().map(Value::from).collect::<Vec<Value>>());
        fields
            .set_some("resultType", self.result_type)
            .set_some("content", blocks)
            .set_some("structuredContent", self.structured_content)
            .set_some("isError", self.is_error)
            .with_extra(self.extra)
    }
}

impl TryFrom<Value> for ToolResult {
    type Error = InvalidResult;

    fn try_from(value: Value) -> Result<ToolResult, InvalidResult> {
        match value {
            Value::Object(fields) => Ok(ToolResult::read(fields)),
            other => Err(InvalidResult { found: json_kind(&other) }),
        }
    }
}

impl From<ToolResult> for Value {
    fn from(result: ToolResult) -> Value {
        result.write(Fields::default())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_round_trip(text: &str) -> ToolResult {
        let result: ToolResult = serde_json::from_str(text).expect("a valid result");
        assert_eq!(serde_json::to_string(&result).expect("valid JSON"), text);
        result
    }

    #[test]
    fn results_round_trip_byte_for_byte() {
        check_round_trip(r#"{"content":[]}"#);
        check_round_trip(r#"{}"#);
        check_round_trip(r#"{"content":null}"#);
        check_round_trip(
            r#"{"content":[{"type":"text","text":"a"},{"type":"new","n":1.0}],"isError":false}"#,
        );
        check_round_trip(
            r#"{"resultType":"complete","content":[],"structuredContent":{"n":12345678901234567890},"isError":true,"_meta":{"a":1},"ttlMs":5}"#,
        );
        check_round_trip(r#"{"isError":"yes"}"#);
    }

    #[test]
    fn a_structured_null_differs_from_an_absent_value() {
        assert_eq!(check_round_trip(r#"{"structuredContent":null}"#).structured_content, Some(Value::Null));
        assert_eq!(check_round_trip(r#"{"content":[]}"#).structured_content, None);
    }

    #[test]
    fn a_request_for_input_is_recognized() {
        let request = check_round_trip(
            r#"{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create"}},"requestState":"s"}"#,
        );
        assert!(request.needs_input() && !request.is_error() && request.blocks().is_empty());
    }

    #[test]
    fn constructors_create_the_expected_json() {
        assert_eq!(
            Value::from(ToolResult::error("no")),
            json!({"content": [{"type": "text", "text": "no"}], "isError": true}),
        );
        assert_eq!(
            Value::from(ToolResult::structured(json!([1]))),
            json!({"content": [{"type": "text", "text": "[1]"}], "structuredContent": [1]}),
        );
        assert_eq!(ToolResult::try_from(json!("x")), Err(InvalidResult { found: "a string" }));
    }
}
