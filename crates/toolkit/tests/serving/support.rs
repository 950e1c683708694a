//! Minimal MCP clients, and a tool whose progress tests can observe and control.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use reqwest::header::HeaderMap;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{Notify, mpsc};
use toolwire_contract::{Tool, ToolResult};
use toolwire_toolkit::handler::{Handler, Registered};
use toolwire_toolkit::transport::{HttpOptions, HttpServer, serve_http};
use toolwire_toolkit::{Context, Server};

/// Awaits a future, and fails after a minute instead of hanging.
pub(crate) async fn with_timeout<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("completed within a minute")
}

/// Adds the metadata that requests of 2026-07-28 need.
pub(crate) fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "sampling": {}},
    });
    params
}

pub(crate) fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub(crate) fn initialize(revision: &str) -> Value {
    let client = json!({"name": "test", "version": "1"});
    let params =
        json!({"protocolVersion": revision, "capabilities": {"elicitation": {}}, "clientInfo": client});
    request(0, "initialize", params)
}

/// A client on a stream of JSON lines.
pub(crate) struct StreamClient {
    input: BufReader<ReadHalf<DuplexStream>>,
    pub(crate) output: WriteHalf<DuplexStream>,
}

impl StreamClient {
    pub(crate) fn new(stream: DuplexStream) -> StreamClient {
        let (input, output) = tokio::io::split(stream);
        StreamClient { input: BufReader::new(input), output }
    }

    pub(crate) async fn write(&mut self, text: &str) {
        self.output.write_all(format!("{text}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.write(&message.to_string()).await;
    }

    /// Returns the next message, or `Null` if the server closed the stream.
    pub(crate) async fn next(&mut self) -> Value {
        let mut line = String::new();
        with_timeout(self.input.read_line(&mut line)).await.unwrap();
        if line.is_empty() { Value::Null } else { serde_json::from_str(&line).unwrap() }
    }

    /// Sends a message and returns the next one that arrives.
    pub(crate) async fn request(&mut self, message: Value) -> Value {
        self.send(message).await;
        self.next().await
    }

    /// Performs the handshake of revisions before 2026-07-28.
    pub(crate) async fn initialize(&mut self, revision: &str) -> Value {
        let response = self.request(initialize(revision)).await;
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        response
    }
}

/// A client over HTTP, with its server.
pub(crate) struct HttpClient {
    pub(crate) server: HttpServer,
    pub(crate) client: reqwest::Client,
}

pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// The body, or the last message of an event stream.
    pub(crate) body: Value,
}

impl HttpClient {
    pub(crate) async fn serve(server: Server, options: HttpOptions) -> HttpClient {
        let server = serve_http(server, ([127, 0, 0, 1], 0).into(), options).await.unwrap();
        HttpClient { server, client: toolwire_testkit::http_client() }
    }

    pub(crate) fn post(&self, message: &Value) -> reqwest::RequestBuilder {
        self.client
            .post(self.server.url())
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .body(message.to_string())
    }

    /// Creates a request of 2026-07-28.
    pub(crate) fn modern(&self, method: &str, params: Value) -> reqwest::RequestBuilder {
        let name = params["name"].as_str().map(str::to_owned);
        let post = self
            .post(&request(1, method, modern(params)))
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method);
        match name {
            Some(name) => post.header("mcp-name", name),
            None => post,
        }
    }

    pub(crate) fn call(&self, tool: &str) -> reqwest::RequestBuilder {
        self.modern("tools/call", json!({"name": tool, "arguments": {}}))
    }

    /// Opens a session of 2025-11-25.
    pub(crate) async fn initialize(&self) -> HttpResponse {
        send(self.post(&initialize("2025-11-25"))).await
    }

    pub(crate) fn in_session(&self, session: &str, message: &Value) -> reqwest::RequestBuilder {
        self.post(message).header("mcp-session-id", session).header("mcp-protocol-version", "2025-11-25")
    }
}

pub(crate) async fn send(request: reqwest::RequestBuilder) -> HttpResponse {
    let response = with_timeout(request.send()).await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = with_timeout(response.text()).await.unwrap();
    let is_stream = headers.get("content-type").is_some_and(|kind| kind == "text/event-stream");
    let last = match is_stream {
        true => text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().unwrap_or_default(),
        false => text.as_str(),
    };
    let body = serde_json::from_str(last).unwrap_or_else(|_| Value::String(text.clone()));
    HttpResponse { status, headers, body }
}

pub(crate) fn session_of(response: &HttpResponse) -> String {
    response.headers["mcp-session-id"].to_str().unwrap().to_owned()
}

/// A tool that waits until the test releases it, and reports when it starts and when it is cancelled.
pub(crate) struct WaitingTool {
    pub(crate) tool: Registered,
    pub(crate) started: mpsc::UnboundedReceiver<()>,
    pub(crate) cancelled: mpsc::UnboundedReceiver<()>,
    pub(crate) may_end: Arc<Notify>,
}

struct WaitingHandler {
    started: mpsc::UnboundedSender<()>,
    cancelled: mpsc::UnboundedSender<()>,
    may_end: Arc<Notify>,
}

impl Handler for WaitingHandler {
    fn run<'a>(&'a self, _: Map<String, Value>, context: &'a Context) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            // Cancellation drops this future, so a separate task reports it.
            let (token, cancelled) = (context.cancelled.clone(), self.cancelled.clone());
            tokio::spawn(async move {
                token.cancelled().await;
                let _ = cancelled.send(());
            });
            let _ = self.started.send(());
            self.may_end.notified().await;
            // An unknown field must not be lost over any transport.
            let mut result = ToolResult::text("waited");
            result.extra.insert("later".to_owned(), json!(1));
            result
        })
    }
}

impl WaitingTool {
    pub(crate) fn new() -> WaitingTool {
        let (started_sender, started) = mpsc::unbounded_channel();
        let (cancelled_sender, cancelled) = mpsc::unbounded_channel();
        let may_end = Arc::new(Notify::new());
        let handler =
            WaitingHandler { started: started_sender, cancelled: cancelled_sender, may_end: may_end.clone() };
        let tool = Registered {
            tool: Tool::new("wait", json!({"type": "object"})),
            plain_name: "wait".to_owned(),
            handler: Arc::new(handler),
        };
        WaitingTool { tool, started, cancelled, may_end }
    }

    pub(crate) fn server(&self) -> Server {
        Server::builder("waiting")
            .register(self.tool.clone())
            .register(crate::fixture::echo())
            .build()
            .expect("unique names")
    }
}
