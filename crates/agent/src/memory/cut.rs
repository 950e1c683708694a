//! What is left out of a history, and what stands in its place.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwire_contract::{Block, Content, Message, Role, ToolResult};

use super::estimate::{block_tokens, message_tokens};
use crate::settings::Context;

/// How many messages at the end keep their results whole as long as anything else can go.
const RECENT: usize = 2;

const LEFT_OUT: &str = "[Earlier parts of this conversation were left out to save room.]";

/// Which parts of a history are not sent. Numbers only grow, so what is cut stays cut.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Cut {
    /// Results in messages before this one are shortened.
    shortened: usize,
    /// Messages before this one are left out; it is the beginning of a turn.
    turns: usize,
    /// Steps of the turn that began at the first number are left out up to the second.
    steps: Option<(usize, usize)>,
}

/// What a message takes, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    whole: u64,
    /// With its results shortened.
    short: u64,
    /// Without its results.
    said: u64,
}

impl Size {
    pub(super) fn of(message: &Message, most: usize) -> Size {
        let whole = message_tokens(message);
        // What is this small is not shortened.
        let is_small = whole <= most as u64 / 4 || !has_results(message);
        let short = if is_small { whole } else { message_tokens(&shortened(message, most)).min(whole) };
        let results = message.content.iter().filter(|block| is_result(block));
        let said = whole - results.map(block_tokens).sum::<u64>().min(whole);
        Size { whole, short, said }
    }
}

impl Cut {
    /// Cuts a little more; `false` when nothing more can go.
    pub(super) fn further(&mut self, history: &[Arc<Message>]) -> bool {
        let recent = history.len().saturating_sub(RECENT);
        let next = |from: usize, to: usize| (from..to).find(|place| has_results(&history[*place]));
        if let Some(place) = next(self.shortened.max(self.turns), recent) {
            self.shortened = place + 1;
            return true;
        }
        if let Some(turn) = (self.turns + 1..history.len()).find(|place| begins_turn(&history[*place])) {
            self.turns = turn;
            self.steps = None;
            return true;
        }
        // One turn is left: its first message stays, and steps go from behind it.
        let done = self.steps.filter(|(turn, _)| *turn == self.turns).map_or(self.turns + 1, |(_, end)| end);
        if done + 2 < history.len() && is_step(&history[done..done + 2]) {
            self.steps = Some((self.turns, done + 2));
            return true;
        }
        if let Some(place) = next(self.shortened.max(done), history.len()) {
            self.shortened = place + 1;
            return true;
        }
        false
    }

    /// What is sent.
    pub(super) fn apply(&self, history: &[Arc<Message>], context: &Context) -> Vec<Arc<Message>> {
        let is_cut = self.turns > 0 || self.steps.is_some();
        let mut sent = Vec::with_capacity(history.len());
        for (place, message) in self.kept(history) {
            let mut message = if self.begins_at(place) && has_results(message) {
                Arc::new(said(message))
            } else if place < self.shortened && has_results(message) {
                Arc::new(shortened(message, context.result_characters))
            } else {
                message.clone()
            };
            if is_cut && place == self.turns {
                Arc::make_mut(&mut message).content.insert(0, Block::Content(Content::text(LEFT_OUT)));
            }
            sent.push(message);
        }
        sent
    }

    /// What is sent, in tokens.
    pub(super) fn size(&self, history: &[Arc<Message>], sizes: &[Size]) -> u64 {
        let size = |(place, _): (usize, &Arc<Message>)| {
            if self.begins_at(place) {
                sizes[place].said
            } else if place < self.shortened {
                sizes[place].short
            } else {
                sizes[place].whole
            }
        };
        self.kept(history).map(size).sum()
    }

    /// Whether this is the first message that is sent, and others before it are not: neither are the calls whose results it has.
    fn begins_at(&self, place: usize) -> bool {
        self.turns > 0 && place == self.turns
    }

    fn kept<'a>(&self, history: &'a [Arc<Message>]) -> impl Iterator<Item = (usize, &'a Arc<Message>)> {
        let (turns, steps) = (self.turns, self.steps.filter(|(turn, _)| *turn == self.turns));
        history
            .iter()
            .enumerate()
            .skip(turns)
            .filter(move |(place, _)| steps.is_none_or(|(turn, end)| *place <= turn || *place >= end))
    }
}

/// The person speaks. After a step that was stopped, the results of its calls are in the same message.
fn begins_turn(message: &Message) -> bool {
    message.role == Role::User && message.content.iter().any(|block| !is_result(block))
}

fn has_results(message: &Message) -> bool {
    message.content.iter().any(is_result)
}

fn is_result(block: &Block) -> bool {
    matches!(block, Block::Result { .. })
}

/// Calls and their results, and nothing that the person said.
fn is_step(messages: &[Arc<Message>]) -> bool {
    let [asked, answered] = messages else { return false };
    asked.role == Role::Assistant && answered.role == Role::User && answered.content.iter().all(is_result)
}

/// What the person said in a message, without the results in it.
fn said(message: &Message) -> Message {
    let content = message.content.iter().filter(|block| !is_result(block));
    Message { content: content.cloned().collect(), role: message.role, extra: message.extra.clone() }
}

fn shortened(message: &Message, most: usize) -> Message {
    let content = message.content.iter().map(|block| match block {
        Block::Result { id, result } => {
            Block::Result { id: id.clone(), result: shortened_result(result, most) }
        }
        other => other.clone(),
    });
    Message { content: content.collect(), role: message.role, extra: message.extra.clone() }
}

/// A result of at most so many characters of text: the head and the tail of what it was.
fn shortened_result(result: &ToolResult, most: usize) -> ToolResult {
    let mut text = String::new();
    for content in result.blocks() {
        match content {
            Content::Text { text: part, .. } => text.push_str(part),
            other => text.push_str(&format!("[{} left out]", other.type_name().unwrap_or("content"))),
        }
        text.push('\n');
    }
    if result.blocks().is_empty() {
        text = result.structured_content.as_ref().map(Value::to_string).unwrap_or_default();
    }
    let text = text.trim_end();
    let is_plain = matches!(result.blocks(), [Content::Text { .. }]) && result.structured_content.is_none();
    let characters = text.chars().count();
    if characters <= most {
        if is_plain {
            return result.clone();
        }
        return ToolResult { is_error: result.is_error, ..ToolResult::text(text) };
    }
    let (head, tail) = (most * 2 / 3, most / 3);
    let begin: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(characters - tail).collect();
    let gone = characters - head - tail;
    let text = format!("{begin}\n[… {gone} characters left out to save room …]\n{end}");
    ToolResult { is_error: result.is_error, ..ToolResult::text(text) }
}
