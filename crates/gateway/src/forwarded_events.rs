//! Passes the event stream of a provider on to a client with the same API.

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::{self, BoxStream, Stream};
use tokio::time::{Instant, timeout_at};
use toolwire_contract::ModelError;
use toolwire_dialect::{ClientError, ErrorKind, Family};

use crate::response::{Interrupted, model_error};

/// The maximum size of an event that is held back until it is complete. A longer event is passed on in parts.
const MAX_HELD_BYTES: usize = 1024 * 1024;

/// The error for a response that exceeds `runTimeout`.
pub(crate) fn took_too_long() -> ClientError {
    ClientError::new(ErrorKind::TimedOut, "the response took too long")
}

/// Passes on what arrives until `deadline`. If the provider fails, a stream of events ends with an error event of the
/// API. Other bodies cannot express an error, so the connection is closed.
pub(crate) fn pass_on(
    parts: BoxStream<'static, Result<Bytes, ModelError>>,
    deadline: Instant,
    events: Option<(Family, String)>,
) -> impl Stream<Item = Result<Bytes, Interrupted>> + Send + 'static {
    let state = Some((parts, Held::default(), events));
    stream::unfold(state, move |state| async move {
        let (mut parts, mut held, events) = state?;
        loop {
            let error = match timeout_at(deadline, parts.next()).await {
                Ok(Some(Ok(bytes))) => {
                    let bytes = if events.is_some() { held.complete_events(bytes) } else { bytes };
                    if bytes.is_empty() {
                        continue;
                    }
                    return Some((Ok(bytes), Some((parts, held, events))));
                }
                Ok(None) => {
                    let rest = held.bytes.split().freeze();
                    return (!rest.is_empty()).then_some((Ok(rest), None));
                }
                Ok(Some(Err(error))) => model_error(&error),
                Err(_) => took_too_long(),
            };
            let Some((family, request_id)) = &events else { return Some((Err(Interrupted), None)) };
            let start = if held.is_inside { "\n\n" } else { "" };
            let event = format!("{start}{}", error.event(*family, request_id));
            return Some((Ok(Bytes::from(event)), None));
        }
    })
}

/// The beginning of an event whose end has not arrived. It is held back, because an error event cannot follow half an
/// event.
#[derive(Default)]
struct Held {
    bytes: BytesMut,
    /// Whether the bytes that were passed on end inside an event.
    is_inside: bool,
}

impl Held {
    /// Returns the events that are complete now.
    fn complete_events(&mut self, bytes: Bytes) -> Bytes {
        if self.bytes.is_empty() && end_of_events(&bytes) == bytes.len() {
            self.is_inside = false;
            return bytes;
        }
        // The end of an event may be split.
        let from = self.bytes.len().saturating_sub(3);
        self.bytes.extend_from_slice(&bytes);
        let end = match end_of_events(&self.bytes[from..]) {
            0 if self.bytes.len() > MAX_HELD_BYTES => {
                self.is_inside = true;
                return self.bytes.split().freeze();
            }
            0 => return Bytes::new(),
            end => from + end,
        };
        self.is_inside = false;
        self.bytes.split_to(end).freeze()
    }
}

/// Returns the position after the last empty line.
fn end_of_events(bytes: &[u8]) -> usize {
    let is_end = |end: &usize| {
        let bytes = &bytes[..*end];
        bytes.ends_with(b"\n\n") || bytes.ends_with(b"\n\r\n") || bytes.ends_with(b"\r\r")
    };
    (2..=bytes.len()).rev().find(is_end).unwrap_or(0)
}

#[cfg(test)]
#[allow(clippy::result_large_err)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn passed(parts: Vec<Result<&'static str, ModelError>>, is_events: bool) -> (String, bool) {
        let parts = stream::iter(parts.into_iter().map(|part| part.map(Bytes::from))).boxed();
        let deadline = Instant::now() + Duration::from_secs(60);
        let events = is_events.then(|| (Family::Anthropic, "req_1".to_owned()));
        let mut passed = Box::pin(pass_on(parts, deadline, events));
        let mut text = String::new();
        while let Some(part) = passed.next().await {
            match part {
                Ok(bytes) => text.push_str(&String::from_utf8_lossy(&bytes)),
                Err(Interrupted) => return (text, true),
            }
        }
        (text, false)
    }

    fn broken() -> ModelError {
        ModelError::Broken { model: "m".to_owned(), problem: "the connection was reset".to_owned() }
    }

    #[tokio::test]
    async fn an_error_follows_the_last_complete_event() {
        let (text, is_interrupted) =
            passed(vec![Ok("data: 1\n\ndata: "), Ok("2\n"), Ok("\nda"), Err(broken())], true).await;
        let (events, error) = text.split_at("data: 1\n\ndata: 2\n\n".len());
        assert_eq!((events, is_interrupted), ("data: 1\n\ndata: 2\n\n", false));
        assert!(error.starts_with("event: error\ndata: {\"type\":\"error\""), "{error}");
        assert!(error.contains("\"request_id\":\"req_1\"") && error.ends_with("\n\n"), "{error}");
    }

    #[tokio::test]
    async fn bytes_stay_as_they_are() {
        for end in ["\n\n", "\r\n\r\n", ""] {
            let whole = format!("event: a\ndata: 1{end}: b\n\ndata: 3{end}");
            let bytes: &'static str = whole.clone().leak();
            let parts = (0..bytes.len()).map(|index| Ok(&bytes[index..=index])).collect();
            assert_eq!(passed(parts, true).await, (whole, false));
        }
        assert_eq!(passed(vec![Ok("abc"), Err(broken())], false).await, ("abc".to_owned(), true));
    }

    #[tokio::test]
    async fn a_very_long_event_is_not_held() {
        let long: &'static str = "x".repeat(MAX_HELD_BYTES + 1).leak();
        let (text, _) = passed(vec![Ok(long), Err(broken())], true).await;
        assert!(text.starts_with(&format!("{long}\n\nevent: error\n")));
    }
}
