//! HTTP response bodies: inserts raw responses and counts a request until its last byte is sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Response, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use tokio::sync::OwnedSemaphorePermit;

use super::http::HttpResponse;
use super::raw_responses::RawResponses;
use super::running_ids::RunningId;

/// Inserts the raw responses, and holds the permit and the id of the request until the last byte is sent.
pub(super) async fn finish_response(
    response: HttpResponse,
    responses: RawResponses,
    held: (Arc<OwnedSemaphorePermit>, Option<RunningId>),
) -> HttpResponse {
    let (mut parts, body) = response.into_parts();
    let is_stream = parts
        .headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let inner = if is_stream || responses.is_empty() {
        body
    } else {
        let Ok(whole) = body.collect().await;
        let whole = whole.to_bytes();
        let replaced = responses.replace_in_text(&whole).map_or(whole, Bytes::from);
        parts.headers.remove(header::CONTENT_LENGTH);
        Full::new(replaced).boxed()
    };
    let responses = is_stream.then_some(responses);
    Response::from_parts(parts, CountedBody { inner, responses, _held: held }.boxed())
}

struct CountedBody {
    inner: BoxBody<Bytes, Infallible>,
    responses: Option<RawResponses>,
    _held: (Arc<OwnedSemaphorePermit>, Option<RunningId>),
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        let Some(responses) = self.responses.as_ref().filter(|responses| !responses.is_empty()) else {
            return polled;
        };
        polled.map(|frame| {
            frame.map(|Ok(frame)| {
                Ok(match frame.into_data() {
                    Ok(data) => Frame::data(replace_in_event(responses, data)),
                    Err(other) => other,
                })
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Replaces the placeholder in an event. The SDK writes one event per frame, with its data in one line.
fn replace_in_event(responses: &RawResponses, event: Bytes) -> Bytes {
    const DATA: &[u8] = b"data: ";
    let mut replaced = Vec::new();
    for line in event.split_inclusive(|byte| *byte == b'\n') {
        let found = line.strip_prefix(DATA).and_then(|data| responses.replace_in_text(data));
        match found {
            Some(data) => {
                replaced.extend_from_slice(DATA);
                replaced.extend_from_slice(&data);
                replaced.push(b'\n');
            }
            None => replaced.extend_from_slice(line),
        }
    }
    Bytes::from(replaced)
}
