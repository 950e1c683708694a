//! Lays out one Markdown block as lines.

use std::ops::Range;

use anstyle::{AnsiColor, Style};
use toolwire_markdown::event::{CodeBlockKind, Event, HeadingLevel, Tag, TagEnd};
use toolwire_markdown::{Highlighter, TokenKind, parse};

use super::table::Table;
use crate::display::line::{Line, Margin, Span, hard_wrap, max_columns, wrap};

pub(crate) const DIMMED: Style = Style::new().dimmed();
pub(super) const CODE: Style = AnsiColor::Cyan.on_default();
const RULE_COLUMNS: usize = 40;

/// Lays out the part of a block after `frozen`.
pub(super) fn lines(text: &str, frozen: usize, columns: usize) -> Vec<Line> {
    let mut layout = Layout { frozen, columns, ..Layout::default() };
    parse(text, |event, range| layout.handle(event, range));
    layout.flush();
    let mut end = 0;
    for line in &mut layout.lines {
        end = line.end.max(end);
        line.end = end;
    }
    layout.lines
}

/// The margin of a list item or a quote.
struct MarginLevel {
    /// The bullet, until it is used.
    first: Option<Span>,
    rest: Span,
}

#[derive(Default)]
struct Layout {
    frozen: usize,
    columns: usize,
    lines: Vec<Line>,
    levels: Vec<MarginLevel>,
    /// The next number of each open list, `None` if it has bullets.
    lists: Vec<Option<u64>>,
    /// Text that is not wrapped yet.
    spans: Vec<Span>,
    styles: Vec<Style>,
    /// The URLs of the open links, each with the index of its first span.
    links: Vec<(String, usize)>,
    is_in_code: bool,
    /// Whether the last row of code has no newline yet. A Windows line end comes without the row before it.
    is_row_open: bool,
    /// The colours of the open code block, if its language is known.
    highlighter: Option<Highlighter>,
    table: Option<Table>,
    /// Whether the last block needs an empty line below.
    needs_gap: bool,
}

impl Layout {
    fn handle(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(tag) => self.start(tag, range),
            Event::End(tag) => self.end(tag, range),
            Event::Text(text) if self.is_in_code => self.code_lines(&text, range.start),
            Event::Text(text) => self.text(&text, Style::new(), range),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                // The text between the markers.
                let start = range.start + range.len().saturating_sub(text.len()) / 2;
                self.text(&text, CODE, start..start + text.len());
            }
            Event::Html(text) => {
                self.text(text.trim_end_matches('\n'), DIMMED, range.clone());
                self.break_line(range);
            }
            Event::InlineHtml(text) | Event::FootnoteReference(text) => self.text(&text, DIMMED, range),
            Event::SoftBreak => self.text(" ", Style::new(), range),
            Event::HardBreak => self.break_line(range),
            Event::Rule => {
                self.begin_block();
                let rule = "─".repeat(self.room().min(RULE_COLUMNS));
                self.add_line(Span { text: rule, style: DIMMED, source: range });
                self.needs_gap = true;
            }
            Event::TaskListMarker(is_done) => {
                self.text(if is_done { "☑ " } else { "☐ " }, Style::new(), range);
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>, range: Range<usize>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.begin_block(),
            Tag::Heading { level, .. } => {
                self.begin_block();
                self.styles.push(heading_style(level));
            }
            Tag::BlockQuote(_) => {
                self.begin_block();
                let rest = Span::decoration("│ ", DIMMED);
                self.levels.push(MarginLevel { first: None, rest });
            }
            Tag::CodeBlock(kind) => {
                self.begin_block();
                self.is_in_code = true;
                if let CodeBlockKind::Fenced(info) = kind
                    && let Some(language) = info.split_whitespace().next()
                {
                    self.highlighter = Highlighter::new(&info);
                    if range.start >= self.frozen {
                        self.add_line(Span::new(&format!("  {language}"), DIMMED, range.start..range.start));
                    }
                }
            }
            Tag::List(first) => {
                self.begin_block();
                self.lists.push(first);
            }
            Tag::Item => {
                self.flush();
                self.begin_item(range);
            }
            Tag::Table(alignments) => {
                self.begin_block();
                self.table = Some(Table::new(alignments));
            }
            Tag::TableRow | Tag::TableHead => {
                if let Some(table) = &mut self.table {
                    table.start_row(range);
                }
            }
            Tag::TableCell => self.spans.clear(),
            Tag::Emphasis => self.styles.push(Style::new().italic()),
            Tag::Strong => self.styles.push(Style::new().bold()),
            Tag::Strikethrough => self.styles.push(Style::new().strikethrough()),
            Tag::Link { dest_url, .. } => {
                self.links.push((dest_url.into_string(), self.spans.len()));
                self.styles.push(Style::new().underline());
            }
            Tag::Image { dest_url, .. } => {
                self.text("[image: ", DIMMED, range.start..range.start + 1);
                self.links.push((dest_url.into_string(), self.spans.len()));
                self.styles.push(Style::new());
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd, range: Range<usize>) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => {
                self.flush();
                self.needs_gap = true;
            }
            TagEnd::Heading(_) => {
                self.flush();
                self.styles.pop();
                self.needs_gap = true;
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.levels.pop();
                self.needs_gap = true;
            }
            TagEnd::CodeBlock => {
                self.is_in_code = false;
                self.is_row_open = false;
                self.highlighter = None;
                self.needs_gap = true;
            }
            TagEnd::List(_) => {
                self.flush();
                self.lists.pop();
                self.needs_gap |= self.lists.is_empty();
            }
            TagEnd::Item => {
                self.flush();
                if self.levels.last().is_some_and(|level| level.first.is_some()) {
                    // The item is empty.
                    let margin = self.margin();
                    self.lines.extend(wrap(&[], &margin, self.columns));
                }
                self.levels.pop();
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let margin = self.margin();
                    let room = self.room();
                    self.lines.extend(table.lines(self.frozen, &margin, room));
                }
                self.needs_gap = true;
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.spans);
                if let Some(table) = &mut self.table {
                    table.add(cell);
                }
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link => {
                self.styles.pop();
                self.add_link_target(range, "");
            }
            TagEnd::Image => {
                self.styles.pop();
                self.add_link_target(range, "]");
            }
            _ => {}
        }
    }

    /// Adds the URL of a link after its text, unless they are the same: users should see where it leads.
    fn add_link_target(&mut self, range: Range<usize>, close: &str) {
        let Some((url, first_span)) = self.links.pop() else { return };
        let link_text: String = self.spans.iter().skip(first_span).map(|span| span.text.as_str()).collect();
        let end = range.end.saturating_sub(1)..range.end;
        let is_same = link_text == url || url.strip_prefix("mailto:") == Some(link_text.as_str());
        let text = if is_same { close.to_owned() } else { format!("{close} ({url})") };
        if !text.is_empty() {
            self.text(&text, DIMMED, end);
        }
    }

    fn begin_item(&mut self, range: Range<usize>) {
        let bullet = match self.lists.last_mut() {
            Some(Some(number)) => {
                let bullet = format!("{number}. ");
                *number = number.saturating_add(1);
                bullet
            }
            _ => match self.lists.len() % 3 {
                1 => "• ".to_owned(),
                2 => "◦ ".to_owned(),
                _ => "▪ ".to_owned(),
            },
        };
        let rest = Span::decoration(" ".repeat(bullet.chars().count()), Style::new());
        let source = range.start..range.start + 1;
        let first = Span { text: bullet, style: DIMMED, source }.after(self.frozen);
        self.levels.push(MarginLevel { first, rest });
    }

    fn text(&mut self, text: &str, style: Style, range: Range<usize>) {
        let style = self.styles.iter().fold(style, |all, style| merge_styles(all, *style));
        if let Some(span) = Span::new(text, style, range).after(self.frozen) {
            self.spans.push(span);
        }
    }

    fn break_line(&mut self, range: Range<usize>) {
        if range.end > self.frozen {
            self.spans.push(Span { text: "\n".to_owned(), style: Style::new(), source: range });
        }
    }

    fn code_lines(&mut self, text: &str, start: usize) {
        let mut start = start;
        for row in text.split_inclusive('\n') {
            let range = start..start + row.len();
            start = range.end;
            if row == "\n" && std::mem::take(&mut self.is_row_open) {
                continue;
            }
            self.is_row_open = !row.ends_with('\n');
            let content = row.trim_end_matches(['\n', '\r']);
            // The lines above, even if they are frozen, determine the tokens of the lines below.
            let tokens: Vec<(Range<usize>, Style)> = match &mut self.highlighter {
                Some(highlighter) => {
                    let tokens = highlighter.line(content).into_iter();
                    tokens.map(|(token, kind)| (token, token_style(kind))).collect()
                }
                None => vec![(0..content.len(), CODE)],
            };
            if range.end <= self.frozen {
                continue;
            }
            let spans: Vec<Span> = tokens
                .into_iter()
                .map(|(token, style)| {
                    let source = range.start + token.start..range.start + token.end;
                    Span::new(&content[token], style, source)
                })
                .filter_map(|span| span.after(self.frozen))
                .collect();
            if spans.is_empty() && !content.is_empty() {
                continue;
            }
            let mut margin = self.margin();
            margin.first.push(Span::decoration("  ", Style::new()));
            margin.rest.push(Span::decoration("  ", Style::new()));
            let mut lines = hard_wrap(&spans, &margin, self.columns);
            if let Some(last) = lines.last_mut() {
                last.end = range.end;
            }
            self.lines.extend(lines);
        }
    }

    fn begin_block(&mut self) {
        self.flush();
        if self.needs_gap && !self.lines.is_empty() {
            let margin: Vec<Span> =
                self.levels.iter().skip(self.first_level()).map(|level| level.rest.clone()).collect();
            let mut line = Line { spans: margin, end: 0 };
            while line.spans.last().is_some_and(|span| span.text.trim().is_empty()) {
                line.spans.pop();
            }
            if let Some(last) = line.spans.last_mut() {
                last.text.truncate(last.text.trim_end().len());
            }
            self.lines.push(line);
        }
        self.needs_gap = false;
    }

    /// Wraps the collected text.
    fn flush(&mut self) {
        if self.table.is_some() {
            return;
        }
        let mut spans = std::mem::take(&mut self.spans);
        while spans.last().is_some_and(|span| span.text.trim().is_empty()) {
            spans.pop();
        }
        if spans.is_empty() {
            return;
        }
        let margin = self.margin();
        self.lines.extend(wrap(&spans, &margin, self.columns));
        self.needs_gap = false;
    }

    fn add_line(&mut self, span: Span) {
        if let Some(span) = span.after(self.frozen) {
            let margin = self.margin();
            self.lines.extend(hard_wrap(&[span], &margin, self.columns));
        }
    }

    /// Returns the margin of the next lines, with bullets that have not been used. It has only the innermost
    /// levels that fit into half the width.
    fn margin(&mut self) -> Margin {
        let first_level = self.first_level();
        let mut margin = Margin::default();
        for (index, level) in self.levels.iter_mut().enumerate() {
            let first = level.first.take().unwrap_or_else(|| level.rest.clone());
            if index >= first_level {
                margin.first.push(first);
                margin.rest.push(level.rest.clone());
            }
        }
        margin
    }

    /// Returns the number of columns beside the margin.
    fn room(&self) -> usize {
        let levels = self.levels.iter().skip(self.first_level());
        let used: usize = levels.map(|level| max_columns(&level.rest.text)).sum();
        self.columns.saturating_sub(used).max(1)
    }

    /// Returns the index of the first level that is displayed.
    fn first_level(&self) -> usize {
        let mut used = 0;
        let is_displayed = |level: &&MarginLevel| {
            used += max_columns(&level.rest.text);
            used <= self.columns / 2
        };
        self.levels.len() - self.levels.iter().rev().take_while(is_displayed).count()
    }
}

fn heading_style(level: HeadingLevel) -> Style {
    match level {
        HeadingLevel::H1 => Style::new().bold().underline(),
        HeadingLevel::H2 => Style::new().bold(),
        _ => Style::new().bold().italic(),
    }
}

/// Returns the style of a token of code, in the colours of the terminal's theme.
fn token_style(kind: TokenKind) -> Style {
    let colour = match kind {
        TokenKind::Comment => return DIMMED,
        TokenKind::Header => return Style::new().bold(),
        TokenKind::String | TokenKind::Added => AnsiColor::Green,
        TokenKind::Constant => AnsiColor::Yellow,
        TokenKind::Keyword => AnsiColor::Magenta,
        TokenKind::Type | TokenKind::Key => AnsiColor::Cyan,
        TokenKind::Removed => AnsiColor::Red,
        _ => return Style::new(),
    };
    colour.on_default()
}

/// Merges two styles. The colour of the inner one has priority.
fn merge_styles(inner: Style, outer: Style) -> Style {
    Style::new()
        .fg_color(inner.get_fg_color().or(outer.get_fg_color()))
        .effects(inner.get_effects() | outer.get_effects())
}
