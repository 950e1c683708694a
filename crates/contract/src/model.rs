//! The `Model` trait: a language model behind an API, or a replacement for one in tests and demos.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use crate::conversation::Usage;
pub use crate::embedder::{Embedder, TextPurpose};
pub use crate::generation::{Effort, FamilyFields, Generation};
pub use crate::output_format::OutputFormat;
pub use crate::response_details::{Citation, ProviderPart, ResponseDetails};
use crate::text::format_size;
use crate::trace_context::TraceContext;
pub use crate::verbatim::{ProviderTool, VerbatimRequest};
use crate::{Content, Message, Tool};

/// A model that responds to a [`ModelRequest`].
///
/// Requests and responses use MCP's types: tools have their own names, and arguments match the tools' own
/// schemas. Provider formats stay behind this trait.
pub trait Model: Send + Sync {
    /// Returns the model's name as users write it, such as `openai/gpt-5.2`.
    fn name(&self) -> &str;

    /// Returns the limits of the model, as far as they are known now.
    fn limits(&self) -> ModelLimits {
        ModelLimits::default()
    }

    /// Requests the limits of the model from the provider, if they are not known otherwise. Await it before
    /// the first request; later calls do nothing. If the provider does not state them, the limits stay
    /// unknown.
    fn prepare(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Checks whether the model accepts a block of a user message. In a request, a block that it does not
    /// accept becomes a note.
    fn check_content(&self, _content: &Content) -> Result<(), UnsupportedContent> {
        Ok(())
    }

    /// Whether every endpoint sends a client's request as the client wrote it
    /// ([`ModelRequest::verbatim`](ModelRequest)). Otherwise it may be converted, and lose fields.
    fn keeps_verbatim(&self, _request: &ModelRequest) -> bool {
        true
    }

    /// Requests the next message. The stream yields fragments as they arrive. Its last event is a
    /// [`ModelEvent::Response`] or an error. The request is sent on the first poll; dropping the stream
    /// cancels it.
    fn ask(&self, request: ModelRequest) -> BoxStream<'_, Result<ModelEvent, ModelError>>;
}

/// The limits of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelLimits {
    /// Maximum tokens of request and response together.
    pub context_tokens: Option<u64>,
    /// Maximum number of tools in one request.
    pub tools: Option<usize>,
    /// Whether a request cannot have both an output format and tools that may be called.
    pub separate_output: bool,
}

/// A conversation to respond to.
///
/// Every call in the messages must have its result in the next message, which has the role `user`. A model
/// may reject anything else.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelRequest {
    /// The system prompt.
    pub instructions: Option<String>,
    /// Shared, not copied: every request repeats the growing conversation.
    pub messages: Vec<Arc<Message>>,
    /// The tools that the model may call, in the same order in every request, so that prompt caches work.
    pub tools: Arc<[Tool]>,
    /// The names of tools that were found or called before, the most recent first. APIs that support strict
    /// mode for some of the tools use it for these.
    pub recent_tools: Arc<[String]>,
    pub tool_choice: ToolChoice,
    pub max_output_tokens: Option<u64>,
    pub temperature: Option<f64>,
    pub generation: Generation,
    /// The format of the response. A response in a JSON format is only in [`ModelEvent::Response`], not in
    /// text events. It is converted to the original schema of the format, but not validated.
    pub output: OutputFormat,
    /// The client's JSON text of the request, if the request came from a client of the gateway.
    pub verbatim: Option<Arc<VerbatimRequest>>,
    /// The trace that the request belongs to. The provider gets it in headers.
    pub trace: Option<TraceContext>,
}

/// Whether the model calls tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// The model must call at least one tool.
    Required,
    /// The model must not call tools, even though they are listed.
    None,
    /// The model must call this tool.
    Tool(String),
}

/// One event of a streamed response.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ModelEvent {
    /// The next fragment of the text.
    Text(String),
    /// The next text is a new part of the message. Only some APIs divide the text; a citation belongs to one
    /// part.
    TextPart,
    /// A source of the current part of the text.
    Citation(Citation),
    /// An image or audio that the model has generated, complete.
    Media(Content),
    /// A part that only this API has, complete: a call that the provider has run itself, or its result.
    ProviderPart(ProviderPart),
    /// What the provider reports about the response, as far as it is known. A later event replaces it.
    Details(ResponseDetails),
    /// The next fragment of the visible reasoning.
    Thinking(String),
    /// The next fragment of a refusal. It is text of the message.
    Refusal(String),
    /// A call has started; its arguments are still incomplete.
    CallAnnounced { id: String, name: String },
    /// The request failed before the response began, and is sent again after a delay.
    Retrying { after: Duration, retry: u32, max_retries: u32, error: ModelError },
    /// The complete response, as the last event.
    Response(ModelResponse),
}

/// A complete response of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelResponse {
    /// The assistant's message. Provider-specific parts (thinking, signatures) are blocks and `_meta` fields
    /// that other providers ignore.
    pub message: Message,
    pub stop: StopReason,
    pub usage: Option<Usage>,
    /// Calls in the message that must not run, each with an error text for the model.
    pub unusable: Vec<UnusableCall>,
}

/// A call that must not run, because its arguments are invalid or the response was cut off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnusableCall {
    pub id: String,
    /// An explanation for the model.
    pub problem: String,
}

/// The reason why a response ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The model finished its response.
    End,
    /// The response reached this stop sequence, where the provider names it.
    Sequence(String),
    /// The model waits for the results of its calls.
    Calls,
    /// The output limit or the context limit was reached.
    Length,
    /// The model refused, or a content filter of the provider blocked the response.
    Refusal,
    /// The provider has interrupted its own work. It continues if it gets the response back, as the last
    /// message of the request.
    Paused,
    /// A reason that only this provider uses.
    Other(String),
}

/// A failed model request.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    #[error("`{model}` cannot be used: {problem}")]
    Unusable {
        model: String,
        problem: String,
        hint: Option<String>,
        /// The part of the request that this model does not accept.
        part: Option<RequestPart>,
    },
    #[error("`{model}` could not be reached: {problem}")]
    Unreachable {
        model: String,
        problem: String,
        /// The next thing to try. It may contain the address of the endpoint, which a gateway must not send
        /// to its clients.
        hint: Option<String>,
    },
    #[error("`{model}` {waiting_for} ({after:?} timeout)")]
    TimedOut { model: String, waiting_for: WaitPhase, after: Duration },
    /// The provider returned an error.
    #[error("`{model}` returned an error{}: {message}", status.map(|status| format!(" ({status})")).unwrap_or_default())]
    Refused {
        model: String,
        status: Option<u16>,
        /// The provider's message, or an explanation of it where one is known.
        message: String,
        hint: Option<String>,
        /// The time after which the provider accepts requests again, if it states one.
        retry_after: Option<Duration>,
        /// The complete body that the provider sent.
        body: Value,
    },
    /// The request is longer than the context window of the model.
    #[error("`{model}` returned an error{}: {message}", status.map(|status| format!(" ({status})")).unwrap_or_default())]
    ContextExceeded {
        model: String,
        status: Option<u16>,
        /// The provider's message.
        message: String,
        /// The size of the window in tokens, if the provider states it.
        window: Option<u64>,
        /// The complete body that the provider sent.
        body: Value,
    },
    /// The response was interrupted after it had started, so the request was not retried.
    #[error("the response of `{model}` was interrupted: {problem}")]
    Broken { model: String, problem: String },
    /// The response does not have the format of this API.
    #[error("the response of `{model}` is malformed: {problem}")]
    Malformed { model: String, problem: String },
}

/// A part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestPart {
    Messages,
    Tools,
    ToolChoice,
    /// The format of the response.
    Output,
}

/// The reason why a model does not accept an image or a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnsupportedContent {
    #[error("the model does not accept {media_type}")]
    MediaType {
        media_type: String,
        /// The media types that it accepts.
        accepted: Vec<String>,
    },
    #[error("the model accepts {media_type} up to {}, not {}", format_size(*max_bytes), format_size(*bytes))]
    TooLarge { media_type: String, bytes: usize, max_bytes: usize },
    #[error("the model accepts images with sides of up to {max_pixels} pixels, not {pixels}")]
    TooLong { media_type: String, pixels: u32, max_pixels: u32 },
    #[error("the data is not base64")]
    InvalidBase64 { media_type: String },
    #[error("the bytes are not {media_type}")]
    OtherType { media_type: String },
}

impl UnsupportedContent {
    /// Returns the next thing to try, in one line.
    pub fn hint(&self) -> String {
        match self {
            UnsupportedContent::MediaType { accepted, .. } if accepted.is_empty() => {
                "attach text, or use a model that accepts it".to_owned()
            }
            UnsupportedContent::MediaType { accepted, .. } => {
                format!("use another model, or convert it to text or to {}", accepted.join(", "))
            }
            UnsupportedContent::TooLarge { media_type, .. } if media_type.starts_with("image/") => {
                "scale the image down".to_owned()
            }
            UnsupportedContent::TooLarge { .. } => "divide the file, or attach its text".to_owned(),
            UnsupportedContent::TooLong { .. } => "scale the image down".to_owned(),
            UnsupportedContent::InvalidBase64 { .. } | UnsupportedContent::OtherType { .. } => {
                "check that the file is complete".to_owned()
            }
        }
    }
}

/// The phase of a request in which it timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitPhase {
    Connection,
    FirstToken,
    NextToken,
}

impl fmt::Display for WaitPhase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            WaitPhase::Connection => "could not be reached",
            WaitPhase::FirstToken => "sent no response",
            WaitPhase::NextToken => "stalled while responding",
        })
    }
}

impl ModelError {
    /// Returns a machine-readable code.
    pub const fn code(&self) -> &'static str {
        match self {
            ModelError::Unusable { .. } => "unusable",
            ModelError::Unreachable { .. } => "unreachable",
            ModelError::TimedOut { .. } => "timed_out",
            ModelError::Refused { .. } => "refused",
            ModelError::ContextExceeded { .. } => "context_exceeded",
            ModelError::Broken { .. } => "broken",
            ModelError::Malformed { .. } => "malformed",
        }
    }

    /// Returns the next thing to try, in one line.
    pub fn hint(&self) -> Option<&str> {
        match self {
            ModelError::Unusable { hint, .. } | ModelError::Refused { hint, .. } => hint.as_deref(),
            ModelError::ContextExceeded { .. } => Some(
                "shorten the conversation, offer fewer tools, or use a model with a larger context window",
            ),
            ModelError::Unreachable { hint: Some(hint), .. } => Some(hint),
            ModelError::Unreachable { hint: None, .. } => {
                Some("check the base URL of the endpoint and the network")
            }
            ModelError::TimedOut { .. } => Some("retry, or increase the timeout"),
            ModelError::Broken { .. } => Some("retry"),
            ModelError::Malformed { .. } => {
                Some("check that the endpoint implements the API it is configured with")
            }
        }
    }
}
