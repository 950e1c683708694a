//! The message that a model is writing: its blocks, and the events of their changes.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use toolwire_page::Markup;
use toolwire_page::chat;
use toolwire_page::markdown_html::{BlockEvent, StreamingMarkdown};

use crate::page::events::Event;

/// Thinking is displayed as one growing text, so it is sent less often than text.
const THINKING_INTERVAL: Duration = Duration::from_millis(250);

/// A message that the model is writing.
pub(super) struct Writing {
    parts: Vec<WrittenPart>,
    /// The names of the calls that the model has begun to write.
    pub(super) announced: Vec<String>,
    /// The time of the request, if the model has not sent anything yet.
    pub(super) waits_since: Option<SystemTime>,
}

/// A part of a message, and the number of its first block.
struct WrittenPart {
    first: usize,
    content: PartContent,
}

enum PartContent {
    Text(Box<StreamingMarkdown>),
    Thinking { text: String, is_sent: bool, sent_at: Option<Instant> },
}

impl Writing {
    pub(super) fn new() -> Writing {
        Writing { parts: Vec::new(), announced: Vec::new(), waits_since: Some(SystemTime::now()) }
    }

    /// Adds text. Returns the events of a part of another kind that is complete now.
    pub(super) fn write(&mut self, message: u64, piece: &str) -> Vec<Event> {
        let events = self.start_part(message, false);
        if let Some(PartContent::Text(text)) = self.parts.last_mut().map(|part| &mut part.content) {
            text.push(piece);
        }
        events
    }

    /// Adds thinking. Returns the events of a part of another kind that is complete now.
    pub(super) fn think(&mut self, message: u64, piece: &str) -> Vec<Event> {
        let events = self.start_part(message, true);
        if let Some(PartContent::Thinking { text, is_sent, .. }) =
            self.parts.last_mut().map(|part| &mut part.content)
        {
            text.push_str(piece);
            *is_sent = false;
        }
        events
    }

    /// Completes the last part. Later text belongs to a new part.
    pub(super) fn finish_part(&mut self, message: u64) -> Vec<Event> {
        let mut events = Vec::new();
        if let Some(part) = self.parts.last_mut() {
            part.flush(message, true, &mut events);
            let first = part.first + part.count();
            self.parts.push(WrittenPart { first, content: PartContent::Text(Box::default()) });
        }
        events
    }

    /// Adds the events of what changed since the last call. Returns whether a part was postponed.
    pub(super) fn flush(&mut self, message: u64, events: &mut Vec<Event>) -> bool {
        self.parts.last_mut().is_some_and(|part| part.flush(message, false, events))
    }

    /// Returns all blocks, for a page that has not seen the events.
    pub(super) fn draw(&self, message: u64) -> Vec<Markup> {
        self.parts.iter().flat_map(|part| part.draw(message)).collect()
    }

    /// Starts a part, unless the last one is of this kind.
    fn start_part(&mut self, message: u64, is_thinking: bool) -> Vec<Event> {
        let mut events = Vec::new();
        if self.parts.last().is_some_and(|part| part.is_thinking() == is_thinking) {
            return events;
        }
        let first = self.parts.last_mut().map_or(0, |part| {
            part.flush(message, true, &mut events);
            part.first + part.count()
        });
        let content = match is_thinking {
            true => PartContent::Thinking { text: String::new(), is_sent: true, sent_at: None },
            false => PartContent::Text(Box::default()),
        };
        self.parts.push(WrittenPart { first, content });
        events
    }
}

impl WrittenPart {
    fn is_thinking(&self) -> bool {
        matches!(self.content, PartContent::Thinking { .. })
    }

    /// Returns the number of blocks.
    fn count(&self) -> usize {
        match &self.content {
            PartContent::Text(text) => text.current().len(),
            PartContent::Thinking { .. } => 1,
        }
    }

    /// Returns the blocks, for a page that has not seen the events.
    fn draw(&self, message: u64) -> Vec<Markup> {
        match &self.content {
            PartContent::Text(text) => {
                let changes = text.current().into_iter();
                changes
                    .filter_map(|change| block(change, message, self.first))
                    .map(|(_, html)| html)
                    .collect()
            }
            PartContent::Thinking { text, .. } => vec![chat::thinking_block(message, self.first, text, true)],
        }
    }

    /// Adds the events of what changed since the last call. Returns whether something was postponed.
    fn flush(&mut self, message: u64, is_complete: bool, events: &mut Vec<Event>) -> bool {
        let id = message.to_string();
        match &mut self.content {
            PartContent::Text(text) => {
                let changes = if is_complete { text.finish() } else { text.events() };
                events.extend(
                    changes.into_iter().filter_map(|change| block_event(change, message, self.first)),
                );
                text.is_stale()
            }
            PartContent::Thinking { text, is_sent, sent_at } => {
                let is_due = is_complete || sent_at.is_none_or(|at| at.elapsed() >= THINKING_INTERVAL);
                if !*is_sent && is_due {
                    (*is_sent, *sent_at) = (true, Some(Instant::now()));
                    let html = chat::thinking_block(message, self.first, text, !is_complete).into_string();
                    events.push(Event::Open { message: id, block: self.first, html });
                }
                !*is_sent
            }
        }
    }
}

fn block_event(change: BlockEvent, position: u64, first: usize) -> Option<Event> {
    let message = position.to_string();
    if let BlockEvent::Grow { n, at, to, html } = change {
        return Some(Event::Grow { message, block: first + n, at, to, html: html.into_string() });
    }
    let is_settled = matches!(change, BlockEvent::Settle { .. });
    let (block, html) = block(change, position, first)?;
    let html = html.into_string();
    Some(match is_settled {
        true => Event::Settle { message, block, html },
        false => Event::Open { message, block, html },
    })
}

/// Returns the number of a block in its message, and its element.
fn block(change: BlockEvent, message: u64, first: usize) -> Option<(usize, Markup)> {
    match change {
        BlockEvent::Open { n, html, lines } => {
            Some((first + n, chat::open_block(message, first + n, lines, &html)))
        }
        BlockEvent::Settle { n, html } => Some((first + n, chat::settled_block(message, first + n, &html))),
        // `Grow` adds lines to a block. The enum is non-exhaustive, so a later version may have other
        // changes.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the blocks that a page has after these events: their numbers and whether they are settled.
    fn blocks(events: &[Event]) -> Vec<(usize, bool)> {
        let mut blocks = std::collections::BTreeMap::new();
        for event in events {
            match event {
                Event::Open { block, .. } => blocks.insert(*block, false),
                Event::Settle { block, .. } => blocks.insert(*block, true),
                _ => None,
            };
        }
        blocks.into_iter().collect()
    }

    #[test]
    fn blocks_are_numbered_over_thinking_and_text() {
        let mut writing = Writing::new();
        let mut events = writing.think(4, "hm");
        events.extend(writing.write(4, "one\n\ntwo\n\n"));
        events.extend(writing.think(4, "again"));
        events.extend(writing.write(4, "three"));
        writing.flush(4, &mut events);
        assert_eq!(blocks(&events), [(0, false), (1, true), (2, true), (3, false), (4, false)]);
        let html = writing.draw(4).iter().map(|block| block.0.as_str()).collect::<String>();
        for number in 0..5 {
            assert!(html.contains(&format!("id=\"m4-{number}\"")), "{number}: {html}");
        }
    }
}
