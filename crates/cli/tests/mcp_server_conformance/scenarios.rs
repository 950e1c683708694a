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

/// The scenarios that each run of the tests also runs with gateways that are killed: the kinds of requests,
/// in both eras.
pub(crate) const WITH_REPLACED_GATEWAYS: [&str; 12] = [
    "server-initialize",
    "completion-complete",
    "tools-list",
    "tools-call-mixed-content",
    "tools-call-error",
    "tools-call-with-progress",
    "resources-read-text",
    "prompts-get-with-args",
    "input-required-result-non-tool-request",
    "tasks-lifecycle",
    "tasks-mrtr-input",
    "http-header-validation",
];

/// Scenarios that need a gateway that was killed, or the same gateway for several requests.
const NEED_ONE_GATEWAY: [(&str, &str); 11] = [
    ("tools-call-with-logging", "the messages are on the stream of the session, which ends with its gateway"),
    ("tools-call-sampling", "the reply to a question must reach the gateway that makes the call"),
    ("tools-call-elicitation", "the same"),
    ("elicitation-sep1034-defaults", "the same"),
    ("elicitation-sep1330-enums", "the same"),
    ("server-session-lifecycle", "only the gateway that ends a session knows that it has ended"),
    ("input-required-result-basic-elicitation", "a call that waits for a reply ends with its gateway"),
    ("input-required-result-basic-sampling", "the same"),
    ("input-required-result-request-state", "the same"),
    ("input-required-result-multi-round", "the same"),
    ("tasks-mrtr-composition", "the same"),
];

/// Returns how a scenario is handled if gateways are killed between its requests.
pub(crate) fn verdict_with_replaced_gateways(name: &str) -> Verdict {
    match NEED_ONE_GATEWAY.iter().find(|(needs_one, _)| *needs_one == name) {
        Some((_, reason)) => Verdict::Skip(reason),
        None => verdict(name),
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
