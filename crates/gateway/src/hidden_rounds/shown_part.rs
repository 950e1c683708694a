//! Removes the part of a response that the client sent back, because the complete response replaces it.

use std::collections::HashSet;
use std::sync::Arc;

use toolwire_contract::{Block, Message, Role};

use super::{ContentKey, Round};

/// Removes texts of the model, results of servers' calls that the client was shown, and what the user wrote
/// with approvals.
pub(super) fn remove_shown_part(messages: &mut Vec<Arc<Message>>, round: &Round) {
    let user_content: HashSet<ContentKey> = round.user_content().filter_map(ContentKey::of).collect();
    let is_of_user = |block: &Block| {
        !user_content.is_empty() && ContentKey::of(block).is_some_and(|key| user_content.contains(&key))
    };
    let mut response = ResponseText::of(round);
    loop {
        while messages.last().is_some_and(|last| last.role == Role::Assistant || has_only_shown_results(last))
        {
            messages.pop();
        }
        let Some(last) = messages.last() else { return };
        // From the end: a message of the user may begin with the question before the response.
        let count = last.content.iter().rev().take_while(|block| is_of_user(block)).count();
        if count == 0 {
            return;
        }
        let before = messages.iter().rev().nth(1).filter(|before| before.role == Role::Assistant);
        if before.is_some_and(|before| response.take_text_of(before)) && count == last.content.len() {
            // The user wrote it after a text of this response.
            messages.pop();
            continue;
        }
        let kept = (last.content.len() - count).max(1);
        if kept < last.content.len()
            && let Some(last) = messages.last_mut()
        {
            Arc::make_mut(last).content.truncate(kept);
        }
        return;
    }
}

pub(super) fn has_only_shown_results(message: &Message) -> bool {
    message.content.iter().all(|block| matches!(block, Block::Result { id, .. } if is_shown_id(id)))
}

/// Whether an id belongs to a call of a server's tool that was shown to the client.
pub(super) fn is_shown_id(id: &str) -> bool {
    id.starts_with("mcp_") || id.starts_with("mcptoolu_")
}

/// The text of a response before the texts of messages that were already found in it, so that each part is
/// searched once.
struct ResponseText(String);

impl ResponseText {
    fn of(round: &Round) -> ResponseText {
        let responses = round.messages.iter().filter(|message| message.role == Role::Assistant);
        ResponseText(responses.flat_map(|message| message.texts()).collect())
    }

    /// Whether the response contains the whole text of one of the client's messages, and that message has a
    /// text.
    fn take_text_of(&mut self, message: &Message) -> bool {
        let text: String = message.texts().collect();
        let position = self.0.rfind(&text).filter(|_| message.texts().next().is_some());
        if let Some(position) = position {
            self.0.truncate(position);
        }
        position.is_some()
    }
}
