//! The overhead of the toolkit: an echo tool with the toolkit, compared with the same tool on the bare SDK.
//!
//! Both servers run in their own processes and take turns, round by round, so that other load on the machine
//! affects both. The result is the median of the ratios of all rounds; the bench fails if it is over the
//! goal. Every response is checked. `cargo bench -p toolwire-toolkit --bench load`

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use futures::future::join_all;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use toolwire_toolkit::transport::{HttpOptions, serve_http, serve_stdio};
use toolwire_toolkit::{Outcome, Server, tool};

/// Set when the bench starts this program as a server; selects the server.
const SERVE: &str = "TOOLWIRE_BENCH_SERVE";

const SEQUENTIAL_CALLS: usize = 10_000;
const CONCURRENT_CALLS: usize = 1_000;
const ROUNDS: usize = 20;

/// Maximum ratio between the time of a call with the toolkit and with the SDK alone.
const MAX_RATIO: f64 = 1.2;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    if let Ok(which) = std::env::var(SERVE) {
        runtime.block_on(serve(&which));
        return ExitCode::SUCCESS;
    }
    let mut ratios = Vec::new();
    println!("{SEQUENTIAL_CALLS} sequential calls over stdio");
    for era in [Era::Session, Era::Single] {
        let mut toolkit = StdioServer::start("toolkit-stdio", era);
        let mut bare = StdioServer::start("bare-stdio", era);
        let calls = SEQUENTIAL_CALLS / ROUNDS;
        ratios.push(report(era, calls, || (toolkit.round(calls), bare.round(calls))));
    }
    println!("{CONCURRENT_CALLS} concurrent calls over HTTP, {ROUNDS} times");
    for era in [Era::Session, Era::Single] {
        let mut toolkit = runtime.block_on(HttpServer::start("toolkit-http", era));
        let mut bare = runtime.block_on(HttpServer::start("bare-http", era));
        ratios.push(report(era, CONCURRENT_CALLS, || {
            (runtime.block_on(toolkit.round()), runtime.block_on(bare.round()))
        }));
    }
    match ratios.iter().all(|ratio| *ratio <= MAX_RATIO) {
        true => ExitCode::SUCCESS,
        false => {
            println!("over the goal of {MAX_RATIO} times");
            ExitCode::FAILURE
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Era {
    /// 2025-11-25, in a session.
    Session,
    /// 2026-07-28, without a session.
    Single,
}

impl Era {
    fn call(self, id: usize) -> String {
        let mut params = json!({"name": "echo", "arguments": {"text": format!("call {id}")}});
        if self == Era::Single {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
    }
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Runs both servers in turns, prints the medians, and returns the median ratio.
fn report(era: Era, calls: usize, mut round: impl FnMut() -> (Duration, Duration)) -> f64 {
    round();
    let seconds = |(toolkit, bare): (Duration, Duration)| (toolkit.as_secs_f64(), bare.as_secs_f64());
    let rounds: Vec<(f64, f64)> = (0..ROUNDS).map(|_| seconds(round())).collect();
    let median = |of: fn(&(f64, f64)) -> f64| {
        let mut all: Vec<f64> = rounds.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let (toolkit, bare) = (median(|round| round.0), median(|round| round.1));
    let ratio = median(|(toolkit, bare)| toolkit / bare);
    let per_call = |seconds: f64| seconds * 1e6 / calls as f64;
    println!(
        "  {era:?}: toolkit {:.1} µs, bare {:.1} µs per call: {ratio:.2} times",
        per_call(toolkit),
        per_call(bare)
    );
    ratio
}

/// A server on stdio with its pipes.
struct StdioServer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    era: Era,
    next: usize,
}

impl StdioServer {
    fn start(which: &str, era: Era) -> StdioServer {
        let mut child = start(which).stdin(Stdio::piped()).spawn().expect("a started server");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut stream = StdioServer { child, input, output, era, next: 1 };
        if era == Era::Session {
            stream.send(INITIALIZE);
            stream.receive();
            stream.send(INITIALIZED);
        }
        stream
    }

    fn send(&mut self, message: &str) {
        self.input.write_all(format!("{message}\n").as_bytes()).expect("the server reads");
    }

    fn receive(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the server writes");
        line
    }

    fn round(&mut self, calls: usize) -> Duration {
        let started = Instant::now();
        for _ in 0..calls {
            let id = self.next;
            self.next += 1;
            self.send(&self.era.call(id));
            check(&self.receive(), id);
        }
        started.elapsed()
    }
}

impl Drop for StdioServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server over HTTP, with a connection for each concurrent call.
struct HttpServer {
    child: Child,
    connections: Vec<TcpStream>,
    era: Era,
    session: Option<String>,
    next: usize,
}

impl HttpServer {
    async fn start(which: &str, era: Era) -> HttpServer {
        let mut child = start(which).stdin(Stdio::null()).spawn().expect("a started server");
        let mut address = String::new();
        let output = child.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut address).expect("the address");
        let connect = (0..CONCURRENT_CALLS).map(|_| TcpStream::connect(address.trim().to_owned()));
        let connections =
            join_all(connect).await.into_iter().map(|stream| stream.expect("a connection")).collect();
        let mut server = HttpServer { child, connections, era, session: None, next: 1 };
        if era == Era::Session {
            let (head, _) = post(&mut server.connections[0], INITIALIZE, "").await;
            let session = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
            let session = session.expect("a session id").trim().to_owned();
            post(&mut server.connections[0], INITIALIZED, &format!("mcp-session-id: {session}\r\n")).await;
            server.session = Some(session);
        }
        server
    }

    async fn round(&mut self) -> Duration {
        let headers = match &self.session {
            Some(session) => format!("mcp-session-id: {session}\r\nmcp-protocol-version: 2025-11-25\r\n"),
            None => {
                "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: echo\r\n".to_owned()
            }
        };
        let (era, first) = (self.era, self.next);
        self.next += CONCURRENT_CALLS;
        let started = Instant::now();
        let calls = self.connections.iter_mut().enumerate().map(|(index, stream)| {
            let (id, headers) = (first + index, &headers);
            async move {
                let (_, body) = post(stream, &era.call(id), headers).await;
                let response = body.lines().find(|line| line.contains(r#""result""#)).unwrap_or_default();
                check(response.strip_prefix("data: ").unwrap_or(response), id);
            }
        });
        join_all(calls).await;
        started.elapsed()
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request and returns the head and the body of the response.
async fn post(stream: &mut TcpStream, body: &str, headers: &str) -> (String, String) {
    let length = body.len();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\naccept: application/json, text/event-stream\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.expect("the server reads");
    let mut response = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&response);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let is_complete = match length {
                Some(length) => body.len() >= length.parse::<usize>().expect("a number"),
                None => body.ends_with("0\r\n\r\n") || head.contains(" 202 "),
            };
            if is_complete {
                return (head.to_owned(), body.to_owned());
            }
        }
        let read = stream.read(&mut buffer).await.expect("the server writes");
        assert!(read > 0, "the server closed: {}", String::from_utf8_lossy(&response));
        response.extend_from_slice(&buffer[..read]);
    }
}

fn check(response: &str, id: usize) {
    let response: Value = serde_json::from_str(response.trim()).expect("valid JSON");
    assert_eq!(response["id"], id);
    let expected = json!({"success": true, "value": format!("call {id}")});
    assert_eq!(response["result"]["structuredContent"], expected);
    assert_eq!(response["result"]["content"], json!([{"type": "text", "text": expected.to_string()}]));
}

fn start(which: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
    command.env(SERVE, which).stdout(Stdio::piped());
    command
}

async fn serve(which: &str) {
    let toolkit = || Server::builder("bench").prefix("").tool(echo).build().expect("unique names");
    match which {
        "toolkit-stdio" => serve_stdio(toolkit()).expect("a server").finished().await,
        "bare-stdio" => {
            let running = rmcp::serve_server(Bare, rmcp::transport::stdio_pipes()).await;
            let _ = running.expect("a handshake").waiting().await;
        }
        "toolkit-http" => {
            let served = serve_http(toolkit(), ([127, 0, 0, 1], 0).into(), HttpOptions::default()).await;
            println!("{}", served.as_ref().expect("a free port").address());
            std::future::pending::<()>().await;
        }
        _ => {
            let config = StreamableHttpServerConfig::default().with_json_response(true);
            let sessions = std::sync::Arc::new(LocalSessionManager::default());
            let service = StreamableHttpService::new(|| Ok(Bare), sessions, config);
            let application = axum::Router::new().route_service("/mcp", service);
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            println!("{}", listener.local_addr().expect("an address"));
            axum::serve(listener, application).await.expect("a server");
        }
    }
}

/// Return the text.
#[tool]
async fn echo(
    /// The text
    text: String,
) -> Outcome<String> {
    Outcome::ok(text)
}

/// The echo tool on the bare SDK.
struct Bare;

impl ServerHandler for Bare {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("bare", "0.0.0"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.get_tool("echo").into_iter().collect()))
    }

    fn get_tool(&self, _: &str) -> Option<Tool> {
        let schema =
            json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
        let schema = schema.as_object().cloned().unwrap_or_default();
        Some(Tool::new("echo", "Return the text.", std::sync::Arc::new(schema)))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let text = arguments.get("text").and_then(Value::as_str).unwrap_or_default();
        Ok(CallToolResult::structured(json!({"success": true, "value": text})).into())
    }
}
