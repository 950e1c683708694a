//! The messages of an Anthropic request: roles, and what belongs together.
//!
//! | rule | source |
//! |---|---|
//! | roles `user` and `assistant`; several messages of one role in a row are merged | 3.4 [D] |
//! | a message is not empty, but for a last one of the assistant's | 6.2 |
//! | all results of a turn stand first in the one next message | 3.4, gh:anthropics/claude-code#8210 |
//! | a result has its call in the message before, and a call one result | 3.4, 6.1 |
//! | ids are unique | 3.4 |
//! | with thinking on, a turn of calls begins with its thinking block | 3.4 [D], gh:anomalyco/opencode#3077 |

use std::collections::HashSet;

use serde_json::Value;

use super::{blocks, extra, is_thinking, refuse, required};
use crate::provider::json::{list, stranger, text};
use crate::provider::judge::Refusal;

pub(super) fn judge(body: &Value) -> Result<(), Refusal> {
    let messages =
        body["messages"].as_array().ok_or_else(|| refuse("messages: Input should be a valid list"))?;
    if messages.is_empty() {
        return Err(refuse("messages: at least one message is required"));
    }
    let last = messages.len() - 1;
    for (index, message) in messages.iter().enumerate() {
        let way = format!("messages.{index}");
        if let Some(key) = stranger(message, &["role", "content"]) {
            return Err(extra(&format!("{way}.{key}")));
        }
        let role = text(message, "role").ok_or_else(|| required(&format!("{way}.role")))?;
        match role {
            "user" | "assistant" => {}
            "system" => {
                return Err(refuse(
                    "messages: Unexpected role \"system\". The Messages API accepts a top-level `system` parameter, not \
                     \"system\" as an input message role.",
                ));
            }
            _ => return Err(refuse(&format!("{way}.role: Input should be 'user' or 'assistant'"))),
        }
        let is_empty = match message.get("content") {
            None => return Err(required(&format!("{way}.content"))),
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Array(blocks)) => blocks.is_empty(),
            Some(_) => return Err(refuse(&format!("{way}.content: Input should be a valid list"))),
        };
        if is_empty && !(role == "assistant" && index == last) {
            return Err(refuse(&format!(
                "{way}: all messages must have non-empty content except for the optional final assistant message"
            )));
        }
        for (number, block) in blocks(message).iter().enumerate() {
            super::blocks::judge(&way, role, &format!("{way}.content.{number}"), block)?;
        }
    }
    pairs(messages)?;
    if is_thinking(body) { begins_with_thinking(messages) } else { Ok(()) }
}

fn of_kind<'message>(
    message: &'message Value,
    kind: &'static str,
) -> impl Iterator<Item = (usize, &'message Value)> {
    blocks(message).iter().enumerate().filter(move |(_, block)| text(block, "type") == Some(kind))
}

fn pairs(messages: &[Value]) -> Result<(), Refusal> {
    let mut seen = HashSet::new();
    for (index, message) in messages.iter().enumerate() {
        let before: HashSet<&str> = match index.checked_sub(1) {
            Some(before) => {
                of_kind(&messages[before], "tool_use").filter_map(|(_, call)| text(call, "id")).collect()
            }
            None => HashSet::new(),
        };
        let mut answered = HashSet::new();
        for (number, result) in of_kind(message, "tool_result") {
            let id = text(result, "tool_use_id").unwrap_or_default();
            let way = format!("messages.{index}.content.{number}");
            if !before.contains(id) {
                return Err(refuse(&format!(
                    "{way}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must have \
                     a corresponding `tool_use` block in the previous message."
                )));
            }
            if !answered.insert(id) {
                return Err(refuse(&format!(
                    "{way}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}"
                )));
            }
        }
        let calls: Vec<&str> =
            of_kind(message, "tool_use").filter_map(|(_, call)| text(call, "id")).collect();
        for id in &calls {
            if !seen.insert(*id) {
                return Err(refuse("messages: `tool_use` ids must be unique"));
            }
        }
        // Those that come first in the next message; behind anything else they are not seen.
        let first = messages.get(index + 1).map(blocks).unwrap_or_default();
        let first = first.iter().take_while(|block| text(block, "type") == Some("tool_result"));
        let first: HashSet<&str> = first.filter_map(|result| text(result, "tool_use_id")).collect();
        let open: Vec<&str> = calls.into_iter().filter(|id| !first.contains(id)).collect();
        if !open.is_empty() {
            return Err(refuse(&format!(
                "messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each \
                 `tool_use` block must have a corresponding `tool_result` block in the next message.",
                open.join(", ")
            )));
        }
    }
    Ok(())
}

/// The turn under way is all that was said since a person last spoke; results do not end it.
fn begins_with_thinking(messages: &[Value]) -> Result<(), Refusal> {
    let is_person = |message: &Value| {
        text(message, "role") == Some("user") && of_kind(message, "tool_result").next().is_none()
    };
    let turn = messages.iter().rposition(is_person).map_or(0, |person| person + 1);
    let of_assistant = |(_, message): &(usize, &Value)| text(message, "role") == Some("assistant");
    let Some((index, first)) = messages.iter().enumerate().skip(turn).find(of_assistant) else {
        return Ok(());
    };
    let found = list(first, "content").first().and_then(|block| text(block, "type")).unwrap_or("text");
    if matches!(found, "thinking" | "redacted_thinking") {
        return Ok(());
    }
    Err(refuse(&format!(
        "messages.{index}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{found}`. When `thinking` is \
         enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and \
         `tool_result` blocks). We recommend you include thinking blocks from previous turns. To avoid this requirement, \
         disable `thinking`. Please consult our documentation at \
         https://docs.claude.com/en/docs/build-with-claude/extended-thinking"
    )))
}
