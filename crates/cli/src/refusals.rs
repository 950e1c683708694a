//! Tools that a dialect refuses, listed on standard error.

use std::fmt::Write as _;

use toolwire_dialect::{Report, Status};

use crate::command_error::{ERROR, HINT, NOTE, print_stderr};
use crate::terminal_text::sanitize;

/// Whether a refused tool is an error for the command.
#[derive(Clone, Copy)]
pub(crate) enum Severity {
    /// The command fails because of it.
    Error,
    /// The command works without it.
    Warning,
}

/// Prints each refused tool with its reason, then the hint, and returns the number of refused tools. The hint
/// gets the pronoun for them: "it" or "them".
pub(crate) fn print(reports: &[Report], severity: Severity, hint: impl FnOnce(&str) -> String) -> usize {
    let mut text = String::new();
    let mut refused = 0;
    for (index, report) in reports.iter().enumerate() {
        if report.status == Status::Refused {
            refused += 1;
            let (style, word) = match severity {
                Severity::Error => (ERROR, "error"),
                Severity::Warning => (NOTE, "warning"),
            };
            let _ = writeln!(text, "{style}{word}:{style:#} {}", describe(report, index, reports.len()));
        }
    }
    if refused > 0 {
        let _ = writeln!(text, "{HINT}hint:{HINT:#} {}", hint(if refused == 1 { "it" } else { "them" }));
        print_stderr(&text);
    }
    refused
}

fn describe(report: &Report, index: usize, count: usize) -> String {
    let tool = match count {
        1 => format!("tool `{}`", sanitize(&report.tool)),
        _ => format!("tool {} of {count}, `{}`,", index + 1, sanitize(&report.tool)),
    };
    let mut text = format!("{tool} is refused for `{}`", report.dialect);
    if let Some(reason) = &report.reason {
        let _ = write!(text, ": {}", sanitize(&reason.message));
        if !reason.pointer.is_empty() {
            let _ = write!(text, " (at `{}`)", sanitize(&reason.pointer));
        }
    }
    text
}
