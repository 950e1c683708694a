//! How connecting and calling can fail.

use std::time::Duration;

use serde_json::Value;

use crate::transport::{Ending, Failure, SpawnError};

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    #[error("`{url}` is no address of a server: {reason}")]
    BadAddress { url: String, reason: String },
    #[error("the server did not come up within {after:?}")]
    TimedOut { after: Duration, stderr: Vec<String> },
    #[error("{ending} before the session began")]
    Ended { ending: Ending, stderr: Vec<String> },
    #[error("the server refused the session: {message} (code {code})")]
    Refused { code: i64, message: String, data: Option<Value>, stderr: Vec<String> },
    #[error(transparent)]
    Failed(Failure),
    #[error("the session could not begin: {reason}")]
    Protocol { reason: String, stderr: Vec<String> },
    #[error("connecting was given up")]
    Stopped,
}

impl ConnectError {
    /// Whether trying again, with nothing changed, is of no use.
    pub fn is_permanent(&self) -> bool {
        match self {
            ConnectError::Spawn(SpawnError::Failed { .. }) => false,
            ConnectError::Spawn(_) | ConnectError::BadAddress { .. } => true,
            ConnectError::Failed(failure) => {
                matches!(failure, Failure::Unauthorized { .. } | Failure::NoToken { .. })
            }
            _ => false,
        }
    }

    /// The next thing to try, in one line.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            ConnectError::Spawn(SpawnError::NotFound { command, .. }) => {
                format!("install `{command}`, or give `command` with its whole path")
            }
            ConnectError::Spawn(SpawnError::NotExecutable { path }) => {
                format!("`chmod +x {}`, or name the program that runs it", path.display())
            }
            ConnectError::Spawn(SpawnError::NoFolder { .. }) => {
                "make the folder, or correct `cwd`".to_owned()
            }
            ConnectError::Spawn(SpawnError::Failed { .. }) => "run its command by hand".to_owned(),
            ConnectError::BadAddress { .. } => "correct its `url`".to_owned(),
            ConnectError::TimedOut { .. } => {
                "raise its `timeout`, or run its command by hand and see what it waits for".to_owned()
            }
            ConnectError::Ended { .. } => {
                "run its command by hand: what it said on stderr tells why".to_owned()
            }
            ConnectError::Failed(failure) => return failure.hint(),
            ConnectError::Refused { .. } | ConnectError::Protocol { .. } => {
                "is it an MCP server, and are its arguments right?".to_owned()
            }
            ConnectError::Stopped => return None,
        })
    }

    /// The last lines the process said on stderr.
    pub fn stderr(&self) -> &[String] {
        match self {
            ConnectError::TimedOut { stderr, .. }
            | ConnectError::Ended { stderr, .. }
            | ConnectError::Refused { stderr, .. }
            | ConnectError::Protocol { stderr, .. } => stderr,
            _ => &[],
        }
    }
}

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The server answered with a JSON-RPC error.
    #[error("{message} (code {code})")]
    Refused { code: i64, message: String, data: Option<Value> },
    #[error("no answer within {after:?}")]
    TimedOut { after: Duration },
    #[error("the call was cancelled")]
    Cancelled,
    /// The connection ended after the request may have been delivered.
    #[error("{ending}")]
    Disconnected { ending: Ending },
    /// The connection ended before the request was delivered.
    #[error("{ending}; the request was not sent")]
    NotSent { ending: Ending },
    /// The transport brought no answer.
    #[error(transparent)]
    Failed(Failure),
    #[error("the answer makes no sense: {why}")]
    Malformed { why: String },
    /// The server asked for input again and again.
    #[error("no result after {rounds} rounds of questions")]
    TooManyRounds { rounds: usize },
}

impl SessionError {
    /// Whether the server may have acted on the request: then only a tool that can be repeated may be asked again.
    pub fn may_have_run(&self) -> bool {
        match self {
            SessionError::NotSent { .. } => false,
            SessionError::Failed(failure) => failure.may_have_run(),
            _ => true,
        }
    }

    /// Whether the connection brought no answer, so that the same request may fare better another time.
    pub fn is_broken_off(&self) -> bool {
        self.is_lost() || matches!(self, SessionError::Failed(Failure::Broken { .. }))
    }

    /// Whether the session is of no more use. One stream of HTTP that broke is not: others on it go on.
    pub fn is_lost(&self) -> bool {
        matches!(
            self,
            SessionError::Disconnected { .. }
                | SessionError::NotSent { .. }
                | SessionError::Failed(Failure::Unreachable { .. })
        )
    }
}
