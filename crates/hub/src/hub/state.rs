//! The state that a hub shares with its background tasks.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use tokio::sync::watch;
use toolwire_contract::Tool;

use crate::catalog::Catalog;
use crate::config::{ServerConfig, ServerName};
use crate::drift::DriftMonitor;
use crate::result_limiter::ResultLimiter;
use crate::route::{Route, Routes, ServerTools, ToolHistory};
use crate::status::Phase;
use crate::supervise::Server;
use crate::sync::lock;

pub(super) struct HubState {
    server_set: RwLock<Arc<ServerSet>>,
    /// Servers that were never connected before, so their tools are not known yet.
    pub(super) never_seen: HashSet<ServerName>,
    /// Whether every server has been ready or failed once.
    pub(super) has_settled: AtomicBool,
    pub(super) tool_history: Mutex<ToolHistory>,
    /// The catalogs that the current routes were built from, one per server.
    pub(super) built_from: Mutex<Option<Vec<Weak<Catalog>>>>,
    pub(super) routes: RwLock<Arc<Routes>>,
    /// Counts the changes of the tool list.
    pub(super) version: watch::Sender<u64>,
    /// Counts the changes of the status of servers.
    pub(super) status_version: watch::Sender<u64>,
    pub(super) drift_monitor: Arc<DriftMonitor>,
    pub(super) results: ResultLimiter,
}

/// The configured servers.
pub(super) struct ServerSet {
    pub(super) servers: Vec<Arc<Server>>,
    /// Servers that are disabled or not selected. Names of tools depend on them, too.
    pub(super) unconnected: Vec<ServerConfig>,
}

impl HubState {
    pub(super) fn new(
        server_set: ServerSet,
        drift_monitor: Arc<DriftMonitor>,
        results: ResultLimiter,
        status_version: watch::Sender<u64>,
    ) -> HubState {
        let state = HubState {
            server_set: RwLock::new(Arc::new(server_set)),
            never_seen: HashSet::new(),
            has_settled: AtomicBool::new(false),
            tool_history: Mutex::default(),
            built_from: Mutex::default(),
            routes: RwLock::default(),
            version: watch::Sender::new(0),
            status_version,
            drift_monitor,
            results,
        };
        let never_seen = state.remember_tools();
        HubState { never_seen, ..state }
    }

    pub(super) fn server_set(&self) -> Arc<ServerSet> {
        self.server_set.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the configured servers.
    pub(super) fn replace_servers(&self, server_set: ServerSet) {
        for server in server_set.configured() {
            self.drift_monitor.add_server(server);
        }
        *self.server_set.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(server_set);
        self.remember_tools();
        self.rebuild_tools();
        self.status_changed();
    }

    pub(super) fn status_changed(&self) {
        self.status_version.send_modify(|version| *version += 1);
    }

    /// Adds the pinned tools of each server to the history, on which names depend. Returns the servers
    /// that were never connected.
    fn remember_tools(&self) -> HashSet<ServerName> {
        let mut tool_history = lock(&self.tool_history);
        let mut never_seen = HashSet::new();
        for server in self.server_set().configured() {
            let tools = self.drift_monitor.known_tools(&server.name);
            if tools.is_none() {
                never_seen.insert(server.name.clone());
            }
            tool_history.add(&server.name, tools.iter().flatten().map(String::as_str));
        }
        never_seen
    }

    pub(super) fn routes(&self) -> Arc<Routes> {
        self.routes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn server(&self, name: &str) -> Option<Arc<Server>> {
        let server_set = self.server_set();
        server_set.servers.iter().find(|server| server.config.name.as_str() == name).cloned()
    }

    /// Whether a server that has never been seen and is still connecting may have a tool of the same name.
    pub(super) fn may_conflict(&self, route: &Route) -> bool {
        if self.has_settled.load(Ordering::Relaxed) || self.never_seen.is_empty() {
            return false;
        }
        let server_set = self.server_set();
        let mut servers = server_set.servers.iter();
        servers.clone().any(|server| server.config.name == route.server && server.config.prefix.is_none())
            && servers.any(|server| {
                server.config.name != route.server
                    && self.never_seen.contains(&server.config.name)
                    && server.snapshot.borrow().phase == Phase::Connecting
            })
    }

    /// Rebuilds the tool list, even if no server has changed.
    pub(super) fn rebuild_tools(&self) {
        *lock(&self.built_from) = None;
        self.refresh_tools();
    }

    /// Rebuilds the tool list from the current tools of each server, if one of them has changed.
    pub(super) fn refresh_tools(&self) {
        // Held until the end, so that an older list cannot replace a newer one.
        let mut built_from = lock(&self.built_from);
        let server_set = self.server_set();
        let catalogs: Vec<(&Arc<Server>, Option<Arc<Catalog>>)> = server_set
            .servers
            .iter()
            .map(|server| {
                let snapshot = server.snapshot();
                if snapshot.catalog.is_none()
                    && matches!(snapshot.phase, Phase::Recovering { .. } | Phase::Down { .. })
                {
                    self.drift_monitor.add_without_tools(&server.config.name);
                }
                // The tools of a recovering server stay in the list, so that prompt caches remain valid.
                let is_listed = matches!(snapshot.phase, Phase::Ready | Phase::Recovering { .. });
                (server, snapshot.catalog.filter(|_| is_listed))
            })
            .collect();
        let sources: Vec<Weak<Catalog>> = catalogs
            .iter()
            .map(|(_, catalog)| catalog.as_ref().map_or_else(Weak::new, Arc::downgrade))
            .collect();
        let is_unchanged = |before: &Vec<Weak<Catalog>>| {
            before.iter().zip(&sources).all(|(before, now)| Weak::ptr_eq(before, now))
        };
        if built_from.as_ref().is_some_and(is_unchanged) {
            return;
        }
        *built_from = Some(sources);
        let unconnected = server_set.unconnected.iter().map(|server| ServerTools { server, tools: None });
        let offered: Vec<(&ServerConfig, Option<Cow<'_, [Tool]>>)> = catalogs
            .iter()
            .map(|(server, catalog)| {
                let offered = |catalog| self.drift_monitor.offered(&server.config.name, catalog);
                (&server.config, catalog.as_ref().map(offered))
            })
            .collect();
        let servers: Vec<ServerTools<'_>> = offered
            .iter()
            .map(|(server, tools)| ServerTools { server, tools: tools.as_deref() })
            .chain(unconnected)
            .collect();
        let mut tool_history = lock(&self.tool_history);
        let routes = Routes::build(&servers, self.results.tool(), &mut tool_history);
        let is_changed = *self.routes().tools() != *routes.tools();
        *self.routes.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(routes);
        if is_changed {
            self.version.send_modify(|version| *version += 1);
        }
    }
}

impl ServerSet {
    pub(super) fn configured(&self) -> impl Iterator<Item = &ServerConfig> {
        self.servers.iter().map(|server| &server.config).chain(&self.unconnected)
    }
}
