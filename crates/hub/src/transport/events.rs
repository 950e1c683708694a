//! Server-sent events, none of them longer than a message may be.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt;
use futures::stream::BoxStream;
use reqwest::Response;
use sse_stream::{Sse, SseStream};

use crate::tee::LONGEST_MESSAGE;

#[derive(Debug, thiserror::Error)]
pub(super) enum EventError {
    #[error("an event is longer than {LONGEST_MESSAGE} bytes")]
    TooLong,
    #[error(transparent)]
    Broken(sse_stream::Error),
}

/// The events of a response, until it ends or breaks.
pub(super) fn events(response: Response) -> BoxStream<'static, Result<Sse, EventError>> {
    let too_long = Arc::new(AtomicBool::new(false));
    let noticed = too_long.clone();
    let mut length = Length::default();
    let bounded = response.bytes_stream().map(move |chunk| {
        let chunk = chunk.map_err(io::Error::other)?;
        if length.after(&chunk) > LONGEST_MESSAGE {
            noticed.store(true, Ordering::Relaxed);
            return Err(io::Error::other("too long"));
        }
        Ok(chunk)
    });
    let events = SseStream::from_bytes_stream(bounded);
    let events = events.map(move |event| {
        event.map_err(|error| match too_long.load(Ordering::Relaxed) {
            true => EventError::TooLong,
            false => EventError::Broken(error),
        })
    });
    events.boxed()
}

/// Whether an event carries a message, and not something that concerns the stream alone.
pub(super) fn is_message(event: &Sse) -> bool {
    let named = matches!(event.event.as_deref(), None | Some("" | "message"));
    named && event.data.as_ref().is_some_and(|data| !data.trim().is_empty())
}

/// The length of the event that is being received.
#[derive(Default)]
struct Length {
    event: usize,
    line: usize,
}

impl Length {
    /// The length that the longest event within `chunk` has reached.
    fn after(&mut self, chunk: &[u8]) -> usize {
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
    fn the_length_counts_from_one_empty_line_to_the_next() {
        let mut length = Length::default();
        assert_eq!(length.after(b"data: 12345\ndata: 12"), 19);
        assert_eq!(length.after(b"3"), 20);
        assert_eq!(length.after(b"\r\n\r\ndata: 1\n\n"), 7);
        assert_eq!(length.after(b"\n\n"), 0);
    }
}
