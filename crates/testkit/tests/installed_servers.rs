//! The installed servers start and respond.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use toolwire_testkit::{InstalledServers, ServerCommand};

/// Returns the server's name in the response to `initialize`.
fn server_name(command: &ServerCommand) -> String {
    let mut child = command
        .to_command()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let params = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    stdin.write_all(format!("{request}\n").as_bytes()).expect("the server reads its stdin");
    let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
    let response = lines.find_map(|line| serde_json::from_str::<Value>(&line.expect("stdout is UTF-8")).ok());
    drop(stdin);
    let _ = child.kill();
    let _ = child.wait();
    let response = response.expect("the server responds");
    response["result"]["serverInfo"]["name"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn every_stdio_server_responds_to_initialize() {
    let servers = InstalledServers::find();
    let folder = std::env::temp_dir().join(format!("toolwire-git-{}", std::process::id()));
    let initialized = Command::new("git").args(["init", "--quiet"]).arg(&folder).status();
    assert!(initialized.expect("git is installed").success());
    let names = [
        server_name(&servers.everything()),
        server_name(&servers.filesystem(&folder)),
        server_name(&servers.memory()),
        server_name(&servers.time()),
        server_name(&servers.git(&folder)),
    ];
    std::fs::remove_dir_all(&folder).expect("the folder can be removed");
    let expected =
        ["mcp-servers/everything", "secure-filesystem-server", "memory-server", "mcp-time", "mcp-git"];
    assert_eq!(names, expected);
}

#[test]
fn http_servers_listen_until_they_are_dropped() {
    let servers = InstalledServers::find();
    for server in [servers.everything_over_http(), servers.everything_over_sse()] {
        let port = server.port();
        assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
        drop(server);
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    }
}

#[test]
fn the_conformance_suite_runs() {
    let version = InstalledServers::find()
        .conformance()
        .to_command()
        .arg("--version")
        .output()
        .expect("the suite starts");
    assert_eq!(String::from_utf8_lossy(&version.stdout).trim(), "0.2.0-alpha.12");
}
