//! Exports a conversation as Markdown.

use toolwire_agent::run::is_summary;
use toolwire_contract::conversations::Transcript;

use crate::terminal_text::sanitize_lines;

/// Converts a transcript to Markdown. A terminal that displays the file must not interpret it.
pub(crate) fn to_markdown(transcript: &Transcript) -> String {
    sanitize_lines(&toolwire_page::chat::to_markdown(transcript, is_summary))
}
