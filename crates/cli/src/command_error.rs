//! Errors of commands as printed on standard error: the message, the place in the input, a hint.

use std::process::ExitCode;

use anstyle::{AnsiColor, Style};

use crate::stderr;
use crate::terminal_text::{sanitize, wrapped_for};

pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(crate) const HINT: Style = AnsiColor::Cyan.on_default().bold();
pub(crate) const NOTE: Style = AnsiColor::Yellow.on_default().bold();

/// The message for a response that was refused or filtered.
pub(crate) const REFUSED: &str =
    "the model refused to answer, or a content filter of its provider blocked the response";

/// An error that ends a command, with its exit code.
#[derive(Debug)]
pub(crate) struct CommandError {
    exit: u8,
    message: String,
    excerpt: Option<String>,
    hint: Option<String>,
}

impl CommandError {
    /// The command line, or something it names, cannot be used: exit code 2.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { exit: 2, message: message.into(), excerpt: None, hint: None }
    }

    /// The work itself failed: exit code 1.
    pub(crate) fn work(message: impl Into<String>) -> Self {
        Self { exit: 1, ..Self::usage(message) }
    }

    /// The user interrupted the command: exit code 130 and no message.
    pub(crate) fn interrupted() -> Self {
        Self { exit: 130, ..Self::usage("") }
    }

    /// Adds the place in the input, as drawn lines.
    pub(crate) fn with_excerpt(self, excerpt: Option<String>) -> Self {
        Self { excerpt, ..self }
    }

    /// Adds a suggestion of one line.
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Sets or removes the hint; its text is sanitized.
    pub(crate) fn with_untrusted_hint(self, hint: Option<impl AsRef<str>>) -> Self {
        Self { hint: hint.map(|hint| sanitize(hint.as_ref())), ..self }
    }

    /// The message and the hint, for chat commands, which report an error and go on.
    pub(crate) fn into_parts(self) -> (String, Option<String>) {
        (self.message, self.hint)
    }

    /// Prints the error to standard error and returns the exit code.
    pub(crate) fn print(&self) -> ExitCode {
        if self.message.is_empty() {
            return ExitCode::from(self.exit);
        }
        print_stderr(&format!("{ERROR}error:{ERROR:#} {}\n", self.message));
        if let Some(excerpt) = &self.excerpt {
            let _ = stderr::print(excerpt.as_bytes());
        }
        if let Some(hint) = &self.hint {
            print_stderr(&format!("{HINT}hint:{HINT:#} {hint}\n"));
        }
        ExitCode::from(self.exit)
    }
}

/// Prints to standard error, with colours only if they are enabled and supported, and wrapped on a terminal.
/// Errors are ignored: standard error may be closed.
pub(crate) fn print_stderr(text: &str) {
    let text = wrapped_for(terminal_size::terminal_size_of(std::io::stderr()), text);
    let _ = stderr::print(text.as_bytes());
}
