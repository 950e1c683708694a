//! Displays a response while it streams: thinking, text and calls.

mod plain;
mod terminal;

use std::io::{self, IsTerminal, Stdout, Write};
use std::time::{Duration, Instant};

use anstyle::Style;
use serde_json::{Map, Value};
use toolwire_agent::{AgentEvent, FinishedRun};
use toolwire_contract::ToolResult;
use toolwire_contract::model::ModelError;
use toolwire_contract::text::counted;
use toolwire_contract::toolbox::Progress;

use super::canvas::Size;
use super::images::{self, Protocol, image_notes, images_of};
use crate::command_error::{HINT, NOTE, print_stderr};
use crate::terminal_text::{describe_embedding_failure, describe_reduction, sanitize};
use plain::PlainView;
use terminal::TerminalView;

/// The time between two drawings of the spinner.
pub(crate) const SPINNER_INTERVAL: Duration = Duration::from_millis(80);

/// The display of a response, on a terminal or as plain text.
pub(crate) enum View {
    Terminal(Box<TerminalView<Stdout>>),
    Plain(PlainView),
}

impl View {
    /// Creates a view on standard output.
    pub(crate) fn new(is_styled: bool) -> View {
        if is_styled {
            let mut view = TerminalView::new(io::stdout(), Box::new(terminal_size));
            view.image_protocol = Protocol::of_terminal();
            View::Terminal(Box::new(view))
        } else {
            View::Plain(PlainView::default())
        }
    }

    /// Allows a query to the terminal whether it supports images. It is sent before the first image, and only
    /// if nothing else determines this.
    pub(crate) fn allow_image_query(&mut self) {
        if let View::Terminal(view) = self {
            view.can_query = images::is_query_safe();
        }
    }

    /// Returns the text that the user typed while the terminal was queried.
    pub(crate) fn take_typed(&mut self) -> String {
        match self {
            View::Terminal(view) => std::mem::take(&mut view.typed),
            View::Plain(_) => String::new(),
        }
    }

    /// Displays a spinner with the reason for waiting, until something else is displayed.
    pub(crate) fn show_waiting(&mut self, reason: &str) -> io::Result<()> {
        match self {
            View::Terminal(view) => view.show_waiting(reason),
            View::Plain(_) => Ok(()),
        }
    }

    /// Displays that a request is sent again, until something else is displayed.
    fn show_retry(&mut self, text: &str) -> io::Result<()> {
        match self {
            View::Terminal(view) => view.show_waiting(text),
            View::Plain(_) => self.note("note:", NOTE, text),
        }
    }

    pub(crate) fn push_text(&mut self, piece: &str) -> io::Result<()> {
        match self {
            View::Terminal(view) => view.push_text(piece),
            View::Plain(view) => view.push_text(piece),
        }
    }

    /// Displays a message that the user wrote earlier.
    pub(crate) fn push_user_text(&mut self, text: &str) -> io::Result<()> {
        match self {
            View::Terminal(view) => view.print_user_text(text),
            View::Plain(view) => {
                view.end_line()?;
                let lines: String = text.lines().map(|line| format!("> {}\n", sanitize(line))).collect();
                io::stdout().write_all(lines.as_bytes())
            }
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
                view.add_images(images_of(result));
                view.update_calls(|calls, now| calls.finished(id, name, result, elapsed, now))
            }
            View::Plain(view) => {
                view.calls.finished(id, name, result, elapsed, Instant::now());
                let line = view.calls.plain_line(id).unwrap_or_default();
                view.end_line()?;
                print_stderr(&format!("{line}\n{}", image_notes(result)));
                Ok(())
            }
        }
    }

    /// Displays an event of a run. Returns the finished run with the last one.
    pub(crate) fn show(&mut self, event: AgentEvent) -> io::Result<Option<FinishedRun>> {
        match event {
            AgentEvent::StepStarted { .. } => self.show_waiting("waiting for the model")?,
            AgentEvent::Text(piece) | AgentEvent::Refusal(piece) => self.push_text(&piece)?,
            AgentEvent::Thinking(piece) => self.push_thinking(&piece)?,
            AgentEvent::Retrying { after, retry, max_retries, error } => {
                self.show_retry(&retry_text(after, retry, max_retries, &error))?;
            }
            AgentEvent::CallAnnounced { id, name } => self.call_announced(&id, &name)?,
            AgentEvent::CallStarted { id, name, arguments } => self.call_started(&id, &name, &arguments)?,
            AgentEvent::CallProgress { id, progress } => self.call_progressed(&id, &progress)?,
            AgentEvent::CallFinished { id, name, result, elapsed } => {
                self.call_finished(&id, &name, &result, elapsed)?;
            }
            AgentEvent::ContextReduced(reduction) => {
                self.note("note:", NOTE, &describe_reduction(&reduction))?;
                self.show_waiting("waiting for the model")?;
            }
            AgentEvent::ContextSummarized { messages } => {
                let messages = counted(messages, "message");
                let note = format!("{messages} summarized, because the context window is nearly full");
                self.note("note:", NOTE, &note)?;
            }
            AgentEvent::EmbeddingsUnavailable(failure) => {
                self.note("note:", NOTE, &describe_embedding_failure(&failure))?;
            }
            AgentEvent::Done(finished) => return Ok(Some(*finished)),
            // Approvals are requested when the run pauses.
            _ => {}
        }
        Ok(None)
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
                View::Plain(view) => {
                    view.end_line()?;
                    writeln!(io::stderr(), "{}", sanitize(line))?;
                }
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
                print_stderr(&format!("{label}{space}{}\n", lines.join("\n")));
                Ok(())
            }
        }
    }
}

/// Describes a retry: `overloaded, trying again in 4 s, 2 of 5`.
pub(crate) fn retry_text(after: Duration, retry: u32, max_retries: u32, error: &ModelError) -> String {
    let reason = match error {
        ModelError::Refused { status: Some(429), .. } => "too many requests".to_owned(),
        ModelError::Refused { status: Some(503 | 529), .. } => "overloaded".to_owned(),
        ModelError::Refused { status: Some(status), .. } => format!("error {status}"),
        ModelError::Unreachable { .. } => "not reachable".to_owned(),
        ModelError::TimedOut { .. } => "no response".to_owned(),
        _ => "the request failed".to_owned(),
    };
    let seconds = after.as_secs_f64();
    let seconds = if seconds < 10.0 { format!("{seconds:.1}") } else { format!("{seconds:.0}") };
    format!("{reason}, trying again in {seconds} s, {retry} of {max_retries}")
}

/// Whether standard output is a terminal that supports drawing, and colours are not disabled.
pub(crate) fn is_styled() -> bool {
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !no_colour && !is_dumb()
}

/// Whether the terminal cannot move the cursor.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb")
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
