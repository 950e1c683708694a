//! The ways to a server: a child process, streamable HTTP, and the older HTTP with server-sent events.
//!
//! Each is a transport of the SDK with the [`Tee`] between the wire and the SDK. What a session needs to know beside
//! the SDK (why the connection ended, the last lines of stderr) goes through the [`Link`] they share.

mod command;
mod events;
mod group;
pub(crate) mod http;
mod lines;
pub(crate) mod sse;
pub(crate) mod stdio;
mod tail;
#[cfg(unix)]
mod watchdog;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::Secret;
use crate::tee::{Schemas, Tee};
pub use command::SpawnError;
pub(crate) use tail::Tail;

/// Where a server is and how it is reached.
#[derive(Debug, Clone)]
pub enum Target {
    /// A program that speaks MCP on its standard input and output.
    Stdio { command: String, args: Vec<String>, env: Vec<(String, Secret)>, cwd: Option<PathBuf> },
    /// An address.
    Http { url: String, headers: Vec<(String, Secret)>, kind: HttpKind },
}

/// Which of the two HTTP transports a server speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HttpKind {
    /// Streamable HTTP, and the older one where the server refuses that.
    #[default]
    Auto,
    Streamable,
    Sse,
}

/// Why a transport could not bring an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("the answer is longer than {limit} bytes")]
    TooLong { limit: usize },
    #[error("the answer cannot be read: {why}")]
    Unreadable { why: String },
    #[error("could not reach the server: {reason}")]
    Unreachable { reason: String },
    #[error("the connection broke: {reason}")]
    Broken { reason: String },
    #[error("the server asks for authorization (HTTP {status})")]
    Unauthorized { status: u16, challenge: String },
    #[error("no token for the server: {reason}")]
    NoToken { reason: String, hint: Option<String> },
    #[error("the server answered HTTP {status}{}", shown(excerpt))]
    Status { status: u16, excerpt: String },
    #[error("the server answered with {}, not with JSON or events{}", content_type.as_deref().unwrap_or("no content type"), shown(excerpt))]
    WrongContent { content_type: Option<String>, excerpt: String },
}

impl Failure {
    /// The next thing to try, in one line.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Failure::NoToken { hint, .. } => return hint.clone(),
            Failure::Unauthorized { status: 401, .. } => {
                "give it a header with a token, or log in with `toolwire doctor` on a terminal".to_owned()
            }
            Failure::Unauthorized { .. } => {
                "the token lacks a right: name it in `oauth.scopes`, or ask for it".to_owned()
            }
            Failure::Unreachable { .. } => "is it running, and is its `url` right?".to_owned(),
            Failure::Status { status: 400..=499, .. } | Failure::WrongContent { .. } => {
                "check its `url`: this is not how an MCP server answers".to_owned()
            }
            Failure::Status { .. } => "look into the server's own log".to_owned(),
            Failure::TooLong { .. } | Failure::Unreadable { .. } | Failure::Broken { .. } => return None,
        })
    }

    /// Whether the server may have acted on the request all the same.
    pub fn may_have_run(&self) -> bool {
        match self {
            Failure::TooLong { .. } | Failure::Unreadable { .. } | Failure::Broken { .. } => true,
            Failure::WrongContent { .. } => true,
            Failure::Unreachable { .. } | Failure::Unauthorized { .. } | Failure::NoToken { .. } => false,
            Failure::Status { status, .. } => *status >= 500 || *status == 408,
        }
    }
}

/// Why a connection is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The process ended: `exit code 1`, `signal 9`.
    Exited { how: String },
    /// The process runs on, but will never answer.
    StdoutClosed,
    /// The stream of events ended.
    StreamEnded { reason: String },
    /// We closed it.
    Closed,
}

impl fmt::Display for Ending {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Exited { how } => write!(formatter, "the process ended with {how}"),
            Ending::StdoutClosed => formatter.write_str("the process closed its output but runs on"),
            Ending::StreamEnded { reason } => write!(formatter, "the connection ended: {reason}"),
            Ending::Closed => formatter.write_str("the connection was closed"),
        }
    }
}

/// What a transport and its session share beside the SDK.
pub(crate) struct Link {
    pub(crate) tee: Tee,
    pub(crate) stderr: Tail,
    ended: watch::Sender<Option<Ending>>,
    /// How many requests of the server the application is answering.
    asking: watch::Sender<usize>,
    failure: Mutex<Option<Failure>>,
}

impl Link {
    pub(crate) fn new(server: &str, schemas: Schemas) -> Arc<Link> {
        Arc::new(Link {
            tee: Tee::new(server, schemas),
            stderr: Tail::default(),
            ended: watch::Sender::new(None),
            asking: watch::Sender::new(0),
            failure: Mutex::default(),
        })
    }

    /// The connection is over. The first reason stays.
    pub(crate) fn end(&self, ending: Ending) {
        self.ended.send_if_modified(|ended| {
            let first = ended.is_none();
            ended.get_or_insert(ending);
            first
        });
    }

    /// Waits until the connection is over.
    pub(crate) async fn ended(&self) -> Ending {
        let mut ended = self.ended.subscribe();
        match ended.wait_for(Option::is_some).await {
            Ok(ending) => ending.clone().unwrap_or(Ending::Closed),
            Err(_) => Ending::Closed,
        }
    }

    pub(crate) fn ending(&self) -> Option<Ending> {
        self.ended.borrow().clone()
    }

    /// Notes why a message did not get through, for errors that come back through the SDK without their reason.
    pub(crate) fn failed(&self, failure: &Failure) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure.clone());
    }

    pub(crate) fn last_failure(&self) -> Option<Failure> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes that the application is answering the server, until the guard is dropped.
    pub(crate) fn application_answers(self: &Arc<Link>) -> Answering {
        self.asking.send_modify(|asking| *asking += 1);
        Answering(self.clone())
    }

    pub(crate) fn asking(&self) -> watch::Receiver<usize> {
        self.asking.subscribe()
    }
}

pub(crate) struct Answering(Arc<Link>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.asking.send_modify(|asking| *asking = asking.saturating_sub(1));
    }
}

fn shown(excerpt: &str) -> String {
    if excerpt.is_empty() { String::new() } else { format!(": {excerpt}") }
}
