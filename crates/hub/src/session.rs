//! A session with one connected server.
//!
//! A [`Session`] lists and calls the tools of a server, with many calls at a time. A call returns what the
//! server sent, unchanged, or why there is no response and whether the tool may have run. The server's
//! protocol era and transport are details of the session.

mod call;
mod connect;
mod deadline;
mod early_requests;
mod error;
mod list;
mod log;
mod offers;
mod start_extension;
mod task;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::RequestId;
use rmcp::service::Peer;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use toolwire_contract::log::Level;
use toolwire_contract::offers::OfferChange;

use crate::config::SentSecrets;
use crate::host::Host;
use crate::raw_capture::IgnoredOutput;
use crate::sync::lock;
use crate::transport::{Connection, ConnectionEnd, HttpKind};
pub(crate) use call::SessionCall;
pub(crate) use connect::ConnectContext;
use deadline::PausableDeadline;
pub(crate) use error::{ConnectFailure, SessionError};
pub(crate) use list::ToolListing;
pub(crate) use start_extension::{OnSlowStart, SlowStart};
pub(crate) use task::change_event;

/// The maximum time for closing, including all steps of stopping a process, before the task is aborted.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(12);

/// A connected server. Dropping it closes the connection; [`close`](Session::close) also waits for the end.
pub(crate) struct Session {
    server: Arc<str>,
    host: Arc<dyn Host>,
    info: ServerInfo,
    peer: Peer<RoleClient>,
    connection: Arc<Connection>,
    /// Requests that the caller no longer waits for, with the reason.
    abandoned: mpsc::Sender<(RequestId, &'static str)>,
    late_receivers: call::LateReceivers,
    list_timeout: Duration,
    /// The maximum size of a list of tools, over all pages.
    max_list_bytes: usize,
    /// The deadline for connecting, which includes the first list.
    connect_deadline: PausableDeadline,
    /// Whether a user is logging in.
    login: Option<watch::Receiver<bool>>,
    /// The URIs of the resources whose changes the server reports.
    watched: watch::Sender<Vec<String>>,
    /// The lowest level of log messages that was requested from the server.
    log_level: Mutex<Option<Level>>,
    /// Removed from what is passed on.
    secrets: SentSecrets,
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// A server's description of itself.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ServerInfo {
    /// MCP's `serverInfo`: `name`, `version` and more, or `null`.
    pub implementation: Value,
    /// The negotiated protocol revision.
    pub protocol: String,
    pub instructions: Option<String>,
    pub capabilities: Value,
    /// Used by the next connection, which then needs no probe.
    pub(crate) era: ProtocolEra,
    /// The transport that it uses, if its `type` in the configuration is the other one.
    pub corrected_type: Option<HttpKind>,
}

/// The two eras of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProtocolEra {
    /// Up to 2025-11-25: a connection starts with `initialize`.
    Legacy,
    /// From 2026-07-28: each request is independent.
    Modern,
}

/// An event in a session, apart from calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionEvent {
    ToolsChanged,
    OffersChanged(OfferChange),
}

impl Session {
    pub(crate) fn info(&self) -> &ServerInfo {
        &self.info
    }

    /// Waits until the connection has ended, and returns why.
    pub(crate) async fn ended(&self) -> ConnectionEnd {
        self.connection.ended().await
    }

    /// Returns why the connection ended, if it has.
    pub(crate) fn end(&self) -> Option<ConnectionEnd> {
        self.connection.end()
    }

    /// Returns the last lines that a process wrote to stderr.
    pub(crate) fn stderr_tail(&self) -> Vec<String> {
        self.connection.stderr.lines()
    }

    pub(crate) fn ignored_output(&self) -> IgnoredOutput {
        self.connection.capture.ignored_output()
    }

    /// Ends the connection, and the process with its children.
    pub(crate) async fn close(&self) {
        self.stop.cancel();
        let task = lock(&self.task).take();
        let Some(mut task) = task else { return };
        if tokio::time::timeout(CLOSE_TIMEOUT, &mut task).await.is_err() {
            task.abort();
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
