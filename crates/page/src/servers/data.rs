//! Servers as JSON.

use serde_json::{Map, Value, json};

use super::{ChangedPlace, ChangedTool, ConnectionAttempt, Server, ServerProblem, ServerState};
use crate::time::iso;

/// Returns a server as JSON.
pub fn data(server: &Server) -> Value {
    let mut object = json!({
        "name": server.name,
        "state": server.glyph().2,
        "since": iso(server.since),
        "transport": server.transport,
        "address": server.address,
        "tools": server.tools.iter().map(|tool| {
            json!({"name": tool.name, "original": tool.original, "description": tool.description})
        }).collect::<Vec<_>>(),
        "withheld": server.withheld.iter().map(|tool| json!({"name": tool.name, "reason": tool.reason})).collect::<Vec<_>>(),
        "notes": server.notes,
        "restarts": server.restarts,
        "calls": {
            "answered": server.calls.answered,
            "failed": server.calls.failed,
            "p50_ms": server.calls.p50.map(|time| time.as_secs_f64() * 1000.0),
            "p99_ms": server.calls.p99.map(|time| time.as_secs_f64() * 1000.0),
        },
        "stderr": server.stderr,
        "changed": server.changed.iter().map(changed).collect::<Vec<_>>(),
    });
    let Some(fields) = object.as_object_mut() else { return object };
    if let Some(description) = &server.description {
        fields.insert("protocol".to_owned(), description.protocol.as_str().into());
        fields.insert("program".to_owned(), description.program.as_deref().into());
        fields.insert("instructions".to_owned(), description.instructions.as_deref().into());
    }
    match &server.state {
        ServerState::Connecting { detail } => add(fields, "detail", detail.as_str()),
        // The address of the login page is only for the person who opens it.
        ServerState::SignIn { reason, .. } => add(fields, "reason", reason.as_str()),
        ServerState::Recovering { problem } | ServerState::Down { problem } => add_problem(fields, problem),
        ServerState::Ready | ServerState::Disabled | ServerState::Stopped => {}
    }
    object
}

fn add(fields: &mut Map<String, Value>, key: &str, value: &str) {
    fields.insert(key.to_owned(), value.into());
}

fn add_problem(fields: &mut Map<String, Value>, problem: &ServerProblem) {
    add(fields, "reason", &problem.reason);
    fields.insert("hint".to_owned(), problem.hint.as_deref().into());
    let attempt = match problem.attempt {
        ConnectionAttempt::Running => "running".into(),
        ConnectionAttempt::At(at) => Value::from(iso(at)),
        ConnectionAttempt::OnRequest => Value::Null,
    };
    fields.insert("next_attempt".to_owned(), attempt);
}

fn changed(tool: &ChangedTool) -> Value {
    let side = |place: &ChangedPlace, is_before: bool| -> Value {
        let has_side = if is_before { place.has_before } else { place.has_after };
        let words =
            place.words.iter().filter(|words| if is_before { words.is_before } else { words.is_after });
        let text: String = words.map(|words| words.text.as_str()).collect();
        if has_side { text.into() } else { Value::Null }
    };
    let place = |place: &ChangedPlace| json!({"place": place.place, "before": side(place, true), "after": side(place, false)});
    json!({
        "tool": tool.tool,
        "withheld": tool.is_blocked,
        "parts": tool.parts,
        "places": tool.places.as_ref().map(|places| places.iter().map(place).collect::<Vec<_>>()),
    })
}
