//! Styled lines that fit a width, each knowing how much of its source it shows.

use std::fmt::Write as _;
use std::ops::Range;

use anstyle::Style;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthChar;

use crate::terminal_text::{sanitize, width};

/// How many columns `text` may take. Terminals disagree about joined emoji: this is the most that any of them
/// uses, so that a line never runs over.
pub(crate) fn columns(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    width(text).max(text.chars().filter_map(UnicodeWidthChar::width).sum())
}

/// A piece of text in one style, and the part of the source it stands for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) text: String,
    pub(crate) style: Style,
    pub(crate) source: Range<usize>,
}

/// One row of the terminal.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Line {
    pub(crate) spans: Vec<Span>,
    /// Everything of the source before this place is shown by this line and those above.
    pub(crate) end: usize,
}

impl Span {
    /// Text of a stranger, made fit for the terminal.
    pub(crate) fn new(text: &str, style: Style, source: Range<usize>) -> Span {
        // Where a character is replaced by a longer one, the text no longer has the source's length and
        // counts as one piece.
        let text = sanitize(&text.replace('\t', "    "));
        Span { text, style, source }
    }

    /// Our own text, which stands for nothing in the source.
    pub(crate) fn ours(text: impl Into<String>, style: Style) -> Span {
        Span { text: text.into(), style, source: 0..0 }
    }

    /// What is left when the source before `place` has been shown already.
    pub(crate) fn after(mut self, place: usize) -> Option<Span> {
        if self.source.start >= place || self.source.is_empty() {
            return Some(self);
        }
        if self.source.end <= place {
            return None;
        }
        if self.is_verbatim() && self.text.is_char_boundary(place - self.source.start) {
            self.text.drain(..place - self.source.start);
            self.source.start = place;
        }
        Some(self)
    }

    fn is_verbatim(&self) -> bool {
        self.text.len() == self.source.len()
    }

    /// A part of this span.
    fn part(&self, range: Range<usize>) -> Span {
        let source = if self.is_verbatim() {
            self.source.start + range.start..self.source.start + range.end
        } else {
            self.source.clone()
        };
        Span { text: self.text[range].to_owned(), style: self.style, source }
    }
}

impl Line {
    pub(crate) fn ours(text: impl Into<String>, style: Style) -> Line {
        Line { spans: vec![Span::ours(text, style)], end: 0 }
    }

    pub(crate) fn width(&self) -> usize {
        self.spans.iter().map(|span| columns(&span.text)).sum()
    }

    /// The line with the codes that colour it.
    pub(crate) fn styled(&self) -> String {
        let mut text = String::new();
        for span in &self.spans {
            let style = span.style;
            let _ = write!(text, "{style}{}{style:#}", span.text);
        }
        text
    }

    fn push(&mut self, span: Span) {
        self.end = self.end.max(span.source.end);
        match self.spans.last_mut() {
            // Spans that continue each other are one, so that the same words always give the same line.
            Some(last) if last.style == span.style => {
                last.text.push_str(&span.text);
                last.source = last.source.start..last.source.end.max(span.source.end);
            }
            _ => self.spans.push(span),
        }
    }
}

/// What stands at the left of the lines of one paragraph.
#[derive(Clone, Debug, Default)]
pub(crate) struct Margin {
    pub(crate) first: Vec<Span>,
    pub(crate) rest: Vec<Span>,
}

/// Breaks spans into lines of at most `columns`, at spaces where there are any. A newline in a span ends a
/// line.
pub(crate) fn wrap(spans: &[Span], margin: &Margin, columns: usize) -> Vec<Line> {
    let mut wrapping = Wrapping::new(margin, columns);
    for span in spans {
        let mut word_start = None;
        for (place, character) in span.text.char_indices() {
            if matches!(character, ' ' | '\n') {
                if let Some(start) = word_start.take() {
                    wrapping.word.push(span.part(start..place));
                }
                wrapping.end_word();
                match character {
                    '\n' => wrapping.end_line(),
                    _ => wrapping.space = Some(span.part(place..place + 1)),
                }
            } else if word_start.is_none() {
                word_start = Some(place);
            }
        }
        if let Some(start) = word_start {
            wrapping.word.push(span.part(start..span.text.len()));
        }
    }
    wrapping.finish()
}

/// Breaks one line of text at exactly `columns`, wherever that is: code keeps its spaces.
pub(crate) fn chop(span: &Span, margin: &Margin, columns: usize) -> Vec<Line> {
    let mut wrapping = Wrapping::new(margin, columns);
    wrapping.push_broken(span);
    wrapping.finish()
}

struct Wrapping<'a> {
    margin: &'a Margin,
    columns: usize,
    lines: Vec<Line>,
    line: Line,
    used: usize,
    /// Whether the line has more than its margin.
    has_text: bool,
    word: Vec<Span>,
    space: Option<Span>,
}

impl<'a> Wrapping<'a> {
    fn new(margin: &'a Margin, columns: usize) -> Wrapping<'a> {
        let mut wrapping = Wrapping {
            margin,
            columns: columns.max(1),
            lines: Vec::new(),
            line: Line::default(),
            used: 0,
            has_text: false,
            word: Vec::new(),
            space: None,
        };
        wrapping.begin_line(&margin.first);
        wrapping
    }

    fn begin_line(&mut self, margin: &[Span]) {
        self.line = Line { spans: margin.to_vec(), end: 0 };
        self.used = self.line.width();
        self.has_text = false;
    }

    fn end_line(&mut self) {
        self.lines.push(std::mem::take(&mut self.line));
        self.space = None;
        let margin = self.margin;
        self.begin_line(&margin.rest);
    }

    fn end_word(&mut self) {
        let word = std::mem::take(&mut self.word);
        if word.is_empty() {
            return;
        }
        let wide: usize = word.iter().map(|span| columns(&span.text)).sum();
        let space = self.space.take();
        let gap = usize::from(space.is_some() && self.has_text);
        if self.has_text && self.used + gap + wide > self.columns {
            self.end_line();
        } else if let Some(space) = space.filter(|_| gap == 1) {
            self.line.push(space);
            self.used += 1;
        }
        for span in word {
            if self.used + columns(&span.text) <= self.columns {
                self.push(span);
            } else {
                self.push_broken(&span);
            }
        }
    }

    fn push(&mut self, span: Span) {
        self.used += columns(&span.text);
        self.has_text = true;
        self.line.push(span);
    }

    /// A word that is longer than a line goes on in the next one.
    fn push_broken(&mut self, span: &Span) {
        let mut start = 0;
        let mut used = self.used;
        for (place, cluster) in span.text.grapheme_indices(true) {
            let wide = columns(cluster);
            if used + wide > self.columns && (self.has_text || place > start) {
                if place > start {
                    self.push(span.part(start..place));
                }
                self.end_line();
                start = place;
                used = self.used;
            }
            used += wide;
        }
        self.push(span.part(start..span.text.len()));
    }

    fn finish(mut self) -> Vec<Line> {
        self.end_word();
        self.lines.push(self.line);
        self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, columns: usize, expected: &[&str]) {
        let span = Span::new(text, Style::new(), 0..text.len());
        let margin = Margin {
            first: vec![Span::ours("- ", Style::new())],
            rest: vec![Span::ours("  ", Style::new())],
        };
        let lines: Vec<String> = wrap(&[span], &margin, columns).iter().map(Line::styled).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn words_go_to_the_next_line_whole() {
        check("one two three", 9, &["- one two", "  three"]);
        check("one  two ", 20, &["- one two"]);
        check("", 20, &["- "]);
    }

    #[test]
    fn a_word_longer_than_a_line_is_broken_between_clusters() {
        check("abcdefgh", 5, &["- abc", "  def", "  gh"]);
        check("天気予報", 7, &["- 天気", "  予報"]);
        check("e\u{301}e\u{301}e\u{301}e\u{301}", 5, &["- e\u{301}e\u{301}e\u{301}", "  e\u{301}"]);
    }

    #[test]
    fn no_width_is_too_small_to_end() {
        check("天気", 1, &["- 天", "  気"]);
    }

    #[test]
    fn what_was_shown_is_not_shown_again() {
        let span = |text: &str, source| Span { text: text.to_owned(), style: Style::new(), source };
        assert_eq!(span("hello", 10..15).after(13), Some(span("lo", 13..15)));
        assert_eq!(span("hello", 10..15).after(15), None);
        assert_eq!(span("&", 10..15).after(13), Some(span("&", 10..15)));
        assert_eq!(Span::ours("x", Style::new()).after(13), Some(Span::ours("x", Style::new())));
    }
}
