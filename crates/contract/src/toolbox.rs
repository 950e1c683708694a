//! Tools that can be called, wherever they are.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use serde_json::Value;

use crate::{Tool, ToolResult};

/// Tools that can be called, wherever they are.
pub trait Toolbox: Send + Sync {
    /// What is offered now. The same tools come in the same order, byte for byte, so that prompt caches hold.
    fn tools(&self) -> Arc<[Tool]>;

    /// Tools that should be there and are not, in words for the model; nothing when all is well.
    fn missing(&self) -> Vec<Missing> {
        Vec::new()
    }

    /// Yields each time [`Toolbox::tools`] may have changed, for whoever hands the list on; nothing for a list that stays.
    fn changes(&self) -> Option<BoxStream<'static, ()>> {
        None
    }

    /// Calls a tool by the name it is offered under, with arguments as the model sent them: an object, JSON text of
    /// one, or nothing. Dropping the future cancels the call.
    ///
    /// A tool that ran and failed is `Ok` with [`ToolResult::failed`]; `Err` means that it could not be asked.
    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a Value,
        options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>>;
}

/// How one call is made.
#[derive(Clone, Default)]
pub struct CallOptions {
    /// How long to wait for the answer; the toolbox knows a limit of its own.
    pub timeout: Option<Duration>,
    /// Told how far the call is, where the server says.
    pub progress: Option<Arc<dyn Fn(Progress) + Send + Sync>>,
    /// Asked just before the call is made, with the tool as its server lists it then: a tool may come, or change, after it was
    /// decided that the call may run. `Err` says why it may not, and the call ends as [`CallError::NotPermitted`].
    pub permits: Option<Arc<Permits>>,
}

/// Whether a tool may be called, and why not.
pub type Permits = dyn Fn(&Tool) -> Result<(), String> + Send + Sync;

impl CallOptions {
    /// Whether this tool may be called; for whoever implements [`Toolbox::call`].
    pub fn check(&self, name: &str, tool: &Tool) -> Result<(), CallError> {
        let Some(permits) = &self.permits else { return Ok(()) };
        permits(tool).map_err(|reason| CallError::NotPermitted { tool: name.to_owned(), reason })
    }
}

/// How far a call is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    pub done: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}

/// A part of the toolbox that is away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub server: String,
    /// Why, in one sentence.
    pub reason: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "server `{}` is not there: {}", self.server, self.reason)
    }
}

/// Why a tool could not be asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CallError {
    /// One of the servers that are missing may have it.
    #[error("no server offers a tool named `{tool}`{}", listed(missing))]
    UnknownTool { tool: String, nearest: Vec<String>, missing: Vec<Missing> },
    #[error("the arguments do not fit the tool `{tool}`: {problem}")]
    InvalidArguments { tool: String, problem: String },
    /// What the server lists under this name may not be called as it was asked for; see [`CallOptions::permits`].
    #[error("`{tool}` was not run: {reason}")]
    NotPermitted { tool: String, reason: String },
    #[error("server `{server}` is not there: {reason}")]
    Unavailable { server: String, tool: String, reason: String },
    #[error("server `{server}` did not answer `{tool}` within {after:?}")]
    TimedOut { server: String, tool: String, after: Duration },
    /// The call was sent and brought no answer, and the tool may not be repeated.
    #[error("server `{server}` gave no result for `{tool}` ({reason}); whether it did its work is not known")]
    OutcomeUnknown { server: String, tool: String, reason: String },
    #[error("server `{server}` refused `{tool}`: {message} (code {code})")]
    Refused { server: String, tool: String, code: i64, message: String },
    #[error("server `{server}` answered `{tool}` with something that is no result: {reason}")]
    Malformed { server: String, tool: String, reason: String },
    #[error("the call of `{tool}` was cancelled")]
    Cancelled { tool: String },
}

impl CallError {
    /// A word for programs.
    pub const fn code(&self) -> &'static str {
        match self {
            CallError::UnknownTool { .. } => "unknown_tool",
            CallError::InvalidArguments { .. } => "invalid_arguments",
            CallError::NotPermitted { .. } => "not_permitted",
            CallError::Unavailable { .. } => "unavailable",
            CallError::TimedOut { .. } => "timed_out",
            CallError::OutcomeUnknown { .. } => "outcome_unknown",
            CallError::Refused { .. } => "refused",
            CallError::Malformed { .. } => "malformed",
            CallError::Cancelled { .. } => "cancelled",
        }
    }

    /// What to try next, in one line that a model or a person can act on.
    pub fn hint(&self) -> Option<String> {
        match self {
            CallError::UnknownTool { nearest, .. } if !nearest.is_empty() => {
                let names: Vec<String> = nearest.iter().map(|name| format!("`{name}`")).collect();
                Some(format!("did you mean {}?", names.join(" or ")))
            }
            CallError::UnknownTool { missing, .. } if !missing.is_empty() => {
                Some("use one of the tools that are listed, or try again later".to_owned())
            }
            CallError::UnknownTool { .. } => Some("use one of the tools that are listed".to_owned()),
            CallError::InvalidArguments { .. } => {
                Some("call it again with arguments that fit its schema".to_owned())
            }
            CallError::NotPermitted { .. } => Some("if it is listed now, call it again".to_owned()),
            CallError::Unavailable { .. } => Some("go on without it, or try again later".to_owned()),
            CallError::TimedOut { .. } => Some(
                "the tool may still be at work: look whether it is done before calling it again".to_owned(),
            ),
            CallError::OutcomeUnknown { .. } => Some(
                "do not simply call it again: look first whether the work was done, or ask the user"
                    .to_owned(),
            ),
            CallError::Malformed { .. } => Some(
                "the tool has run, only its answer is of no use: look at what it did before calling it again"
                    .to_owned(),
            ),
            CallError::Refused { .. } | CallError::Cancelled { .. } => None,
        }
    }

    /// The error as a result, for a model to read.
    pub fn to_result(&self) -> ToolResult {
        let text = match self.hint() {
            Some(hint) => format!("{self}. {}{}", hint[..1].to_uppercase(), &hint[1..]),
            None => self.to_string(),
        };
        ToolResult::error(text)
    }
}

fn listed(missing: &[Missing]) -> String {
    missing.iter().map(|missing| format!("; {missing}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_reads_what_failed_and_what_to_try() {
        let nearest = vec!["search".into(), "fetch".into()];
        let error = CallError::UnknownTool { tool: "serch".into(), nearest, missing: Vec::new() };
        let result = error.to_result();
        assert!(result.failed());
        assert_eq!(
            result,
            ToolResult::error("no server offers a tool named `serch`. Did you mean `search` or `fetch`?")
        );
    }

    #[test]
    fn a_tool_that_nobody_offers_may_be_with_a_server_that_is_away() {
        let away =
            |server: &str, reason: &str| Missing { server: server.to_owned(), reason: reason.to_owned() };
        let missing = vec![away("files", "it ended"), away("time", "it is still connecting")];
        let error = CallError::UnknownTool { tool: "search".into(), nearest: Vec::new(), missing };
        assert_eq!(
            error.to_result(),
            ToolResult::error(
                "no server offers a tool named `search`; server `files` is not there: it ended; server `time` is not \
                 there: it is still connecting. Use one of the tools that are listed, or try again later"
            )
        );
    }
}
