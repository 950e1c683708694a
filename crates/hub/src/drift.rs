//! Compares the tools of the hub's servers with their pins, to detect definitions that a server has changed.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::mem;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use toolwire_contract::Tool;

use crate::catalog::Catalog;
use crate::config::{ServerConfig, ServerName};
use crate::pins::{DefinitionChange, Drift, DriftKind, PinPolicy, Pins, ServerId};
use crate::sync::lock;

/// The time to collect new definitions before they are saved together: servers connect at about the same
/// time.
const SAVE_DELAY: Duration = Duration::from_millis(50);

/// The pins of the hub's servers, and the differences of their current tools.
pub(crate) struct DriftMonitor {
    ids: Mutex<HashMap<ServerName, ServerId>>,
    pub(crate) policy: PinPolicy,
    state: Mutex<DriftState>,
    /// Notified when there may be something to save.
    changed: Notify,
    /// Held while pins are saved, so that a second save waits for the first one. The value: whether the last
    /// failure was reported.
    saving: Mutex<bool>,
}

struct DriftState {
    /// `None` if pins are not stored.
    pins: Option<Pins>,
    /// The last list of each server, and its differences.
    checked: HashMap<ServerName, (Weak<Catalog>, Vec<Drift>)>,
}

impl DriftMonitor {
    pub(crate) fn open<'a>(
        folder: Option<&Path>,
        servers: impl Iterator<Item = &'a ServerConfig>,
        policy: PinPolicy,
    ) -> DriftMonitor {
        let pins = folder.map(|folder| Pins::open(folder.join("pins.json")));
        let ids = servers.map(|server| (server.name.clone(), ServerId::of(server))).collect();
        DriftMonitor {
            ids: Mutex::new(ids),
            policy,
            state: Mutex::new(DriftState { pins, checked: HashMap::new() }),
            changed: Notify::new(),
            saving: Mutex::default(),
        }
    }

    /// Adds a server, or replaces it by another one with the same name.
    pub(crate) fn add_server(&self, server: &ServerConfig) {
        lock(&self.ids).insert(server.name.clone(), ServerId::of(server));
    }

    fn id(&self, server: &ServerName) -> Option<ServerId> {
        lock(&self.ids).get(server).cloned()
    }

    /// Returns the reason why the pins cannot be read.
    pub(crate) fn problem(&self) -> Option<String> {
        Some(self.state().pins.as_ref()?.problem()?.to_owned())
    }

    /// Returns the pinned tools of a server; `None` if the server has never been seen.
    pub(crate) fn known_tools(&self, server: &ServerName) -> Option<Vec<String>> {
        let state = self.state();
        let (pins, id) = (state.pins.as_ref()?, self.id(server)?);
        pins.has_server(&id).then(|| pins.tools(&id).map(str::to_owned).collect())
    }

    /// Returns the tools of a list that are not blocked.
    pub(crate) fn offered<'c>(&self, server: &ServerName, catalog: &'c Arc<Catalog>) -> Cow<'c, [Tool]> {
        let blocked = self.check(server, catalog).into_iter().filter(|drift| drift.is_blocked);
        let blocked: Vec<String> = blocked.map(|drift| drift.tool).collect();
        if blocked.is_empty() {
            return Cow::Borrowed(&catalog.tools);
        }
        catalog.tools.iter().filter(|tool| !blocked.contains(&tool.name)).cloned().collect()
    }

    /// Returns the reason why a tool of a list must not be called.
    pub(crate) fn block_reason(
        &self,
        server: &ServerName,
        catalog: &Arc<Catalog>,
        tool: &str,
    ) -> Option<DriftKind> {
        let blocked = |drift: &&Drift| drift.is_blocked && drift.tool == tool;
        if let Some((last, drifts)) = self.state().checked.get(server)
            && last.as_ptr() == Arc::as_ptr(catalog)
        {
            return drifts.iter().find(blocked).map(|drift| drift.kind.clone());
        }
        // The list may be newer or older than the tools that the hub offers.
        self.check(server, catalog).iter().find(blocked).map(|drift| drift.kind.clone())
    }

    /// Records a server that failed or took too long before its tools were ever listed, as one without
    /// tools. Otherwise it would be started for the calls of all other tools.
    pub(crate) fn add_without_tools(&self, server: &ServerName) {
        let mut state = self.state();
        if let (Some(pins), Some(id)) = (&mut state.pins, self.id(server))
            && !pins.has_server(&id)
        {
            pins.add_new(&id, &[]);
            self.changed.notify_one();
        }
    }

    /// Compares a new list of tools with the pins, and returns its differences. New tools are saved later, by
    /// [`save_changes`](DriftMonitor::save_changes) or [`save`](DriftMonitor::save).
    fn check(&self, server: &ServerName, catalog: &Arc<Catalog>) -> Vec<Drift> {
        let mut state = self.state();
        let DriftState { pins: Some(pins), checked } = &mut *state else { return Vec::new() };
        let Some(id) = &self.id(server) else { return Vec::new() };
        if let Some((last, drifts)) = checked.get(server)
            && last.as_ptr() == Arc::as_ptr(catalog)
        {
            return drifts.clone();
        }
        let drifts = self.compare(pins, id, &catalog.tools);
        for drift in &drifts {
            if let DriftKind::Changed(parts) = &drift.kind {
                tracing::warn!(
                    target: "toolwire::hub::status",
                    server = id.name,
                    tool = drift.tool,
                    ?parts,
                    "the definition of a tool changed"
                );
            }
        }
        pins.add_new(id, &catalog.tools);
        checked.insert(server.clone(), (Arc::downgrade(catalog), drifts.clone()));
        self.changed.notify_one();
        drifts
    }

    fn compare(&self, pins: &Pins, server: &ServerId, tools: &[Tool]) -> Vec<Drift> {
        let blocks = self.policy == PinPolicy::Block;
        if pins.problem().is_some() {
            let names: BTreeSet<&str> =
                tools.iter().filter(|_| blocks).map(|tool| tool.name.as_str()).collect();
            let unknown =
                |tool: &str| Drift { tool: tool.to_owned(), kind: DriftKind::Unknown, is_blocked: true };
            return names.into_iter().map(unknown).collect();
        }
        // All tools of a new server are new, which is not worth reporting.
        let mut drifts = if pins.has_server(server) { pins.compare(server, tools) } else { Vec::new() };
        for drift in &mut drifts {
            drift.is_blocked |= blocks && matches!(drift.kind, DriftKind::Changed(_));
        }
        drifts
    }

    /// Saves changes shortly after they occur; never returns.
    pub(crate) async fn save_changes(self: Arc<DriftMonitor>) {
        loop {
            self.changed.notified().await;
            tokio::time::sleep(SAVE_DELAY).await;
            let monitor = self.clone();
            let _ = tokio::task::spawn_blocking(move || monitor.save()).await;
        }
    }

    /// Saves changes. Blocks, but the other methods do not wait for it.
    pub(crate) fn save(&self) {
        let mut has_reported = lock(&self.saving);
        let unsaved = self.state().pins.as_mut().and_then(Pins::take_unsaved);
        let Some(unsaved) = unsaved else { return };
        let written = unsaved.write();
        if let Some(Err(error)) = self.state().pins.as_mut().map(|pins| pins.finish_saving(written))
            && !mem::replace(&mut *has_reported, true)
        {
            tracing::warn!(target: "toolwire::hub", "cannot save the pinned tool definitions: {error}");
        }
    }

    /// Blocks a tool while its definition differs from its pin. Returns whether the tool has a pin.
    pub(crate) fn block_tool(&self, server: &ServerName, tool: &str) -> io::Result<bool> {
        let _saving = lock(&self.saving);
        let mut state = self.state();
        let DriftState { pins: Some(pins), checked } = &mut *state else { return Ok(false) };
        let Some(id) = &self.id(server) else { return Ok(false) };
        if !pins.block_tool(id, tool) {
            return Ok(false);
        }
        if let Some((catalog, drifts)) = checked.get_mut(server)
            && let Some(catalog) = catalog.upgrade()
        {
            *drifts = self.compare(pins, id, &catalog.tools);
        }
        pins.save()?;
        Ok(true)
    }

    /// Returns the differences of a server's current tools from their pins.
    pub(crate) fn drifts(&self, server: &ServerName) -> Vec<Drift> {
        self.state().checked.get(server).map_or_else(Vec::new, |(_, drifts)| drifts.clone())
    }

    /// Returns the places where a tool differs from its pinned definition; `None` if that is unknown.
    pub(crate) fn difference(&self, server: &ServerName, tool: &Tool) -> Option<Vec<DefinitionChange>> {
        self.state().pins.as_ref()?.difference(&self.id(server)?, tool)
    }

    /// Pins the current definitions of the tools that `accepts` selects by server and name. If the pins
    /// cannot be read, it must select all tools of all servers, because none is blocked afterwards.
    pub(crate) fn accept(
        &self,
        has_all_servers: bool,
        accepts: impl Fn(&str, &str) -> bool,
    ) -> io::Result<()> {
        let _saving = lock(&self.saving);
        let mut state = self.state();
        let DriftState { pins: Some(pins), checked } = &mut *state else { return Ok(()) };
        let is_accepted = |(server, (catalog, _)): (&ServerName, &(Weak<Catalog>, _))| {
            let tools = catalog.upgrade();
            tools.iter().flat_map(|catalog| &catalog.tools).all(|tool| accepts(server.as_str(), &tool.name))
        };
        if pins.problem().is_some() && !(has_all_servers && checked.iter().all(is_accepted)) {
            let reason = "the pins cannot be read, so all tools must be accepted together";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        for (server, (catalog, drifts)) in checked {
            if let (Some(catalog), Some(id)) = (catalog.upgrade(), self.id(server)) {
                pins.accept(&id, &catalog.tools, |tool| accepts(server.as_str(), tool));
                *drifts = self.compare(pins, &id, &catalog.tools);
            }
        }
        pins.save()
    }

    fn state(&self) -> MutexGuard<'_, DriftState> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::Transport;
    use crate::session::ToolListing;

    fn catalog(description: &str) -> Arc<Catalog> {
        let tool =
            |name: &str| json!({"name": name, "description": description, "inputSchema": {"type": "object"}});
        let tools = vec![tool("a"), tool("b")];
        Arc::new(Catalog::new(ToolListing { tools, ..ToolListing::default() }))
    }

    fn monitor(folder: &Path) -> (DriftMonitor, ServerName) {
        let name = ServerName::new("s").expect("a valid name");
        let command = "c".to_owned();
        let transport = Transport::Stdio { command, args: Vec::new(), env: Vec::new(), cwd: None };
        let server = ServerConfig::new(name.clone(), transport);
        (DriftMonitor::open(Some(folder), [server].iter(), PinPolicy::Block), name)
    }

    #[test]
    fn a_refresh_with_an_older_list_does_not_unblock_a_tool() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (monitor, server) = monitor(folder.path());
        let (older, newer) = (catalog("before"), catalog("after"));
        assert_eq!(monitor.offered(&server, &older).len(), 2);
        std::thread::scope(|scope| {
            let calls =
                scope.spawn(|| (0..5000).all(|_| monitor.block_reason(&server, &newer, "a").is_some()));
            while !calls.is_finished() {
                monitor.offered(&server, &older);
            }
            assert!(calls.join().expect("no panic"), "a changed tool was not blocked");
        });
    }

    #[test]
    fn without_readable_pins_all_tools_are_accepted_together() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("pins.json"), "{").expect("written");
        let (monitor, server) = monitor(folder.path());
        let tools = catalog("x");
        let is_blocked = || monitor.block_reason(&server, &tools, "b").is_some();
        assert!(is_blocked());
        for (has_all_servers, accepted) in [(true, "a"), (false, "")] {
            let error = monitor.accept(has_all_servers, |_, tool| tool.starts_with(accepted));
            assert_eq!(error.map_err(|error| error.kind()), Err(io::ErrorKind::InvalidInput));
            assert!(is_blocked());
        }
        monitor.accept(true, |_, _| true).expect("saved");
        assert!(!is_blocked());
    }
}
