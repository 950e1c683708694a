//! The servers that were installed start and answer.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use toolwire_testkit::{Launch, Servers};

/// The name of the server in its answer to `initialize`.
fn introduce(launch: &Launch) -> String {
    let mut child = launch
        .to_command()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {launch:?}: {error}"));
    let mut stdin = child.stdin.take().expect("it was asked for");
    let params = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    stdin.write_all(format!("{request}\n").as_bytes()).expect("it reads");
    let mut lines = BufReader::new(child.stdout.take().expect("it was asked for")).lines();
    let answer = lines.find_map(|line| serde_json::from_str::<Value>(&line.expect("it is text")).ok());
    drop(stdin);
    let _ = child.kill();
    let _ = child.wait();
    let answer = answer.expect("it answers");
    answer["result"]["serverInfo"]["name"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn every_server_on_stdio_introduces_itself() {
    let servers = Servers::installed();
    let folder = std::env::temp_dir().join(format!("toolwire-git-{}", std::process::id()));
    let made = Command::new("git").args(["init", "--quiet"]).arg(&folder).status();
    assert!(made.expect("git is installed").success());
    let names = [
        introduce(&servers.everything()),
        introduce(&servers.filesystem(&folder)),
        introduce(&servers.memory()),
        introduce(&servers.time()),
        introduce(&servers.git(&folder)),
    ];
    std::fs::remove_dir_all(&folder).expect("it is ours");
    let expected =
        ["mcp-servers/everything", "secure-filesystem-server", "memory-server", "mcp-time", "mcp-git"];
    assert_eq!(names, expected);
}

#[test]
fn the_servers_over_http_listen_until_they_are_dropped() {
    let servers = Servers::installed();
    for server in [servers.everything_over_http(), servers.everything_over_sse()] {
        let port = server.port();
        assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
        drop(server);
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    }
}

#[test]
fn the_suite_runs_on_its_node() {
    let version =
        Servers::installed().conformance().to_command().arg("--version").output().expect("it starts");
    assert_eq!(String::from_utf8_lossy(&version.stdout).trim(), "0.2.0-alpha.12");
}
