//! Displays a response on a terminal.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anstyle::Style;

use crate::display::calls::{Calls, format_duration, spinner_frame};
use crate::display::canvas::{Canvas, Size};
use crate::display::images::{Image, Protocol, more_images, query};
use crate::display::line::{Line, Margin, Span, wrap, wrap_verbatim};
use crate::display::markdown::{DIMMED, Markdown, TextFormat};
use crate::terminal_text::{sanitize, truncate};

/// The shortest time between two drawings of streamed text.
const MIN_REDRAW_INTERVAL: Duration = Duration::from_millis(25);
/// The next drawing waits at least this multiple of the time that the last one took: a long paragraph is
/// laid out again each time.
const REDRAW_COST_FACTOR: u32 = 4;

/// The part of the response at the bottom of the screen, which can still change.
enum Section {
    None,
    Waiting { reason: String, since: Instant },
    Text(Markdown),
    Thinking(Markdown),
    Calls(Calls),
}

/// A response drawn on a terminal.
pub(crate) struct TerminalView<W> {
    canvas: Canvas<W>,
    section: Section,
    /// The calls that still run although their section has ended.
    interrupted: Calls,
    /// Whether the next section needs an empty line above.
    pub(super) needs_gap: bool,
    /// The time of the last drawing, and how long it took.
    last_drawing: Option<(Instant, Duration)>,
    size: Box<dyn FnMut() -> Size + Send>,
    /// The images of the finished calls, and how many more there are. They are displayed below the calls.
    images: (Vec<Image>, usize),
    pub(super) image_protocol: Option<Protocol>,
    /// Whether the terminal may be queried for its capabilities.
    pub(super) can_query: bool,
    /// The keys that were typed while the terminal was queried.
    pub(super) typed: String,
}

impl<W: Write> TerminalView<W> {
    pub(crate) fn new(out: W, mut size: Box<dyn FnMut() -> Size + Send>) -> TerminalView<W> {
        let canvas = Canvas::new(out, size());
        TerminalView {
            canvas,
            section: Section::None,
            interrupted: Calls::default(),
            needs_gap: false,
            last_drawing: None,
            size,
            images: (Vec::new(), 0),
            image_protocol: None,
            can_query: false,
            typed: String::new(),
        }
    }

    /// Displays images when the current calls are complete.
    pub(super) fn add_images(&mut self, (images, more): (Vec<Image>, usize)) {
        self.images.0.extend(images);
        self.images.1 += more;
    }

    fn draw_images(&mut self) -> io::Result<()> {
        let (images, more) = std::mem::take(&mut self.images);
        if !images.is_empty() && self.image_protocol.is_none() && std::mem::take(&mut self.can_query) {
            let (has_sixel, typed) = query::has_sixel();
            self.image_protocol = has_sixel.then_some(Protocol::Sixel);
            self.typed.push_str(&typed);
        }
        for image in images {
            let size = (self.size)();
            match self.image_protocol.and_then(|protocol| image.draw(protocol, size)) {
                Some(drawing) => self.canvas.write_image(&drawing)?,
                None => self.print_labelled("image:", DIMMED, &image.save())?,
            }
        }
        match more_images(more) {
            Some(note) => self.print_labelled("", DIMMED, &note),
            None => Ok(()),
        }
    }

    pub(super) fn show_waiting(&mut self, reason: &str) -> io::Result<()> {
        if let Section::Waiting { reason: displayed, .. } = &mut self.section {
            reason.clone_into(displayed);
        } else {
            self.begin_section()?;
            self.section = Section::Waiting { reason: reason.to_owned(), since: Instant::now() };
        }
        self.draw()
    }

    pub(super) fn push_text(&mut self, piece: &str) -> io::Result<()> {
        if !matches!(self.section, Section::Text(_)) {
            // Leading white space alone would create an empty section.
            if piece.trim().is_empty() {
                return Ok(());
            }
            self.begin_section()?;
            self.section = Section::Text(Markdown::new(TextFormat::Markdown));
        }
        if let Section::Text(markdown) = &mut self.section {
            markdown.push(piece);
        }
        self.draw_throttled()
    }

    pub(super) fn push_thinking(&mut self, piece: &str) -> io::Result<()> {
        if !matches!(self.section, Section::Thinking(_)) {
            if piece.trim().is_empty() {
                return Ok(());
            }
            self.begin_section()?;
            self.section = Section::Thinking(Markdown::new(TextFormat::Plain(DIMMED.italic())));
        }
        if let Section::Thinking(markdown) = &mut self.section {
            markdown.push(piece);
        }
        self.draw_throttled()
    }

    pub(super) fn update_calls(&mut self, change: impl FnOnce(&mut Calls, Instant)) -> io::Result<()> {
        if !matches!(self.section, Section::Calls(_)) {
            self.begin_section()?;
            self.section = Section::Calls(std::mem::take(&mut self.interrupted));
        }
        if let Section::Calls(calls) = &mut self.section {
            change(calls, Instant::now());
        }
        self.draw()
    }

    pub(super) fn draw_throttled(&mut self) -> io::Result<()> {
        match self.last_drawing {
            Some((at, took)) if at.elapsed() < MIN_REDRAW_INTERVAL.max(took * REDRAW_COST_FACTOR) => Ok(()),
            _ => self.draw(),
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        let start = Instant::now();
        let outcome = self.draw_at(start);
        self.last_drawing = Some((Instant::now(), start.elapsed()));
        outcome
    }

    fn draw_at(&mut self, now: Instant) -> io::Result<()> {
        self.update_size()?;
        let columns = self.canvas.columns();
        match &mut self.section {
            Section::None => Ok(()),
            Section::Waiting { reason, since } => {
                let elapsed = now.saturating_duration_since(*since);
                let text = format!("{} {reason}  {}", spinner_frame(elapsed), format_duration(elapsed));
                let line = Line::decoration(truncate(&text, columns), DIMMED);
                self.canvas.draw(&[], &[line]).map(drop)
            }
            Section::Text(markdown) | Section::Thinking(markdown) => {
                let rendered = markdown.lines(columns);
                if let Some(end) = self.canvas.draw(&rendered.settled, &rendered.open)? {
                    markdown.freeze(end);
                }
                Ok(())
            }
            Section::Calls(calls) => {
                let mut lines = calls.lines(columns, now);
                let excess = lines.len().saturating_sub(self.canvas.max_live_lines());
                lines.drain(..excess);
                self.canvas.draw(&[], &lines).map(drop)
            }
        }
    }

    /// Adopts the terminal's current size.
    fn update_size(&mut self) -> io::Result<()> {
        let size = (self.size)();
        if let Some(end) = self.canvas.resize(size)?
            && let Section::Text(markdown) | Section::Thinking(markdown) = &mut self.section
        {
            markdown.freeze(end);
        }
        Ok(())
    }

    /// Finishes the current section and draws the empty line above the next one.
    fn begin_section(&mut self) -> io::Result<()> {
        self.finish_section()?;
        if std::mem::take(&mut self.needs_gap) {
            self.canvas.draw(&[Line::default()], &[])?;
        }
        Ok(())
    }

    pub(super) fn finish_section(&mut self) -> io::Result<()> {
        self.update_size()?;
        let columns = self.canvas.columns();
        match std::mem::replace(&mut self.section, Section::None) {
            Section::None => {}
            Section::Waiting { .. } => {
                self.canvas.draw(&[], &[])?;
            }
            Section::Text(markdown) | Section::Thinking(markdown) => {
                self.canvas.draw(&markdown.finish(columns), &[])?;
                self.needs_gap = true;
            }
            Section::Calls(calls) => {
                self.canvas.draw(&calls.done_lines(columns, Instant::now()), &[])?;
                self.interrupted = calls.into_interrupted();
                self.needs_gap = true;
            }
        }
        self.last_drawing = None;
        self.canvas.release()?;
        self.draw_images()
    }

    pub(super) fn print_status(&mut self, text: &str) -> io::Result<()> {
        self.begin_section()?;
        let line = Line::decoration(truncate(text, self.canvas.columns()), DIMMED);
        self.canvas.draw(&[line], &[]).map(drop)
    }

    pub(super) fn note(&mut self, label: &str, style: Style, text: &str) -> io::Result<()> {
        self.begin_section()?;
        self.print_labelled(label, style, text)
    }

    pub(super) fn print_user_text(&mut self, text: &str) -> io::Result<()> {
        self.begin_section()?;
        let indent = |text: &str| vec![Span::decoration(text, DIMMED)];
        for line in text.lines() {
            let margin = Margin { first: indent("> "), rest: indent("  ") };
            let span = Span::decoration(sanitize(line), DIMMED);
            self.canvas.draw(&wrap(&[span], &margin, self.canvas.columns()), &[])?;
        }
        self.needs_gap = true;
        Ok(())
    }

    /// Prints a line with all its spaces.
    pub(super) fn print_verbatim(&mut self, text: &str) -> io::Result<()> {
        self.finish_section()?;
        let span = Span::decoration(sanitize(text), Style::new());
        self.canvas.draw(&wrap_verbatim(&span, self.canvas.columns()), &[])?;
        self.needs_gap = true;
        Ok(())
    }

    /// Prints a label and a text, without an empty line above.
    pub(super) fn print_labelled(&mut self, label: &str, style: Style, text: &str) -> io::Result<()> {
        self.finish_section()?;
        let mut spans = Vec::new();
        if !label.is_empty() {
            spans.push(Span::decoration(format!("{label} "), style));
        }
        for (index, line) in text.lines().enumerate() {
            if index > 0 {
                spans.push(Span::decoration("\n", Style::new()));
            }
            spans.push(Span::decoration(sanitize(line), Style::new()));
        }
        self.canvas.draw(&wrap(&spans, &Margin::default(), self.canvas.columns()), &[])?;
        self.needs_gap = true;
        Ok(())
    }
}
