//! The number of calls of each client that wait for its replies.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderValue, Request};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use toolwire_contract::elicitation::{ElicitKind, ElicitRequest};
use toolwire_contract::toolbox::{CallError, CallOptions, Toolbox};
use toolwire_contract::{Tool, ToolResult};
use toolwire_mcp_server::{Client, McpServer, McpServerOptions};

/// A tool that asks the user.
struct Asking;

impl Toolbox for Asking {
    fn tools(&self) -> Arc<[Tool]> {
        [Tool::new("ask", json!({"type": "object"}))].into()
    }

    fn call<'a>(
        &'a self,
        _: &'a str,
        _: &'a Value,
        options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            let kind = ElicitKind::Form { schema: json!({"type": "object", "properties": {}}) };
            let elicit = options.elicitation.unwrap();
            elicit("server", ElicitRequest::new("Really?", kind)).await;
            Ok(ToolResult::text("done"))
        })
    }
}

/// Sends a call, and returns its response.
async fn call(server: &McpServer, client: Client<'_>, more: Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    });
    let mut params = json!({"name": "ask", "arguments": {}, "_meta": meta});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let mut request = Request::new(Bytes::from(message.to_string()));
    *request.method_mut() = http::Method::POST;
    for (name, value) in [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "ask"),
    ] {
        request.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    let response = server.handle(request, client, Arc::new(Asking), None).await;
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let text = std::str::from_utf8(&body).unwrap();
    let messages = text.lines().map(|line| line.strip_prefix("data:").unwrap_or(line));
    messages.filter_map(|message| serde_json::from_str::<Value>(message).ok()).next_back().unwrap()
}

#[tokio::test]
async fn one_of_several_clients_has_a_part_of_the_waiting_calls() {
    let mut options = McpServerOptions::new("all", "1");
    options.max_waiting_calls_per_client = 2;
    let server = McpServer::new(Arc::new(Asking), None, &options).unwrap();
    let one = || Client::new("one");
    let mut states = Vec::new();
    for _ in 0..2 {
        let waiting = call(&server, one(), json!({})).await;
        assert_eq!(waiting["result"]["resultType"], "input_required", "{waiting}");
        states.push(waiting["result"]["requestState"].clone());
    }
    let refused = call(&server, one(), json!({})).await;
    assert_eq!(
        refused["error"]["message"], "too many calls of this client wait for replies; the maximum is 2",
        "{refused}"
    );
    let other = call(&server, Client::new("other"), json!({})).await;
    assert_eq!(other["result"]["resultType"], "input_required", "another client has its own part");
    let only = || Client { is_one_of_several: false, ..Client::new("only") };
    for _ in 0..3 {
        assert_eq!(call(&server, only(), json!({})).await["result"]["resultType"], "input_required");
    }

    // A call that continues makes room.
    let replies = json!({"1": {"action": "decline"}});
    let reply = |state: &Value| json!({"requestState": state, "inputResponses": replies});
    let stolen = call(&server, Client::new("other"), reply(&states[0])).await;
    assert!(stolen.get("error").is_some(), "{stolen}");
    let done = call(&server, one(), reply(&states[0])).await;
    assert_eq!(done["result"]["content"][0]["text"], "done", "{done}");
    assert_eq!(call(&server, one(), json!({})).await["result"]["resultType"], "input_required");
}
