//! Clients that speak MCP by hand, and tools that tell when they run.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use reqwest::header::HeaderMap;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{Notify, mpsc};
use toolwire_contract::{Tool, ToolResult};
use toolwire_toolkit::{Context, Handler, HttpOptions, HttpServer, Registered, Server, serve_http};

/// For what must happen and would otherwise hang the test.
pub(crate) async fn soon<T>(happening: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), happening).await.expect("it happens within a minute")
}

/// The parameters of a request of 2026-07-28.
pub(crate) fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "by-hand", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "sampling": {}},
    });
    params
}

pub(crate) fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub(crate) fn initialize(revision: &str) -> Value {
    let client = json!({"name": "by-hand", "version": "1"});
    let params =
        json!({"protocolVersion": revision, "capabilities": {"elicitation": {}}, "clientInfo": client});
    request(0, "initialize", params)
}

/// A client on a stream of lines.
pub(crate) struct Lines {
    input: BufReader<ReadHalf<DuplexStream>>,
    pub(crate) output: WriteHalf<DuplexStream>,
}

impl Lines {
    pub(crate) fn new(stream: DuplexStream) -> Lines {
        let (input, output) = tokio::io::split(stream);
        Lines { input: BufReader::new(input), output }
    }

    pub(crate) async fn write(&mut self, text: &str) {
        self.output.write_all(format!("{text}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.write(&message.to_string()).await;
    }

    /// The next message; `Null` when the server has ended.
    pub(crate) async fn next(&mut self) -> Value {
        let mut line = String::new();
        soon(self.input.read_line(&mut line)).await.unwrap();
        if line.is_empty() { Value::Null } else { serde_json::from_str(&line).unwrap() }
    }

    pub(crate) async fn ask(&mut self, message: Value) -> Value {
        self.send(message).await;
        self.next().await
    }

    /// Opens a session of the older era.
    pub(crate) async fn open(&mut self, revision: &str) -> Value {
        let answer = self.ask(initialize(revision)).await;
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        answer
    }
}

/// A client over HTTP.
pub(crate) struct Http {
    pub(crate) server: HttpServer,
    pub(crate) client: reqwest::Client,
}

pub(crate) struct CompletedCall {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// The last message, however it came.
    pub(crate) body: Value,
}

impl Http {
    pub(crate) async fn serve(server: Server, options: HttpOptions) -> Http {
        let server = serve_http(server, ([127, 0, 0, 1], 0).into(), options).await.unwrap();
        Http { server, client: reqwest::Client::new() }
    }

    pub(crate) fn post(&self, message: &Value) -> reqwest::RequestBuilder {
        self.client
            .post(self.server.url())
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .body(message.to_string())
    }

    /// A request of 2026-07-28.
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

    /// Opens a session of the older era.
    pub(crate) async fn open(&self) -> CompletedCall {
        answered(self.post(&initialize("2025-11-25"))).await
    }

    pub(crate) fn in_session(&self, session: &str, message: &Value) -> reqwest::RequestBuilder {
        self.post(message).header("mcp-session-id", session).header("mcp-protocol-version", "2025-11-25")
    }
}

pub(crate) async fn answered(request: reqwest::RequestBuilder) -> CompletedCall {
    let response = soon(request.send()).await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = soon(response.text()).await.unwrap();
    let is_stream = headers.get("content-type").is_some_and(|kind| kind == "text/event-stream");
    let last = match is_stream {
        true => text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().unwrap_or_default(),
        false => text.as_str(),
    };
    let body = serde_json::from_str(last).unwrap_or_else(|_| Value::String(text.clone()));
    CompletedCall { status, headers, body }
}

pub(crate) fn session_of(answered: &CompletedCall) -> String {
    answered.headers["mcp-session-id"].to_str().unwrap().to_owned()
}

/// A tool that says when it starts, waits until it may end, and says when it was cancelled.
pub(crate) struct Waiting {
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
            // Its own work would notice the cancellation; so does this.
            let (token, cancelled) = (context.cancelled.clone(), self.cancelled.clone());
            tokio::spawn(async move {
                token.cancelled().await;
                let _ = cancelled.send(());
            });
            let _ = self.started.send(());
            self.may_end.notified().await;
            // With a field that nobody knows: it must not be lost on any way.
            let mut result = ToolResult::text("waited");
            result.extra.insert("later".to_owned(), json!(1));
            result
        })
    }
}

impl Waiting {
    pub(crate) fn new() -> Waiting {
        let (tell_started, started) = mpsc::unbounded_channel();
        let (tell_cancelled, cancelled) = mpsc::unbounded_channel();
        let may_end = Arc::new(Notify::new());
        let handler =
            WaitingHandler { started: tell_started, cancelled: tell_cancelled, may_end: may_end.clone() };
        let tool = Registered {
            tool: Tool::new("wait", json!({"type": "object"})),
            plain_name: "wait".to_owned(),
            handler: Arc::new(handler),
        };
        Waiting { tool, started, cancelled, may_end }
    }

    pub(crate) fn server(&self) -> Server {
        Server::builder("waiting")
            .register(self.tool.clone())
            .register(crate::fixture::echo())
            .build()
            .expect("each name comes once")
    }
}
