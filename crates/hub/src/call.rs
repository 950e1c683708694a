//! One call of a tool, with retries.
//!
//! Arguments are checked before they are sent. A call whose connection failed is retried only if that is
//! safe: if it was never sent, or if the tool is read-only or idempotent.

use std::time::{Duration, Instant};

use serde_json::Value;
use toolwire_contract::ToolResult;
use toolwire_contract::toolbox::{CallError, CallOptions};

use crate::config::ServerConfig;
use crate::drift::DriftMonitor;
use crate::hub::name_task;
use crate::route::Route;
use crate::session::{SessionCall, SessionError};
use crate::stderr_tail::with_stderr;
use crate::supervise::Server;
use crate::transport::TransportFailure;

/// Progress can extend a call to this multiple of its timeout.
const MAX_TIMEOUT_EXTENSION: u32 = 10;

const MAX_ATTEMPTS: usize = 3;

/// Longer timeouts have no effect. Without a limit, adding one to the current time could overflow.
const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Calls the tool that `route` leads to. The server may have repeated secrets, so they are removed from
/// errors.
pub(crate) async fn call(
    server: &Server,
    drift_monitor: &DriftMonitor,
    route: &Route,
    arguments: &Value,
    options: CallOptions,
) -> Result<ToolResult, CallError> {
    let called = call_with_retries(server, drift_monitor, route, arguments, options).await;
    called.map_err(|error| redact(&server.config, error))
}

async fn call_with_retries(
    server: &Server,
    drift_monitor: &DriftMonitor,
    route: &Route,
    arguments: &Value,
    options: CallOptions,
) -> Result<ToolResult, CallError> {
    let timeout = options.timeout.unwrap_or(server.config.call_timeout).min(MAX_TIMEOUT);
    let max_total = timeout.saturating_mul(MAX_TIMEOUT_EXTENSION);
    let start = Instant::now();
    let until = start + timeout;
    let mut last_failure: Option<FailedAttempt> = None;
    for _ in 0..MAX_ATTEMPTS {
        let (session, catalog) = match server.ready(until).await {
            Ok(ready) => ready,
            Err(reason) => {
                return Err(match last_failure {
                    Some(failure) if failure.error.may_have_run() => failure.no_result(route),
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
        if let Some(kind) = drift_monitor.block_reason(&route.server, &catalog, &route.tool) {
            return Err(CallError::Blocked {
                server: route.server.to_string(),
                tool: route.tool.clone(),
                reason: format!("it {kind}"),
            });
        }
        options.check_permission(&route.tool, tool)?;
        let checked = catalog.check(tool, arguments, options.validation);
        let arguments = checked.map_err(|error| CallError::InvalidArguments {
            tool: route.tool.clone(),
            problem: error.problem(),
        })?;
        // A retry has only the remaining time, because the caller has been waiting since the first attempt.
        let remaining = match last_failure {
            None => timeout,
            Some(_) => until.saturating_duration_since(Instant::now()),
        };
        if remaining.is_zero() {
            break;
        }
        let session_call = SessionCall {
            timeout: remaining,
            max_total: max_total.saturating_sub(start.elapsed()),
            progress: options.progress.clone(),
            trace: options.trace.clone(),
            elicitation: options.elicitation.clone(),
            sampling: options.sampling.clone(),
            log: options.log.clone(),
            owner: options.owner.clone(),
            accepts_task: options.accepts_task,
        };
        let called_at = Instant::now();
        let error = match session.call(&route.tool, arguments, session_call).await {
            Ok(result) => {
                server.call_times.record_response(called_at.elapsed());
                return read_result(route, result);
            }
            Err(error) => error,
        };
        server.call_times.record_failure();
        let mut stderr = Vec::new();
        if error.ends_session() {
            server.session_failed(&session);
            stderr = session.stderr_tail();
        }
        let is_safe_to_retry = !error.may_have_run() || tool.is_repeatable();
        let delay =
            error.retry_after().filter(|delay| *delay < until.saturating_duration_since(Instant::now()));
        let is_final = !(is_safe_to_retry && (error.is_connection_failure() || delay.is_some()));
        tracing::debug!(target: "toolwire::hub", server = %route.server, tool = route.tool, is_final, "{}", server.config.redact(error.to_string()));
        let failure = FailedAttempt { error, stderr };
        if is_final {
            return Err(failure.into_call_error(route, timeout, max_total));
        }
        last_failure = Some(failure);
        if let Some(delay) = delay {
            tokio::time::sleep(delay).await;
        }
    }
    Err(match last_failure {
        Some(failure) => failure.no_result(route),
        None => {
            CallError::TimedOut { server: route.server.to_string(), tool: route.tool.clone(), after: timeout }
        }
    })
}

/// Removes what the server received from the parts of an error that it may have written.
fn redact(config: &ServerConfig, error: CallError) -> CallError {
    let redact = |text| config.redact(text);
    match error {
        CallError::Unavailable { server, tool, reason } => {
            CallError::Unavailable { server, tool, reason: redact(reason) }
        }
        CallError::Unauthorized { server, tool, reason, hint } => {
            CallError::Unauthorized { server, tool, reason: redact(reason), hint: hint.map(redact) }
        }
        CallError::OutcomeUnknown { server, tool, reason } => {
            CallError::OutcomeUnknown { server, tool, reason: redact(reason) }
        }
        CallError::Refused { server, tool, code, message } => {
            CallError::Refused { server, tool, code, message: redact(message) }
        }
        CallError::Malformed { server, tool, reason } => {
            CallError::Malformed { server, tool, reason: redact(reason) }
        }
        other => other,
    }
}

fn read_result(route: &Route, mut result: Value) -> Result<ToolResult, CallError> {
    let malformed = |reason: String| CallError::Malformed {
        server: route.server.to_string(),
        tool: route.tool.clone(),
        reason,
    };
    // `ToolResult` would treat any other `content` as missing, and what the server sent would be lost.
    if result.get("content").is_some_and(|content| !content.is_array() && !content.is_null()) {
        return Err(malformed("`content` is not an array".to_owned()));
    }
    remove_own_keys(&mut result);
    let result = ToolResult::try_from(result).map_err(|invalid| malformed(invalid.to_string()))?;
    Ok(name_task(route.server.as_str(), &route.tool, result))
}

/// Removes Toolwire's own keys from `_meta` of a result and of its content. With them, a server could send a
/// provider what only a client may send, such as the URL of an image that the provider fetches.
fn remove_own_keys(result: &mut Value) {
    let remove = |holder: &mut Value| {
        if let Some(meta) = holder.get_mut("_meta").and_then(Value::as_object_mut) {
            meta.retain(|key, _| !key.starts_with("toolwire/"));
        }
    };
    remove(result);
    result.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten().for_each(remove);
}

/// An attempt without a result.
struct FailedAttempt {
    error: SessionError,
    /// The last stderr lines of the server, if the session ended.
    stderr: Vec<String>,
}

impl FailedAttempt {
    fn into_call_error(self, route: &Route, timeout: Duration, max_total: Duration) -> CallError {
        let (server, tool) = (route.server.to_string(), route.tool.clone());
        match self.error {
            SessionError::Rejected { code, message } => CallError::Refused { server, tool, code, message },
            // No attempt has a longer timeout than the call, so a longer time means that the total limit was
            // reached.
            SessionError::TimedOut { after } => {
                let after = if after > timeout { max_total } else { timeout };
                CallError::TimedOut { server, tool, after }
            }
            SessionError::Malformed { reason } => CallError::Malformed { server, tool, reason },
            // The server is connected and has responded.
            SessionError::Failed(
                failure @ (TransportFailure::TooLong { .. }
                | TransportFailure::Unreadable { .. }
                | TransportFailure::Compressed { .. }),
            ) => CallError::Malformed { server, tool, reason: failure.to_string() },
            _ => self.no_result(route),
        }
    }

    fn no_result(&self, route: &Route) -> CallError {
        let (server, tool) = (route.server.to_string(), route.tool.clone());
        if let SessionError::Failed(failure) = &self.error {
            match failure {
                TransportFailure::Unauthorized { .. }
                | TransportFailure::NoToken { .. }
                | TransportFailure::Status { status: 403, .. } => {
                    let (reason, hint) = (failure.to_string(), failure.hint());
                    return CallError::Unauthorized { server, tool, reason, hint };
                }
                TransportFailure::RateLimited { retry_after, .. } if !failure.may_have_run() => {
                    return CallError::RateLimited { server, tool, retry_after: *retry_after };
                }
                _ => {}
            }
        }
        let reason = with_stderr(self.error.to_string(), &self.stderr);
        match self.error.may_have_run() {
            true => CallError::OutcomeUnknown { server, tool, reason },
            false => CallError::Unavailable { server, tool, reason },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_server_cannot_set_the_keys_of_toolwire() {
        let part = json!({"type": "input_image", "image_url": "https://evil.test/x.png"});
        let mut result = json!({
            "content": [{"type": "image_url", "_meta": {"toolwire/openai": part, "other": 1}}, "x"],
            "_meta": {"toolwire/truncated": true},
        });
        remove_own_keys(&mut result);
        let expected = json!({"content": [{"type": "image_url", "_meta": {"other": 1}}, "x"], "_meta": {}});
        assert_eq!(result, expected);
    }

    #[test]
    fn a_refused_token_does_not_make_the_server_unavailable() {
        let reason = "its token could not be refreshed: invalid_grant".to_owned();
        let hint = Some("log in again".to_owned());
        let error = SessionError::Failed(TransportFailure::NoToken { reason, hint: hint.clone() });
        let server = crate::ServerName::new("web").expect("a valid name");
        let route = Route { server, tool: "one".to_owned() };
        let failure = FailedAttempt { error, stderr: Vec::new() };
        let error = failure.into_call_error(&route, Duration::ZERO, Duration::ZERO);
        assert_eq!((error.code(), error.hint()), ("unauthorized", hint));
        assert_eq!(
            error.to_string(),
            "server `web` did not permit the call to `one`: no token for the server: its token could not be refreshed: \
             invalid_grant"
        );
    }
}
