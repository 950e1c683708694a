//! Requests that a tool can send to the client that called it.

use std::time::Duration;

use futures_core::future::BoxFuture;
use serde_json::{Map, Value};
pub use toolwire_contract::log::Level;
use toolwire_contract::toolbox::Progress;

/// The client that made a call. Transports implement it; tools reach it through [`crate::Context`].
///
/// Up to MCP 2025-11-25, [`Client::elicit`], [`Client::sample`] and [`Client::roots`] are separate requests
/// to the client. From 2026-07-28 on, the call ends with the question, the client repeats the call with the
/// reply, and **the tool runs again from its beginning** until it reaches the question. Code before a
/// question therefore runs once more for each reply: ask first, act afterwards, and ask the same questions in
/// the same order each time.
pub trait Client: Send + Sync {
    /// Reports progress. Does nothing if the client did not request progress.
    fn progress(&self, progress: Progress);

    /// Sends a log message to the client, if the client has requested messages of that level.
    fn log(&self, level: Level, logger: &str, data: Value);

    /// Returns the lowest level of the log messages that the client has requested, or `None` if it wants
    /// none.
    fn log_level(&self) -> Option<Level> {
        None
    }

    /// Whether the client supports tasks, so that another server may continue the call as a task.
    fn supports_tasks(&self) -> bool {
        false
    }

    /// Asks the user of the client to fill in a form or to visit a URL.
    fn elicit<'a>(&'a self, form: Form) -> BoxFuture<'a, Result<FormReply, ClientError>>;

    /// Like [`Client::elicit`], with a key for the question instead of its number. From 2026-07-28 on, the
    /// client sees this key.
    fn elicit_as<'a>(&'a self, key: &'a str, form: Form) -> BoxFuture<'a, Result<FormReply, ClientError>> {
        let _ = key;
        self.elicit(form)
    }

    /// Sends a request to the client's model (`sampling/createMessage`), with MCP's parameters and result.
    fn sample<'a>(&'a self, params: Map<String, Value>) -> BoxFuture<'a, Result<Value, ClientError>>;

    /// Continues the call as a task, for a tool with [`crate::tasks::TaskStart::OnRequest`]. Later questions
    /// are attached to the task, and no code runs twice. Does nothing if the call is already a task or cannot
    /// become one.
    fn continue_as_task(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Whether the call ends with questions that the client answers by calling again. This distinguishes such
    /// an end from a cancelled call.
    fn ends_with_questions(&self) -> bool {
        false
    }

    /// Returns the folders the client works in: the result of `roots/list`.
    fn roots(&self) -> BoxFuture<'_, Result<Value, ClientError>>;
}

/// A request to the user.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// Fields to fill in, as MCP's `requestedSchema`.
    Fields { message: String, schema: Value },
    /// A URL to visit.
    Url { message: String, url: String, id: String },
}

/// The reply of the user.
#[derive(Clone, Debug, PartialEq)]
pub enum FormReply {
    Accepted(Map<String, Value>),
    Declined,
    Cancelled,
}

/// A failed request to the client.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    #[error("the client does not support `{method}`")]
    Unsupported { method: &'static str },
    #[error("the client refused `{method}`: {message}")]
    Refused { method: &'static str, message: String },
    #[error("the client did not respond to `{method}` within {after:?}")]
    TimedOut { method: &'static str, after: Duration },
    #[error("the client disconnected")]
    Disconnected,
}

/// The client of a call without a client. It ignores notifications and supports no requests.
pub struct NoClient;

impl Client for NoClient {
    fn progress(&self, _: Progress) {}

    fn log(&self, _: Level, _: &str, _: Value) {}

    fn elicit<'a>(&'a self, _: Form) -> BoxFuture<'a, Result<FormReply, ClientError>> {
        Box::pin(async { Err(ClientError::Unsupported { method: "elicitation/create" }) })
    }

    fn sample<'a>(&'a self, _: Map<String, Value>) -> BoxFuture<'a, Result<Value, ClientError>> {
        Box::pin(async { Err(ClientError::Unsupported { method: "sampling/createMessage" }) })
    }

    fn roots(&self) -> BoxFuture<'_, Result<Value, ClientError>> {
        Box::pin(async { Err(ClientError::Unsupported { method: "roots/list" }) })
    }
}
