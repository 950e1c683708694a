//! Writes the response to a client while the run continues.

use std::mem::take;

use bytes::Bytes;
use futures::{FutureExt, stream};
use http::StatusCode;
use http::header::HeaderValue;
use serde_json::Value;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Duration, Instant, Interval, interval_at, timeout, timeout_at};
use toolwire_dialect::Family;
use toolwire_dialect::client::{ClientError, ClientEvent, ResponseWriter, StreamEvent};

use crate::exchange::Exchange;
use crate::items::ClientItems;
use crate::response::{
    DROPPED, Failure, HEARTBEAT, HttpResponse, Interrupted, ResponseBody, events, json as json_response,
};
use crate::state::{Recording, Unstored};

/// The time after which a response that is not streamed begins with white space, so that the connection is
/// not idle and the client does not time out.
const PADDING_DELAY: Duration = Duration::from_secs(30);

/// Events that are ready at the same time are sent together, up to this size.
const MAX_CHUNK_BYTES: usize = 16 * 1024;

/// The comment before the last event of a stream whose citations were left out. A complete response has the
/// header `x-toolwire-dropped` instead; the headers of a stream were already sent. Clients ignore comments.
const OMITTED_CITATIONS: &[u8] = b": x-toolwire-dropped: citations\n\n";

/// A response that is being written.
pub(crate) struct ResponseInProgress {
    pub(crate) exchange: Exchange,
    pub(crate) writer: ResponseWriter,
    pub(crate) heartbeat: Duration,
    pub(crate) request_id: String,
    /// Stores the items of the response; `None` if they are not stored.
    pub(crate) items: Option<ClientItems>,
    /// Stores the response; `None` if it is not stored, or if it was already given to the store.
    recording: Option<Recording>,
    /// The end of the response, until it is stored.
    storing: Option<(JoinHandle<Unstored>, Vec<u8>)>,
    /// What could not be stored.
    unstored: Unstored,
    /// The bytes of events that were not sent yet.
    unsent: Vec<u8>,
}

/// The state of a complete response that begins with white space.
// There is one per response, and most of the time it is the first variant.
#[allow(clippy::large_enum_variant)]
enum Padded {
    Waiting(ResponseInProgress, Interval),
    Sent(ResponseInProgress),
    Interrupted,
}

impl ResponseInProgress {
    pub(crate) fn new(
        exchange: Exchange,
        writer: ResponseWriter,
        heartbeat: Duration,
        request_id: String,
        items: Option<ClientItems>,
        recording: Option<Recording>,
    ) -> ResponseInProgress {
        let (storing, unstored, unsent) = (None, Unstored::default(), Vec::new());
        ResponseInProgress {
            exchange,
            writer,
            heartbeat,
            request_id,
            items,
            recording,
            storing,
            unstored,
            unsent,
        }
    }

    /// Sends the events as they arrive. The model's response is read only as fast as the client reads.
    pub(crate) async fn stream(mut self) -> Result<HttpResponse, Failure> {
        let mut chunk = take(&mut self.unsent);
        // The stream begins with the first event of the model, or with a heartbeat. An error before that gets
        // its own HTTP status.
        let end = Instant::now() + self.heartbeat;
        let mut has_start = false;
        loop {
            match timeout_at(end, self.exchange.next()).await {
                Ok(Some(ClientEvent::Failed(error))) => return Err(self.failure(error)),
                // These write nothing, but the first event of the stream may contain them.
                Ok(Some(event @ (ClientEvent::Details(_) | ClientEvent::Usage(_)))) => {
                    self.write(&event, Some(&mut chunk));
                }
                Ok(Some(event)) => {
                    if !std::mem::replace(&mut has_start, true) {
                        write_all(&mut chunk, self.writer.start());
                    }
                    self.write(&event, Some(&mut chunk));
                    // The tools are listed before the provider accepts or rejects the request.
                    if !matches!(
                        event,
                        ClientEvent::ServerTools { .. } | ClientEvent::ServerUnavailable { .. }
                    ) {
                        break;
                    }
                }
                Ok(None) | Err(_) => {
                    if !has_start {
                        write_all(&mut chunk, self.writer.start());
                    }
                    break;
                }
            }
        }
        self.exchange.begin();
        let ticks = interval_at(Instant::now() + self.heartbeat, self.heartbeat);
        let state = (self, ticks, Some(chunk));
        Ok(events(stream::unfold(state, |(mut response, mut ticks, first)| async move {
            let chunk = match first {
                Some(chunk) => chunk,
                None => {
                    ticks.reset();
                    tokio::select! {
                        biased;
                        chunk = response.next_chunk() => match chunk {
                            Some(chunk) => chunk,
                            None => {
                                response.exchange.delivered();
                                return None;
                            }
                        },
                        _ = ticks.tick() => HEARTBEAT.to_vec(),
                    }
                }
            };
            Some((Ok(Bytes::from(chunk)), (response, ticks, None)))
        })))
    }

    /// Returns the bytes of all events that are ready; `None` after the last one. It is safe to drop the
    /// future.
    async fn next_chunk(&mut self) -> Option<Vec<u8>> {
        if let Some(end) = self.stored().await {
            return Some(end);
        }
        while self.unsent.len() < MAX_CHUNK_BYTES {
            // Some events write no bytes, so the chunk may still be empty after one.
            let event = match self.unsent.is_empty() {
                true => self.exchange.next().await,
                false => match self.next_ready().await {
                    Some(event) => event,
                    None => break,
                },
            };
            let Some(event) = event else { break };
            let mut unsent = take(&mut self.unsent);
            self.write(&event, Some(&mut unsent));
            self.unsent = unsent;
        }
        match take(&mut self.unsent) {
            chunk if chunk.is_empty() => self.stored().await,
            chunk => Some(chunk),
        }
    }

    /// Returns the next event if it is ready. If not, it yields once, because another task may be about to
    /// read more from the provider, and tries again.
    async fn next_ready(&mut self) -> Option<Option<ClientEvent>> {
        if let Some(event) = self.exchange.next().now_or_never() {
            return Some(event);
        }
        yield_now().await;
        self.exchange.next().now_or_never()
    }

    /// Returns the response when it is complete.
    pub(crate) async fn whole(mut self, family: Family) -> Result<HttpResponse, Failure> {
        let Ok(end) = timeout(PADDING_DELAY, self.read_all()).await else { return Ok(self.padded(family)) };
        match end {
            Some(error) => Err(self.failure(error)),
            None => {
                let body = self.body();
                let mut response = json_response(StatusCode::OK, &body);
                if self.writer.has_omitted_citations() {
                    response.headers_mut().insert(DROPPED, HeaderValue::from_static("citations"));
                }
                if self.exchange.is_continued() {
                    let mut exchange = self.exchange;
                    let body = Bytes::from(body.to_string());
                    let on_taken = Box::new(move || exchange.delivered());
                    *response.body_mut() = ResponseBody::Confirmed(body, Some(on_taken));
                }
                Ok(response)
            }
        }
    }

    /// Waits until the response is stored, and returns the events at its end; `None` if it is not being
    /// stored. It is safe to drop the future.
    async fn stored(&mut self) -> Option<Vec<u8>> {
        let (storing, _) = self.storing.as_mut()?;
        self.unstored = storing.await.unwrap_or(Unstored::ALL);
        self.storing.take().map(|(_, end)| self.unstored.mark_events(end))
    }

    /// Returns the complete response.
    fn body(&self) -> Value {
        let mut body = self.writer.body();
        self.unstored.mark(&mut body);
        body
    }

    /// Reads all events, and waits until the response is stored; returns the error if the run fails. It is
    /// safe to drop the future.
    async fn read_all(&mut self) -> Option<ClientError> {
        while let Some(event) = self.exchange.next().await {
            self.write(&event, None);
            if let ClientEvent::Failed(error) = event {
                return Some(error);
            }
        }
        self.stored().await;
        None
    }

    /// Sends white space until the response is complete. The status was already sent, so an error cannot
    /// change it. A body of the Responses API can contain the error. With the other APIs, the connection is
    /// closed, and clients repeat the request. After a tool was called they must not do this: then the body
    /// is an error, which clients cannot read as a response.
    fn padded(mut self, family: Family) -> HttpResponse {
        self.exchange.begin();
        let ticks = interval_at(Instant::now(), self.heartbeat);
        let body = stream::unfold(Padded::Waiting(self, ticks), move |state| async move {
            let (mut response, mut ticks) = match state {
                Padded::Waiting(response, ticks) => (response, ticks),
                Padded::Sent(mut response) => {
                    response.exchange.delivered();
                    return None;
                }
                Padded::Interrupted => return None,
            };
            let end = tokio::select! {
                biased;
                end = response.read_all() => end,
                _ = ticks.tick() => {
                    return Some((Ok(Bytes::from_static(b" \n")), Padded::Waiting(response, ticks)));
                }
            };
            let body = match end {
                Some(error) if family != Family::OpenAiResponses => {
                    if !response.exchange.has_called() {
                        return Some((Err(Interrupted), Padded::Interrupted));
                    }
                    error.body(family, &response.request_id)
                }
                _ => response.body(),
            };
            Some((Ok(Bytes::from(body.to_string())), Padded::Sent(response)))
        });
        let mut response = json_response(StatusCode::OK, &Value::Null);
        *response.body_mut() = ResponseBody::stream(body);
        response
    }

    /// Writes an event. The response and its items are stored before the last event is sent, so that the next
    /// request finds them.
    fn write(&mut self, event: &ClientEvent, chunk: Option<&mut Vec<u8>>) {
        let events = self.writer.event(event);
        let is_done = matches!(event, ClientEvent::Done { .. });
        if let (Some(items), true) = (&self.items, is_done) {
            items.store(&self.writer.body());
        }
        let is_stream = chunk.is_some();
        let mut end = Vec::new();
        if let Some(chunk) = chunk {
            let is_last = is_done || matches!(event, ClientEvent::Failed(_));
            let target = if is_last && self.recording.is_some() { &mut end } else { chunk };
            if is_done && self.writer.has_omitted_citations() {
                target.extend_from_slice(OMITTED_CITATIONS);
            }
            write_all(target, events);
        }
        // A response that fails before its stream has begun has no id that the client knows.
        let is_end = is_done || (is_stream && matches!(event, ClientEvent::Failed(_)));
        if let Some(recording) = self.recording.take_if(|_| is_end) {
            let kept = self.exchange.take_kept();
            self.storing = Some((recording.commit(self.writer.body().to_string(), kept), end));
        }
    }

    fn failure(&self, error: ClientError) -> Failure {
        let mut failure = Failure::from(error);
        if self.exchange.has_called() {
            failure.should_retry = Some(false);
            failure.has_called = true;
        }
        failure
    }
}

fn write_all(chunk: &mut Vec<u8>, events: Vec<StreamEvent>) {
    use std::io::Write as _;
    for event in events {
        // Writing to memory does not fail.
        let _ = write!(chunk, "{event}");
    }
}

#[cfg(test)]
mod tests;
