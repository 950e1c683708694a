//! Writes a response as plain text.

use std::io::{self, Write};

use crate::display::calls::Calls;
use crate::terminal_text::sanitize;

/// A response as plain text: its text on standard output, everything else on standard error.
#[derive(Default)]
pub(crate) struct PlainView {
    pub(super) calls: Calls,
    /// Whether the last line on standard output is incomplete.
    is_within_line: bool,
    has_text: bool,
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
        let mut out = io::stdout().lock();
        out.write_all(safe.as_bytes())?;
        out.flush()
    }

    pub(super) fn end_line(&mut self) -> io::Result<()> {
        self.has_text = false;
        if std::mem::take(&mut self.is_within_line) {
            let mut out = io::stdout().lock();
            out.write_all(b"\n")?;
            out.flush()?;
        }
        Ok(())
    }
}

/// Sanitizes a piece of a line; a newline or tab at its end is not changed.
fn sanitize_piece(piece: &str) -> String {
    match piece.strip_suffix(['\n', '\t']) {
        Some(text) => format!("{}{}", sanitize(text.trim_end_matches('\r')), &piece[piece.len() - 1..]),
        None => sanitize(piece),
    }
}
