//! What is seen of an answer while it comes: thinking, text, calls, and what is waited for.

use std::io::{self, Stdout, Write};
use std::time::{Duration, Instant};

use anstyle::Style;
use serde_json::{Map, Value};
use toolwire_contract::{Progress, ToolResult};

use super::calls::{Calls, frame, short_time};
use super::canvas::{Canvas, Size};
use super::line::{Line, Margin, Span, chop, wrap};
use super::markdown::{Kind, Markdown, QUIET};
use crate::command_error::HINT;
use crate::terminal_text::{sanitize, truncate};

/// Not more often than this is text drawn anew while it comes.
const DRAWING: Duration = Duration::from_millis(25);
/// Nor sooner than after this many times what the last drawing took: a long paragraph is laid out anew each
/// time.
const REST: u32 = 4;

/// An answer on a terminal, or as plain text.
pub(crate) enum View {
    Terminal(Box<Drawn<Stdout>>),
    Plain(Plain),
}

/// What the lower end of the screen shows.
enum Showing {
    Nothing,
    Waiting { what: String, since: Instant },
    Text(Markdown),
    Thinking(Markdown),
    Calls(Calls),
}

/// An answer that is drawn.
pub(crate) struct Drawn<W> {
    canvas: Canvas<W>,
    showing: Showing,
    /// Whether the line above is one that the next section is to be set apart from.
    needs_gap: bool,
    /// When it was drawn last, and how long that took.
    drawn: Option<(Instant, Duration)>,
    size: Box<dyn FnMut() -> Size + Send>,
}

/// An answer as plain text: the text to standard output, all else to standard error.
#[derive(Default)]
pub(crate) struct Plain {
    calls: Calls,
    /// Whether standard output stands in the middle of a line.
    is_within_line: bool,
    has_text: bool,
}

impl View {
    /// A view for standard output as it is.
    pub(crate) fn new(is_styled: bool) -> View {
        if is_styled {
            View::Terminal(Box::new(Drawn::new(io::stdout(), Box::new(terminal_size))))
        } else {
            View::Plain(Plain::default())
        }
    }

    /// Something is waited for; a spinner says so until something comes.
    pub(crate) fn wait(&mut self, what: &str) -> io::Result<()> {
        match self {
            View::Terminal(drawn) => drawn.wait(what),
            View::Plain(_) => Ok(()),
        }
    }

    pub(crate) fn text(&mut self, piece: &str) -> io::Result<()> {
        match self {
            View::Terminal(drawn) => drawn.text(piece),
            View::Plain(plain) => plain.text(piece),
        }
    }

    pub(crate) fn thinking(&mut self, piece: &str) -> io::Result<()> {
        match self {
            View::Terminal(drawn) => drawn.thinking(piece),
            View::Plain(_) => Ok(()),
        }
    }

    pub(crate) fn call_began(&mut self, id: &str, name: &str) -> io::Result<()> {
        match self {
            View::Terminal(drawn) => drawn.calls(|calls, now| calls.began(id, name, now)),
            View::Plain(_) => Ok(()),
        }
    }

    pub(crate) fn call_started(
        &mut self,
        id: &str,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> io::Result<()> {
        match self {
            View::Terminal(drawn) => drawn.calls(|calls, now| calls.started(id, name, arguments, now)),
            View::Plain(plain) => {
                plain.calls.started(id, name, arguments, Instant::now());
                Ok(())
            }
        }
    }

    pub(crate) fn call_progressed(&mut self, id: &str, progress: &Progress) -> io::Result<()> {
        match self {
            View::Terminal(drawn) => drawn.calls(|calls, _| calls.progressed(id, progress)),
            View::Plain(_) => Ok(()),
        }
    }

    pub(crate) fn call_finished(
        &mut self,
        id: &str,
        name: &str,
        result: &ToolResult,
        elapsed: Option<Duration>,
    ) -> io::Result<()> {
        match self {
            View::Terminal(drawn) => drawn.calls(|calls, now| calls.finished(id, name, result, elapsed, now)),
            View::Plain(plain) => {
                plain.calls.finished(id, name, result, elapsed, Instant::now());
                let line = plain.calls.plain(id).unwrap_or_default();
                plain.end_line()?;
                writeln!(io::stderr(), "{line}")
            }
        }
    }

    /// Time has passed, or the terminal has another size.
    pub(crate) fn tick(&mut self) -> io::Result<()> {
        match self {
            View::Terminal(drawn) => drawn.draw_now_and_then(),
            View::Plain(_) => Ok(()),
        }
    }

    /// What is shown stays, and the cursor stands at the left of an empty line.
    pub(crate) fn settle(&mut self) -> io::Result<()> {
        match self {
            View::Terminal(drawn) => drawn.settle(),
            View::Plain(plain) => plain.end_line(),
        }
    }

    /// A new answer begins below what a person typed.
    pub(crate) fn begin(&mut self) {
        if let View::Terminal(drawn) = self {
            drawn.needs_gap = false;
        }
    }

    /// Something was printed past this view, below what it shows.
    pub(crate) fn printed(&mut self) {
        if let View::Terminal(drawn) = self {
            drawn.needs_gap = true;
        }
    }

    /// The quiet line above the prompt.
    pub(crate) fn status(&mut self, line: &str) -> io::Result<()> {
        match self {
            View::Terminal(drawn) => {
                drawn.begin_section()?;
                let line = Line::ours(truncate(line, drawn.canvas.columns()), QUIET);
                drawn.canvas.draw(&[line], &[]).map(drop)
            }
            View::Plain(plain) => {
                plain.end_line()?;
                writeln!(io::stdout(), "{line}")
            }
        }
    }

    /// The next thing to try, below what was said.
    pub(crate) fn hint(&mut self, text: &str) -> io::Result<()> {
        match self {
            View::Terminal(drawn) => drawn.below("hint:", HINT, text),
            View::Plain(_) => self.note("hint:", HINT, text),
        }
    }

    /// Lines that belong to what was said last.
    pub(crate) fn lines(&mut self, lines: &[String]) -> io::Result<()> {
        for line in lines {
            match self {
                View::Terminal(drawn) => drawn.verbatim(line)?,
                View::Plain(_) => self.note("", QUIET, line)?,
            }
        }
        Ok(())
    }

    /// A remark of our own on a line of its own, below what is shown.
    pub(crate) fn note(&mut self, label: &str, style: Style, text: &str) -> io::Result<()> {
        match self {
            View::Terminal(drawn) => drawn.note(label, style, text),
            View::Plain(plain) => {
                plain.end_line()?;
                let space = if label.is_empty() { "" } else { " " };
                let lines: Vec<String> = text.lines().map(sanitize).collect();
                writeln!(io::stderr(), "{label}{space}{}", lines.join("\n"))
            }
        }
    }
}

/// How large the terminal is now; a size that most have when it does not say.
pub(crate) fn terminal_size() -> Size {
    match terminal_size::terminal_size() {
        Some((columns, rows)) if columns.0 > 0 && rows.0 > 0 => {
            Size { columns: columns.0.into(), rows: rows.0.into() }
        }
        _ => Size { columns: 80, rows: 24 },
    }
}

impl<W: Write> Drawn<W> {
    pub(crate) fn new(out: W, mut size: Box<dyn FnMut() -> Size + Send>) -> Drawn<W> {
        let canvas = Canvas::new(out, size());
        Drawn { canvas, showing: Showing::Nothing, needs_gap: false, drawn: None, size }
    }

    fn wait(&mut self, what: &str) -> io::Result<()> {
        match &mut self.showing {
            Showing::Waiting { what: shown, .. } if shown == what => {}
            Showing::Waiting { what: shown, .. } => *shown = what.to_owned(),
            _ => {
                self.begin_section()?;
                self.showing = Showing::Waiting { what: what.to_owned(), since: Instant::now() };
            }
        }
        self.draw()
    }

    fn text(&mut self, piece: &str) -> io::Result<()> {
        if !matches!(self.showing, Showing::Text(_)) {
            // White space before the text would only open a section without anything in it.
            if piece.trim().is_empty() {
                return Ok(());
            }
            self.begin_section()?;
            self.showing = Showing::Text(Markdown::new(Kind::Markdown));
        }
        if let Showing::Text(markdown) = &mut self.showing {
            markdown.push(piece);
        }
        self.draw_now_and_then()
    }

    fn thinking(&mut self, piece: &str) -> io::Result<()> {
        if !matches!(self.showing, Showing::Thinking(_)) {
            if piece.trim().is_empty() {
                return Ok(());
            }
            self.begin_section()?;
            self.showing = Showing::Thinking(Markdown::new(Kind::Plain(QUIET.italic())));
        }
        if let Showing::Thinking(markdown) = &mut self.showing {
            markdown.push(piece);
        }
        self.draw_now_and_then()
    }

    fn calls(&mut self, change: impl FnOnce(&mut Calls, Instant)) -> io::Result<()> {
        if !matches!(self.showing, Showing::Calls(_)) {
            self.begin_section()?;
            self.showing = Showing::Calls(Calls::default());
        }
        if let Showing::Calls(calls) = &mut self.showing {
            change(calls, Instant::now());
        }
        self.draw()
    }

    fn draw_now_and_then(&mut self) -> io::Result<()> {
        match self.drawn {
            Some((drawn, took)) if drawn.elapsed() < DRAWING.max(took * REST) => Ok(()),
            _ => self.draw(),
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        let begun = Instant::now();
        let outcome = self.draw_at(begun);
        self.drawn = Some((Instant::now(), begun.elapsed()));
        outcome
    }

    fn draw_at(&mut self, now: Instant) -> io::Result<()> {
        self.fit()?;
        let columns = self.canvas.columns();
        match &mut self.showing {
            Showing::Nothing => Ok(()),
            Showing::Waiting { what, since } => {
                let elapsed = now.saturating_duration_since(*since);
                let text = format!("{} {what}  {}", frame(elapsed), short_time(elapsed));
                let line = Line::ours(truncate(&text, columns), QUIET);
                self.canvas.draw(&[], &[line]).map(drop)
            }
            Showing::Text(markdown) | Showing::Thinking(markdown) => {
                let shown = markdown.lines(columns);
                if let Some(end) = self.canvas.draw(&shown.settled, &shown.open)? {
                    markdown.freeze(end);
                }
                Ok(())
            }
            Showing::Calls(calls) => {
                let mut lines = calls.lines(columns, now);
                let over = lines.len().saturating_sub(self.canvas.reach());
                lines.drain(..over);
                self.canvas.draw(&[], &lines).map(drop)
            }
        }
    }

    /// Follows the terminal's size.
    fn fit(&mut self) -> io::Result<()> {
        let size = (self.size)();
        if let Some(end) = self.canvas.resize(size)?
            && let Showing::Text(markdown) | Showing::Thinking(markdown) = &mut self.showing
        {
            markdown.freeze(end);
        }
        Ok(())
    }

    /// What is shown stays; an empty line sets apart what follows.
    fn begin_section(&mut self) -> io::Result<()> {
        self.settle()?;
        if std::mem::take(&mut self.needs_gap) {
            self.canvas.draw(&[Line::default()], &[])?;
        }
        Ok(())
    }

    fn settle(&mut self) -> io::Result<()> {
        self.fit()?;
        let columns = self.canvas.columns();
        match std::mem::replace(&mut self.showing, Showing::Nothing) {
            Showing::Nothing => {}
            Showing::Waiting { .. } => {
                self.canvas.draw(&[], &[])?;
            }
            Showing::Text(markdown) | Showing::Thinking(markdown) => {
                self.canvas.draw(&markdown.finish(columns), &[])?;
                self.needs_gap = true;
            }
            Showing::Calls(calls) => {
                self.canvas.draw(&calls.done_lines(columns, Instant::now()), &[])?;
                self.needs_gap = true;
            }
        }
        self.drawn = None;
        self.canvas.rest()
    }

    fn note(&mut self, label: &str, style: Style, text: &str) -> io::Result<()> {
        self.begin_section()?;
        self.below(label, style, text)
    }

    /// A line as it is, with all its spaces, below what was said.
    fn verbatim(&mut self, text: &str) -> io::Result<()> {
        self.settle()?;
        let lines =
            chop(&Span::ours(sanitize(text), Style::new()), &Margin::default(), self.canvas.columns());
        self.canvas.draw(&lines, &[])?;
        self.needs_gap = true;
        Ok(())
    }

    /// As [`Drawn::say`], without an empty line above.
    fn below(&mut self, label: &str, style: Style, text: &str) -> io::Result<()> {
        self.settle()?;
        let columns = self.canvas.columns();
        let mut spans = Vec::new();
        if !label.is_empty() {
            spans.push(Span::ours(format!("{label} "), style));
        }
        for (index, line) in text.lines().enumerate() {
            if index > 0 {
                spans.push(Span::ours("\n", Style::new()));
            }
            spans.push(Span::ours(sanitize(line), Style::new()));
        }
        let lines = wrap(&spans, &Margin::default(), columns);
        self.canvas.draw(&lines, &[])?;
        self.needs_gap = true;
        Ok(())
    }
}

impl Plain {
    fn text(&mut self, piece: &str) -> io::Result<()> {
        let piece = if self.has_text || self.is_within_line { piece } else { piece.trim_start() };
        if piece.is_empty() {
            return Ok(());
        }
        let safe: String = piece.split_inclusive(['\n', '\t']).map(disarmed).collect();
        self.has_text = true;
        self.is_within_line = !safe.ends_with('\n');
        let mut out = io::stdout().lock();
        out.write_all(safe.as_bytes())?;
        out.flush()
    }

    fn end_line(&mut self) -> io::Result<()> {
        self.has_text = false;
        if std::mem::take(&mut self.is_within_line) {
            let mut out = io::stdout().lock();
            out.write_all(b"\n")?;
            out.flush()?;
        }
        Ok(())
    }
}

/// One line, or a part of it up to a tab, which are left as they are.
fn disarmed(piece: &str) -> String {
    match piece.strip_suffix(['\n', '\t']) {
        Some(text) => format!("{}{}", sanitize(text.trim_end_matches('\r')), &piece[piece.len() - 1..]),
        None => sanitize(piece),
    }
}
