//! The status of a server, as the application displays it.

use std::time::SystemTime;

pub use crate::call_times::CallStatistics;
pub use crate::catalog::QuarantinedTool;
use crate::pins::Drift;
pub use crate::raw_capture::IgnoredOutput;
pub use crate::session::ServerInfo;
use crate::stderr_tail::{find_cause, quoted_lines, with_stderr};

/// The status of one server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerStatus {
    pub name: String,
    /// The way to connect: `stdio`, or the type of a remote server, such as `http`.
    pub transport: String,
    /// The program or the URL, without what may be secret.
    pub address: String,
    pub phase: Phase,
    /// The time at which the phase began.
    pub since: SystemTime,
    /// The current or the next attempt to connect; `None` if the server is ready or stopped.
    pub attempt: Option<Attempt>,
    /// The progress while the phase is [`Phase::Connecting`].
    pub start: StartProgress,
    /// The server's description of itself; `None` while it is not connected.
    pub info: Option<ServerInfo>,
    /// The number of listed tools that the configuration allows and that are not blocked.
    pub tool_count: usize,
    /// The number of listed tools that `tools.allow` or `tools.deny` excludes.
    pub denied: usize,
    /// Patterns of `tools.allow` and `tools.deny` that match no tool.
    pub unused_patterns: Vec<String>,
    /// Tools that the server lists more than once; the first one is used.
    pub duplicates: Vec<String>,
    pub quarantined: Vec<QuarantinedTool>,
    /// The reason why the tool list may be incomplete.
    pub incomplete: Option<String>,
    /// The next thing to try if the server is unavailable.
    pub hint: Option<String>,
    /// The last lines that it wrote to stderr.
    pub stderr: Vec<String>,
    pub ignored_output: IgnoredOutput,
    pub restarts: u32,
    pub calls: CallStatistics,
    /// Tools that differ from what was first seen or last accepted.
    pub drifts: Vec<Drift>,
}

impl ServerStatus {
    /// Returns the stderr lines that explain best why the server failed, at most three: the line that names a
    /// missing package or module, or else the last lines.
    pub fn stderr_excerpt(&self) -> Vec<String> {
        quoted_lines(&self.stderr)
    }

    /// Appends these lines to the reason why the server failed.
    pub fn with_stderr(&self, reason: String) -> String {
        with_stderr(reason, &self.stderr)
    }

    /// Returns the index of the stderr line that names a missing package or module.
    pub fn stderr_cause(&self) -> Option<usize> {
        find_cause(&self.stderr).map(|(index, _)| index)
    }
}

/// The phase of a server's lifecycle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// The first attempt to connect is running.
    #[default]
    Connecting,
    Ready,
    /// It failed and will be connected again soon.
    Recovering {
        reason: String,
    },
    /// It keeps failing, or cannot work with its configuration.
    Down {
        reason: String,
    },
    Stopped,
}

impl Phase {
    /// Returns why the server is unavailable; `None` if it is ready.
    pub fn unavailable_reason(&self) -> Option<String> {
        Some(match self {
            Phase::Ready => return None,
            Phase::Connecting => "still connecting".to_owned(),
            Phase::Recovering { reason } => format!("{reason}; reconnecting"),
            Phase::Down { reason } => reason.clone(),
            Phase::Stopped => "stopped".to_owned(),
        })
    }
}

/// An attempt to connect to a server that is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Attempt {
    Running,
    /// The attempt waits for the user, whose login page is open.
    LoggingIn,
    /// The next attempt begins at this time.
    At(SystemTime),
    /// There is no attempt until the user requests one.
    OnRequest,
    /// The server refused the connection because there is no valid token. The user must log in.
    NeedsLogin,
}

/// The progress of a server that is connecting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartProgress {
    /// Other servers are started first.
    Waiting,
    #[default]
    Started,
    /// It gets more time than its timeout: its command is a package runner such as `npx`, which is still
    /// working.
    Installing,
    /// It gets more time than its timeout: the processor is busy.
    BusyProcessor,
}
