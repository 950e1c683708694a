//! A small MCP client over HTTP that sees each message and each status.

use std::sync::atomic::{AtomicU64, Ordering};

use futures::StreamExt as _;
use reqwest::RequestBuilder;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use toolwire_testkit::http_client;

/// The revisions with a session, and the one without.
pub(crate) const REVISIONS: [&str; 5] =
    ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

pub(crate) struct McpClient {
    url: String,
    key: Option<String>,
    revision: String,
    pub(crate) session: Option<String>,
    /// The capabilities that the client declares.
    capabilities: Value,
    /// The level of log messages that each request asks for, since 2026-07-28.
    log_level: Option<&'static str>,
    requests: AtomicU64,
}

/// A response: its status, and the messages in its body.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    pub(crate) messages: Vec<Value>,
}

impl McpClient {
    /// Connects with one of the revisions.
    pub(crate) async fn connect(origin: &str, key: Option<&str>, revision: &str) -> McpClient {
        McpClient::connect_with(origin, key, revision, json!({})).await
    }

    pub(crate) async fn connect_with(
        origin: &str,
        key: Option<&str>,
        revision: &str,
        capabilities: Value,
    ) -> McpClient {
        let (url, key) = (format!("{origin}/mcp"), key.map(str::to_owned));
        let mut client = McpClient {
            url,
            key,
            revision: revision.to_owned(),
            session: None,
            capabilities: capabilities.clone(),
            log_level: None,
            requests: AtomicU64::new(0),
        };
        if client.is_modern() {
            return client;
        }
        let params = json!({
            "protocolVersion": revision, "capabilities": capabilities, "clientInfo": {"name": "test", "version": "1"},
        });
        let reply = client.send(&client.message("initialize", params)).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        let [opened] = &reply.messages[..] else { panic!("{reply:?}") };
        assert_eq!(opened["result"]["protocolVersion"], revision, "{opened}");
        assert_eq!(opened["result"]["serverInfo"]["name"], "toolwire");
        client.session = Some(reply.headers["mcp-session-id"].to_str().unwrap().to_owned());
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(client.send(&initialized).await.status, 202);
        client
    }

    /// Returns a client with the same session and another key.
    pub(crate) fn with_key(&self, key: Option<&str>) -> McpClient {
        let origin = self.url.trim_end_matches("/mcp").to_owned();
        self.at(&origin, key)
    }

    /// Returns a client with the same session at another gateway.
    pub(crate) fn at(&self, origin: &str, key: Option<&str>) -> McpClient {
        McpClient {
            url: format!("{origin}/mcp"),
            key: key.map(str::to_owned),
            revision: self.revision.clone(),
            session: self.session.clone(),
            capabilities: self.capabilities.clone(),
            log_level: self.log_level,
            requests: AtomicU64::new(1_000),
        }
    }

    /// Has each request ask for log messages from this level on.
    pub(crate) fn set_log_level(&mut self, level: &'static str) {
        self.log_level = Some(level);
    }

    pub(crate) fn is_modern(&self) -> bool {
        self.revision.as_str() >= "2026-07-28"
    }

    pub(crate) fn message(&self, method: &str, mut params: Value) -> Value {
        if self.is_modern() {
            let mut meta = params.get("_meta").cloned().unwrap_or_else(|| json!({}));
            meta["io.modelcontextprotocol/protocolVersion"] = json!(self.revision);
            meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "test", "version": "1"});
            meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
            if let Some(level) = self.log_level {
                meta["io.modelcontextprotocol/logLevel"] = json!(level);
            }
            params["_meta"] = meta;
        }
        let id = self.requests.fetch_add(1, Ordering::Relaxed);
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    }

    /// Adds the headers of this client.
    pub(crate) fn prepared(&self, request: RequestBuilder) -> RequestBuilder {
        let request = request.header("accept", "application/json, text/event-stream");
        let request = match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        };
        match &self.session {
            Some(session) => {
                request.header("mcp-session-id", session).header("mcp-protocol-version", &self.revision)
            }
            None => request,
        }
    }

    pub(crate) fn post(&self, message: &Value) -> RequestBuilder {
        let request = self.prepared(http_client().post(&self.url).json(message));
        if !self.is_modern() {
            return request;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let request = request.header("mcp-protocol-version", &self.revision);
        let request = request.header("mcp-method", text(&message["method"]));
        let params = &message["params"];
        match params.get("name").or(params.get("uri")).or(params.get("taskId")) {
            Some(name) => request.header("mcp-name", text(name)),
            None => request,
        }
    }

    pub(crate) async fn send(&self, message: &Value) -> Reply {
        read(self.post(message)).await
    }

    /// Opens the stream of notifications of a session, and waits until it has begun.
    pub(crate) async fn listen(&self) -> Events {
        let response = self.prepared(http_client().get(&self.url)).send().await.unwrap();
        assert_eq!(response.status(), 200);
        Events::new(response)
    }

    /// Returns the message that responds to a request, and the messages before it.
    pub(crate) async fn exchange(&self, method: &str, params: Value) -> (Value, Vec<Value>) {
        let request = self.message(method, params);
        let mut reply = self.send(&request).await;
        let response = reply.messages.pop().unwrap_or_else(|| panic!("{method}: {reply:?}"));
        assert_eq!(response["id"], request["id"], "{response}");
        (response, reply.messages)
    }

    pub(crate) async fn request(&self, method: &str, params: Value) -> Value {
        self.exchange(method, params).await.0
    }

    /// Returns the result of a tool, or the error of the call.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        let response = self.request("tools/call", json!({"name": tool, "arguments": arguments})).await;
        response.get("result").or(response.get("error")).cloned().unwrap_or_default()
    }

    pub(crate) async fn tools(&self) -> Vec<Value> {
        let response = self.request("tools/list", json!({})).await;
        response["result"]["tools"].as_array().unwrap_or_else(|| panic!("{response}")).clone()
    }

    pub(crate) async fn tool_names(&self) -> Vec<String> {
        self.tools().await.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }
}

pub(crate) async fn read(request: RequestBuilder) -> Reply {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let body = response.text().await.unwrap();
    let is_stream = headers.get("content-type").is_some_and(|kind| kind == "text/event-stream");
    let messages = match is_stream {
        true => body.lines().filter_map(data).collect(),
        false => serde_json::from_str(&body).into_iter().collect(),
    };
    Reply { status, headers, body, messages }
}

fn data(line: &str) -> Option<Value> {
    serde_json::from_str(line.strip_prefix("data:")?).ok()
}

/// The messages of a stream, as they arrive.
pub(crate) struct Events {
    parts: futures::stream::BoxStream<'static, reqwest::Result<Vec<u8>>>,
    text: String,
}

impl Events {
    pub(crate) fn new(response: reqwest::Response) -> Events {
        let parts = response.bytes_stream().map(|part| part.map(|bytes| bytes.to_vec())).boxed();
        Events { parts, text: String::new() }
    }

    /// Returns the next message, or `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            while let Some((line, rest)) = self.text.split_once('\n') {
                let (line, rest) = (line.to_owned(), rest.to_owned());
                self.text = rest;
                if let Some(message) = data(line.trim_end()) {
                    return Some(message);
                }
            }
            let part = self.parts.next().await?.ok()?;
            self.text.push_str(std::str::from_utf8(&part).unwrap());
        }
    }
}
