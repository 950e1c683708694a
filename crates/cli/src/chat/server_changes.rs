//! Reports servers that become ready or fail.

use std::fmt;
use std::io;

use toolwire_hub::Phase;

use super::Chat;
use super::markdown::DIMMED;
use crate::command_error::{ERROR, NOTE};
use crate::terminal_text::{counted, sanitize};

/// A change of a server's state that the user should see.
pub(super) enum ServerChange {
    Ready(String),
    Failed { name: String, reason: String },
}

impl fmt::Display for ServerChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerChange::Ready(text) => write!(formatter, "{DIMMED}{text}{DIMMED:#}"),
            ServerChange::Failed { name, reason } => write!(formatter, "{ERROR}{name}:{ERROR:#} {reason}"),
        }
    }
}

impl Chat {
    /// Returns the changes of server states since the last call.
    pub(super) fn server_changes(&mut self) -> Vec<ServerChange> {
        let mut changes = Vec::new();
        for server in self.session.hub.status() {
            let previous = self.reported_phases.insert(server.name.clone(), server.phase.clone());
            if previous.as_ref().unwrap_or(&Phase::Connecting) == &server.phase {
                continue;
            }
            let name = sanitize(&server.name);
            match &server.phase {
                Phase::Ready => {
                    let tools = counted(server.tool_count, "tool");
                    changes.push(ServerChange::Ready(format!("{name} is ready: {tools}")));
                }
                Phase::Recovering { reason } | Phase::Down { reason } => {
                    changes.push(ServerChange::Failed { name, reason: sanitize(reason) });
                }
                _ => {}
            }
        }
        changes
    }

    /// Prints a note for each server that has failed since the last call.
    pub(super) fn note_failed_servers(&mut self) -> io::Result<()> {
        for change in self.server_changes() {
            if let ServerChange::Failed { name, reason } = change {
                self.view.note("note:", NOTE, &format!("{name}: {reason}"))?;
            }
        }
        Ok(())
    }
}
