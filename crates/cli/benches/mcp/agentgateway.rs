//! The MCP proxy of agentgateway, if its program is available.

use std::error::Error;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;

use serde_json::json;
use toolwire_testkit::RunningServer;

/// The environment variable with the path of the program.
const BINARY: &str = "AGENTGATEWAY_BINARY";

/// Starts agentgateway in front of a server. Returns `None` if the variable is not set.
pub(crate) fn start(server: &RunningServer) -> Result<Option<RunningServer>, Box<dyn Error>> {
    let Some(program) = std::env::var_os(BINARY) else { return Ok(None) };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("agentgateway-bench");
    fs::create_dir_all(&folder)?;
    let port = free_port()?;
    let target = json!({"name": "echo", "mcp": {"host": server.url("/mcp")}});
    let route = json!({"backends": [{"mcp": {"targets": [target]}}]});
    let others = json!({
        "adminAddr": format!("127.0.0.1:{}", free_port()?),
        "statsAddr": format!("127.0.0.1:{}", free_port()?),
        "readinessAddr": format!("127.0.0.1:{}", free_port()?),
        // A line for each request would cost more than the call.
        "logging": {"level": "error"},
    });
    let config = json!({"config": others, "binds": [{"port": port, "listeners": [{"routes": [route]}]}]});
    // The configuration is a YAML file; JSON is also YAML.
    let file = folder.join("config.yaml");
    fs::write(&file, config.to_string())?;
    let mut command = Command::new(program);
    command.current_dir(&folder).arg("-f").arg(&file);
    Ok(Some(RunningServer::start_on_port(command, port)))
}

fn free_port() -> Result<u16, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address: SocketAddr = listener.local_addr()?;
    Ok(address.port())
}
