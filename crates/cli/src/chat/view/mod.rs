//! Displays a response while it streams: thinking, text and calls.

mod plain;
mod terminal;

use std::io::{self, Stdout, Write};
use std::time::{Duration, Instant};

use anstyle::Style;
use serde_json::{Map, Value};
use toolwire_contract::{Progress, ToolResult};

use super::canvas::Size;
use super::markdown::DIMMED;
use crate::command_error::HINT;
use crate::terminal_text::sanitize;
use plain::PlainView;
use terminal::TerminalView;

/// The display of a response, on a terminal or as plain text.
pub(crate) enum View {
    Terminal(Box<TerminalView<Stdout>>),
    Plain(PlainView),
}

impl View {
    /// Creates a view on standard output.
    pub(crate) fn new(is_styled: bool) -> View {
        if is_styled {
            View::Terminal(Box::new(TerminalView::new(io::stdout(), Box::new(terminal_size))))
        } else {
            View::Plain(PlainView::default())
        }
    }

    /// Displays a spinner with the reason for waiting, until something else is displayed.
    pub(crate) fn show_waiting(&mut self, reason: &str) -> io::Result<()> {
        match self {
            View::Terminal(view) => view.show_waiting(reason),
            View::Plain(_) => Ok(()),
        }
    }

    pub(crate) fn push_text(&mut self, piece: &str) -> io::Result<()> {
        match self {
            View::Terminal(view) => view.push_text(piece),
            View::Plain(view) => view.push_text(piece),
        }
    }

    pub(crate) fn push_thinking(&mut self, piece: &str) -> io::Result<()> {
        match self {
            View::Terminal(view) => view.push_thinking(piece),
            View::Plain(_) => Ok(()),
        }
    }

    pub(crate) fn call_announced(&mut self, id: &str, name: &str) -> io::Result<()> {
        match self {
            View::Terminal(view) => view.update_calls(|calls, now| calls.announced(id, name, now)),
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
            View::Terminal(view) => view.update_calls(|calls, now| calls.started(id, name, arguments, now)),
            View::Plain(view) => {
                view.calls.started(id, name, arguments, Instant::now());
                Ok(())
            }
        }
    }

    pub(crate) fn call_progressed(&mut self, id: &str, progress: &Progress) -> io::Result<()> {
        match self {
            View::Terminal(view) => view.update_calls(|calls, _| calls.progressed(id, progress)),
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
            View::Terminal(view) => {
                view.update_calls(|calls, now| calls.finished(id, name, result, elapsed, now))
            }
            View::Plain(view) => {
                view.calls.finished(id, name, result, elapsed, Instant::now());
                let line = view.calls.plain_line(id).unwrap_or_default();
                view.end_line()?;
                writeln!(io::stderr(), "{line}")
            }
        }
    }

    /// Redraws, because time has passed or the terminal may have a new size.
    pub(crate) fn tick(&mut self) -> io::Result<()> {
        match self {
            View::Terminal(view) => view.draw_throttled(),
            View::Plain(_) => Ok(()),
        }
    }

    /// Draws the current section for the last time and moves the cursor to an empty line below.
    pub(crate) fn finish_section(&mut self) -> io::Result<()> {
        match self {
            View::Terminal(view) => view.finish_section(),
            View::Plain(view) => view.end_line(),
        }
    }

    /// Starts the next section without an empty line above, because the user has just typed a line.
    pub(crate) fn omit_gap(&mut self) {
        if let View::Terminal(view) = self {
            view.needs_gap = false;
        }
    }

    /// Starts the next section with an empty line above, because something was printed without this view.
    pub(crate) fn require_gap(&mut self) {
        if let View::Terminal(view) = self {
            view.needs_gap = true;
        }
    }

    /// Prints the status line above the prompt.
    pub(crate) fn print_status(&mut self, line: &str) -> io::Result<()> {
        match self {
            View::Terminal(view) => view.print_status(line),
            View::Plain(view) => {
                view.end_line()?;
                writeln!(io::stdout(), "{line}")
            }
        }
    }

    /// Prints a hint directly below the last note.
    pub(crate) fn hint(&mut self, text: &str) -> io::Result<()> {
        match self {
            View::Terminal(view) => view.print_labelled("hint:", HINT, text),
            View::Plain(_) => self.note("hint:", HINT, text),
        }
    }

    /// Prints lines directly below the last note, with all their spaces.
    pub(crate) fn print_lines(&mut self, lines: &[String]) -> io::Result<()> {
        for line in lines {
            match self {
                View::Terminal(view) => view.print_verbatim(line)?,
                View::Plain(_) => self.note("", DIMMED, line)?,
            }
        }
        Ok(())
    }

    /// Prints a note below the response.
    pub(crate) fn note(&mut self, label: &str, style: Style, text: &str) -> io::Result<()> {
        match self {
            View::Terminal(view) => view.note(label, style, text),
            View::Plain(view) => {
                view.end_line()?;
                let space = if label.is_empty() { "" } else { " " };
                let lines: Vec<String> = text.lines().map(sanitize).collect();
                writeln!(io::stderr(), "{label}{space}{}", lines.join("\n"))
            }
        }
    }
}

/// Returns the size of the terminal, or a default if it is unknown.
pub(crate) fn terminal_size() -> Size {
    match terminal_size::terminal_size() {
        Some((columns, rows)) if columns.0 > 0 && rows.0 > 0 => {
            Size { columns: columns.0.into(), rows: rows.0.into() }
        }
        _ => Size { columns: 80, rows: 24 },
    }
}
