//! The errors of connecting and of requests.

use std::time::Duration;

use super::start_extension::SlowStart;
use crate::raw_capture::IgnoredOutput;
use crate::stderr_tail::cause_hint;
use crate::transport::{ConnectionEnd, SpawnError, TransportFailure};

/// A failed attempt to connect.
#[derive(Debug)]
pub(crate) struct ConnectFailure {
    pub(crate) error: ConnectError,
    /// The last lines that the process wrote to stderr.
    pub(crate) stderr: Vec<String>,
    /// Output of the process on stdout that is not a message.
    pub(crate) ignored_output: IgnoredOutput,
    /// Whether the server is reached over HTTP. The hint for a process is to run its command in a terminal.
    pub(crate) is_remote: bool,
}

impl ConnectFailure {
    /// Returns the next thing to try, in one line.
    pub(crate) fn hint(&self) -> Option<String> {
        let specific = match &self.error {
            ConnectError::Ended { .. } => {
                cause_hint(&self.stderr).map(str::to_owned).or_else(|| self.other_program_hint())
            }
            ConnectError::TimedOut { .. } => self.output_hint(),
            _ => None,
        };
        specific.or_else(|| self.error.hint(self.is_remote))
    }

    /// Returns the line that a program other than an MCP server wrote, if it wrote nothing to stderr.
    fn other_program_hint(&self) -> Option<String> {
        let line = self.ignored_output.last_unreadable.as_ref().filter(|_| self.stderr.is_empty())?;
        Some(format!("it wrote `{line}` to stdout: check that `command` and `args` start an MCP server"))
    }

    fn output_hint(&self) -> Option<String> {
        let IgnoredOutput { unreadable, oversized, last_unreadable, .. } = &self.ignored_output;
        let lines = match last_unreadable {
            _ if *oversized > 0 => "a line that does not end".to_owned(),
            Some(last) => format!("lines that are not messages ({unreadable}, the last: `{last}`)"),
            None => return None,
        };
        Some(format!("it wrote {lines} to stdout: logs belong on stderr"))
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    #[error("invalid URL `{url}`: {reason}")]
    InvalidUrl { url: String, reason: String },
    #[error("the server was not ready within {after:?}{}", extension(extended))]
    TimedOut {
        after: Duration,
        /// The reason why the timeout was extended, and the extended timeout.
        extended: Option<(SlowStart, Duration)>,
    },
    #[error("{end} before the session started")]
    Ended { end: ConnectionEnd },
    #[error("the server rejected the session: {message} (code {code})")]
    Rejected { code: i64, message: String },
    #[error(transparent)]
    Failed(TransportFailure),
    #[error("the session could not start: {reason}")]
    Protocol { reason: String },
    #[error("the connection attempt was cancelled")]
    Stopped,
}

impl ConnectError {
    /// Whether a retry without any change is pointless.
    pub(crate) fn is_permanent(&self) -> bool {
        match self {
            ConnectError::Spawn(SpawnError::Failed { .. }) => false,
            ConnectError::Spawn(_) | ConnectError::InvalidUrl { .. } => true,
            ConnectError::Failed(failure) => failure.needs_token(),
            _ => false,
        }
    }

    /// Whether the server requires a token, and there is no valid one.
    pub(crate) fn needs_token(&self) -> bool {
        matches!(self, ConnectError::Failed(failure) if failure.needs_token())
    }

    fn hint(&self, is_remote: bool) -> Option<String> {
        Some(match self {
            ConnectError::Spawn(SpawnError::NotFound { command, .. }) if command.trim() != command => {
                "remove the spaces at the start and the end of `command`".to_owned()
            }
            ConnectError::Spawn(SpawnError::NotFound { command, .. }) => match command.split_once(' ') {
                Some((program, _)) => {
                    format!("set `command` to `{program}` and put the rest into `args`, one word per entry")
                }
                None => format!("install `{command}`, or set `command` to its full path"),
            },
            ConnectError::Spawn(SpawnError::NoFile { .. }) => "correct the path in `command`".to_owned(),
            ConnectError::Spawn(SpawnError::NoInterpreter { interpreter, .. })
                if interpreter.ends_with('\r') =>
            {
                "change the line endings of the script from CRLF to LF".to_owned()
            }
            ConnectError::Spawn(SpawnError::NoInterpreter { interpreter, .. }) => {
                format!("install `{interpreter}`, or correct the first line of the script")
            }
            ConnectError::Spawn(SpawnError::NotADirectory { .. }) => "set `cwd` to a directory".to_owned(),
            ConnectError::Spawn(SpawnError::IsDirectory { .. }) => {
                "set `command` to a program in the directory".to_owned()
            }
            ConnectError::Spawn(SpawnError::NotExecutable { path }) => {
                format!("run `chmod +x {}`, or set `command` to the program that runs it", path.display())
            }
            ConnectError::Spawn(SpawnError::NoDirectory { .. }) => {
                "create the directory, or correct `cwd`".to_owned()
            }
            ConnectError::Spawn(SpawnError::Failed { .. }) => "run its command in a terminal".to_owned(),
            ConnectError::InvalidUrl { .. } => "correct its `url`".to_owned(),
            ConnectError::TimedOut { .. } if is_remote => {
                "increase its `timeout`, or check its `url` and the server's log".to_owned()
            }
            ConnectError::TimedOut { .. } => {
                "increase its `timeout`, or run its command in a terminal to see what it waits for".to_owned()
            }
            ConnectError::Ended { .. } if is_remote => "check the server's log".to_owned(),
            ConnectError::Ended { .. } => {
                "run its command in a terminal: stderr usually shows the reason".to_owned()
            }
            ConnectError::Failed(failure) => return failure.hint(),
            ConnectError::Rejected { .. } | ConnectError::Protocol { .. } if is_remote => {
                "check that its `url` is the address of an MCP server".to_owned()
            }
            ConnectError::Rejected { .. } | ConnectError::Protocol { .. } => {
                "check that it is an MCP server and that its arguments are correct".to_owned()
            }
            ConnectError::Stopped => return None,
        })
    }
}

fn extension(extended: &Option<(SlowStart, Duration)>) -> String {
    let Some((reason, to)) = extended else { return String::new() };
    format!(", extended to {to:?} because {}", reason.reason())
}

/// A request without a result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    /// The server responded with a JSON-RPC error.
    #[error("{message} (code {code})")]
    Rejected { code: i64, message: String },
    #[error("no response within {after:?}")]
    TimedOut { after: Duration },
    /// The connection ended after the request may have been delivered.
    #[error("{end}")]
    Disconnected { end: ConnectionEnd },
    /// The connection ended before the request was delivered.
    #[error("{end}; the request was not sent")]
    NotSent { end: ConnectionEnd },
    /// The transport delivered no response.
    #[error(transparent)]
    Failed(TransportFailure),
    #[error("malformed response: {reason}")]
    Malformed { reason: String },
    #[error("no result after {rounds} rounds of input requests")]
    TooManyInputRounds { rounds: usize },
}

impl SessionError {
    /// Whether the server may have acted on the request. If so, only a repeatable tool may be called again.
    pub(crate) fn may_have_run(&self) -> bool {
        match self {
            SessionError::NotSent { .. } => false,
            SessionError::Failed(failure) => failure.may_have_run(),
            _ => true,
        }
    }

    /// Returns the delay after which the server accepts the request, if it refused it for now.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            SessionError::Failed(TransportFailure::RateLimited { retry_after, .. }) => *retry_after,
            _ => None,
        }
    }

    /// Whether the connection delivered no response, so that a retry may succeed.
    pub(crate) fn is_connection_failure(&self) -> bool {
        self.ends_session() || matches!(self, SessionError::Failed(TransportFailure::Interrupted { .. }))
    }

    /// Whether the session can no longer be used. A single interrupted HTTP stream does not affect the
    /// others.
    pub(crate) fn ends_session(&self) -> bool {
        matches!(
            self,
            SessionError::Disconnected { .. }
                | SessionError::NotSent { .. }
                | SessionError::Failed(TransportFailure::Unreachable { .. } | TransportFailure::Tls(_))
        )
    }
}
