//! What went wrong, told as a person wants to read it: the error, the place, the next thing to try.

use std::fmt::Write as _;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};

use crate::screen;

pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(crate) const HINT: Style = AnsiColor::Cyan.on_default().bold();
pub(crate) const NOTE: Style = AnsiColor::Yellow.on_default().bold();

/// What is said of an answer that is none.
pub(crate) const REFUSED: &str =
    "the model refused to answer, or a content filter of its provider blocked the response";

/// Why a command could not do its work.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: u8,
    message: String,
    excerpt: Option<String>,
    hint: Option<String>,
}

impl Failure {
    /// The command line, or something it names, cannot be used: exit code 2.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { exit: 2, message: message.into(), excerpt: None, hint: None }
    }

    /// The work itself failed: exit code 1.
    pub(crate) fn work(message: impl Into<String>) -> Self {
        Self { exit: 1, ..Self::usage(message) }
    }

    /// A person ended it, and knows: exit code 130, and no words.
    pub(crate) fn interrupted() -> Self {
        Self { exit: 130, ..Self::usage("") }
    }

    /// The place in the input, drawn.
    pub(crate) fn with_excerpt(self, excerpt: Option<String>) -> Self {
        Self { excerpt, ..self }
    }

    /// The next thing to try, in one line.
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// What failed, and the next thing to try: for a command within which it is no end.
    pub(crate) fn into_words(self) -> (String, Option<String>) {
        (self.message, self.hint)
    }

    /// Prints the failure to standard error and gives the exit code.
    pub(crate) fn tell(&self) -> ExitCode {
        if self.message.is_empty() {
            return ExitCode::from(self.exit);
        }
        let mut text = format!("{ERROR}error:{ERROR:#} {}\n", self.message);
        if let Some(excerpt) = &self.excerpt {
            text.push_str(excerpt);
        }
        if let Some(hint) = &self.hint {
            let _ = writeln!(text, "{HINT}hint:{HINT:#} {hint}");
        }
        say(&text);
        ExitCode::from(self.exit)
    }
}

/// Prints to standard error, coloured only where that is wanted. A closed standard error leaves nobody to
/// tell.
pub(crate) fn say(text: &str) {
    let _ = screen::tell(text.as_bytes());
}
