//! Building and starting the misbehaving server.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::RunningServer;

/// Returns the path of the program `misbehaving-server`; its `--help` lists the behaviours.
///
/// Cargo builds the programs of a package only for that package's own tests. So the first use in a process
/// runs `cargo build`, which is quick when the program is up to date.
///
/// # Panics
///
/// When it does not build.
pub fn misbehaving_server() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(build)
}

/// Changes to a folder with an `mcp.json` for an example, whose only server has the tool `echo`.
///
/// # Errors
///
/// When the folder cannot be created.
pub fn enter_example_folder() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tmp/example");
    std::fs::create_dir_all(&folder)?;
    let config = json!({"mcpServers": {"example": {"command": misbehaving_server()}}});
    std::fs::write(folder.join("mcp.json"), config.to_string())?;
    std::env::set_current_dir(folder)
}

/// Starts `misbehaving-server` with these arguments over HTTP, on a free port.
///
/// # Panics
///
/// When it does not start.
pub fn start_misbehaving_http(arguments: &[&str]) -> RunningServer {
    let mut command = Command::new(misbehaving_server());
    command.args(["--http", "127.0.0.1:0"]).args(arguments);
    RunningServer::start_printing_port(command)
}

fn build() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--offline", "--no-default-features", "--bin", "misbehaving-server"])
        .args(["--message-format", "json"])
        // A benchmark must not measure an unoptimized server.
        .args((!cfg!(debug_assertions)).then_some("--release"))
        .arg("--manifest-path")
        .arg(manifest)
        .output()
        .expect("cargo runs the tests, so it can be run");
    let messages = String::from_utf8_lossy(&built.stdout);
    messages.lines().filter_map(executable).next().unwrap_or_else(|| {
        panic!("`misbehaving-server` does not build:\n{messages}{}", String::from_utf8_lossy(&built.stderr))
    })
}

fn executable(message: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    Some(message["executable"].as_str()?.into())
}
