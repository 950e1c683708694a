//! What servers offer besides tools: prompts, resources, and templates of resources. Definitions, parameters
//! and results are MCP's JSON.

use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use serde_json::{Map, Value};

/// The prompts and resources of several servers.
pub trait ServerOffers: Send + Sync {
    /// Returns everything of one kind that the permitted servers offer. Servers that fail are left out.
    fn list<'a>(&'a self, kind: OfferKind, permits: &'a ServerFilter<'a>) -> BoxFuture<'a, Vec<Offer>>;

    /// Sends a request to the permitted server that has the prompt or the resource, and returns its result.
    fn request<'a>(
        &'a self,
        request: OfferRequest,
        permits: &'a ServerFilter<'a>,
    ) -> BoxFuture<'a, Result<Map<String, Value>, OfferRequestError>>;

    /// Returns the tool whose call became a task; `None` if no server has such a task.
    fn tool_of_task(&self, id: &str) -> Option<TaskTool> {
        let _ = id;
        None
    }

    /// Yields the changes that servers report.
    fn changes(&self) -> BoxStream<'static, OfferChange>;
}

/// Whether a server, given by its name, is permitted.
pub type ServerFilter<'f> = dyn Fn(&str) -> bool + Send + Sync + 'f;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OfferKind {
    Prompt,
    Resource,
    ResourceTemplate,
}

/// A prompt, a resource or a template as it is listed.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// The server that has it.
    pub server: String,
    pub definition: Map<String, Value>,
}

/// A request with MCP's parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct OfferRequest {
    pub method: OfferMethod,
    pub params: Map<String, Value>,
}

/// A tool whose call its server continues as a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskTool {
    pub server: String,
    /// The name of the tool on its server.
    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfferMethod {
    /// `prompts/get`
    GetPrompt,
    /// `resources/read`
    ReadResource,
    /// `completion/complete`
    Complete,
    /// `resources/subscribe`: its updates become [`OfferChange::Resource`].
    Subscribe,
    /// `tasks/get`: a call that its server continues as a task.
    GetTask,
    /// `tasks/update`
    UpdateTask,
    /// `tasks/cancel`
    CancelTask,
}

/// A change that a server has reported.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OfferChange {
    Prompts,
    Resources,
    /// The resource with this URI has changed.
    Resource(String),
}

/// A request that has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OfferRequestError {
    #[error("unknown prompt: `{name}`")]
    UnknownPrompt { name: String },
    #[error("resource not found")]
    UnknownResource { uri: String },
    #[error("invalid parameters: {problem}")]
    InvalidParameters { problem: String },
    #[error("server `{server}` rejected the request: {message} (code {code})")]
    Refused { server: String, code: i64, message: String },
    #[error("server `{server}` has not responded: {reason}")]
    Failed { server: String, reason: String },
}
