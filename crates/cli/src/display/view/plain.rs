//! Writes a response as plain text.

use std::io::{self, Write};

use terminal_size::terminal_size_of;

use crate::display::calls::Calls;
use crate::terminal_text::{sanitize, width};

/// A response as plain text: its text on standard output, everything else on standard error.
#[derive(Default)]
pub(crate) struct PlainView {
    pub(super) calls: Calls,
    /// Whether the last line on standard output is incomplete.
    is_within_line: bool,
    has_text: bool,
    wrapping: WordWrapping,
}

impl PlainView {
    pub(super) fn push_text(&mut self, piece: &str) -> io::Result<()> {
        let piece = if self.has_text || self.is_within_line { piece } else { piece.trim_start() };
        if piece.is_empty() {
            return Ok(());
        }
        let safe: String = piece.split_inclusive(['\n', '\t']).map(sanitize_piece).collect();
        self.has_text = true;
        self.is_within_line = !safe.ends_with('\n');
        match terminal_size_of(io::stdout()) {
            Some((columns, _)) => write(&self.wrapping.push(&safe, columns.0.into())),
            None => write(&safe),
        }
    }

    pub(super) fn end_line(&mut self) -> io::Result<()> {
        self.has_text = false;
        if std::mem::take(&mut self.is_within_line) {
            write(&match terminal_size_of(io::stdout()) {
                Some((columns, _)) => self.wrapping.push("\n", columns.0.into()),
                None => "\n".to_owned(),
            })?;
        }
        self.wrapping = WordWrapping::default();
        Ok(())
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Wraps streamed text at spaces. A word is written when it is complete.
#[derive(Default)]
struct WordWrapping {
    /// The columns of the row that are written.
    used: usize,
    word: String,
    /// The line of the text, which may have several rows.
    line: String,
    is_in_code: bool,
}

impl WordWrapping {
    /// Adds a piece and returns the text to write.
    fn push(&mut self, piece: &str, columns: usize) -> String {
        let mut text = String::new();
        for character in piece.chars() {
            if !matches!(character, ' ' | '\t' | '\n') {
                self.word.push(character);
                continue;
            }
            self.end_word(&mut text, columns);
            self.line.push(character);
            // A space after a full row would begin the next one, and leave it empty.
            if character != '\n' && self.is_prose() && self.used >= columns {
                continue;
            }
            text.push(character);
            self.used += 1;
            if character == '\n' {
                let is_fence = ["```", "~~~"].iter().any(|fence| self.line.trim_start().starts_with(fence));
                self.is_in_code ^= is_fence;
                self.used = 0;
                self.line.clear();
            }
        }
        text
    }

    /// Whether the line may be broken: a broken row of code or of a table would not be readable.
    fn is_prose(&self) -> bool {
        !self.is_in_code && !self.line.trim_start().starts_with('|')
    }

    fn end_word(&mut self, text: &mut String, columns: usize) {
        let word_width = width(&self.word);
        if self.is_prose() && self.used > 0 && self.used + word_width > columns && word_width > 0 {
            text.push('\n');
            self.used = 0;
        }
        text.push_str(&self.word);
        self.line.push_str(&self.word);
        self.used += word_width;
        self.word.clear();
    }
}

/// Sanitizes a piece of a line; a newline or tab at its end is not changed.
fn sanitize_piece(piece: &str) -> String {
    match piece.strip_suffix(['\n', '\t']) {
        Some(text) => format!("{}{}", sanitize(text.trim_end_matches('\r')), &piece[piece.len() - 1..]),
        None => sanitize(piece),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streamed_prose_is_wrapped_at_words_and_code_is_not() {
        let text = "one two three\n\n```\none two three\n```\n| one | two |\n天気 予報 a-long-word x\none two x three\n";
        let expected = "one two \nthree\n\n```\none two three\n```\n| one | two |\n天気 予報\na-long-word\nx\none two x\nthree\n";
        let mut wrapping = WordWrapping::default();
        let by_character: String =
            text.chars().map(|character| wrapping.push(&character.to_string(), 9)).collect();
        assert_eq!(by_character, expected);
        assert_eq!(WordWrapping::default().push(text, 9), expected);
    }
}
