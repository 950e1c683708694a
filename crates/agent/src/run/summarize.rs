//! The summary of earlier turns, which replaces them in requests.

use std::sync::Arc;

use toolwire_contract::Role;
use toolwire_contract::model::Usage;

use super::{Run, UnsavedMessage, history};
use crate::context_window::{Summary, starts_turn};
use crate::event::ContextReduction;
use crate::summary::SummaryTask;

impl Run {
    /// Whether earlier turns should be summarized before the next request.
    pub(crate) fn needs_summary(&mut self) -> bool {
        self.settings.context.summarize
            && !self.turn.has_failed_summary
            && self.expects_response()
            && self.summarizable().is_some()
            && self.is_window_nearly_full()
    }

    /// Returns the task of summarizing all complete turns, and the number of messages that the summary will
    /// cover; `None` if there is nothing new to summarize.
    pub(crate) fn summary_task(&self, keep: Option<&str>) -> Option<(SummaryTask, usize)> {
        let end = self.summarizable()?;
        let previous = self.context_window.summary();
        let task = SummaryTask {
            previous: previous.map(|summary| summary.text.clone()),
            messages: self.history[previous.map_or(0, |summary| summary.messages)..end].to_vec(),
            keep: keep.map(str::to_owned),
            window: self.context().size,
            result_characters: self.settings.context.result_characters,
        };
        Some((task, end))
    }

    /// Records a summary of the first messages. It becomes a message that is stored, and is sent instead of
    /// them.
    pub(crate) fn add_summary(&mut self, text: String, messages: usize, usage: Usage) {
        let summary = Summary { text, messages };
        let message = Arc::new(history::summary_message(&summary));
        self.unsaved.push(UnsavedMessage { message, usage: (usage != Usage::default()).then_some(usage) });
        self.usage = self.usage.plus(&usage);
        self.turn.usage = self.turn.usage.plus(&usage);
        self.context_window.set_summary(summary);
    }

    /// Records that summarizing failed. In this turn, messages are omitted instead.
    pub(crate) fn summary_failed(&mut self) {
        self.turn.has_failed_summary = true;
    }

    /// Restores the summary of a stored conversation if it matches the messages.
    pub(super) fn restore_summary(&mut self, summary: Option<Summary>) {
        let Some(summary) = summary else { return };
        let next = self.history.get(summary.messages);
        if summary.messages <= self.history.len() && next.is_none_or(|message| starts_turn(message)) {
            self.context_window.set_summary(summary);
        }
    }

    /// Records the model of the next requests.
    pub(crate) fn set_model(&mut self, model: &str) {
        self.context_window.set_model(model);
    }

    /// Returns what requests omit now, if it changed since the last call.
    pub(crate) fn take_reduction(&mut self) -> Option<ContextReduction> {
        self.context_window.take_reduction()
    }

    /// Returns the number of messages of all complete turns, if some of them are not summarized yet.
    fn summarizable(&self) -> Option<usize> {
        let is_complete = self.calls.is_empty()
            && self.history.last().is_some_and(|message| message.role == Role::Assistant);
        let end = if is_complete {
            self.history.len()
        } else {
            self.history.iter().rposition(|message| starts_turn(message)).unwrap_or(0)
        };
        let summarized = self.context_window.summary().map_or(0, |summary| summary.messages);
        (end > summarized).then_some(end)
    }
}
