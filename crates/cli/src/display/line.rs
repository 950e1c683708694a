//! Styled lines of a limited width. Each line has the position of the source text that it displays.

use std::fmt::Write as _;
use std::ops::Range;

use anstyle::Style;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthChar;

use crate::terminal_text::{sanitize, width};

/// Returns the largest number of columns that a terminal may use for `text`. Terminals differ in the width of
/// joined emoji, and a line must not be too long in any of them.
pub(crate) fn max_columns(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    width(text).max(text.chars().filter_map(UnicodeWidthChar::width).sum())
}

/// A piece of text in one style, and the part of the source that it displays.
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
    /// The position in the source up to which this line and the lines above display it.
    pub(crate) end: usize,
}

impl Span {
    /// Creates a span of source text, which is sanitized.
    pub(crate) fn new(text: &str, style: Style, source: Range<usize>) -> Span {
        // If sanitizing changes the length, positions in the text and in the source no longer correspond, and
        // the span counts as one unit.
        let text = sanitize(&text.replace('\t', "    "));
        Span { text, style, source }
    }

    /// Creates a span that displays no part of the source, such as a bullet.
    pub(crate) fn decoration(text: impl Into<String>, style: Style) -> Span {
        Span { text: text.into(), style, source: 0..0 }
    }

    /// Returns the part of the span that displays the source after `position`.
    pub(crate) fn after(mut self, position: usize) -> Option<Span> {
        if self.source.start >= position || self.source.is_empty() {
            return Some(self);
        }
        if self.source.end <= position {
            return None;
        }
        if self.is_verbatim() && self.text.is_char_boundary(position - self.source.start) {
            self.text.drain(..position - self.source.start);
            self.source.start = position;
        }
        Some(self)
    }

    /// Whether positions in the text and in the source correspond.
    fn is_verbatim(&self) -> bool {
        self.text.len() == self.source.len()
    }

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
    pub(crate) fn decoration(text: impl Into<String>, style: Style) -> Line {
        Line { spans: vec![Span::decoration(text, style)], end: 0 }
    }

    pub(crate) fn width(&self) -> usize {
        self.spans.iter().map(|span| max_columns(&span.text)).sum()
    }

    /// Returns the text with escape sequences for the styles.
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
            // Adjacent spans of the same style are merged, so that the same text always results in the same
            // line.
            Some(last) if last.style == span.style => {
                last.text.push_str(&span.text);
                last.source = last.source.start..last.source.end.max(span.source.end);
            }
            _ => self.spans.push(span),
        }
    }
}

/// The left margin of the lines of a paragraph.
#[derive(Clone, Debug, Default)]
pub(crate) struct Margin {
    pub(crate) first: Vec<Span>,
    pub(crate) rest: Vec<Span>,
}

/// Wraps spans at spaces into lines of at most `columns`. A newline in a span ends a line.
pub(crate) fn wrap(spans: &[Span], margin: &Margin, columns: usize) -> Vec<Line> {
    let mut wrapper = Wrapper::new(margin, columns);
    for span in spans {
        let mut word_start = None;
        for (index, character) in span.text.char_indices() {
            if matches!(character, ' ' | '\n') {
                if let Some(start) = word_start.take() {
                    wrapper.word.push(span.part(start..index));
                }
                wrapper.end_word();
                match character {
                    '\n' => wrapper.end_line(),
                    _ => wrapper.space = Some(span.part(index..index + 1)),
                }
            } else if word_start.is_none() {
                word_start = Some(index);
            }
        }
        if let Some(start) = word_start {
            wrapper.word.push(span.part(start..span.text.len()));
        }
    }
    wrapper.finish()
}

/// Breaks a line at exactly `columns` and keeps all spaces, as code needs it.
pub(crate) fn hard_wrap(spans: &[Span], margin: &Margin, columns: usize) -> Vec<Line> {
    let mut wrapper = Wrapper::new(margin, columns);
    for span in spans {
        wrapper.push_broken(span);
    }
    wrapper.finish()
}

/// Wraps a line at spaces, all of which are kept. The next lines are indented like the first.
pub(crate) fn wrap_verbatim(span: &Span, columns: usize) -> Vec<Line> {
    let text = &span.text;
    let indent = (text.len() - text.trim_start_matches(' ').len()).min(columns / 2);
    let margin = Margin { first: Vec::new(), rest: vec![Span::decoration(" ".repeat(indent), span.style)] };
    let mut wrapper = Wrapper::new(&margin, columns);
    let mut start = 0;
    for word in text.split_inclusive(' ') {
        let range = start..start + word.len();
        start = range.end;
        // Spaces before the first word are not a place to break.
        let is_after_word = !text[..range.start].trim_start_matches(' ').is_empty();
        let word_width = max_columns(word.trim_end_matches(' '));
        if is_after_word && wrapper.has_text && wrapper.used + word_width > wrapper.columns {
            wrapper.end_line();
        }
        wrapper.push_broken(&span.part(range));
    }
    wrapper.finish()
}

struct Wrapper<'a> {
    margin: &'a Margin,
    columns: usize,
    lines: Vec<Line>,
    line: Line,
    used: usize,
    /// Whether the line has text after its margin.
    has_text: bool,
    word: Vec<Span>,
    space: Option<Span>,
}

impl<'a> Wrapper<'a> {
    fn new(margin: &'a Margin, columns: usize) -> Wrapper<'a> {
        let mut wrapper = Wrapper {
            margin,
            columns: columns.max(1),
            lines: Vec::new(),
            line: Line::default(),
            used: 0,
            has_text: false,
            word: Vec::new(),
            space: None,
        };
        wrapper.begin_line(&margin.first);
        wrapper
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
        let width: usize = word.iter().map(|span| max_columns(&span.text)).sum();
        let space = self.space.take();
        let gap = usize::from(space.is_some() && self.has_text);
        if self.has_text && self.used + gap + width > self.columns {
            self.end_line();
        } else if let Some(space) = space.filter(|_| gap == 1) {
            self.line.push(space);
            self.used += 1;
        }
        for span in word {
            if self.used + max_columns(&span.text) <= self.columns {
                self.push(span);
            } else {
                self.push_broken(&span);
            }
        }
    }

    fn push(&mut self, span: Span) {
        self.used += max_columns(&span.text);
        self.has_text = true;
        self.line.push(span);
    }

    /// Pushes a word and continues it on the next line where it does not fit.
    fn push_broken(&mut self, span: &Span) {
        let mut start = 0;
        let mut used = self.used;
        for (index, cluster) in span.text.grapheme_indices(true) {
            let width = max_columns(cluster);
            if used + width > self.columns && (self.has_text || index > start) {
                if index > start {
                    self.push(span.part(start..index));
                }
                self.end_line();
                start = index;
                used = self.used;
            }
            used += width;
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
            first: vec![Span::decoration("- ", Style::new())],
            rest: vec![Span::decoration("  ", Style::new())],
        };
        let lines: Vec<String> = wrap(&[span], &margin, columns).iter().map(Line::styled).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn lines_are_wrapped_at_spaces() {
        check("one two three", 9, &["- one two", "  three"]);
        check("one  two ", 20, &["- one two"]);
        check("", 20, &["- "]);
    }

    #[test]
    fn long_words_are_broken_between_grapheme_clusters() {
        check("abcdefgh", 5, &["- abc", "  def", "  gh"]);
        check("天気予報", 7, &["- 天気", "  予報"]);
        check("e\u{301}e\u{301}e\u{301}e\u{301}", 5, &["- e\u{301}e\u{301}e\u{301}", "  e\u{301}"]);
    }

    #[test]
    fn verbatim_text_wraps_at_words_and_keeps_its_spaces() {
        for (text, columns, expected) in [
            ("  \"a\": \"b   c d\"", 12, vec!["  \"a\": \"b   ", "  c d\""]),
            ("  abcdefgh", 6, vec!["  abcd", "  efgh"]),
            ("a      b", 4, vec!["a   ", "   b"]),
            ("", 4, vec![""]),
        ] {
            let lines = wrap_verbatim(&Span::decoration(text, Style::new()), columns);
            assert_eq!(lines.iter().map(Line::styled).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn wrapping_ends_at_a_width_of_one_column() {
        check("天気", 1, &["- 天", "  気"]);
    }

    #[test]
    fn source_before_the_position_is_removed() {
        let span = |text: &str, source| Span { text: text.to_owned(), style: Style::new(), source };
        assert_eq!(span("hello", 10..15).after(13), Some(span("lo", 13..15)));
        assert_eq!(span("hello", 10..15).after(15), None);
        assert_eq!(span("&", 10..15).after(13), Some(span("&", 10..15)));
        assert_eq!(Span::decoration("x", Style::new()).after(13), Some(Span::decoration("x", Style::new())));
    }
}
