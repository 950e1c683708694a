//! Starts the servers of a configuration.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::{broadcast, mpsc, watch};
use tokio::task::JoinHandle;
use toolwire_contract::offers::OfferChange;

use super::HubOptions;
use super::state::ServerSet;
use crate::auth::{OAuth, TokenProvider};
use crate::config::{Config, ServerConfig};
use crate::process_table;
use crate::status::Phase;
use crate::supervise::{Server, ServerContext, StartQueue, supervise};

/// Starts servers, with the options that all of them share.
pub(super) struct Launcher {
    options: HubOptions,
    environment: Arc<[(OsString, OsString)]>,
    guard: Option<Arc<Path>>,
    start_queue: Arc<StartQueue>,
    /// Notifies the hub that something about a server has changed.
    changed: mpsc::Sender<()>,
    status_version: watch::Sender<u64>,
    offer_changes: broadcast::Sender<OfferChange>,
}

impl Launcher {
    pub(super) fn new(
        options: HubOptions,
        changed: mpsc::Sender<()>,
        status_version: watch::Sender<u64>,
        offer_changes: broadcast::Sender<OfferChange>,
    ) -> Launcher {
        // A guard finds the descendants of a process in the process table.
        let has_guard = cfg!(target_os = "linux") && process_table::exists();
        Launcher {
            environment: options.environment.as_slice().into(),
            guard: options.guard.as_deref().filter(|_| has_guard).map(Arc::from),
            start_queue: Arc::new(StartQueue::new(options.concurrent_starts)),
            changed,
            status_version,
            offer_changes,
            options,
        }
    }

    /// Returns the servers of a configuration. Servers of `running` are reused if their configuration is the
    /// same; the others are started, and their tasks are added to `tasks`.
    pub(super) fn server_set(
        &self,
        config: &Config,
        running: &[Arc<Server>],
        tasks: &mut Vec<JoinHandle<()>>,
    ) -> ServerSet {
        let mut server_set = ServerSet { servers: Vec::new(), unconnected: Vec::new() };
        for server in &config.servers {
            let is_selected = self.options.only_server.as_ref().is_none_or(|only| server.name == *only);
            if server.disabled || !is_selected {
                server_set.unconnected.push(server.clone());
                continue;
            }
            let known = running.iter().find(|known| known.config == *server);
            server_set.servers.push(known.cloned().unwrap_or_else(|| self.start(server, tasks)));
        }
        server_set
    }

    fn start(&self, config: &ServerConfig, tasks: &mut Vec<JoinHandle<()>>) -> Arc<Server> {
        let (server, inbox) = Server::new(config.clone(), token_provider(config, &self.options));
        let context = ServerContext {
            host: self.options.host.clone(),
            environment: self.environment.clone(),
            guard: self.guard.clone(),
            allowed_hosts: self.options.allowed_hosts.clone(),
            start_queue: self.start_queue.clone(),
            changed: self.changed.clone(),
            offer_changes: self.offer_changes.clone(),
        };
        tasks.push(tokio::spawn(supervise(server.clone(), inbox, context)));
        tasks.push(tokio::spawn(report_changes(server.clone(), self.status_version.clone())));
        server
    }
}

/// Counts the changes of a server's status until the server has stopped.
async fn report_changes(server: Arc<Server>, version: watch::Sender<u64>) {
    let mut snapshot = server.watch();
    let token_provider = server.token_provider.as_ref();
    let mut login = token_provider.and_then(|token_provider| token_provider.login_in_progress());
    loop {
        let login_changed = async {
            match &mut login {
                Some(login) => login.changed().await,
                None => std::future::pending().await,
            }
        };
        let changed = tokio::select! {
            changed = snapshot.changed() => changed,
            changed = login_changed => changed,
        };
        if changed.is_err() {
            return;
        }
        version.send_modify(|version| *version += 1);
        if snapshot.borrow().phase == Phase::Stopped {
            return;
        }
    }
}

/// Creates the token provider of a remote server.
fn token_provider(config: &ServerConfig, options: &HubOptions) -> Option<Arc<dyn TokenProvider>> {
    let shared = options.shared_token_storage.as_ref().filter(|_| config.user_credentials.is_none());
    let oauth = match options.token_storage.as_ref().or(shared) {
        Some(storage) => OAuth::with_storage(config, storage.clone(), options.browser.clone())?,
        None => OAuth::of_server(config, options.data_folder.as_ref()?, options.browser.clone())?,
    };
    match oauth {
        Ok(oauth) => Some(Arc::new(oauth)),
        Err(error) => {
            tracing::warn!(target: "toolwire::hub", server = %config.name, "{error}");
            None
        }
    }
}
