//! What the hub remembers of its servers' tools: definitions that change behind a person's back are a known attack.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use crate::catalog::Catalog;
use crate::config::{ServerConfig, ServerName};
use crate::pins::{Drift, DriftKind, Pins, ServerId};

/// How long new definitions may come before they are written together: servers that connect do so all at once.
const GATHERING: Duration = Duration::from_millis(50);

/// Known definitions, and how those of now differ from them.
pub(crate) struct Memory {
    /// What each server is, by its name.
    ids: HashMap<ServerName, ServerId>,
    known: Mutex<Known>,
    /// Told when there is something to write.
    grown: Notify,
    /// Held while it is written: what one who saves finds taken is on disk when it comes back.
    saving: Mutex<()>,
}

struct Known {
    pins: Option<Pins>,
    /// By server: the list that was looked at last, and what was found.
    seen: HashMap<ServerName, (Weak<Catalog>, Vec<Drift>)>,
}

impl Memory {
    pub(crate) fn open<'a>(folder: Option<&Path>, servers: impl Iterator<Item = &'a ServerConfig>) -> Memory {
        let pins = folder.map(|folder| {
            let (pins, error) = Pins::open(folder.join("pins.json"));
            if let Some(error) = error {
                tracing::warn!(target: "toolwire::hub", "the known definitions cannot be read: {error}");
            }
            pins
        });
        Memory {
            ids: servers.map(|server| (server.name.clone(), ServerId::of(server))).collect(),
            known: Mutex::new(Known { pins, seen: HashMap::new() }),
            grown: Notify::new(),
            saving: Mutex::default(),
        }
    }

    /// The tools that a server was seen to have in an earlier life of the hub, if it was there.
    pub(crate) fn tools(&self, server: &ServerName) -> Option<Vec<String>> {
        let known = self.known();
        let (pins, id) = (known.pins.as_ref()?, self.ids.get(server)?);
        pins.knows(id).then(|| pins.tools(id).map(str::to_owned).collect())
    }

    /// Compares a list with what is known, once. What is new in it is written later, by [`Memory::keep`] or
    /// [`Memory::save`].
    pub(crate) fn see(&self, server: &ServerName, catalog: &Arc<Catalog>) {
        let mut known = self.known();
        let Known { pins: Some(pins), seen } = &mut *known else { return };
        let Some(id) = self.ids.get(server) else { return };
        if seen.get(server).is_some_and(|(last, _)| last.as_ptr() == Arc::as_ptr(catalog)) {
            return;
        }
        // All tools of a server that was never seen are new, which is no news.
        let drifts = if pins.knows(id) { pins.compare(id, &catalog.tools) } else { Vec::new() };
        for drift in &drifts {
            if let DriftKind::Changed(parts) = &drift.kind {
                tracing::warn!(target: "toolwire::hub::status", server = id.name, tool = drift.tool, ?parts, "its definition changed");
            }
        }
        pins.see(id, &catalog.tools);
        seen.insert(server.clone(), (Arc::downgrade(catalog), drifts));
        self.grown.notify_one();
    }

    /// Writes what is new whenever there is something, a moment later.
    pub(crate) async fn keep(self: Arc<Memory>) {
        loop {
            self.grown.notified().await;
            tokio::time::sleep(GATHERING).await;
            let memory = self.clone();
            let _ = tokio::task::spawn_blocking(move || memory.save()).await;
        }
    }

    /// Writes what is new. Blocks for a moment, and nobody who asks for what is known meanwhile.
    pub(crate) fn save(&self) {
        let _saving = self.saving();
        let unsaved = self.known().pins.as_mut().and_then(Pins::unsaved);
        let Some(unsaved) = unsaved else { return };
        let written = unsaved.write();
        if let Some(Err(error)) = self.known().pins.as_mut().map(|pins| pins.saved(written)) {
            tracing::warn!(target: "toolwire::hub", "the known definitions cannot be kept: {error}");
        }
    }

    /// What is not as it was when it was first seen or last accepted.
    pub(crate) fn drifts(&self, server: &ServerName) -> Vec<Drift> {
        self.known().seen.get(server).map_or_else(Vec::new, |(_, drifts)| drifts.clone())
    }

    /// Makes the lists that were looked at last the ones to compare with.
    pub(crate) fn accept(&self) -> io::Result<()> {
        let _saving = self.saving();
        let mut known = self.known();
        let Known { pins: Some(pins), seen } = &mut *known else { return Ok(()) };
        for (server, (catalog, drifts)) in seen {
            if let (Some(catalog), Some(id)) = (catalog.upgrade(), self.ids.get(server)) {
                pins.accept(id, &catalog.tools);
                drifts.clear();
            }
        }
        pins.save()
    }

    fn saving(&self) -> MutexGuard<'_, ()> {
        self.saving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
