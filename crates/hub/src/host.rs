//! Requests of servers to the application.
//!
//! While a server runs a tool, it can request a form, a visit to a page, a sample of the model, or the
//! folders it may access. The application handles these requests with a [`Host`].

use futures::future::BoxFuture;
use serde_json::Value;
pub use toolwire_contract::elicitation::{ElicitKind, ElicitReply, ElicitRequest};

/// Handles the requests of servers to the application. Every method declines by default.
pub trait Host: Send + Sync {
    /// Whether a user can be asked: by [`elicit`](Host::elicit), or by the calls themselves
    /// ([`CallOptions::elicitation`](toolwire_contract::toolbox::CallOptions::elicitation)). Declared to
    /// servers when they connect.
    fn can_elicit(&self) -> bool {
        false
    }

    /// Whether [`sample`](Host::sample) can reach a model; declared to servers when they connect.
    fn can_sample(&self) -> bool {
        false
    }

    /// Requests input from the user, for a call that does not ask the user itself.
    fn elicit<'a>(&'a self, server: &'a str, request: ElicitRequest) -> BoxFuture<'a, ElicitReply> {
        let _ = (server, request);
        Box::pin(std::future::ready(ElicitReply::Decline))
    }

    /// Requests a sample from the model: the parameters and the result of MCP's `sampling/createMessage`, or
    /// the reason why there is none, which is sent to the server.
    fn sample<'a>(&'a self, server: &'a str, request: Value) -> BoxFuture<'a, Result<Value, String>> {
        let _ = (server, request);
        Box::pin(std::future::ready(Err("this client does not support sampling".to_owned())))
    }

    /// Returns the folders that a server may access.
    fn roots(&self, server: &str) -> Vec<Root> {
        let _ = server;
        Vec::new()
    }
}

/// Declines all requests.
pub(crate) struct NoHost;

impl Host for NoHost {}

/// A folder that a server may access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// A `file://` URI.
    pub uri: String,
    pub name: Option<String>,
}
