//! Passes the event stream of a provider on to a client with the same API.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::{self, BoxStream, Stream};
use memchr::{memchr2_iter, memmem, memrchr2_iter};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use toolwire_contract::model::ModelError;
use toolwire_dialect::Family;
use toolwire_dialect::client::{ClientError, ErrorKind};

use crate::catalog::Upstream;
use crate::forwarded_usage::ReportedUsage;
use crate::response::{Interrupted, model_error};
use crate::traffic::RequestRecorder;

/// The maximum size of an event that is held back until it is complete. A longer event is passed on in parts.
const MAX_HELD_BYTES: usize = 1024 * 1024;

/// The error for a response that exceeds `runTimeout`.
pub(crate) fn run_timeout_error() -> ClientError {
    ClientError::new(ErrorKind::TimedOut, "the response took too long")
}

/// Passes on what arrives until `deadline`. If the provider fails, a stream of events ends with an error
/// event of the API. Other bodies cannot express an error, so the connection is closed.
pub(crate) fn pass_on(
    parts: BoxStream<'static, Result<Bytes, ModelError>>,
    deadline: Instant,
    events: Option<Events>,
) -> impl Stream<Item = Result<Bytes, Interrupted>> + Send + 'static {
    let state = Some((parts, events));
    stream::unfold(state, move |state| async move {
        let (mut parts, mut events) = state?;
        loop {
            let error = match (timeout_at(deadline, parts.next()).await, &mut events) {
                (Ok(Some(Ok(bytes))), None) if bytes.is_empty() => continue,
                (Ok(Some(Ok(bytes))), None) => return Some((Ok(bytes), Some((parts, events)))),
                (Ok(Some(Ok(bytes))), Some(received)) => {
                    let bytes = received.next(bytes);
                    if bytes.is_empty() {
                        continue;
                    }
                    return Some((Ok(bytes), Some((parts, events))));
                }
                (Ok(None), None) => return None,
                (Ok(None), Some(received)) => match received.finish() {
                    Ok(rest) => return (!rest.is_empty()).then_some((Ok(rest), None)),
                    Err(error) => error,
                },
                // The response is complete; only its connection did not end properly.
                (Ok(Some(Err(_))) | Err(_), Some(received)) if received.has_ended() => return None,
                (Ok(Some(Err(error))), _) => model_error(&error),
                (Err(_), _) => run_timeout_error(),
            };
            let Some(events) = &events else { return Some((Err(Interrupted), None)) };
            let start = if events.partial.is_inside { "\n\n" } else { "" };
            let event =
                format!("{start}{}", error.event(events.family, &events.request_id, events.next_number()));
            return Some((Ok(Bytes::from(event)), None));
        }
    })
}

/// The events of one response.
pub(crate) struct Events {
    family: Family,
    request_id: String,
    /// The name of the model, for errors.
    model: String,
    upstream: Arc<dyn Upstream>,
    /// Whether the events are those of the family, so that the last one is known.
    pub(crate) has_known_end: bool,
    /// The number of alternatives that the request asks for (`n`).
    pub(crate) choices: u64,
    /// The alternatives that have ended.
    ended_choices: BTreeSet<u64>,
    /// Whether an event that ends the response was passed on. Others may follow it, for example with
    /// statistics of the server.
    has_end: bool,
    partial: PartialEvent,
    /// The last event with data. Of a very long event, only its beginning.
    last: Bytes,
    reported: ReportedUsage,
    /// The record of the reported tokens.
    pub(crate) recorder: Option<RequestRecorder>,
}

impl Events {
    pub(crate) fn new(
        family: Family,
        request_id: String,
        model: String,
        upstream: Arc<dyn Upstream>,
    ) -> Events {
        let (partial, last) = (PartialEvent::default(), Bytes::new());
        Events {
            family,
            request_id,
            model,
            upstream,
            has_known_end: true,
            choices: 1,
            ended_choices: BTreeSet::new(),
            has_end: false,
            partial,
            last,
            reported: ReportedUsage::default(),
            recorder: None,
        }
    }

    /// Returns what can be passed on now.
    fn next(&mut self, bytes: Bytes) -> Bytes {
        let was_inside = self.partial.is_inside;
        let bytes = self.partial.complete_events(bytes);
        if bytes.is_empty() {
            return bytes;
        }
        if self.partial.is_inside {
            if !was_inside {
                self.last = bytes.clone();
            }
            return bytes;
        }
        if may_end_response(self.family, &bytes) {
            let family = self.family;
            let may_end = |event: &&[u8]| may_end_response(family, event);
            events(&bytes).filter(may_end).for_each(|event| self.read_end(event));
        }
        if let Some(last) = last_event(&bytes) {
            self.last = bytes.slice(last..);
        }
        self.record_usage(&bytes);
        self.redacted(bytes)
    }

    /// Records the tokens that events report.
    fn record_usage(&mut self, bytes: &[u8]) {
        let Some(recorder) = self.recorder.as_ref().filter(|_| ReportedUsage::is_reported_in(bytes)) else {
            return;
        };
        for event in events(bytes).filter(|event| ReportedUsage::is_reported_in(event)) {
            if let Some(usage) = self.reported.read(&read_event(event).1) {
                recorder.set_usage(usage);
            }
        }
    }

    /// Records the end that an event reports.
    fn read_end(&mut self, event: &[u8]) {
        match end_of(self.family, event) {
            ResponseEnd::None => {}
            ResponseEnd::Choices(ended) => {
                self.ended_choices.extend(ended);
                self.has_end |= self.ended_choices.len() as u64 >= self.choices;
            }
            ResponseEnd::Response => self.has_end = true,
        }
    }

    /// Whether the response is complete after an event.
    fn is_complete_after(&self, event: &[u8]) -> bool {
        match end_of(self.family, event) {
            ResponseEnd::None => false,
            ResponseEnd::Choices(ended) => {
                let ended: BTreeSet<&u64> = self.ended_choices.iter().chain(&ended).collect();
                ended.len() as u64 >= self.choices
            }
            ResponseEnd::Response => true,
        }
    }

    /// Whether the last event of the response has arrived.
    fn has_ended(&self) -> bool {
        let has_end = || self.has_end || self.is_complete_after(&self.last);
        self.has_known_end && self.partial.bytes.is_empty() && has_end()
    }

    /// Returns the rest of a stream that ends, or an error if the response is not complete.
    fn finish(&mut self) -> Result<Bytes, ClientError> {
        let rest = self.partial.bytes.split().freeze();
        self.record_usage(&rest);
        let is_complete =
            self.has_end || [&self.last, &rest].iter().any(|event| self.is_complete_after(event));
        if !self.has_known_end || is_complete {
            return Ok(self.redacted(rest));
        }
        let problem = "the stream ended before the response was complete".to_owned();
        Err(model_error(&ModelError::Broken { model: self.model.clone(), problem }))
    }

    /// Returns the number of the next event, in APIs that number their events.
    fn next_number(&self) -> u64 {
        let (_, data) = read_event(&self.last);
        let last: Option<Value> = serde_json::from_slice(&data).ok();
        last.and_then(|event| event["sequence_number"].as_u64()).map_or(0, |number| number + 1)
    }

    /// Removes the provider's keys from errors. All other events stay as they are.
    fn redacted(&self, bytes: Bytes) -> Bytes {
        if memmem::find(&bytes, b"error").is_none() {
            return bytes;
        }
        let mut redacted = BytesMut::with_capacity(bytes.len());
        for event in events(&bytes) {
            match self.redacted_error(event) {
                Some(error) => redacted.extend_from_slice(error.as_bytes()),
                None => redacted.extend_from_slice(event),
            }
        }
        redacted.freeze()
    }

    /// Returns an event without keys, if it is an error that contains any.
    fn redacted_error(&self, event: &[u8]) -> Option<String> {
        memmem::find(event, b"error")?;
        let (name, data) = read_event(event);
        let error: Value = serde_json::from_slice(&data).ok()?;
        let is_set = |pointer: &str| error.pointer(pointer).is_some_and(|value| !value.is_null());
        if error["type"] != "error" && !is_set("/error") && !is_set("/response/error") {
            return None;
        }
        let redacted = self.upstream.redact(error.clone());
        let name = name.map_or_else(String::new, |name| format!("event: {name}\n"));
        (redacted != error).then(|| format!("{name}data: {redacted}\n\n"))
    }
}

/// Returns the name and the data of an event.
pub(crate) fn read_event(event: &[u8]) -> (Option<String>, Vec<u8>) {
    let (mut name, mut data) = (None, Vec::new());
    for line in event.split(|byte| matches!(byte, b'\n' | b'\r')) {
        if let Some(text) = line.strip_prefix(b"event:") {
            name = Some(String::from_utf8_lossy(text).trim().to_owned());
        } else if let Some(text) = line.strip_prefix(b"data:") {
            data.extend_from_slice(text);
        }
    }
    (name, data)
}

/// Whether one of these events may end the response. Reading each event would cost more than passing it on.
fn may_end_response(family: Family, events: &[u8]) -> bool {
    let contains = |text: &str| memmem::find(events, text.as_bytes()).is_some();
    match family {
        Family::Anthropic => contains("message_stop") || contains("error"),
        Family::OpenAiResponses => ["response.completed", "response.incomplete", "response.failed", "error"]
            .into_iter()
            .any(contains),
        _ => {
            let key = b"finish_reason\"";
            let is_set = |position: usize| {
                let value = events[position + key.len()..].trim_ascii_start();
                !value.strip_prefix(b":").unwrap_or(value).trim_ascii_start().starts_with(b"null")
            };
            contains("[DONE]") || contains("error") || memmem::find_iter(events, key).any(is_set)
        }
    }
}

/// The part of a response that an event ends.
enum ResponseEnd {
    None,
    /// The alternatives with these indexes.
    Choices(Vec<u64>),
    Response,
}

/// Returns the part of a response that an event ends. Some servers end Chat Completions without `[DONE]`.
fn end_of(family: Family, event: &[u8]) -> ResponseEnd {
    let (name, data) = read_event(event);
    if data.trim_ascii() == b"[DONE]" {
        return ResponseEnd::Response;
    }
    let data: Value = serde_json::from_slice(&data).unwrap_or(Value::Null);
    let is_type = |types: &[&str]| {
        let names = [name.as_deref(), data["type"].as_str()];
        names.into_iter().flatten().any(|name| types.contains(&name))
    };
    let choices = data["choices"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_end = match family {
        Family::Anthropic => is_type(&["message_stop", "error"]),
        Family::OpenAiResponses => {
            is_type(&["response.completed", "response.incomplete", "response.failed", "error"])
        }
        _ => !data["error"].is_null() || (choices.is_empty() && !data["usage"].is_null()),
    };
    if is_end {
        return ResponseEnd::Response;
    }
    let is_ended = |choice: &&Value| !choice["finish_reason"].is_null();
    match choices
        .iter()
        .filter(is_ended)
        .map(|choice| choice["index"].as_u64().unwrap_or(0))
        .collect::<Vec<_>>()
    {
        ended if ended.is_empty() => ResponseEnd::None,
        ended => ResponseEnd::Choices(ended),
    }
}

/// The beginning of an event whose end has not arrived. It is held back, because an error event cannot follow
/// half an event.
#[derive(Default)]
struct PartialEvent {
    bytes: BytesMut,
    /// Whether the bytes that were passed on end inside an event.
    is_inside: bool,
}

impl PartialEvent {
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
    memrchr2_iter(b'\n', b'\r', bytes).map(|at| at + 1).find(|end| ends_event(&bytes[..*end])).unwrap_or(0)
}

/// Whether the last line is empty.
pub(crate) fn ends_event(bytes: &[u8]) -> bool {
    bytes.ends_with(b"\n\n") || bytes.ends_with(b"\n\r\n") || bytes.ends_with(b"\r\r")
}

/// Returns the length of the first event, with the empty line after it.
fn first_event(bytes: &[u8]) -> usize {
    memchr2_iter(b'\n', b'\r', bytes)
        .map(|at| at + 1)
        .find(|end| ends_event(&bytes[..*end]))
        .unwrap_or(bytes.len())
}

/// Splits bytes into events, each with the empty line after it.
pub(crate) fn events(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (event, following) = rest.split_at(first_event(rest));
        rest = following;
        (!event.is_empty()).then_some(event)
    })
}

/// Returns the position of the last event with data.
fn last_event(bytes: &[u8]) -> Option<usize> {
    let mut end = bytes.len();
    while end > 0 {
        let start = end_of_events(&bytes[..end - 1]);
        if bytes[start..end]
            .split(|byte| matches!(byte, b'\n' | b'\r'))
            .any(|line| line.starts_with(b"data:"))
        {
            return Some(start);
        }
        end = start;
    }
    None
}

#[cfg(test)]
#[allow(clippy::result_large_err)]
mod tests;
