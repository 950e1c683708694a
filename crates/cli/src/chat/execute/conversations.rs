//! The commands about the conversation and stored conversations.

use std::fmt::Write as _;
use std::path::Path;
use std::pin::pin;

use toolwire_agent::run::is_user_input;
use toolwire_contract::conversations::Conversation;
use toolwire_contract::text::counted;

use super::BOLD;
use crate::chat::Chat;
use crate::chat::editor::InputLine;
use crate::chat::session::ChangeError;
use crate::chat::status;
use crate::command_error::{CommandError, HINT, NOTE};
use crate::conversations::list::{self, Label};
use crate::conversations::{find, markdown};
use crate::display::markdown::DIMMED;
use crate::display::view::{SPINNER_INTERVAL, terminal_size};
use crate::output::{self, ignore_broken_pipe};
use crate::terminal_text::{padded, sanitize, truncate};

const MAX_LISTED: usize = 15;

impl Chat {
    pub(super) async fn retry(&mut self) -> Result<(), ChangeError> {
        let message = self.session.undo().await?;
        self.session.run.say_message(message);
        Ok(())
    }

    pub(super) async fn undo(&mut self) -> Result<String, CommandError> {
        let message = self.session.undo().await?;
        let line = message.texts().next().and_then(|text| text.lines().next()).unwrap_or_default().to_owned();
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
        let content = if is_json { transcript.to_json() } else { markdown::to_markdown(&transcript) };
        output::write_private_file(file, &content)?;
        let mut text = format!("saved as {}\n", sanitize(&file.display().to_string()));
        if let Some(error) = store_error {
            let _ = writeln!(
                text,
                "{NOTE}note:{NOTE:#} saved from memory, because the store failed: {}",
                sanitize(&error.to_string())
            );
        }
        Ok(text)
    }

    pub(super) async fn list(&mut self) -> Result<String, CommandError> {
        let conversations = find::stored(&*self.session.store, MAX_LISTED).await?;
        if conversations.is_empty() {
            return Err(
                CommandError::work("no conversation is stored yet").with_hint("type a message to start one")
            );
        }
        Ok(self.list_of(conversations))
    }

    /// Formats a list whose numbers `/resume` and `/delete` accept.
    fn list_of(&mut self, conversations: Vec<Conversation>) -> String {
        let mut text = list::lines(&conversations, Label::Number, terminal_size().columns);
        let _ = writeln!(text, "{DIMMED}`/resume NUMBER` continues one{DIMMED:#}");
        self.listed = conversations.into_iter().map(|conversation| conversation.id).collect();
        text
    }

    /// Continues a conversation. If several match, lists them instead.
    pub(super) async fn resume(&mut self, reference: &str) -> Result<String, CommandError> {
        let mut found = self.matching(reference).await?;
        if found.len() > 1 {
            return Ok(self.list_of(found));
        }
        let id = found.remove(0).id;
        let conversation = self.session.resume(&id).await.map_err(ChangeError::from)?;
        let messages = self.session.run.messages().to_vec();
        let start = messages.iter().rposition(|message| is_user_input(message)).unwrap_or(0);
        if start > 0 {
            let (title, earlier) = (list::title(&conversation), counted(start, "earlier message"));
            self.print(&format!("{BOLD}{title}{BOLD:#}\n{DIMMED}{earlier}; `/save` writes all{DIMMED:#}\n"))?;
        }
        self.view.replay(&messages[start..]).or_else(ignore_broken_pipe)?;
        Ok(self.unfinished_note())
    }

    /// Returns a note if the last message has no complete response.
    pub(in crate::chat) fn unfinished_note(&self) -> String {
        if self.session.run.is_done() {
            return String::new();
        }
        let mut calls: Vec<String> =
            self.session.run.interrupted_calls().map(|name| format!("`{}`", sanitize(name))).collect();
        calls.dedup();
        if calls.is_empty() {
            return format!(
                "{HINT}hint:{HINT:#} the last message has no response: `/retry` sends it again\n"
            );
        }
        format!(
            "{NOTE}note:{NOTE:#} interrupted: {}; it is unknown whether this took effect\n\
             {HINT}hint:{HINT:#} the next message continues the conversation, and the model is informed; \
             `/retry` sends the last message again and may repeat the effect\n",
            calls.join(", ")
        )
    }

    /// Deletes a conversation after the user has confirmed it: the current one if none is named.
    pub(super) async fn delete(&mut self, reference: Option<&str>) -> Result<String, CommandError> {
        let mut found = match (reference, self.session.conversation().cloned()) {
            (Some(reference), _) => self.matching(reference).await?,
            (None, Some(id)) => vec![self.session.store.get(&id).await.map_err(ChangeError::from)?],
            (None, None) => return Err(ChangeError::Empty.into()),
        };
        if found.len() > 1 {
            let text = self.list_of(found);
            self.print(&text)?;
            return Err(CommandError::usage("several conversations match")
                .with_hint("choose one with `/delete NUMBER`"));
        }
        let conversation = found.remove(0);
        let summary = list::summary(&conversation);
        if self.input.is_terminal() {
            let question = format!("delete {summary} permanently? y or n: ");
            let is_confirmed = matches!(
                self.read_answer(&question).await,
                InputLine::Text(answer) if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
            );
            if !is_confirmed {
                return Ok("nothing was deleted\n".to_owned());
            }
        }
        let is_current = self.session.conversation() == Some(&conversation.id);
        self.session.store.remove(&conversation.id).await.map_err(ChangeError::from)?;
        self.listed.clear();
        if is_current {
            self.session.clear();
        }
        Ok(format!("deleted {summary}\n"))
    }

    /// Returns the conversations with this number, id or words; at least one.
    async fn matching(&mut self, reference: &str) -> Result<Vec<Conversation>, CommandError> {
        let store = &*self.session.store;
        if let Ok(number) = reference.parse::<usize>() {
            if self.listed.is_empty() {
                let stored = find::stored(store, MAX_LISTED).await?;
                self.listed = stored.into_iter().map(|conversation| conversation.id).collect();
            }
            if let Some(id) = number.checked_sub(1).and_then(|index| self.listed.get(index)) {
                return Ok(vec![store.get(id).await.map_err(ChangeError::from)?]);
            }
        }
        let mut found = find::matching(store, reference).await?;
        found.truncate(MAX_LISTED);
        if found.is_empty() {
            return Err(CommandError::usage(format!("no conversation matches `{reference}`"))
                .with_hint("`/resume` lists them with their numbers"));
        }
        Ok(found)
    }

    /// Summarizes the conversation. The stored messages stay.
    pub(super) async fn compact(&mut self, keep: Option<&str>) -> Result<String, CommandError> {
        self.interrupts.discard_pending();
        let before = self.session.context().used;
        let outcome = {
            let Chat { session, view, interrupts, .. } = &mut *self;
            let mut compacting = pin!(session.agent.compact(&mut session.run, keep));
            let mut ticks = tokio::time::interval(SPINNER_INTERVAL);
            view.show_waiting("summarizing the conversation · Ctrl-C stops").or_else(ignore_broken_pipe)?;
            loop {
                tokio::select! {
                    outcome = &mut compacting => break Some(outcome),
                    () = interrupts.next() => break None,
                    _ = ticks.tick() => view.tick().or_else(ignore_broken_pipe)?,
                }
            }
        };
        self.view.finish_section().or_else(ignore_broken_pipe)?;
        match outcome {
            None => Err(CommandError::work("stopped: nothing was summarized")),
            Some(Ok(Some(messages))) => Ok(format!(
                "{} summarized ({} tokens before); they stay stored, and the model reads the summary from now on\n",
                counted(messages, "message"),
                status::short_number(before)
            )),
            Some(Ok(None)) => Err(CommandError::work("there is nothing new to summarize")
                .with_hint("a response must be complete before it can be summarized")),
            Some(Err(error)) => {
                self.has_failed = true;
                let hint = error.hint().map(str::to_owned);
                let error = CommandError::work(format!("the conversation was not summarized: {error}"));
                Err(error.with_untrusted_hint(hint.as_ref()))
            }
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
        format!("{NOTE}started a new conversation{NOTE:#}{previous}\n")
    }
}
