//! The response to a request with a key: collected while it is written, and sent to every client that waits.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{StreamExt as _, stream};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, interval_at};
use toolwire_dialect::client::ErrorKind;

use crate::response::{Failure, HttpResponse, Interrupted, ResponseBody, json};

/// The header of a response that was produced for an earlier request.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The maximum size of a body that arrives in parts.
const MAX_BODY_BYTES: usize = 64 << 20;

/// A complete response.
#[derive(Clone)]
pub(super) struct StoredResponse {
    pub(super) fingerprint: [u8; 32],
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl StoredResponse {
    pub(super) fn bytes(&self) -> usize {
        let headers = self.headers.iter().map(|(name, value)| name.as_str().len() + value.len());
        self.body.len() + headers.sum::<usize>()
    }

    pub(super) fn respond(&self, is_first: bool) -> HttpResponse {
        let mut response = Response::new(ResponseBody::Whole(self.body.clone()));
        *response.status_mut() = self.status;
        response.headers_mut().clone_from(&self.headers);
        if !is_first {
            response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        }
        response
    }
}

/// The progress of a request, for the clients that wait.
#[derive(Clone)]
pub(super) enum Progress {
    Waiting,
    /// The response has begun with white space, because it takes long.
    Begun,
    Complete(Arc<StoredResponse>),
    Failed(Box<Failure>),
    /// The response has begun, and the format of its body cannot contain the error that ended it.
    Interrupted,
}

/// The end of a request.
pub(super) struct Collected {
    progress: Progress,
    /// Whether later requests get this response. Requests that failed can be sent again.
    is_final: bool,
    /// Called when the response is stored, or is sent to a client.
    on_taken: Option<Box<dyn FnOnce() + Send>>,
}

impl Collected {
    pub(super) fn to_store(&self) -> Option<StoredResponse> {
        match &self.progress {
            Progress::Complete(response) if self.is_final => Some((**response).clone()),
            _ => None,
        }
    }

    /// Sends the response to the clients that wait.
    pub(super) fn publish(self, is_stored: bool, sender: &watch::Sender<Progress>) {
        if let Some(on_taken) = self.on_taken
            && (is_stored || sender.receiver_count() > 0)
        {
            on_taken();
        }
        sender.send_replace(self.progress);
    }
}

/// Reads a response to its end.
pub(super) async fn collect(
    response: Result<HttpResponse, Failure>,
    (fingerprint, is_final): ([u8; 32], bool),
    sender: &watch::Sender<Progress>,
) -> Collected {
    let response = match response {
        Ok(response) => response,
        Err(failure) => {
            let progress = Progress::Failed(Box::new(failure));
            return Collected { progress, is_final: false, on_taken: None };
        }
    };
    let (parts, body) = response.into_parts();
    let mut on_taken = None;
    let body = match body {
        ResponseBody::Whole(body) => Ok(body),
        ResponseBody::Confirmed(body, taken) => {
            on_taken = taken;
            Ok(body)
        }
        ResponseBody::Stream(mut parts_of_body) => {
            let content_type = parts.headers.get(CONTENT_TYPE);
            let is_json = content_type.is_some_and(|value| value.as_bytes() == b"application/json");
            if is_json {
                sender.send_replace(Progress::Begun);
            }
            let mut body = BytesMut::new();
            loop {
                match parts_of_body.next().await {
                    Some(Ok(part)) if body.len() + part.len() <= MAX_BODY_BYTES => {
                        // The white space before the response is not stored.
                        let is_start = is_json && body.is_empty();
                        let part = if is_start { part.trim_ascii_start() } else { &part[..] };
                        body.extend_from_slice(part);
                    }
                    Some(Ok(_) | Err(Interrupted)) => break Err(Interrupted),
                    None => break Ok(body.freeze()),
                }
            }
        }
    };
    let (status, headers) = (parts.status, parts.headers);
    let progress = match body {
        Ok(body) => Progress::Complete(Arc::new(StoredResponse { fingerprint, status, headers, body })),
        Err(Interrupted) => Progress::Interrupted,
    };
    Collected { progress, is_final, on_taken }
}

/// Waits for the response. `is_first`: whether this client has sent the request first.
pub(super) async fn wait(
    mut progress: watch::Receiver<Progress>,
    heartbeat: Duration,
    is_first: bool,
) -> Result<HttpResponse, Failure> {
    loop {
        let found = progress.borrow_and_update().clone();
        match found {
            Progress::Waiting => {}
            Progress::Complete(response) => return Ok(response.respond(is_first)),
            Progress::Failed(failure) => return Err(*failure),
            Progress::Begun => return Ok(padded(progress, heartbeat, is_first)),
            Progress::Interrupted => return Err(interrupted()),
        }
        // The sender is dropped without a response if the gateway stops.
        progress.changed().await.map_err(|_| interrupted())?;
    }
}

fn interrupted() -> Failure {
    let message = "the first request with this idempotency key was interrupted; send it again";
    Failure::new(ErrorKind::Internal, message)
}

/// Sends white space until the response is complete, so that the connection is not idle.
fn padded(progress: watch::Receiver<Progress>, heartbeat: Duration, is_first: bool) -> HttpResponse {
    let ticks = interval_at(Instant::now(), heartbeat);
    let body = stream::unfold(Some((progress, ticks)), |state| async move {
        let (mut progress, mut ticks) = state?;
        loop {
            let found = progress.borrow_and_update().clone();
            match found {
                Progress::Complete(response) => return Some((Ok(response.body.clone()), None)),
                Progress::Waiting | Progress::Begun => {}
                Progress::Failed(_) | Progress::Interrupted => return Some((Err(Interrupted), None)),
            }
            tokio::select! {
                biased;
                changed = progress.changed() => match changed {
                    Ok(()) => {}
                    Err(_) => return Some((Err(Interrupted), None)),
                },
                _ = ticks.tick() => return Some((Ok(Bytes::from_static(b" \n")), Some((progress, ticks)))),
            }
        }
    });
    let mut response = json(StatusCode::OK, &Value::Null);
    if !is_first {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    *response.body_mut() = ResponseBody::stream(body);
    response
}
