//! A tool call: the parameters of `tools/call`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::fields::{Fields, take_object, take_text};
use crate::json::json_kind;
use crate::toolbox::ValidationStamp;

/// A tool call: the parameters of `tools/call`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct ToolCall {
    pub name: String,
    pub arguments: Option<Map<String, Value>>,
    /// All other fields: `_meta`, `inputResponses`, `requestState`, and fields of later revisions.
    pub extra: Map<String, Value>,
    /// Set if the arguments were validated in this process. It is not serialized and not compared.
    pub validation: Option<ValidationStamp>,
}

/// Calls are equal if their JSON is equal.
impl PartialEq for ToolCall {
    fn eq(&self, other: &ToolCall) -> bool {
        (&self.name, &self.arguments, &self.extra) == (&other.name, &other.arguments, &other.extra)
    }
}

/// A JSON value that is not a tool call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidCall {
    #[error("a call must be an object, not {found}")]
    NotAnObject { found: &'static str },
    #[error("a call must have a `name` that is a string")]
    NoName,
    #[error("the arguments of a call must be an object, not {found}")]
    ArgumentsNotAnObject { found: &'static str },
}

impl ToolCall {
    pub fn new(name: impl Into<String>, arguments: Map<String, Value>) -> ToolCall {
        ToolCall { name: name.into(), arguments: Some(arguments), ..ToolCall::default() }
    }

    /// Reads a call whose arguments are under `arguments_key`: `arguments` in an MCP request, `input` in a
    /// message.
    pub(crate) fn read(mut fields: Map<String, Value>, arguments_key: &str) -> Result<ToolCall, InvalidCall> {
        let name = take_text(&mut fields, "name").ok_or(InvalidCall::NoName)?;
        let arguments = take_object(&mut fields, arguments_key);
        // Arguments must never be lost, so only `null` is treated as absent.
        if let Some(other) = fields.get(arguments_key).filter(|value| !value.is_null()) {
            return Err(InvalidCall::ArgumentsNotAnObject { found: json_kind(other) });
        }
        Ok(ToolCall { name, arguments, extra: fields, validation: None })
    }
}

impl TryFrom<Value> for ToolCall {
    type Error = InvalidCall;

    fn try_from(value: Value) -> Result<ToolCall, InvalidCall> {
        match value {
            Value::Object(fields) => ToolCall::read(fields, "arguments"),
            other => Err(InvalidCall::NotAnObject { found: json_kind(&other) }),
        }
    }
}

impl From<ToolCall> for Value {
    fn from(call: ToolCall) -> Value {
        Fields::default().set("name", call.name).set_some("arguments", call.arguments).with_extra(call.extra)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_round_trip(value: Value) {
        let call = ToolCall::try_from(value.clone()).expect("a valid call");
        assert_eq!(Value::from(call), value);
    }

    #[test]
    fn calls_round_trip() {
        check_round_trip(json!({"name": "f"}));
        check_round_trip(json!({"name": "f", "arguments": null}));
        check_round_trip(json!({"name": "f", "arguments": {"a": [1, null]}, "_meta": {"progressToken": 1}}));
        check_round_trip(
            json!({"name": "f", "arguments": {}, "inputResponses": {"a": {}}, "requestState": "s"}),
        );
    }

    #[test]
    fn digits_are_preserved() {
        let text = r#"{"name":"f","arguments":{"id":9007199254740993,"x":1.10,"e":1e+400}}"#;
        let call: ToolCall = serde_json::from_str(text).expect("a valid call");
        assert_eq!(serde_json::to_string(&call).expect("valid JSON"), text);
    }

    #[test]
    fn invalid_calls_are_rejected() {
        assert_eq!(
            ToolCall::try_from(json!({"name": "f", "arguments": "{}"})),
            Err(InvalidCall::ArgumentsNotAnObject { found: "a string" }),
        );
        assert_eq!(ToolCall::try_from(json!({"arguments": {}})), Err(InvalidCall::NoName));
        assert_eq!(ToolCall::try_from(json!("f")), Err(InvalidCall::NotAnObject { found: "a string" }));
    }
}
