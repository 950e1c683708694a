//! What servers log during the calls of clients of `/mcp`.

use serde_json::{Value, json};
use toolwire_testkit::misbehaving_server;
use toolwire_toolkit::transport::{HttpOptions, serve_http};

use crate::mcp_client::{Events, McpClient};
use crate::mcp_official_clients::fixture;
use crate::{Served, folder, serve};

/// The levels at which the tool logs.
const LEVELS: [&str; 3] = ["debug", "info", "emergency"];

/// A gateway with a server that has a tool that logs one message at each level.
async fn with_logging_server(
    name: &str,
    gateway: Value,
) -> (Served, toolwire_toolkit::transport::HttpServer) {
    let address = ([127, 0, 0, 1], 0).into();
    let upstream = serve_http(fixture::server(), address, HttpOptions::default()).await.unwrap();
    let servers = json!({"fixture": {"url": upstream.url()}});
    let config = json!({"mcpServers": servers, "toolwire": {"gateway": gateway}});
    (serve(&folder(name, Some(&config)), &[]), upstream)
}

/// Returns the level of a log message.
fn logged<'m>(message: &'m Value, logger: &str) -> Option<&'m str> {
    if message["method"] != "notifications/message" {
        return None;
    }
    assert_eq!(
        (&message["params"]["logger"], &message["params"]["data"]),
        (&json!(logger), &json!("a message"))
    );
    message["params"]["level"].as_str()
}

/// Calls the tool, and returns the levels of the messages until the result, on both streams of a session.
async fn levels_of_call(client: &McpClient, stream: Option<&mut Events>, expected: usize) -> Vec<String> {
    let call = json!({"name": "test_logging_tool", "arguments": {}});
    let (response, before) = client.exchange("tools/call", call).await;
    assert_eq!(response["result"]["content"][0]["text"], "logged", "{response}");
    let mut levels: Vec<String> =
        before.iter().filter_map(|message| logged(message, "fixture")).map(str::to_owned).collect();
    if let Some(stream) = stream {
        while levels.len() < expected {
            let message = stream.next().await.unwrap();
            levels.extend(logged(&message, "fixture").map(str::to_owned));
        }
    }
    levels
}

/// A client gets the messages of its own calls, from the level on that it has requested.
#[tokio::test(flavor = "multi_thread")]
async fn log_messages_reach_the_client_of_the_call() {
    let (served, _upstream) = with_logging_server("mcp-log", json!({})).await;
    let client = McpClient::connect(&served.url, None, "2025-11-25").await;
    let other = McpClient::connect(&served.url, None, "2025-11-25").await;
    let (mut stream, mut others) = (client.listen().await, other.listen().await);
    for (level, from) in [("warning", 2), ("info", 1), ("debug", 0)] {
        let set = client.request("logging/setLevel", json!({"level": level})).await;
        assert_eq!(set["result"], json!({}), "{set}");
        let levels = levels_of_call(&client, Some(&mut stream), LEVELS.len() - from).await;
        assert_eq!(levels, LEVELS[from..], "{level}");
    }
    // The level of another session is its own, and it has got nothing so far.
    let levels = levels_of_call(&other, Some(&mut others), LEVELS.len() - 1).await;
    assert_eq!(levels, LEVELS[1..]);

    let mut modern = McpClient::connect(&served.url, None, "2026-07-28").await;
    assert_eq!(levels_of_call(&modern, None, 0).await, [] as [&str; 0]);
    modern.set_log_level("error");
    assert_eq!(levels_of_call(&modern, None, 0).await, LEVELS[2..]);
}

/// A local server with an older revision has one level for all clients, so each client gets only what it has
/// requested. Its messages have the name of the server as logger.
#[tokio::test]
async fn an_older_server_logs_for_newer_clients() {
    let servers = json!({"local": {"command": misbehaving_server(), "args": ["--behaviour", "logs"]}});
    let served = serve(&folder("mcp-log-older", Some(&json!({"mcpServers": servers}))), &[]);
    let mut verbose = McpClient::connect(&served.url, None, "2026-07-28").await;
    let mut terse = McpClient::connect(&served.url, None, "2026-07-28").await;
    let silent = McpClient::connect(&served.url, None, "2026-07-28").await;
    verbose.set_log_level("debug");
    terse.set_log_level("error");
    for (client, expected) in [
        (&terse, &["error"][..]),
        (&verbose, &["debug", "info", "error"]),
        (&terse, &["error"]),
        (&silent, &[]),
    ] {
        let call = json!({"name": "echo", "arguments": {"text": "x"}});
        let (response, before) = client.exchange("tools/call", call).await;
        assert_eq!(response["result"]["content"][0]["text"], "x", "{response}");
        let levels: Vec<&str> = before.iter().filter_map(|message| logged(message, "local")).collect();
        assert_eq!(levels, expected);
    }
}

/// With several keys, a message that does not state its call could be about the call of another key, so no
/// client gets it.
#[tokio::test]
async fn messages_without_a_call_reach_no_client_of_several() {
    let servers = json!({"local": {"command": misbehaving_server(), "args": ["--behaviour", "logs"]}});
    let keys = ["key-of-one-client-0123456789abcdef012", "key-of-another-client-0123456789abcdef"];
    let gateway = json!({"keys": {"one": keys[0], "other": keys[1]}});
    let config = json!({"mcpServers": servers, "toolwire": {"gateway": gateway}});
    let served = serve(&folder("mcp-log-keys", Some(&config)), &[]);
    for key in keys {
        let mut client = McpClient::connect(&served.url, Some(key), "2026-07-28").await;
        client.set_log_level("debug");
        let call = json!({"name": "echo", "arguments": {"text": "x"}});
        let (response, before) = client.exchange("tools/call", call).await;
        assert_eq!(response["result"]["content"][0]["text"], "x", "{response}");
        assert_eq!(before, [] as [Value; 0], "{key}");
    }
}
