//! One block of Markdown as lines.

use std::ops::Range;

use anstyle::{AnsiColor, Style};
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Parser, Tag, TagEnd};

use super::blocks::{options, prepared, restored};
use super::table::Table;
use crate::chat::line::{Line, Margin, Span, chop, columns, wrap};

pub(crate) const QUIET: Style = Style::new().dimmed();
const CODE: Style = AnsiColor::Cyan.on_default();
const RULE_COLUMNS: usize = 40;

/// The lines of a block of which everything before `frozen` has been shown.
pub(super) fn lines(text: &str, frozen: usize, columns: usize) -> Vec<Line> {
    let mut layout = Layout::new(frozen, columns);
    for (event, range) in Parser::new_ext(&prepared(text), options()).into_offset_iter() {
        layout.take(event, range);
    }
    layout.flush();
    let mut end = 0;
    for line in &mut layout.lines {
        end = line.end.max(end);
        line.end = end;
    }
    layout.lines
}

/// What a list or a quote adds to the left of its lines.
struct Level {
    /// The bullet, until it has been shown.
    first: Option<Span>,
    rest: Span,
}

struct Layout {
    frozen: usize,
    columns: usize,
    lines: Vec<Line>,
    levels: Vec<Level>,
    /// The next number of each list that is open, none where it has bullets.
    lists: Vec<Option<u64>>,
    /// Text that is not broken into lines yet.
    spans: Vec<Span>,
    styles: Vec<Style>,
    /// The addresses of the links that are open, with the place where their text began.
    links: Vec<(String, usize)>,
    /// The label of the code that is open.
    code: Option<String>,
    table: Option<Table>,
    /// Whether the block that ended last wants an empty line below.
    is_apart: bool,
}

impl Layout {
    fn new(frozen: usize, columns: usize) -> Layout {
        Layout {
            frozen,
            columns,
            lines: Vec::new(),
            levels: Vec::new(),
            lists: Vec::new(),
            spans: Vec::new(),
            styles: Vec::new(),
            links: Vec::new(),
            code: None,
            table: None,
            is_apart: false,
        }
    }

    fn take(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(tag) => self.start(tag, range),
            Event::End(tag) => self.end(tag, range),
            Event::Text(text) if self.code.is_some() => self.code_lines(&text, range.start),
            Event::Text(text) => self.text(&text, Style::new(), range),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                // Between the marks.
                let start = range.start + range.len().saturating_sub(text.len()) / 2;
                self.text(&text, CODE, start..start + text.len());
            }
            Event::Html(text) => {
                self.text(text.trim_end_matches('\n'), QUIET, range.clone());
                self.break_line(range);
            }
            Event::InlineHtml(text) | Event::FootnoteReference(text) => self.text(&text, QUIET, range),
            Event::SoftBreak => self.text(" ", Style::new(), range),
            Event::HardBreak => self.break_line(range),
            Event::Rule => {
                self.begin_block();
                let rule = "─".repeat(self.room().min(RULE_COLUMNS));
                self.add_ours(Span { text: rule, style: QUIET, source: range });
                self.is_apart = true;
            }
            Event::TaskListMarker(is_done) => {
                self.text(if is_done { "☑ " } else { "☐ " }, Style::new(), range);
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>, range: Range<usize>) {
        match tag {
            Tag::Paragraph => self.begin_block(),
            Tag::HtmlBlock => self.begin_block(),
            Tag::Heading { level, .. } => {
                self.begin_block();
                self.styles.push(heading(level));
            }
            Tag::BlockQuote(_) => {
                self.begin_block();
                let rest = Span::ours("│ ", QUIET);
                self.levels.push(Level { first: None, rest });
            }
            Tag::CodeBlock(kind) => {
                self.begin_block();
                let label = match kind {
                    CodeBlockKind::Fenced(label) => label.split_whitespace().next().unwrap_or("").to_owned(),
                    CodeBlockKind::Indented => String::new(),
                };
                if !label.is_empty() && range.start >= self.frozen {
                    self.add_ours(Span::new(&format!("  {label}"), QUIET, range.start..range.start));
                }
                self.code = Some(label);
            }
            Tag::List(first) => {
                self.begin_block();
                self.lists.push(first);
            }
            Tag::Item => {
                self.flush();
                self.item(range);
            }
            Tag::Table(alignments) => {
                self.begin_block();
                self.table = Some(Table::new(alignments));
            }
            Tag::TableRow | Tag::TableHead => {
                if let Some(table) = &mut self.table {
                    table.begin_row(range);
                }
            }
            Tag::TableCell => self.spans.clear(),
            Tag::Emphasis => self.styles.push(Style::new().italic()),
            Tag::Strong => self.styles.push(Style::new().bold()),
            Tag::Strikethrough => self.styles.push(Style::new().strikethrough()),
            Tag::Link { dest_url, .. } => {
                self.links.push((restored(&dest_url).into_owned(), self.spans.len()));
                self.styles.push(Style::new().underline());
            }
            Tag::Image { dest_url, .. } => {
                self.text("[image: ", QUIET, range.start..range.start + 1);
                self.links.push((restored(&dest_url).into_owned(), self.spans.len()));
                self.styles.push(Style::new());
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd, range: Range<usize>) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => {
                self.flush();
                self.is_apart = true;
            }
            TagEnd::Heading(_) => {
                self.flush();
                self.styles.pop();
                self.is_apart = true;
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.levels.pop();
                self.is_apart = true;
            }
            TagEnd::CodeBlock => {
                self.code = None;
                self.is_apart = true;
            }
            TagEnd::List(_) => {
                self.flush();
                self.lists.pop();
                self.is_apart |= self.lists.is_empty();
            }
            TagEnd::Item => {
                self.flush();
                if self.levels.last().is_some_and(|level| level.first.is_some()) {
                    // An item without anything in it.
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
                self.is_apart = true;
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
                self.address(range, "");
            }
            TagEnd::Image => {
                self.styles.pop();
                self.address(range, "]");
            }
            _ => {}
        }
    }

    /// The address behind a link, unless the text says it: whoever follows it should see where it goes.
    fn address(&mut self, range: Range<usize>, close: &str) {
        let Some((address, begin)) = self.links.pop() else { return };
        let said: String = self.spans.iter().skip(begin).map(|span| span.text.as_str()).collect();
        let end = range.end.saturating_sub(1)..range.end;
        let is_said = said == address || address.strip_prefix("mailto:") == Some(said.as_str());
        let text = if is_said { close.to_owned() } else { format!("{close} ({address})") };
        if !text.is_empty() {
            self.text(&text, QUIET, end);
        }
    }

    fn item(&mut self, range: Range<usize>) {
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
        let rest = Span::ours(" ".repeat(bullet.chars().count()), Style::new());
        let source = range.start..range.start + 1;
        let first = Span { text: bullet, style: QUIET, source }.after(self.frozen);
        self.levels.push(Level { first, rest });
    }

    fn text(&mut self, text: &str, style: Style, range: Range<usize>) {
        let style = self.styles.iter().fold(style, |all, style| merged(all, *style));
        if let Some(span) = Span::new(&restored(text), style, range).after(self.frozen) {
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
            if range.end <= self.frozen {
                continue;
            }
            let content = row.trim_end_matches(['\n', '\r']);
            let content = Span::new(&restored(content), CODE, range.start..range.start + content.len());
            let mut margin = self.margin();
            margin.first.push(Span::ours("  ", Style::new()));
            margin.rest.push(Span::ours("  ", Style::new()));
            let Some(content) = content.after(self.frozen) else { continue };
            self.lines.extend(chop(&content, &margin, self.columns));
        }
    }

    fn begin_block(&mut self) {
        self.flush();
        if self.is_apart && !self.lines.is_empty() {
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
        self.is_apart = false;
    }

    /// Breaks the text that has gathered into lines.
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
        self.is_apart = false;
    }

    fn add_ours(&mut self, span: Span) {
        if let Some(span) = span.after(self.frozen) {
            let margin = self.margin();
            self.lines.extend(chop(&span, &margin, self.columns));
        }
    }

    /// The margin of the next lines. A bullet is used once. Of more than half the width only the innermost
    /// part is left.
    fn margin(&mut self) -> Margin {
        let begin = self.first_level();
        let mut margin = Margin::default();
        for (index, level) in self.levels.iter_mut().enumerate() {
            let first = level.first.take().unwrap_or_else(|| level.rest.clone());
            if index >= begin {
                margin.first.push(first);
                margin.rest.push(level.rest.clone());
            }
        }
        margin
    }

    /// The columns that the margin leaves.
    fn room(&self) -> usize {
        let levels = self.levels.iter().skip(self.first_level());
        let used: usize = levels.map(|level| columns(&level.rest.text)).sum();
        self.columns.saturating_sub(used).max(1)
    }

    fn first_level(&self) -> usize {
        let mut used = 0;
        let fits = |level: &&Level| {
            used += columns(&level.rest.text);
            used <= self.columns / 2
        };
        self.levels.len() - self.levels.iter().rev().take_while(fits).count()
    }
}

fn heading(level: HeadingLevel) -> Style {
    match level {
        HeadingLevel::H1 => Style::new().bold().underline(),
        HeadingLevel::H2 => Style::new().bold(),
        _ => Style::new().bold().italic(),
    }
}

/// Both styles; the inner one decides the colour.
fn merged(inner: Style, outer: Style) -> Style {
    Style::new()
        .fg_color(inner.get_fg_color().or(outer.get_fg_color()))
        .effects(inner.get_effects() | outer.get_effects())
}
