//! Splits what a process writes into lines, without keeping more of a line than is allowed.

/// How much is kept of both ends of a line that is too long: enough to find its id.
const END: usize = 4 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Whole(Vec<u8>),
    Oversized { head: Vec<u8>, tail: Vec<u8> },
}

pub(super) struct Lines {
    longest: usize,
    line: Vec<u8>,
    /// The end of a line whose beginning is in `line` and whose middle is lost.
    tail: Option<Vec<u8>>,
}

impl Lines {
    pub(super) fn new(longest: usize) -> Lines {
        Lines { longest, line: Vec::new(), tail: None }
    }

    /// Takes in what was read and gives the lines that it completes.
    pub(super) fn push<'a>(&'a mut self, text: &'a [u8]) -> impl Iterator<Item = Line> + 'a {
        text.split_inclusive(|byte| *byte == b'\n').filter_map(|piece| match piece.strip_suffix(b"\n") {
            Some(piece) => {
                self.extend(piece);
                Some(self.finish())
            }
            None => {
                self.extend(piece);
                None
            }
        })
    }

    /// The line that was not ended when the process stopped writing.
    pub(super) fn rest(&mut self) -> Option<Line> {
        (!self.line.is_empty()).then(|| self.finish())
    }

    fn extend(&mut self, piece: &[u8]) {
        if let Some(tail) = &mut self.tail {
            tail.extend_from_slice(&piece[piece.len().saturating_sub(END)..]);
            tail.drain(..tail.len().saturating_sub(END));
        } else if self.line.len() + piece.len() > self.longest {
            self.line.extend_from_slice(piece);
            let tail = self.line.split_off(self.line.len().saturating_sub(END).max(self.line.len().min(END)));
            self.line.truncate(END);
            self.line.shrink_to_fit();
            self.tail = Some(tail);
        } else {
            self.line.extend_from_slice(piece);
        }
    }

    fn finish(&mut self) -> Line {
        let head = std::mem::take(&mut self.line);
        match self.tail.take() {
            Some(tail) => Line::Oversized { head, tail },
            None => Line::Whole(head),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(longest: usize, chunks: &[&str]) -> Vec<Line> {
        let mut lines = Lines::new(longest);
        let mut found: Vec<Line> = Vec::new();
        for chunk in chunks {
            found.extend(lines.push(chunk.as_bytes()));
        }
        found.extend(lines.rest());
        found
    }

    #[test]
    fn lines_are_the_same_wherever_they_are_cut() {
        let text = "one\n\ntwo\nthree";
        let expected: Vec<Line> = ["one", "", "two", "three"].map(|line| Line::Whole(line.into())).into();
        for at in 0..text.len() {
            assert_eq!(split(100, &[&text[..at], &text[at..]]), expected, "cut at {at}");
        }
    }

    #[test]
    fn of_a_line_that_is_too_long_both_ends_are_kept() {
        let long = format!("head{}tail", "x".repeat(100_000));
        let chunks: Vec<String> =
            long.as_bytes().chunks(1000).map(|chunk| String::from_utf8_lossy(chunk).into_owned()).collect();
        let mut chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
        chunks.push("\nnext\n");
        let lines = split(10_000, &chunks);
        let Line::Oversized { head, tail } = &lines[0] else { panic!("{:?}", lines[0]) };
        assert!(head.starts_with(b"head") && head.len() == END);
        assert!(tail.ends_with(b"tail") && tail.len() <= END);
        assert_eq!(lines[1..], [Line::Whole("next".into())]);
    }
}
