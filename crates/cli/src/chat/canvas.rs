//! The lower end of the terminal: lines that stay, and below them lines that may still be drawn anew.
//!
//! Only what is known to be on the screen is ever overwritten. What a resize or the height of the screen puts
//! out of reach stays as it is, and the caller is told how far that goes.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::line::Line;

/// How large the terminal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

/// A terminal that is written to from top to bottom.
pub(crate) struct Canvas<W> {
    out: W,
    size: Size,
    /// The lines that may still change, the last ones on the screen.
    live: Vec<Row>,
    /// Whether the cursor stands below the live lines, at the left; otherwise at the end of the last of them.
    is_below: bool,
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
    /// The cursor must stand at the left of an empty line.
    pub(crate) fn new(out: W, size: Size) -> Canvas<W> {
        Canvas { out, size, live: Vec::new(), is_below: true }
    }

    /// How wide a line may be. The last column stays free: terminals differ in what they do when it is
    /// written to.
    pub(crate) fn columns(&self) -> usize {
        self.size.columns.saturating_sub(1).max(1)
    }

    /// How many lines can be drawn anew.
    pub(crate) fn reach(&self) -> usize {
        self.size.rows.saturating_sub(1).max(1)
    }

    /// Takes a new size. Live lines that the terminal has broken can no longer be counted on: they stay as
    /// they are, and the place in the source up to which they reach is given.
    pub(crate) fn resize(&mut self, size: Size) -> io::Result<Option<usize>> {
        self.size = size;
        if self.live.iter().all(|row| row.width <= size.columns) {
            return Ok(self.leave_unreachable());
        }
        let end = self.live.last().map(|row| row.end);
        self.rest()?;
        Ok(end)
    }

    /// Draws `settled`, which stays, and `open`, which takes the place of the live lines. Gives the place in
    /// the source up to which lines are out of reach now, if some are.
    pub(crate) fn draw(&mut self, settled: &[Line], open: &[Line]) -> io::Result<Option<usize>> {
        let rows: Vec<Row> = settled.iter().chain(open).map(Row::from).collect();
        let same = rows.iter().zip(&self.live).take_while(|(new, old)| new.text == old.text).count();
        let mut text = String::new();
        if same < rows.len() || same < self.live.len() {
            if same < self.live.len() {
                let up = self.live.len() - same - usize::from(!self.is_below);
                if up > 0 {
                    let _ = write!(text, "\x1b[{up}A");
                }
                text.push('\r');
            } else if !self.is_below {
                text.push_str("\r\n");
            }
            for (index, row) in rows[same..].iter().enumerate() {
                if index > 0 {
                    text.push_str("\r\n");
                }
                text.push_str(&row.text);
                text.push_str("\x1b[K");
            }
            self.is_below = same == rows.len();
            if rows.len() < self.live.len() {
                // What was below is gone; the cursor comes back to where it was.
                text.push_str(if self.is_below { "\x1b[J" } else { "\r\n\x1b[J" });
                self.is_below = true;
            }
        }
        if open.is_empty() && !self.is_below {
            text.push_str("\r\n");
            self.is_below = true;
        }
        self.live = rows;
        self.live.drain(..settled.len());
        self.out.write_all(text.as_bytes())?;
        self.out.flush()?;
        Ok(self.leave_unreachable())
    }

    /// What is live stays as it is; the cursor stands at the left below it.
    pub(crate) fn rest(&mut self) -> io::Result<()> {
        if !self.is_below {
            self.out.write_all(b"\r\n")?;
            self.out.flush()?;
        }
        self.live.clear();
        self.is_below = true;
        Ok(())
    }

    fn leave_unreachable(&mut self) -> Option<usize> {
        let over = self.live.len().checked_sub(self.reach()).filter(|over| *over > 0)?;
        self.live.drain(..over).next_back().map(|row| row.end)
    }
}

#[cfg(test)]
mod tests {
    use anstyle::Style;

    use crate::chat::testing::terminal;

    use super::*;

    /// A canvas on a terminal whose screen can be read.
    fn canvas(columns: u16, rows: u16) -> Canvas<vt100::Parser> {
        let size = Size { columns: columns.into(), rows: rows.into() };
        Canvas::new(terminal(rows, columns), size)
    }

    fn lines(texts: &[&str]) -> Vec<Line> {
        let line = |(index, text): (usize, &&str)| Line { end: index + 1, ..Line::ours(*text, Style::new()) };
        texts.iter().enumerate().map(line).collect()
    }

    #[track_caller]
    fn check(canvas: &Canvas<vt100::Parser>, expected: &[&str]) {
        let screen = canvas.out.screen();
        let shown = screen.contents();
        assert_eq!(shown.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn open_lines_are_drawn_anew_and_settled_ones_stay() {
        let mut canvas = canvas(20, 10);
        canvas.draw(&[], &lines(&["one", "two"])).expect("it is written");
        check(&canvas, &["one", "two"]);
        canvas.draw(&lines(&["one"]), &lines(&["TWO", "three"])).expect("it is written");
        check(&canvas, &["one", "TWO", "three"]);
        canvas.draw(&[], &lines(&["2"])).expect("it is written");
        check(&canvas, &["one", "2"]);
        canvas.draw(&lines(&["2", "end"]), &[]).expect("it is written");
        canvas.draw(&lines(&["next"]), &[]).expect("it is written");
        check(&canvas, &["one", "2", "end", "next"]);
    }

    #[test]
    fn lines_can_vanish_and_come_back() {
        let mut canvas = canvas(20, 10);
        canvas.draw(&lines(&["above"]), &lines(&["a", "b"])).expect("it is written");
        canvas.draw(&[], &[]).expect("it is written");
        check(&canvas, &["above"]);
        canvas.draw(&[], &lines(&["a"])).expect("it is written");
        canvas.draw(&[], &lines(&["a", "b"])).expect("it is written");
        canvas.draw(&[], &lines(&["a"])).expect("it is written");
        canvas.draw(&[], &lines(&["a", "c"])).expect("it is written");
        check(&canvas, &["above", "a", "c"]);
    }

    #[test]
    fn what_scrolls_out_of_reach_is_told_and_not_touched() {
        let mut canvas = canvas(20, 4);
        let out_of_reach = canvas.draw(&[], &lines(&["1", "2", "3", "4", "5"])).expect("it is written");
        assert_eq!(out_of_reach, Some(2));
        canvas.draw(&[], &lines(&["3", "4", "five"])).expect("it is written");
        check(&canvas, &["2", "3", "4", "five"]);
    }

    #[test]
    fn lines_that_a_resize_broke_stay() {
        let mut canvas = canvas(20, 10);
        canvas.draw(&[], &lines(&["a long line of text", "short"])).expect("it is written");
        assert_eq!(canvas.resize(Size { columns: 30, rows: 10 }).expect("it is written"), None);
        assert_eq!(canvas.resize(Size { columns: 10, rows: 10 }).expect("it is written"), Some(2));
        canvas.draw(&[], &lines(&["on"])).expect("it is written");
        check(&canvas, &["a long line of text", "short", "on"]);
    }
}
