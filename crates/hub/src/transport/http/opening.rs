//! Waiting for the stream that a server speaks on unasked.
//!
//! In a session, a server may ask the client something on a stream that the client opens with GET. What it says while that
//! stream is not open is lost, and the call that it belongs to waits for an answer that never comes. The SDK opens the
//! stream and sends the first request at the same time, so the request is held back here until the stream is there.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// A server may open the stream and say so only with its first event; it is not waited for longer than this.
const LONGEST: Duration = Duration::from_secs(1);

/// The session whose stream is there, or was refused, or was waited for long enough.
#[derive(Clone)]
pub(super) struct Opening(watch::Sender<Option<Arc<str>>>);

impl Opening {
    pub(super) fn new() -> Opening {
        Opening(watch::Sender::new(None))
    }

    /// The server answered to GET.
    pub(super) fn answered(&self, session: &str) {
        self.0.send_if_modified(|opened| {
            let is_new = opened.as_deref() != Some(session);
            if is_new {
                *opened = Some(session.into());
            }
            is_new
        });
    }

    /// Waits, once in a session.
    pub(super) async fn wait(&self, session: &str) {
        let mut opened = self.0.subscribe();
        let waited = timeout(LONGEST, opened.wait_for(|opened| opened.as_deref() == Some(session))).await;
        if waited.is_err() {
            self.answered(session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_never_opens_is_waited_for_once() {
        let opening = Opening::new();
        let start = tokio::time::Instant::now();
        opening.wait("first").await;
        opening.wait("first").await;
        assert_eq!(start.elapsed(), LONGEST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_goes_on_when_the_stream_of_its_session_is_there() {
        let opening = Opening::new();
        opening.answered("first");
        let start = tokio::time::Instant::now();
        opening.wait("first").await;
        tokio::join!(opening.wait("second"), async { opening.answered("second") });
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
