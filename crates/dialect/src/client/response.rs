//! Responses to clients: the events of a run, in the format of the client's API.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};
use toolwire_contract::model::{Citation, ProviderPart, ResponseDetails, StopReason, Usage};
use toolwire_contract::{Content, Tool, ToolResult};

use super::{ClientError, ToolForm, WrittenResponse};

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
    /// Responses: whether the response is written in the background. Before its start, its status is `queued`.
    pub is_background: bool,
    /// Responses: the part of the response that another writer has written.
    pub written: Option<WrittenResponse>,
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

/// An event of a run, for the client. The last one is `Done`, `Failed` or `Cancelled`.
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
    /// The client has cancelled a response in the background. Only the Responses API has this.
    Cancelled,
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

/// One server-sent event.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
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
