//! What a call gave: the result of `tools/call`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Content;
use crate::fields::{Fields, kind_of, take_any, take_array, take_flag, take_text};

/// What a call gave: the result of `tools/call`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct ToolResult {
    /// `None` when the server sent none; [`ToolResult::blocks`] reads both alike.
    pub content: Option<Vec<Content>>,
    /// Any JSON value. `Some(Value::Null)` is a structured `null`; `None` is no structured content.
    pub structured_content: Option<Value>,
    /// [`ToolResult::failed`] reads an absent flag as no failure.
    pub is_error: Option<bool>,
    /// `complete`, or `input_required` when the server asks for more before it answers.
    pub result_type: Option<String>,
    /// Everything else: `_meta`, `inputRequests`, `requestState`, and what later revisions add.
    pub extra: Map<String, Value>,
}

/// Not a result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a result must be an object, not {found}")]
pub struct InvalidResult {
    pub found: &'static str,
}

impl ToolResult {
    /// A result of one text.
    pub fn text(text: impl Into<String>) -> ToolResult {
        ToolResult { content: Some(vec![Content::text(text)]), ..ToolResult::default() }
    }

    /// A failure for the model to read.
    pub fn error(text: impl Into<String>) -> ToolResult {
        ToolResult { is_error: Some(true), ..ToolResult::text(text) }
    }

    /// Structured content, with its JSON as text for clients that know no other.
    pub fn structured(value: Value) -> ToolResult {
        ToolResult { structured_content: Some(value.clone()), ..ToolResult::text(value.to_string()) }
    }

    /// The blocks of content, none when there is no content.
    pub fn blocks(&self) -> &[Content] {
        self.content.as_deref().unwrap_or_default()
    }

    /// Whether the tool ran and failed.
    pub fn failed(&self) -> bool {
        self.is_error == Some(true)
    }

    /// Whether this is no result yet but a question (`inputRequests`) to be answered first.
    pub fn needs_input(&self) -> bool {
        self.result_type.as_deref() == Some("input_required")
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
            .and(self.extra)
    }
}

impl TryFrom<Value> for ToolResult {
    type Error = InvalidResult;

    fn try_from(value: Value) -> Result<ToolResult, InvalidResult> {
        match value {
            Value::Object(fields) => Ok(ToolResult::read(fields)),
            other => Err(InvalidResult { found: kind_of(&other) }),
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
        let result: ToolResult = serde_json::from_str(text).expect("the case is a result");
        assert_eq!(serde_json::to_string(&result).expect("a result is JSON"), text);
        result
    }

    #[test]
    fn results_survive_to_the_byte() {
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
    fn a_structured_null_is_not_an_absent_one() {
        assert_eq!(check_round_trip(r#"{"structuredContent":null}"#).structured_content, Some(Value::Null));
        assert_eq!(check_round_trip(r#"{"content":[]}"#).structured_content, None);
    }

    #[test]
    fn a_question_is_told_from_a_result() {
        let asked = check_round_trip(
            r#"{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create"}},"requestState":"s"}"#,
        );
        assert!(asked.needs_input() && !asked.failed() && asked.blocks().is_empty());
    }

    #[test]
    fn results_are_made_in_one_word() {
        assert_eq!(
            Value::from(ToolResult::error("no")),
            json!({"content": [{"type": "text", "text": "no"}], "isError": true}),
        );
        assert_eq!(
            Value::from(ToolResult::structured(json!([1]))),
            json!({"content": [{"type": "text", "text": "[1]"}], "structuredContent": [1]}),
        );
        assert_eq!(ToolResult::try_from(json!("x")), Err(InvalidResult { found: "text" }));
    }
}
