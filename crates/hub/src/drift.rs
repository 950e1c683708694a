//! Compares the tools of the hub's servers with their pins, to detect definitions that a server has swapped.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use crate::catalog::Catalog;
use crate::config::{ServerConfig, ServerName};
use crate::pins::{Drift, DriftKind, Pins, ServerId};
use crate::sync::lock;

/// The time to collect new definitions before they are saved together: servers connect at about the same
/// time.
const SAVE_DELAY: Duration = Duration::from_millis(50);

/// The pins of the hub's servers, and the differences of their current tools.
pub(crate) struct DriftMonitor {
    ids: HashMap<ServerName, ServerId>,
    /// The reason why the stored pins could not be read. They are replaced.
    pub(crate) read_error: Option<String>,
    state: Mutex<DriftState>,
    /// Notified when there may be something to save.
    changed: Notify,
    /// Held while pins are saved, so that a second save waits for the first one.
    saving: Mutex<()>,
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
    ) -> DriftMonitor {
        let mut read_error = None;
        let pins = folder.map(|folder| {
            let path = folder.join("pins.json");
            let (pins, error) = Pins::open(&path);
            read_error = error.map(|error| {
                format!("cannot read the pinned tool definitions in `{}`: {error}", path.display())
            });
            pins
        });
        if let Some(error) = &read_error {
            tracing::warn!(target: "toolwire::hub", "{error}; changes since then are not detected");
        }
        DriftMonitor {
            ids: servers.map(|server| (server.name.clone(), ServerId::of(server))).collect(),
            read_error,
            state: Mutex::new(DriftState { pins, checked: HashMap::new() }),
            changed: Notify::new(),
            saving: Mutex::default(),
        }
    }

    /// Returns the pinned tools of a server; `None` if the server was never seen.
    pub(crate) fn known_tools(&self, server: &ServerName) -> Option<Vec<String>> {
        let state = self.state();
        let (pins, id) = (state.pins.as_ref()?, self.ids.get(server)?);
        pins.has_server(id).then(|| pins.tools(id).map(str::to_owned).collect())
    }

    /// Compares a new list of tools with the pins. New tools are saved later, by
    /// [`save_changes`](DriftMonitor::save_changes) or [`save`](DriftMonitor::save).
    pub(crate) fn check(&self, server: &ServerName, catalog: &Arc<Catalog>) {
        let mut state = self.state();
        let DriftState { pins: Some(pins), checked } = &mut *state else { return };
        let Some(id) = self.ids.get(server) else { return };
        if checked.get(server).is_some_and(|(last, _)| last.as_ptr() == Arc::as_ptr(catalog)) {
            return;
        }
        // All tools of a new server are new, which is not worth reporting.
        let drifts = if pins.has_server(id) { pins.compare(id, &catalog.tools) } else { Vec::new() };
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
        checked.insert(server.clone(), (Arc::downgrade(catalog), drifts));
        self.changed.notify_one();
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

    /// Saves changes. Blocks, but not the other methods.
    pub(crate) fn save(&self) {
        let _saving = lock(&self.saving);
        let unsaved = self.state().pins.as_mut().and_then(Pins::take_unsaved);
        let Some(unsaved) = unsaved else { return };
        let written = unsaved.write();
        if let Some(Err(error)) = self.state().pins.as_mut().map(|pins| pins.finish_saving(written)) {
            tracing::warn!(target: "toolwire::hub", "cannot save the pinned tool definitions: {error}");
        }
    }

    /// Returns the differences of a server's current tools from their pins.
    pub(crate) fn drifts(&self, server: &ServerName) -> Vec<Drift> {
        self.state().checked.get(server).map_or_else(Vec::new, |(_, drifts)| drifts.clone())
    }

    /// Pins the current tools of all servers.
    pub(crate) fn accept(&self) -> io::Result<()> {
        let _saving = lock(&self.saving);
        let mut state = self.state();
        let DriftState { pins: Some(pins), checked } = &mut *state else { return Ok(()) };
        for (server, (catalog, drifts)) in checked {
            if let (Some(catalog), Some(id)) = (catalog.upgrade(), self.ids.get(server)) {
                pins.accept(id, &catalog.tools);
                drifts.clear();
            }
        }
        pins.save()
    }

    fn state(&self) -> MutexGuard<'_, DriftState> {
        lock(&self.state)
    }
}
