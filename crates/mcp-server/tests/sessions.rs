//! The number of sessions of each client.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Request};
use serde_json::json;
use toolwire_agent::Functions;
use toolwire_contract::Secret;
use toolwire_mcp_server::{Client, McpServer, McpServerOptions};

const SESSION: &str = "mcp-session-id";

fn server() -> McpServer {
    let mut options = McpServerOptions::new("all", "1");
    options.max_sessions_per_client = 2;
    options.session_key = Some(Secret::new("a-shared-secret-0123456789-abcdefgh"));
    McpServer::new(Arc::new(Functions::new()), None, &options).unwrap()
}

/// Sends a message, or ends the session. Returns the status, and the session of the response.
async fn send(
    server: &McpServer,
    client: Client<'_>,
    session: Option<&HeaderValue>,
    message: Option<serde_json::Value>,
) -> (u16, Option<HeaderValue>) {
    let mut request = Request::new(Bytes::new());
    *request.method_mut() = http::Method::DELETE;
    if let Some(message) = message {
        *request.method_mut() = http::Method::POST;
        *request.body_mut() = message.to_string().into();
    }
    let headers = request.headers_mut();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("accept", HeaderValue::from_static("application/json, text/event-stream"));
    if let Some(session) = session {
        headers.insert(SESSION, session.clone());
    }
    let response = server.handle(request, client, Arc::new(Functions::new()), None).await;
    (response.status().as_u16(), response.headers().get(SESSION).cloned())
}

async fn open(server: &McpServer, client: Client<'_>) -> (u16, Option<HeaderValue>) {
    let info = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    send(server, client, None, Some(message)).await
}

#[tokio::test]
async fn one_of_several_clients_has_a_part_of_the_sessions() {
    let (server, other) = (server(), server());
    let (one, two) = (|| Client::new("one"), || Client::new("two"));
    let mut sessions = Vec::new();
    for _ in 0..2 {
        let (status, session) = open(&server, one()).await;
        assert_eq!(status, 200);
        sessions.push(session.unwrap());
    }
    assert_eq!(open(&server, one()).await, (429, None));
    assert_eq!(open(&server, two()).await.0, 200, "another client has its own part");
    let only = || Client { is_one_of_several: false, ..Client::new("only") };
    for _ in 0..3 {
        assert_eq!(open(&server, only()).await.0, 200);
    }

    // A session that is restored counts too.
    let (_, elsewhere) = open(&other, one()).await;
    let ping = || Some(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}));
    assert_eq!(send(&server, one(), elsewhere.as_ref(), ping()).await.0, 404);
    assert_eq!(send(&server, one(), Some(&sessions[0]), None).await.0, 202);
    while send(&server, one(), elsewhere.as_ref(), ping()).await.0 != 200 {
        tokio::task::yield_now().await;
    }
    assert_eq!(open(&server, one()).await.0, 429);
}
