//! A conversation as a Markdown file, for people to read.

use std::fmt::Write as _;

use toolwire_contract::{Block, Content, Role, Transcript};

use super::calls::{short_arguments, short_result};

/// Messages under headings, calls and their results as quoted lines.
pub(crate) fn in_markdown(transcript: &Transcript) -> String {
    let mut text = format!("# {}\n", transcript.conversation.title.as_deref().unwrap_or("Conversation"));
    let mut speaker = "";
    for entry in &transcript.entries {
        for block in &entry.message.content {
            match block {
                Block::Content(Content::Text { text: said, .. }) if !said.trim().is_empty() => {
                    let now = match entry.message.role {
                        Role::User => "You",
                        Role::Assistant => entry.model.as_deref().unwrap_or("Assistant"),
                    };
                    if now != speaker {
                        let _ = write!(text, "\n## {now}\n");
                        speaker = now;
                    }
                    let _ = write!(text, "\n{}\n", said.trim_end());
                }
                Block::Call { call, .. } => {
                    let arguments = call.arguments.as_ref().map(short_arguments).unwrap_or_default();
                    let _ = write!(text, "\n> called `{}` ({arguments})\n", call.name);
                }
                Block::Result { result, .. } => {
                    let mark = if result.is_error() { "failed: " } else { "" };
                    let _ = write!(text, "\n> → {mark}{}\n", short_result(result));
                }
                Block::Content(_) => {}
            }
        }
    }
    text
}
