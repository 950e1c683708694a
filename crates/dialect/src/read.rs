//! Reads responses, complete or streamed: only the calls, or the complete message.

use std::sync::Arc;

use serde_json::Value;
use toolwire_contract::model::{ModelEvent, ModelResponse, ResponseDetails, StopReason};

use crate::client::{ClientRequest, InvalidRequest};
use crate::families::FamilyFormat;
use crate::output::BoundOutput;
use crate::response::ReceivedCall;
use crate::response::{
    Assembly, CallDraft, Ending, JsonCursor, ParsedResponse, ResponseError, ResponseParts, ResponseReader,
    StopSequences,
};
use crate::{Dialect, Family, Toolset};

/// Reads the calls in a complete response: the body, or only the assistant's message.
///
/// Names and arguments are as the model wrote them; [`Toolset::decode`] converts them to the tool's own. A
/// response without calls returns none, even if it was cut off.
pub fn read_calls(dialect: Dialect, body: &Value) -> Result<Vec<ReceivedCall>, ResponseError> {
    let mut reading = Reading::new(dialect);
    reading.body(body)?;
    received_calls(reading.finish()?)
}

/// Collects the calls of one streamed response, event by event.
///
/// An event is the JSON of one server-sent event, or of one line where the API sends lines. The first error
/// is final: later events return it again, and so does [`CallStream::finish`].
///
/// ```
/// use serde_json::json;
/// use toolwire_dialect::Dialect;
/// use toolwire_dialect::response::CallStream;
///
/// let mut stream = CallStream::new(Dialect::OpenAi);
/// for event in [
///     json!({"choices": [{"index": 0, "delta": {"tool_calls": [
///         {"index": 0, "id": "call_a", "type": "function", "function": {"name": "get", "arguments": ""}}]}}]}),
///     json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{\"q\""}}]}}]}),
///     json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}}]}),
///     json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
/// ] {
///     stream.push(&event)?;
/// }
/// let calls = stream.finish()?;
/// assert_eq!(calls[0].arguments, json!("{\"q\":1}"));
/// # Ok::<(), toolwire_dialect::response::ResponseError>(())
/// ```
#[derive(Debug)]
pub struct CallStream {
    reading: Reading,
}

impl CallStream {
    pub fn new(dialect: Dialect) -> CallStream {
        CallStream { reading: Reading::new(dialect) }
    }

    /// Reads the next event.
    pub fn push(&mut self, event: &Value) -> Result<(), ResponseError> {
        self.reading.event(event)?;
        self.reading.parts.events.clear();
        Ok(())
    }

    /// Returns the calls after the end of the stream. If a stream with calls ended early, this is a
    /// [`ResponseError::CutOff`].
    pub fn finish(self) -> Result<Vec<ReceivedCall>, ResponseError> {
        received_calls(self.reading.finish()?)
    }
}

/// Reads a complete response: the body. `seed` is that of [`ResponseStream::with_seed`].
pub fn read_response(
    dialect: Dialect,
    body: &Value,
    tools: &Toolset,
    seed: &str,
) -> Result<ModelResponse, ResponseError> {
    let mut reading = Reading::new(dialect);
    reading.body(body)?;
    let assembly = reading.assembly(tools, seed);
    Ok(assembly.assemble(reading.finish()?))
}

/// Reads a request of a client, as the gateway receives it. `None`: the gateway does not serve this API.
///
/// Fields that have no type of their own are preserved for APIs of the same family, see
/// [`Generation::family_fields`](toolwire_contract::model::Generation::family_fields).
pub fn read_client_request(family: Family, body: Value) -> Option<Result<ClientRequest, InvalidRequest>> {
    family.format().read_client_request.map(|read| read(body))
}

/// Collects one streamed response, event by event.
///
/// An event is the JSON of one server-sent event, of one line, or of one message of an AWS event stream (an
/// object with the event's name as its only key). The first error is final: later events return it again.
#[derive(Debug)]
pub struct ResponseStream {
    reading: Reading,
    tools: Arc<Toolset>,
    seed: String,
    /// The number of calls that have been announced.
    announced: usize,
    /// Whether any event has been returned.
    has_content: bool,
    output: Option<Arc<BoundOutput>>,
    stop: StopSequences,
    /// The details that the last event contained.
    details: ResponseDetails,
}

impl ResponseStream {
    /// Creates a stream of `dialect`; `tools` are those of the request.
    pub fn new(dialect: Dialect, tools: Arc<Toolset>) -> ResponseStream {
        let reading = Reading::new(dialect);
        ResponseStream {
            reading,
            tools,
            seed: String::new(),
            announced: 0,
            has_content: false,
            output: None,
            stop: StopSequences::default(),
            details: ResponseDetails::default(),
        }
    }

    /// Sets a text that makes the synthetic ids of calls differ from those of other responses, where the API
    /// sends no ids: for example the number of earlier messages.
    #[must_use]
    pub fn with_seed(self, seed: impl Into<String>) -> ResponseStream {
        ResponseStream { seed: seed.into(), ..self }
    }

    /// Sets the format of the response. Its text is then only in the response, decoded.
    #[must_use]
    pub fn with_output(self, output: Option<Arc<BoundOutput>>) -> ResponseStream {
        ResponseStream { output, ..self }
    }

    /// Sets the stop sequences of the request. If the API has none of its own, the text ends before the first
    /// of them; see [`ResponseStream::is_stopped`].
    #[must_use]
    pub fn with_stop(self, sequences: &[String]) -> ResponseStream {
        let has_stop = (self.reading.format.generation)(self.reading.dialect).stop.is_some();
        let sequences = if has_stop { &[] } else { sequences };
        ResponseStream { stop: StopSequences::new(sequences), ..self }
    }

    /// Reads the next event and returns what can be displayed of it. This never contains a
    /// [`ModelEvent::Response`].
    pub fn push(&mut self, event: &Value) -> Result<Vec<ModelEvent>, ResponseError> {
        if self.is_stopped() {
            return Ok(Vec::new());
        }
        self.reading.event(event)?;
        Ok(self.take_events())
    }

    /// Reads a complete response instead of a stream. Returns the same events as a stream.
    pub fn push_body(&mut self, body: &Value) -> Result<Vec<ModelEvent>, ResponseError> {
        self.reading.body(body)?;
        Ok(self.take_events())
    }

    /// Whether the text has reached a stop sequence that the API does not know. The rest of the stream is not
    /// needed; call [`ResponseStream::finish`].
    pub fn is_stopped(&self) -> bool {
        self.stop.is_found()
    }

    fn take_events(&mut self) -> Vec<ModelEvent> {
        self.announce_calls();
        let mut events = std::mem::take(&mut self.reading.parts.events);
        self.has_content |= !events.is_empty();
        if !self.stop.is_empty() {
            events = self.stop_events(events);
        }
        // Before the first event with content, a request can be repeated, so details alone do not count as an
        // event.
        let may_report = !events.is_empty() || self.reading.parts.ending.is_some();
        if may_report && self.details != self.reading.parts.details {
            self.details.clone_from(&self.reading.parts.details);
            events.insert(0, ModelEvent::Details(self.details.clone()));
        }
        if let Some(output) = &self.output {
            events.retain(|event| match event {
                ModelEvent::Text(_) | ModelEvent::TextPart | ModelEvent::Citation(_) => false,
                ModelEvent::CallAnnounced { name, .. } => output.tool_name() != Some(name),
                _ => true,
            });
        }
        events
    }

    /// Returns the events before the first stop sequence, without the text that may be the start of one.
    fn stop_events(&mut self, events: Vec<ModelEvent>) -> Vec<ModelEvent> {
        let mut before = Vec::with_capacity(events.len());
        let add_text = |before: &mut Vec<ModelEvent>, text: String| {
            if !text.is_empty() {
                before.push(ModelEvent::Text(text));
            }
        };
        for event in events {
            match event {
                ModelEvent::Text(text) => add_text(&mut before, self.stop.push(&text)),
                other => before.push(other),
            }
            if self.stop.is_found() {
                return before;
            }
        }
        if self.reading.parts.ending.is_some() {
            add_text(&mut before, self.stop.flush());
        }
        before
    }

    /// Handles the marker at the end of OpenAI's streams (`data: [DONE]`). Some gateways send it without a
    /// finish reason.
    pub fn end(&mut self) -> Result<(), ResponseError> {
        if let Some(error) = &self.reading.error {
            return Err(error.clone());
        }
        if self.reading.format.rules.has_done_marker && self.has_content {
            self.reading.parts.ending.get_or_insert(Ending::Finished(StopReason::End));
        }
        Ok(())
    }

    /// Announces calls that have started, once their ids are known.
    fn announce_calls(&mut self) {
        let assembly = self.reading.assembly(&self.tools, &self.seed);
        let parts = &mut self.reading.parts;
        for (position, draft) in parts.calls.iter().enumerate().skip(self.announced) {
            let may_have_id = assembly.requires_call_ids && parts.ending.is_none();
            let is_id_pending = may_have_id && draft.id.is_none() && draft.has_no_arguments();
            if draft.name.is_empty() || is_id_pending {
                break;
            }
            let id = assembly.call_id(draft, position, parts.id.as_deref());
            let name = assembly.own_name(&draft.name, draft.namespace.as_deref());
            parts.events.push(ModelEvent::CallAnnounced { id, name });
            self.announced = position + 1;
        }
    }

    /// Returns the complete response after the end of the stream.
    pub fn finish(mut self) -> Result<ModelResponse, ResponseError> {
        let ending = &mut self.reading.parts.ending;
        if self.stop.is_found() && !matches!(ending, Some(Ending::Rejected { .. })) {
            *ending = Some(Ending::Finished(StopReason::End));
        }
        let assembly = self.reading.assembly(&self.tools, &self.seed);
        let parsed = self.reading.finish()?;
        let is_complete = parsed.is_complete;
        let mut response = assembly.assemble(parsed);
        self.stop.cut(&mut response);
        let response = match &self.output {
            Some(output) => output.decode(response),
            None => response,
        };
        if is_complete {
            Ok(response)
        } else {
            Err(ResponseError::Incomplete { response: Box::new(response) })
        }
    }
}

/// A response that is being read. Both kinds of streams are views of it.
#[derive(Debug)]
struct Reading {
    dialect: Dialect,
    format: &'static FamilyFormat,
    reader: Box<dyn ResponseReader>,
    parts: ResponseParts,
    error: Option<ResponseError>,
}

impl Reading {
    fn new(dialect: Dialect) -> Reading {
        let format = dialect.family().format();
        Reading {
            dialect,
            format,
            reader: (format.new_reader)(),
            parts: ResponseParts::default(),
            error: None,
        }
    }

    fn assembly<'a>(&self, tools: &'a Toolset, seed: &'a str) -> Assembly<'a> {
        let requires_call_ids = self.format.rules.requires_call_ids;
        Assembly { dialect: self.dialect, tools, seed, requires_call_ids }
    }

    fn event(&mut self, event: &Value) -> Result<(), ResponseError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let outcome = self.reader.event(&JsonCursor::root(event), &mut self.parts);
        self.error = outcome.as_ref().err().cloned();
        outcome
    }

    fn body(&mut self, body: &Value) -> Result<(), ResponseError> {
        let outcome = self.reader.body(&JsonCursor::root(body), &mut self.parts);
        self.error = outcome.as_ref().err().cloned();
        self.parts.ending.get_or_insert(Ending::Finished(StopReason::End));
        outcome
    }

    fn finish(mut self) -> Result<ParsedResponse, ResponseError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let blocks = self.reader.finish(&mut self.parts);
        let usage = (self.format.read_usage)(&self.parts.usage);
        self.parts.finish(blocks, usage)
    }
}

fn received_calls(parsed: ParsedResponse) -> Result<Vec<ReceivedCall>, ResponseError> {
    let is_named = |(_, draft): &(usize, CallDraft)| !draft.name.is_empty();
    let drafts = parsed.calls.into_iter().enumerate().filter(is_named);
    let calls: Vec<ReceivedCall> = drafts.map(|(position, draft)| draft.finish(position)).collect();
    match parsed.cut_off {
        Some(reason) if !calls.is_empty() => Err(ResponseError::CutOff { reason, calls }),
        _ => Ok(calls),
    }
}
