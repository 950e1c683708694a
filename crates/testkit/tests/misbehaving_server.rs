//! The misbehaving server behaves as its `--help` describes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolwire_testkit::{
    Process, RunningServer, misbehaving_server, processes_with_variable, start_misbehaving_http,
};

const TIMEOUT: Duration = Duration::from_secs(20);

/// A client of the server on stdio that sends and reads single lines.
struct LineClient {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl LineClient {
    fn start(arguments: &[&str]) -> LineClient {
        let mut child = Command::new(misbehaving_server())
            .args(arguments)
            .env("MARK", mark())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        LineClient {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().expect("stdout is piped")),
            child,
        }
    }

    fn with_behaviour(behaviour: &str) -> LineClient {
        LineClient::start(&["--behaviour", behaviour])
    }

    fn send(&mut self, message: Value) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(format!("{message}\n").as_bytes()).expect("the server reads its stdin");
    }

    /// Returns the next line of any kind, or `None` at the end.
    fn line(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        self.stdout.read_until(b'\n', &mut line).expect("stdout can be read");
        (!line.is_empty()).then_some(line)
    }

    fn message(&mut self) -> Value {
        serde_json::from_slice(&self.line().expect("the server responds")).expect("valid JSON")
    }

    fn request(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        self.message()
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request(7, "tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool, checks that there is no response, and returns the exit code.
    fn call_without_response(&mut self) -> Option<i32> {
        self.send(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo"}}));
        assert_eq!(self.line(), None);
        self.child.wait().expect("an exit status").code()
    }
}

impl Drop for LineClient {
    fn drop(&mut self) {
        for process in sleeping_children() {
            let _ = Command::new("kill").arg("-9").arg(process.pid.to_string()).status();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the `sleep` processes of the servers of this test.
fn sleeping_children() -> Vec<Process> {
    let mut processes = processes_with_variable("MARK", &mark());
    processes.retain(|process| process.name == "sleep");
    processes
}

/// Returns a value that identifies the processes of the current test.
fn mark() -> String {
    format!("{}-{}", std::process::id(), std::thread::current().name().unwrap_or("main"))
}

fn text(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().expect("the result contains text")
}

fn names(response: &Value) -> Vec<&str> {
    let tools = response["result"]["tools"].as_array().expect("the result lists tools");
    tools.iter().filter_map(|tool| tool["name"].as_str()).collect()
}

#[test]
fn an_ordinary_server_responds() {
    let mut server = LineClient::with_behaviour("ordinary");
    let initialized = server.request(1, "initialize", json!({"protocolVersion": "2025-06-18"}));
    assert_eq!(initialized["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(names(&server.request(2, "tools/list", json!({}))), ["echo", "wait", "fail", "refuse"]);
    assert_eq!(text(&server.call("echo", json!({"text": "hello"}))), "hello");
    assert_eq!(text(&server.call("wait", json!({"milliseconds": 1}))), "wait was called");
    assert_eq!(server.call("fail", json!({}))["result"]["isError"], true);
    assert_eq!(server.call("refuse", json!({}))["error"]["code"], -32602);
    assert_eq!(server.request(3, "server/discover", json!({}))["error"]["code"], -32601);
    server.stdin = None;
    assert_eq!(server.child.wait().expect("an exit status").code(), Some(0));
}

#[test]
fn a_server_can_start_late_or_omit_hints() {
    let mut server = LineClient::start(&["--behaviour", "starts-late", "--delay", "5"]);
    assert_eq!(text(&server.call("echo", json!({"text": "up"}))), "up");
    let hints = |behaviour: &str| {
        let tools = LineClient::with_behaviour(behaviour).request(1, "tools/list", json!({}));
        tools["result"]["tools"][0]["annotations"].clone()
    };
    assert_eq!((hints("ordinary"), hints("unhinted")), (json!({"readOnlyHint": true}), json!({})));
}

#[test]
fn a_server_can_exit_at_a_chosen_point() {
    let mut server = LineClient::with_behaviour("exits-at-once");
    assert_eq!(server.line(), None);
    assert_eq!(server.child.wait().expect("an exit status").code(), Some(3));
    assert_eq!(LineClient::with_behaviour("exits-mid-call").call_without_response(), Some(4));
    let mut server = LineClient::with_behaviour("exits-mid-response");
    server.send(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo"}}));
    let partial = server.line().expect("the response starts");
    assert!(serde_json::from_slice::<Value>(&partial).is_err());
    assert_eq!(server.line(), None);
}

#[test]
fn a_server_can_stop_responding_at_a_chosen_point() {
    let mut server = LineClient::with_behaviour("never-initializes");
    server.send(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize"}));
    server.stdin = None;
    assert_eq!(server.line(), None);
    let mut server = LineClient::with_behaviour("ignores-unknown");
    server.send(json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover"}));
    assert_eq!(server.request(2, "ping", json!({}))["id"], 2);
    let mut server = LineClient::with_behaviour("never-responds");
    server.send(json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "never"}}));
    server.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}));
    assert_eq!(text(&server.call("cancelled", json!({}))), "[5]");
}

#[test]
fn lists_can_be_long_malformed_endless_or_changing() {
    let mut server = LineClient::start(&["--behaviour", "many-tools", "--count", "250"]);
    let first = server.request(1, "tools/list", json!({}));
    assert_eq!((names(&first).len(), &first["result"]["nextCursor"]), (100, &json!("100")));
    let last = server.request(2, "tools/list", json!({"cursor": "200"}));
    assert_eq!((names(&last).len(), &last["result"]["nextCursor"]), (50, &Value::Null));
    let file = std::env::temp_dir().join(format!("toolwire-lists-{}", std::process::id()));
    std::fs::write(&file, r#"[{"name":"from_a_file"}]"#).expect("written");
    let mut server = LineClient::start(&["--behaviour", "lists-file", "--file", &file.display().to_string()]);
    assert_eq!(names(&server.request(1, "tools/list", json!({}))), ["from_a_file"]);
    std::fs::remove_file(&file).expect("the file exists");
    let mut server = LineClient::with_behaviour("cursor-loop");
    assert_eq!(server.request(1, "tools/list", json!({"cursor": "again"}))["result"]["nextCursor"], "again");
    let mut server = LineClient::with_behaviour("bad-tools");
    let tools = server.request(1, "tools/list", json!({}));
    assert!(names(&tools).ends_with(&["twice", "twice", "odd_content", "good_last"]));
    assert_eq!(server.call("odd_content", json!({}))["result"]["content"][0]["type"], "hologram");
    let mut server = LineClient::with_behaviour("changes-tools");
    let before = server.request(1, "tools/list", json!({}));
    server.call("swapped", json!({}));
    assert_eq!(server.message()["method"], "notifications/tools/list_changed");
    let after = server.request(1, "tools/list", json!({}));
    assert_eq!((names(&before), names(&after)), (vec!["swapped", "gone"], vec!["swapped", "new"]));
    assert_ne!(before["result"]["tools"][0], after["result"]["tools"][0]);
}

#[test]
fn responses_can_be_late_large_duplicated_or_preceded_by_notifications() {
    let mut server = LineClient::start(&["--behaviour", "responds-late", "--delay", "5"]);
    assert_eq!(text(&server.call("echo", json!({"text": "late"}))), "late");
    let mut server = LineClient::start(&["--behaviour", "huge-result", "--size", "3000000"]);
    assert_eq!(text(&server.call("echo", json!({}))).len(), 3_000_000);
    let mut server = LineClient::with_behaviour("duplicate-ids");
    assert_eq!(text(&server.call("echo", json!({"text": "first"}))), "first");
    let duplicate = server.message();
    assert_eq!((&duplicate["id"], text(&duplicate)), (&json!(7), "the second response"));
    assert_eq!(server.message()["id"], 987_654);
    let mut server = LineClient::start(&["--behaviour", "slow-progress", "--delay", "1", "--count", "2"]);
    let params = json!({"name": "echo", "_meta": {"progressToken": "token"}});
    assert_eq!(server.request(1, "tools/call", params)["params"]["progress"], 1);
    assert_eq!(server.message()["params"]["progressToken"], "token");
    assert_eq!(server.message()["id"], 1);
    let mut server = LineClient::start(&["--behaviour", "floods-notifications", "--count", "1000"]);
    let mut message = server.call("echo", json!({"text": "after the flood"}));
    let mut notification_count = 0;
    while message.get("method").is_some() {
        notification_count += 1;
        message = server.message();
    }
    assert_eq!((notification_count, text(&message)), (1000, "after the flood"));
}

#[test]
fn garbage_can_surround_every_message() {
    let mut server = LineClient::with_behaviour("garbage");
    server.send(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    server.stdin = None;
    let lines: Vec<Vec<u8>> = std::iter::from_fn(|| server.line()).collect();
    let is_response =
        |line: &Vec<u8>| serde_json::from_slice::<Value>(line).is_ok_and(|line| line.get("result").is_some());
    assert_eq!(lines.iter().position(is_response), Some(lines.len() / 2));
    assert!(lines.len() > 10);
}

#[test]
fn calls_are_counted_before_the_exit() {
    let file = std::env::temp_dir().join(format!("toolwire-counts-{}", std::process::id()));
    let path = file.display().to_string();
    let start = || LineClient::start(&["--behaviour", "counts", "--file", &path]);
    let mut server = start();
    server
        .send(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "count_write"}}));
    assert_eq!(server.line(), None);
    let response = start().call("count_write", json!({}));
    let lines = std::fs::read_to_string(&file).expect("the file was written");
    std::fs::remove_file(&file).expect("the file exists");
    assert_eq!((text(&response), lines.as_str()), ("2", "count_write\ncount_write\n"));
}

#[test]
fn a_server_can_send_requests_to_the_client() {
    let mut server = LineClient::with_behaviour("asks");
    let request = server.call("ask", json!({"method": "roots/list"}));
    assert_eq!(request["method"], "roots/list");
    server.send(json!({"jsonrpc": "2.0", "id": request["id"], "result": {"roots": []}}));
    let returned: Value = serde_json::from_str(text(&server.message())).expect("valid JSON");
    assert_eq!(returned["result"], json!({"roots": []}));
}

#[test]
fn a_process_can_ignore_signals_leave_children_or_close_stdout() {
    let mut server = LineClient::with_behaviour("ignores-sigterm");
    assert_eq!(server.request(1, "ping", json!({}))["id"], 1);
    let pid = server.child.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().expect("`kill` runs").success());
    assert_eq!(server.request(2, "ping", json!({}))["id"], 2);

    let mut server = LineClient::with_behaviour("forks-a-child");
    assert_eq!(server.request(1, "ping", json!({}))["id"], 1);
    // A new process gets its name and its environment shortly after it has started.
    let started = Instant::now();
    while sleeping_children().is_empty() {
        assert!(started.elapsed() < TIMEOUT, "the child does not start");
        std::thread::sleep(Duration::from_millis(1));
    }
    server.stdin = None;
    server.child.wait().expect("an exit status");
    assert_eq!(sleeping_children().len(), 1, "the child outlives its parent");

    let mut server = LineClient::with_behaviour("closes-stdout");
    server.send(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo"}}));
    assert_eq!(server.line(), None);
    assert!(server.child.try_wait().expect("an exit status").is_none());
}

#[test]
fn a_server_can_return_its_environment() {
    let mut server = LineClient::with_behaviour("prints-environment");
    let response = server.call("environment", json!({}));
    assert_eq!(response["result"]["structuredContent"]["variables"]["MARK"], mark().as_str());
}

#[test]
fn unread_stderr_does_not_block_calls() {
    let mut server = LineClient::start(&["--behaviour", "writes-stderr", "--count", "10"]);
    assert_eq!(text(&server.call("echo", json!({"text": "still running"}))), "still running");
}

#[test]
fn no_process_remains_after_a_server() {
    let mut server = LineClient::with_behaviour("ordinary");
    assert_eq!(server.request(1, "ping", json!({}))["id"], 1);
    assert_eq!(processes_with_variable("MARK", &mark()).len(), 1);
    server.stdin = None;
    server.child.wait().expect("an exit status");
    assert_eq!(processes_with_variable("MARK", &mark()), []);
}

/// Sends a message. Returns the status line, the headers and the body, up to the end of the connection.
fn post(server: &RunningServer, session: Option<&str>, message: Value) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("the server listens");
    let session = session.map(|session| format!("Mcp-Session-Id: {session}\r\n")).unwrap_or_default();
    let body = message.to_string();
    let request = format!("POST /mcp HTTP/1.1\r\n{session}Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).expect("the server reads the request");
    stream.shutdown(std::net::Shutdown::Write).expect("the connection is open");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("the server responds");
    response
}

#[track_caller]
fn check_http(behaviour: &str, status: &str, contains: &str) {
    let server = start_misbehaving_http(&["--behaviour", behaviour]);
    let initialized = post(&server, None, json!({"jsonrpc": "2.0", "id": 1, "method": "initialize"}));
    assert!(initialized.starts_with("HTTP/1.1 200 ") && initialized.contains("2025-06-18"), "{initialized}");
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "hello"}}});
    let response = post(&server, Some("session-0"), call);
    assert!(
        response.starts_with(&format!("HTTP/1.1 {status} ")) && response.contains(contains),
        "{response}"
    );
}

#[test]
fn http_servers_misbehave_at_the_first_call() {
    check_http("ordinary", "200", "hello");
    check_http("streams", "200", "data: {\"jsonrpc\":\"2.0\",\"id\":2,");
    check_http("status-500", "500", "the database is down");
    check_http("status-401", "401", "WWW-Authenticate: Bearer");
    check_http("session-lost", "404", "session not found");
    check_http("session-unknown", "400", "\"id\":null");
    check_http("cut-stream", "200", "\"id\":\r\n");
    check_http("html-body", "200", "<!DOCTYPE html>");
}

#[test]
fn a_lost_session_can_be_replaced() {
    let server = start_misbehaving_http(&["--behaviour", "session-lost"]);
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "echo"}});
    post(&server, None, json!({"jsonrpc": "2.0", "id": 1, "method": "initialize"}));
    assert!(post(&server, Some("session-0"), call.clone()).contains("session not found"));
    let reinitialized = post(&server, None, json!({"jsonrpc": "2.0", "id": 1, "method": "initialize"}));
    let session = reinitialized
        .split("Mcp-Session-Id: ")
        .nth(1)
        .and_then(|rest| rest.lines().next())
        .expect("the response has a session id");
    assert!(post(&server, Some(session), call).starts_with("HTTP/1.1 200 "));
}

#[test]
fn http_sse_responds_on_its_stream() {
    let server = start_misbehaving_http(&["--behaviour", "sse"]);
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("the server listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("the connection is open");
    stream.write_all(b"GET /sse HTTP/1.1\r\n\r\n").expect("the server reads the request");
    let mut lines = BufReader::new(stream).lines();
    let mut data = || {
        let line = lines
            .find_map(|line| Some(line.expect("the stream can be read").strip_prefix("data: ")?.to_owned()));
        line.expect("the stream continues")
    };
    assert_eq!(data(), "/messages?session=0");
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let request =
        format!("POST /messages?session=0 HTTP/1.1\r\nContent-Length: {}\r\n\r\n{ping}", ping.len());
    let mut connection = TcpStream::connect(("127.0.0.1", server.port())).expect("the server listens");
    connection.write_all(request.as_bytes()).expect("the server reads the request");
    assert_eq!(data(), r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
}

#[test]
fn help_and_errors_describe_the_options() {
    let help = Command::new(misbehaving_server()).arg("--help").output().expect("the server runs");
    let help = String::from_utf8(help.stdout).expect("the help is UTF-8");
    assert!(help.contains("exits-mid-call") && help.contains("cut-stream"), "{help}");
    let rejected =
        Command::new(misbehaving_server()).args(["--behaviour", "polite"]).output().expect("the server runs");
    assert_eq!(
        String::from_utf8_lossy(&rejected.stderr).lines().next(),
        Some("error: unknown behaviour `polite`")
    );
}
