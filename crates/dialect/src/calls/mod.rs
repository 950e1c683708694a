//! The calls a model asks for, out of a provider's answer.
//!
//! [`read_calls`] takes a whole answer, [`CallStream`] the events of a streamed one; both give the same calls. Names and
//! arguments are as the model wrote them: [`Toolset::decode`](crate::Toolset::decode) turns them into a tool's own.

mod draft;
mod reading;
mod stream;
mod write;

use serde_json::Value;

pub(crate) use draft::{Draft, Drafts, Ending, conclude};
pub(crate) use reading::{At, failure_in};
pub use stream::CallStream;
pub use write::write_calls;
pub(crate) use write::{arguments_object, arguments_text};

use crate::{
    Dialect, Family, anthropic, bedrock, cohere, gemini, mcp, ollama, openai_chat, openai_responses,
};

/// A call, as the model asked for it.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedCall {
    pub id: CallId,
    /// The name the model knows the tool by.
    pub name: String,
    /// The namespace the tool was offered in, where the API has them: look tools up by (namespace, name).
    pub namespace: Option<String>,
    /// As received: an object, JSON text of one, or something a model should not have written. `Null` when absent.
    pub arguments: Value,
    pub kind: CallKind,
    /// Gemini's `thoughtSignature` of this call. It must go back unchanged with the call.
    pub signature: Option<String>,
}

/// The id that pairs a call with its result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CallId {
    /// The API gave it.
    Given(String),
    /// The API gave none, so this one was made up. It is not sent back to an API that can do without ids.
    Synthetic(String),
}

/// What sort of tool is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallKind {
    /// A tool with JSON arguments, as all MCP tools are.
    #[default]
    Function,
    /// OpenAI's free-text tool; the arguments are the text itself.
    Custom,
}

/// No calls could be had from an answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CallError {
    /// The answer ended before the model was done. The calls must not run, even where they look whole; they are here
    /// so that each can be answered with an error.
    #[error("the answer was cut off ({reason}) with {} unfinished", count(.calls.len()))]
    Cut { reason: String, calls: Vec<ReceivedCall> },
    /// The provider says that the model's call was unusable.
    #[error("the provider could not use the model's call: {reason}")]
    Failed { reason: String, message: Option<String> },
    /// The provider answered with an error instead of a message.
    #[error("the provider answered with an error: {message}")]
    ErrorAnswer { message: String },
    /// The answer does not have the shape of this API.
    #[error("expected {expected} at `{pointer}`, found {found}")]
    Malformed { pointer: String, expected: &'static str, found: &'static str },
}

/// Reads the calls out of a whole answer: the response body, or the assistant's message alone.
///
/// An answer without calls gives none; that it was cut off matters only when there are calls.
pub fn read_calls(dialect: Dialect, answer: &Value) -> Result<Vec<ReceivedCall>, CallError> {
    match dialect.family() {
        Family::OpenAiChat => openai_chat::read_calls(answer),
        Family::OpenAiResponses => openai_responses::read_calls(answer),
        Family::Anthropic => anthropic::read_calls(answer),
        Family::Gemini => gemini::read_calls(answer),
        Family::Bedrock => bedrock::read_calls(answer),
        Family::Cohere => cohere::read_calls(answer),
        Family::Ollama => ollama::read_calls(answer),
        Family::Mcp => mcp::read_calls(answer),
    }
}

impl CallId {
    pub fn as_str(&self) -> &str {
        match self {
            CallId::Given(id) | CallId::Synthetic(id) => id,
        }
    }

    /// The id, if the API gave it.
    pub fn given(&self) -> Option<&str> {
        match self {
            CallId::Given(id) => Some(id),
            CallId::Synthetic(_) => None,
        }
    }
}

impl CallError {
    /// The next thing to try, in one line.
    pub fn hint(&self) -> &'static str {
        match self {
            CallError::Cut { .. } => {
                "allow the model more output, or answer each call with an error and ask again"
            }
            CallError::Failed { .. } => "ask again; if it repeats, offer fewer or simpler tools",
            CallError::ErrorAnswer { .. } => {
                "the message is the provider's own; mend what it names and ask again"
            }
            CallError::Malformed { .. } => {
                "check that the endpoint speaks the dialect it was configured with"
            }
        }
    }
}

fn count(calls: usize) -> String {
    match calls {
        1 => "1 call".to_owned(),
        more => format!("{more} calls"),
    }
}
