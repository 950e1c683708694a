//! Draws at the bottom of the terminal: settled lines, and below them live lines that can be redrawn.
//!
//! Only lines that are known to be on the screen are overwritten. Lines that a resize or scrolling has made
//! unreachable stay as they are, and the caller gets the position in the source where they end.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::line::Line;

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

/// A terminal whose last lines can be redrawn.
pub(crate) struct Canvas<W> {
    out: W,
    size: Size,
    /// The lines that can be redrawn, which are the last ones on the screen.
    live: Vec<Row>,
    /// Whether the cursor is in the first column below the live lines; otherwise it is at the end of the last
    /// one.
    is_cursor_below: bool,
}

#[derive(Clone, PartialEq)]
struct Row {
    text: String,
    width: usize,
    end: usize,
}

impl From<&Line> for Row {
    fn from(line: &Line) -> Row {
        Row { text: line.styled(), width: line.width(), end: line.end }
    }
}

impl<W: Write> Canvas<W> {
    /// Creates a canvas. The cursor must be in the first column of an empty line.
    pub(crate) fn new(out: W, size: Size) -> Canvas<W> {
        Canvas { out, size, live: Vec::new(), is_cursor_below: true }
    }

    /// Returns the maximal width of a line. The last column stays free, because terminals differ in where the
    /// cursor is after it.
    pub(crate) fn columns(&self) -> usize {
        self.size.columns.saturating_sub(1).max(1)
    }

    /// Returns how many lines can be redrawn.
    pub(crate) fn max_live_lines(&self) -> usize {
        self.size.rows.saturating_sub(1).max(1)
    }

    /// Sets a new size. If the terminal has rewrapped live lines, their positions are unknown: they stay as
    /// they are, and the position in the source where they end is returned.
    pub(crate) fn resize(&mut self, size: Size) -> io::Result<Option<usize>> {
        self.size = size;
        if self.live.iter().all(|row| row.width <= size.columns) {
            return Ok(self.release_scrolled_lines());
        }
        let end = self.live.last().map(|row| row.end);
        self.release()?;
        Ok(end)
    }

    /// Replaces the live lines by `settled`, which can no longer change, and `open`, the new live lines. If
    /// live lines have scrolled off the screen, returns the position in the source where they end.
    pub(crate) fn draw(&mut self, settled: &[Line], open: &[Line]) -> io::Result<Option<usize>> {
        let rows: Vec<Row> = settled.iter().chain(open).map(Row::from).collect();
        let same = rows.iter().zip(&self.live).take_while(|(new, old)| new.text == old.text).count();
        let mut text = String::new();
        if same < rows.len() || same < self.live.len() {
            if same < self.live.len() {
                let up = self.live.len() - same - usize::from(!self.is_cursor_below);
                if up > 0 {
                    let _ = write!(text, "\x1b[{up}A");
                }
                text.push('\r');
            } else if !self.is_cursor_below {
                text.push_str("\r\n");
            }
            for (index, row) in rows[same..].iter().enumerate() {
                if index > 0 {
                    text.push_str("\r\n");
                }
                text.push_str(&row.text);
                text.push_str("\x1b[K");
            }
            self.is_cursor_below = same == rows.len();
            if rows.len() < self.live.len() {
                // Erases the old lines below.
                text.push_str(if self.is_cursor_below { "\x1b[J" } else { "\r\n\x1b[J" });
                self.is_cursor_below = true;
            }
        }
        if open.is_empty() && !self.is_cursor_below {
            text.push_str("\r\n");
            self.is_cursor_below = true;
        }
        self.live = rows;
        self.live.drain(..settled.len());
        self.out.write_all(text.as_bytes())?;
        self.out.flush()?;
        Ok(self.release_scrolled_lines())
    }

    /// Leaves the live lines as they are and moves the cursor below them.
    pub(crate) fn release(&mut self) -> io::Result<()> {
        if !self.is_cursor_below {
            self.out.write_all(b"\r\n")?;
            self.out.flush()?;
        }
        self.live.clear();
        self.is_cursor_below = true;
        Ok(())
    }

    /// Writes an image. The cursor must be below the live lines, and is in the first column after it.
    pub(crate) fn write_image(&mut self, image: &str) -> io::Result<()> {
        self.out.write_all(image.as_bytes())?;
        self.out.flush()
    }

    fn release_scrolled_lines(&mut self) -> Option<usize> {
        let scrolled = self.live.len().saturating_sub(self.max_live_lines());
        self.live.drain(..scrolled).next_back().map(|row| row.end)
    }
}

#[cfg(test)]
mod tests {
    use anstyle::Style;

    use crate::display::testing::terminal;

    use super::*;

    fn canvas(columns: u16, rows: u16) -> Canvas<vt100::Parser> {
        let size = Size { columns: columns.into(), rows: rows.into() };
        Canvas::new(terminal(rows, columns), size)
    }

    fn lines(texts: &[&str]) -> Vec<Line> {
        let line =
            |(index, text): (usize, &&str)| Line { end: index + 1, ..Line::decoration(*text, Style::new()) };
        texts.iter().enumerate().map(line).collect()
    }

    #[track_caller]
    fn check(canvas: &Canvas<vt100::Parser>, expected: &[&str]) {
        let contents = canvas.out.screen().contents();
        assert_eq!(contents.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn open_lines_are_redrawn_and_settled_lines_stay() {
        let mut canvas = canvas(20, 10);
        canvas.draw(&[], &lines(&["one", "two"])).expect("written");
        check(&canvas, &["one", "two"]);
        canvas.draw(&lines(&["one"]), &lines(&["TWO", "three"])).expect("written");
        check(&canvas, &["one", "TWO", "three"]);
        canvas.draw(&[], &lines(&["2"])).expect("written");
        check(&canvas, &["one", "2"]);
        canvas.draw(&lines(&["2", "end"]), &[]).expect("written");
        canvas.draw(&lines(&["next"]), &[]).expect("written");
        check(&canvas, &["one", "2", "end", "next"]);
    }

    #[test]
    fn lines_can_disappear_and_reappear() {
        let mut canvas = canvas(20, 10);
        canvas.draw(&lines(&["above"]), &lines(&["a", "b"])).expect("written");
        canvas.draw(&[], &[]).expect("written");
        check(&canvas, &["above"]);
        canvas.draw(&[], &lines(&["a"])).expect("written");
        canvas.draw(&[], &lines(&["a", "b"])).expect("written");
        canvas.draw(&[], &lines(&["a"])).expect("written");
        canvas.draw(&[], &lines(&["a", "c"])).expect("written");
        check(&canvas, &["above", "a", "c"]);
    }

    #[test]
    fn scrolled_lines_are_reported_and_not_redrawn() {
        let mut canvas = canvas(20, 4);
        let scrolled = canvas.draw(&[], &lines(&["1", "2", "3", "4", "5"])).expect("written");
        assert_eq!(scrolled, Some(2));
        canvas.draw(&[], &lines(&["3", "4", "five"])).expect("written");
        check(&canvas, &["2", "3", "4", "five"]);
    }

    #[test]
    fn lines_that_a_resize_has_rewrapped_stay() {
        let mut canvas = canvas(20, 10);
        canvas.draw(&[], &lines(&["a long line of text", "short"])).expect("written");
        assert_eq!(canvas.resize(Size { columns: 30, rows: 10 }).expect("written"), None);
        assert_eq!(canvas.resize(Size { columns: 10, rows: 10 }).expect("written"), Some(2));
        canvas.draw(&[], &lines(&["on"])).expect("written");
        check(&canvas, &["a long line of text", "short", "on"]);
    }
}
