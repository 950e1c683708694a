//! What a server may ask of the application.
//!
//! A server can ask for input while it runs a tool: a form, a visit to a page, an answer of the model, the folders it
//! may look at. The application answers through [`Host`]; where it has no answer to give, [`NoHost`] refuses.

use futures::future::BoxFuture;
use serde_json::Value;

/// The application, as servers see it. Every method has a default that refuses.
pub trait Host: Send + Sync {
    /// Whether [`elicit`](Host::elicit) can reach a person: servers are told so when they connect.
    fn can_elicit(&self) -> bool {
        false
    }

    /// Whether [`sample`](Host::sample) can reach a model: servers are told so when they connect.
    fn can_sample(&self) -> bool {
        false
    }

    /// Asks a person.
    fn elicit<'a>(&'a self, server: &'a str, request: ElicitRequest) -> BoxFuture<'a, ElicitAnswer> {
        let _ = (server, request);
        Box::pin(std::future::ready(ElicitAnswer::Decline))
    }

    /// Asks the model. The request is MCP's `sampling/createMessage` parameters, the answer its result.
    fn sample<'a>(&'a self, server: &'a str, request: Value) -> BoxFuture<'a, Result<Value, Refusal>> {
        let _ = (server, request);
        Box::pin(std::future::ready(Err(Refusal { message: "this client has no model to ask".into() })))
    }

    /// The folders a server may look at.
    fn roots(&self, server: &str) -> Vec<Root> {
        let _ = server;
        Vec::new()
    }
}

/// Refuses whatever a server asks for.
pub struct NoHost;

impl Host for NoHost {}

/// What a server wants to know of a person.
#[derive(Debug, Clone, PartialEq)]
pub struct ElicitRequest {
    pub message: String,
    pub kind: ElicitKind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ElicitKind {
    /// Values that fit `schema`, an object schema of plain properties.
    Form { schema: Value },
    /// A visit to `url`, outside of this client. Show the whole address and ask before opening it.
    Url { url: String, id: String },
}

#[derive(Debug, Clone, PartialEq)]
pub enum ElicitAnswer {
    /// The values of a form, `None` where a page was agreed to. Fields that are not among them have their defaults.
    Accept(Option<Value>),
    Decline,
    Cancel,
}

/// Why the application does not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub message: String,
}

/// A folder a server may look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// A `file://` URI.
    pub uri: String,
    pub name: Option<String>,
}
