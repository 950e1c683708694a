//! The transports to a server: a child process, streamable HTTP, and the older HTTP with server-sent events.
//!
//! Each is a transport of the SDK with a [`RawCapture`] between the wire and the SDK. A transport and its
//! session share a [`Connection`] for what the SDK does not report: why the connection ended, and the last
//! lines of stderr.

mod command;
mod failure;
pub(crate) mod guard;
pub(crate) mod http;
mod line_splitter;
mod process_group;
mod proxy_credentials;
pub(crate) mod sse;
mod sse_events;
pub(crate) mod stdio;
#[cfg(unix)]
mod watchdog;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use crate::calls_in_progress::CallsInProgress;
use crate::raw_capture::{RawCapture, SdkSchemas};
use crate::stderr_tail::StderrTail;
use crate::sync::lock;
pub(crate) use command::{SpawnError, is_inherited};
#[cfg(test)]
pub(crate) use failure::Credentials;
pub(crate) use failure::TransportFailure;
pub(crate) use proxy_credentials::ProxyCredentials;

/// Makes `ring` the cryptography of TLS in this process, unless the application has chosen another one.
/// Required before an HTTP client is created.
pub(crate) fn install_tls_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The HTTP transport of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpKind {
    /// Streamable HTTP, with the older transport as the fallback.
    #[default]
    Auto,
    Streamable,
    Sse,
}

/// The reason why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConnectionEnd {
    /// The process `exited with code 1` or `was killed by signal 9`.
    Exited { how: String },
    /// The guard of the process could not start it, because of an error of the system.
    NotStarted { path: PathBuf, code: i32 },
    /// The process is still running, but can no longer respond.
    StdoutClosed,
    /// The stream of events ended.
    StreamEnded { reason: String },
    /// The client closed the connection.
    Closed,
}

impl fmt::Display for HttpKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            HttpKind::Auto => "http",
            HttpKind::Streamable => "streamable-http",
            HttpKind::Sse => "sse",
        })
    }
}

impl fmt::Display for ConnectionEnd {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectionEnd::Exited { how } => write!(formatter, "the process {how}"),
            ConnectionEnd::NotStarted { .. } => formatter.write_str("the process could not be started"),
            ConnectionEnd::StdoutClosed => {
                formatter.write_str("the process closed its stdout but is still running")
            }
            ConnectionEnd::StreamEnded { reason } => write!(formatter, "the connection ended: {reason}"),
            ConnectionEnd::Closed => formatter.write_str("the connection was closed"),
        }
    }
}

/// The state that a transport and its session share.
pub(crate) struct Connection {
    pub(crate) capture: RawCapture,
    pub(crate) stderr: StderrTail,
    end: watch::Sender<Option<ConnectionEnd>>,
    /// The number of server requests that the application is responding to.
    open_requests: watch::Sender<usize>,
    pub(crate) calls: Arc<CallsInProgress>,
    last_failure: Mutex<Option<TransportFailure>>,
    has_output: AtomicBool,
}

impl Connection {
    pub(crate) fn new(server: &str, schemas: SdkSchemas) -> Arc<Connection> {
        Arc::new(Connection {
            capture: RawCapture::new(server, schemas),
            stderr: StderrTail::default(),
            end: watch::Sender::new(None),
            open_requests: watch::Sender::new(0),
            calls: Arc::default(),
            last_failure: Mutex::default(),
            has_output: AtomicBool::new(false),
        })
    }

    /// Sets what is removed from the output of a process that has this environment.
    pub(crate) fn set_credentials(&self, environment: &[(OsString, OsString)]) {
        let credentials = Arc::new(ProxyCredentials::new(environment));
        self.capture.set_credentials(credentials.clone());
        self.stderr.set_credentials(credentials);
    }

    /// Records that the process has written to its stdout.
    pub(crate) fn set_has_output(&self) {
        self.has_output.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_output(&self) -> bool {
        self.has_output.load(Ordering::Relaxed)
    }

    /// Marks the connection as ended. Only the first reason is recorded.
    pub(crate) fn set_ended(&self, reason: ConnectionEnd) {
        self.end.send_if_modified(|end| {
            let is_first = end.is_none();
            end.get_or_insert(reason);
            is_first
        });
    }

    /// Waits until the connection has ended.
    pub(crate) async fn ended(&self) -> ConnectionEnd {
        let mut end = self.end.subscribe();
        match end.wait_for(Option::is_some).await {
            Ok(end) => end.clone().unwrap_or(ConnectionEnd::Closed),
            Err(_) => ConnectionEnd::Closed,
        }
    }

    /// Returns why the connection ended, if it has.
    pub(crate) fn end(&self) -> Option<ConnectionEnd> {
        self.end.borrow().clone()
    }

    /// Records why a message was not delivered, because the SDK's errors do not contain the reason.
    pub(crate) fn set_last_failure(&self, failure: &TransportFailure) {
        *lock(&self.last_failure) = Some(failure.clone());
    }

    pub(crate) fn last_failure(&self) -> Option<TransportFailure> {
        lock(&self.last_failure).clone()
    }

    /// Records that the application is responding to a request of the server, until the guard is dropped.
    pub(crate) fn application_responds(self: &Arc<Connection>) -> OpenRequest {
        self.open_requests.send_modify(|count| *count += 1);
        OpenRequest(self.clone())
    }

    pub(crate) fn open_requests(&self) -> watch::Receiver<usize> {
        self.open_requests.subscribe()
    }
}

/// A server request that the application is responding to.
pub(crate) struct OpenRequest(Arc<Connection>);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.open_requests.send_modify(|count| *count = count.saturating_sub(1));
    }
}
