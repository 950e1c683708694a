//! Whole answers: the assistant's message with what the API says about it, streamed or not.

mod assemble;
mod reading;

use std::sync::Arc;

use serde_json::{Value, json};
use toolwire_contract::{ModelEvent, ModelResponse};

use crate::calls::At;
use crate::{
    CallError, CallStream, Dialect, Family, ReceivedCall, Toolset, anthropic, bedrock, cohere, gemini, mcp,
    ollama, openai_chat, openai_responses, read_calls,
};
use assemble::{Assembly, call_id};
pub(crate) use assemble::{UNREADABLE, id_for};
pub(crate) use reading::{Reading, Slot, append, show_text, show_thinking, update, usage};

/// Collects one streamed answer, event by event.
///
/// An event is the JSON of one server-sent event (or one line, or one message of an AWS event stream as an object with
/// the event's name as its one key). The first error is final: later events give it again.
#[derive(Debug)]
pub struct AnswerStream {
    dialect: Dialect,
    tools: Arc<Toolset>,
    seed: String,
    calls: CallStream,
    reader: Reader,
    /// How many calls have been told to have begun.
    announced: usize,
    error: Option<AnswerError>,
    /// Whether there was anything to show.
    has_shown: bool,
}

/// Each family's part that reads everything but the calls.
#[derive(Debug)]
enum Reader {
    OpenAiChat(openai_chat::Reader),
    OpenAiResponses(openai_responses::Reader),
    Anthropic(anthropic::Reader),
    Gemini(gemini::Reader),
    Bedrock(bedrock::Reader),
    Cohere(cohere::Reader),
    Ollama(ollama::Reader),
    Mcp(mcp::Reader),
}

/// No answer could be had.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AnswerError {
    /// The provider answered with an error, at once or in the middle of a stream.
    #[error("the provider answered with an error: {message}")]
    Provider {
        message: String,
        /// What the provider sent, whole.
        body: Value,
    },
    /// The stream ended, and no event said that the answer had.
    #[error("the stream ended before the answer did")]
    Cut {
        /// What came until then; its calls are all unusable.
        answer: Box<ModelResponse>,
    },
    /// The provider says that the model's answer was unusable, such as a call it could not read.
    #[error("the provider could not use what the model wrote: {reason}")]
    Failed { reason: String, message: Option<String> },
    /// The answer does not have the shape of this API.
    #[error("expected {expected} at `{pointer}`, found {found}")]
    Malformed { pointer: String, expected: &'static str, found: &'static str },
}

impl AnswerStream {
    /// A stream of `dialect`; `tools` are those of the request.
    pub fn new(dialect: Dialect, tools: Arc<Toolset>) -> AnswerStream {
        AnswerStream {
            dialect,
            tools,
            seed: String::new(),
            calls: CallStream::new(dialect),
            reader: Reader::new(dialect),
            announced: 0,
            error: None,
            has_shown: false,
        }
    }

    /// What makes ids of this answer's calls unlike those of others, where the API gives none: such as the number of
    /// messages before it.
    #[must_use]
    pub fn with_seed(self, seed: impl Into<String>) -> AnswerStream {
        AnswerStream { seed: seed.into(), ..self }
    }

    /// Takes the next event and gives what can be shown of it. There is never a [`ModelEvent::Response`] among it.
    pub fn push(&mut self, event: &Value) -> Result<Vec<ModelEvent>, AnswerError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let mut shown = Vec::new();
        let outcome = self.calls.push(event).and_then(|()| self.reader.push(&At::root(event), &mut shown));
        if let Err(error) = outcome {
            let error = AnswerError::from_call_error(error, event);
            self.error = Some(error.clone());
            return Err(error);
        }
        self.announce(&mut shown);
        self.has_shown |= !shown.is_empty();
        Ok(shown)
    }

    /// The provider says that nothing more comes, with OpenAI's closing word (`data: [DONE]`). Some gateways end an answer with
    /// it alone, and tell no reason.
    pub fn end(&mut self) -> Result<(), AnswerError> {
        let Reader::OpenAiChat(reader) = &self.reader else { return Ok(()) };
        if reader.has_ended() || !self.has_shown {
            return Ok(());
        }
        let reason = if self.calls.drafts().is_empty() { "stop" } else { "tool_calls" };
        let last = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
        self.push(&last).map(drop)
    }

    /// Tells of calls that have begun, once their ids are known.
    fn announce(&mut self, shown: &mut Vec<ModelEvent>) {
        let gives_ids = !matches!(self.dialect.family(), Family::Gemini | Family::Ollama | Family::Mcp);
        let response = self.reader.id().unwrap_or_default();
        for (position, draft) in self.calls.drafts().iter().enumerate().skip(self.announced) {
            let is_waiting = gives_ids && draft.id.is_none() && draft.has_no_arguments();
            if draft.name.is_empty() || is_waiting {
                break;
            }
            let id = call_id(draft.id.as_deref(), position, &draft.name, response, &self.seed);
            let name = self.tools.own_name(&draft.name).unwrap_or(&draft.name).to_owned();
            shown.push(ModelEvent::CallAnnounced { id, name });
            self.announced = position + 1;
        }
    }

    /// The whole answer, once the stream is over.
    pub fn finish(self) -> Result<ModelResponse, AnswerError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let reading = self.reader.finish();
        let (calls, cut) = settle(self.calls.finish(), &Value::Null)?;
        let is_whole = reading.stop.is_some();
        let cut = if is_whole { cut } else { Some("the stream ended early".to_owned()) };
        let assembly = Assembly { dialect: self.dialect, tools: &self.tools, seed: &self.seed, cut };
        let answer = assembly.assemble(reading, calls);
        if is_whole { Ok(answer) } else { Err(AnswerError::Cut { answer: Box::new(answer) }) }
    }
}

/// Reads an answer that came whole: the body of the response. The `seed` is that of [`AnswerStream::with_seed`].
pub fn read_answer(
    dialect: Dialect,
    answer: &Value,
    tools: &Toolset,
    seed: &str,
) -> Result<ModelResponse, AnswerError> {
    let (calls, cut) = settle(read_calls(dialect, answer), answer)?;
    let mut reader = Reader::new(dialect);
    let read = reader.whole(&At::root(answer), &mut Vec::new());
    read.map_err(|error| AnswerError::from_call_error(error, answer))?;
    Ok(Assembly { dialect, tools, seed, cut }.assemble(reader.finish(), calls))
}

/// The calls, and why none of them may run.
fn settle(
    calls: Result<Vec<ReceivedCall>, CallError>,
    body: &Value,
) -> Result<(Vec<ReceivedCall>, Option<String>), AnswerError> {
    match calls {
        Ok(calls) => Ok((calls, None)),
        Err(CallError::Cut { reason, calls }) => Ok((calls, Some(reason))),
        Err(error) => Err(AnswerError::from_call_error(error, body)),
    }
}

/// Runs the same on the reader of every family.
macro_rules! each {
    ($reader:expr, $inner:ident => $run:expr) => {
        match $reader {
            Reader::OpenAiChat($inner) => $run,
            Reader::OpenAiResponses($inner) => $run,
            Reader::Anthropic($inner) => $run,
            Reader::Gemini($inner) => $run,
            Reader::Bedrock($inner) => $run,
            Reader::Cohere($inner) => $run,
            Reader::Ollama($inner) => $run,
            Reader::Mcp($inner) => $run,
        }
    };
}

impl Reader {
    fn new(dialect: Dialect) -> Reader {
        match dialect.family() {
            Family::OpenAiChat => Reader::OpenAiChat(Default::default()),
            Family::OpenAiResponses => Reader::OpenAiResponses(Default::default()),
            Family::Anthropic => Reader::Anthropic(Default::default()),
            Family::Gemini => Reader::Gemini(Default::default()),
            Family::Bedrock => Reader::Bedrock(Default::default()),
            Family::Cohere => Reader::Cohere(Default::default()),
            Family::Ollama => Reader::Ollama(Default::default()),
            Family::Mcp => Reader::Mcp(Default::default()),
        }
    }

    fn push(&mut self, event: &At<'_>, shown: &mut Vec<ModelEvent>) -> Result<(), CallError> {
        each!(self, reader => reader.push(event, shown))
    }

    fn whole(&mut self, answer: &At<'_>, shown: &mut Vec<ModelEvent>) -> Result<(), CallError> {
        each!(self, reader => reader.whole(answer, shown))
    }

    fn id(&self) -> Option<&str> {
        each!(self, reader => reader.id())
    }

    fn finish(self) -> Reading {
        each!(self, reader => reader.finish())
    }
}

impl AnswerError {
    fn from_call_error(error: CallError, body: &Value) -> AnswerError {
        match error {
            CallError::ErrorAnswer { message } => AnswerError::Provider { message, body: body.clone() },
            CallError::Failed { reason, message } => AnswerError::Failed { reason, message },
            CallError::Malformed { pointer, expected, found } => {
                AnswerError::Malformed { pointer, expected, found }
            }
            // Cut calls are part of an answer; see `settle`.
            CallError::Cut { reason, .. } => AnswerError::Failed { reason, message: None },
        }
    }

    /// The next thing to try, in one line.
    pub fn hint(&self) -> &'static str {
        match self {
            AnswerError::Provider { .. } => {
                "the message is the provider's own; mend what it names and ask again"
            }
            AnswerError::Cut { .. } => "ask again",
            AnswerError::Failed { .. } => "ask again; if it repeats, offer fewer or simpler tools",
            AnswerError::Malformed { .. } => {
                "check that the endpoint speaks the dialect it was configured with"
            }
        }
    }
}
