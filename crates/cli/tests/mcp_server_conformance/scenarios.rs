//! Scenarios of the suite that need special handling.

/// The handling of a scenario.
pub(crate) enum Verdict {
    Run,
    /// Expects this number of failed checks, for this reason.
    Fails(usize, &'static str),
    Skip(&'static str),
}

/// Scenarios of which one check fails.
const PARTLY: [(&str, &str); 4] = [
    (
        "input-required-result-basic-list-roots",
        "the gateway itself tells servers which folders they may access",
    ),
    ("input-required-result-multiple-input-requests", "the same"),
    ("tasks-lifecycle", "the gateway itself tells a task which folders it may access, so it does not fail"),
    ("tasks-required-task-error", "the gateway waits for the task if the client does not support tasks"),
];

/// Returns how a scenario is handled.
pub(crate) fn verdict(name: &str) -> Verdict {
    if let Some((_, reason)) = PARTLY.iter().find(|(partly, _)| *partly == name) {
        return Verdict::Fails(1, reason);
    }
    match name {
        "tasks-status-notifications" => Verdict::Skip("it has no checks in the suite yet"),
        _ => Verdict::Run,
    }
}

/// Returns the number of attempts: scenarios with timeouts may fail on a busy machine.
pub(crate) fn tries(name: &str) -> usize {
    match name {
        // Subscribers must be notified within 800 ms, and calls must return within half a second.
        "server-stateless" => 3,
        _ => 1,
    }
}

/// Returns the number of checks that must pass; fewer would mean that some did not run.
pub(crate) fn passed_checks(revision: &str) -> usize {
    match revision {
        "2025-11-25" => 81,
        _ => 185,
    }
}
