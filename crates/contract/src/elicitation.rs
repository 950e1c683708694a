//! Questions of a server to the user, while it runs a tool (elicitation).

use futures_core::future::BoxFuture;
use serde_json::Value;

/// A server's request for input from the user.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ElicitRequest {
    pub message: String,
    pub kind: ElicitKind,
    /// The name that the server has given to the question, since MCP 2026-07-28.
    pub key: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ElicitKind {
    /// A form; `schema` is an object schema with properties of primitive types.
    Form { schema: Value },
    /// A page to visit in a browser. The application must display the complete URL and ask before opening it.
    Url { url: String, id: String },
}

/// The user's reply to an [`ElicitRequest`].
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitReply {
    /// The values of a form, or `None` for a page. Missing values are set to the schema's defaults.
    Accept(Option<Value>),
    Decline,
    Cancel,
}

/// Asks the user a question of a server, given with the server's name. If the call ends before the reply, the
/// future is dropped.
pub type ElicitHandler = dyn Fn(&str, ElicitRequest) -> BoxFuture<'static, ElicitReply> + Send + Sync;

/// Requests a sample from the model of the caller, for a server given by its name: the parameters and the
/// result of MCP's `sampling/createMessage`, or the reason why there is none.
pub type SampleHandler = dyn Fn(&str, Value) -> BoxFuture<'static, Result<Value, String>> + Send + Sync;

impl ElicitRequest {
    pub fn new(message: impl Into<String>, kind: ElicitKind) -> ElicitRequest {
        ElicitRequest { message: message.into(), kind, key: None }
    }
}
