//! A server that serves the tools of a hub together with its own.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, split};
use toolwire_contract::toolbox::Toolbox;
use toolwire_hub::{Config, Hub, HubOptions};
use toolwire_toolkit::transport::{HttpOptions, in_process, serve_http};
use toolwire_toolkit::{Server, tool};

/// Say hello.
#[tool]
async fn hello() -> String {
    "hello".to_owned()
}

async fn hub() -> Arc<Hub> {
    let text = json!({"mcpServers": {
        "demo": {"command": env!("CARGO_BIN_EXE_toolwire"), "args": ["demo-server"]},
    }});
    let (config, _) = Config::parse(&text.to_string(), Path::new("mcp.json"), &|_| None).unwrap();
    Arc::new(Hub::connect(&config, HubOptions::default()).await)
}

/// A minimal MCP client that sends JSON lines.
struct Client {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    output: WriteHalf<DuplexStream>,
}

impl Client {
    async fn request(&mut self, method: &str, mut params: Value) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.output.write_all(format!("{request}\n").as_bytes()).await.unwrap();
        let line = self.lines.next_line().await.unwrap().unwrap();
        serde_json::from_str::<Value>(&line).unwrap()["result"].clone()
    }
}

#[tokio::test]
async fn a_hub_is_served_as_a_toolbox() {
    let hub = hub().await;
    assert_eq!(hub.missing_servers(), []);
    let server = Server::builder("all")
        .environment::<&str, &str>([])
        .tool(hello)
        .toolbox(hub.clone())
        .build()
        .unwrap();
    let (stream, served) = in_process(server.clone()).unwrap();
    let (input, output) = split(stream);
    let mut client = Client { lines: BufReader::new(input).lines(), output };

    let listed = client.request("tools/list", json!({})).await;
    let names: Vec<&str> =
        listed["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    let expected: Vec<String> = ["all_hello".to_owned()]
        .into_iter()
        .chain(hub.tools().iter().map(|tool| tool.name.clone()))
        .collect();
    assert_eq!(names, expected);
    assert!(names.contains(&"calculate"), "{names:?}");

    let arguments = json!({"operator": "multiply", "argument1": 6, "argument2": 7});
    let product = client.request("tools/call", json!({"name": "calculate", "arguments": arguments})).await;
    let value = json!({"expression": "6 * 7", "result": 42});
    assert_eq!(product["structuredContent"], json!({"success": true, "value": value}));
    let rejected = client
        .request("tools/call", json!({"name": "calculate", "arguments": {"operator": "multiply"}}))
        .await;
    // The hub rejects the call before it reaches the server.
    let message = rejected["content"][0]["text"].as_str().unwrap_or_default();
    assert!(rejected["isError"] == true && message.contains("\"argument1\""), "{rejected}");
    let own = client.request("tools/call", json!({"name": "all_hello", "arguments": {}})).await;
    assert_eq!(own["structuredContent"]["value"], "hello");

    // A second hub that connects to this server over HTTP sees the same tools.
    let http = serve_http(server, ([127, 0, 0, 1], 0).into(), HttpOptions::default()).await.unwrap();
    let text = json!({"mcpServers": {"all": {"url": http.url()}}}).to_string();
    let (config, _) = Config::parse(&text, Path::new("mcp.json"), &|_| None).unwrap();
    let second = Hub::connect(&config, HubOptions::default()).await;
    let names: Vec<String> = second.tools().iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(names, expected);
    let product = second
        .call("calculate", &arguments, toolwire_contract::toolbox::CallOptions::default())
        .await
        .unwrap();
    assert!(!product.is_error(), "{product:?}");

    second.close().await;
    http.shutdown(std::time::Duration::from_secs(5)).await;
    served.shutdown(std::time::Duration::from_secs(5)).await;
    hub.close().await;
}
