//! The `Toolbox` trait: tools that can be called.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use serde_json::Value;

use crate::elicitation::{ElicitHandler, SampleHandler};
use crate::log::LogReceiver;
pub use crate::toolbox_decorator::ToolboxDecorator;
use crate::trace_context::TraceContext;
pub use crate::validation_stamp::{SchemaFingerprint, ValidationStamp};
use crate::{Tool, ToolResult};

/// A set of tools that can be called, local or remote.
pub trait Toolbox: Send + Sync {
    /// Returns the tools available now. The same tools always come in the same order, byte for byte, so that
    /// prompt caches work.
    fn tools(&self) -> Arc<[Tool]>;

    /// Returns the server that offers a listed tool, if it is known. Searches use it.
    fn server_of(&self, tool: &str) -> Option<ToolServer> {
        let _ = tool;
        None
    }

    /// Returns the name that a listed tool has on its server, if it differs from the listed one.
    fn original_name(&self, tool: &str) -> Option<String> {
        let _ = tool;
        None
    }

    /// Returns the configured servers that are unavailable, with reasons that a model can read.
    fn missing_servers(&self) -> Vec<MissingServer> {
        Vec::new()
    }

    /// Waits until the first start of these servers has succeeded or failed. Then, [`Toolbox::tools`] lists
    /// the tools of those that have started. Names of other servers are ignored.
    fn started<'a>(&'a self, servers: &'a [String]) -> BoxFuture<'a, ()> {
        let _ = servers;
        Box::pin(core::future::ready(()))
    }

    /// Yields an item each time [`Toolbox::tools`] may have changed; `None` if the list never changes.
    fn changes(&self) -> Option<BoxStream<'static, ()>> {
        None
    }

    /// Calls a tool by its listed name. `arguments` is what the model sent: an object, JSON text of an
    /// object, or `null`. Dropping the future cancels the call.
    ///
    /// A tool that ran and failed is `Ok` with [`ToolResult::is_error`]; `Err` means that the call itself
    /// failed.
    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a Value,
        options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>>;
}

/// Options of one call.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct CallOptions {
    /// The time to wait for the result; if `None`, the toolbox uses its own default.
    pub timeout: Option<Duration>,
    /// Receives progress reports, if the server sends them.
    pub progress: Option<Arc<dyn Fn(Progress) + Send + Sync>>,
    /// Checked immediately before the call, with the tool as its server lists it at that moment, because a
    /// tool can appear or change after the call was approved. `Err` is the reason for
    /// [`CallError::NotPermitted`].
    pub permission: Option<Arc<CallPermission>>,
    /// Set if the arguments were validated already. A toolbox validates them again unless the stamp matches
    /// the schema that the tool has now.
    pub validation: Option<ValidationStamp>,
    /// The trace that the call belongs to. The server gets it in `_meta`.
    pub trace: Option<TraceContext>,
    /// Asks the user the questions of the server during the call. Without it, the toolbox decides where they
    /// go.
    pub elicitation: Option<Arc<ElicitHandler>>,
    /// Responds to requests of the server for a sample of a model. Without it, the toolbox decides.
    pub sampling: Option<Arc<SampleHandler>>,
    /// Receives what the server logs during the call.
    pub log: Option<LogReceiver>,
    /// Whether the caller supports tasks: the server may continue the call as a task
    /// ([`ToolResult::is_task`]).
    pub accepts_task: bool,
    /// Identifies the owner of what the toolbox stores for the call: other owners do not find it. `None` if
    /// the toolbox has only one caller.
    pub owner: Option<Arc<str>>,
}

/// Decides whether a tool may be called; `Err` is the reason why not.
pub type CallPermission = dyn Fn(&Tool) -> Result<(), String> + Send + Sync;

impl CallOptions {
    /// Checks the permission to call this tool; for implementations of [`Toolbox::call`].
    pub fn check_permission(&self, name: &str, tool: &Tool) -> Result<(), CallError> {
        let Some(permission) = &self.permission else { return Ok(()) };
        permission(tool).map_err(|reason| CallError::NotPermitted { tool: name.to_owned(), reason })
    }
}

/// The progress of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    pub done: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}

/// The server that offers a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolServer {
    /// The name in the configuration.
    pub name: String,
    /// The name that the server reports for itself, if it differs from `name`.
    pub title: Option<String>,
}

/// A configured server that is unavailable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingServer {
    pub server: String,
    /// The reason, in one sentence.
    pub reason: String,
    /// Whether its first start is not finished yet.
    pub is_starting: bool,
}

impl fmt::Display for MissingServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "server `{}` is unavailable: {}", self.server, self.reason)
    }
}

/// A call that could not be made or completed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// One of the `missing` servers may offer the tool.
    #[error("no server offers a tool named `{tool}`{}", missing_list(missing))]
    UnknownTool { tool: String, nearest: Vec<String>, missing: Vec<MissingServer> },
    #[error("invalid arguments for `{tool}`: {problem}")]
    InvalidArguments { tool: String, problem: String },
    /// The tool that the server lists now was not approved; see [`CallOptions::permission`].
    #[error("`{tool}` was not run: {reason}")]
    NotPermitted { tool: String, reason: String },
    /// The tool's definition changed, and the user has not accepted the change.
    #[error("tool `{tool}` of server `{server}` is blocked: {reason}")]
    Blocked { server: String, tool: String, reason: String },
    #[error("server `{server}` is unavailable: {reason}")]
    Unavailable { server: String, tool: String, reason: String },
    /// The server is reachable, but did not accept the credentials of the call.
    #[error("server `{server}` did not permit the call to `{tool}`: {reason}")]
    Unauthorized { server: String, tool: String, reason: String, hint: Option<String> },
    /// The server refused the call because of too many requests; the tool has not run.
    #[error("server `{server}` refused `{tool}` because of too many requests")]
    RateLimited { server: String, tool: String, retry_after: Option<Duration> },
    #[error("server `{server}` did not respond to `{tool}` within {after:?}")]
    TimedOut { server: String, tool: String, after: Duration },
    /// The call was sent, no result arrived, and the tool is not safe to retry.
    #[error(
        "server `{server}` returned no result for `{tool}` ({reason}); it is unknown whether the call took effect"
    )]
    OutcomeUnknown { server: String, tool: String, reason: String },
    #[error("server `{server}` rejected `{tool}`: {message} (code {code})")]
    Refused { server: String, tool: String, code: i64, message: String },
    #[error("server `{server}` returned a malformed result for `{tool}`: {reason}")]
    Malformed { server: String, tool: String, reason: String },
    #[error("the call to `{tool}` was cancelled")]
    Cancelled { tool: String },
}

impl CallError {
    /// Returns a machine-readable code.
    pub const fn code(&self) -> &'static str {
        match self {
            CallError::UnknownTool { .. } => "unknown_tool",
            CallError::InvalidArguments { .. } => "invalid_arguments",
            CallError::NotPermitted { .. } => "not_permitted",
            CallError::Blocked { .. } => "blocked",
            CallError::Unavailable { .. } => "unavailable",
            CallError::Unauthorized { .. } => "unauthorized",
            CallError::RateLimited { .. } => "rate_limited",
            CallError::TimedOut { .. } => "timed_out",
            CallError::OutcomeUnknown { .. } => "outcome_unknown",
            CallError::Refused { .. } => "refused",
            CallError::Malformed { .. } => "malformed",
            CallError::Cancelled { .. } => "cancelled",
        }
    }

    /// Returns the next thing to try, in one line for a model or a user.
    pub fn hint(&self) -> Option<String> {
        match self {
            CallError::UnknownTool { nearest, .. } if !nearest.is_empty() => {
                let names: Vec<String> = nearest.iter().map(|name| format!("`{name}`")).collect();
                Some(format!("did you mean {}?", names.join(" or ")))
            }
            CallError::UnknownTool { missing, .. } if !missing.is_empty() => {
                Some("use one of the listed tools, or try again later".to_owned())
            }
            CallError::UnknownTool { .. } => Some("use one of the listed tools".to_owned()),
            CallError::InvalidArguments { .. } => {
                Some("call it again with arguments that match its schema".to_owned())
            }
            CallError::NotPermitted { .. } => Some("if it is still listed, call it again".to_owned()),
            CallError::Blocked { .. } => {
                Some("continue without it; the user can accept it with `toolwire pins accept`".to_owned())
            }
            CallError::Unavailable { .. } => Some("continue without it, or try again later".to_owned()),
            CallError::Unauthorized { hint, .. } => hint.clone(),
            CallError::RateLimited { retry_after: Some(delay), .. } => {
                Some(format!("call it again in {delay:?}"))
            }
            CallError::RateLimited { retry_after: None, .. } => Some("call it again later".to_owned()),
            CallError::TimedOut { .. } => Some(
                "the tool may still be running: check whether it took effect before calling it again"
                    .to_owned(),
            ),
            CallError::OutcomeUnknown { .. } => Some(
                "do not call it again blindly: check first whether it took effect, or ask the user"
                    .to_owned(),
            ),
            CallError::Malformed { .. } => Some(
                "the tool has run, but its result is unusable: check what it did before calling it again"
                    .to_owned(),
            ),
            CallError::Refused { .. } | CallError::Cancelled { .. } => None,
        }
    }

    /// Converts the error to a tool result that a model can read.
    pub fn to_result(&self) -> ToolResult {
        let text = match self.hint() {
            Some(hint) => {
                let mut letters = hint.chars();
                let first = letters.next().map(|first| first.to_ascii_uppercase());
                format!("{self}. {}{}", String::from_iter(first), letters.as_str())
            }
            None => self.to_string(),
        };
        ToolResult::error(text)
    }
}

fn missing_list(missing: &[MissingServer]) -> String {
    missing.iter().map(|missing| format!("; {missing}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_result_contains_the_error_and_the_hint() {
        let nearest = vec!["search".into(), "fetch".into()];
        let error = CallError::UnknownTool { tool: "serch".into(), nearest, missing: Vec::new() };
        let result = error.to_result();
        assert!(result.is_error());
        assert_eq!(
            result,
            ToolResult::error("no server offers a tool named `serch`. Did you mean `search` or `fetch`?")
        );
    }

    #[test]
    fn an_unknown_tool_error_lists_unavailable_servers() {
        let unavailable = |server: &str, reason: &str| MissingServer {
            server: server.to_owned(),
            reason: reason.to_owned(),
            is_starting: false,
        };
        let missing = vec![unavailable("files", "it exited"), unavailable("time", "still connecting")];
        let error = CallError::UnknownTool { tool: "search".into(), nearest: Vec::new(), missing };
        assert_eq!(
            error.to_result(),
            ToolResult::error(
                "no server offers a tool named `search`; server `files` is unavailable: it exited; server `time` is \
                 unavailable: still connecting. Use one of the listed tools, or try again later"
            )
        );
    }
}
