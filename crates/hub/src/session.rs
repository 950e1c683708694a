//! One connected server.
//!
//! A [`Session`] lists and calls the tools of a server, many calls at a time, and says how a call ended: what the server
//! answered, word for word, or why there is no answer and whether the tool may have run all the same. Which era the
//! server is from, and how it is reached, stays in here.

mod call;
mod connect;
mod error;
mod keep;
mod limit;
mod list;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::RequestId;
use rmcp::service::Peer;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::host::Host;
use crate::tee::Noise;
use crate::transport::{Ending, Link};
pub use call::CallOptions;
pub use connect::ConnectContext;
pub use error::{ConnectError, SessionError};
use limit::Limit;
pub use list::{LeftOut, Listing};

/// How long closing may take before what is left is cut off: the steps that end a process, and the SDK's own.
const CLOSING: Duration = Duration::from_secs(12);

/// A connected server. It is closed when this is dropped; [`close`](Session::close) also waits for that.
pub struct Session {
    server: Arc<str>,
    host: Arc<dyn Host>,
    facts: Facts,
    peer: Peer<RoleClient>,
    link: Arc<Link>,
    abandoned: mpsc::Sender<(RequestId, &'static str)>,
    unheard: call::Unheard,
    list_timeout: Duration,
    /// What is left of the time for connecting, which the first list is a part of.
    limit: Limit,
    /// Whether a person is asked.
    asking: Option<watch::Receiver<bool>>,
    stop: CancellationToken,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// Its `name`, `version` and what else it tells, or `null`.
    pub server_info: Value,
    /// The revision of the protocol that both sides speak.
    pub protocol: String,
    pub instructions: Option<String>,
    pub capabilities: Value,
    /// Worth remembering: the next connection need not find out again.
    pub era: Era,
}

/// The two eras of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// Up to 2025-11-25: a connection begins with `initialize`.
    Legacy,
    /// From 2026-07-28: each request stands for itself.
    Modern,
}

/// What happens in a session beside calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionEvent {
    /// The server's list of tools is not what it was.
    ToolsChanged,
}

impl Session {
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Waits until the connection is over, and says why.
    pub async fn closed(&self) -> Ending {
        self.link.ended().await
    }

    /// Why the connection is over, if it is.
    pub fn ending(&self) -> Option<Ending> {
        self.link.ending()
    }

    /// The last lines a process said on stderr.
    pub fn stderr_tail(&self) -> Vec<String> {
        self.link.stderr.lines()
    }

    /// What the server sent that was no message.
    pub fn noise(&self) -> Noise {
        self.link.tee.noise()
    }

    /// Ends the connection, and the process with all that it started.
    pub async fn close(&self) {
        self.stop.cancel();
        let keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut keeper) = keeper else { return };
        if tokio::time::timeout(CLOSING, &mut keeper).await.is_err() {
            keeper.abort();
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
