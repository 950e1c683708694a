//! Decodes streams with one JSON value per line, as Ollama sends them.

use super::{FrameError, MAX_FRAME_BYTES};

/// Decodes lines from chunks of any size. The last line may lack its newline.
#[derive(Debug, Default)]
pub(crate) struct LineDecoder {
    line: Vec<u8>,
}

impl LineDecoder {
    pub(crate) fn push(&mut self, bytes: &[u8], lines: &mut Vec<String>) -> Result<(), FrameError> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, ended) = rest.split_at(end);
            self.append(line)?;
            self.end_line(lines)?;
            rest = &ended[1..];
        }
        self.append(rest)
    }

    /// Appends the text after the last newline.
    pub(crate) fn finish(&mut self, lines: &mut Vec<String>) -> Result<(), FrameError> {
        self.end_line(lines)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), FrameError> {
        if self.line.len() + bytes.len() > MAX_FRAME_BYTES {
            return Err(FrameError::FrameTooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, lines: &mut Vec<String>) -> Result<(), FrameError> {
        let line = String::from_utf8(std::mem::take(&mut self.line)).map_err(|_| FrameError::NotUtf8)?;
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
            let (first, second) = text.as_bytes().split_at(at);
            let (mut decoder, mut lines) = (LineDecoder::default(), Vec::new());
            for chunk in [first, second] {
                decoder.push(chunk, &mut lines).expect("well-formed lines");
            }
            decoder.finish(&mut lines).expect("well-formed lines");
            let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
            assert_eq!(lines, expected, "split at {at}: {text:?}");
        }
    }

    #[test]
    fn lines_may_be_split_between_chunks() {
        check("{\"a\":\"ä\"}\n\n{\"b\":1}\r\n{\"c\":2}", &["{\"a\":\"ä\"}", "{\"b\":1}", "{\"c\":2}"]);
        check("", &[]);
    }
}
