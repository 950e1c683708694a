//! Tools a dialect cannot take, named on standard error.

use std::fmt::Write as _;

use toolwire_dialect::{Report, Status};

use crate::failure::{ERROR, HINT, NOTE, say};
use crate::shown::shown;

/// How much a refused tool matters to the command that met it.
#[derive(Clone, Copy)]
pub(crate) enum Weight {
    /// The command fails because of it.
    Error,
    /// The command can do its work without it.
    Warning,
}

/// Names each refused tool with its reason, says what to try, and returns how many there are.
pub(crate) fn tell(reports: &[Report], weight: Weight, hint: &str) -> usize {
    let mut text = String::new();
    let mut refused = 0;
    for (index, report) in reports.iter().enumerate() {
        if report.status == Status::Refused {
            refused += 1;
            let (style, word) = match weight {
                Weight::Error => (ERROR, "error"),
                Weight::Warning => (NOTE, "warning"),
            };
            let _ = writeln!(text, "{style}{word}:{style:#} {}", sentence(report, index, reports.len()));
        }
    }
    if refused > 0 {
        let _ = writeln!(text, "{HINT}hint:{HINT:#} {hint}");
        say(&text);
    }
    refused
}

fn sentence(report: &Report, index: usize, count: usize) -> String {
    let tool = match count {
        1 => format!("tool `{}`", shown(&report.tool)),
        _ => format!("tool {} of {count}, `{}`,", index + 1, shown(&report.tool)),
    };
    let mut text = format!("{tool} is refused for `{}`", report.dialect);
    if let Some(reason) = &report.reason {
        let _ = write!(text, ": {}", shown(&reason.message));
        if !reason.pointer.is_empty() {
            let _ = write!(text, " (at `{}`)", shown(&reason.pointer));
        }
    }
    text
}
