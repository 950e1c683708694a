//! Markdown that is streamed.
//!
//! A block is settled when later text cannot change it: when another block follows, or when its fence is
//! closed. It is rendered once. The blocks after it are open: their unclosed markers are closed for display,
//! and they are rendered again with each change.
//! Code in an open fence only grows, line by line.

use std::ops::Range;

use maud::Markup;
use toolwire_markdown::event::{CodeBlockKind, Event, Tag};

use super::code::{self, CodeWriter};
use super::{block, line_ends, sanitize};

/// The bytes that each call of [`StreamingMarkdown::events`] may render again. Larger open blocks are
/// rendered with fewer calls, so the cost of each call is limited on average.
const RENDERED_PER_CALL: usize = 4096;

/// A change of the displayed blocks. Each event contains all that it needs, and may be applied twice.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum BlockEvent {
    /// Block `n` has this HTML, which may still change. It may be empty, if a guess turned out wrong. If it
    /// is code that grows, it has `lines` complete lines.
    Open { n: usize, html: Markup, lines: usize },
    /// Block `n` has this HTML and never changes again.
    Settle { n: usize, html: Markup },
    /// The code of block `n` continues after line `at` with lines up to line `to`.
    Grow { n: usize, at: usize, to: usize, html: Markup },
}

/// A text that is streamed.
#[derive(Debug, Default)]
pub struct StreamingMarkdown {
    /// The text that is not settled.
    source: String,
    /// The settled blocks.
    settled: Vec<Markup>,
    /// The HTML of the open blocks, as it was sent.
    open: Vec<String>,
    fence: Option<Fence>,
    /// Whether the last piece ended with a carriage return. A newline after it is the same line end.
    ends_with_return: bool,
    /// Whether `source` has text that was not rendered.
    is_stale: bool,
    /// The number of bytes that may be rendered until the next call.
    credit: usize,
    /// The bytes that were parsed or rendered so far.
    #[cfg(test)]
    pub(super) work: usize,
}

/// An open fence at the start of the text that is not settled.
#[derive(Debug)]
struct Fence {
    mark: char,
    length: usize,
    info: String,
    writer: CodeWriter,
    /// The end of the lines that were rendered.
    rendered: usize,
    /// The end of the text that was searched for line ends.
    scanned: usize,
}

impl StreamingMarkdown {
    pub fn new() -> StreamingMarkdown {
        StreamingMarkdown::default()
    }

    /// Adds a piece of the text.
    pub fn push(&mut self, piece: &str) {
        if piece.is_empty() {
            return;
        }
        let continues_line_end = self.ends_with_return && piece.starts_with('\n');
        self.ends_with_return = piece.ends_with('\r');
        self.source.push_str(&line_ends(&piece[usize::from(continues_line_end)..]));
        self.credit = self.credit.saturating_add(piece.len() * 2);
        self.is_stale = true;
    }

    /// Returns what changed since the last call. It may postpone the rendering of a large open block to a
    /// later call; then, [`is_stale`](Self::is_stale) is true.
    pub fn events(&mut self) -> Vec<BlockEvent> {
        self.credit = self.credit.saturating_add(RENDERED_PER_CALL);
        let mut events = Vec::new();
        while self.is_stale {
            let is_closed = self.grow_fence(&mut events);
            if self.fence.is_some() {
                self.is_stale = false;
                break;
            }
            if self.credit < self.source.len() && !is_closed {
                break;
            }
            self.credit = self.credit.saturating_sub(self.source.len());
            self.settle(&mut events);
            if !self.open_fence(&mut events) {
                self.render_open(&mut events);
                self.is_stale = false;
            }
        }
        events
    }

    /// Whether the text has a part that [`events`](Self::events) has not returned yet. It is returned after
    /// some more calls, or at the end.
    pub fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Returns the remaining changes of the complete text. All blocks are settled then.
    pub fn finish(&mut self) -> Vec<BlockEvent> {
        let mut events = Vec::new();
        let source = std::mem::take(&mut self.source);
        self.fence = None;
        self.is_stale = false;
        self.settle_ranges(&source, &toolwire_markdown::blocks(&source), &mut events);
        self.hide_open_after(0, &mut events);
        events
    }

    /// Returns the events that produce all blocks, for a reader who has not seen the earlier ones.
    pub fn current(&self) -> Vec<BlockEvent> {
        let lines = self.fence.as_ref().map_or(0, |fence| fence.writer.line_count);
        let settled = self.settled.iter().cloned().enumerate();
        let open = self.open_blocks().into_iter().zip(self.settled.len()..);
        let settled = settled.map(|(n, html)| BlockEvent::Settle { n, html });
        settled.chain(open.map(|(html, n)| BlockEvent::Open { n, html, lines })).collect()
    }

    /// Renders the open blocks with their unclosed markers closed.
    fn open_blocks(&self) -> Vec<Markup> {
        if let Some(fence) = &self.fence {
            let mut html = String::new();
            let first_line = self.source.find('\n').map_or(0, |newline| newline + 1);
            code::figure(&mut html, &fence.info, &self.source[first_line..fence.rendered]);
            return vec![sanitize::sanitize(&html)];
        }
        super::blocks(&toolwire_markdown::complete(&self.source))
    }

    fn render_open(&mut self, events: &mut Vec<BlockEvent>) {
        self.count_work(self.source.len());
        let blocks = self.open_blocks();
        let count = blocks.len();
        for (index, html) in blocks.into_iter().enumerate() {
            let n = self.settled.len() + index;
            match self.open.get_mut(index) {
                Some(sent) if *sent == html.0 => continue,
                Some(sent) => sent.clone_from(&html.0),
                None => self.open.push(html.0.clone()),
            }
            events.push(BlockEvent::Open { n, html, lines: 0 });
        }
        self.hide_open_after(count, events);
    }

    /// Hides open blocks that do not exist any more.
    fn hide_open_after(&mut self, count: usize, events: &mut Vec<BlockEvent>) {
        let settled = self.settled.len();
        let hidden = self.open.drain(count.min(self.open.len())..).enumerate();
        let hidden = hidden.filter(|(_, html)| !html.is_empty());
        events.extend(hidden.map(|(index, _)| BlockEvent::Open {
            n: settled + count + index,
            html: Markup::default(),
            lines: 0,
        }));
    }

    /// Settles the blocks that are followed by another one.
    fn settle(&mut self, events: &mut Vec<BlockEvent>) {
        self.count_work(self.source.len());
        let ranges = toolwire_markdown::settled_blocks(&self.source);
        let end = ranges.last().map_or(0, |range| range.end);
        let rest = self.source.split_off(end);
        let source = std::mem::replace(&mut self.source, rest);
        self.settle_ranges(&source, &ranges, events);
    }

    fn settle_ranges(&mut self, source: &str, ranges: &[Range<usize>], events: &mut Vec<BlockEvent>) {
        for range in ranges {
            self.count_work(range.len());
            self.settle_block(block(&source[range.clone()]), events);
        }
    }

    fn settle_block(&mut self, html: Markup, events: &mut Vec<BlockEvent>) {
        events.push(BlockEvent::Settle { n: self.settled.len(), html: html.clone() });
        self.settled.push(html);
        if !self.open.is_empty() {
            self.open.remove(0);
        }
    }

    /// Opens the fence that the text starts with, if it does.
    fn open_fence(&mut self, events: &mut Vec<BlockEvent>) -> bool {
        while let Some(blank) = self.source.find('\n').filter(|end| self.source[..*end].trim().is_empty()) {
            self.source.drain(..=blank);
        }
        let Some(fence) = Fence::open(&self.source) else { return false };
        // The start of the figure, which replaces what was guessed from an incomplete line.
        let mut html = String::new();
        code::figure(&mut html, &fence.info, "");
        let html = sanitize::sanitize(&html);
        self.hide_open_after(1, events);
        self.open = vec![html.0.clone()];
        events.push(BlockEvent::Open { n: self.settled.len(), html, lines: 0 });
        self.fence = Some(fence);
        true
    }

    /// Renders the new lines of the open fence, and settles it if they close it. Returns whether they do.
    fn grow_fence(&mut self, events: &mut Vec<BlockEvent>) -> bool {
        let Some(fence) = &mut self.fence else { return false };
        let start = fence.rendered;
        let lines_end = match self.source[fence.scanned..].rfind('\n') {
            Some(newline) => fence.scanned + newline + 1,
            None => start,
        };
        fence.scanned = self.source.len();
        let lines = &self.source[start..lines_end];
        let mut end = start;
        for line in lines.split_inclusive('\n') {
            end += line.len();
            if fence.is_closed_by(line) {
                self.fence = None;
                let rest = self.source.split_off(end);
                let source = std::mem::replace(&mut self.source, rest);
                self.count_work(source.len());
                self.settle_block(block(&source), events);
                return true;
            }
        }
        if end > start {
            let at = fence.writer.line_count;
            let mut html = String::new();
            fence.writer.lines(&mut html, lines);
            fence.rendered = end;
            let to = fence.writer.line_count;
            self.count_work(end - start);
            let html = sanitize::sanitize(&html);
            events.push(BlockEvent::Grow { n: self.settled.len(), at, to, html });
        }
        false
    }

    #[cfg_attr(not(test), allow(unused_variables))]
    fn count_work(&mut self, bytes: usize) {
        #[cfg(test)]
        {
            self.work += bytes;
        }
    }
}

impl Fence {
    /// Returns the fence that the text starts with. A fence with an indentation is rendered like other
    /// blocks.
    fn open(text: &str) -> Option<Fence> {
        let (line, _) = text.split_once('\n')?;
        let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let info = line.trim_start_matches(mark);
        let length = line.len() - info.len();
        if length < 3 || (mark == '`' && info.contains('`')) {
            return None;
        }
        // The parser unescapes the info string.
        let mut parsed = String::new();
        toolwire_markdown::parse(line, |event, _| {
            if let Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) = event {
                parsed = info.into_string();
            }
        });
        let writer = CodeWriter::new(&parsed);
        let start = line.len() + 1;
        Some(Fence { mark, length, info: parsed, writer, rendered: start, scanned: start })
    }

    /// Whether a complete line closes the fence. The parser allows spaces after it, but no tabs.
    fn is_closed_by(&self, line: &str) -> bool {
        let text = line.trim_start_matches(' ');
        let rest = text.trim_start_matches(self.mark);
        line.len() - text.len() <= 3
            && text.len() - rest.len() >= self.length
            && rest.trim_start_matches(' ') == "\n"
    }
}
