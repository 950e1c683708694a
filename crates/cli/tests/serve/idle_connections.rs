//! Many connections that send nothing: requests are still served, and the number of connections has a limit.
//! The number of the rule is that of `docs/security-tests.md`.
//!
//! `cargo test --workspace --test serve -- --nocapture ten_thousand` prints the memory of an idle connection,
//! for the program of this build or the one in `TOOLWIRE_BINARY`.

#![cfg(target_os = "linux")]

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use toolwire_testkit::provider::{Api, FakeProvider};
use toolwire_testkit::{http_client, resident_bytes};

use crate::mcp_client::McpClient;
use crate::{Served, command, folder, serve_with, text_script, with_provider};

const CONNECTIONS: usize = 10_000;
/// The files of this process: the connections, and some for the requests and the other tests.
const FILES: u64 = 12_000;
/// The number of connections that are opened at the same time.
const AT_ONCE: usize = 64;

/// The timeout for events that are expected to happen.
const TEST_TIMEOUT: Duration = Duration::from_secs(300);

/// The time in which something that must not happen would probably happen.
const ABSENCE: Duration = Duration::from_millis(500);

/// Starts a gateway that closes no idle connection during the test.
async fn gateway(name: &str, limits: Value) -> (FakeProvider, Command) {
    let provider = FakeProvider::start(Api::OpenAiChat, text_script()).await;
    let mut config = with_provider(&provider, "openai");
    config["mcpServers"] =
        json!({"demo": {"command": env!("CARGO_BIN_EXE_toolwire"), "args": ["demo-server"]}});
    config["toolwire"]["gateway"]["limits"] = json!({"headerTimeout": 3_600, "keepAliveTimeout": 3_600});
    for (key, value) in limits.as_object().unwrap() {
        config["toolwire"]["gateway"]["limits"][key] = value.clone();
    }
    (provider, command(&folder(name, Some(&config)), &["--listen", "127.0.0.1:0"]))
}

/// Adds the arguments, the environment and the folder of another command.
fn like(mut command: Command, other: &Command) -> Command {
    command.args(other.get_args()).current_dir(other.get_current_dir().unwrap());
    for (name, value) in other.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

fn address(served: &Served) -> SocketAddr {
    served.url.strip_prefix("http://").unwrap().parse().unwrap()
}

/// Connects from one of four addresses of this machine, so that they have enough ports.
async fn connect(server: SocketAddr, number: usize) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    let last = 2 + u8::try_from(number % 4).unwrap();
    socket.bind(([127, 0, 0, last], 0).into()).unwrap();
    tokio::time::timeout(TEST_TIMEOUT, socket.connect(server)).await.unwrap().unwrap()
}

async fn send(stream: &mut TcpStream, server: SocketAddr) {
    let request = format!("GET /healthz HTTP/1.1\r\nhost: {server}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
}

/// Reads the response to [`send`].
async fn receive(stream: &mut TcpStream) {
    let mut received = Vec::new();
    while !received.ends_with(b"}") {
        let read = tokio::time::timeout(TEST_TIMEOUT, stream.read_buf(&mut received)).await.unwrap();
        assert_ne!(read.unwrap(), 0, "the connection is open: {}", String::from_utf8_lossy(&received));
    }
    assert!(received.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&received));
}

/// Opens idle connections: every second one has had a response, the others have sent nothing.
async fn open(server: SocketAddr, count: usize) -> Vec<TcpStream> {
    let open = async |number: usize| {
        let mut stream = connect(server, number).await;
        if number.is_multiple_of(2) {
            send(&mut stream, server).await;
            receive(&mut stream).await;
        }
        stream
    };
    stream::iter(0..count).map(open).buffer_unordered(AT_ONCE).collect().await
}

/// Returns the number of open files of the gateway, which only the process itself may read.
async fn open_files(served: &Served) -> usize {
    let response = http_client().get(format!("{}/metrics", served.url)).send().await.unwrap();
    let metrics = response.text().await.unwrap();
    let line = metrics.lines().find_map(|line| line.strip_prefix("process_open_fds ")).unwrap();
    line.trim().parse::<f64>().unwrap() as usize
}

async fn until_open_files(served: &Served, condition: impl Fn(usize) -> bool) {
    let waiting = async {
        while !condition(open_files(served).await) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, waiting).await.expect("the condition holds at last");
}

/// A request to a model, a call of a tool and a page, each in a new connection.
async fn check_requests(served: &Served) {
    let body = json!({"model": "up", "messages": [{"role": "user", "content": "hi"}]});
    let response = http_client().post(format!("{}/v1/chat/completions", served.url)).json(&body).send();
    let response = tokio::time::timeout(TEST_TIMEOUT, response).await.unwrap().unwrap();
    assert_eq!(response.status(), 200);
    assert!(response.text().await.unwrap().contains("Hello from the provider."));
    let client = McpClient::connect(&served.url, None, "2025-11-25").await;
    let calls =
        json!({"name": "calculate", "arguments": {"operator": "add", "argument1": 25, "argument2": 17}});
    let reply = client.send(&client.message("tools/call", calls)).await;
    assert!(reply.status == 200 && reply.body.contains("42"), "{}", reply.body);
    let page = http_client().get(&served.url).header("accept", "text/html").send().await.unwrap();
    assert_eq!(page.status(), 200);
}

/// Security rule 19: idle connections do not keep others out, and when they are closed, the gateway accepts
/// as many again.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_idle_connections_delay_nobody() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|files| files < FILES) {
        let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(FILES), maximum });
        assert!(raised.is_ok(), "this test needs {FILES} open files, and the limit is {maximum:?}");
    }
    let (_provider, own) = gateway("idle-connections", json!({})).await;
    let program = std::env::var_os("TOOLWIRE_BINARY").unwrap_or_else(|| own.get_program().to_owned());
    let served = serve_with(&mut like(Command::new(program), &own));
    check_requests(&served).await;
    let (files, memory) = (open_files(&served).await, resident_bytes(served.child.id()).unwrap());
    for _ in 0..2 {
        let idle = open(address(&served), CONNECTIONS).await;
        // Files of earlier requests may have been counted, and be closed by now.
        until_open_files(&served, |now| now >= files + CONNECTIONS - CONNECTIONS / 100).await;
        let added = resident_bytes(served.child.id()).unwrap().saturating_sub(memory);
        println!(
            "{CONNECTIONS} idle connections: {:.1} MB, {:.1} KB for each",
            added as f64 / 1e6,
            added as f64 / 1e3 / CONNECTIONS as f64
        );
        check_requests(&served).await;
        drop(idle);
        until_open_files(&served, |now| now < files + CONNECTIONS / 100).await;
        check_requests(&served).await;
    }
}

/// Above the maximum number of connections, a new one waits until another one ends.
#[tokio::test]
async fn connections_above_the_limit_wait() {
    const LIMIT: usize = 8;
    let (_provider, mut command) = gateway("connection-limit", json!({"connections": LIMIT})).await;
    let served = serve_with(&mut command);
    let server = address(&served);
    let mut idle = Vec::new();
    for number in 0..LIMIT {
        let mut stream = connect(server, number).await;
        send(&mut stream, server).await;
        receive(&mut stream).await;
        idle.push(stream);
    }
    let mut waiting = connect(server, LIMIT).await;
    send(&mut waiting, server).await;
    let answered = tokio::time::timeout(ABSENCE, waiting.readable()).await.is_ok();
    assert!(!answered, "the maximum is reached");
    // The connections that are open are still served.
    send(&mut idle[0], server).await;
    receive(&mut idle[0]).await;
    idle.pop();
    receive(&mut waiting).await;
    drop((idle, waiting));
    check_requests(&served).await;
}

/// If the process may not open enough files for all connections, fewer are accepted, so that requests still
/// have the files that they need.
#[tokio::test]
async fn idle_connections_leave_files_for_requests() {
    const FILES: usize = 128;
    let (_provider, inner) = gateway("idle-connections-files", json!({})).await;
    let shell = ["-c", &format!("ulimit -n {FILES} && exec \"$0\" \"$@\"")];
    let mut limited = Command::new("sh");
    limited.args(shell).arg(inner.get_program());
    let mut limited = like(limited, &inner);
    let served = serve_with(&mut limited);
    let expected =
        "note: this process may open 128 files, so the maximum number of connections is 64, not 16384";
    assert!(served.lines.iter().any(|line| line == expected), "{:?}", served.lines);
    let server = address(&served);
    let mut kept = connect(server, 0).await;
    send(&mut kept, server).await;
    receive(&mut kept).await;
    // More than the process may open, with its other files; some of them wait.
    let idle: Vec<TcpStream> = stream::iter(0..FILES).then(|number| connect(server, number)).collect().await;
    let body = json!({"model": "up", "messages": [{"role": "user", "content": "hi"}]}).to_string();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {server}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    kept.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    tokio::time::timeout(TEST_TIMEOUT, kept.read_to_string(&mut response)).await.unwrap().unwrap();
    assert!(response.contains("Hello from the provider."), "{response}");
    drop(idle);
    check_requests(&served).await;
}
