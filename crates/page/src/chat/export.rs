//! Conversations as Markdown.

use std::fmt::Write as _;

use toolwire_contract::conversations::Transcript;
use toolwire_contract::{Block, Content, Message, Role, ToolResult};

use super::call::argument_line;
use crate::text::shortened;

/// The longest result that is part of the text, in characters.
const MAX_RESULT: usize = 2_000;

/// Converts a conversation to Markdown: messages under headings, calls and their results as quoted lines.
/// Some messages of the role `user` are summaries.
pub fn to_markdown(transcript: &Transcript, is_summary: impl Fn(&Message) -> bool) -> String {
    let mut markdown = format!("# {}\n", transcript.conversation.title.as_deref().unwrap_or("Conversation"));
    let mut last_speaker = "";
    for entry in &transcript.entries {
        let speaker = match entry.message.role {
            Role::User if is_summary(&entry.message) => "Summary",
            Role::User => "You",
            Role::Assistant => entry.model.as_deref().unwrap_or("Assistant"),
        };
        for block in &entry.message.content {
            // Writing to a string does not fail.
            match block {
                Block::Content(content) => {
                    let Some(text) = text_of(content, entry.message.role) else { continue };
                    if speaker != last_speaker {
                        let _ = write!(markdown, "\n## {speaker}\n");
                        last_speaker = speaker;
                    }
                    let _ = write!(markdown, "\n{text}\n");
                }
                Block::Call { call, .. } => {
                    let arguments = call.arguments.as_ref().filter(|arguments| !arguments.is_empty());
                    let arguments = arguments.map(argument_line).unwrap_or_default();
                    let _ = write!(markdown, "\n> called `{}` ({arguments})\n", call.name);
                }
                Block::Result { result, .. } => {
                    let prefix = if result.is_error() { "failed: " } else { "" };
                    let _ = write!(markdown, "\n> → {prefix}{}\n", result_line(result));
                }
            }
        }
    }
    markdown
}

/// Returns the text of a message, or the name of an attached file; `None` for reasoning.
fn text_of(content: &Content, role: Role) -> Option<String> {
    match content {
        Content::Text { text, .. } if text.trim().is_empty() => None,
        Content::Text { text, .. } => Some(text.trim_end().to_owned()),
        file if role == Role::User => {
            let kind = file.type_name().unwrap_or("content");
            let name = file.resource_name().unwrap_or_else(|| kind.to_owned());
            let details = file.type_and_size().map(|details| format!(" ({details})")).unwrap_or_default();
            Some(format!("> attached {name}{details}"))
        }
        _ => None,
    }
}

fn result_line(result: &ToolResult) -> String {
    let texts: Vec<String> = result
        .blocks()
        .iter()
        .map(|block| match block {
            Content::Text { text, .. } => text.clone(),
            other => {
                let name = other.type_and_size().or_else(|| other.resource_name());
                format!("[{}]", name.as_deref().or(other.type_name()).unwrap_or("content"))
            }
        })
        .collect();
    let text = match &result.structured_content {
        Some(value) if texts.is_empty() => value.to_string(),
        _ => texts.join(" "),
    };
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.is_empty() {
        true => "no text".to_owned(),
        false => shortened(&text, MAX_RESULT),
    }
}
