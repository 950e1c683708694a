//! The public state of a run.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use serde_json::{Map, Value};
use toolwire_contract::conversations::ConversationId;
use toolwire_contract::model::Usage;
use toolwire_contract::text::truncate;
use toolwire_contract::{Block, Content, Message, Role, Tool, ToolCall, ToolResult};

use super::{Catalog, InvalidArguments, Run, RunState, UnsavedMessage, calls, history};
use crate::approval::PendingCall;
use crate::event::ContextUse;
use crate::outcome::{Ending, RunOutcome};
use crate::search::Similarities;
use crate::settings::AgentSettings;

const MAX_TITLE_CHARS: usize = 60;

impl Run {
    /// Returns the complete history. Messages of the user and of the assistant alternate, and each call has
    /// its result in the next message, except for calls that are open now.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.history
    }

    /// Returns a title for the conversation: the start of the first line that the user wrote.
    pub fn title(&self) -> Option<String> {
        let messages = self.history.iter().filter(|message| message.role == Role::User);
        let mut texts = messages.flat_map(|message| &message.content).filter_map(|block| match block {
            Block::Content(Content::Text { text, .. }) => Some(text),
            _ => None,
        });
        let line = texts.find_map(|text| text.lines().map(str::trim).find(|line| !line.is_empty()))?;
        // Titles are printed in lists, where control characters could corrupt the terminal.
        let printable = |char: char| if char.is_control() { char::REPLACEMENT_CHARACTER } else { char };
        Some(truncate(line, MAX_TITLE_CHARS).chars().map(printable).collect())
    }

    pub fn settings(&self) -> &AgentSettings {
        &self.settings
    }

    /// Returns the settings to change them, for example the approvals. Changes apply from the next response
    /// on.
    pub fn settings_mut(&mut self) -> &mut AgentSettings {
        &mut self.settings
    }

    /// Returns the total usage of this run.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns how full the context window is.
    pub fn context(&self) -> ContextUse {
        let size = self.context_window.size(self.settings.context.window(self.catalog.limits()));
        ContextUse { used: self.context_window.used(), size }
    }

    /// Returns the tools that the user allowed permanently, the oldest first.
    pub fn always_allowed(&self) -> &[String] {
        &self.always
    }

    /// Allows a tool permanently, as [`Decision::Always`](crate::approval::Decision::Always) does.
    pub fn allow_always(&mut self, tool: impl Into<String>) {
        let tool = tool.into();
        if !self.always.contains(&tool) {
            self.always.push(tool);
        }
    }

    /// Whether there is nothing to do until the user writes another message.
    pub fn is_done(&self) -> bool {
        self.state != RunState::Working
    }

    /// Returns the tools of the next request: all of them, or the search tool and those that were found or
    /// called before.
    pub fn tools(&mut self) -> Arc<[Tool]> {
        self.offered_tools.list(&self.catalog, &self.settings)
    }

    /// Returns the catalog if the model searches in it.
    pub(crate) fn searched_catalog(&self) -> Option<Catalog> {
        self.catalog.needs_search(&self.settings).then(|| self.catalog.clone())
    }

    /// Returns the search queries in a response.
    pub(crate) fn search_queries(&self, response: &Message) -> Vec<String> {
        self.offered_tools.queries(response.calls().map(|(_, call)| call))
    }

    /// Sets the similarities of the tools to each query of the next response.
    pub(crate) fn set_similarities(&mut self, similarities: HashMap<String, Similarities>) {
        self.offered_tools.set_similarities(similarities);
    }

    /// Returns a function that builds the search index, if the index is needed and not built yet.
    pub(crate) fn pending_index_build(&self) -> Option<impl FnOnce() + Send + 'static> {
        self.catalog.pending_index_build(&self.settings)
    }

    pub(crate) fn has_open_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Returns the calls that need approval.
    pub fn pending_calls(&self) -> Vec<PendingCall> {
        self.calls.iter().filter_map(|call| call.pending(self.catalog.tool(&call.call.name))).collect()
    }

    /// Checks arguments for a call that needs approval, before they are used in
    /// [`Decision::OnceWith`](crate::approval::Decision::OnceWith). Arguments of a tool that is not listed
    /// are accepted.
    pub fn check_arguments(&self, id: &str, arguments: &Map<String, Value>) -> Result<(), InvalidArguments> {
        let call = self.calls.iter().find(|call| call.id == id);
        let tool = call.and_then(|call| self.catalog.tool(&call.call.name));
        tool.map_or(Ok(()), |tool| calls::check_arguments(tool, arguments))
    }

    /// Returns the calls of client tools that have no result yet, with their ids.
    pub fn external_calls(&self) -> Vec<(String, ToolCall)> {
        let external = self.calls.iter().filter(|call| call.is_external());
        external.map(|call| (call.id.clone(), call.call.clone())).collect()
    }

    /// Returns the tools whose calls were running when their process ended. It is unknown whether the calls
    /// took effect; the model is informed when the run continues.
    pub fn interrupted_calls(&self) -> impl Iterator<Item = &str> {
        let open = self.calls.iter().filter(|call| call.is_outcome_unknown());
        open.map(|call| call.call.name.as_str()).chain(history::interrupted_calls(&self.history))
    }

    /// Returns the text of a finished response that was not shown while it arrived.
    pub(crate) fn hidden_text(&self) -> Option<String> {
        let is_shown = matches!(&self.state, RunState::Done(ending) if !matches!(ending, Ending::Failed(_)));
        (self.hides_text() && is_shown && !self.turn.text.is_empty()).then(|| self.turn.text.clone())
    }

    /// Returns the number of responses to the last user message.
    pub fn steps(&self) -> u32 {
        self.turn.steps
    }

    /// Returns the conversation in which the messages are stored, and the number of stored messages.
    pub fn stored_in(&self) -> Option<(&ConversationId, u64)> {
        self.conversation.as_ref().map(|conversation| (conversation, self.position))
    }

    /// Sets the conversation in which new messages are stored, and the number of messages that it has.
    pub fn store_in(&mut self, conversation: ConversationId, position: u64) {
        self.conversation = Some(conversation);
        self.position = position;
    }

    /// Returns the complete messages that are not yet stored, in their order.
    pub fn unsaved_messages(&self) -> &[UnsavedMessage] {
        &self.unsaved
    }

    /// Marks the first `count` of [`Run::unsaved_messages`] as stored.
    pub fn mark_saved(&mut self, count: usize) {
        self.unsaved.drain(..count.min(self.unsaved.len()));
        self.position += count as u64;
    }

    /// Returns the id, name and result of calls that were completed without being made since the last call of
    /// this method.
    pub(crate) fn take_unreported_results(&mut self) -> Vec<(String, String, ToolResult)> {
        mem::take(&mut self.unreported_results)
    }

    /// Returns the outcome; for a run that is not done, the calls that need approval or results.
    pub(crate) fn outcome(&self) -> RunOutcome {
        let ending = match &self.state {
            RunState::Idle => Ending::Finished,
            RunState::Working => match self.pending_calls() {
                pending if pending.is_empty() => Ending::NeedsResults(self.external_calls()),
                pending => Ending::NeedsApproval(pending),
            },
            RunState::Done(ending) => ending.clone(),
        };
        RunOutcome {
            ending,
            text: self.turn.text.clone(),
            stop: self.turn.stop.clone(),
            usage: self.turn.usage,
            steps: self.turn.steps,
            output: self.turn.output.value.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title(text: &str) -> Option<String> {
        let mut run = Run::new(AgentSettings::default());
        run.say(text);
        run.title()
    }

    #[test]
    fn the_title_is_the_first_line_with_text() {
        assert_eq!(title("\n  What is\u{7} this?\nmore"), Some("What is\u{fffd} this?".to_owned()));
        assert_eq!(title(" \n"), None);
        assert_eq!(title(&"word ".repeat(40)).map(|title| title.chars().count()), Some(60));
    }
}
