//! Formats lists of conversations.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use toolwire_contract::conversations::{Conversation, Timestamp};
use toolwire_contract::text::counted;

use crate::display::markdown::DIMMED;
use crate::terminal_text::{padded, sanitize, truncate, width};

const BOLD: anstyle::Style = anstyle::Style::new().bold();
const TITLE_COLUMNS: usize = 40;

/// The text that a list displays before each title.
pub(crate) enum Label {
    Id,
    /// The position in the list.
    Number,
}

/// Formats one line for each conversation.
pub(crate) fn lines(conversations: &[Conversation], label: Label, columns: usize) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let details: Vec<String> = conversations
        .iter()
        .map(|conversation| format!("{}, {}", age(conversation.changed, now), message_count(conversation)))
        .collect();
    let label_width = match label {
        Label::Id => 36,
        Label::Number => 3,
    };
    let details_width = details.iter().map(|details| width(details)).max().unwrap_or(0);
    // A long id leaves little of a narrow terminal; the title gets at least some of it.
    let title_width = columns.saturating_sub(label_width + details_width + 5).max(12);
    let longest = conversations.iter().map(|conversation| width(&title(conversation))).max().unwrap_or(0);
    let title_width = title_width.min(longest);
    let mut text = String::new();
    for (index, (conversation, details)) in conversations.iter().zip(details).enumerate() {
        let label = match label {
            Label::Id => conversation.id.to_string(),
            Label::Number => format!("{:>3}", index + 1),
        };
        let title = padded(&truncate(&title(conversation), title_width), title_width);
        let _ = writeln!(text, "{BOLD}{label}{BOLD:#}  {title}  {DIMMED}{details}{DIMMED:#}");
    }
    text
}

/// Formats a conversation in one line: its title and size.
pub(crate) fn summary(conversation: &Conversation) -> String {
    format!("`{}` ({})", truncate(&title(conversation), TITLE_COLUMNS), message_count(conversation))
}

pub(crate) fn title(conversation: &Conversation) -> String {
    sanitize(conversation.title.as_deref().unwrap_or("(no title)"))
}

fn message_count(conversation: &Conversation) -> String {
    counted(conversation.messages, "message")
}

fn age(time: Timestamp, now: u128) -> String {
    let minutes = now.saturating_sub(time.0.into()) / 60_000;
    match minutes {
        0 => "just now".to_owned(),
        1..60 => format!("{minutes} min ago"),
        60..1_440 => format!("{} h ago", minutes / 60),
        _ => format!("{} d ago", minutes / 1_440),
    }
}
