//! Measures `/mcp`: a call through the gateway compared with the same call of the same server, and the memory
//! of sessions.
//!
//! `cargo bench --workspace --bench mcp`. Requires Linux. The servers are an echo server of the toolkit, and
//! `server-everything` if `TOOLWIRE_TEST_SERVERS` names the folder of `scripts/servers`. All programs share
//! the cores. Rounds with and without the gateway alternate, so that other load affects both; each figure is
//! the median of the rounds.

#[path = "../gateway/http.rs"]
#[allow(dead_code, reason = "each benchmark uses the part it needs")]
mod http;
#[path = "../gateway/load.rs"]
#[allow(dead_code, reason = "each benchmark uses the part it needs")]
mod load;
#[path = "../gateway/process.rs"]
#[allow(dead_code, reason = "each benchmark uses the part it needs")]
mod process;

use std::error::Error;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use load::Request;
use process::{Gateway, cpu_time_of};
use serde_json::{Map, Value, json};
use toolwire_contract::{Tool, ToolResult};
use toolwire_testkit::{InstalledServers, RunningServer, http_client};
use toolwire_toolkit::handler::{Handler, Registered};
use toolwire_toolkit::transport::{HttpOptions, serve_http};
use toolwire_toolkit::{Context, Server};

/// Set when the benchmark starts this program as the echo server.
const SERVE: &str = "TOOLWIRE_BENCH_SERVE";

const ROUNDS: usize = 9;
const CALLS: usize = 500;
const SESSIONS: usize = 5_000;
/// The number of sessions that are opened at the same time.
const AT_ONCE: usize = 32;

const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

struct Echo;

impl Handler for Echo {
    fn run<'a>(&'a self, arguments: Map<String, Value>, _: &'a Context) -> BoxFuture<'a, ToolResult> {
        let text = arguments.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
        Box::pin(async move { ToolResult::text(text) })
    }
}

/// Serves until the process is killed.
async fn serve() -> Result<(), Box<dyn Error>> {
    let properties = json!({"message": {"type": "string"}});
    let schema = json!({"type": "object", "properties": properties, "required": ["message"]});
    let (name, handler) = ("echo".to_owned(), Arc::new(Echo));
    let tool = Registered { tool: Tool::new(&name, schema), plain_name: name, handler };
    let server = Server::builder("echo").register(tool).build()?;
    let served = serve_http(server, ([127, 0, 0, 1], 0).into(), HttpOptions::default()).await?;
    println!("{}", served.address().port());
    std::future::pending().await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    if std::env::var_os(SERVE).is_some() {
        return serve().await;
    }
    let mut command = Command::new(std::env::current_exe()?);
    command.env(SERVE, "1");
    let mut servers = vec![("echo server of the toolkit", RunningServer::start_printing_port(command))];
    if std::env::var_os("TOOLWIRE_TEST_SERVERS").is_some() {
        servers.push(("`server-everything`", InstalledServers::find().everything_over_http()));
    }
    println!(
        "| one call at a time, p50 | direct | gateway | ratio | CPU per call: server alone | server and gateway | ratio |\n\
         |---|--:|--:|--:|--:|--:|--:|"
    );
    for (name, server) in &servers {
        let gateway = Gateway::start(&config(server))?;
        for revision in REVISIONS {
            print_calls(&format!("{name}, {revision}"), server, &gateway, revision).await?;
        }
    }
    print_sessions(&Gateway::start(&config(&servers[0].1))?).await
}

fn config(server: &RunningServer) -> Value {
    json!({"mcpServers": {"echo": {"url": server.url("/mcp")}}, "toolwire": {}})
}

/// Returns a call for a server. A session is opened if the revision has them.
async fn call(address: SocketAddr, revision: &str) -> Result<Request, Box<dyn Error>> {
    let mut headers = format!(
        "accept: application/json, text/event-stream\r\nmcp-protocol-version: {revision}\r\n\
         mcp-method: tools/call\r\nmcp-name: echo\r\n"
    );
    let mut params = json!({"name": "echo", "arguments": {"message": "hello"}});
    if revision < "2026-07-28" {
        headers.push_str(&format!("mcp-session-id: {}\r\n", open_session(address, revision).await?));
    } else {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
    }
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    Ok(Request::with_headers(address, "/mcp", &headers, &body))
}

async fn open_session(address: SocketAddr, revision: &str) -> Result<String, Box<dyn Error>> {
    let url = format!("http://{address}/mcp");
    let post = |body: Value| {
        let request = http_client().post(&url).header("accept", "application/json, text/event-stream");
        request.json(&body)
    };
    let info = json!({"name": "bench", "version": "1"});
    let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": info});
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let opened = post(initialize).send().await?.error_for_status()?;
    let session = opened.headers().get("mcp-session-id").ok_or("no session")?.to_str()?.to_owned();
    opened.bytes().await?;
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let request =
        post(initialized).header("mcp-session-id", &session).header("mcp-protocol-version", revision);
    request.send().await?.error_for_status()?;
    Ok(session)
}

/// The measurements of one round.
struct Round {
    direct: Duration,
    through: Duration,
    server_alone: Duration,
    server_and_gateway: Duration,
}

async fn print_calls(
    name: &str,
    server: &RunningServer,
    gateway: &Gateway,
    revision: &str,
) -> Result<(), Box<dyn Error>> {
    let address = server.origin.strip_prefix("http://").ok_or("no address")?.parse()?;
    let (direct, through) = (call(address, revision).await?, call(gateway.address, revision).await?);
    let mut rounds = Vec::new();
    // The first round only warms up.
    for _ in 0..=ROUNDS {
        let median = |times: Vec<Duration>| times[times.len() / 2];
        let before = cpu_time_of(server.pid())?;
        let direct = median(load::latencies(&direct, CALLS).await?);
        let (between, gateway_before) = (cpu_time_of(server.pid())?, gateway.cpu_time()?);
        let through = median(load::latencies(&through, CALLS).await?);
        let of_gateway = gateway.cpu_time()?.saturating_sub(gateway_before);
        let of_server = cpu_time_of(server.pid())?.saturating_sub(between);
        let server_alone = between.saturating_sub(before);
        rounds.push(Round { direct, through, server_alone, server_and_gateway: of_server + of_gateway });
    }
    rounds.remove(0);
    let median = |of: fn(&Round) -> f64| {
        let mut all: Vec<f64> = rounds.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    println!(
        "| {name} | {:.3} ms | {:.3} ms | {:.2}× | {:.3} ms | {:.3} ms | {:.2}× |",
        median(|round| milliseconds(round.direct)),
        median(|round| milliseconds(round.through)),
        median(|round| round.through.as_secs_f64() / round.direct.as_secs_f64()),
        median(|round| milliseconds(round.server_alone) / CALLS as f64),
        median(|round| milliseconds(round.server_and_gateway) / CALLS as f64),
        median(|round| round.server_and_gateway.as_secs_f64() / round.server_alone.as_secs_f64()),
    );
    Ok(())
}

async fn print_sessions(gateway: &Gateway) -> Result<(), Box<dyn Error>> {
    let before = gateway.memory()?;
    let opening = (0..SESSIONS).map(|_| call(gateway.address, REVISIONS[0]));
    let opened: Vec<_> = futures::stream::iter(opening).buffer_unordered(AT_ONCE).collect().await;
    let opened = opened.into_iter().collect::<Result<Vec<Request>, _>>()?;
    let after = gateway.memory()?;
    for request in &opened {
        load::latencies(request, 1).await?;
    }
    let used = gateway.memory()?;
    println!(
        "\n{SESSIONS} sessions: {:.1} MB, {:.1} MB after a call in each, {:.1} MB before",
        megabytes(after),
        megabytes(used),
        megabytes(before)
    );
    Ok(())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1_000_000.0
}
