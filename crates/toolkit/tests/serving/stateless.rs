//! Over HTTP without sessions: each request of an older client stands alone.

use serde_json::json;
use toolwire_toolkit::HttpOptions;

use crate::fixture;
use crate::support::{Http, answered, request};

async fn serve() -> Http {
    let mut options = HttpOptions::default();
    options.sessions = false;
    // Nobody opens one, so there need be no room for any.
    options.max_sessions = 0;
    Http::serve(fixture::server(), options).await
}

#[tokio::test]
async fn an_older_client_works_without_a_session() {
    let http = serve().await;
    let opened = http.open().await;
    assert_eq!((opened.status, &opened.body["result"]["protocolVersion"]), (200, &json!("2025-11-25")));
    assert!(!opened.headers.contains_key("mcp-session-id"));
    let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let alone = |message| http.post(message).header("mcp-protocol-version", "2025-11-25");
    assert_eq!(answered(alone(&told)).await.status, 202);

    let call = request(1, "tools/call", json!({"name": "echo", "arguments": {"text": "a"}}));
    let called = answered(alone(&call)).await;
    assert_eq!((called.status, &called.headers["content-type"]), (200, &"application/json".parse().unwrap()));
    assert_eq!(called.body["result"], json!({"content": [{"type": "text", "text": "a"}]}));
    // What the SDK has no name for is exchanged here too.
    let call = request(2, "tools/call", json!({"name": "test_unknown_content"}));
    assert_eq!(answered(alone(&call)).await.body["result"]["later"], json!({"a": 1}));
    let listed = answered(alone(&request(3, "tools/list", json!({})))).await;
    assert_eq!(listed.body["result"]["tools"].as_array().unwrap().len(), fixture::server().tools().len());
}

#[tokio::test]
async fn a_tool_cannot_ask_a_stateless_client() {
    let http = serve().await;
    let call =
        request(1, "tools/call", json!({"name": "test_elicitation", "arguments": {"message": "Who?"}}));
    let called = answered(http.post(&call).header("mcp-protocol-version", "2025-11-25")).await;
    assert_eq!((called.status, &called.body["result"]["isError"]), (200, &json!(true)), "{}", called.body);
}
