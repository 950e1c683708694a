//! What leaves over HTTP: the answers themselves in place of the SDK's stand-ins, counted until their last byte is gone.

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

use super::http::Answer;
use super::raw::Answers;

/// The response with its answers exchanged, and counted until its last byte has left.
pub(super) async fn guarded(response: Answer, answers: Answers, permit: Arc<OwnedSemaphorePermit>) -> Answer {
    let (mut parts, body) = response.into_parts();
    let is_stream = parts
        .headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let inner = if is_stream || answers.is_empty() {
        body
    } else {
        let Ok(whole) = body.collect().await;
        let whole = whole.to_bytes();
        let exchanged = answers.exchange_in_text(&whole).map_or(whole, Bytes::from);
        parts.headers.remove(header::CONTENT_LENGTH);
        Full::new(exchanged).boxed()
    };
    let answers = is_stream.then_some(answers);
    Response::from_parts(parts, Guarded { inner, answers, _permit: permit }.boxed())
}

struct Guarded {
    inner: BoxBody<Bytes, Infallible>,
    answers: Option<Answers>,
    _permit: Arc<OwnedSemaphorePermit>,
}

impl Body for Guarded {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        let Some(answers) = self.answers.as_ref().filter(|answers| !answers.is_empty()) else {
            return polled;
        };
        polled.map(|frame| {
            frame.map(|Ok(frame)| {
                Ok(match frame.into_data() {
                    Ok(data) => Frame::data(exchange_in_event(answers, data)),
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

/// The SDK writes one event per frame, and its data in one line.
fn exchange_in_event(answers: &Answers, event: Bytes) -> Bytes {
    const DATA: &[u8] = b"data: ";
    let mut exchanged = Vec::new();
    for line in event.split_inclusive(|byte| *byte == b'\n') {
        let found = line.strip_prefix(DATA).and_then(|data| answers.exchange_in_text(data));
        match found {
            Some(data) => {
                exchanged.extend_from_slice(DATA);
                exchanged.extend_from_slice(&data);
                exchanged.push(b'\n');
            }
            None => exchanged.extend_from_slice(line),
        }
    }
    Bytes::from(exchanged)
}
