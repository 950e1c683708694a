//! The messages of an Anthropic request: their roles, and the pairing of calls and results.
//!
//! Rules in `docs/providers.md`: `anthropic/roles`, `anthropic/empty-content`, `anthropic/call-pairing`,
//! `anthropic/thinking-blocks`.

use std::collections::HashSet;

use serde_json::Value;

use super::{blocks, check_keys, is_thinking, reject, required};
use crate::provider::check::Rejection;
use crate::provider::json::{list, text};

pub(super) fn check(body: &Value) -> Result<(), Rejection> {
    let messages =
        body["messages"].as_array().ok_or_else(|| reject("messages: Input should be a valid list"))?;
    if messages.is_empty() {
        return Err(reject("messages: at least one message is required"));
    }
    let last = messages.len() - 1;
    for (index, message) in messages.iter().enumerate() {
        let path = format!("messages.{index}");
        check_keys(message, &["role", "content"], Some(&path))?;
        let role = text(message, "role").ok_or_else(|| required(&format!("{path}.role")))?;
        match role {
            "user" | "assistant" => {}
            "system" => {
                return Err(reject(
                    "messages: Unexpected role \"system\". The Messages API accepts a top-level `system` parameter, not \
                     \"system\" as an input message role.",
                ));
            }
            _ => return Err(reject(&format!("{path}.role: Input should be 'user' or 'assistant'"))),
        }
        let is_empty = match message.get("content") {
            None => return Err(required(&format!("{path}.content"))),
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Array(blocks)) => blocks.is_empty(),
            Some(_) => return Err(reject(&format!("{path}.content: Input should be a valid list"))),
        };
        if is_empty && !(role == "assistant" && index == last) {
            return Err(reject(&format!(
                "{path}: all messages must have non-empty content except for the optional final assistant message"
            )));
        }
        for (number, block) in blocks(message).iter().enumerate() {
            super::blocks::check(&path, role, &format!("{path}.content.{number}"), block)?;
        }
    }
    check_pairing(messages)?;
    super::searches::check(messages)?;
    if is_thinking(body) { check_first_block(messages) } else { Ok(()) }
}

fn blocks_of_kind<'message>(
    message: &'message Value,
    kind: &'static str,
) -> impl Iterator<Item = (usize, &'message Value)> {
    blocks(message).iter().enumerate().filter(move |(_, block)| text(block, "type") == Some(kind))
}

fn check_pairing(messages: &[Value]) -> Result<(), Rejection> {
    let mut seen = HashSet::new();
    for (index, message) in messages.iter().enumerate() {
        let before = index.checked_sub(1).map_or_else(Vec::new, |before| call_ids(&messages[before]));
        let mut resolved = HashSet::new();
        for (number, result) in blocks_of_kind(message, "tool_result") {
            let id = text(result, "tool_use_id").unwrap_or_default();
            let path = format!("messages.{index}.content.{number}");
            if !before.contains(&id) {
                return Err(reject(&format!(
                    "{path}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must have \
                     a corresponding `tool_use` block in the previous message."
                )));
            }
            if !resolved.insert(id) {
                return Err(reject(&format!(
                    "{path}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}"
                )));
            }
        }
        let calls = call_ids(message);
        for id in &calls {
            if !seen.insert(*id) {
                return Err(reject("messages: `tool_use` ids must be unique"));
            }
        }
        // Only results at the beginning of the next message count.
        let first = messages.get(index + 1).map(blocks).unwrap_or_default();
        let first = first.iter().take_while(|block| text(block, "type") == Some("tool_result"));
        let first: HashSet<&str> = first.filter_map(|result| text(result, "tool_use_id")).collect();
        let open: Vec<&str> = calls.into_iter().filter(|id| !first.contains(id)).collect();
        if !open.is_empty() {
            return Err(reject(&format!(
                "messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each \
                 `tool_use` block must have a corresponding `tool_result` block in the next message.",
                open.join(", ")
            )));
        }
    }
    Ok(())
}

fn call_ids(message: &Value) -> Vec<&str> {
    blocks_of_kind(message, "tool_use").filter_map(|(_, call)| text(call, "id")).collect()
}

/// Checks that the current turn begins with thinking. The turn begins after the last user message without
/// results.
fn check_first_block(messages: &[Value]) -> Result<(), Rejection> {
    let is_prompt = |message: &Value| {
        text(message, "role") == Some("user") && blocks_of_kind(message, "tool_result").next().is_none()
    };
    let turn = messages.iter().rposition(is_prompt).map_or(0, |prompt| prompt + 1);
    let is_assistant = |(_, message): &(usize, &Value)| text(message, "role") == Some("assistant");
    let Some((index, first)) = messages.iter().enumerate().skip(turn).find(is_assistant) else {
        return Ok(());
    };
    let found = list(first, "content").first().and_then(|block| text(block, "type")).unwrap_or("text");
    if matches!(found, "thinking" | "redacted_thinking") {
        return Ok(());
    }
    Err(reject(&format!(
        "messages.{index}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{found}`. When `thinking` is \
         enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and \
         `tool_result` blocks). We recommend you include thinking blocks from previous turns. To avoid this requirement, \
         disable `thinking`. Please consult our documentation at \
         https://docs.claude.com/en/docs/build-with-claude/extended-thinking"
    )))
}
