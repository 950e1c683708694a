//! What the hub remembers of its servers' tools: definitions that change behind a person's back are a known attack.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Weak};

use crate::catalog::Catalog;
use crate::config::ServerConfig;
use crate::pins::{Drift, DriftKind, Pins, ServerId};

/// Known definitions, and how those of now differ from them.
pub(crate) struct Memory {
    pins: Option<Pins>,
    /// By server: the list that was looked at last, and what was found.
    seen: HashMap<ServerId, (Weak<Catalog>, Vec<Drift>)>,
}

impl Memory {
    pub(crate) fn open(folder: Option<&Path>) -> Memory {
        let pins = folder.map(|folder| {
            let (pins, error) = Pins::open(folder.join("pins.json"));
            if let Some(error) = error {
                tracing::warn!(target: "toolwire::hub", "the known definitions cannot be read: {error}");
            }
            pins
        });
        Memory { pins, seen: HashMap::new() }
    }

    /// Whether the server was there in an earlier life of the hub.
    pub(crate) fn knows(&self, server: &ServerConfig) -> bool {
        self.pins.as_ref().is_some_and(|pins| pins.knows(&ServerId::of(server)))
    }

    /// The tools that a server was seen to have.
    pub(crate) fn tools(&self, server: &ServerConfig) -> Vec<&str> {
        let server = ServerId::of(server);
        self.pins.iter().flat_map(|pins| pins.tools(&server)).collect()
    }

    /// Compares a list with what is known, once.
    pub(crate) fn see(&mut self, server: &ServerConfig, catalog: &Arc<Catalog>) {
        let Some(pins) = &mut self.pins else { return };
        let server = ServerId::of(server);
        if self.seen.get(&server).is_some_and(|(last, _)| last.as_ptr() == Arc::as_ptr(catalog)) {
            return;
        }
        // All tools of a server that was never seen are new, which is no news.
        let drifts = if pins.knows(&server) { pins.compare(&server, &catalog.tools) } else { Vec::new() };
        for drift in &drifts {
            if let DriftKind::Changed(parts) = &drift.kind {
                tracing::warn!(target: "toolwire::hub::status", server = server.name, tool = drift.tool, ?parts, "its definition changed");
            }
        }
        pins.see(&server, &catalog.tools);
        if let Err(error) = pins.save() {
            tracing::warn!(target: "toolwire::hub", "the known definitions cannot be kept: {error}");
        }
        self.seen.insert(server, (Arc::downgrade(catalog), drifts));
    }

    /// What is not as it was when it was first seen or last accepted.
    pub(crate) fn drifts(&self, server: &ServerConfig) -> Vec<Drift> {
        self.seen.get(&ServerId::of(server)).map_or_else(Vec::new, |(_, drifts)| drifts.clone())
    }

    /// Makes the lists that were looked at last the ones to compare with.
    pub(crate) fn accept(&mut self) -> io::Result<()> {
        let Some(pins) = &mut self.pins else { return Ok(()) };
        for (server, (catalog, drifts)) in &mut self.seen {
            if let Some(catalog) = catalog.upgrade() {
                pins.accept(server, &catalog.tools);
                drifts.clear();
            }
        }
        pins.save()
    }
}
