//! HTTP without sessions for clients before 2026-07-28.

use serde_json::json;
use toolwire_toolkit::transport::HttpOptions;

use crate::fixture;
use crate::support::{HttpClient, request, send};

async fn serve() -> HttpClient {
    let mut options = HttpOptions::default();
    options.sessions = false;
    // No session is needed.
    options.max_sessions = 0;
    HttpClient::serve(fixture::server(), options).await
}

#[tokio::test]
async fn an_older_client_works_without_a_session() {
    let http = serve().await;
    let opened = http.initialize().await;
    assert_eq!((opened.status, &opened.body["result"]["protocolVersion"]), (200, &json!("2025-11-25")));
    assert!(!opened.headers.contains_key("mcp-session-id"));
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let stateless = |message| http.post(message).header("mcp-protocol-version", "2025-11-25");
    assert_eq!(send(stateless(&initialized)).await.status, 202);

    let call = request(1, "tools/call", json!({"name": "echo", "arguments": {"text": "a"}}));
    let called = send(stateless(&call)).await;
    assert_eq!((called.status, &called.headers["content-type"]), (200, &"application/json".parse().unwrap()));
    assert_eq!(called.body["result"], json!({"content": [{"type": "text", "text": "a"}]}));
    // Fields unknown to the SDK are not lost here either.
    let call = request(2, "tools/call", json!({"name": "test_unknown_content"}));
    assert_eq!(send(stateless(&call)).await.body["result"]["later"], json!({"a": 1}));
    let listed = send(stateless(&request(3, "tools/list", json!({})))).await;
    assert_eq!(listed.body["result"]["tools"].as_array().unwrap().len(), fixture::server().tools().len());
}

#[tokio::test]
async fn a_tool_cannot_ask_a_stateless_client() {
    let http = serve().await;
    let call =
        request(1, "tools/call", json!({"name": "test_elicitation", "arguments": {"message": "Who?"}}));
    let called = send(http.post(&call).header("mcp-protocol-version", "2025-11-25")).await;
    assert_eq!((called.status, &called.body["result"]["isError"]), (200, &json!(true)), "{}", called.body);
}
