//! The messages of a Converse request: roles, and what belongs together.
//!
//! | rule | source |
//! |---|---|
//! | begins with the user, then they take turns | 3.6, gh:langchain-ai/langchain-aws#192 |
//! | no empty message | 6.2 [?], 3.6 |
//! | the results of all calls are in the next message, once each, and no others | 3.6, 6.1 |
//! | `toolConfig` is there when calls or results are | 3.6 |

use std::collections::HashSet;

use serde_json::Value;

use super::{blocks, constraint, known, missing, refuse};
use crate::provider::json::{list, present, text};
use crate::provider::judge::Refusal;

pub(super) fn judge(body: &Value) -> Result<(), Refusal> {
    let messages = list(body, "messages");
    if messages.is_empty() {
        return Err(refuse(
            "The messages field is empty. Add a Message object to the messages field and try again.",
        ));
    }
    let mut before = "assistant";
    for (index, message) in messages.iter().enumerate() {
        let way = format!("messages.{index}");
        known(message, &way, &["role", "content"])?;
        let aws = format!("messages.{}.member", index + 1);
        let role = text(message, "role").ok_or_else(|| missing(&format!("{aws}.role")))?;
        if !["user", "assistant"].contains(&role) {
            let rule = "Member must satisfy enum value set: [user, assistant]";
            return Err(constraint(role, &format!("{aws}.role"), rule));
        }
        if index == 0 && role != "user" {
            return Err(refuse(
                "A conversation must start with a user message. Try again with a conversation that starts with a user message.",
            ));
        }
        if role == before {
            return Err(refuse(
                "A conversation must alternate between user and assistant roles. Make sure the conversation alternates between \
                 user and assistant roles and try again.",
            ));
        }
        before = role;
        let content = list(message, "content");
        if content.is_empty() {
            return Err(refuse(&format!(
                "The content field in the Message object at {way} is empty. Add a ContentBlock object to the content field and \
                 try again."
            )));
        }
        for (number, block) in content.iter().enumerate() {
            let aws = format!("{aws}.content.{}.member", number + 1);
            blocks::judge(&format!("{way}.content.{number}"), &aws, role, block)?;
        }
    }
    let holds_tools = messages
        .iter()
        .any(|message| !ids(message, "toolUse").is_empty() || !ids(message, "toolResult").is_empty());
    if holds_tools && present(body, "toolConfig").is_none() {
        return Err(refuse(
            "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
        ));
    }
    pairs(messages)
}

fn ids<'message>(message: &'message Value, kind: &str) -> Vec<&'message str> {
    let blocks = list(message, "content").iter().filter_map(|block| block.get(kind));
    blocks.filter_map(|block| text(block, "toolUseId")).collect()
}

fn pairs(messages: &[Value]) -> Result<(), Refusal> {
    let mut open: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let calls = ids(message, "toolUse");
        let results = ids(message, "toolResult");
        for (kind, ids) in [("toolUse", &calls), ("toolResult", &results)] {
            let mut seen = HashSet::new();
            if let Some(twice) = ids.iter().find(|id| !seen.insert(**id)) {
                let message =
                    format!("The {kind} blocks at messages.{index}.content contain duplicate Ids: {twice}");
                return Err(refuse(&message));
            }
        }
        let unanswered: Vec<&str> = open.iter().copied().filter(|id| !results.contains(id)).collect();
        if !unanswered.is_empty() {
            return Err(expected(index, &unanswered));
        }
        if results.len() > open.len() {
            return Err(refuse(&format!(
                "The number of toolResult blocks at messages.{index}.content exceeds the number of toolUse blocks of previous \
                 turn."
            )));
        }
        open = calls;
    }
    if open.is_empty() { Ok(()) } else { Err(expected(messages.len(), &open)) }
}

fn expected(index: usize, ids: &[&str]) -> Refusal {
    refuse(&format!(
        "Expected toolResult blocks at messages.{index}.content for the following Ids: {}",
        ids.join(", ")
    ))
}
