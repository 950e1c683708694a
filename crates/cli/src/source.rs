//! Reads the input of a command and describes its errors.

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

/// The complete text of a source.
pub(crate) struct Input {
    /// The source's name in messages.
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

    /// Reads everything. On a terminal, prints that `expected` is to be typed.
    pub(crate) fn read(&self, expected: &str) -> Result<Input, CommandError> {
        let label = self.label();
        let bytes = match self {
            Source::File(path) => fs::read(path),
            Source::Stdin => {
                print_input_prompt(expected);
                let mut bytes = Vec::new();
                io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
            }
        };
        let bytes = bytes.map_err(|error| unreadable(&label, &error))?;
        let text = String::from_utf8(bytes).map_err(|error| not_utf8(&label, error.as_bytes()))?;
        // Editors on Windows write a byte order mark, which is not part of the JSON.
        let text = match text.strip_prefix('\u{feff}') {
            Some(rest) => rest.to_owned(),
            None => text,
        };
        Ok(Input { label, text })
    }
}

impl Input {
    /// Returns the error for a text that cannot be parsed, with an excerpt.
    pub(crate) fn parse_error(&self, error: &ReadError, hint: &str) -> CommandError {
        CommandError::usage(format!("cannot read {}: {error}", self.label))
            .with_excerpt(excerpt(&self.text, error.line, error.column))
            .with_hint(hint)
    }
}

/// Prints to standard error which input is expected, if standard input is a terminal.
pub(crate) fn print_input_prompt(expected: &str) {
    if io::stdin().is_terminal() {
        let end = if cfg!(windows) { "Ctrl-Z and Enter" } else { "Ctrl-D" };
        print_stderr(&format!("waiting for {expected} on standard input; end with {end}\n"));
    }
}

fn unreadable(label: &str, error: &io::Error) -> CommandError {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::PermissionDenied => "check the permissions of the file",
        io::ErrorKind::IsADirectory => "choose a file in it",
        _ => "check the path",
    };
    CommandError::usage(format!("cannot read {label}: {}", describe_io_error(error))).with_hint(hint)
}

/// Describes an I/O error without the system's error number, if its kind says enough.
pub(crate) fn describe_io_error(error: &io::Error) -> String {
    use io::ErrorKind as Kind;

    match error.kind() {
        // The error was not created by the system and has a message of its own.
        _ if error.raw_os_error().is_none() => error.to_string(),
        Kind::NotFound => "no such file or directory".to_owned(),
        kind @ (Kind::PermissionDenied
        | Kind::IsADirectory
        | Kind::NotADirectory
        | Kind::AlreadyExists
        | Kind::BrokenPipe
        | Kind::FileTooLarge
        | Kind::InvalidFilename
        | Kind::QuotaExceeded
        | Kind::ReadOnlyFilesystem
        | Kind::StorageFull) => kind.to_string(),
        _ => error.to_string(),
    }
}

fn not_utf8(label: &str, bytes: &[u8]) -> CommandError {
    let offset = std::str::from_utf8(bytes).err().map_or(0, |error| error.valid_up_to());
    let line = bytes[..offset].iter().filter(|byte| **byte == b'\n').count() + 1;
    let line_start = bytes[..offset].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let column = String::from_utf8_lossy(&bytes[line_start..offset]).chars().count() + 1;
    let error = CommandError::usage(format!(
        "cannot read {label}: not UTF-8 at line {line}, column {column} (byte {offset} is 0x{:02X})",
        bytes.get(offset).copied().unwrap_or_default()
    ));
    let looks_like_utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    error.with_hint(if looks_like_utf16 {
        "this looks like UTF-16: save it as UTF-8"
    } else {
        "JSON is UTF-8: save the text in that encoding"
    })
}

/// Returns the line with a mark under the column, shortened on both sides. `None` if the line is blank.
fn excerpt(text: &str, line: usize, column: usize) -> Option<String> {
    const MAX_CHARS_BEFORE: usize = 40;
    const MAX_CHARS_AFTER: usize = 30;

    let content = text.split('\n').nth(line.checked_sub(1)?)?;
    let before = column.checked_sub(1)?;
    let skipped = before.saturating_sub(MAX_CHARS_BEFORE);
    let lead: String = content.chars().skip(skipped).take(before - skipped).collect();
    let rest: String = content.chars().skip(before).take(MAX_CHARS_AFTER).collect();
    let (lead, rest) =
        (sanitize(&lead.replace('\t', " ")), sanitize(rest.replace('\t', " ").trim_end_matches('\r')));
    if lead.trim().is_empty() && rest.trim().is_empty() {
        return None;
    }
    let ellipsis = if skipped > 0 { "…" } else { "" };
    let number = line.to_string();
    let gutter = " ".repeat(number.len());
    let indent = " ".repeat(width(ellipsis) + width(&lead));
    Some(format!("  {number} | {ellipsis}{lead}{rest}\n  {gutter} | {indent}^\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, line: usize, column: usize, expected: &str) {
        assert_eq!(excerpt(text, line, column).unwrap_or_default(), expected);
    }

    #[test]
    fn system_errors_are_described_by_their_kind() {
        let text = |error: io::Error| describe_io_error(&error);
        assert_eq!(text(fs::read("/no/such/file").expect_err("a missing file")), "no such file or directory");
        assert_eq!(text(io::Error::other("closed early")), "closed early");
    }

    #[test]
    fn the_mark_is_under_the_column() {
        check("[\n  {\"name\" 1}\n]", 2, 11, "  2 |   {\"name\" 1}\n    |           ^\n");
    }

    #[test]
    fn wide_characters_move_the_mark() {
        check("{\"天気\" 1}", 1, 7, "  1 | {\"天気\" 1}\n    |         ^\n");
    }

    #[test]
    fn long_lines_are_shortened_on_both_sides() {
        let text = format!("[{}x{}]", "1,".repeat(100), ",1".repeat(100));
        let expected =
            format!("  1 | …{}x{},\n    | {}^\n", "1,".repeat(20), ",1".repeat(14), " ".repeat(41));
        check(&text, 1, 202, &expected);
    }

    #[test]
    fn an_error_after_the_last_line_has_no_excerpt() {
        check("", 1, 1, "");
        check("[\n", 2, 1, "");
    }
}
