//! Markdown that arrives in pieces, as lines for the terminal.
//!
//! A block is *open* while the text to come may still change it: its lines are given anew each time. A block
//! that another one follows is settled, and is given once. What is settled depends on the text alone and
//! never on how it was cut into pieces.

mod blocks;
mod guess;
mod layout;
mod table;
#[cfg(test)]
mod tests;

use std::ops::Range;

use anstyle::Style;

pub(crate) use guess::open_fence;
pub(crate) use layout::QUIET;

use crate::chat::line::{Line, Margin, Span, wrap};

/// How the text is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Markdown,
    /// Line by line, in one style.
    Plain(Style),
}

/// The lines of a text that still grows.
#[derive(Debug)]
pub(crate) struct Markdown {
    kind: Kind,
    /// What is not settled.
    source: String,
    /// Up to here the source is on the screen for good, in whatever shape.
    frozen: usize,
    /// Whether a line was settled or frozen before the ones to come.
    has_begun: bool,
}

/// What there is to show.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Shown {
    /// To be shown once more, and then no longer touched.
    pub(crate) settled: Vec<Line>,
    /// May still change.
    pub(crate) open: Vec<Line>,
}

impl Markdown {
    pub(crate) fn new(kind: Kind) -> Markdown {
        Markdown { kind, source: String::new(), frozen: 0, has_begun: false }
    }

    pub(crate) fn push(&mut self, piece: &str) {
        self.source.push_str(piece);
    }

    /// The lines as they are now, none wider than `columns`.
    pub(crate) fn lines(&mut self, columns: usize) -> Shown {
        let settled = self.settle(columns);
        let open = match self.kind {
            Kind::Markdown => {
                let text = guess::completed(&self.source);
                self.laid_out(&text, &blocks::of(&text), columns)
            }
            Kind::Plain(style) => plain(self.source.trim_end_matches('\n'), self.frozen, style, columns),
        };
        Shown { settled, open }
    }

    /// The last lines: nothing follows.
    pub(crate) fn finish(mut self, columns: usize) -> Vec<Line> {
        let mut lines = self.settle(columns);
        lines.extend(match self.kind {
            Kind::Markdown => self.laid_out(&self.source, &blocks::of(&self.source), columns),
            Kind::Plain(style) => plain(self.source.trim_end_matches('\n'), self.frozen, style, columns),
        });
        lines
    }

    /// The open lines that reach to `end` stay on the screen as they are; the text goes on below them.
    pub(crate) fn freeze(&mut self, end: usize) {
        self.frozen = self.frozen.max(end.min(self.source.len()));
        self.has_begun = true;
    }

    /// Takes out what no longer changes.
    fn settle(&mut self, columns: usize) -> Vec<Line> {
        let (lines, done) = match self.kind {
            Kind::Markdown => {
                let closed = blocks::closed(&self.source);
                let done = closed.last().map_or(0, |range| range.end);
                (self.laid_out(&self.source, &closed, columns), done)
            }
            Kind::Plain(style) => {
                // Newlines at the end are held back, so that none is left over.
                let whole = self.source.trim_end_matches('\n');
                match whole.rfind('\n') {
                    Some(newline) => (plain(&whole[..newline], self.frozen, style, columns), newline + 1),
                    None => (Vec::new(), 0),
                }
            }
        };
        self.has_begun |= !lines.is_empty();
        self.source.drain(..done);
        self.frozen = self.frozen.saturating_sub(done);
        lines
    }

    /// Each block by itself, with an empty line above unless it is the first or goes on with what is frozen.
    fn laid_out(&self, text: &str, blocks: &[Range<usize>], columns: usize) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        for range in blocks {
            let frozen = self.frozen.saturating_sub(range.start);
            let block = layout::lines(&text[range.clone()], frozen, columns);
            if block.is_empty() {
                continue;
            }
            if frozen == 0 && (self.has_begun || !lines.is_empty()) {
                lines.push(Line { end: range.start, ..Line::default() });
            }
            lines.extend(block.into_iter().map(|line| Line { end: line.end + range.start, ..line }));
        }
        lines
    }
}

fn plain(text: &str, frozen: usize, style: Style, columns: usize) -> Vec<Line> {
    let mut start = 0;
    let mut lines = Vec::new();
    for row in text.split('\n') {
        let range = start..start + row.len();
        start = range.end + 1;
        if range.end < frozen || (range.end == frozen && frozen > 0) {
            continue;
        }
        let span = Span::new(row, style, range).after(frozen);
        lines.extend(wrap(&Vec::from_iter(span), &Margin::default(), columns));
    }
    if text.is_empty() { Vec::new() } else { lines }
}
