//! Clients of `/mcp`, with a session of an older revision, and without.

use serde_json::{Value, json};
use toolwire_testkit::http_client;

use super::{mark, record_effects};
use crate::client::{Client, Dialect, Outcome};
use crate::random::Random;

pub(super) const WITH_SESSION_COMPLETE: &str = "mcp session: complete";
pub(super) const COMPLETE: &str = "mcp without session: complete";

const WITH_SESSIONS: &str = "2025-06-18";
const WITHOUT: &str = "2026-07-28";

pub(super) async fn call(client: &Client, random: &mut Random) -> &'static str {
    match random.coin() {
        true => with_session(client, random).await,
        false => without_session(client).await,
    }
}

/// Sends a message, with headers.
async fn send(client: &Client, message: &Value, headers: &[(&str, &str)]) -> Outcome {
    let request = http_client().post(format!("{}/mcp", client.world.url)).json(message);
    let request = request.header("accept", "application/json, text/event-stream");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let method = message["method"].as_str().unwrap_or_default();
    let outcome = client.send(Dialect::Mcp, request, &format!("{method} of MCP"), &[]).await;
    if let Outcome::Done(answer) = &outcome
        && answer.body["id"] != message["id"]
    {
        client.world.ledger().violation(format!("the response to {message} is {}", answer.body));
    }
    outcome
}

/// Each request may be served by another gateway.
async fn with_session(client: &Client, random: &mut Random) -> &'static str {
    let params = json!({
        "protocolVersion": WITH_SESSIONS, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    });
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let Outcome::Done(opened) = send(client, &initialize, &[]).await else {
        return "mcp session: not opened";
    };
    let Some(session) = opened.session else {
        client.world.ledger().violation(format!("no session: {}", opened.body));
        return "mcp session: not opened";
    };
    let headers = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", WITH_SESSIONS)];
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let mut is_complete = matches!(send(client, &initialized, &headers).await, Outcome::Done(_));
    for number in 1..3 + random.below(3) {
        let message = match random.below(3) {
            0 => json!({"jsonrpc": "2.0", "id": number, "method": "tools/list", "params": {}}),
            _ => {
                let arguments = json!({"id": format!("e{}", &mark(client)[1..])});
                let params = json!({"name": "append", "arguments": arguments});
                json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
            }
        };
        is_complete &= checked(client, &message, send(client, &message, &headers).await);
    }
    if is_complete { WITH_SESSION_COMPLETE } else { "mcp session: some requests failed" }
}

async fn without_session(client: &Client) -> &'static str {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": WITHOUT,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let arguments = json!({"id": format!("e{}", &mark(client)[1..])});
    let params = json!({"name": "append", "arguments": arguments, "_meta": meta});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let headers = [("mcp-protocol-version", WITHOUT), ("mcp-method", "tools/call"), ("mcp-name", "append")];
    match checked(client, &message, send(client, &message, &headers).await) {
        true => COMPLETE,
        false => "mcp without session: failed",
    }
}

/// Records the effect of a call. Returns whether the request has a result.
fn checked(client: &Client, message: &Value, outcome: Outcome) -> bool {
    let Outcome::Done(answer) = outcome else { return false };
    record_effects(client, &answer.text);
    if message["method"] == "tools/list" {
        let tools = answer.body["result"]["tools"].as_array().map_or(0, Vec::len);
        if tools < 2 {
            client.world.ledger().violation(format!("tools are missing: {}", answer.body));
        }
    }
    let is_error = answer.body["result"]["isError"] == true;
    if let (Some(_), _) | (None, true) = (answer.body.get("error"), is_error) {
        let message = answer.body["error"]["message"].as_str().unwrap_or(&answer.text);
        client.world.ledger().worked(&format!("mcp error: {message}"));
        return false;
    }
    true
}
