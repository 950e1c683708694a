//! Whole answers: the assistant's message with what the API says about it, streamed or not.

use std::sync::Arc;

use serde_json::Value;
use toolwire_contract::{Answer, ModelEvent};

use crate::{Dialect, Toolset};

/// Collects one streamed answer, event by event.
///
/// An event is the JSON of one server-sent event (or one line, or one message of an AWS event stream as an object with
/// the event's name as its one key). The first error is final: later events give it again.
#[derive(Debug)]
pub struct AnswerStream {
    dialect: Dialect,
    tools: Arc<Toolset>,
    seed: String,
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
        answer: Box<Answer>,
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
        AnswerStream { dialect, tools, seed: String::new() }
    }

    /// What makes ids of this answer's calls unlike those of others, where the API gives none: such as the number of
    /// messages before it.
    #[must_use]
    pub fn with_seed(self, seed: impl Into<String>) -> AnswerStream {
        AnswerStream { seed: seed.into(), ..self }
    }

    /// Takes the next event and gives what can be shown of it. There is never a [`ModelEvent::Answer`] among it.
    pub fn push(&mut self, event: &Value) -> Result<Vec<ModelEvent>, AnswerError> {
        let _ = (self.dialect, &self.tools, &self.seed, event);
        unimplemented!("the signature comes first")
    }

    /// The whole answer, once the stream is over.
    pub fn finish(self) -> Result<Answer, AnswerError> {
        unimplemented!("the signature comes first")
    }
}

/// Reads an answer that came whole: the body of the response.
pub fn read_answer(dialect: Dialect, answer: &Value, tools: &Toolset) -> Result<Answer, AnswerError> {
    let _ = (dialect, answer, tools);
    unimplemented!("the signature comes first")
}

impl AnswerError {
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
