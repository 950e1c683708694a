//! Responses to clients: the events of a run, in the format of the client's API.

use core::time::Duration;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};
use toolwire_contract::model::{Citation, ProviderPart, ResponseDetails, StopReason, Usage};
use toolwire_contract::{Content, Tool, ToolResult};

use super::ToolForm;

/// Data of a response that is known before its first event.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ResponseHead {
    /// The id of the response, with the prefix of the API (`chatcmpl-`, `resp_`, `msg_`). Other ids of the
    /// response are derived from it.
    pub id: String,
    /// The name of the model, as the client wrote it.
    pub model: String,
    /// Seconds since 1970-01-01 UTC.
    pub created: u64,
    /// Chat Completions: whether the stream ends with the usage.
    pub stream_usage: bool,
    /// Chat Completions: whether calls have the deprecated form `function_call`. The first call of a message
    /// is its only one.
    pub has_functions: bool,
    /// Whether the client sees the model's reasoning.
    pub shows_thinking: bool,
    /// Whether the client sees the calls of servers' tools. Chat Completions has no format for them, so they
    /// are under the additional key `toolwire`.
    pub shows_server_calls: bool,
    /// The client's tools whose calls are not plain function calls, by name.
    pub tool_forms: BTreeMap<String, ToolForm>,
    /// The id of the request, for errors.
    pub request_id: String,
    /// Responses: fields of the request that the response repeats, without secrets.
    pub echo: Map<String, Value>,
}

impl ResponseHead {
    /// Whether a tool of the client is called with a text.
    pub(crate) fn is_custom(&self, name: &str) -> bool {
        matches!(self.tool_forms.get(name), Some(ToolForm::Custom { .. }))
    }
}

/// Returns the text of a call of a free-text tool.
pub(crate) fn custom_input(arguments: &Map<String, Value>) -> String {
    arguments.get("input").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// An event of a run, for the client. The last one is `Done` or `Failed`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ClientEvent {
    /// The next fragment of the text.
    Text(String),
    /// The next text is a new part of the message.
    TextPart,
    /// A source of the current part of the text.
    Citation(Citation),
    /// An image or audio that the model has generated.
    Media(Content),
    /// A part that only one API has. Clients of other APIs do not get it.
    ProviderPart(ProviderPart),
    /// What the provider reports about the response. A later event replaces it.
    Details(ResponseDetails),
    /// The usage so far, of a response that fails.
    Usage(Usage),
    /// The next fragment of the reasoning.
    Thinking(String),
    /// A refusal, complete.
    Refusal(String),
    /// A call of one of the client's own tools, complete. The writer gives it the form of the tool
    /// ([`ResponseHead::tool_forms`]).
    Call {
        id: String,
        name: String,
        arguments: Map<String, Value>,
    },
    /// A call of one of the client's free-text tools, complete. Only OpenAI's APIs have such tools.
    CustomCall {
        id: String,
        name: String,
        input: String,
    },
    /// The tools of a server, before its first call.
    ServerTools {
        server: String,
        tools: Arc<[Tool]>,
    },
    /// The tools of a server cannot be listed. The response continues without them.
    ServerUnavailable {
        server: String,
        reason: String,
    },
    /// A call of a server's tool, with its result.
    ServerCall(ServerCall),
    /// A call of a server's tool that the client must approve.
    ApprovalRequest {
        id: String,
        server: String,
        name: String,
        arguments: Map<String, Value>,
    },
    /// The model has finished one of several rounds. The text of the next round is a new paragraph.
    RoundFinished,
    Done {
        stop: StopReason,
        usage: Option<Usage>,
    },
    /// An error after the response has started.
    Failed(ClientError),
}

/// A call of a server's tool that was made for the client.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerCall {
    pub server: String,
    /// The tool's name on its server.
    pub name: String,
    pub arguments: Map<String, Value>,
    pub result: ToolResult,
    /// The id of the request that the client approved, if it did.
    pub approval_id: Option<String>,
}

impl ServerCall {
    /// Returns the arguments as JSON text.
    pub(crate) fn arguments_text(&self) -> String {
        Value::Object(self.arguments.clone()).to_string()
    }

    /// Returns the text of the result, with a note for each part that is not text.
    pub(crate) fn result_text(&self) -> String {
        let text = |content: &Content| match content {
            Content::Text { text, .. } => text.clone(),
            Content::Image { mime_type, .. } | Content::Audio { mime_type, .. } => format!("[{mime_type}]"),
            other => Value::from(other.clone()).to_string(),
        };
        self.result.blocks().iter().map(text).collect::<Vec<_>>().join("\n")
    }
}

/// An error, for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientError {
    pub kind: ErrorKind,
    pub message: String,
    /// The parameter that caused the error, if there is one.
    pub parameter: Option<String>,
    /// The provider's error code, which replaces the default code of the kind.
    pub code: Option<String>,
    /// The time after which the request may succeed, if it is known.
    pub retry_after: Option<Duration>,
}

/// The kind of an error, which determines the status and the class that SDKs raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    InvalidRequest,
    UnsupportedParameter,
    Unauthenticated,
    Forbidden,
    NotFound,
    ModelNotFound,
    TooLarge,
    ContextExceeded,
    RateLimited,
    /// The account at the provider has no credit or quota left.
    QuotaExceeded,
    Overloaded,
    Unreachable,
    TimedOut,
    /// The provider does not accept the gateway's own key.
    ProviderKey,
    /// The model has not responded in the required format, also when it was asked again.
    InvalidOutput,
    Internal,
}

/// The service tiers that OpenAI's clients know.
pub(crate) const OPENAI_TIERS: [&str; 6] = ["auto", "default", "flex", "scale", "priority", "fast"];

/// Returns the service tier that was used, if the clients of this API know it.
pub(crate) fn known_tier<'d>(details: &'d ResponseDetails, tiers: &[&str]) -> Option<&'d str> {
    details.service_tier.as_deref().filter(|tier| tiers.contains(tier))
}

/// Returns a text for an image or audio that the API cannot return where clients expect it.
pub(crate) fn media_note(content: &Content, note: &str) -> String {
    let (Content::Image { mime_type, .. } | Content::Audio { mime_type, .. }) = content else {
        return String::new();
    };
    format!("[{mime_type}: {note}]")
}

/// The codes of failed responses in OpenAI's types that a provider may send.
const FAILED_RESPONSE_CODES: [&str; 21] = [
    "server_error",
    "rate_limit_exceeded",
    "invalid_prompt",
    "data_residency_mismatch",
    "bio_policy",
    "misalignment_policy_violation",
    "vector_store_timeout",
    "invalid_image",
    "invalid_image_format",
    "invalid_base64_image",
    "invalid_image_url",
    "image_too_large",
    "image_too_small",
    "image_parse_error",
    "image_content_policy_violation",
    "invalid_image_mode",
    "image_file_too_large",
    "unsupported_image_media_type",
    "empty_image_file",
    "failed_to_download_image",
    "image_file_not_found",
];

/// One server-sent event.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamEvent {
    /// The name of the event, where the API has names.
    pub name: Option<&'static str>,
    pub data: StreamData,
}

#[derive(Clone, Debug, PartialEq)]
pub enum StreamData {
    Json(Value),
    /// `[DONE]`.
    EndMarker,
}

impl StreamEvent {
    pub(crate) fn json(name: Option<&'static str>, data: Value) -> StreamEvent {
        StreamEvent { name, data: StreamData::Json(data) }
    }
}

/// Writes the lines of the event. JSON text has no line breaks, so the data is always one line.
impl fmt::Display for StreamEvent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.name {
            writeln!(formatter, "event: {name}")?;
        }
        match &self.data {
            StreamData::Json(value) => write!(formatter, "data: {value}\n\n"),
            StreamData::EndMarker => formatter.write_str("data: [DONE]\n\n"),
        }
    }
}

/// Writes one response of a family, streamed or complete.
pub(crate) trait ClientWriter: fmt::Debug + Send {
    /// Returns the events before the first one of the run.
    fn start(&mut self) -> Vec<StreamEvent>;

    fn event(&mut self, event: &ClientEvent) -> Vec<StreamEvent>;

    /// Returns the complete body, after the last event.
    fn body(&self) -> Value;

    /// Whether a citation was left out, because the API cannot express it.
    fn has_omitted_citations(&self) -> bool;
}

/// Writes the response to one request of a client.
///
/// The same writer serves both modes: in a stream, send what [`ResponseWriter::start`] and
/// [`ResponseWriter::event`] return; otherwise send [`ResponseWriter::body`] after the last event.
#[derive(Debug)]
pub struct ResponseWriter(Box<dyn ClientWriter>);

impl ResponseWriter {
    /// Creates a writer; `None` if the gateway does not serve this API.
    pub fn new(family: crate::Family, head: ResponseHead) -> Option<ResponseWriter> {
        family.format().client_writer.map(|writer| ResponseWriter(writer(head)))
    }

    /// Returns the events to send at once, before the model has written anything.
    pub fn start(&mut self) -> Vec<StreamEvent> {
        self.0.start()
    }

    /// Returns the events to send for an event of the run.
    pub fn event(&mut self, event: &ClientEvent) -> Vec<StreamEvent> {
        self.0.event(event)
    }

    /// Returns the complete body, after the last event.
    pub fn body(&self) -> Value {
        self.0.body()
    }

    /// Whether a citation was left out, because the API cannot express it.
    pub fn has_omitted_citations(&self) -> bool {
        self.0.has_omitted_citations()
    }
}

impl ErrorKind {
    /// Returns the HTTP status. Anthropic has a status of its own for an overloaded server.
    pub const fn status(self, family: crate::Family) -> u16 {
        match self {
            ErrorKind::InvalidRequest | ErrorKind::UnsupportedParameter | ErrorKind::ContextExceeded => 400,
            ErrorKind::Unauthenticated => 401,
            ErrorKind::Forbidden => 403,
            ErrorKind::NotFound | ErrorKind::ModelNotFound => 404,
            ErrorKind::TooLarge => 413,
            ErrorKind::RateLimited => 429,
            ErrorKind::QuotaExceeded => match family {
                crate::Family::Anthropic => 402,
                _ => 429,
            },
            ErrorKind::Internal => 500,
            ErrorKind::Unreachable | ErrorKind::ProviderKey | ErrorKind::InvalidOutput => 502,
            ErrorKind::Overloaded => match family {
                crate::Family::Anthropic => 529,
                _ => 503,
            },
            ErrorKind::TimedOut => 504,
        }
    }

    /// Returns OpenAI's `type` and `code`.
    const fn openai(self) -> (&'static str, Option<&'static str>) {
        const INVALID: &str = "invalid_request_error";
        match self {
            ErrorKind::InvalidRequest => (INVALID, Some("invalid_value")),
            ErrorKind::UnsupportedParameter => (INVALID, Some("unsupported_parameter")),
            ErrorKind::Unauthenticated => (INVALID, Some("invalid_api_key")),
            ErrorKind::Forbidden => (INVALID, Some("permission_denied")),
            ErrorKind::NotFound => (INVALID, Some("not_found")),
            ErrorKind::ModelNotFound => (INVALID, Some("model_not_found")),
            ErrorKind::TooLarge => (INVALID, Some("request_too_large")),
            ErrorKind::ContextExceeded => (INVALID, Some("context_length_exceeded")),
            ErrorKind::RateLimited => ("rate_limit_error", Some("rate_limit_exceeded")),
            ErrorKind::QuotaExceeded => ("insufficient_quota", Some("insufficient_quota")),
            ErrorKind::Overloaded | ErrorKind::Internal => ("server_error", None),
            ErrorKind::Unreachable => ("server_error", Some("upstream_unreachable")),
            ErrorKind::TimedOut => ("server_error", Some("timeout")),
            ErrorKind::ProviderKey => ("server_error", Some("upstream_auth")),
            ErrorKind::InvalidOutput => ("server_error", Some("invalid_output")),
        }
    }

    /// Returns the `code` of a failed response of the Responses API, which has fewer codes than its error
    /// bodies.
    const fn failed_response(self) -> &'static str {
        match self {
            ErrorKind::RateLimited | ErrorKind::QuotaExceeded => "rate_limit_exceeded",
            ErrorKind::InvalidRequest
            | ErrorKind::UnsupportedParameter
            | ErrorKind::TooLarge
            | ErrorKind::ContextExceeded => "invalid_prompt",
            ErrorKind::Unauthenticated
            | ErrorKind::Forbidden
            | ErrorKind::NotFound
            | ErrorKind::ModelNotFound
            | ErrorKind::Overloaded
            | ErrorKind::Unreachable
            | ErrorKind::TimedOut
            | ErrorKind::ProviderKey
            | ErrorKind::InvalidOutput
            | ErrorKind::Internal => "server_error",
        }
    }

    /// Returns Anthropic's `type`.
    const fn anthropic(self) -> &'static str {
        match self {
            ErrorKind::InvalidRequest | ErrorKind::UnsupportedParameter | ErrorKind::ContextExceeded => {
                "invalid_request_error"
            }
            ErrorKind::Unauthenticated => "authentication_error",
            ErrorKind::Forbidden => "permission_error",
            ErrorKind::NotFound | ErrorKind::ModelNotFound => "not_found_error",
            ErrorKind::TooLarge => "request_too_large",
            ErrorKind::RateLimited => "rate_limit_error",
            ErrorKind::QuotaExceeded => "billing_error",
            ErrorKind::Overloaded => "overloaded_error",
            ErrorKind::TimedOut => "timeout_error",
            ErrorKind::Unreachable
            | ErrorKind::ProviderKey
            | ErrorKind::InvalidOutput
            | ErrorKind::Internal => "api_error",
        }
    }
}

impl ClientError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> ClientError {
        ClientError { kind, message: message.into(), parameter: None, code: None, retry_after: None }
    }

    /// Returns the body of an error response. `request_id` is also in a header.
    pub fn body(&self, family: crate::Family, request_id: &str) -> Value {
        match family {
            crate::Family::Anthropic => serde_json::json!({
                "type": "error",
                "error": {"type": self.kind.anthropic(), "message": self.message},
                "request_id": request_id,
            }),
            _ => serde_json::json!({"error": self.openai_error()}),
        }
    }

    /// Returns the event for an error in a stream that no [`ResponseWriter`] writes, such as a forwarded one.
    /// `sequence_number` is the number of the event, in APIs that number them.
    pub fn event(&self, family: crate::Family, request_id: &str, sequence_number: u64) -> StreamEvent {
        let mut body = self.body(family, request_id);
        match family {
            crate::Family::Anthropic => StreamEvent::json(Some("error"), body),
            crate::Family::OpenAiResponses => {
                // Some clients read the fields beside `type`, others those of `error`.
                let error = self.openai_error();
                body["type"] = "error".into();
                body["sequence_number"] = sequence_number.into();
                for key in ["code", "message", "param"] {
                    body[key] = error[key].clone();
                }
                StreamEvent::json(Some("error"), body)
            }
            _ => StreamEvent::json(None, body),
        }
    }

    /// Returns the `error` of a failed response of the Responses API. SDKs reject other codes than those of
    /// OpenAI.
    pub(crate) fn failed_response(&self) -> Value {
        let code = self.code.as_deref().filter(|code| FAILED_RESPONSE_CODES.contains(code));
        let code = code.unwrap_or(self.kind.failed_response());
        serde_json::json!({"code": code, "message": self.message})
    }

    pub(crate) fn openai_error(&self) -> Value {
        let (type_name, code) = self.kind.openai();
        let code = self.code.as_deref().or(code);
        serde_json::json!({"message": self.message, "type": type_name, "param": self.parameter, "code": code})
    }
}

impl From<&super::InvalidRequest> for ClientError {
    fn from(error: &super::InvalidRequest) -> ClientError {
        let kind = match error.problem {
            super::Problem::Unsupported(_) | super::Problem::ProviderTool { .. } => {
                ErrorKind::UnsupportedParameter
            }
            _ => ErrorKind::InvalidRequest,
        };
        let parameter = Some(error.parameter.clone());
        ClientError { parameter, ..ClientError::new(kind, error.to_string()) }
    }
}
