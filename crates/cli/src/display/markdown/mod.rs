//! Renders streamed Markdown as lines for the terminal.
//!
//! A block is *open* while later text can change it; its lines are rendered again each time. A block that is
//! followed by another one is *settled* and rendered once. This depends only on the text and not on how it
//! was split into pieces. Lines that have left the part of the screen that can be redrawn are *frozen*.

mod layout;
mod table;
#[cfg(test)]
mod tests;

use std::ops::Range;

use anstyle::Style;
use toolwire_markdown::{blocks, complete, settled_blocks};

pub(crate) use layout::DIMMED;

use crate::display::line::{Line, Margin, Span, wrap};

/// The format of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextFormat {
    Markdown,
    /// Lines of plain text in one style.
    Plain(Style),
}

/// A text that is streamed.
#[derive(Debug)]
pub(crate) struct Markdown {
    format: TextFormat,
    /// The text that is not settled.
    source: String,
    /// The source before this position is frozen.
    frozen: usize,
    /// Whether a line has been settled or frozen.
    has_begun: bool,
}

/// The lines to draw.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct RenderedLines {
    /// Lines to draw for the last time.
    pub(crate) settled: Vec<Line>,
    /// Lines that can still change.
    pub(crate) open: Vec<Line>,
}

impl Markdown {
    pub(crate) fn new(format: TextFormat) -> Markdown {
        Markdown { format, source: String::new(), frozen: 0, has_begun: false }
    }

    pub(crate) fn push(&mut self, piece: &str) {
        self.source.push_str(piece);
    }

    /// Renders the current text in lines of at most `columns`.
    pub(crate) fn lines(&mut self, columns: usize) -> RenderedLines {
        let settled = self.settle(columns);
        let open = match self.format {
            TextFormat::Markdown => self.render_rest(&complete(&self.source), columns),
            TextFormat::Plain(_) => self.render_rest(&self.source, columns),
        };
        RenderedLines { settled, open }
    }

    /// Renders the remaining lines of the complete text.
    pub(crate) fn finish(mut self, columns: usize) -> Vec<Line> {
        let mut lines = self.settle(columns);
        lines.extend(self.render_rest(&self.source, columns));
        lines
    }

    /// Renders the text that is not settled.
    fn render_rest(&self, text: &str, columns: usize) -> Vec<Line> {
        match self.format {
            TextFormat::Markdown => self.lay_out(text, &blocks(text), columns),
            TextFormat::Plain(style) => plain_lines(text.trim_end_matches('\n'), self.frozen, style, columns),
        }
    }

    /// Freezes the source before `end`. The rest continues below its lines.
    pub(crate) fn freeze(&mut self, end: usize) {
        self.frozen = self.frozen.max(end.min(self.source.len()));
        self.has_begun = true;
    }

    /// Removes the blocks that can no longer change and returns their lines.
    fn settle(&mut self, columns: usize) -> Vec<Line> {
        let (lines, done) = match self.format {
            TextFormat::Markdown => {
                let closed = settled_blocks(&self.source);
                let done = closed.last().map_or(0, |range| range.end);
                (self.lay_out(&self.source, &closed, columns), done)
            }
            TextFormat::Plain(style) => {
                // Trailing newlines are not settled, because the text may end with them.
                let trimmed = self.source.trim_end_matches('\n');
                match trimmed.rfind('\n') {
                    Some(newline) => {
                        (plain_lines(&trimmed[..newline], self.frozen, style, columns), newline + 1)
                    }
                    None => (Vec::new(), 0),
                }
            }
        };
        self.has_begun |= !lines.is_empty();
        self.source.drain(..done);
        self.frozen = self.frozen.saturating_sub(done);
        lines
    }

    /// Lays out the blocks. Each has an empty line above, unless it is the first or its start is frozen.
    fn lay_out(&self, text: &str, blocks: &[Range<usize>], columns: usize) -> Vec<Line> {
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

fn plain_lines(text: &str, frozen: usize, style: Style, columns: usize) -> Vec<Line> {
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
