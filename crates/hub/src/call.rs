//! One call, from the name a model knows to the server's answer.
//!
//! Arguments are checked before they travel. A call whose connection broke is made again only where that cannot do
//! harm: when it was never sent, or when the tool says that it only reads or may be repeated.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use toolwire_contract::{CallError, CallOptions, Progress, Tool, ToolResult};

use crate::last_words::with_last_words;
use crate::route::Route;
use crate::session::{self, SessionError};
use crate::supervise::Server;
use crate::transport::Failure;

/// Progress may hold a call open for this many times its timeout.
const PATIENCE: u32 = 10;

/// How often a call is made at most.
const ATTEMPTS: usize = 3;

/// Calls the tool at the end of `route`.
pub(crate) async fn call(
    server: &Server,
    route: &Route,
    sent: &Value,
    options: CallOptions,
) -> Result<ToolResult, CallError> {
    let timeout = options.timeout.unwrap_or(server.config.call_timeout);
    let longest = timeout.saturating_mul(PATIENCE);
    let begun = Instant::now();
    let until = begun + timeout;
    let mut last: Option<Failed> = None;
    for _ in 0..ATTEMPTS {
        let (session, catalog) = match server.ready(until).await {
            Ok(ready) => ready,
            Err(reason) => {
                return Err(match last {
                    Some(failed) if failed.error.may_have_run() => failed.lost(route),
                    _ => CallError::Unavailable {
                        server: route.server.to_string(),
                        tool: route.tool.clone(),
                        reason,
                    },
                });
            }
        };
        let Some(tool) = catalog.tool(&route.tool) else {
            return Err(CallError::UnknownTool {
                tool: route.tool.clone(),
                nearest: Vec::new(),
                missing: Vec::new(),
            });
        };
        options.check_permission(&route.tool, tool)?;
        let arguments: Map<String, Value> =
            catalog.check(tool, sent, options.validation).map_err(|error| CallError::InvalidArguments {
                tool: route.tool.clone(),
                problem: error.problem(),
            })?;
        let cancel = CancellationToken::new();
        let _cancelled_when_dropped = cancel.clone().drop_guard();
        // Made again, it has what is left of its time: whoever waits has waited through the first attempt too.
        let left = if last.is_none() { timeout } else { until.saturating_duration_since(Instant::now()) };
        if left.is_zero() {
            break;
        }
        let asked = session::CallOptions {
            timeout: left,
            max_total: longest.saturating_sub(begun.elapsed()),
            progress: options.progress.clone().map(told),
            cancel,
        };
        match session.call(&route.tool, arguments, asked).await {
            Ok(raw) => return read(route, raw),
            Err(error) => {
                if error.is_lost() {
                    server.lost(&session);
                }
                let may_go_again = !error.may_have_run() || is_repeatable(tool);
                let is_over = !(error.is_broken_off() && may_go_again);
                tracing::debug!(target: "toolwire::hub", server = %route.server, tool = route.tool, is_over, "{error}");
                let stderr = if error.is_lost() { session.stderr_tail() } else { Vec::new() };
                let failed = Failed { error, stderr };
                if is_over {
                    let cap = matches!(failed.error, SessionError::TimedOut { after } if after > timeout);
                    return Err(failed.told(route, if cap { longest } else { timeout }));
                }
                last = Some(failed);
            }
        }
    }
    Err(match last {
        Some(failed) => failed.lost(route),
        None => CallError::Cancelled { tool: route.tool.clone() },
    })
}

/// Whether calling the tool twice does no more than calling it once.
fn is_repeatable(tool: &Tool) -> bool {
    let hint = |name: &str| {
        tool.annotations.as_ref().and_then(|hints| hints.get(name)).and_then(Value::as_bool) == Some(true)
    };
    hint("readOnlyHint") || hint("idempotentHint")
}

fn read(route: &Route, raw: Value) -> Result<ToolResult, CallError> {
    let malformed = |reason: String| CallError::Malformed {
        server: route.server.to_string(),
        tool: route.tool.clone(),
        reason,
    };
    // Read as it is, it would be an answer without content, and nobody would see that there was one.
    if raw.get("content").is_some_and(|content| !content.is_array() && !content.is_null()) {
        return Err(malformed("its `content` is no list".to_owned()));
    }
    ToolResult::try_from(raw).map_err(|invalid| malformed(invalid.to_string()))
}

/// A call without an answer.
struct Failed {
    error: SessionError,
    /// What the server said last, if it went away.
    stderr: Vec<String>,
}

impl Failed {
    /// `after`: how long it was waited for, if it was waited for in vain.
    fn told(self, route: &Route, after: Duration) -> CallError {
        let (server, tool) = (route.server.to_string(), route.tool.clone());
        match self.error {
            SessionError::Refused { code, message, .. } => CallError::Refused { server, tool, code, message },
            SessionError::TimedOut { .. } => CallError::TimedOut { server, tool, after },
            SessionError::Cancelled => CallError::Cancelled { tool },
            SessionError::Malformed { why } => CallError::Malformed { server, tool, reason: why },
            // It is there and has answered: nobody went away.
            SessionError::Failed(failure @ (Failure::TooLong { .. } | Failure::Unreadable { .. })) => {
                CallError::Malformed { server, tool, reason: failure.to_string() }
            }
            _ => self.lost(route),
        }
    }

    fn lost(&self, route: &Route) -> CallError {
        let (server, tool) = (route.server.to_string(), route.tool.clone());
        let reason = with_last_words(self.error.to_string(), &self.stderr);
        if self.error.may_have_run() {
            CallError::OutcomeUnknown { server, tool, reason }
        } else {
            CallError::Unavailable { server, tool, reason }
        }
    }
}

fn told(tell: Arc<dyn Fn(Progress) + Send + Sync>) -> Arc<dyn Fn(crate::tee::Progress) + Send + Sync> {
    Arc::new(move |progress| {
        tell(Progress { done: progress.progress, total: progress.total, message: progress.message });
    })
}
