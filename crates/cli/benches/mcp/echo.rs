//! The echo server, which is this program in a process of its own.

use std::error::Error;
use std::process::Command;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolwire_contract::{Tool, ToolResult};
use toolwire_testkit::RunningServer;
use toolwire_toolkit::handler::{Handler, Registered};
use toolwire_toolkit::transport::{HttpOptions, serve_http};
use toolwire_toolkit::{Context, Server};

/// Set when the benchmark starts this program as the echo server.
const SERVE: &str = "TOOLWIRE_BENCH_SERVE";

struct Echo;

impl Handler for Echo {
    fn run<'a>(&'a self, arguments: Map<String, Value>, _: &'a Context) -> BoxFuture<'a, ToolResult> {
        let text = arguments.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
        Box::pin(async move { ToolResult::text(text) })
    }
}

/// Starts the echo server.
pub(crate) fn start() -> Result<RunningServer, Box<dyn Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(SERVE, "1");
    Ok(RunningServer::start_printing_port(command))
}

/// Whether this process is the echo server.
pub(crate) fn is_requested() -> bool {
    std::env::var_os(SERVE).is_some()
}

/// Serves until the process is killed.
pub(crate) async fn serve() -> Result<(), Box<dyn Error>> {
    let properties = json!({"message": {"type": "string"}});
    let schema = json!({"type": "object", "properties": properties, "required": ["message"]});
    let (name, handler) = ("echo".to_owned(), Arc::new(Echo));
    let tool = Registered { tool: Tool::new(&name, schema), plain_name: name, handler };
    let server = Server::builder("echo").register(tool).build()?;
    let mut options = HttpOptions::default();
    options.max_sessions = 10_000;
    let served = serve_http(server, ([127, 0, 0, 1], 0).into(), options).await?;
    println!("{}", served.address().port());
    std::future::pending().await
}
