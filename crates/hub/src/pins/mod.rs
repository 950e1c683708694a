//! Detects tools whose definition changed since it was first seen or last accepted.
//!
//! A server can change the description of a tool after the user approved it. A hash of each definition is
//! stored on disk, and `Pins::compare` reports what is new, changed or removed. `Pins::add_new` only stores
//! new tools: a change is reported until `Pins::accept` stores it, and a removed tool stays pinned in case it
//! returns with another definition. The text of each definition is stored, too, as far as it is not too long,
//! so that `Pins::difference` can show what changed.
//!
//! If the file cannot be read, a change cannot be detected. The file is not replaced until `Pins::accept`.

mod difference;
mod file;
mod tool_pin;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use toolwire_contract::Tool;

use crate::config::{ServerConfig, Transport};
pub use difference::DefinitionChange;
use file::{SavedPins, UnsavedPins, read};
pub use tool_pin::DefinitionPart;
use tool_pin::{PARTS, ToolPins, add_missing, hash, limit_texts, parts_of, pin_all};

/// A tool that differs from its pinned definition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drift {
    /// The tool's name on the server.
    pub tool: String,
    pub kind: DriftKind,
    /// Whether the tool is not offered until the user accepts its definition.
    pub is_blocked: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DriftKind {
    New,
    Changed(Vec<DefinitionPart>),
    Removed,
    /// The pins cannot be read, so it is unknown whether the tool changed. Only reported if it is blocked.
    Unknown,
}

/// The handling of a tool whose definition changed, until the user accepts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PinPolicy {
    /// It is offered, and the change is reported.
    #[default]
    Warn,
    /// It is not offered, and calls are rejected.
    Block,
}

/// The pinned definitions of all servers, and the file where they are stored.
#[derive(Debug)]
pub(crate) struct Pins {
    path: PathBuf,
    servers: BTreeMap<ServerId, Arc<ToolPins>>,
    /// Servers whose pins are not saved yet.
    unsaved: BTreeMap<ServerId, Update>,
    /// The reason why the file cannot be read.
    problem: Option<String>,
}

/// The name and the identity of a server: a different program with the same name is a different server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ServerId {
    pub(crate) name: String,
    /// The hash of its command, arguments and folder, or of its URL.
    identity: String,
}

/// The kind of change to a server's pins on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Update {
    /// Add the new tools.
    Add,
    /// Replace all pins, because the user decided about them.
    Replace,
}

impl Pins {
    /// Reads the file. If it is missing or unreadable there are no pins, so that the servers still start.
    pub(crate) fn open(path: impl Into<PathBuf>) -> Pins {
        let path = path.into();
        let (servers, problem) = match read(&path) {
            Ok(servers) => (servers, None),
            Err(error) => (BTreeMap::new(), Some(format!("cannot read `{}`: {error}", path.display()))),
        };
        Pins { path, servers, unsaved: BTreeMap::new(), problem }
    }

    /// Returns the reason why the file cannot be read. No change can be detected until the user accepts the
    /// current tools.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Whether the server was seen before.
    pub(crate) fn has_server(&self, server: &ServerId) -> bool {
        self.servers.contains_key(server)
    }

    /// Returns the names of the server's pinned tools.
    pub(crate) fn tools(&self, server: &ServerId) -> impl Iterator<Item = &str> {
        self.servers.get(server).into_iter().flat_map(|pins| pins.keys()).map(String::as_str)
    }

    /// Returns the differences from the pins, sorted by tool. Only the first tool of each name is compared.
    pub(crate) fn compare(&self, server: &ServerId, tools: &[Tool]) -> Vec<Drift> {
        let now = pin_all(tools);
        let nothing = ToolPins::new();
        let before = self.servers.get(server).map_or(&nothing, |pins| &**pins);
        let is_blocked_by_person =
            |tool: &String| before.get(tool).is_some_and(|pin| pin.is_blocked_by_person);
        let drift = |tool: &String, kind| {
            let is_blocked = matches!(kind, DriftKind::Changed(_)) && is_blocked_by_person(tool);
            Drift { tool: tool.clone(), kind, is_blocked }
        };
        let mut drifts: Vec<Drift> = Vec::new();
        for (tool, pin) in &now {
            match before.get(tool) {
                None => drifts.push(drift(tool, DriftKind::New)),
                Some(earlier) if earlier.hashes != pin.hashes => {
                    drifts.push(drift(tool, DriftKind::Changed(pin.changed_parts(earlier))));
                }
                Some(_) => {}
            }
        }
        let removed = before.keys().filter(|tool| !now.contains_key(*tool));
        drifts.extend(removed.map(|tool| drift(tool, DriftKind::Removed)));
        drifts.sort_by(|one, other| one.tool.cmp(&other.tool));
        drifts
    }

    /// Returns the places where a tool differs from its pinned definition. `None` if that is unknown, because
    /// only its hashes are stored.
    pub(crate) fn difference(&self, server: &ServerId, tool: &Tool) -> Option<Vec<DefinitionChange>> {
        let before = self.servers.get(server)?.get(&tool.name)?.parts()?;
        let now = parts_of(tool);
        let parts = PARTS.iter().zip(before.iter().zip(&now));
        let changes =
            parts.map(|((part, _), (before, now))| difference::compare(*part, before.as_ref(), now.as_ref()));
        Some(changes.flatten().collect())
    }

    /// Pins the tools that have no pin yet. Existing pins only get a missing text.
    pub(crate) fn add_new(&mut self, server: &ServerId, tools: &[Tool]) {
        if self.problem.is_some() {
            return;
        }
        let now = pin_all(tools);
        let is_new = !self.servers.contains_key(server);
        let known = self.servers.entry(server.clone()).or_default();
        if add_missing(Arc::make_mut(known), &now) || is_new {
            self.unsaved.entry(server.clone()).or_insert(Update::Add);
        }
    }

    /// Replaces the pins of the tools that `accepts` selects with the current definitions.
    pub(crate) fn accept(&mut self, server: &ServerId, tools: &[Tool], accepts: impl Fn(&str) -> bool) {
        self.problem = None;
        let known = self.servers.get(server);
        let mut pins = known.map(|pins| ToolPins::clone(pins)).unwrap_or_default();
        pins.retain(|tool, _| !accepts(tool));
        pins.extend(pin_all(tools).into_iter().filter(|(tool, _)| accepts(tool)));
        limit_texts(&mut pins);
        if known.is_none_or(|known| **known != pins) {
            self.servers.insert(server.clone(), Arc::new(pins));
            self.unsaved.insert(server.clone(), Update::Replace);
        }
    }

    /// Blocks a tool while its definition differs from its pin. Returns whether there is a pin.
    pub(crate) fn block_tool(&mut self, server: &ServerId, tool: &str) -> bool {
        let Some(known) = self.servers.get_mut(server).filter(|pins| pins.contains_key(tool)) else {
            return false;
        };
        if let Some(pin) = Arc::make_mut(known).get_mut(tool) {
            pin.is_blocked_by_person = true;
        }
        self.unsaved.insert(server.clone(), Update::Replace);
        true
    }

    /// Saves changes, if there are any, and loads the pins that other processes saved. Blocks.
    pub(crate) fn save(&mut self) -> io::Result<()> {
        let Some(unsaved) = self.take_unsaved() else { return Ok(()) };
        self.finish_saving(unsaved.write())
    }

    /// Takes the changes since the last save, so that they can be written while the pins are not locked.
    pub(crate) fn take_unsaved(&mut self) -> Option<UnsavedPins> {
        if self.unsaved.is_empty() {
            return None;
        }
        let unsaved = std::mem::take(&mut self.unsaved);
        let with_pins = |(server, update)| Some((self.servers.get(&server)?.clone(), server, update));
        let servers = unsaved.into_iter().filter_map(with_pins).collect();
        Some(UnsavedPins { path: self.path.clone(), servers })
    }

    /// Loads the pins that are on disk after writing. After an error, the changes remain unsaved.
    pub(crate) fn finish_saving(
        &mut self,
        written: Result<SavedPins, (UnsavedPins, io::Error)>,
    ) -> io::Result<()> {
        match written {
            Ok(SavedPins(servers)) => {
                for (server, pins) in servers {
                    if !self.unsaved.contains_key(&server) {
                        self.servers.insert(server, pins);
                    }
                }
                Ok(())
            }
            Err((UnsavedPins { servers, .. }, error)) => {
                for (_, server, update) in servers {
                    self.unsaved.entry(server).or_insert(update);
                }
                Err(error)
            }
        }
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "tool `{}` {}", self.tool, self.kind)?;
        if self.is_blocked { write!(formatter, "; it is blocked until you accept it") } else { Ok(()) }
    }
}

impl fmt::Display for DriftKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DriftKind::New => write!(formatter, "is new"),
            DriftKind::Changed(parts) => {
                let parts: Vec<&str> = parts.iter().map(|part| part.name()).collect();
                write!(formatter, "changed since it was pinned: its {} changed", parts.join(" and "))
            }
            DriftKind::Removed => write!(formatter, "was removed"),
            DriftKind::Unknown => write!(formatter, "may have changed since it was pinned"),
        }
    }
}

impl ServerId {
    pub(crate) fn of(server: &ServerConfig) -> ServerId {
        let identity = match &server.transport {
            Transport::Stdio { command, args, cwd, .. } => json!([command, args, cwd]),
            // The query may contain a key, which can change while the server stays the same.
            Transport::Http { url, .. } => json!([url.origin().ascii_serialization(), url.path()]),
        };
        let mut identity = hash(&identity);
        // Enough to distinguish the servers that one user gives the same name.
        identity.truncate(16);
        ServerId { name: server.name.to_string(), identity }
    }
}

#[cfg(test)]
mod tests;
