//! Splits the output of a process into lines, with a limit on how much of a line is stored.

/// The number of bytes stored of each end of an oversized line: enough to find the id of the message.
const STORED_END_BYTES: usize = 4 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum OutputLine {
    Complete(Vec<u8>),
    Oversized { head: Vec<u8>, tail: Vec<u8> },
}

pub(super) struct LineSplitter {
    max_bytes: usize,
    line: Vec<u8>,
    /// The end of an oversized line. Its beginning is in `line`, and its middle is dropped.
    tail: Option<Vec<u8>>,
    /// The number of oversized lines, including an unfinished one.
    oversized: u64,
}

impl LineSplitter {
    pub(super) fn new(max_bytes: usize) -> LineSplitter {
        LineSplitter { max_bytes, line: Vec::new(), tail: None, oversized: 0 }
    }

    /// Adds what was read and returns the lines that it completes.
    pub(super) fn push<'a>(&'a mut self, text: &'a [u8]) -> impl Iterator<Item = OutputLine> + 'a {
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

    pub(super) fn oversized(&self) -> u64 {
        self.oversized
    }

    /// Returns the unfinished line, after the process stopped writing.
    pub(super) fn rest(&mut self) -> Option<OutputLine> {
        (!self.line.is_empty()).then(|| self.finish())
    }

    fn extend(&mut self, piece: &[u8]) {
        if let Some(tail) = &mut self.tail {
            tail.extend_from_slice(&piece[piece.len().saturating_sub(STORED_END_BYTES)..]);
            tail.drain(..tail.len().saturating_sub(STORED_END_BYTES));
        } else if self.line.len() + piece.len() > self.max_bytes {
            self.line.extend_from_slice(piece);
            let tail = self.line.split_off(
                self.line.len().saturating_sub(STORED_END_BYTES).max(self.line.len().min(STORED_END_BYTES)),
            );
            self.line.truncate(STORED_END_BYTES);
            self.line.shrink_to_fit();
            self.tail = Some(tail);
            self.oversized += 1;
        } else {
            self.line.extend_from_slice(piece);
        }
    }

    fn finish(&mut self) -> OutputLine {
        let head = std::mem::take(&mut self.line);
        match self.tail.take() {
            Some(tail) => OutputLine::Oversized { head, tail },
            None => OutputLine::Complete(head),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(max_bytes: usize, chunks: &[&str]) -> Vec<OutputLine> {
        let mut splitter = LineSplitter::new(max_bytes);
        let mut lines: Vec<OutputLine> = Vec::new();
        for chunk in chunks {
            lines.extend(splitter.push(chunk.as_bytes()));
        }
        lines.extend(splitter.rest());
        lines
    }

    #[test]
    fn chunk_borders_do_not_affect_lines() {
        let text = "one\n\ntwo\nthree";
        let expected: Vec<OutputLine> =
            ["one", "", "two", "three"].map(|line| OutputLine::Complete(line.into())).into();
        for at in 0..text.len() {
            assert_eq!(split(100, &[&text[..at], &text[at..]]), expected, "cut at {at}");
        }
    }

    #[test]
    fn both_ends_of_an_oversized_line_are_stored() {
        let long = format!("head{}tail", "x".repeat(100_000));
        let chunks: Vec<String> =
            long.as_bytes().chunks(1000).map(|chunk| String::from_utf8_lossy(chunk).into_owned()).collect();
        let mut chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
        chunks.push("\nnext\n");
        let lines = split(10_000, &chunks);
        let OutputLine::Oversized { head, tail } = &lines[0] else { panic!("{:?}", lines[0]) };
        assert!(head.starts_with(b"head") && head.len() == STORED_END_BYTES);
        assert!(tail.ends_with(b"tail") && tail.len() <= STORED_END_BYTES);
        assert_eq!(lines[1..], [OutputLine::Complete("next".into())]);
    }
}
