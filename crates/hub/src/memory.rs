//! What the hub remembers of its servers' tools: definitions that change behind a person's back are a known attack.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Weak};

use crate::catalog::Catalog;
use crate::pins::{Drift, DriftKind, Pins};

/// Known definitions, and how those of now differ from them.
pub(crate) struct Memory {
    pins: Option<Pins>,
    /// By server: the list that was looked at last, and what was found.
    seen: HashMap<String, (Weak<Catalog>, Vec<Drift>)>,
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

    /// The tools that a server was last seen to have.
    pub(crate) fn tools(&self, server: &str) -> impl Iterator<Item = &str> {
        self.pins.iter().flat_map(move |pins| pins.tools(server))
    }

    /// Compares a list with the one before, once.
    pub(crate) fn see(&mut self, server: &str, catalog: &Arc<Catalog>) {
        let Some(pins) = &mut self.pins else { return };
        if self.seen.get(server).is_some_and(|(last, _)| last.as_ptr() == Arc::as_ptr(catalog)) {
            return;
        }
        // All tools of a server that was never seen are new, which is no news.
        let drifts = if pins.knows(server) { pins.compare(server, &catalog.tools) } else { Vec::new() };
        for drift in &drifts {
            if let DriftKind::Changed(parts) = &drift.kind {
                tracing::warn!(target: "toolwire::hub", server, tool = drift.tool, ?parts, "its definition changed");
            }
        }
        pins.accept(server, &catalog.tools);
        if let Err(error) = pins.save() {
            tracing::warn!(target: "toolwire::hub", "the known definitions cannot be kept: {error}");
        }
        self.seen.insert(server.to_owned(), (Arc::downgrade(catalog), drifts));
    }

    /// What is not as it was when the server was last seen.
    pub(crate) fn drifts(&self, server: &str) -> Vec<Drift> {
        self.seen.get(server).map_or_else(Vec::new, |(_, drifts)| drifts.clone())
    }
}
