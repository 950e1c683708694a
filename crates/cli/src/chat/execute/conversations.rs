//! The commands about the conversation and stored conversations.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use toolwire_contract::{Conversation, ConversationId, Role, Timestamp};

use super::BOLD;
use crate::chat::Chat;
use crate::chat::markdown::DIMMED;
use crate::chat::session::{ChangeError, message_text};
use crate::chat::view::terminal_size;
use crate::chat::{status, transcript};
use crate::command_error::{CommandError, HINT, NOTE};
use crate::output;
use crate::terminal_text::{counted, padded, sanitize, truncate, width};

const MAX_LISTED: usize = 15;

impl Chat {
    pub(super) async fn retry(&mut self) -> Result<(), ChangeError> {
        let message = self.session.undo().await?;
        self.session.run.say_message(message);
        Ok(())
    }

    pub(super) async fn undo(&mut self) -> Result<String, CommandError> {
        let message = self.session.undo().await?;
        let line = message_text(&message).lines().next().unwrap_or_default().to_owned();
        Ok(format!("removed: {DIMMED}{}{DIMMED:#}\n", truncate(&sanitize(&line), 60)))
    }

    pub(super) async fn save(&mut self, file: Option<&str>) -> Result<String, CommandError> {
        let (transcript, store_error) = self.session.transcript().await?;
        let id = transcript.conversation.id.as_str();
        let default = format!("chat-{}.md", id.rsplit('-').next().unwrap_or_default());
        let file = Path::new(file.unwrap_or(&default));
        if file.exists() {
            return Err(CommandError::usage(format!("`{}` already exists", file.display()))
                .with_hint("choose another file: `/save FILE`"));
        }
        let is_json = file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
        let content = if is_json { transcript.to_json() } else { transcript::to_markdown(&transcript) };
        output::write_file(file, &content)?;
        let mut text = format!("saved as {}\n", sanitize(&file.display().to_string()));
        if let Some(error) = store_error {
            let _ = writeln!(
                text,
                "{NOTE}note:{NOTE:#} from memory, because the store failed: {}",
                sanitize(&error.to_string())
            );
        }
        Ok(text)
    }

    pub(super) async fn list(&mut self) -> Result<String, CommandError> {
        let conversations = self.stored_conversations().await?;
        if conversations.is_empty() {
            return Err(
                CommandError::work("no conversation is stored yet").with_hint("type a message to start one")
            );
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let columns = terminal_size().columns;
        let mut text = String::new();
        for (index, conversation) in conversations.iter().enumerate() {
            let title = conversation.title.as_deref().unwrap_or("(no title)");
            let is_current = Some(&conversation.id) == self.session.conversation();
            let suffix = if is_current { " (this one)" } else { "" };
            let details = format!(
                "{}, {}{suffix}",
                format_age(conversation.changed, now),
                counted(usize::try_from(conversation.messages).unwrap_or(usize::MAX), "message")
            );
            let room = columns.saturating_sub(width(&details) + 8);
            let _ = writeln!(
                text,
                "{BOLD}{:>3}{BOLD:#}  {}  {DIMMED}{details}{DIMMED:#}",
                index + 1,
                truncate(&sanitize(title), room)
            );
        }
        let _ = writeln!(text, "{DIMMED}`/resume NUMBER` continues one{DIMMED:#}");
        self.listed = conversations.into_iter().map(|conversation| conversation.id).collect();
        Ok(text)
    }

    async fn stored_conversations(&self) -> Result<Vec<Conversation>, CommandError> {
        let page = self.session.store.list(MAX_LISTED, None).await.map_err(ChangeError::from)?;
        Ok(page.conversations.into_iter().filter(|conversation| conversation.messages > 0).collect())
    }

    pub(super) async fn resume(&mut self, reference: &str) -> Result<String, CommandError> {
        let id = self.find_conversation(reference).await?;
        let conversation = self.session.resume(&id).await.map_err(ChangeError::from)?;
        let title = sanitize(conversation.title.as_deref().unwrap_or("(no title)"));
        let mut text = format!("{BOLD}{title}{BOLD:#}\n");
        let messages = self.session.run.messages();
        let last = |role: Role| {
            messages.iter().rev().find(|message| message.role == role && !message_text(message).is_empty())
        };
        for (prefix, message) in [("> ", last(Role::User)), ("", last(Role::Assistant))] {
            for line in message.map(|message| message_text(message)).unwrap_or_default().lines().take(8) {
                let _ = writeln!(text, "{DIMMED}{prefix}{}{DIMMED:#}", sanitize(line));
            }
        }
        if !self.session.run.is_done() {
            let mut calls: Vec<String> =
                self.session.run.interrupted_calls().map(|name| format!("`{}`", sanitize(name))).collect();
            calls.dedup();
            let _ = if calls.is_empty() {
                writeln!(
                    text,
                    "{HINT}hint:{HINT:#} the last message has no response: `/retry` sends it again"
                )
            } else {
                writeln!(
                    text,
                    "{NOTE}note:{NOTE:#} interrupted: {}; it is unknown whether this took effect\n\
                     {HINT}hint:{HINT:#} the next message continues the conversation, and the model is informed; \
                     `/retry` sends the last message again and may repeat the effect",
                    calls.join(", ")
                )
            };
        }
        Ok(text)
    }

    /// Finds a conversation by its id, its number in the list, or the start or end of its id.
    async fn find_conversation(&mut self, reference: &str) -> Result<ConversationId, CommandError> {
        if let Ok(id) = reference.parse::<ConversationId>() {
            return Ok(id);
        }
        if self.listed.is_empty() {
            self.listed =
                self.stored_conversations().await?.into_iter().map(|conversation| conversation.id).collect();
        }
        if let Ok(number) = reference.parse::<usize>()
            && let Some(id) = number.checked_sub(1).and_then(|index| self.listed.get(index))
        {
            return Ok(id.clone());
        }
        let is_part = |id: &&ConversationId| {
            let id = id.as_str();
            reference.len() >= 4 && (id.starts_with(reference) || id.ends_with(reference))
        };
        let matching: Vec<&ConversationId> = self.listed.iter().filter(is_part).collect();
        match matching.as_slice() {
            [id] => Ok((*id).clone()),
            [] => Err(CommandError::usage(format!("unknown conversation `{reference}`"))
                .with_hint("`/resume` lists them with their numbers")),
            _ => Err(CommandError::usage(format!("`{reference}` matches {} conversations", matching.len()))
                .with_hint("type more of the id, or the number that `/resume` lists")),
        }
    }

    pub(super) fn usage(&self) -> String {
        let rows =
            status::usage_rows(self.session.model_name(), &self.session.usage(), self.session.context());
        let mut text: String =
            rows.iter().map(|(name, value)| format!("{}  {value}\n", padded(name, 19))).collect();
        if let Some(id) = self.session.conversation() {
            let _ = writeln!(text, "{}  {id}", padded("conversation", 19));
        }
        text
    }

    pub(super) fn clear(&mut self) -> String {
        let previous = self.session.conversation().cloned();
        self.session.clear();
        self.listed.clear();
        let previous =
            previous.map(|id| format!("; `/resume {id}` returns to the previous one")).unwrap_or_default();
        format!("{NOTE}a new conversation{NOTE:#}{previous}\n")
    }
}

fn format_age(time: Timestamp, now: u128) -> String {
    let minutes = now.saturating_sub(time.0.into()) / 60_000;
    match minutes {
        0 => "just now".to_owned(),
        1..60 => format!("{minutes} min ago"),
        60..1_440 => format!("{} h ago", minutes / 60),
        _ => format!("{} d ago", minutes / 1_440),
    }
}
