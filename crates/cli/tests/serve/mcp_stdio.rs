//! `toolwire serve --stdio`: all servers as one MCP server for programs that start it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};
use toolwire_testkit::misbehaving_server;

use crate::{command, folder, fs};

struct Host {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Host {
    fn start(folder: &PathBuf) -> Host {
        let mut command = command(folder, &["--stdio"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Host { child, input: Some(input), output: BufReader::new(output) }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_ref().unwrap(), "{message}").unwrap();
    }

    /// Returns the next message. Each line of the output must be one.
    fn receive(&mut self) -> Value {
        let mut line = String::new();
        assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "it ended");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params}));
        loop {
            let message = self.receive();
            if message["id"] == method {
                return message["result"].clone();
            }
        }
    }

    /// Closes the input, and returns the exit code and the rest of the output.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.input.take());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

fn names(listed: &Value) -> Vec<&str> {
    listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

/// A host of either era gets all tools; when it closes the input, the process and its servers end.
#[test]
fn hosts_of_both_eras_are_served() {
    for era in ["2025-11-25", "2026-07-28"] {
        let folder = folder(&format!("stdio-{era}"), None);
        let log = folder.join("server.log");
        let arguments = ["--behaviour", "never-responds", "--file", log.to_str().unwrap()];
        let program = misbehaving_server();
        let config = json!({
            "mcpServers": {"good": {"command": program}, "other": {"command": program, "args": arguments}},
            "toolwire": {"agent": {"approvals": {"deny": ["refuse"]}}, "gateway": {"audit": "audit.jsonl"}},
        });
        fs::write(folder.join("mcp.json"), config.to_string()).unwrap();
        let mut host = Host::start(&folder);
        let is_modern = era == "2026-07-28";
        let params = |params: Value| if is_modern { modern(params) } else { params };
        if is_modern {
            let found = host.request("server/discover", params(json!({})));
            assert!(found["supportedVersions"].to_string().contains(era), "{found}");
        } else {
            let client = json!({"name": "test", "version": "1"});
            let opening = json!({"protocolVersion": era, "capabilities": {}, "clientInfo": client});
            let opened = host.request("initialize", opening);
            assert_eq!(
                (&opened["protocolVersion"], &opened["serverInfo"]["name"]),
                (&json!(era), &json!("toolwire"))
            );
            host.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        }
        // The first list waits for the servers.
        let listed = host.request("tools/list", params(json!({})));
        let mut names = names(&listed);
        names.sort_unstable();
        assert_eq!(names, ["cancelled", "echo", "fail", "never", "wait"]);
        let called =
            host.request("tools/call", params(json!({"name": "echo", "arguments": {"text": "é\n"}})));
        assert_eq!(called["content"][0]["text"], "é\n");
        let (code, rest) = host.end();
        assert_eq!((code, rest.as_str()), (Some(0), ""), "{era}");
        assert!(fs::read_to_string(&log).unwrap().ends_with("closed\n"), "the server has ended");
        let audit = fs::read_to_string(folder.join("audit.jsonl")).unwrap();
        assert_eq!(audit.lines().count(), 2, "{audit}");
    }
}

/// A host that closes the input at once, or while a call runs, leaves nothing behind.
#[test]
fn the_end_of_the_input_ends_everything() {
    let folder = folder("stdio-end", None);
    let log = folder.join("server.log");
    let arguments = ["--behaviour", "never-responds", "--file", log.to_str().unwrap()];
    let config = json!({"mcpServers": {"other": {"command": misbehaving_server(), "args": arguments}}});
    fs::write(folder.join("mcp.json"), config.to_string()).unwrap();
    assert_eq!(Host::start(&folder).end(), (Some(0), String::new()));
    let mut host = Host::start(&folder);
    let call = modern(json!({"name": "never", "arguments": {}}));
    host.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}));
    while !fs::read_to_string(&log).unwrap_or_default().contains("called") {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(host.end().0, Some(0));
    assert!(fs::read_to_string(&log).unwrap().ends_with("closed\n"));
}

#[test]
fn an_address_is_a_mistake() {
    let output =
        command(&folder("stdio-listen", None), &["--stdio", "--listen", "127.0.0.1:0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--stdio"));
    assert_eq!(output.stdout, b"");
}
