//! Where the input comes from, and how its faults are shown.

use std::fs;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use toolwire_dialect::ReadError;

use crate::command_error::{CommandError, print_stderr};
use crate::terminal_text::{sanitize, width};

/// A file, or standard input.
pub(crate) enum Source {
    Stdin,
    File(PathBuf),
}

/// Text that was read whole.
pub(crate) struct Input {
    /// What the text is called in messages.
    pub(crate) label: String,
    pub(crate) text: String,
}

impl Source {
    /// `FILE`, `-` or nothing, as written on the command line.
    pub(crate) fn new(file: Option<&Path>) -> Self {
        match file {
            Some(path) if path != Path::new("-") => Source::File(path.to_owned()),
            _ => Source::Stdin,
        }
    }

    pub(crate) fn label(&self) -> String {
        match self {
            Source::Stdin => "standard input".to_owned(),
            Source::File(path) => format!("`{}`", sanitize(&path.to_string_lossy())),
        }
    }

    /// Reads everything. At a terminal, a person is told that `awaited` is expected.
    pub(crate) fn read(&self, awaited: &str) -> Result<Input, CommandError> {
        let label = self.label();
        let bytes = match self {
            Source::File(path) => fs::read(path),
            Source::Stdin => {
                tell_what_is_awaited(awaited);
                let mut bytes = Vec::new();
                io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
            }
        };
        let bytes = bytes.map_err(|error| unreadable(&label, &error))?;
        let text = String::from_utf8(bytes).map_err(|error| not_utf8(&label, error.as_bytes()))?;
        // Editors on Windows put a byte order mark in front; it is no part of the JSON.
        let text = match text.strip_prefix('\u{feff}') {
            Some(rest) => rest.to_owned(),
            None => text,
        };
        Ok(Input { label, text })
    }
}

impl Input {
    /// What is wrong with this text, with the place drawn.
    pub(crate) fn fault(&self, error: &ReadError, hint: &str) -> CommandError {
        CommandError::usage(format!("cannot read {}: {error}", self.label))
            .with_excerpt(excerpt(&self.text, error.line, error.column))
            .with_hint(hint)
    }
}

/// Says on standard error what a person at the terminal is expected to type.
pub(crate) fn tell_what_is_awaited(awaited: &str) {
    if io::stdin().is_terminal() {
        let end = if cfg!(windows) { "Ctrl-Z and Enter" } else { "Ctrl-D" };
        print_stderr(&format!("waiting for {awaited} on standard input; end with {end}\n"));
    }
}

fn unreadable(label: &str, error: &io::Error) -> CommandError {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "check the path, or use `-` for standard input",
        io::ErrorKind::PermissionDenied => "check the permissions of the file",
        io::ErrorKind::IsADirectory => "choose a file in it",
        _ => "check the path",
    };
    CommandError::usage(format!("cannot read {label}: {}", in_words(error))).with_hint(hint)
}

/// The system's message without its number.
pub(crate) fn in_words(error: &io::Error) -> String {
    let message = error.to_string();
    let words = message.split(" (os error").next().unwrap_or(&message);
    let mut characters = words.chars();
    characters.next().map(|first| first.to_lowercase().chain(characters).collect()).unwrap_or_default()
}

fn not_utf8(label: &str, bytes: &[u8]) -> CommandError {
    let offset = std::str::from_utf8(bytes).err().map_or(0, |error| error.valid_up_to());
    let line = bytes[..offset].iter().filter(|byte| **byte == b'\n').count() + 1;
    let line_start = bytes[..offset].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let column = String::from_utf8_lossy(&bytes[line_start..offset]).chars().count() + 1;
    let failure = CommandError::usage(format!(
        "cannot read {label}: not UTF-8 at line {line}, column {column} (byte {offset} is 0x{:02X})",
        bytes.get(offset).copied().unwrap_or_default()
    ));
    let looks_like_utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    failure.with_hint(if looks_like_utf16 {
        "this looks like UTF-16: save it as UTF-8"
    } else {
        "JSON is UTF-8: save the text in that encoding"
    })
}

/// The faulty line with a mark under the column, cut to what a terminal shows.
fn excerpt(text: &str, line: usize, column: usize) -> Option<String> {
    const BEFORE: usize = 40;
    const AFTER: usize = 30;

    let content = text.split('\n').nth(line.checked_sub(1)?)?;
    let before = column.checked_sub(1)?;
    let skipped = before.saturating_sub(BEFORE);
    let lead: String = content.chars().skip(skipped).take(before - skipped).collect();
    let rest: String = content.chars().skip(before).take(AFTER).collect();
    let (lead, rest) =
        (sanitize(&lead.replace('\t', " ")), sanitize(rest.replace('\t', " ").trim_end_matches('\r')));
    if lead.trim().is_empty() && rest.trim().is_empty() {
        return None;
    }
    let cut = if skipped > 0 { "…" } else { "" };
    let number = line.to_string();
    let gutter = " ".repeat(number.len());
    let indent = " ".repeat(width(cut) + width(&lead));
    Some(format!("  {number} | {cut}{lead}{rest}\n  {gutter} | {indent}^\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, line: usize, column: usize, expected: &str) {
        assert_eq!(excerpt(text, line, column).unwrap_or_default(), expected);
    }

    #[test]
    fn the_mark_stands_under_the_column() {
        check("[\n  {\"name\" 1}\n]", 2, 11, "  2 |   {\"name\" 1}\n    |           ^\n");
    }

    #[test]
    fn the_mark_counts_columns_and_not_characters() {
        check("{\"天気\" 1}", 1, 7, "  1 | {\"天気\" 1}\n    |         ^\n");
    }

    #[test]
    fn a_long_line_is_cut_on_both_sides() {
        let text = format!("[{}x{}]", "1,".repeat(100), ",1".repeat(100));
        let expected =
            format!("  1 | …{}x{},\n    | {}^\n", "1,".repeat(20), ",1".repeat(14), " ".repeat(41));
        check(&text, 1, 202, &expected);
    }

    #[test]
    fn an_end_of_input_past_the_text_draws_nothing() {
        check("", 1, 1, "");
        check("[\n", 2, 1, "");
    }
}
