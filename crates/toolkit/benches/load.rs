//! What serving through the toolkit costs: the same echo tool beside one in the bare SDK.
//!
//! Both give the same answer. They run as programs of their own and take turns, round by round, so that whatever else the machine
//! does meets both; what counts is the median of the rounds' ratios, and the bench fails when one is over the goal. Each answer is
//! read and compared: one that is lost or wrong ends the bench. `cargo bench -p toolwire-toolkit --bench load`

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
use toolwire_toolkit::{HttpOptions, Outcome, Server, serve_http, serve_stdio, tool};

/// Set for the server that the bench starts.
const SERVE: &str = "TOOLWIRE_BENCH_SERVE";

const SEQUENTIAL: usize = 10_000;
const CONCURRENT: usize = 1_000;
const ROUNDS: usize = 20;

/// How much longer a call may take than with the SDK alone.
const GOAL: f64 = 1.2;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    if let Ok(which) = std::env::var(SERVE) {
        runtime.block_on(serve(&which));
        return ExitCode::SUCCESS;
    }
    let mut ratios = Vec::new();
    println!("{SEQUENTIAL} calls one after the other over stdio");
    for era in [Era::Session, Era::Single] {
        let mut ours = Stream::start("toolkit-stdio", era);
        let mut bare = Stream::start("bare-stdio", era);
        let each = SEQUENTIAL / ROUNDS;
        ratios.push(report(era, each, || (ours.round(each), bare.round(each))));
    }
    println!("{CONCURRENT} calls at once over HTTP, {ROUNDS} times");
    for era in [Era::Session, Era::Single] {
        let mut ours = runtime.block_on(Connections::start("toolkit-http", era));
        let mut bare = runtime.block_on(Connections::start("bare-http", era));
        ratios.push(report(era, CONCURRENT, || {
            (runtime.block_on(ours.round()), runtime.block_on(bare.round()))
        }));
    }
    match ratios.iter().all(|ratio| *ratio <= GOAL) {
        true => ExitCode::SUCCESS,
        false => {
            println!("over the goal of {GOAL} times");
            ExitCode::FAILURE
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Era {
    /// 2025-11-25, in a session.
    Session,
    /// 2026-07-28, each request by itself.
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

/// Runs both in turns, prints the medians, and gives back that of the ratios.
fn report(era: Era, calls: usize, mut round: impl FnMut() -> (Duration, Duration)) -> f64 {
    round();
    let rounds: Vec<(f64, f64)> =
        (0..ROUNDS).map(|_| round()).map(|(ours, bare)| (ours.as_secs_f64(), bare.as_secs_f64())).collect();
    let median = |of: fn(&(f64, f64)) -> f64| {
        let mut all: Vec<f64> = rounds.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let (ours, bare) = (median(|round| round.0), median(|round| round.1));
    let ratio = median(|(ours, bare)| ours / bare);
    let per_call = |seconds: f64| seconds * 1e6 / calls as f64;
    println!(
        "  {era:?}: toolkit {:.1} µs, bare {:.1} µs per call: {ratio:.2} times",
        per_call(ours),
        per_call(bare)
    );
    ratio
}

/// A server on stdio, and the pipes to it.
struct Stream {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    era: Era,
    next: usize,
}

impl Stream {
    fn start(which: &str, era: Era) -> Stream {
        let mut child = start(which).stdin(Stdio::piped()).spawn().expect("it can be started");
        let input = child.stdin.take().expect("it is piped");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut stream = Stream { child, input, output, era, next: 1 };
        if era == Era::Session {
            stream.say(INITIALIZE);
            stream.hear();
            stream.say(INITIALIZED);
        }
        stream
    }

    fn say(&mut self, message: &str) {
        self.input.write_all(format!("{message}\n").as_bytes()).expect("the server reads");
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the server writes");
        line
    }

    fn round(&mut self, calls: usize) -> Duration {
        let started = Instant::now();
        for _ in 0..calls {
            let id = self.next;
            self.next += 1;
            self.say(&self.era.call(id));
            let answer = self.hear();
            check(&answer, id);
        }
        started.elapsed()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server over HTTP, and a connection for each call at once.
struct Connections {
    child: Child,
    open: Vec<TcpStream>,
    era: Era,
    session: Option<String>,
    next: usize,
}

impl Connections {
    async fn start(which: &str, era: Era) -> Connections {
        let mut child = start(which).stdin(Stdio::null()).spawn().expect("it can be started");
        let mut address = String::new();
        let output = child.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut address).expect("it says where it listens");
        let connect = (0..CONCURRENT).map(|_| TcpStream::connect(address.trim().to_owned()));
        let open = join_all(connect).await.into_iter().map(|stream| stream.expect("it accepts")).collect();
        let mut connections = Connections { child, open, era, session: None, next: 1 };
        if era == Era::Session {
            let (head, _) = ask(&mut connections.open[0], INITIALIZE, "").await;
            let session = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
            let session = session.expect("a session is opened").trim().to_owned();
            ask(&mut connections.open[0], INITIALIZED, &format!("mcp-session-id: {session}\r\n")).await;
            connections.session = Some(session);
        }
        connections
    }

    async fn round(&mut self) -> Duration {
        let headers = match &self.session {
            Some(session) => format!("mcp-session-id: {session}\r\nmcp-protocol-version: 2025-11-25\r\n"),
            None => {
                "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: echo\r\n".to_owned()
            }
        };
        let (era, first) = (self.era, self.next);
        self.next += CONCURRENT;
        let started = Instant::now();
        let calls = self.open.iter_mut().enumerate().map(|(place, stream)| {
            let (id, headers) = (first + place, &headers);
            async move {
                let (_, body) = ask(stream, &era.call(id), headers).await;
                let answer = body.lines().find(|line| line.contains(r#""result""#)).unwrap_or_default();
                check(answer.strip_prefix("data: ").unwrap_or(answer), id);
            }
        });
        join_all(calls).await;
        started.elapsed()
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One request and its answer, head and body.
async fn ask(stream: &mut TcpStream, body: &str, headers: &str) -> (String, String) {
    let length = body.len();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\naccept: application/json, text/event-stream\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.expect("the server reads");
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&answer);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let complete = match length {
                Some(length) => body.len() >= length.parse::<usize>().expect("a length is a number"),
                None => body.ends_with("0\r\n\r\n") || head.contains(" 202 "),
            };
            if complete {
                return (head.to_owned(), body.to_owned());
            }
        }
        let read = stream.read(&mut buffer).await.expect("the server writes");
        assert!(read > 0, "the server closed: {}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&buffer[..read]);
    }
}

fn check(answer: &str, id: usize) {
    let answer: Value = serde_json::from_str(answer.trim()).expect("each answer is JSON");
    assert_eq!(answer["id"], id);
    let said = json!({"success": true, "value": format!("call {id}")});
    assert_eq!(answer["result"]["structuredContent"], said);
    assert_eq!(answer["result"]["content"], json!([{"type": "text", "text": said.to_string()}]));
}

fn start(which: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a running program has a path"));
    command.env(SERVE, which).stdout(Stdio::piped());
    command
}

async fn serve(which: &str) {
    let ours = || Server::builder("bench").prefix("").tool(echo).build().expect("each name comes once");
    match which {
        "toolkit-stdio" => serve_stdio(ours()).expect("it can be served").finished().await,
        "bare-stdio" => {
            let running = rmcp::serve_server(Bare, rmcp::transport::stdio_pipes()).await;
            let _ = running.expect("the bench speaks MCP").waiting().await;
        }
        "toolkit-http" => {
            let served = serve_http(ours(), ([127, 0, 0, 1], 0).into(), HttpOptions::default()).await;
            println!("{}", served.as_ref().expect("a port is free").address());
            std::future::pending::<()>().await;
        }
        _ => {
            let config = StreamableHttpServerConfig::default().with_json_response(true);
            let sessions = std::sync::Arc::new(LocalSessionManager::default());
            let service = StreamableHttpService::new(|| Ok(Bare), sessions, config);
            let application = axum::Router::new().route_service("/mcp", service);
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
            println!("{}", listener.local_addr().expect("it listens"));
            axum::serve(listener, application).await.expect("it serves");
        }
    }
}

/// Says what it was told.
#[tool]
async fn echo(
    /// What to say
    text: String,
) -> Outcome<String> {
    Outcome::ok(text)
}

/// The echo tool with nothing but the SDK.
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
        Some(Tool::new("echo", "Says what it was told", std::sync::Arc::new(schema)))
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
