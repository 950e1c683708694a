//! MCP servers that requests name by URL, with real connections. The numbers are those of
//! `docs/security-tests.md`.

use std::io::Read as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use toolwire_testkit::provider::{Api, FakeProvider, ModelOutput, ReceivedRequest, Script, ScriptedResponse};
use toolwire_testkit::{http_client, start_misbehaving_http};
use toolwire_toolkit::transport::{HttpOptions, HttpServer, serve_http};
use toolwire_toolkit::{Server, tool};

use crate::{Served, command, folder, serve_with, with_provider};

const KEYS: [&str; 2] = ["key-one-0123456789abcdef0123456789", "key-two-0123456789abcdef0123456789"];
const TOKEN: &str = "planted-token-0123456789";
const QUERY: &str = "planted-query-0123456789";

/// Return the temperature of a place.
#[tool(read_only)]
async fn temperature(
    /// The name of the place.
    place: String,
) -> String {
    format!("20 degrees in {place}")
}

const RESULT: &str = r#"{"success":true,"value":"20 degrees in Oslo"}"#;

async fn mcp_server() -> HttpServer {
    let server = Server::builder("weather").environment::<&str, &str>([]).tool(temperature).build().unwrap();
    serve_http(server, SocketAddr::from(([127, 0, 0, 1], 0)), HttpOptions::default()).await.unwrap()
}

/// A listener that records what it receives, and passes it on if it has a target.
struct Recorder {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    received: Arc<Mutex<Vec<u8>>>,
}

impl Recorder {
    async fn start(target: Option<SocketAddr>) -> Recorder {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, received) = (Arc::<AtomicUsize>::default(), Arc::<Mutex<Vec<u8>>>::default());
        let (count, bytes) = (connections.clone(), received.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let Some(target) = target else { continue };
                let server = TcpStream::connect(target).await.unwrap();
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
                let bytes = bytes.clone();
                tokio::spawn(async move {
                    let mut part = [0; 4096];
                    while let Ok(length @ 1..) = from_client.read(&mut part).await {
                        bytes.lock().unwrap().extend_from_slice(&part[..length]);
                        if to_server.write_all(&part[..length]).await.is_err() {
                            break;
                        }
                    }
                });
            }
        });
        Recorder { address, connections, received }
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    fn received(&self) -> String {
        String::from_utf8_lossy(&self.received.lock().unwrap()).into_owned()
    }

    /// The number of times that a client introduced itself.
    fn handshakes(&self) -> usize {
        self.received().matches("\"method\":\"server/discover\"").count()
    }
}

/// A model that calls the tool, and then repeats its result.
fn calling(request: &ReceivedRequest) -> ScriptedResponse {
    let input = request.body["input"].as_array().cloned().unwrap_or_default();
    let results: Vec<&Value> = input.iter().filter(|item| item["type"] == "function_call_output").collect();
    let tools = request.body["tools"].to_string();
    let offered =
        ["weather_temperature", "echo"].into_iter().find(|name| tools.contains(&format!("\"{name}\"")));
    ScriptedResponse::Output(match (results.last(), offered) {
        (Some(result), _) => ModelOutput::text(&format!("result: {}", result["output"])),
        (None, Some("echo")) => ModelOutput::default().call("c1", "echo", r#"{"text":"hi"}"#),
        (None, Some(name)) => ModelOutput::default().call("c1", name, r#"{"place":"Oslo"}"#),
        (None, None) => ModelOutput::text("there is no such tool"),
    })
}

/// A gateway with the rest of its log, which is read at once: a full pipe would block the gateway.
struct Logged {
    served: Served,
    log: std::thread::JoinHandle<String>,
}

impl Logged {
    /// Stops the gateway, and returns its log.
    fn stop(self) -> String {
        drop(self.served);
        self.log.join().unwrap()
    }
}

async fn start(name: &str, gateway: Value) -> (FakeProvider, Logged) {
    let provider = FakeProvider::start(Api::Responses, Script::from_fn(calling)).await;
    let mut config = with_provider(&provider, "responses");
    config["toolwire"]["gateway"] = gateway;
    config["toolwire"]["gateway"]["keys"] = json!({"one": KEYS[0], "two": KEYS[1]});
    let folder = folder(&format!("request-servers-{name}"), Some(&config));
    let mut command = command(&folder, &["--listen", "127.0.0.1:0"]);
    // Security rule 9: proxies of the environment are not used for servers of requests.
    command.env("HTTP_PROXY", "http://127.0.0.1:1").env("NO_PROXY", "").env("TOOLWIRE_LOG", "trace");
    let mut served = serve_with(command.env_remove("http_proxy").env_remove("no_proxy"));
    let mut stderr = served.stderr.take().unwrap();
    let log = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stderr.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    (provider, Logged { served, log })
}

fn loopback() -> Value {
    json!({"allowedHosts": ["127.0.0.1:*", "localhost:*"], "allowedAddresses": ["127.0.0.0/8", "::1"]})
}

async fn respond(gateway: &Logged, key: &str, input: Value, tool: Value) -> (u16, Value) {
    let mut entry = json!({"type": "mcp", "server_label": "weather", "require_approval": "never"});
    entry.as_object_mut().unwrap().extend(tool.as_object().unwrap().clone());
    let body = json!({"model": "up", "input": input, "tools": [entry]});
    let request = http_client().post(format!("{}/v1/responses", gateway.served.url)).header("x-api-key", key);
    let response = request.json(&body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

fn types(response: &Value) -> Vec<&str> {
    let items = response["output"].as_array().unwrap_or_else(|| panic!("{response}"));
    items.iter().map(|item| item["type"].as_str().unwrap()).collect()
}

/// The token reaches the server, and nothing else: not the provider, the response, or the log.
#[tokio::test]
async fn a_server_of_a_request_is_called_with_its_token() {
    let mcp = mcp_server().await;
    let recorder = Recorder::start(Some(mcp.address())).await;
    let (provider, served) = start("called", loopback()).await;
    let headers = json!({"X-Team": "planted-header-0123456789"});
    let tool = json!({"server_url": recorder.url(), "authorization": TOKEN, "headers": headers});
    let (status, response) = respond(&served, KEYS[0], json!("hi"), tool).await;
    assert_eq!(status, 200, "{response}");
    assert_eq!(types(&response), ["mcp_list_tools", "mcp_call", "message"]);
    assert_eq!(response["output"][1]["output"], RESULT, "{response}");
    let received = recorder.received();
    assert!(received.contains(&format!("authorization: Bearer {TOKEN}")), "{received}");
    assert!(received.contains("x-team: planted-header-0123456789"), "{received}");
    assert!(!received.contains(KEYS[0]), "the client's key stays here");
    assert!(!response.to_string().contains("planted"), "{response}");
    assert_eq!(provider.rejections(), []);
    for request in provider.requests() {
        let text = format!("{:?} {}", request.headers, String::from_utf8_lossy(&request.bytes));
        assert!(!text.contains("planted"), "{text}");
    }
    let text = served.stop();
    assert!(text.contains("TRACE") && !text.contains("planted"), "{text}");
}

/// A call that waits for approval runs with the credentials of the first request.
#[tokio::test]
async fn a_call_of_a_server_of_a_request_waits_for_approval() {
    let mcp = mcp_server().await;
    let recorder = Recorder::start(Some(mcp.address())).await;
    let (_provider, served) = start("approval", loopback()).await;
    let tool = json!({"server_url": recorder.url(), "authorization": TOKEN, "require_approval": "always"});
    let (_, asked) = respond(&served, KEYS[0], json!("hi"), tool.clone()).await;
    assert_eq!(types(&asked), ["mcp_list_tools", "mcp_approval_request"]);
    let calls = || recorder.received().matches("\"method\":\"tools/call\"").count();
    assert_eq!(calls(), 0);
    let id = &asked["output"][1]["id"];
    let approval = json!([{"role": "user", "content": "hi"}, {"type": "mcp_approval_response", "approval_request_id": id, "approve": true}]);
    // Another client cannot approve it.
    let (status, error) = respond(&served, KEYS[1], approval.clone(), tool.clone()).await;
    assert_eq!((status, calls()), (400, 0), "{error}");
    let (_, response) = respond(&served, KEYS[0], approval, tool).await;
    assert_eq!(types(&response), ["mcp_call", "message"]);
    assert_eq!((&response["output"][0]["output"], calls()), (&json!(RESULT), 1));
}

/// The connection is used again by the same client with the same credentials only.
#[tokio::test]
async fn clients_do_not_share_connections() {
    let mcp = mcp_server().await;
    let recorder = Recorder::start(Some(mcp.address())).await;
    let (_provider, served) = start("shared", loopback()).await;
    let tool = |token: &str| json!({"server_url": recorder.url(), "authorization": token});
    for (key, token, handshakes) in [
        (KEYS[0], TOKEN, 1),
        (KEYS[0], TOKEN, 1),
        (KEYS[1], TOKEN, 2),
        (KEYS[0], "other-token", 3),
        (KEYS[1], TOKEN, 3),
    ] {
        let (status, response) = respond(&served, key, json!("hi"), tool(token)).await;
        assert_eq!((status, recorder.handshakes()), (200, handshakes), "{response}");
    }
}

/// Security rules 10 and 11: by default no URL is connected to; addresses that are not public need to be
/// allowed, whatever their name is.
#[tokio::test]
async fn other_urls_are_not_connected_to() {
    let canary = Recorder::start(None).await;
    let port = canary.address.port();
    let none = json!({});
    let names = json!({"allowedHosts": ["127.0.0.1:*", "localhost:*", "*.localhost:*", "mcp.example.com"]});
    let ranges = json!({"allowedHosts": ["localhost:*"], "allowedAddresses": ["10.0.0.0/8"]});
    let any = json!({"allowedHosts": ["*:*"]});
    for (name, gateway, urls) in [
        (
            "none",
            none,
            vec![(format!("http://127.0.0.1:{port}/mcp"), 403), (format!("https://localhost:{port}/"), 403)],
        ),
        (
            "names",
            names,
            vec![
                // An allowed name whose address is not public.
                (format!("https://localhost:{port}/mcp"), 424),
                (format!("https://127.0.0.1:{port}/mcp"), 403),
                (format!("http://127.0.0.1:{port}/mcp"), 403),
                (format!("http://localhost:{port}/mcp"), 403),
                ("http://mcp.example.com/mcp".to_owned(), 403),
                (format!("https://user:planted-password@localhost:{port}/mcp"), 403),
                (format!("https://localhost:{port}\\@mcp.example.com/mcp"), 403),
                (format!("ftp://localhost:{port}/mcp"), 403),
                ("file:///etc/passwd".to_owned(), 403),
            ],
        ),
        (
            "ranges",
            ranges,
            vec![
                (format!("https://localhost:{port}/mcp"), 424),
                (format!("http://localhost:{port}/mcp"), 403),
            ],
        ),
        (
            "any",
            any,
            ["127.1", "0x7f000001", "2130706433", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0", "localhost."]
                .map(|host| {
                    (format!("https://{host}:{port}/mcp"), if host == "localhost." { 424 } else { 403 })
                })
                .to_vec(),
        ),
    ] {
        let (provider, served) = start(&format!("refused-{name}"), gateway).await;
        for (url, expected) in urls {
            let tool = json!({"server_url": url, "authorization": TOKEN});
            let (status, error) = respond(&served, KEYS[0], json!("hi"), tool).await;
            assert_eq!(status, expected, "{name} {url}: {error}");
            assert!(!error.to_string().contains("planted"), "{error}");
        }
        assert_eq!(provider.requests(), [], "the model is not asked");
    }
    assert_eq!(canary.connections(), 0);
}

/// A redirect is not followed, and the token stays with the server of the request.
#[tokio::test]
async fn redirects_of_a_server_of_a_request_are_not_followed() {
    let canary = Recorder::start(None).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let targets = [
        (302, canary.url()),
        (307, canary.url()),
        (308, "http://169.254.169.254/latest/meta-data".to_owned()),
        // The same server, which configured servers may redirect to.
        (307, "/other".to_owned()),
    ];
    let (_provider, served) = start("redirect", loopback()).await;
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = requests.clone();
    let current = Arc::new(Mutex::new(targets[0].clone()));
    let answer = current.clone();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (status, target) = answer.lock().unwrap().clone();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let Ok(byte) = client.read_u8().await else { break };
                head.push(byte);
            }
            seen.lock()
                .unwrap()
                .push(String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned());
            let response = format!(
                "HTTP/1.1 {status} x\r\nlocation: {target}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            );
            let _ = client.write_all(response.as_bytes()).await;
        }
    });
    for target in targets {
        *current.lock().unwrap() = target.clone();
        let tool = json!({"server_url": url, "authorization": TOKEN});
        let (status, error) = respond(&served, KEYS[0], json!("hi"), tool).await;
        assert_eq!(status, 424, "{target:?}: {error}");
        assert!(error["error"]["message"].as_str().unwrap().contains("redirects"), "{error}");
        assert!(!error.to_string().contains("planted"), "{error}");
    }
    assert_eq!(canary.connections(), 0);
    let requests = requests.lock().unwrap();
    assert!(!requests.is_empty() && requests.iter().all(|line| line.contains("/mcp ")), "{requests:?}");
}

/// A server that repeats the token in its errors, and one that does not exist.
#[tokio::test]
async fn tokens_are_removed_from_errors() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 4096];
                let length = client.read(&mut request).await.unwrap_or_default();
                // An excerpt of the second body would end within the token.
                let body = match request[..length].windows(5).any(|part| part == b"/long") {
                    false => format!("invalid token {TOKEN} with {QUERY}"),
                    true => format!("{} {TOKEN}", "x".repeat(185)),
                };
                let response = format!(
                    "HTTP/1.1 500 x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
                let _ = client.write_all(response.as_bytes()).await;
            });
        }
    });
    let (_provider, served) = start("errors", loopback()).await;
    for (url, expected) in [
        (format!("http://{address}/mcp?key={QUERY}"), "invalid token … with …"),
        (format!("http://{address}/long"), "xxx …"),
        (format!("http://127.0.0.1:1/mcp?key={QUERY}"), "unavailable"),
    ] {
        let (status, error) =
            respond(&served, KEYS[0], json!("hi"), json!({"server_url": url, "authorization": TOKEN})).await;
        assert_eq!(status, 424, "{error}");
        assert!(error["error"]["message"].as_str().unwrap().contains(expected), "{error}");
        assert!(!error.to_string().contains("planted"), "{error}");
    }
    let text = served.stop();
    assert!(!text.contains("planted"), "{text}");
}

/// An MCP server that repeats the token in every error. It announces a change of its tools, and can list them
/// only once.
struct RepeatingServer {
    url: String,
    lists: Arc<AtomicUsize>,
}

impl RepeatingServer {
    async fn start() -> RepeatingServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let lists = Arc::<AtomicUsize>::default();
        let count = lists.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(RepeatingServer::serve(client, count.clone()));
            }
        });
        RepeatingServer { url, lists }
    }

    /// Responds to the only request of a connection.
    async fn serve(mut client: TcpStream, lists: Arc<AtomicUsize>) {
        let mut received = Vec::new();
        let body = loop {
            if client.read_buf(&mut received).await.unwrap_or_default() == 0 {
                return;
            }
            let text = String::from_utf8_lossy(&received).into_owned();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.parse().unwrap());
            if head.starts_with("GET") {
                // The stream of notifications, which stays open.
                let change = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
                let head = "HTTP/1.1 200 x\r\ncontent-type: text/event-stream\r\n\r\n";
                while lists.load(Ordering::SeqCst) == 0 {
                    tokio::task::yield_now().await;
                }
                let _ = client.write_all(format!("{head}data: {change}\n\n").as_bytes()).await;
                let _ = client.read_u8().await;
                return;
            }
            if body.len() >= length {
                break body.to_owned();
            }
        };
        let request: Value = serde_json::from_str(&body).unwrap_or_default();
        let error = json!({"error": {"code": -32000, "message": format!("invalid token {TOKEN}")}});
        let echo =
            json!({"name": "echo", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}});
        let mut message = match request["method"].as_str().unwrap_or_default() {
            "initialize" => json!({"result": {
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "repeating", "version": "1"},
            }}),
            "tools/list" if lists.fetch_add(1, Ordering::SeqCst) == 0 => json!({"result": {"tools": [echo]}}),
            "server/discover" => json!({"error": {"code": -32601, "message": "unknown"}}),
            _ => error,
        };
        (message["jsonrpc"], message["id"]) = (json!("2.0"), request["id"].clone());
        let (status, body) = match request["id"].is_null() {
            true => (202, String::new()),
            false => (200, message.to_string()),
        };
        let response = format!(
            "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\nmcp-session-id: 1\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{body}",
            body.len()
        );
        let _ = client.write_all(response.as_bytes()).await;
    }
}

/// Neither the log of a failed refresh nor that of a failed call contains the token.
#[tokio::test]
async fn tokens_are_removed_from_the_log() {
    let mcp = RepeatingServer::start().await;
    let (_provider, served) = start("log", loopback()).await;
    let tool = json!({"server_url": mcp.url, "authorization": TOKEN});
    let (_, response) = respond(&served, KEYS[0], json!("hi"), tool.clone()).await;
    assert_eq!(types(&response), ["mcp_list_tools", "mcp_call", "message"]);
    assert!(response.to_string().contains("invalid token …"), "{response}");
    while mcp.lists.load(Ordering::SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    // The gateway reads the response to the refresh before it can complete another request.
    respond(&served, KEYS[0], json!("hi"), tool).await;
    let log = served.stop();
    assert!(log.contains("cannot refresh its tools: invalid token …"), "{log}");
    assert!(!log.contains("planted"), "{log}");
}

/// Security rule 54: servers that misbehave end with an error, and the next request is served.
#[tokio::test]
async fn servers_of_requests_that_misbehave_are_limited() {
    let mut gateway = loopback();
    gateway["limits"] = json!({"requestServerTimeout": "2s"});
    let (_provider, served) = start("misbehaving", gateway).await;
    for (behaviour, arguments, path, expected) in [
        ("ordinary", &[][..], "/mcp", "completed"),
        ("streams", &[], "/mcp", "completed"),
        ("sse", &[], "/sse", "completed"),
        ("cursor-loop", &[], "/mcp", "completed"),
        ("huge-result", &["--size", "20000000"], "/mcp", "failed"),
        ("unreadable-result", &[], "/mcp", "failed"),
        ("many-tools", &["--count", "2000"], "/mcp", ""),
        ("hangs", &["--from", "initialize"], "/mcp", ""),
        ("status-401", &["--from", "initialize"], "/mcp", ""),
        ("html-body", &["--from", "initialize"], "/mcp", ""),
        ("sse-foreign-endpoint", &[], "/sse", ""),
    ] {
        let bad = start_misbehaving_http(&[&["--behaviour", behaviour], arguments].concat());
        let tool = json!({"server_url": bad.url(path)});
        let (status, response) = respond(&served, KEYS[0], json!("hi"), tool).await;
        assert_eq!(status, if expected.is_empty() { 424 } else { 200 }, "{behaviour}: {response}");
        assert_eq!(
            response["output"][1]["status"].as_str().unwrap_or_default(),
            expected,
            "{behaviour}: {response}"
        );
    }
    let mcp = mcp_server().await;
    let (status, response) = respond(&served, KEYS[0], json!("hi"), json!({"server_url": mcp.url()})).await;
    assert_eq!(status, 200, "{response}");
}
