//! Calls out of the events of a streamed answer.

use serde_json::Value;

use super::{CallError, Draft, ReceivedCall};
use crate::{
    Dialect, Family, anthropic, bedrock, cohere, gemini, mcp, ollama, openai_chat, openai_responses,
};

/// Collects the calls of one streamed answer, event by event.
///
/// An event is the JSON of one server-sent event (or one line, where the API writes lines); events that concern no
/// calls are passed over. The first error is final: later events are ignored and [`CallStream::finish`] repeats it.
///
/// ```
/// use serde_json::json;
/// use toolwire_dialect::{CallStream, Dialect};
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
/// # Ok::<(), toolwire_dialect::CallError>(())
/// ```
#[derive(Debug)]
pub struct CallStream {
    state: State,
    error: Option<CallError>,
}

#[derive(Debug)]
enum State {
    OpenAiChat(openai_chat::Stream),
    OpenAiResponses(openai_responses::Stream),
    Anthropic(anthropic::Stream),
    Gemini(gemini::Stream),
    Bedrock(bedrock::Stream),
    Cohere(cohere::Stream),
    Ollama(ollama::Stream),
    Mcp(mcp::Stream),
}

impl CallStream {
    pub fn new(dialect: Dialect) -> CallStream {
        let state = match dialect.family() {
            Family::OpenAiChat => State::OpenAiChat(Default::default()),
            Family::OpenAiResponses => State::OpenAiResponses(Default::default()),
            Family::Anthropic => State::Anthropic(Default::default()),
            Family::Gemini => State::Gemini(Default::default()),
            Family::Bedrock => State::Bedrock(Default::default()),
            Family::Cohere => State::Cohere(Default::default()),
            Family::Ollama => State::Ollama(Default::default()),
            Family::Mcp => State::Mcp(Default::default()),
        };
        CallStream { state, error: None }
    }

    /// Takes the next event.
    pub fn push(&mut self, event: &Value) -> Result<(), CallError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let outcome = match &mut self.state {
            State::OpenAiChat(stream) => stream.push(event),
            State::OpenAiResponses(stream) => stream.push(event),
            State::Anthropic(stream) => stream.push(event),
            State::Gemini(stream) => stream.push(event),
            State::Bedrock(stream) => stream.push(event),
            State::Cohere(stream) => stream.push(event),
            State::Ollama(stream) => stream.push(event),
            State::Mcp(stream) => stream.push(event),
        };
        self.error = outcome.as_ref().err().cloned();
        outcome
    }

    /// The calls that have begun, in their order.
    pub(crate) fn drafts(&self) -> &[Draft] {
        match &self.state {
            State::OpenAiChat(stream) => stream.drafts(),
            State::OpenAiResponses(stream) => stream.drafts(),
            State::Anthropic(stream) => stream.drafts(),
            State::Gemini(stream) => stream.drafts(),
            State::Bedrock(stream) => stream.drafts(),
            State::Cohere(stream) => stream.drafts(),
            State::Ollama(stream) => stream.drafts(),
            State::Mcp(stream) => stream.drafts(),
        }
    }

    /// The calls, once the stream is over. A stream that broke off gives [`CallError::Cut`] when it held calls.
    pub fn finish(self) -> Result<Vec<ReceivedCall>, CallError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        match self.state {
            State::OpenAiChat(stream) => stream.finish(),
            State::OpenAiResponses(stream) => stream.finish(),
            State::Anthropic(stream) => stream.finish(),
            State::Gemini(stream) => stream.finish(),
            State::Bedrock(stream) => stream.finish(),
            State::Cohere(stream) => stream.finish(),
            State::Ollama(stream) => stream.finish(),
            State::Mcp(stream) => stream.finish(),
        }
    }
}
