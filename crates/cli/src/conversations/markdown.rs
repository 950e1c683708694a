//! Exports a conversation as Markdown.

use std::fmt::Write as _;

use toolwire_contract::conversations::Transcript;
use toolwire_contract::{Block, Content, Role};

use crate::attachment;
use crate::display::calls::{short_arguments, short_result};
use crate::terminal_text::sanitize_lines;

/// Converts a transcript to Markdown: messages under headings, calls and their results as quoted lines.
pub(crate) fn to_markdown(transcript: &Transcript) -> String {
    let mut markdown = format!("# {}\n", transcript.conversation.title.as_deref().unwrap_or("Conversation"));
    let mut last_speaker = "";
    for entry in &transcript.entries {
        for block in &entry.message.content {
            match block {
                Block::Content(content) => {
                    let text = match content {
                        Content::Text { text, .. } => text.trim_end().to_owned(),
                        file if entry.message.role == Role::User => {
                            format!("> attached {}", attachment::describe(file))
                        }
                        // Reasoning.
                        _ => continue,
                    };
                    if text.trim().is_empty() {
                        continue;
                    }
                    let speaker = match entry.message.role {
                        Role::User if toolwire_agent::run::is_summary(&entry.message) => "Summary",
                        Role::User => "You",
                        Role::Assistant => entry.model.as_deref().unwrap_or("Assistant"),
                    };
                    if speaker != last_speaker {
                        let _ = write!(markdown, "\n## {speaker}\n");
                        last_speaker = speaker;
                    }
                    let _ = write!(markdown, "\n{text}\n");
                }
                Block::Call { call, .. } => {
                    let arguments = call.arguments.as_ref().map(short_arguments).unwrap_or_default();
                    let _ = write!(markdown, "\n> called `{}` ({arguments})\n", call.name);
                }
                Block::Result { result, .. } => {
                    let prefix = if result.is_error() { "failed: " } else { "" };
                    let _ = write!(markdown, "\n> → {prefix}{}\n", short_result(result));
                }
            }
        }
    }
    // A terminal that displays the file must not interpret it.
    sanitize_lines(&markdown)
}
