//! The last lines of what a process says on stderr.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

const MOST_LINES: usize = 100;
const LONGEST_LINE: usize = 2000;

/// A ring of the last lines, each cut to a bearable length.
#[derive(Default)]
pub(crate) struct Tail(Mutex<Ring>);

#[derive(Default)]
struct Ring {
    lines: VecDeque<Vec<u8>>,
    line: Vec<u8>,
}

impl Tail {
    /// Reads to the end. It never waits for anyone, so the process is never held up by its own chatter.
    pub(crate) async fn follow(&self, mut stderr: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; 8 * 1024];
        while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
            self.write(&buffer[..count]);
        }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let unfinished = (!ring.line.is_empty()).then_some(&ring.line);
        ring.lines
            .iter()
            .chain(unfinished)
            .map(|line| String::from_utf8_lossy(line).trim_end().to_owned())
            .collect()
    }

    fn write(&self, text: &[u8]) {
        let mut ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for piece in text.split_inclusive(|byte| *byte == b'\n') {
            let (piece, ends) = match piece.strip_suffix(b"\n") {
                Some(piece) => (piece, true),
                None => (piece, false),
            };
            let room = LONGEST_LINE.saturating_sub(ring.line.len());
            ring.line.extend_from_slice(&piece[..piece.len().min(room)]);
            if ends {
                let line = std::mem::take(&mut ring.line);
                if ring.lines.len() == MOST_LINES {
                    ring.lines.pop_front();
                }
                ring.lines.push_back(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_lines_are_kept_and_long_ones_are_cut() {
        let tail = Tail::default();
        for number in 0..150 {
            tail.write(format!("line {number}\n").as_bytes());
        }
        tail.write("x".repeat(5000).as_bytes());
        let lines = tail.lines();
        assert_eq!(lines.len(), MOST_LINES + 1);
        assert_eq!(lines[0], "line 50");
        assert_eq!(lines[MOST_LINES].len(), LONGEST_LINE);
    }
}
