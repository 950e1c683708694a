//! Remote servers: rejected requests, lost connections and authorization.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use toolwire_contract::Secret;
use toolwire_contract::elicitation::ElicitHandler;
use toolwire_testkit::{InstalledServers, RunningServer};

use super::support::{Connector, TEST_TIMEOUT, call, connect, http, object, options};
use crate::auth::{AuthError, TokenProvider};
use crate::config::Transport;
use crate::host::{ElicitReply, ElicitRequest, Host};
use crate::session::error::ConnectError;
use crate::session::list::SkippedTool;
use crate::session::{ProtocolEra, SessionCall, SessionError};
use crate::transport::{ConnectionEnd, Credentials, HttpKind, TransportFailure};

pub(super) struct Request {
    headers: HashMap<String, String>,
    pub(super) body: Value,
}

pub(super) struct Reply {
    status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    body: String,
}

impl Reply {
    pub(super) fn status(status: u16, body: &str) -> Reply {
        Reply { status, headers: vec![("content-type", "text/html".into())], body: body.into() }
    }

    pub(super) fn json(body: Value) -> Reply {
        Reply {
            status: 200,
            headers: vec![("content-type", "application/json".into())],
            body: body.to_string(),
        }
    }

    pub(super) fn events(events: &[Value]) -> Reply {
        let body = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        Reply { status: 200, headers: vec![("content-type", "text/event-stream".into())], body }
    }

    pub(super) fn result(request: &Request, result: Value) -> Reply {
        Reply::json(json!({ "jsonrpc": "2.0", "id": request.body["id"], "result": result }))
    }
}

/// A server whose responses come from a function.
pub(super) struct WebServer {
    pub(super) url: String,
    task: JoinHandle<()>,
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(super) async fn serve(respond: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> WebServer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let respond = Arc::new(respond);
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve_connection(stream, respond.clone()));
        }
    });
    WebServer { url, task }
}

async fn serve_connection(mut stream: TcpStream, respond: Arc<impl Fn(&Request) -> Reply>) {
    let mut text = Vec::new();
    let (head, body_start) = loop {
        let mut buffer = [0; 4096];
        let Ok(count @ 1..) = stream.read(&mut buffer).await else { return };
        text.extend_from_slice(&buffer[..count]);
        if let Some(end) = text.windows(4).position(|window| window == b"\r\n\r\n") {
            break (String::from_utf8_lossy(&text[..end]).into_owned(), end + 4);
        }
    };
    let headers: HashMap<String, String> = head
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let content_length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = text.split_off(body_start);
    while body.len() < content_length {
        let mut buffer = [0; 4096];
        let Ok(count @ 1..) = stream.read(&mut buffer).await else { return };
        body.extend_from_slice(&buffer[..count]);
    }
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let reply = respond(&Request { headers, body });
    let mut text = format!("HTTP/1.1 {} x\r\nconnection: close\r\n", reply.status);
    text.push_str(&format!("content-length: {}\r\n", reply.body.len()));
    for (name, value) in &reply.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    text.push_str(&reply.body);
    let _ = stream.write_all(text.as_bytes()).await;
}

/// Responds as a modern server to everything except calls.
pub(super) fn modern(request: &Request, tools: Value, call: impl Fn(&Request) -> Reply) -> Reply {
    match request.body["method"].as_str() {
        Some("server/discover") => Reply::result(
            request,
            json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
                "ttlMs": 0, "cacheScope": "private",
            }),
        ),
        Some("tools/list") => Reply::result(
            request,
            json!({ "resultType": "complete", "tools": tools, "ttlMs": 5000, "cacheScope": "public" }),
        ),
        Some("tools/call") => call(request),
        _ => Reply::status(405, ""),
    }
}

pub(super) async fn connect_failure(
    reply: impl Fn() -> Reply + Send + Sync + 'static,
    kind: HttpKind,
) -> TransportFailure {
    let server = serve(move |_| reply()).await;
    match Connector::default().connect_error(&http(&server.url, kind)).await.error {
        ConnectError::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn failures_contain_the_response_of_the_server() {
    let failure = connect_failure(|| Reply::status(500, "<h1>Oops</h1>\n<p>broken"), HttpKind::Auto).await;
    assert_eq!(failure.to_string(), "the server responded with HTTP 500: <h1>Oops</h1> <p>broken");
    let failure = connect_failure(|| Reply::status(404, "nothing here"), HttpKind::Auto).await;
    assert_eq!(failure.to_string(), "the server responded with HTTP 404: nothing here");
    let failure = connect_failure(|| Reply::status(200, "<title>Log in</title>"), HttpKind::Auto).await;
    let expected = "the server responded with text/html instead of JSON or server-sent events";
    assert_eq!(failure.to_string(), format!("{expected}: <title>Log in</title>"));
    let failure = connect_failure(|| Reply::status(200, "hello"), HttpKind::Sse).await;
    assert_eq!(failure.to_string(), format!("{expected}: hello"));
    let challenge = r#"Bearer resource_metadata="https://example.com/meta""#;
    let reply = || Reply { headers: vec![("www-authenticate", challenge.into())], ..Reply::status(401, "") };
    for kind in [HttpKind::Auto, HttpKind::Sse] {
        let failure = connect_failure(reply, kind).await;
        assert_eq!(
            failure,
            TransportFailure::Unauthorized {
                status: 401,
                challenge: challenge.into(),
                sent: Credentials::None
            }
        );
    }
}

#[tokio::test]
async fn an_invalid_or_unreachable_url_is_an_error() {
    let error = Connector::default().connect_error(&http("localhost:80", HttpKind::Auto)).await.error;
    assert!(matches!(error, ConnectError::InvalidUrl { .. }) && error.is_permanent(), "{error:?}");
    let free_address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let unreachable = http(&format!("http://{free_address}/mcp"), HttpKind::Auto);
    let error = Connector::default().connect_error(&unreachable).await.error;
    assert!(matches!(error, ConnectError::Failed(TransportFailure::Unreachable { .. })), "{error:?}");
}

#[tokio::test]
async fn a_session_survives_a_restart_of_the_server() {
    let servers = InstalledServers::find();
    let mut server = servers.everything_over_http();
    let session = connect(&http(&server.url("/mcp"), HttpKind::Auto)).await;
    call(&session, "echo", json!({ "message": "one" })).await;
    server.kill();

    // A connection that is still open may accept the call and then fail.
    let error = loop {
        match session.call("echo", Map::new(), options()).await.unwrap_err() {
            SessionError::Failed(TransportFailure::Interrupted { .. }) => {}
            error => break error,
        }
    };
    assert!(matches!(error, SessionError::Failed(TransportFailure::Unreachable { .. })), "{error:?}");
    assert!(!error.may_have_run());

    // The new process does not know the session, and its error has no id.
    let _restarted =
        RunningServer::start_on_port(servers.everything_listening("streamableHttp"), server.port());
    let result =
        tokio::time::timeout(TEST_TIMEOUT, call(&session, "echo", json!({ "message": "two" }))).await;
    assert_eq!(result.unwrap()["content"][0]["text"], "Echo: two");
    session.close().await;
}

#[tokio::test]
async fn an_older_http_session_ends_with_its_stream() {
    let mut server = InstalledServers::find().everything_over_sse();
    let session = connect(&http(&server.url("/sse"), HttpKind::Sse)).await;
    let (report, mut progress) = mpsc::channel(1);
    let options = SessionCall {
        progress: Some(Arc::new(move |_| {
            let _ = report.try_send(());
        })),
        ..options()
    };
    let arguments = json!({ "duration": 1000, "steps": 1000 });
    let call = session.call("trigger-long-running-operation", object(arguments), options);
    let kill = async {
        progress.recv().await;
        server.kill();
    };
    let (result, ()) = tokio::join!(call, kill);
    let error = result.unwrap_err();
    assert!(
        matches!(error, SessionError::Disconnected { end: ConnectionEnd::StreamEnded { .. } }),
        "{error:?}"
    );
    session.close().await;
}

/// Returns a new token after each challenge.
#[derive(Default)]
struct NumberedTokens {
    challenges: Mutex<Vec<String>>,
    number: AtomicUsize,
}

impl TokenProvider for NumberedTokens {
    fn token<'a>(&'a self, challenge: Option<&'a str>) -> BoxFuture<'a, Result<Option<Secret>, AuthError>> {
        if let Some(challenge) = challenge {
            self.challenges.lock().unwrap().push(challenge.to_owned());
            self.number.fetch_add(1, Ordering::SeqCst);
        }
        let token = Secret::new(format!("token-{}", self.number.load(Ordering::SeqCst)));
        Box::pin(async { Ok(Some(token)) })
    }
}

#[tokio::test]
async fn a_rejected_token_is_replaced_once() {
    let server = serve(|request| {
        if request.headers.get("authorization").map(String::as_str) != Some("Bearer token-1") {
            return Reply {
                headers: vec![("www-authenticate", "Bearer scope=\"a\"".into())],
                ..Reply::status(401, "")
            };
        }
        modern(request, json!([]), |request| {
            Reply::result(request, json!({ "resultType": "complete", "content": [] }))
        })
    })
    .await;
    let tokens = Arc::new(NumberedTokens::default());
    let connector = Connector { token_provider: Some(tokens.clone()), ..Connector::default() };
    let (session, _) = connector.connect(&http(&server.url, HttpKind::Auto)).await.unwrap();
    assert_eq!(session.info().era, ProtocolEra::Modern);
    call(&session, "one", json!({})).await;
    assert_eq!(*tokens.challenges.lock().unwrap(), ["Bearer scope=\"a\""]);
    session.close().await;
}

#[tokio::test]
async fn configured_headers_and_marked_arguments_are_sent_as_headers() {
    let tools = json!([
        { "name": "good", "inputSchema": { "type": "object", "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" } } } },
        { "name": "bad", "inputSchema": { "type": "object", "properties": {
            "region": { "type": "string", "x-mcp-header": "no spaces" } } } },
        { "name": "odd" },
    ]);
    let server = serve(move |request| {
        modern(request, tools.clone(), |request| {
            let header = |name: &str| request.headers.get(name).cloned().unwrap_or_default();
            let text =
                [header("x-key"), header("mcp-param-region"), header("mcp-method"), header("mcp-name")]
                    .join(" ");
            Reply::result(request, json!({ "resultType": "complete", "content": [], "headers": text }))
        })
    })
    .await;
    let mut transport = http(&server.url, HttpKind::Auto);
    if let Transport::Http { headers, .. } = &mut transport {
        headers.push(("X-Key".into(), Secret::new("secret-value")));
    }
    let session = connect(&transport).await;
    let listing = session.list_tools().await.unwrap();
    assert_eq!(listing.tools.len(), 3);
    assert_eq!(listing.ttl, Some(Duration::from_secs(5)));
    let reason = "invalid `x-mcp-header`".to_owned();
    assert_eq!(listing.skipped, [SkippedTool { name: "bad".into(), reason }]);
    let result = call(&session, "good", json!({ "region": "north" })).await;
    assert_eq!(result["headers"], "secret-value north tools/call good");
    session.close().await;
}

/// Responds to each form with the message of the request.
struct EchoHost;

impl Host for EchoHost {
    fn can_elicit(&self) -> bool {
        true
    }

    fn elicit<'a>(&'a self, _server: &'a str, request: ElicitRequest) -> BoxFuture<'a, ElicitReply> {
        Box::pin(async move { ElicitReply::Accept(Some(json!({ "message": request.message }))) })
    }
}

#[tokio::test]
async fn a_call_that_requires_input_is_repeated_with_it() {
    let server = serve(|request| {
        modern(request, json!([]), |request| {
            let params = &request.body["params"];
            if params["requestState"] == "round two" {
                let echo = json!({ "resultType": "complete", "content": [], "inputs": params["inputResponses"] });
                return Reply::events(&[json!({ "jsonrpc": "2.0", "id": request.body["id"], "result": echo })]);
            }
            // A schema that the SDK's types cannot represent.
            let form = json!({ "method": "elicitation/create", "params": { "message": "which?", "mode": "form",
                "requestedSchema": { "type": "object", "properties": { "a": { "type": "object" } } } } });
            Reply::result(
                request,
                json!({ "resultType": "input_required", "inputRequests": { "first": form }, "requestState": "round two" }),
            )
        })
    })
    .await;
    let connector = Connector { host: Arc::new(EchoHost), ..Connector::default() };
    let (session, _) = connector.connect(&http(&server.url, HttpKind::Auto)).await.unwrap();
    let result = call(&session, "one", json!({})).await;
    assert_eq!(
        result["inputs"],
        json!({ "first": { "action": "accept", "content": { "message": "which?" } } })
    );
    let elicitation: Option<Arc<ElicitHandler>> =
        Some(Arc::new(|_, _| Box::pin(std::future::ready(ElicitReply::Cancel))));
    let result = session.call("one", Map::new(), SessionCall { elicitation, ..options() }).await.unwrap();
    assert_eq!(result["inputs"], json!({ "first": { "action": "cancel" } }), "the call asks the user itself");
    session.close().await;
}

#[tokio::test]
async fn a_server_that_needs_no_input_may_take_many_rounds() {
    let server = serve(|request| {
        modern(request, json!([]), |request| {
            let state = request.body["params"]["requestState"].as_str().unwrap_or("0");
            let result = match state.parse::<usize>().unwrap() {
                15 => json!({ "resultType": "complete", "content": [], "rounds": state }),
                round => json!({ "resultType": "input_required", "requestState": (round + 1).to_string() }),
            };
            Reply::result(request, result)
        })
    })
    .await;
    let session = connect(&http(&server.url, HttpKind::Auto)).await;
    assert_eq!(call(&session, "one", json!({})).await["rounds"], "15");
    // The maximum duration of the call limits the number of repetitions.
    let limits = SessionCall { max_total: Duration::from_millis(100), ..options() };
    let error = session.call("one", Map::new(), limits).await.unwrap_err();
    assert!(matches!(error, SessionError::TimedOut { .. }), "{error}");
    session.close().await;
}

#[tokio::test]
async fn every_failure_of_a_call_is_reported_immediately() {
    let server = serve(|request| {
        modern(request, json!([]), |request| match request.body["params"]["name"].as_str() {
            Some("status") => Reply::status(503, "try later"),
            Some("html") => Reply::status(200, "<p>hello"),
            Some("cut") => Reply::events(&[]),
            Some("empty") => Reply::json(json!({})),
            Some("unknown-id") => Reply::json(json!({ "jsonrpc": "2.0", "id": 4711, "result": {} })),
            Some("no-id") => Reply {
                status: 400,
                ..Reply::json(
                    json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32000, "message": "bad" } }),
                )
            },
            _ => Reply::result(request, json!({ "resultType": "complete", "content": [] })),
        })
    })
    .await;
    let session = connect(&http(&server.url, HttpKind::Auto)).await;
    for (name, expected, may_have_run) in [
        ("status", "the server responded with HTTP 503: try later", true),
        ("html", "the server responded with text/html instead of JSON or server-sent events: <p>hello", true),
        ("cut", "the connection failed: Transport closed", true),
        ("empty", "the response cannot be parsed: no response to the request; received {}", true),
        (
            "unknown-id",
            "the response cannot be parsed: no response to the request; received {\"jsonrpc\":\"2.0\",\"id\":4711,\"result\":{}}",
            true,
        ),
        ("no-id", "bad (code -32000)", true),
    ] {
        let error = session.call(name, Map::new(), options()).await.unwrap_err();
        assert_eq!((error.to_string().as_str(), error.may_have_run()), (expected, may_have_run), "{name}");
    }
    call(&session, "fine", json!({})).await;
    assert_eq!(session.end(), None);
    session.close().await;
}
