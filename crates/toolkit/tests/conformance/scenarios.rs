//! The suite's server scenarios: what each wants to see, or why it is left out.

/// Scenarios that are run though the suite does not score them, or that are left out for a reason.
pub(crate) enum Verdict {
    Run,
    /// With so many warnings, for the reason given.
    Warns(usize, &'static str),
    Skip(&'static str),
}

/// What is done with a scenario. Those that are scored are always run.
pub(crate) fn verdict(name: &str, scored: bool) -> Verdict {
    match name {
        _ if scored => Verdict::Run,
        "tasks-status-notifications" => Verdict::Skip("the suite makes no check in it yet"),
        "server-sse-polling" => Verdict::Warns(
            1,
            "pending in the suite: it wants a tool that closes its own stream, which the toolkit does not offer",
        ),
        _ => Verdict::Run,
    }
}

/// Scenarios that hold the server to the clock, which a busy machine may miss: so many tries.
pub(crate) fn tries(name: &str) -> usize {
    match name {
        // Subscriptions must be told of a change within 800 ms, calls must answer within half a second.
        "server-stateless" => 3,
        _ => 1,
    }
}
