//! What others may know of a run, and what its keeper tells it.

use std::mem;
use std::sync::Arc;

use toolwire_contract::{Block, Content, ConversationId, Message, Role, ToolResult, Usage};

use super::{Run, State, Unsaved, history};
use crate::approval::PendingCall;
use crate::event::ContextUse;
use crate::outcome::{Ending, Outcome};
use crate::settings::Settings;

/// How many characters a title has at most.
const TITLE: usize = 60;

impl Run {
    /// All that was said, as the model would be shown it if its context had no end: users and assistants take turns, and
    /// each call has its result in the next message, but for calls that are open now.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.history
    }

    /// What to call the conversation: the beginning of the first line that the person said.
    pub fn title(&self) -> Option<String> {
        let said = self.history.iter().filter(|message| message.role == Role::User);
        let mut texts = said.flat_map(|message| &message.content).filter_map(|block| match block {
            Block::Content(Content::Text { text, .. }) => Some(text),
            _ => None,
        });
        let line = texts.find_map(|text| text.lines().map(str::trim).find(|line| !line.is_empty()))?;
        if line.chars().nth(TITLE).is_none() {
            return Some(line.chars().map(visible).collect());
        }
        let begin: String = line.chars().take(TITLE - 1).map(visible).collect();
        Some(format!("{}…", begin.trim_end()))
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// For changes in the middle, such as other approvals; they hold from the next answer on.
    pub fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// What everything has cost since this run began.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// How full the context window is.
    pub fn context(&self) -> ContextUse {
        let size = self.settings.context.tokens.or(self.catalog.limits().context_tokens);
        ContextUse { used: self.memory.used(), size }
    }

    /// The tools that a person allowed for good, in the order in which that happened.
    pub fn always_allowed(&self) -> &[String] {
        &self.always
    }

    /// Allows a tool for good, as [`Decision::Always`] does.
    pub fn allow_always(&mut self, tool: impl Into<String>) {
        let tool = tool.into();
        if !self.always.contains(&tool) {
            self.always.push(tool);
        }
    }

    /// Whether there is nothing to do until somebody says something.
    pub fn is_done(&self) -> bool {
        self.state != State::Working
    }

    /// Work that can be done while the model thinks.
    pub(crate) fn preparation(&self) -> Option<impl FnOnce() + Send + 'static> {
        self.catalog.preparation(&self.settings)
    }

    pub(crate) fn has_open_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// The calls that wait for a person.
    pub fn waiting(&self) -> Vec<PendingCall> {
        self.calls.iter().filter_map(|call| call.pending(self.catalog.tool(&call.call.name))).collect()
    }

    /// The tools whose calls had begun when the program that made them ended: whether they did their work is not known,
    /// and when the run goes on, the model is told so.
    pub fn interrupted_calls(&self) -> impl Iterator<Item = &str> {
        let open = self.calls.iter().filter(|call| call.is_of_unknown_outcome());
        let open = open.map(|call| call.call.name.as_str());
        let closed = match &self.history[..] {
            [.., asked, answered] => Some(history::of_unknown_outcome(asked, answered)),
            _ => None,
        };
        open.chain(closed.into_iter().flatten())
    }

    /// How many answers there were to this message of the person.
    pub fn steps(&self) -> u32 {
        self.turn.steps
    }

    /// Where the messages are kept, and how many are.
    pub fn kept(&self) -> Option<(&ConversationId, u64)> {
        self.conversation.as_ref().map(|conversation| (conversation, self.position))
    }

    /// From now on messages are kept there, after this many that are.
    pub fn keep_in(&mut self, conversation: ConversationId, position: u64) {
        self.conversation = Some(conversation);
        self.position = position;
    }

    /// The messages that are complete and not yet kept, in their order.
    pub fn unsaved(&self) -> &[Unsaved] {
        &self.unsaved
    }

    /// The first so many of [`Run::unsaved`] are kept now.
    pub fn saved(&mut self, messages: usize) {
        self.unsaved.drain(..messages.min(self.unsaved.len()));
        self.position += messages as u64;
    }

    /// Calls that got a result without being made since this was last asked: id, name, result.
    pub(crate) fn take_told(&mut self) -> Vec<(String, String, ToolResult)> {
        mem::take(&mut self.told)
    }

    /// How it ended; while it works, what it waits for.
    pub(crate) fn outcome(&self) -> Outcome {
        let ending = match &self.state {
            State::Idle => Ending::Finished,
            State::Working => Ending::NeedsApproval(self.waiting()),
            State::Done(ending) => ending.clone(),
        };
        Outcome {
            ending,
            text: self.turn.text.clone(),
            stop: self.turn.stop.clone(),
            usage: self.turn.usage,
            steps: self.turn.steps,
        }
    }
}

/// Titles are shown in lists, where a control character would do harm.
fn visible(character: char) -> char {
    if character.is_control() { char::REPLACEMENT_CHARACTER } else { character }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title(said: &str) -> Option<String> {
        let mut run = Run::new(Settings::default());
        run.say(said);
        run.title()
    }

    #[test]
    fn the_title_is_the_first_line_that_says_something() {
        assert_eq!(title("\n  What is\u{7} this?\nmore"), Some("What is\u{fffd} this?".to_owned()));
        assert_eq!(title(" \n"), None);
        assert_eq!(title(&"word ".repeat(40)).map(|title| title.chars().count()), Some(60));
    }
}
