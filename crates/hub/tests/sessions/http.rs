//! Servers on the network: what they refuse, how they go away, and who may call them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use toolwire_hub::auth::{AuthError, TokenProvider};
use toolwire_hub::{
    CallOptions, ConnectContext, ConnectError, ElicitReply, ElicitRequest, Ending, Era, Failure, Host,
    HttpKind, LeftOut, NoHost, Secret, Session, SessionError,
};
use toolwire_testkit::{InstalledServers, RunningServer};

use crate::support::{Connecting, PATIENCE, call, connect, http};

struct Request {
    headers: HashMap<String, String>,
    body: Value,
}

struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Reply {
    fn status(status: u16, body: &str) -> Reply {
        Reply { status, headers: vec![("content-type", "text/html".into())], body: body.into() }
    }

    fn json(body: Value) -> Reply {
        Reply {
            status: 200,
            headers: vec![("content-type", "application/json".into())],
            body: body.to_string(),
        }
    }

    fn events(events: &[Value]) -> Reply {
        let body = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        Reply { status: 200, headers: vec![("content-type", "text/event-stream".into())], body }
    }

    fn result(request: &Request, result: Value) -> Reply {
        Reply::json(json!({ "jsonrpc": "2.0", "id": request.body["id"], "result": result }))
    }
}

/// A server that answers each request by a function.
struct Web {
    url: String,
    task: JoinHandle<()>,
}

impl Drop for Web {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn web(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Web {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, answer.clone()));
        }
    });
    Web { url, task }
}

async fn serve(mut stream: TcpStream, answer: Arc<impl Fn(&Request) -> Reply>) {
    let mut text = Vec::new();
    let (head, length) = loop {
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
    let expected = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = text.split_off(length);
    while body.len() < expected {
        let mut buffer = [0; 4096];
        let Ok(count @ 1..) = stream.read(&mut buffer).await else { return };
        body.extend_from_slice(&buffer[..count]);
    }
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let reply = answer(&Request { headers, body });
    let mut text = format!("HTTP/1.1 {} x\r\nconnection: close\r\n", reply.status);
    text.push_str(&format!("content-length: {}\r\n", reply.body.len()));
    for (name, value) in &reply.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    text.push_str(&reply.body);
    let _ = stream.write_all(text.as_bytes()).await;
}

/// What a server of the new era answers to all but calls.
fn modern(request: &Request, tools: Value, call: impl Fn(&Request) -> Reply) -> Reply {
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

async fn refused(reply: impl Fn() -> Reply + Send + Sync + 'static, kind: HttpKind) -> Failure {
    let server = web(move |_| reply()).await;
    match Connecting::default().to(&http(server.url.clone(), kind)).await.err().unwrap() {
        ConnectError::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn refusals_say_what_the_server_said() {
    let failure = refused(|| Reply::status(500, "<h1>Oops</h1>\n<p>broken"), HttpKind::Auto).await;
    assert_eq!(failure.to_string(), "the server answered HTTP 500: <h1>Oops</h1> <p>broken");
    let failure = refused(|| Reply::status(404, "nothing here"), HttpKind::Auto).await;
    assert_eq!(failure.to_string(), "the server answered HTTP 404: nothing here");
    let failure = refused(|| Reply::status(200, "<title>Log in</title>"), HttpKind::Auto).await;
    let expected = "the server answered with text/html, not with JSON or events: <title>Log in</title>";
    assert_eq!(failure.to_string(), expected);
    let failure = refused(|| Reply::status(200, "hello"), HttpKind::Sse).await;
    assert_eq!(failure.to_string(), "the server answered with text/html, not with JSON or events: hello");
    let challenge = r#"Bearer resource_metadata="https://example.com/meta""#;
    let reply = || Reply { headers: vec![("www-authenticate", challenge.into())], ..Reply::status(401, "") };
    for kind in [HttpKind::Auto, HttpKind::Sse] {
        let failure = refused(reply, kind).await;
        assert_eq!(failure, Failure::Unauthorized { status: 401, challenge: challenge.into() });
    }
}

#[tokio::test]
async fn an_address_that_is_none() {
    let error = Connecting::default().to(&http("localhost:80".into(), HttpKind::Auto)).await.err().unwrap();
    assert!(matches!(error, ConnectError::BadAddress { .. }) && error.is_permanent(), "{error:?}");
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let nobody = http(format!("http://{free}/mcp"), HttpKind::Auto);
    let error = Connecting::default().to(&nobody).await.err().unwrap();
    assert!(matches!(error, ConnectError::Failed(Failure::Unreachable { .. })), "{error:?}");
}

#[tokio::test]
async fn a_server_that_is_started_again_is_found_again() {
    let servers = InstalledServers::find();
    let mut server = servers.everything_over_http();
    let session = connect(&http(server.url("/mcp"), HttpKind::Auto)).await;
    call(&session, "echo", json!({ "message": "one" })).await;
    server.kill();

    // A connection that was open may take the call and break; then there is none.
    let error = loop {
        match session.call("echo", Map::new(), CallOptions::default()).await.unwrap_err() {
            SessionError::Failed(Failure::Broken { .. }) => {}
            error => break error,
        }
    };
    assert!(matches!(error, SessionError::Failed(Failure::Unreachable { .. })), "{error:?}");
    assert!(!error.may_have_run());

    // The new process knows nothing of the session, and says so without an id.
    let _again = RunningServer::start_on_port(servers.everything_listening("streamableHttp"), server.port());
    let answered = tokio::time::timeout(PATIENCE, call(&session, "echo", json!({ "message": "two" }))).await;
    assert_eq!(answered.unwrap()["content"][0]["text"], "Echo: two");
    session.close().await;
}

#[tokio::test]
async fn the_older_http_ends_with_its_stream() {
    let mut server = InstalledServers::find().everything_over_sse();
    let session = connect(&http(server.url("/sse"), HttpKind::Sse)).await;
    let (told, mut progressed) = mpsc::channel(1);
    let options = CallOptions {
        progress: Some(Arc::new(move |_| {
            let _ = told.try_send(());
        })),
        ..CallOptions::default()
    };
    let arguments = json!({ "duration": 1000, "steps": 1000 });
    let called = session.call("trigger-long-running-operation", crate::support::object(arguments), options);
    let killed = async {
        progressed.recv().await;
        server.kill();
    };
    let (error, ()) = tokio::join!(called, killed);
    let error = error.unwrap_err();
    assert!(matches!(error, SessionError::Disconnected { ending: Ending::StreamEnded { .. } }), "{error:?}");
    session.close().await;
}

/// Gives the tokens of a list, one after the other, each time it is challenged.
struct Tokens {
    challenges: Mutex<Vec<String>>,
    given: AtomicUsize,
}

impl TokenProvider for Tokens {
    fn token<'a>(&'a self, challenge: Option<&'a str>) -> BoxFuture<'a, Result<Option<Secret>, AuthError>> {
        if let Some(challenge) = challenge {
            self.challenges.lock().unwrap().push(challenge.to_owned());
            self.given.fetch_add(1, Ordering::SeqCst);
        }
        let token = Secret::new(format!("token-{}", self.given.load(Ordering::SeqCst)));
        Box::pin(async { Ok(Some(token)) })
    }
}

#[tokio::test]
async fn a_token_that_is_not_taken_is_replaced_once() {
    let server = web(|request| {
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
    let tokens = Arc::new(Tokens { challenges: Mutex::default(), given: AtomicUsize::new(0) });
    let (events, _heard) = mpsc::channel(1);
    let context = ConnectContext {
        server: "test".into(),
        host: Arc::new(NoHost),
        events,
        era: None,
        bearer: Some(tokens.clone()),
        environment: Arc::new([]),
        timeout: PATIENCE,
        stop: CancellationToken::new(),
    };
    let session = Session::connect(&http(server.url.clone(), HttpKind::Auto), context).await.unwrap();
    assert_eq!(session.facts().era, Era::Modern);
    call(&session, "one", json!({})).await;
    assert_eq!(*tokens.challenges.lock().unwrap(), ["Bearer scope=\"a\""]);
    session.close().await;
}

#[tokio::test]
async fn configured_headers_are_sent_and_a_mark_makes_a_header() {
    let tools = json!([
        { "name": "good", "inputSchema": { "type": "object", "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" } } } },
        { "name": "bad", "inputSchema": { "type": "object", "properties": {
            "region": { "type": "string", "x-mcp-header": "no spaces" } } } },
        { "name": "odd" },
    ]);
    let server = web(move |request| {
        modern(request, tools.clone(), |request| {
            let seen = |name: &str| request.headers.get(name).cloned().unwrap_or_default();
            let text =
                [seen("x-key"), seen("mcp-param-region"), seen("mcp-method"), seen("mcp-name")].join(" ");
            Reply::result(request, json!({ "resultType": "complete", "content": [], "seen": text }))
        })
    })
    .await;
    let mut target = http(server.url.clone(), HttpKind::Auto);
    if let toolwire_hub::Target::Http { headers, .. } = &mut target {
        headers.push(("X-Key".into(), Secret::new("of-ours")));
    }
    let session = connect(&target).await;
    let listing = session.list_tools().await.unwrap();
    assert_eq!(listing.tools.len(), 3);
    assert_eq!(listing.ttl, Some(std::time::Duration::from_secs(5)));
    let reason = "its `x-mcp-header` is invalid".to_owned();
    assert_eq!(listing.left_out, [LeftOut { name: "bad".into(), reason }]);
    let result = call(&session, "good", json!({ "region": "north" })).await;
    assert_eq!(result["seen"], "of-ours north tools/call good");
    session.close().await;
}

/// Answers each form with its own schema.
struct Mirror;

impl Host for Mirror {
    fn can_elicit(&self) -> bool {
        true
    }

    fn elicit<'a>(&'a self, _server: &'a str, request: ElicitRequest) -> BoxFuture<'a, ElicitReply> {
        Box::pin(async move { ElicitReply::Accept(Some(json!({ "asked": request.message }))) })
    }
}

#[tokio::test]
async fn a_call_that_needs_input_is_asked_again_with_it() {
    let server = web(|request| {
        modern(request, json!([]), |request| {
            let params = &request.body["params"];
            if params["requestState"] == "round two" {
                let echo = json!({ "resultType": "complete", "content": [], "inputs": params["inputResponses"] });
                return Reply::events(&[json!({ "jsonrpc": "2.0", "id": request.body["id"], "result": echo })]);
            }
            // A schema with a keyword that the SDK's types do not have.
            let form = json!({ "method": "elicitation/create", "params": { "message": "which?", "mode": "form",
                "requestedSchema": { "type": "object", "properties": { "a": { "type": "object" } } } } });
            Reply::result(
                request,
                json!({ "resultType": "input_required", "inputRequests": { "first": form }, "requestState": "round two" }),
            )
        })
    })
    .await;
    let connecting = Connecting { host: Arc::new(Mirror), ..Connecting::default() };
    let (session, _) = connecting.to(&http(server.url.clone(), HttpKind::Auto)).await.unwrap();
    let result = call(&session, "one", json!({})).await;
    assert_eq!(
        result["inputs"],
        json!({ "first": { "action": "accept", "content": { "asked": "which?" } } })
    );
    session.close().await;
}

#[tokio::test]
async fn every_way_to_fail_a_call_is_told_at_once() {
    let server = web(|request| {
        modern(request, json!([]), |request| match request.body["params"]["name"].as_str() {
            Some("status") => Reply::status(503, "try later"),
            Some("html") => Reply::status(200, "<p>hello"),
            Some("cut") => Reply::events(&[]),
            Some("empty") => Reply::json(json!({})),
            Some("stranger") => Reply::json(json!({ "jsonrpc": "2.0", "id": 4711, "result": {} })),
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
    let session = connect(&http(server.url.clone(), HttpKind::Auto)).await;
    for (name, expected, may_have_run) in [
        ("status", "the server answered HTTP 503: try later", true),
        ("html", "the server answered with text/html, not with JSON or events: <p>hello", true),
        ("cut", "the connection broke: Transport closed", true),
        ("empty", "the answer cannot be read: no answer in it: {}", true),
        (
            "stranger",
            "the answer cannot be read: no answer in it: {\"jsonrpc\":\"2.0\",\"id\":4711,\"result\":{}}",
            true,
        ),
        ("no-id", "bad (code -32000)", true),
    ] {
        let error = session.call(name, Map::new(), CallOptions::default()).await.unwrap_err();
        assert_eq!((error.to_string().as_str(), error.may_have_run()), (expected, may_have_run), "{name}");
    }
    call(&session, "fine", json!({})).await;
    assert_eq!(session.ending(), None);
    session.close().await;
}
