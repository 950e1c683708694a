//! Server-sent events with a limit on the size of each event.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt;
use futures::stream::BoxStream;
use reqwest::Response;
use sse_stream::{Sse, SseStream};

#[derive(Debug, thiserror::Error)]
pub(super) enum EventStreamError {
    #[error("an event is longer than {limit} bytes")]
    TooLong { limit: usize },
    #[error(transparent)]
    Failed(sse_stream::Error),
}

/// Returns the events of a response until it ends or fails, or one is longer than `limit`.
pub(super) fn events(response: Response, limit: usize) -> BoxStream<'static, Result<Sse, EventStreamError>> {
    let is_too_long = Arc::new(AtomicBool::new(false));
    let exceeded = is_too_long.clone();
    let mut length = EventLength::default();
    let bounded = response.bytes_stream().map(move |chunk| {
        let chunk = chunk.map_err(io::Error::other)?;
        if length.add(&chunk) > limit {
            exceeded.store(true, Ordering::Relaxed);
            return Err(io::Error::other("too long"));
        }
        Ok(chunk)
    });
    let events = SseStream::from_bytes_stream(bounded);
    let events = events.map(move |event| {
        event.map_err(|error| match is_too_long.load(Ordering::Relaxed) {
            true => EventStreamError::TooLong { limit },
            false => EventStreamError::Failed(error),
        })
    });
    events.boxed()
}

/// Whether an event contains a message, and not only information about the stream.
pub(super) fn is_message(event: &Sse) -> bool {
    let is_message_type = matches!(event.event.as_deref(), None | Some("" | "message"));
    is_message_type && event.data.as_ref().is_some_and(|data| !data.trim().is_empty())
}

/// The length in bytes of the event that is being received.
#[derive(Default)]
struct EventLength {
    event: usize,
    line: usize,
}

impl EventLength {
    /// Returns the length that the longest event within `chunk` reaches.
    fn add(&mut self, chunk: &[u8]) -> usize {
        let mut longest = 0;
        for byte in chunk {
            match byte {
                b'\n' if self.line == 0 => self.event = 0,
                b'\n' => self.line = 0,
                b'\r' => {}
                _ => {
                    self.line += 1;
                    self.event += 1;
                    longest = longest.max(self.event);
                }
            }
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_line_ends_an_event() {
        let mut length = EventLength::default();
        assert_eq!(length.add(b"data: 12345\ndata: 12"), 19);
        assert_eq!(length.add(b"3"), 20);
        assert_eq!(length.add(b"\r\n\r\ndata: 1\n\n"), 7);
        assert_eq!(length.add(b"\n\n"), 0);
    }
}
