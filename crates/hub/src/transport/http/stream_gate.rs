//! Holds back requests until the session's event stream is open.
//!
//! In a session, a server sends its own requests on a stream that the client opens with GET. A request that
//! it sends before that stream is open is lost, and the call that depends on it never gets a response. The
//! SDK opens the stream and sends the first request at the same time, so the request waits here for the
//! stream.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// Some servers send the response headers of the stream only with its first event, so the wait is limited.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// The session whose requests may be sent: its stream is open, was refused, or took too long.
#[derive(Clone)]
pub(super) struct StreamGate(watch::Sender<Option<Arc<str>>>);

impl StreamGate {
    pub(super) fn new() -> StreamGate {
        StreamGate(watch::Sender::new(None))
    }

    /// Called when the server has responded to GET.
    pub(super) fn open(&self, session: &str) {
        self.0.send_if_modified(|open| {
            let is_new = open.as_deref() != Some(session);
            if is_new {
                *open = Some(session.into());
            }
            is_new
        });
    }

    /// Waits for the stream, once per session.
    pub(super) async fn wait(&self, session: &str) {
        let mut open = self.0.subscribe();
        let waited = timeout(MAX_WAIT, open.wait_for(|open| open.as_deref() == Some(session))).await;
        if waited.is_err() {
            self.open(session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_never_opens_delays_only_the_first_request() {
        let gate = StreamGate::new();
        let start = tokio::time::Instant::now();
        gate.wait("first").await;
        gate.wait("first").await;
        assert_eq!(start.elapsed(), MAX_WAIT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_continues_when_the_stream_of_its_session_is_open() {
        let gate = StreamGate::new();
        gate.open("first");
        let start = tokio::time::Instant::now();
        gate.wait("first").await;
        tokio::join!(gate.wait("second"), async { gate.open("second") });
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
