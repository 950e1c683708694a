//! Stores responses that a provider with the same API has written.
//!
//! The bytes are passed on unchanged, with two exceptions. A response that continues a stored response or a
//! conversation gets its id, which the provider does not know. A response that could not be stored is marked
//! as such.

use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use http::StatusCode;
use memchr::memmem;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Recording, Unstored};
use crate::forwarded_events::{ends_event, events, read_event};
use crate::response::{HttpResponse, Interrupted, ResponseBody};

/// The maximum size of an event that is held back until it is complete. A longer one is passed on, and its
/// response is not stored.
const MAX_EVENT_BYTES: usize = 32 * 1024 * 1024;

/// Events with a whole response have this key. In texts, its quotation marks are escaped.
const RESPONSE_KEY: &[u8] = b"\"response\"";

/// Stores a response before the client gets its end.
pub(crate) async fn record_forwarded(response: HttpResponse, recording: Recording) -> HttpResponse {
    if response.status() != StatusCode::OK {
        return response;
    }
    let content_type = response.headers().get("content-type");
    let is_events = content_type.is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
    let (head, body) = response.into_parts();
    let body = match body {
        ResponseBody::Whole(bytes) => {
            let bytes = match &recording.echo {
                Some(echo) => with_echo(&bytes, &[], echo).unwrap_or(bytes),
                None => bytes,
            };
            let unstored = match String::from_utf8(bytes.to_vec()) {
                Ok(text) => recording.commit_forwarded(text).await.unwrap_or(Unstored::ALL),
                Err(_) => Unstored::ALL,
            };
            ResponseBody::Whole(unstored.mark_text(&bytes).unwrap_or(bytes))
        }
        ResponseBody::Stream(stream) if is_events => ResponseBody::Stream(recorded(stream, recording)),
        other => other,
    };
    HttpResponse::from_parts(head, body)
}

/// The events of a response that will be stored.
struct RecordedEvents {
    stream: BoxStream<'static, Result<Bytes, Interrupted>>,
    /// `None` after the response is stored.
    recording: Option<Recording>,
    /// The start of an event whose end has not arrived.
    partial: BytesMut,
}

fn recorded(
    stream: BoxStream<'static, Result<Bytes, Interrupted>>,
    recording: Recording,
) -> BoxStream<'static, Result<Bytes, Interrupted>> {
    let state = RecordedEvents { stream, recording: Some(recording), partial: BytesMut::new() };
    stream::unfold(Some(state), |state| async move {
        let mut state = state?;
        loop {
            match state.stream.next().await {
                Some(Ok(bytes)) => {
                    let bytes = state.next(bytes).await;
                    if !bytes.is_empty() {
                        return Some((Ok(bytes), Some(state)));
                    }
                }
                Some(Err(interrupted)) => return Some((Err(interrupted), None)),
                None => {
                    let rest = state.partial.split().freeze();
                    return (!rest.is_empty()).then_some((Ok(rest), None));
                }
            }
        }
    })
    .boxed()
}

impl RecordedEvents {
    /// Returns what can be passed on now.
    async fn next(&mut self, bytes: Bytes) -> Bytes {
        if self.recording.is_none() {
            return bytes;
        }
        let bytes = match self.partial.is_empty() && ends_event(&bytes) {
            true => bytes,
            false => {
                self.partial.extend_from_slice(&bytes);
                if self.partial.len() > MAX_EVENT_BYTES {
                    self.recording = None;
                } else if !ends_event(&self.partial) {
                    return Bytes::new();
                }
                self.partial.split().freeze()
            }
        };
        if memmem::find(&bytes, RESPONSE_KEY).is_none() {
            return bytes;
        }
        let mut passed = BytesMut::with_capacity(bytes.len());
        for event in events(&bytes) {
            match self.read(event).await {
                Some(changed) => passed.extend_from_slice(&changed),
                None => passed.extend_from_slice(event),
            }
        }
        passed.freeze()
    }

    /// Stores the response of an event that ends it. Returns the event if it has to be changed.
    async fn read(&mut self, event: &[u8]) -> Option<Bytes> {
        #[derive(Deserialize)]
        struct WithResponse {
            #[serde(rename = "type")]
            type_name: String,
            response: Box<RawValue>,
        }
        memmem::find(event, RESPONSE_KEY)?;
        let (name, data) = read_event(event);
        let echo = self.recording.as_ref()?.echo.as_ref();
        let mut changed = echo.and_then(|echo| with_echo(&data, &["response"], echo));
        let data = changed.clone().unwrap_or_else(|| data.into());
        let WithResponse { type_name, response } = serde_json::from_slice(&data).ok()?;
        let is_end =
            ["response.completed", "response.incomplete", "response.failed"].contains(&type_name.as_str());
        if is_end && let Some(recording) = self.recording.take() {
            let stored = recording.commit_forwarded(response.get().to_owned()).await;
            changed = stored.unwrap_or(Unstored::ALL).mark_data(&data).or(changed);
        }
        let changed = String::from_utf8(changed?.to_vec()).ok()?;
        let name = name.map_or_else(String::new, |name| format!("event: {name}\n"));
        Some(Bytes::from(format!("{name}data: {changed}\n\n")))
    }
}

/// Returns a JSON text in which the response at a path repeats what it continues.
fn with_echo(text: &[u8], path: &[&str], (key, echo): &(&'static str, Value)) -> Option<Bytes> {
    let mut value: Value = serde_json::from_slice(text).ok()?;
    let mut response = &mut value;
    for key in path {
        response = response.get_mut(key)?;
    }
    response.as_object_mut()?.insert((*key).to_owned(), echo.clone());
    Some(Bytes::from(value.to_string()))
}
