//! Reports servers that become ready or fail, and tools that were skipped or changed.

use std::collections::BTreeSet;
use std::fmt;
use std::io;

use toolwire_contract::text::counted;
use toolwire_hub::pins::DriftKind;
use toolwire_hub::{Phase, ServerStatus};

use super::Chat;
use crate::command_error::{ERROR, HINT, NOTE};
use crate::display::markdown::DIMMED;
use crate::pins;
use crate::terminal_text::sanitize;

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

/// The warnings about the tools of one server that were printed.
#[derive(Default)]
pub(super) struct ReportedWarnings {
    printed: BTreeSet<String>,
    /// The number of further warnings, which were only counted.
    others: usize,
}

impl ReportedWarnings {
    const MAX_PRINTED: usize = 10;

    /// Returns the warnings that were not printed yet, and the number of those beyond the maximum.
    fn new_warnings(
        &mut self,
        server: &str,
        warnings: Vec<(String, Option<&'static str>)>,
    ) -> Vec<ServerChange> {
        let name = sanitize(server);
        let mut changes = Vec::new();
        let mut others = 0;
        for (warning, hint) in warnings {
            if self.printed.contains(&warning) {
                continue;
            }
            if self.printed.len() == Self::MAX_PRINTED {
                others += 1;
                continue;
            }
            let text = format!("{name}: {}", sanitize(&warning));
            changes.push(ServerChange::Warning { text, hint });
            self.printed.insert(warning);
        }
        if others > self.others {
            let text = format!("{name}: {} skipped or changed", counted(others, "more tool"));
            changes.push(ServerChange::Warning { text, hint: Some("`toolwire doctor` lists them") });
            self.others = others;
        }
        changes
    }
}

impl Chat {
    /// Returns the changes of servers and their tools since the last call.
    pub(super) fn server_changes(&mut self) -> Vec<ServerChange> {
        let mut changes = Vec::new();
        for server in self.session.hub.status() {
            let reported = self.reported_warnings.entry(server.name.clone()).or_default();
            changes.extend(reported.new_warnings(&server.name, tool_warnings(&server)));
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
    let changed = changed.map(|(_, drift)| (drift.to_string(), Some(pins::REVIEW_HINT)));
    // A change is more important, and only some are printed.
    changed.chain(skipped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_warnings_of_a_server_are_printed() {
        let warnings = |count: usize| (0..count).map(|index| (format!("tool {index}"), None)).collect();
        let mut reported = ReportedWarnings::default();
        let mut check = |count: usize, expected: &[&str]| {
            let changes = reported.new_warnings("s", warnings(count)).into_iter();
            let texts: Vec<String> = changes
                .map(|change| match change {
                    ServerChange::Warning { text, .. } => text,
                    _ => String::new(),
                })
                .collect();
            assert_eq!(texts, expected, "{count}");
        };
        check(2, &["s: tool 0", "s: tool 1"]);
        check(2, &[]);
        check(
            10,
            &[
                "s: tool 2",
                "s: tool 3",
                "s: tool 4",
                "s: tool 5",
                "s: tool 6",
                "s: tool 7",
                "s: tool 8",
                "s: tool 9",
            ],
        );
        check(13, &["s: 3 more tools skipped or changed"]);
        check(13, &[]);
        check(12, &[]);
        check(14, &["s: 4 more tools skipped or changed"]);
    }
}
