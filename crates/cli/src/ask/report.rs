//! What happens while a question is answered, and the whole run as JSON.

use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use serde_json::{Map, Value, json};
use toolwire_agent::{AgentEvent, Ending, FinishedRun};
use toolwire_contract::{Content, ToolResult};

use crate::command_error::{CommandError, ERROR, HINT, NOTE, print_stderr};
use crate::convert::json as to_json;
use crate::output::unless_nobody_reads;
use crate::terminal_text::{sanitize, sanitize_lines, truncate};

const GOOD: Style = AnsiColor::Green.on_default().bold();
const NAME: Style = Style::new().bold();
const QUIET: Style = AnsiColor::BrightBlack.on_default();

/// Tells a person at the terminal what happens. Programs get the answer alone.
pub(super) struct Progress {
    /// The answer is shown as it comes, where only a person reads it.
    streams: bool,
    tells_calls: bool,
    has_shown: bool,
    is_in_line: bool,
}

impl Progress {
    pub(super) fn new(as_json: bool) -> Progress {
        Progress {
            streams: io::stdout().is_terminal() && !as_json,
            tells_calls: io::stderr().is_terminal(),
            has_shown: false,
            is_in_line: false,
        }
    }

    /// Whether the answer is on the screen already.
    pub(super) fn has_shown_text(&self) -> bool {
        self.has_shown
    }

    pub(super) fn tell(&mut self, event: &AgentEvent) -> Result<(), CommandError> {
        match event {
            AgentEvent::Text(text) if self.streams => {
                self.has_shown = true;
                self.is_in_line = !text.ends_with('\n');
                let safe = sanitize_lines(text);
                let mut stdout = io::stdout().lock();
                stdout.write_all(safe.as_bytes()).and_then(|()| stdout.flush()).or_else(unless_nobody_reads)
            }
            AgentEvent::ApprovalNeeded(call) => {
                self.end()?;
                let name = sanitize(&call.name);
                print_stderr(&format!("{NOTE}note:{NOTE:#} `{name}` was not run: {}\n", sanitize(&call.why)));
                print_stderr(&format!("{HINT}hint:{HINT:#} `--allow {name}` lets it run\n"));
                Ok(())
            }
            AgentEvent::CallStarted { name, arguments, .. } if self.tells_calls => {
                self.end()?;
                let arguments = truncate(&sanitize(&Value::Object(arguments.clone()).to_string()), 80);
                print_stderr(&format!(
                    "{QUIET}→{QUIET:#} {NAME}{}{NAME:#} {QUIET}{arguments}{QUIET:#}\n",
                    sanitize(name)
                ));
                Ok(())
            }
            AgentEvent::CallFinished { name, result, elapsed, .. } if self.tells_calls => {
                self.end()?;
                let mark = if result.is_error() {
                    format!("{ERROR}✗{ERROR:#}")
                } else {
                    format!("{GOOD}✓{GOOD:#}")
                };
                let took = elapsed.map(|elapsed| format!(" {} ms", elapsed.as_millis())).unwrap_or_default();
                let text = truncate(&sanitize(&in_short(result)), 80);
                print_stderr(&format!(
                    "{mark} {NAME}{}{NAME:#}{QUIET}{took}{QUIET:#} {text}\n",
                    sanitize(name)
                ));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Ends the line that is being written.
    pub(super) fn end(&mut self) -> Result<(), CommandError> {
        if std::mem::take(&mut self.is_in_line) {
            let mut stdout = io::stdout().lock();
            stdout.write_all(b"\n").and_then(|()| stdout.flush()).or_else(unless_nobody_reads)?;
        }
        Ok(())
    }
}

/// The first line that says something.
fn in_short(result: &ToolResult) -> String {
    let mut texts = result.blocks().iter().map(|block| match block {
        Content::Text { text, .. } => {
            text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned()
        }
        other => format!("[{}]", other.type_name().unwrap_or("something")),
    });
    let first = texts.find(|text| !text.trim().is_empty());
    first.or_else(|| result.structured_content.as_ref().map(Value::to_string)).unwrap_or_default()
}

/// The whole run, for programs.
pub(super) fn as_json(model: &str, finished: &FinishedRun) -> String {
    let outcome = &finished.outcome;
    let (ending, detail) = match &outcome.ending {
        Ending::Finished => ("finished", None),
        Ending::Stopped(limit) => ("stopped", Some(json!({"limit": limit, "message": limit.to_string()}))),
        Ending::Cancelled => ("cancelled", None),
        Ending::NeedsApproval(calls) => ("needs_approval", Some(json!({ "calls": calls }))),
        Ending::Failed(failure) => {
            ("failed", Some(json!({"code": failure.code, "message": failure.message, "hint": failure.hint})))
        }
        _ => ("other", None),
    };
    let mut report = Map::new();
    report.insert("answer".into(), json!(outcome.text));
    report.insert("ending".into(), json!(ending));
    if let Some(detail) = detail {
        report.insert("detail".into(), detail);
    }
    if let Some(stop) = &outcome.stop {
        report.insert("stop".into(), json!(stop));
    }
    report.insert("model".into(), json!(model));
    report.insert("steps".into(), json!(outcome.steps));
    report.insert("usage".into(), json!(outcome.usage));
    if let Some((id, _)) = finished.run.stored_in() {
        report.insert("conversation".into(), json!(id));
    }
    report.insert("messages".into(), json!(finished.run.messages()));
    to_json(&report, false)
}
