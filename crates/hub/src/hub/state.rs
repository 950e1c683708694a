//! The state that a hub shares with its background tasks.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use tokio::sync::watch;
use toolwire_contract::Tool;

use crate::auth::TokenProvider;
use crate::catalog::Catalog;
use crate::config::{ServerConfig, ServerName};
use crate::drift::DriftMonitor;
use crate::result_limiter::ResultLimiter;
use crate::route::{Route, Routes, ServerTools, ToolHistory};
use crate::supervise::{Phase, Server};
use crate::sync::lock;

pub(super) struct HubState {
    pub(super) servers: Vec<Arc<Server>>,
    /// Servers that are disabled or not selected. Names of tools depend on them, too.
    pub(super) unconnected: Vec<ServerConfig>,
    /// Servers that were never connected before, so their tools are not known yet.
    pub(super) never_seen: HashSet<ServerName>,
    /// Whether every server has been ready or failed once.
    pub(super) has_settled: AtomicBool,
    pub(super) token_providers: Vec<Arc<dyn TokenProvider>>,
    pub(super) tool_history: Mutex<ToolHistory>,
    /// The catalogs that the current routes were built from, one per server.
    pub(super) built_from: Mutex<Option<Vec<Weak<Catalog>>>>,
    pub(super) routes: RwLock<Arc<Routes>>,
    /// Counts the changes of the tool list.
    pub(super) version: watch::Sender<u64>,
    pub(super) drift_monitor: Arc<DriftMonitor>,
    pub(super) results: ResultLimiter,
}

impl HubState {
    pub(super) fn routes(&self) -> Arc<Routes> {
        self.routes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn server(&self, name: &str) -> Option<&Arc<Server>> {
        self.servers.iter().find(|server| server.config.name.as_str() == name)
    }

    /// Whether a server that has never been seen and is still connecting may have a tool of the same name.
    pub(super) fn may_conflict(&self, route: &Route) -> bool {
        if self.has_settled.load(Ordering::Relaxed) || self.never_seen.is_empty() {
            return false;
        }
        let mut servers = self.servers.iter();
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
        let catalogs: Vec<(&Arc<Server>, Option<Arc<Catalog>>)> = self
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
        let unconnected = self.unconnected.iter().map(|server| ServerTools { server, tools: None });
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
