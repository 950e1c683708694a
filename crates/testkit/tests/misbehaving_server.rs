//! The server that misbehaves does so as its `--help` says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use toolwire_testkit::{RunningServer, descendants, marked, misbehaving_http, misbehaving_server, wait_gone};

const SOON: Duration = Duration::from_secs(20);

/// The server on stdio, spoken to line by line.
struct Spoken {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Spoken {
    fn start(arguments: &[&str]) -> Spoken {
        let mut child = Command::new(misbehaving_server())
            .args(arguments)
            .env("MARK", mark())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it was just built");
        Spoken {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().expect("it was asked for")),
            child,
        }
    }

    fn behaving(behaviour: &str) -> Spoken {
        Spoken::start(&["--behaviour", behaviour])
    }

    fn say(&mut self, message: Value) {
        let stdin = self.stdin.as_mut().expect("it is open");
        stdin.write_all(format!("{message}\n").as_bytes()).expect("it reads");
    }

    /// The next line, whatever it is; nothing at the end.
    fn line(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        self.stdout.read_until(b'\n', &mut line).expect("a pipe can be read");
        (!line.is_empty()).then_some(line)
    }

    fn message(&mut self) -> Value {
        serde_json::from_slice(&self.line().expect("it answers")).expect("it is JSON")
    }

    fn request(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.say(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        self.message()
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request(7, "tools/call", json!({"name": tool, "arguments": arguments}))
    }

    fn call_and_hear_nothing(&mut self) -> Option<i32> {
        self.say(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo"}}));
        assert_eq!(self.line(), None);
        self.child.wait().expect("it is our child").code()
    }
}

impl Drop for Spoken {
    fn drop(&mut self) {
        for process in marked("MARK", &mark()).iter().filter(|process| process.name == "sleep") {
            let _ = Command::new("kill").arg("-9").arg(process.pid.to_string()).status();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One per test, so that what each leaves behind is told apart.
fn mark() -> String {
    format!("{}-{}", std::process::id(), std::thread::current().name().unwrap_or("main"))
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().expect("it answers with text")
}

fn names(answer: &Value) -> Vec<&str> {
    let tools = answer["result"]["tools"].as_array().expect("it lists tools");
    tools.iter().filter_map(|tool| tool["name"].as_str()).collect()
}

#[test]
fn an_ordinary_server_answers() {
    let mut server = Spoken::behaving("ordinary");
    let initialized = server.request(1, "initialize", json!({"protocolVersion": "2025-06-18"}));
    assert_eq!(initialized["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(names(&server.request(2, "tools/list", json!({}))), ["echo", "wait", "fail", "refuse"]);
    assert_eq!(text(&server.call("echo", json!({"text": "hello"}))), "hello");
    assert_eq!(text(&server.call("wait", json!({"milliseconds": 1}))), "wait was called");
    assert_eq!(server.call("fail", json!({}))["result"]["isError"], true);
    assert_eq!(server.call("refuse", json!({}))["error"]["code"], -32602);
    assert_eq!(server.request(3, "server/discover", json!({}))["error"]["code"], -32601);
    server.stdin = None;
    assert_eq!(server.child.wait().expect("it is our child").code(), Some(0));
}

#[test]
fn what_it_does_right_can_come_late_or_without_hints() {
    let mut server = Spoken::start(&["--behaviour", "starts-late", "--delay", "5"]);
    assert_eq!(text(&server.call("echo", json!({"text": "up"}))), "up");
    let hints = |behaviour: &str| {
        let tools = Spoken::behaving(behaviour).request(1, "tools/list", json!({}));
        tools["result"]["tools"][0]["annotations"].clone()
    };
    assert_eq!((hints("ordinary"), hints("unhinted")), (json!({"readOnlyHint": true}), json!({})));
}

#[test]
fn it_exits_where_it_is_told_to() {
    let mut server = Spoken::behaving("exits-at-once");
    assert_eq!(server.line(), None);
    assert_eq!(server.child.wait().expect("it is our child").code(), Some(3));
    assert_eq!(Spoken::behaving("exits-mid-call").call_and_hear_nothing(), Some(4));
    let mut server = Spoken::behaving("exits-mid-answer");
    server.say(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo"}}));
    let half = server.line().expect("it starts to answer");
    assert!(serde_json::from_slice::<Value>(&half).is_err());
    assert_eq!(server.line(), None);
}

#[test]
fn it_is_silent_where_it_is_told_to() {
    let mut server = Spoken::behaving("never-initializes");
    server.say(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize"}));
    server.stdin = None;
    assert_eq!(server.line(), None);
    let mut server = Spoken::behaving("ignores-unknown");
    server.say(json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover"}));
    assert_eq!(server.request(2, "ping", json!({}))["id"], 2);
    let mut server = Spoken::behaving("never-answers");
    server.say(json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "never"}}));
    server.say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}));
    assert_eq!(text(&server.call("cancelled", json!({}))), "[5]");
}

#[test]
fn its_lists_are_as_wrong_as_they_are_told_to_be() {
    let mut server = Spoken::start(&["--behaviour", "many-tools", "--count", "250"]);
    let first = server.request(1, "tools/list", json!({}));
    assert_eq!((names(&first).len(), &first["result"]["nextCursor"]), (100, &json!("100")));
    let last = server.request(2, "tools/list", json!({"cursor": "200"}));
    assert_eq!((names(&last).len(), &last["result"]["nextCursor"]), (50, &Value::Null));
    let file = std::env::temp_dir().join(format!("toolwire-lists-{}", std::process::id()));
    std::fs::write(&file, r#"[{"name":"from_a_file"}]"#).expect("a file can be written");
    let mut server = Spoken::start(&["--behaviour", "lists-file", "--file", &file.display().to_string()]);
    assert_eq!(names(&server.request(1, "tools/list", json!({}))), ["from_a_file"]);
    std::fs::remove_file(&file).expect("it is there");
    let mut server = Spoken::behaving("cursor-loop");
    assert_eq!(server.request(1, "tools/list", json!({"cursor": "again"}))["result"]["nextCursor"], "again");
    let mut server = Spoken::behaving("bad-tools");
    let tools = server.request(1, "tools/list", json!({}));
    assert!(names(&tools).ends_with(&["twice", "twice", "odd_content", "good_last"]));
    assert_eq!(server.call("odd_content", json!({}))["result"]["content"][0]["type"], "hologram");
    let mut server = Spoken::behaving("changes-tools");
    let before = server.request(1, "tools/list", json!({}));
    server.call("swapped", json!({}));
    assert_eq!(server.message()["method"], "notifications/tools/list_changed");
    let after = server.request(1, "tools/list", json!({}));
    assert_eq!((names(&before), names(&after)), (vec!["swapped", "gone"], vec!["swapped", "new"]));
    assert_ne!(before["result"]["tools"][0], after["result"]["tools"][0]);
}

#[test]
fn its_answers_come_late_large_twice_or_after_much_else() {
    let mut server = Spoken::start(&["--behaviour", "answers-late", "--delay", "5"]);
    assert_eq!(text(&server.call("echo", json!({"text": "late"}))), "late");
    let mut server = Spoken::start(&["--behaviour", "huge-result", "--size", "3000000"]);
    assert_eq!(text(&server.call("echo", json!({}))).len(), 3_000_000);
    let mut server = Spoken::behaving("duplicate-ids");
    assert_eq!(text(&server.call("echo", json!({"text": "first"}))), "first");
    let again = server.message();
    assert_eq!((&again["id"], text(&again)), (&json!(7), "the second answer"));
    assert_eq!(server.message()["id"], 987_654);
    let mut server = Spoken::start(&["--behaviour", "slow-progress", "--delay", "1", "--count", "2"]);
    let params = json!({"name": "echo", "_meta": {"progressToken": "token"}});
    assert_eq!(server.request(1, "tools/call", params)["params"]["progress"], 1);
    assert_eq!(server.message()["params"]["progressToken"], "token");
    assert_eq!(server.message()["id"], 1);
    let mut server = Spoken::start(&["--behaviour", "floods-notifications", "--count", "1000"]);
    let mut message = server.call("echo", json!({"text": "after the flood"}));
    let mut flood = 0;
    while message.get("method").is_some() {
        flood += 1;
        message = server.message();
    }
    assert_eq!((flood, text(&message)), (1000, "after the flood"));
}

#[test]
fn garbage_surrounds_every_message() {
    let mut server = Spoken::behaving("garbage");
    server.say(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    server.stdin = None;
    let lines: Vec<Vec<u8>> = std::iter::from_fn(|| server.line()).collect();
    let is_answer =
        |line: &Vec<u8>| serde_json::from_slice::<Value>(line).is_ok_and(|line| line.get("result").is_some());
    assert_eq!(lines.iter().position(is_answer), Some(lines.len() / 2));
    assert!(lines.len() > 10);
}

#[test]
fn what_is_counted_is_counted_before_it_dies() {
    let file = std::env::temp_dir().join(format!("toolwire-counts-{}", std::process::id()));
    let path = file.display().to_string();
    let start = || Spoken::start(&["--behaviour", "counts", "--file", &path]);
    let mut server = start();
    server.say(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "count_write"}}));
    assert_eq!(server.line(), None);
    let answer = start().call("count_write", json!({}));
    let lines = std::fs::read_to_string(&file).expect("it was written");
    std::fs::remove_file(&file).expect("it is there");
    assert_eq!((text(&answer), lines.as_str()), ("2", "count_write\ncount_write\n"));
}

#[test]
fn it_asks_the_client_and_tells_what_it_heard() {
    let mut server = Spoken::behaving("asks");
    let asked = server.call("ask", json!({"method": "roots/list"}));
    assert_eq!(asked["method"], "roots/list");
    server.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}}));
    let heard: Value = serde_json::from_str(text(&server.message())).expect("it tells JSON");
    assert_eq!(heard["result"], json!({"roots": []}));
}

#[test]
fn its_process_is_as_stubborn_as_it_is_told_to_be() {
    let mut server = Spoken::behaving("ignores-sigterm");
    assert_eq!(server.request(1, "ping", json!({}))["id"], 1);
    let pid = server.child.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().expect("there is a kill").success());
    assert_eq!(server.request(2, "ping", json!({}))["id"], 2);

    let mut server = Spoken::behaving("forks-a-child");
    assert_eq!(server.request(1, "ping", json!({}))["id"], 1);
    let children: Vec<String> = descendants(server.child.id()).into_iter().map(|child| child.name).collect();
    assert_eq!(children, ["sleep"]);
    server.stdin = None;
    server.child.wait().expect("it is our child");
    let left = wait_gone(
        || marked("MARK", &mark()).into_iter().filter(|process| process.name == "sleep").collect(),
        Duration::ZERO,
    );
    assert_eq!(left.expect_err("it outlives its parent").len(), 1);

    let mut server = Spoken::behaving("closes-stdout");
    server.say(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo"}}));
    assert_eq!(server.line(), None);
    assert!(server.child.try_wait().expect("it is our child").is_none());
}

#[test]
fn it_tells_what_it_was_started_with() {
    let mut server = Spoken::behaving("prints-environment");
    let seen = server.call("environment", json!({}));
    assert_eq!(seen["result"]["structuredContent"]["variables"]["MARK"], mark().as_str());
}

#[test]
fn stderr_that_nobody_reads_is_its_own_trouble() {
    let mut server = Spoken::start(&["--behaviour", "writes-stderr", "--count", "10"]);
    assert_eq!(text(&server.call("echo", json!({"text": "still here"}))), "still here");
}

#[test]
fn nothing_is_left_of_a_server_that_ended() {
    let mut server = Spoken::behaving("ordinary");
    assert_eq!(server.request(1, "ping", json!({}))["id"], 1);
    assert_eq!(marked("MARK", &mark()).len(), 1);
    server.stdin = None;
    server.child.wait().expect("it is our child");
    assert_eq!(wait_gone(|| marked("MARK", &mark()), SOON), Ok(()));
}

/// Status line, headers and body of the answer, up to where the connection ends.
fn exchange(server: &RunningServer, session: Option<&str>, message: Value) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("it listens");
    let session = session.map(|session| format!("Mcp-Session-Id: {session}\r\n")).unwrap_or_default();
    let body = message.to_string();
    let request = format!("POST /mcp HTTP/1.1\r\n{session}Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).expect("it reads");
    stream.shutdown(std::net::Shutdown::Write).expect("it is open");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[track_caller]
fn check_http(behaviour: &str, status: &str, contains: &str) {
    let server = misbehaving_http(&["--behaviour", behaviour]);
    let initialized = exchange(&server, None, json!({"jsonrpc": "2.0", "id": 1, "method": "initialize"}));
    assert!(initialized.starts_with("HTTP/1.1 200 ") && initialized.contains("2025-06-18"), "{initialized}");
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "heard"}}});
    let answer = exchange(&server, Some("session-0"), call);
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(contains), "{answer}");
}

#[test]
fn over_http_it_misbehaves_at_the_first_call() {
    check_http("ordinary", "200", "heard");
    check_http("streams", "200", "data: {\"jsonrpc\":\"2.0\",\"id\":2,");
    check_http("status-500", "500", "the database is down");
    check_http("status-401", "401", "WWW-Authenticate: Bearer");
    check_http("session-gone", "404", "session not found");
    check_http("session-unknown", "400", "\"id\":null");
    check_http("cut-stream", "200", "\"id\":\r\n");
    check_http("html-body", "200", "<!DOCTYPE html>");
}

#[test]
fn a_session_that_is_gone_can_be_had_anew() {
    let server = misbehaving_http(&["--behaviour", "session-gone"]);
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "echo"}});
    exchange(&server, None, json!({"jsonrpc": "2.0", "id": 1, "method": "initialize"}));
    assert!(exchange(&server, Some("session-0"), call.clone()).contains("session not found"));
    let again = exchange(&server, None, json!({"jsonrpc": "2.0", "id": 1, "method": "initialize"}));
    let session = again
        .split("Mcp-Session-Id: ")
        .nth(1)
        .and_then(|rest| rest.lines().next())
        .expect("it gives a session");
    assert!(exchange(&server, Some(session), call).starts_with("HTTP/1.1 200 "));
}

#[test]
fn the_older_way_answers_on_its_stream() {
    let server = misbehaving_http(&["--behaviour", "sse"]);
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("it listens");
    stream.set_read_timeout(Some(SOON)).expect("it is open");
    stream.write_all(b"GET /sse HTTP/1.1\r\n\r\n").expect("it reads");
    let mut lines = BufReader::new(stream).lines();
    let mut data = || {
        let line = lines.find_map(|line| Some(line.expect("it writes").strip_prefix("data: ")?.to_owned()));
        line.expect("the stream goes on")
    };
    assert_eq!(data(), "/messages?session=0");
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let request =
        format!("POST /messages?session=0 HTTP/1.1\r\nContent-Length: {}\r\n\r\n{ping}", ping.len());
    let mut post = TcpStream::connect(("127.0.0.1", server.port())).expect("it listens");
    post.write_all(request.as_bytes()).expect("it reads");
    assert_eq!(data(), r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
}

#[test]
fn it_explains_itself() {
    let help = Command::new(misbehaving_server()).arg("--help").output().expect("it runs");
    let help = String::from_utf8(help.stdout).expect("it is text");
    assert!(help.contains("exits-mid-call") && help.contains("cut-stream"), "{help}");
    let refused =
        Command::new(misbehaving_server()).args(["--behaviour", "polite"]).output().expect("it runs");
    assert_eq!(
        String::from_utf8_lossy(&refused.stderr).lines().next(),
        Some("error: no behaviour is named `polite`")
    );
}
