//! What a tool may ask of the client that called it.

use std::time::Duration;

use futures_core::future::BoxFuture;
use serde_json::{Map, Value};
use toolwire_contract::Progress;

/// The client at the other end of a call. Transports implement it; tools reach it through [`crate::Context`].
///
/// A question to the client ([`Client::elicit`], [`Client::sample`], [`Client::roots`]) is a request of its own up to MCP
/// 2025-11-25. From 2026-07-28 on there are none: the call ends with the question, the client makes the call again with the
/// answer, and **the tool runs from its beginning**, to get the answer where it asked. So what stands before a question runs
/// once more for each answer: ask first, act afterwards, and ask the same questions in the same order each time.
pub trait Client: Send + Sync {
    /// Says how far the call is; nothing happens when the client did not ask to be told.
    fn progress(&self, progress: Progress);

    /// Sends a log message to the client, if it listens at that level.
    fn log(&self, level: Level, logger: &str, data: Value);

    /// Asks the person in front of the client to fill in a form or to visit an address.
    fn elicit<'a>(&'a self, form: Form) -> BoxFuture<'a, Result<FormReply, ClientError>>;

    /// As [`Client::elicit`], with a word for the question instead of its number. It is what the client sees as the key of
    /// the question from 2026-07-28 on.
    fn elicit_as<'a>(&'a self, key: &'a str, form: Form) -> BoxFuture<'a, Result<FormReply, ClientError>> {
        let _ = key;
        self.elicit(form)
    }

    /// Asks the client's model (`sampling/createMessage`): MCP's parameters in, MCP's result out.
    fn sample<'a>(&'a self, params: Map<String, Value>) -> BoxFuture<'a, Result<Value, ClientError>>;

    /// From here on the call may go on as a task, for a tool that says [`crate::TaskStart::WhenTold`]: what it asks now, the client
    /// finds beside the task, and nothing runs twice. Where the call is one already, or can be none, nothing happens.
    fn continue_as_task(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Whether the call ends with questions that the client answers by calling again. It is what tells such an end from a call
    /// that was given up.
    fn ends_with_questions(&self) -> bool {
        false
    }

    /// The folders the client works in, as MCP's `roots/list` answers.
    fn roots(&self) -> BoxFuture<'_, Result<Value, ClientError>>;
}

/// MCP's log levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

/// What a person is asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// Fields to fill in, as MCP's `requestedSchema`.
    Fields { message: String, schema: Value },
    /// An address to visit.
    Url { message: String, url: String, id: String },
}

/// What the person did.
#[derive(Clone, Debug, PartialEq)]
pub enum FormReply {
    Accepted(Map<String, Value>),
    Declined,
    Cancelled,
}

/// Why the client could not be asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
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

/// For calls that no client made: it hears nothing and answers nothing.
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
