//! The messages of a Converse request: their roles, and the pairing of calls and results.
//!
//! Rules in `docs/providers.md`: `bedrock/roles`, `bedrock/empty-content`, `bedrock/call-pairing`,
//! `bedrock/tool-config`.

use std::collections::HashSet;

use serde_json::Value;

use super::{blocks, check_keys, constraint, missing, reject};
use crate::provider::check::Rejection;
use crate::provider::json::{list, present, text};

pub(super) fn check(body: &Value) -> Result<(), Rejection> {
    let messages = list(body, "messages");
    if messages.is_empty() {
        return Err(reject(
            "The messages field is empty. Add a Message object to the messages field and try again.",
        ));
    }
    let mut previous_role = "assistant";
    for (index, message) in messages.iter().enumerate() {
        let path = format!("messages.{index}");
        check_keys(message, &path, &["role", "content"])?;
        let member_path = format!("messages.{}.member", index + 1);
        let role = text(message, "role").ok_or_else(|| missing(&format!("{member_path}.role")))?;
        if !["user", "assistant"].contains(&role) {
            let rule = "Member must satisfy enum value set: [user, assistant]";
            return Err(constraint(role, &format!("{member_path}.role"), rule));
        }
        if index == 0 && role != "user" {
            return Err(reject(
                "A conversation must start with a user message. Try again with a conversation that starts with a user message.",
            ));
        }
        if role == previous_role {
            return Err(reject(
                "A conversation must alternate between user and assistant roles. Make sure the conversation alternates between \
                 user and assistant roles and try again.",
            ));
        }
        previous_role = role;
        let content = list(message, "content");
        if content.is_empty() {
            return Err(reject(&format!(
                "The content field in the Message object at {path} is empty. Add a ContentBlock object to the content field and \
                 try again."
            )));
        }
        for (number, block) in content.iter().enumerate() {
            let member_path = format!("{member_path}.content.{}.member", number + 1);
            blocks::check(&format!("{path}.content.{number}"), &member_path, role, block)?;
        }
    }
    let has_tool_blocks = messages
        .iter()
        .any(|message| !ids(message, "toolUse").is_empty() || !ids(message, "toolResult").is_empty());
    if has_tool_blocks && present(body, "toolConfig").is_none() {
        return Err(reject(
            "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
        ));
    }
    check_pairing(messages)
}

fn ids<'message>(message: &'message Value, kind: &str) -> Vec<&'message str> {
    let blocks = list(message, "content").iter().filter_map(|block| block.get(kind));
    blocks.filter_map(|block| text(block, "toolUseId")).collect()
}

fn check_pairing(messages: &[Value]) -> Result<(), Rejection> {
    let mut open: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let calls = ids(message, "toolUse");
        let results = ids(message, "toolResult");
        for (kind, ids) in [("toolUse", &calls), ("toolResult", &results)] {
            let mut seen = HashSet::new();
            if let Some(duplicate) = ids.iter().find(|id| !seen.insert(**id)) {
                let message = format!(
                    "The {kind} blocks at messages.{index}.content contain duplicate Ids: {duplicate}"
                );
                return Err(reject(&message));
            }
        }
        let unresolved: Vec<&str> = open.iter().copied().filter(|id| !results.contains(id)).collect();
        if !unresolved.is_empty() {
            return Err(missing_results(index, &unresolved));
        }
        if results.len() > open.len() {
            return Err(reject(&format!(
                "The number of toolResult blocks at messages.{index}.content exceeds the number of toolUse blocks of previous \
                 turn."
            )));
        }
        open = calls;
    }
    if open.is_empty() { Ok(()) } else { Err(missing_results(messages.len(), &open)) }
}

fn missing_results(index: usize, ids: &[&str]) -> Rejection {
    reject(&format!(
        "Expected toolResult blocks at messages.{index}.content for the following Ids: {}",
        ids.join(", ")
    ))
}
