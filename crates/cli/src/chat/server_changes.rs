//! Reports servers that become ready or fail, and tools that were skipped or changed.

use std::fmt;
use std::io;

use toolwire_hub::pins::DriftKind;
use toolwire_hub::{Phase, ServerStatus};

use super::Chat;
use super::markdown::DIMMED;
use crate::command_error::{ERROR, HINT, NOTE};
use crate::pins;
use crate::terminal_text::{counted, sanitize};

/// A change of a server's state that the user should see.
pub(super) enum ServerChange {
    Ready(String),
    Failed { name: String, reason: String },
    Warning { text: String, hint: Option<&'static str> },
}

impl fmt::Display for ServerChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerChange::Ready(text) => write!(formatter, "{DIMMED}{text}{DIMMED:#}"),
            ServerChange::Failed { name, reason } => write!(formatter, "{ERROR}{name}:{ERROR:#} {reason}"),
            ServerChange::Warning { text, hint } => {
                write!(formatter, "{NOTE}warning:{NOTE:#} {text}")?;
                hint.map_or(Ok(()), |hint| write!(formatter, "\n{HINT}hint:{HINT:#} {hint}"))
            }
        }
    }
}

impl Chat {
    /// Returns the changes of servers and their tools since the last call.
    pub(super) fn server_changes(&mut self) -> Vec<ServerChange> {
        let mut changes = Vec::new();
        for server in self.session.hub.status() {
            for (warning, hint) in tool_warnings(&server) {
                let text = format!("{}: {}", sanitize(&server.name), sanitize(&warning));
                if self.reported_warnings.insert(text.clone()) {
                    changes.push(ServerChange::Warning { text, hint });
                }
            }
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

    /// Prints each server that has failed, and each tool that was skipped or changed, since the last call.
    pub(super) fn note_server_changes(&mut self) -> io::Result<()> {
        for change in self.server_changes() {
            match change {
                ServerChange::Ready(_) => {}
                ServerChange::Failed { name, reason } => {
                    self.view.note("note:", NOTE, &format!("{name}: {reason}"))?;
                }
                ServerChange::Warning { text, hint } => {
                    self.view.note("warning:", NOTE, &text)?;
                    hint.map_or(Ok(()), |hint| self.view.hint(hint))?;
                }
            }
        }
        Ok(())
    }
}

/// Returns what a user should know about the tools before a model uses them, with hints.
pub(super) fn tool_warnings(server: &ServerStatus) -> Vec<(String, Option<&'static str>)> {
    let skipped = server.quarantined.iter();
    let skipped = skipped.map(|tool| (format!("tool `{}` was skipped: {}", tool.name, tool.reason), None));
    let changed =
        pins::changes(std::slice::from_ref(server)).filter(|(_, drift)| drift.kind != DriftKind::Unknown);
    skipped.chain(changed.map(|(_, drift)| (drift.to_string(), Some(pins::REVIEW_HINT)))).collect()
}
