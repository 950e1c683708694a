//! A message of a conversation, in the JSON format of MCP sampling with tools.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::fields::{Fields, take_any, take_text};
use crate::json::json_kind;
use crate::{Content, ToolCall, ToolResult};

/// A message of a conversation.
///
/// MCP allows `content` to be a single block instead of an array; it is read as an array and written as one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct Message {
    pub role: Role,
    pub content: Vec<Block>,
    /// All other fields: `_meta`, and fields of later revisions.
    pub extra: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    User,
    Assistant,
}

/// One block of a message.
///
/// Reading never fails: a block that is not a well-formed call or result is read as content, which accepts
/// any JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Value", into = "Value")]
pub enum Block {
    Content(Content),
    /// A call by the assistant: MCP's `tool_use`. Unknown fields are in the call's `extra`.
    Call {
        id: String,
        call: ToolCall,
    },
    /// The result of the call with this id: MCP's `tool_result`. Unknown fields are in the result's `extra`.
    Result {
        id: String,
        result: ToolResult,
    },
}

/// A JSON value that is not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidMessage {
    #[error("a message must be an object, not {found}")]
    NotAnObject { found: &'static str },
    #[error("a message must have the role `user` or `assistant`")]
    UnknownRole { role: Option<String> },
    #[error("a message must have `content`")]
    NoContent,
}

impl Message {
    pub fn user(text: impl Into<String>) -> Message {
        Message::new(Role::User, vec![Block::Content(Content::text(text))])
    }

    pub fn assistant(text: impl Into<String>) -> Message {
        Message::new(Role::Assistant, vec![Block::Content(Content::text(text))])
    }

    pub fn new(role: Role, content: Vec<Block>) -> Message {
        Message { role, content, extra: Map::new() }
    }

    /// Iterates over the texts in this message, without reasoning, calls and results.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.content.iter().filter_map(|block| match block {
            Block::Content(Content::Text { text, .. }) => Some(text.as_str()),
            _ => None,
        })
    }

    /// Iterates over the results in this message, with the ids of their calls.
    pub fn results(&self) -> impl Iterator<Item = (&str, &ToolResult)> {
        self.content.iter().filter_map(|block| match block {
            Block::Result { id, result } => Some((id.as_str(), result)),
            _ => None,
        })
    }

    /// Iterates over the calls in this message, with their ids.
    pub fn calls(&self) -> impl Iterator<Item = (&str, &ToolCall)> {
        self.content.iter().filter_map(|block| match block {
            Block::Call { id, call } => Some((id.as_str(), call)),
            _ => None,
        })
    }
}

/// Up to this number of calls, a linear search is faster than a map.
const FEW_CALLS: usize = 16;

/// Returns the result of each call of a response, in the order of the calls.
///
/// A result belongs to the first call with its id that has no result yet. A result without such a call is
/// dropped.
pub fn pair_results<'c, I: AsRef<str>, R>(
    call_ids: impl IntoIterator<Item = &'c str>,
    results: impl IntoIterator<Item = (I, R)>,
) -> Vec<Option<R>> {
    let ids: Vec<&str> = call_ids.into_iter().collect();
    let mut paired: Vec<Option<R>> = ids.iter().map(|_| None).collect();
    // The positions of the calls without a result, by their ids; the first position is the last element.
    let mut open: HashMap<&str, Vec<usize>> = HashMap::new();
    let has_few = ids.len() <= FEW_CALLS;
    if !has_few {
        ids.iter().enumerate().rev().for_each(|(position, id)| open.entry(*id).or_default().push(position));
    }
    for (id, result) in results {
        let id = id.as_ref();
        let position = match has_few {
            true => (0..ids.len()).find(|position| ids[*position] == id && paired[*position].is_none()),
            false => open.get_mut(id).and_then(Vec::pop),
        };
        if let Some(position) = position {
            paired[position] = Some(result);
        }
    }
    paired
}

/// Compares a shared message by value.
impl PartialEq<Message> for Arc<Message> {
    fn eq(&self, other: &Message) -> bool {
        **self == *other
    }
}

impl Role {
    pub const fn name(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
        }
    }
}

impl TryFrom<Value> for Message {
    type Error = InvalidMessage;

    fn try_from(value: Value) -> Result<Message, InvalidMessage> {
        let Value::Object(mut fields) = value else {
            return Err(InvalidMessage::NotAnObject { found: json_kind(&value) });
        };
        let role = match take_text(&mut fields, "role") {
            Some(role) if role == "user" => Role::User,
            Some(role) if role == "assistant" => Role::Assistant,
            role => return Err(InvalidMessage::UnknownRole { role }),
        };
        let content = match take_any(&mut fields, "content").ok_or(InvalidMessage::NoContent)? {
            Value::Array(blocks) => blocks.into_iter().map(Block::from).collect(),
            single => vec![Block::from(single)],
        };
        Ok(Message { role, content, extra: fields })
    }
}

impl From<Message> for Value {
    fn from(message: Message) -> Value {
        let blocks: Vec<Value> = message.content.into_iter().map(Value::from).collect();
        Fields::default().set("role", message.role.name()).set("content", blocks).with_extra(message.extra)
    }
}

impl From<Value> for Block {
    fn from(value: Value) -> Block {
        let block = match value.get("type").and_then(Value::as_str) {
            Some("tool_use") => read_call(&value),
            Some("tool_result") => read_result(&value),
            _ => None,
        };
        block.unwrap_or_else(|| Block::Content(Content::from(value)))
    }
}

fn read_call(value: &Value) -> Option<Block> {
    let mut fields = value.as_object()?.clone();
    fields.shift_remove("type");
    let id = take_text(&mut fields, "id")?;
    let call = ToolCall::read(fields, "input").ok()?;
    Some(Block::Call { id, call })
}

fn read_result(value: &Value) -> Option<Block> {
    let mut fields = value.as_object()?.clone();
    fields.shift_remove("type");
    let id = take_text(&mut fields, "toolUseId")?;
    Some(Block::Result { id, result: ToolResult::read(fields) })
}

impl From<Block> for Value {
    fn from(block: Block) -> Value {
        match block {
            Block::Content(content) => content.into(),
            Block::Call { id, call } => Fields::default()
                .set("type", "tool_use")
                .set("id", id)
                .set("name", call.name)
                .set_some("input", call.arguments)
                .with_extra(call.extra),
            Block::Result { id, result } => {
                result.write(Fields::default().set("type", "tool_result").set("toolUseId", id))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_round_trip(text: &str) -> Message {
        let message: Message = serde_json::from_str(text).expect("a valid message");
        assert_eq!(serde_json::to_string(&message).expect("valid JSON"), text);
        message
    }

    /// Ids may repeat, and the number of calls makes no difference.
    #[test]
    fn a_result_belongs_to_the_first_call_with_its_id_that_has_none() {
        for others in [0, 2 * FEW_CALLS] {
            let others: Vec<String> = (0..others).map(|number| format!("other {number}")).collect();
            let calls = ["a", "b", "a", "c", "a"].into_iter().chain(others.iter().map(String::as_str));
            let results = [("c", 0), ("a", 1), ("x", 2), ("a", 3), ("c", 4)];
            let results = results.into_iter().chain(others.iter().rev().map(|id| (id.as_str(), 5)));
            let mut expected = vec![Some(1), None, Some(3), Some(0), None];
            expected.extend(others.iter().map(|_| Some(5)));
            assert_eq!(pair_results(calls, results), expected);
        }
    }

    #[test]
    fn messages_round_trip_byte_for_byte() {
        check_round_trip(r#"{"role":"user","content":[{"type":"text","text":"hi"}],"_meta":{"n":1.0}}"#);
        let with_call = check_round_trip(
            r#"{"role":"assistant","content":[{"type":"text","text":"…"},{"type":"tool_use","id":"1","name":"f","input":{"n":12345678901234567890},"_meta":{"a":1}},{"type":"later","x":[1e+2]}]}"#,
        );
        assert_eq!(
            with_call.calls().map(|(id, call)| (id, call.name.as_str())).collect::<Vec<_>>(),
            [("1", "f")]
        );
        check_round_trip(
            r#"{"role":"user","content":[{"type":"tool_result","toolUseId":"1","content":[{"type":"image","data":"AA==","mimeType":"image/png"}],"structuredContent":null,"isError":true,"cacheControl":{}}]}"#,
        );
    }

    #[test]
    fn a_malformed_call_is_read_as_content() {
        let message = check_round_trip(
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":"{}"}]}"#,
        );
        assert_eq!(message.calls().count(), 0);
    }

    #[test]
    fn a_single_block_is_read_as_an_array() {
        let message = Message::try_from(json!({"role": "user", "content": {"type": "text", "text": "a"}}));
        assert_eq!(message, Ok(Message::user("a")));
    }

    #[test]
    fn a_value_that_is_not_a_message_is_rejected() {
        assert_eq!(Message::try_from(json!(1)), Err(InvalidMessage::NotAnObject { found: "a number" }));
        assert_eq!(
            Message::try_from(json!({"role": "system", "content": []})),
            Err(InvalidMessage::UnknownRole { role: Some("system".to_owned()) }),
        );
        assert_eq!(Message::try_from(json!({"role": "user"})), Err(InvalidMessage::NoContent));
    }

    #[test]
    fn a_result_belongs_to_the_first_open_call_with_its_id() {
        let results = [("b", 1), ("x", 2), ("a", 3), ("a", 4), ("a", 5)];
        assert_eq!(pair_results(["a", "b", "a", "c"], results), [Some(3), Some(1), Some(4), None]);
    }
}
