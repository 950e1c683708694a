//! One JSON value a line, as Ollama streams.

use super::{FrameError, LONGEST_FRAME};

/// Reads lines out of bytes that come in pieces of any size. A last line may lack its end.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    line: Vec<u8>,
}

impl Decoder {
    pub(crate) fn push(&mut self, bytes: &[u8], lines: &mut Vec<String>) -> Result<(), FrameError> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, ended) = rest.split_at(end);
            self.take(line)?;
            self.end(lines)?;
            rest = &ended[1..];
        }
        self.take(rest)
    }

    /// What stood after the last end of a line.
    pub(crate) fn finish(&mut self, lines: &mut Vec<String>) -> Result<(), FrameError> {
        self.end(lines)
    }

    fn take(&mut self, piece: &[u8]) -> Result<(), FrameError> {
        if self.line.len() + piece.len() > LONGEST_FRAME {
            return Err(FrameError::TooLong);
        }
        self.line.extend_from_slice(piece);
        Ok(())
    }

    fn end(&mut self, lines: &mut Vec<String>) -> Result<(), FrameError> {
        let line = String::from_utf8(std::mem::take(&mut self.line)).map_err(|_| FrameError::NotText)?;
        if !line.trim().is_empty() {
            lines.push(line);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        for at in 0..=text.len() {
            let (one, other) = text.as_bytes().split_at(at);
            let (mut decoder, mut lines) = (Decoder::default(), Vec::new());
            for piece in [one, other] {
                decoder.push(piece, &mut lines).expect("the case is well-formed");
            }
            decoder.finish(&mut lines).expect("the case is well-formed");
            let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
            assert_eq!(lines, expected, "split at {at}: {text:?}");
        }
    }

    #[test]
    fn lines_are_read_however_they_are_split() {
        check("{\"a\":\"ä\"}\n\n{\"b\":1}\r\n{\"c\":2}", &["{\"a\":\"ä\"}", "{\"b\":1}", "{\"c\":2}"]);
        check("", &[]);
    }
}
