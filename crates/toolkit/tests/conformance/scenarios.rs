//! Server scenarios of the suite that need special handling.

/// The handling of a scenario.
pub(crate) enum Verdict {
    Run,
    /// Expects this number of warnings, for this reason.
    Warns(usize, &'static str),
    Skip(&'static str),
}

/// Returns how a scenario is handled. Scored scenarios always run.
pub(crate) fn verdict(name: &str, is_scored: bool) -> Verdict {
    match name {
        _ if is_scored => Verdict::Run,
        "tasks-status-notifications" => Verdict::Skip("it has no checks in the suite yet"),
        "server-sse-polling" => Verdict::Warns(
            1,
            "pending in the suite: requires a tool that closes its own stream, which the toolkit does not support",
        ),
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
