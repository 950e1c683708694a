//! The limits of `/mcp`: what one key may have at the same time, and per minute.

use std::time::Duration;

use reqwest::RequestBuilder;
use serde_json::{Value, json};
use toolwire_testkit::{http_client, misbehaving_server};

use crate::mcp_client::{Events, McpClient, read};
use crate::{Served, folder, fs, serve};

const KEY: &str = "key-with-limits-0123456789abcdef012";

/// A gateway with one server, which never responds, and one key with limits.
fn with_limits(name: &str, per_minute: Option<u64>, at_once: usize) -> (Served, std::path::PathBuf) {
    let folder = folder(name, None);
    let log = folder.join("calls.log");
    let arguments = ["--behaviour", "never-responds", "--file", log.to_str().unwrap()];
    let mut key = json!({"key": KEY});
    if let Some(per_minute) = per_minute {
        key["requestsPerMinute"] = json!(per_minute);
    }
    let gateway = json!({"keys": {"a": key}, "limits": {"requestsPerKey": at_once}});
    let servers = json!({"never": {"command": misbehaving_server(), "args": arguments}});
    let config = json!({"mcpServers": servers, "toolwire": {"gateway": gateway}});
    fs::write(folder.join("mcp.json"), config.to_string()).unwrap();
    (serve(&folder, &[]), log)
}

fn pings(client: &McpClient, count: usize) -> Value {
    (0..count).map(|_| client.message("ping", json!({}))).collect()
}

fn stream(served: &Served, client: &McpClient) -> RequestBuilder {
    client.prepared(http_client().get(format!("{}/mcp", served.url)))
}

/// Each message of a batch is a request, for both kinds of limits.
#[tokio::test]
async fn a_batch_is_as_many_requests_as_it_has_messages() {
    let (served, _) = with_limits("mcp-batch-places", None, 2);
    let client = McpClient::connect(&served.url, Some(KEY), "2025-03-26").await;
    let refused = client.send(&pings(&client, 3)).await;
    assert_eq!((refused.status, &refused.headers["x-should-retry"]), (429, &"false".parse().unwrap()));
    assert!(refused.body.contains("a batch of 3"), "{}", refused.body);
    assert_eq!(client.send(&pings(&client, 2)).await.messages.len(), 2);

    let (served, _) = with_limits("mcp-batch-minute", Some(10), 64);
    let client = McpClient::connect(&served.url, Some(KEY), "2025-03-26").await;
    let refused = client.send(&pings(&client, 11)).await;
    assert_eq!(refused.status, 429);
    assert!(refused.body.contains("may make 10 requests per minute"), "{}", refused.body);
    // The minute may end between two of them.
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(client.send(&pings(&client, 10)).await.status);
    }
    assert!(statuses.contains(&429), "{statuses:?}");
}

/// Streams that only wait take no place, and are not requests.
#[tokio::test]
async fn streams_that_wait_are_not_requests() {
    let (served, _) = with_limits("mcp-listeners", None, 1);
    let modern = McpClient::connect(&served.url, Some(KEY), "2026-07-28").await;
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let mut listeners = Vec::new();
    for _ in 0..3 {
        let response =
            modern.post(&modern.message("subscriptions/listen", filter.clone())).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let mut events = Events::new(response);
        assert_eq!(events.next().await.unwrap()["method"], "notifications/subscriptions/acknowledged");
        listeners.push(events);
    }
    assert!(modern.tool_names().await.contains(&"never".to_owned()));

    let (served, _) = with_limits("mcp-streams", Some(3), 64);
    let client = McpClient::connect(&served.url, Some(KEY), "2025-11-25").await;
    let open = stream(&served, &client).send().await.unwrap();
    assert_eq!(open.status(), 200);
    for _ in 0..5 {
        assert_eq!(stream(&served, &client).send().await.unwrap().status(), 409);
    }
    let ended = client.prepared(http_client().delete(format!("{}/mcp", served.url))).send().await.unwrap();
    assert!(ended.status().is_success(), "{ended:?}");
}

/// A call in a session goes on when its client disconnects, and so it keeps its place. Cancelling needs none.
#[tokio::test]
async fn a_call_without_a_client_keeps_its_place() {
    let (served, log) = with_limits("mcp-lost-calls", None, 1);
    let client = McpClient::connect(&served.url, Some(KEY), "2025-11-25").await;
    let call = client.message("tools/call", json!({"name": "never", "arguments": {}}));
    let pending = tokio::spawn(client.post(&call).send());
    while !fs::read_to_string(&log).unwrap_or_default().contains("called") {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    pending.abort();
    // Without its place, it would be free as soon as the gateway notices that the client is gone.
    for _ in 0..20 {
        let refused = client.send(&client.message("ping", json!({}))).await;
        assert_eq!(refused.status, 429, "{}", refused.body);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call["id"]}});
    assert_eq!(client.send(&cancelled).await.status, 202);
    while client.send(&client.message("ping", json!({}))).await.status != 200 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A session has one stream of notifications. A second one does not replace it.
#[tokio::test]
async fn a_session_has_one_stream() {
    let (served, _) = with_limits("mcp-second-stream", None, 64);
    let client = McpClient::connect(&served.url, Some(KEY), "2025-11-25").await;
    let first = client.listen().await;
    let second = read(stream(&served, &client)).await;
    assert_eq!((second.status, &second.messages[0]["error"]["code"]), (409, &json!(-32000)));
    drop(first);
    while stream(&served, &client).send().await.unwrap().status() != 200 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
