//! Many servers as one toolbox.

mod foreign_tasks;
mod launcher;
mod offers;
mod options;
mod state;
mod toolbox;

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::future::join_all;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::task::JoinHandle;
use toolwire_contract::offers::OfferChange;
use toolwire_contract::toolbox::{CallError, MissingServer, Toolbox};
use toolwire_contract::{Tool, ToolResult};
use toolwire_dialect::{Dialect, Options, Toolset};

use crate::config::Config;
use crate::drift::DriftMonitor;
use crate::pins::{DefinitionChange, PinPolicy};
use crate::result_limiter::ResultLimiter;
use crate::result_store::is_truncated;
use crate::route::{Route, Routes, ServerTools, ToolHistory};
use crate::status::{Phase, ServerStatus};
use crate::supervise::Server;
use crate::sync::lock;
pub(crate) use foreign_tasks::name_task;
use launcher::Launcher;
pub use options::HubOptions;
use state::HubState;

/// The maximum time that a call waits for servers that have never been seen, because they may have a tool of
/// the same name.
const NEVER_SEEN_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum time that closing waits for all servers together.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(15);

/// The number of changes of prompts and resources that a slow receiver can miss.
const OFFER_CHANGES_LENGTH: usize = 256;

/// Many servers as one toolbox. Dropping it stops the servers; [`Hub::close`] also waits for their end.
pub struct Hub {
    state: Arc<HubState>,
    /// `None` after the hub was closed.
    launcher: Mutex<Option<Launcher>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    /// Saves changed tool definitions.
    drift_task: JoinHandle<()>,
    offer_changes: broadcast::Sender<OfferChange>,
}

impl Hub {
    /// Connects to all servers concurrently, and returns when each of them is ready or has failed once. A
    /// failed server has a status with a reason, and is retried in the background.
    pub async fn connect(config: &Config, options: HubOptions) -> Hub {
        let hub = Hub::start(config, options);
        hub.settled().await;
        hub
    }

    /// Starts connecting to all servers without waiting for them. Tools appear as their servers become ready.
    pub fn start(config: &Config, options: HubOptions) -> Hub {
        let (changed, mut server_changes) = mpsc::channel(1);
        let status_version = watch::Sender::new(0);
        let (data_folder, policy, result_budget) =
            (options.data_folder.clone(), options.pin_policy, options.result_budget);
        let offer_changes = broadcast::Sender::new(OFFER_CHANGES_LENGTH);
        let launcher = Launcher::new(options, changed, status_version.clone(), offer_changes.clone());
        let mut tasks = Vec::new();
        let server_set = launcher.server_set(config, &[], &mut tasks);
        let drift_monitor =
            Arc::new(DriftMonitor::open(data_folder.as_deref(), server_set.configured(), policy));
        let drift_task = tokio::spawn(drift_monitor.clone().save_changes());
        let results = ResultLimiter::new(result_budget, data_folder.as_deref());
        let state = Arc::new(HubState::new(server_set, drift_monitor, results, status_version));
        let weak_state = Arc::downgrade(&state);
        tasks.push(tokio::spawn(async move {
            while server_changes.recv().await.is_some() {
                let Some(state) = weak_state.upgrade() else { break };
                state.refresh_tools();
            }
        }));
        let (launcher, tasks) = (Mutex::new(Some(launcher)), Mutex::new(tasks));
        Hub { state, launcher, tasks, drift_task, offer_changes }
    }

    /// Uses another configuration from now on. Servers that are configured as before keep running; the others
    /// are started, or stopped without waiting for their end. Has no effect after the hub was closed.
    pub async fn reconfigure(&self, config: &Config) {
        let (before, after) = {
            let launcher = lock(&self.launcher);
            let Some(launcher) = launcher.as_ref() else { return };
            let before = self.state.server_set();
            let mut tasks = lock(&self.tasks);
            tasks.retain(|task| !task.is_finished());
            let server_set = launcher.server_set(config, &before.servers, &mut tasks);
            self.state.replace_servers(server_set);
            (before, self.state.server_set())
        };
        let is_kept = |server: &Arc<Server>| after.servers.iter().any(|kept| Arc::ptr_eq(kept, server));
        let removed = before.servers.iter().filter(|server| !is_kept(server));
        let stopping = removed.map(|server| async {
            server.stop().await;
            if let Some(token_provider) = &server.token_provider {
                token_provider.close().await;
            }
        });
        join_all(stopping).await;
    }

    /// Returns the server of a listed tool name, as remembered in the data folder; it may be disabled now.
    /// Returns `None` if the name is unknown, or if an enabled server was never started: one of its tools may
    /// have the same name, unless the server of the tool has a prefix.
    pub fn remembered_server(config: &Config, data_folder: &Path, tool: &str) -> Option<String> {
        let drift_monitor = DriftMonitor::open(Some(data_folder), config.servers.iter(), PinPolicy::Warn);
        let mut history = ToolHistory::default();
        let mut has_unseen_server = false;
        for server in &config.servers {
            match drift_monitor.known_tools(&server.name) {
                Some(tools) => history.add(&server.name, tools.iter().map(String::as_str)),
                None => has_unseen_server |= !server.disabled,
            }
        }
        let servers: Vec<ServerTools<'_>> =
            config.servers.iter().map(|server| ServerTools { server, tools: None }).collect();
        let routes = Routes::build(&servers, [], &mut history);
        let owner = config.server(routes.lookup(tool)?.server.as_str())?;
        (owner.disabled || owner.prefix.is_some() || !has_unseen_server).then(|| owner.name.to_string())
    }

    /// Waits until every server is ready or has failed at least once.
    pub async fn settled(&self) {
        self.wait_for(|_| true).await;
        self.state.has_settled.store(true, Ordering::Relaxed);
    }

    /// Waits until each of these servers is ready or has failed at least once, and lists their tools.
    async fn wait_for(&self, is_awaited: impl Fn(&Server) -> bool) {
        let server_set = self.state.server_set();
        let awaited = server_set.servers.iter().filter(|server| is_awaited(server));
        let waiting = awaited.map(|server| async {
            let _ = server.watch().wait_for(|snapshot| snapshot.phase != Phase::Connecting).await;
        });
        join_all(waiting).await;
        self.state.refresh_tools();
    }

    /// Returns the status of each server, in the order of the configuration.
    pub fn status(&self) -> Vec<ServerStatus> {
        let server_set = self.state.server_set();
        let servers = server_set.servers.iter();
        servers.map(|server| server.status(self.state.drift_monitor.drifts(&server.config.name))).collect()
    }

    /// Returns the reason why the pinned tool definitions cannot be read. Until the user accepts the current
    /// ones, changed definitions are not detected.
    pub fn pins_problem(&self) -> Option<String> {
        self.state.drift_monitor.problem()
    }

    pub fn pin_policy(&self) -> PinPolicy {
        self.state.drift_monitor.policy
    }

    /// Accepts the changed tool definitions that [`status`](Hub::status) reports, if `accepts` selects them
    /// by server and tool. Later definitions are compared with them. The error kind is `InvalidInput` if the
    /// pins cannot be read and not all tools of all servers are selected.
    pub fn accept_changes(&self, accepts: impl Fn(&str, &str) -> bool) -> io::Result<()> {
        let has_all_servers = self.state.server_set().unconnected.iter().all(|server| server.disabled);
        let accepted = self.state.drift_monitor.accept(has_all_servers, accepts);
        // Tools that were blocked are offered now.
        self.state.rebuild_tools();
        self.state.status_changed();
        accepted
    }

    /// Blocks a tool of a server while its definition differs from the accepted one, with any pin policy.
    /// Returns whether there is an accepted definition.
    pub fn block_tool(&self, server: &str, tool: &str) -> io::Result<bool> {
        let Some(found) = self.state.server(server) else { return Ok(false) };
        let result = self.state.drift_monitor.block_tool(&found.config.name, tool);
        self.state.rebuild_tools();
        self.state.status_changed();
        result
    }

    /// Returns the places where the definition of a server's tool differs from the accepted one. `None` if
    /// that is unknown: only a hash is stored of definitions that are very long, or that were accepted with
    /// an older version.
    pub fn difference(&self, server: &str, tool: &str) -> Option<Vec<DefinitionChange>> {
        let server = self.state.server(server)?;
        let catalog = server.snapshot().catalog?;
        self.state.drift_monitor.difference(&server.config.name, catalog.tool(tool)?)
    }

    /// Offers `read_result` if one of these results was truncated, by this hub or by an earlier one.
    /// Otherwise it is offered as soon as a result is truncated, and stays.
    pub fn offer_read_result<'a>(&self, results: impl IntoIterator<Item = &'a ToolResult>) {
        if results.into_iter().any(is_truncated) && self.state.results.record_truncated() {
            self.state.rebuild_tools();
        }
    }

    /// Returns the tools of one server under their listed names; `None` if this server is not configured.
    pub fn tools_of(&self, server: &str) -> Option<Vec<Tool>> {
        self.state.server(server)?;
        let routes = self.state.routes();
        let offered = routes.offered().filter(|(_, route)| route.server.as_str() == server);
        Some(offered.map(|(tool, _)| tool.clone()).collect())
    }

    /// Returns a tool as its server lists it, also if it is blocked.
    pub fn definition(&self, server: &str, tool: &str) -> Option<Tool> {
        self.state.server(server)?.snapshot().catalog?.tool(tool).cloned()
    }

    /// Returns all tools converted to a dialect, and what is needed to decode a model's arguments. The same
    /// tools always give the same bytes.
    pub fn get_tools(&self, dialect: Dialect, options: &Options) -> Toolset {
        Toolset::new(&self.tools(), dialect, options)
    }

    /// Returns the server of a listed tool, and that server's own name of the tool.
    pub fn origin(&self, tool: &str) -> Option<(String, String)> {
        let routes = self.state.routes();
        let route = routes.lookup(tool)?;
        Some((route.server.to_string(), route.tool.clone()))
    }

    /// Returns the listed name of a server's tool.
    pub fn offered_as(&self, server: &str, tool: &str) -> Option<String> {
        let routes = self.state.routes();
        let is_match = |route: &Route| route.server.as_str() == server && route.tool == tool;
        let (found, _) = routes.offered().find(|(_, route)| is_match(route))?;
        Some(found.name.clone())
    }

    /// Returns a counter that increases whenever the tool list changes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.state.version.subscribe()
    }

    /// Returns a counter that increases whenever the [`status`](Hub::status) of a server changes, apart from
    /// its calls and its output.
    pub fn status_changes(&self) -> watch::Receiver<u64> {
        self.state.status_version.subscribe()
    }

    /// Connects to a server immediately, even if it failed permanently. If it requires a login, a login page
    /// is opened, also shortly after a failed login.
    pub fn retry(&self, server: &str) {
        if let Some(server) = self.state.server(server) {
            server.retry();
        }
    }

    /// Ends the connection to a server and connects again. Calls that are in progress fail.
    pub fn restart(&self, server: &str) {
        if let Some(server) = self.state.server(server) {
            server.restart();
        }
    }

    /// Stops all servers and waits until their processes have ended.
    pub async fn close(&self) {
        drop(lock(&self.launcher).take());
        let server_set = self.state.server_set();
        join_all(server_set.servers.iter().map(|server| server.stop())).await;
        let tasks = std::mem::take(&mut *lock(&self.tasks));
        let aborts: Vec<_> = tasks.iter().map(|task| task.abort_handle()).collect();
        if tokio::time::timeout(CLOSE_TIMEOUT, join_all(tasks)).await.is_err() {
            aborts.iter().for_each(tokio::task::AbortHandle::abort);
        }
        // A running refresh may have used a refresh token that is valid only once.
        let token_providers = server_set.servers.iter().filter_map(|server| server.token_provider.as_ref());
        let token_providers = join_all(token_providers.map(|token_provider| token_provider.close()));
        if tokio::time::timeout(CLOSE_TIMEOUT, token_providers).await.is_err() {
            tracing::warn!(target: "toolwire::hub", "a token refresh did not finish before the hub was closed");
        }
        self.drift_task.abort();
        let drift_monitor = self.state.drift_monitor.clone();
        let _ = tokio::task::spawn_blocking(move || drift_monitor.save()).await;
    }

    fn unknown_tool(&self, tool: &str) -> CallError {
        let nearest = self.state.routes().nearest(tool);
        let missing = self.missing(Server::unavailable_reason);
        CallError::UnknownTool { tool: tool.to_owned(), nearest, missing }
    }

    fn missing(&self, reason: impl Fn(&Server) -> Option<String>) -> Vec<MissingServer> {
        let server_set = self.state.server_set();
        let servers = server_set.servers.iter();
        let missing = servers.filter_map(|server| {
            let is_starting = server.snapshot().phase == Phase::Connecting;
            Some(MissingServer {
                server: server.config.name.to_string(),
                reason: reason(server)?,
                is_starting,
            })
        });
        missing.collect()
    }

    /// Waits for servers that may have a tool of the same name, so that the start order of servers does not
    /// decide which tool is called.
    async fn resolve_conflict(&self, tool: &str, timeout: Option<Duration>) -> Result<Route, CallError> {
        let timeout = timeout.map_or(NEVER_SEEN_TIMEOUT, |timeout| timeout.min(NEVER_SEEN_TIMEOUT));
        if tokio::time::timeout(timeout, self.settled()).await.is_err() {
            // Otherwise each later call would start these servers and wait for them again.
            let connecting = |server: &&Arc<Server>| server.snapshot().phase == Phase::Connecting;
            for server in self.state.server_set().servers.iter().filter(connecting) {
                self.state.drift_monitor.add_without_tools(&server.config.name);
            }
        }
        let routes = self.state.routes();
        let found = routes.offered().find(|(offered, _)| offered.name == tool);
        found.map(|(_, route)| route.clone()).ok_or_else(|| self.unknown_tool(tool))
    }

    /// Waits for a tool that may belong to a server that is still connecting.
    async fn wait_for_tool(&self, tool: &str, timeout: Option<Duration>) -> Result<Route, CallError> {
        let find = || self.state.routes().lookup(tool).cloned();
        let connecting = |server: &&Arc<Server>| server.snapshot().phase == Phase::Connecting;
        let server_set = self.state.server_set();
        let timeouts =
            server_set.servers.iter().filter(connecting).map(|server| server.config.max_connect_time());
        let Some(max_wait) = timeouts.max() else {
            // A server that has just become ready may not be in the list yet.
            self.state.refresh_tools();
            return find().ok_or_else(|| self.unknown_tool(tool));
        };
        let until = Instant::now() + timeout.unwrap_or(max_wait).min(max_wait);
        let mut changes = self.changes();
        let offered = async {
            loop {
                changes.borrow_and_update();
                if let Some(route) = find() {
                    return route;
                }
                if changes.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        let found = tokio::time::timeout_at(until.into(), async {
            tokio::select! {
                route = offered => Some(route),
                () = self.settled() => None,
            }
        });
        let found = found.await.ok().flatten();
        found.or_else(find).ok_or_else(|| self.unknown_tool(tool))
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        for task in lock(&self.tasks).iter() {
            task.abort();
        }
        self.drift_task.abort();
        self.state.drift_monitor.save();
    }
}
