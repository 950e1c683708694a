//! Selects the parts of a history that are omitted or shortened in requests.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwire_contract::{Block, Content, Message, Role, ToolResult};

use super::Summary;
use super::history_index::HistoryIndex;
use crate::event::ContextReduction;
use crate::run::is_result;
use crate::settings::ContextSettings;

/// The number of messages at the end whose results are shortened only if nothing else can be omitted.
const RECENT_MESSAGES: usize = 2;

const OMISSION_NOTE: &str = "[Earlier parts of this conversation are omitted to save space.]";

/// The size of the notes about omitted messages.
const NOTE_TOKENS: u64 = 64;

const SUMMARY_NOTE: &str = "[The earlier part of this conversation is replaced with this summary of it.]";

/// The parts of a history that are not sent. The numbers only grow, so a part that was omitted stays omitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Compaction {
    /// Results in messages before this index are shortened.
    shortened: usize,
    /// Messages before this index, which starts a turn, are omitted.
    turns: usize,
    /// The messages between these two indexes are omitted. The first index starts a turn, and its message is
    /// sent.
    steps: Option<(usize, usize)>,
}

/// The size of a message in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MessageSize {
    pub(super) full: u64,
    /// With shortened results.
    pub(super) shortened: u64,
    without_results: u64,
    results: usize,
}

impl MessageSize {
    pub(super) fn of(message: &Message, result_characters: usize) -> MessageSize {
        let full = message.estimated_tokens();
        // A message this small is not shortened.
        let is_small = full <= result_characters as u64 / 3 || !has_results(message);
        let shortened = if is_small {
            full
        } else {
            shorten_results(message, result_characters).estimated_tokens().min(full)
        };
        let results: Vec<u64> =
            message.content.iter().filter(|block| is_result(block)).map(Block::estimated_tokens).collect();
        let without_results = full - results.iter().sum::<u64>().min(full);
        MessageSize { full, shortened, without_results, results: results.len() }
    }
}

impl Compaction {
    /// Omits or shortens one more part; `false` if there is none.
    pub(super) fn advance(&mut self, index: &HistoryIndex<'_>) -> bool {
        let history = index.history;
        let recent = history.len().saturating_sub(RECENT_MESSAGES);
        if let Some(found) = index.next_results(self.shortened.max(self.turns)..recent) {
            self.shortened = found + 1;
            return true;
        }
        if let Some(turn) = index.next_turn(self.turns + 1) {
            self.turns = turn;
            self.steps = None;
            return true;
        }
        // Only one turn remains: its first message stays, and the steps after it are omitted one by one.
        let omitted =
            self.steps.filter(|(turn, _)| *turn == self.turns).map_or(self.turns + 1, |(_, end)| end);
        if omitted + 2 < history.len() && is_step(&history[omitted..omitted + 2]) {
            self.steps = Some((self.turns, omitted + 2));
            return true;
        }
        if let Some(found) = index.next_results(self.shortened.max(omitted)..history.len()) {
            self.shortened = found + 1;
            return true;
        }
        false
    }

    /// Omits all messages before this index, which starts a turn.
    pub(super) fn omit_before(&mut self, index: usize) {
        if index > self.turns {
            self.turns = index;
            self.steps = None;
        }
    }

    /// Returns what is omitted from the messages to send, apart from messages that the summary replaces.
    pub(super) fn reduction(&self, sizes: &[MessageSize], summarized: usize) -> ContextReduction {
        let is_shortened = |size: &&MessageSize| size.shortened < size.full;
        let shortened = sizes.iter().take(self.shortened).skip(self.turns).filter(is_shortened);
        let steps =
            self.steps.filter(|(turn, _)| *turn == self.turns).map_or(0, |(turn, end)| end - turn - 1);
        ContextReduction {
            results_shortened: shortened.map(|size| size.results).sum(),
            messages_omitted: self.turns.saturating_sub(summarized) + steps,
        }
    }

    /// Returns the messages to send.
    pub(super) fn apply(
        &self,
        history: &[Arc<Message>],
        summary: Option<&Summary>,
        context: &ContextSettings,
    ) -> Vec<Arc<Message>> {
        let is_incomplete =
            self.turns > summary.map_or(0, |summary| summary.messages) || self.steps.is_some();
        let notes: Vec<Block> = summary
            .map(|summary| format!("{SUMMARY_NOTE}\n{}", summary.text))
            .into_iter()
            .chain(is_incomplete.then(|| OMISSION_NOTE.to_owned()))
            .map(|note| Block::Content(Content::text(note)))
            .collect();
        let mut sent = Vec::with_capacity(history.len());
        for (index, message) in self.sent(history) {
            let mut message = if self.follows_omission(index) && has_results(message) {
                Arc::new(remove_results(message))
            } else if index < self.shortened && has_results(message) {
                Arc::new(shorten_results(message, context.result_characters))
            } else {
                message.clone()
            };
            if index == self.turns && !notes.is_empty() {
                Arc::make_mut(&mut message).content.splice(0..0, notes.iter().cloned());
            }
            sent.push(message);
        }
        sent
    }

    /// Returns the size of the messages to send, in tokens.
    pub(super) fn tokens(&self, sizes: &[MessageSize]) -> u64 {
        let tokens = |(index, size): (usize, &MessageSize)| {
            if self.follows_omission(index) {
                size.without_results
            } else if index < self.shortened {
                size.shortened
            } else {
                size.full
            }
        };
        self.note_tokens() + self.sent(sizes).map(tokens).sum::<u64>()
    }

    /// Returns the same as [`tokens`](Compaction::tokens), in constant time.
    pub(super) fn tokens_in(&self, index: &HistoryIndex<'_>) -> u64 {
        let end = index.sizes.len();
        let first = self.turns.min(end);
        let tokens = |from: usize, to: usize| index.tokens(from.min(end)..to.min(end), self.shortened);
        let sent = match self.steps.filter(|(turn, _)| *turn == self.turns) {
            Some((turn, omitted)) => tokens(first, turn + 1) + tokens(omitted, end),
            None => tokens(first, end),
        };
        let removed = match index.sizes.get(first).filter(|_| self.follows_omission(first)) {
            Some(size) => tokens(first, first + 1) - size.without_results,
            None => 0,
        };
        self.note_tokens() + sent - removed
    }

    fn note_tokens(&self) -> u64 {
        if self.turns > 0 || self.steps.is_some() { NOTE_TOKENS } else { 0 }
    }

    /// Whether this is the first message sent after omitted turns. The calls of its results are omitted too.
    fn follows_omission(&self, index: usize) -> bool {
        self.turns > 0 && index == self.turns
    }

    /// Returns what is sent of a list with one element for each message.
    fn sent<'a, T>(&self, history: &'a [T]) -> impl Iterator<Item = (usize, &'a T)> + use<'a, T> {
        let (turns, steps) = (self.turns, self.steps.filter(|(turn, _)| *turn == self.turns));
        history
            .iter()
            .enumerate()
            .skip(turns)
            .filter(move |(index, _)| steps.is_none_or(|(turn, end)| *index <= turn || *index >= end))
    }
}

/// Whether the user wrote something in this message. After a step that was stopped, the same message also has
/// the results of that step.
pub(crate) fn starts_turn(message: &Message) -> bool {
    message.role == Role::User && message.content.iter().any(|block| !is_result(block))
}

pub(super) fn has_results(message: &Message) -> bool {
    message.content.iter().any(is_result)
}

/// Whether these two messages are a response with calls, and its results without any text of the user.
fn is_step(messages: &[Arc<Message>]) -> bool {
    let [response, results] = messages else { return false };
    response.role == Role::Assistant && results.role == Role::User && results.content.iter().all(is_result)
}

fn remove_results(message: &Message) -> Message {
    let content = message.content.iter().filter(|block| !is_result(block));
    Message { content: content.cloned().collect(), role: message.role, extra: message.extra.clone() }
}

fn shorten_results(message: &Message, max_chars: usize) -> Message {
    let content = message.content.iter().map(|block| match block {
        Block::Result { id, result } => {
            Block::Result { id: id.clone(), result: shorten_result(result, max_chars) }
        }
        other => other.clone(),
    });
    Message { content: content.collect(), role: message.role, extra: message.extra.clone() }
}

/// Reduces a result to text with at most `max_chars` of its characters: the start and the end.
pub(crate) fn shorten_result(result: &ToolResult, max_chars: usize) -> ToolResult {
    let mut text = String::new();
    for content in result.blocks() {
        match content {
            Content::Text { text: part, .. } => text.push_str(part),
            other => text.push_str(&format!("[{} omitted]", other.type_name().unwrap_or("content"))),
        }
        text.push('\n');
    }
    if result.blocks().is_empty() {
        text = result.structured_content.as_ref().map(Value::to_string).unwrap_or_default();
    }
    let text = text.trim_end();
    let is_plain = matches!(result.blocks(), [Content::Text { .. }]) && result.structured_content.is_none();
    let characters = text.chars().count();
    if characters <= max_chars {
        if is_plain {
            return result.clone();
        }
        return ToolResult { is_error: result.is_error, ..ToolResult::text(text) };
    }
    let (head, tail) = (max_chars * 2 / 3, max_chars / 3);
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(characters - tail).collect();
    let omitted = characters - head - tail;
    let text = format!("{start}\n[… {omitted} characters omitted to save space …]\n{end}");
    ToolResult { is_error: result.is_error, ..ToolResult::text(text) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Messages of the user, responses with calls, and results, in any order.
    fn message() -> impl Strategy<Value = Message> {
        let result = |length: usize| Block::Result {
            id: "1".to_owned(),
            result: ToolResult::text("word ".repeat(length)),
        };
        prop_oneof![
            Just(Message::user("a question")),
            Just(Message::new(Role::Assistant, vec![Block::Content(Content::text("an answer"))])),
            (0..60_usize).prop_map(move |length| Message::new(Role::User, vec![result(length)])),
            (0..60_usize).prop_map(move |length| {
                Message::new(Role::User, vec![result(length), Block::Content(Content::text("and this"))])
            }),
        ]
    }

    proptest! {
        #[test]
        fn both_sizes_of_a_reduced_request_are_the_same(
            messages in prop::collection::vec(message(), 0..30),
            omitted in 0..3_usize,
        ) {
            let history: Vec<Arc<Message>> = messages.into_iter().map(Arc::new).collect();
            let sizes: Vec<MessageSize> = history.iter().map(|message| MessageSize::of(message, 30)).collect();
            let index = HistoryIndex::new(&history, &sizes);
            let mut compaction = Compaction::default();
            compaction.omit_before(omitted);
            loop {
                prop_assert_eq!(compaction.tokens_in(&index), compaction.tokens(&sizes), "{:?}", compaction);
                if !compaction.advance(&index) {
                    break;
                }
            }
        }
    }
}
