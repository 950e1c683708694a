//! Displays messages of a stored conversation as they were displayed when they arrived.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use serde_json::Map;
use toolwire_contract::{Block, Content, Message, Role, ToolResult};

use super::view::View;
use crate::attachment;

impl View {
    /// Displays messages: the user's text, the calls with their results, and the responses.
    pub(crate) fn replay(&mut self, messages: &[Arc<Message>]) -> io::Result<()> {
        let results: HashMap<&str, &ToolResult> = messages
            .iter()
            .flat_map(|message| &message.content)
            .filter_map(|block| match block {
                Block::Result { id, result } => Some((id.as_str(), result)),
                _ => None,
            })
            .collect();
        for message in messages {
            for block in &message.content {
                match block {
                    Block::Content(Content::Text { text, .. }) if message.role == Role::User => {
                        self.push_user_text(text)?;
                    }
                    Block::Content(Content::Text { text, .. }) => self.push_text(text)?,
                    Block::Content(content) => {
                        // Reasoning is not displayed again.
                        if message.role == Role::User {
                            self.push_user_text(&format!("[attached: {}]", attachment::describe(content)))?;
                        }
                    }
                    Block::Call { id, call } => {
                        let no_arguments = Map::new();
                        let arguments = call.arguments.as_ref().unwrap_or(&no_arguments);
                        self.call_started(id, &call.name, arguments)?;
                        if let Some(result) = results.get(id.as_str()) {
                            self.call_finished(id, &call.name, result, None)?;
                        }
                    }
                    Block::Result { .. } => {}
                }
            }
            self.finish_section()?;
        }
        Ok(())
    }
}
