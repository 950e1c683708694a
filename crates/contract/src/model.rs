//! Something that answers a conversation: a language model behind an API, or a stand-in for one.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use futures_core::stream::BoxStream;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Message, Tool, Usage};

/// Something that answers a [`ModelRequest`].
///
/// What goes in and comes out is MCP's: tools under their own names, arguments as their own schemas want them. Each
/// provider's way of saying it stays behind this trait.
pub trait Model: Send + Sync {
    /// The model as people write it, such as `openai/gpt-5.2`.
    fn name(&self) -> &str;

    /// What is known of its limits.
    fn limits(&self) -> ModelLimits {
        ModelLimits::default()
    }

    /// Asks for the next message. The stream yields pieces as they come, then one [`ModelEvent::Answer`] as its last
    /// event, or an error as its last event. Nothing is asked before the stream is polled; dropping it ends the request.
    fn ask(&self, request: ModelRequest) -> BoxStream<'_, Result<ModelEvent, ModelError>>;
}

/// What a model takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelLimits {
    /// Tokens of request and answer together.
    pub context_tokens: Option<u64>,
    /// The most tools in one request.
    pub tools: Option<usize>,
}

/// A conversation to be answered.
///
/// Every call in the messages has its result in the next message, which is the user's; a model may refuse others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelRequest {
    /// What the model is told before the conversation.
    pub instructions: Option<String>,
    /// Shared with whoever keeps the conversation: it is sent again with each request, and grows.
    pub messages: Vec<Arc<Message>>,
    /// The tools it may call, in an order that stays the same from request to request.
    pub tools: Arc<[Tool]>,
    pub tool_choice: ToolChoice,
    pub max_output_tokens: Option<u64>,
    pub temperature: Option<f64>,
}

/// Whether the model calls tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// At least one.
    Required,
    /// None, though they are listed.
    None,
    /// This one.
    Tool(String),
}

/// A part of an answer as it comes.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// The next piece of the text.
    Text(String),
    /// The next piece of what the model lets be seen of its thinking.
    Thinking(String),
    /// A call has begun; its arguments are still being written.
    CallBegan { id: String, name: String },
    /// All of it, once it is over.
    Answer(Answer),
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The assistant's message. What only its own provider understands (thinking, signatures) is in it as blocks and
    /// `_meta` that others pass over.
    pub message: Message,
    pub stop: StopReason,
    pub usage: Option<Usage>,
    /// Calls in the message that must not run, each with what the model is to be told instead.
    pub unusable: Vec<UnusableCall>,
}

/// A call that must not run: its arguments cannot be read, or the answer was cut off in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnusableCall {
    pub id: String,
    /// For the model to read.
    pub problem: String,
}

/// Why the answer ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model has said what it had to say.
    End,
    /// It waits for the results of its calls.
    Calls,
    /// It reached the limit of its output or of its context.
    Length,
    /// It would not answer, or a filter of the provider's stepped in.
    Refusal,
    /// The provider's own word.
    Other(String),
}

/// Why there is no answer. What the provider said is kept whole.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    #[error("`{model}` cannot be asked: {problem}")]
    Unusable { model: String, problem: String, hint: Option<String> },
    #[error("`{model}` could not be reached: {problem}")]
    Unreachable { model: String, problem: String },
    #[error("`{model}` {waiting_for} within {after:?}")]
    TimedOut { model: String, waiting_for: Wait, after: Duration },
    /// The provider answered with an error.
    #[error("`{model}` answered with an error{}: {message}", status.map(|status| format!(" ({status})")).unwrap_or_default())]
    Refused {
        model: String,
        status: Option<u16>,
        /// The provider's own message, or the explanation of it where one is known.
        message: String,
        hint: Option<String>,
        /// What the provider sent, whole.
        body: Value,
    },
    /// The answer broke off after it had begun, so it was not asked for again.
    #[error("the answer of `{model}` broke off: {problem}")]
    Broken { model: String, problem: String },
    /// The answer is not what this API sends.
    #[error("the answer of `{model}` cannot be read: {problem}")]
    Malformed { model: String, problem: String },
}

/// What was waited for in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Connection,
    FirstToken,
    NextToken,
}

impl fmt::Display for Wait {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Wait::Connection => "took no connection",
            Wait::FirstToken => "began no answer",
            Wait::NextToken => "did not go on with its answer",
        })
    }
}

impl ModelError {
    /// A word for programs.
    pub const fn code(&self) -> &'static str {
        match self {
            ModelError::Unusable { .. } => "unusable",
            ModelError::Unreachable { .. } => "unreachable",
            ModelError::TimedOut { .. } => "timed_out",
            ModelError::Refused { .. } => "refused",
            ModelError::Broken { .. } => "broken",
            ModelError::Malformed { .. } => "malformed",
        }
    }

    /// What to try next, in one line.
    pub fn hint(&self) -> Option<&str> {
        match self {
            ModelError::Unusable { hint, .. } | ModelError::Refused { hint, .. } => hint.as_deref(),
            ModelError::Unreachable { .. } => Some("check the address of the endpoint and the network"),
            ModelError::TimedOut { .. } => Some("ask again, or allow the model more time"),
            ModelError::Broken { .. } => Some("ask again"),
            ModelError::Malformed { .. } => {
                Some("check that the endpoint speaks the API it was configured with")
            }
        }
    }
}
