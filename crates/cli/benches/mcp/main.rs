//! Measures `/mcp`: a call through the gateway compared with the same call of the same server, the cost of
//! the store, several gateways on one Redis, and the memory of sessions.
//!
//! `cargo bench --workspace --bench mcp`, with `-- echo`, `everything`, `store`, `sessions` or `scale` for a
//! part. Requires Linux. The servers of the calls are an echo server of the toolkit, and `server-everything`
//! if `TOOLWIRE_TEST_SERVERS` names the folder of `scripts/servers`. `AGENTGATEWAY_BINARY` adds that gateway
//! to the calls, and `perf` the number of instructions. `store` and `scale` require `redis-server`, and
//! `scale` also `taskset` and two processors.
//!
//! Rounds of what is compared alternate, so that other load affects all of them. Each figure is the median of
//! the rounds.

#[path = "../gateway/http.rs"]
mod http;
#[path = "../gateway/load.rs"]
#[allow(dead_code, reason = "each benchmark uses the part it needs")]
mod load;
#[path = "../gateway/process.rs"]
mod process;

mod agentgateway;
mod calls;
mod client;
mod echo;
mod figures;
mod instructions;
mod scale;
mod sessions;
mod store;

use std::error::Error;
use std::net::SocketAddr;

use serde_json::{Value, json};
use toolwire_testkit::RunningServer;

/// The revisions of MCP that are measured: the last one with sessions, and the first one without.
const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    if echo::is_requested() {
        return echo::serve().await;
    }
    let parts: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let is_selected = |part: &str| parts.is_empty() || parts.iter().any(|selected| selected == part);
    if is_selected("echo") {
        calls::print_echo().await?;
    }
    if is_selected("everything") {
        calls::print_everything().await?;
    }
    if is_selected("store") {
        store::print().await?;
    }
    if is_selected("sessions") {
        sessions::print().await?;
    }
    // The last one: it keeps this process on one processor.
    if is_selected("scale") {
        scale::print().await?;
    }
    Ok(())
}

/// Returns the configuration of a gateway for a server.
fn config(server: &RunningServer) -> Value {
    json!({"mcpServers": {"echo": {"url": server.url("/mcp")}}, "toolwire": {}})
}

fn address(server: &RunningServer) -> Result<SocketAddr, Box<dyn Error>> {
    Ok(server.origin.strip_prefix("http://").ok_or("no address")?.parse()?)
}
