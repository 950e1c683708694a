//! Remote servers that refuse, redirect, compress or use another transport.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use toolwire_contract::toolbox::{CallError, CallOptions, Toolbox};
use toolwire_testkit::InstalledServers;

use super::http::{Reply, WebServer, connect_failure, modern, serve};
use super::support::{Connector, call, connect, http, options};
use crate::session::SessionError;
use crate::transport::{HttpKind, TransportFailure};
use crate::{Config, Hub, HubOptions};

fn with_header(reply: Reply, name: &'static str, value: &str) -> Reply {
    let mut reply = reply;
    reply.headers.push((name, value.to_owned()));
    reply
}

#[tokio::test]
async fn a_redirect_to_another_host_names_its_target() {
    for kind in [HttpKind::Auto, HttpKind::Sse] {
        let redirect = || {
            let reply = Reply::status(301, "moved");
            with_header(reply, "location", "https://user@example.org/mcp?token=secret")
        };
        let failure = connect_failure(redirect, kind).await;
        let target = "https://example.org/mcp…";
        assert_eq!(failure.to_string(), format!("the server redirects to `{target}` (HTTP 301)"));
        // The address is not complete.
        assert_eq!(failure.hint().as_deref(), Some("if you trust that address, set its `url` to it"));
    }
}

#[tokio::test]
async fn a_redirect_loop_is_named() {
    let redirect = || with_header(Reply::status(307, "again"), "location", "/mcp");
    let failure = connect_failure(redirect, HttpKind::Auto).await;
    assert_eq!(failure, TransportFailure::RedirectLoop);
}

#[tokio::test]
async fn tls_on_a_port_for_plain_http_is_recognized() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
        }
    });
    let failure = Connector::default().connect_error(&http(&url, HttpKind::Auto)).await;
    assert_eq!(failure.error.to_string(), "no TLS connection: this port uses plain HTTP");
    assert_eq!(failure.hint().unwrap(), "write `http://` instead of `https://` in its `url`");
}

#[tokio::test]
async fn a_compressed_response_is_not_printed() {
    let gzip = |reply: Reply| with_header(reply, "content-encoding", "gzip");
    let failure = connect_failure(move || gzip(Reply::json(json!({}))), HttpKind::Auto).await;
    let expected = "the response is compressed (content-encoding: gzip), which was not requested";
    assert_eq!(failure.to_string(), expected);
    let failure = connect_failure(move || gzip(Reply::status(404, "\u{fffd}")), HttpKind::Auto).await;
    assert_eq!(failure.to_string(), format!("the server responded with HTTP 404: {expected}"));

    let server = serve(move |request| {
        modern(request, json!([{"name": "one", "inputSchema": {"type": "object"}}]), |request| {
            gzip(Reply::result(request, json!({})))
        })
    })
    .await;
    let session = connect(&http(&server.url, HttpKind::Auto)).await;
    let error = session.call("one", Map::new(), options()).await.unwrap_err();
    assert_eq!(error.to_string(), expected);
    assert!(error.may_have_run());
    session.close().await;
}

#[tokio::test]
async fn a_remote_server_that_hangs_has_no_command_to_run() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let connector = Connector { timeout: Duration::from_millis(300), ..Connector::default() };
    let failure = connector.connect_error(&http(&url, HttpKind::Auto)).await;
    assert_eq!(failure.error.to_string(), "the server was not ready within 300ms");
    assert_eq!(failure.hint().unwrap(), "increase its `timeout`, or check its `url` and the server's log");
}

#[tokio::test]
async fn a_wrong_type_is_corrected() {
    let servers = InstalledServers::find();
    let (streamable, sse) = (servers.everything_over_http(), servers.everything_over_sse());
    for (url, kind) in [(streamable.url("/mcp"), HttpKind::Sse), (sse.url("/sse"), HttpKind::Streamable)] {
        let session = connect(&http(&url, kind)).await;
        let result = call(&session, "echo", json!({ "message": "one" })).await;
        assert_eq!(result["content"][0]["text"], "Echo: one");
        let other = if kind == HttpKind::Sse { HttpKind::Streamable } else { HttpKind::Sse };
        assert_eq!(session.info().corrected_type, Some(other));
        session.close().await;
    }
}

/// A server with the tool `one`, whose calls get these replies, and then a result.
async fn refusing(
    replies: impl Fn(usize) -> Option<Reply> + Send + Sync + 'static,
) -> (WebServer, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let server = serve(move |request| {
        modern(request, json!([{"name": "one", "inputSchema": {"type": "object"}}]), |request| {
            let result = json!({"resultType": "complete", "content": []});
            replies(counter.fetch_add(1, Ordering::SeqCst)).unwrap_or_else(|| Reply::result(request, result))
        })
    });
    (server.await, calls)
}

async fn call_through_hub(url: &str) -> Result<(), CallError> {
    let text = json!({"mcpServers": {"web": {"url": url, "oauth": false}}}).to_string();
    let (config, _) = Config::parse(&text, Path::new("mcp.json"), &|_| None).unwrap();
    let hub = Hub::start(&config, HubOptions::default());
    let called = hub.call("one", &Value::Null, CallOptions::default()).await.map(|_| ());
    hub.close().await;
    called
}

#[tokio::test]
async fn a_call_is_repeated_after_the_delay_that_the_server_requests() {
    let limited = |delay: &str| with_header(Reply::status(429, "slow down"), "retry-after", delay);
    let (server, calls) = refusing(move |count| (count == 0).then(|| limited("0"))).await;
    assert_eq!(call_through_hub(&server.url).await, Ok(()));
    assert_eq!(calls.load(Ordering::SeqCst), 2);

    let (server, calls) = refusing(move |_| Some(limited("7200"))).await;
    let error = call_through_hub(&server.url).await.unwrap_err();
    assert_eq!(error.code(), "rate_limited");
    assert_eq!(error.to_string(), "server `web` refused `one` because of too many requests");
    assert_eq!(error.hint().unwrap(), "call it again in 7200s");
    assert_eq!(calls.load(Ordering::SeqCst), 1);

    let (server, _) = refusing(move |_| Some(limited(&u64::MAX.to_string()))).await;
    let error = call_through_hub(&server.url).await.unwrap_err();
    assert_eq!(error.hint().unwrap(), "call it again in 86400s");
}

#[tokio::test]
async fn a_call_that_may_have_run_is_not_repeated_after_a_delay() {
    let overloaded = || with_header(Reply::status(503, "later"), "retry-after", "0");
    let (server, calls) = refusing(move |_| Some(overloaded())).await;
    let error = call_through_hub(&server.url).await.unwrap_err();
    assert_eq!((error.code(), calls.load(Ordering::SeqCst)), ("outcome_unknown", 1));
}

#[tokio::test]
async fn a_refused_call_does_not_make_the_server_unavailable() {
    for (status, reason) in [
        (401, "the server requires authorization (HTTP 401)"),
        (403, "the server responded with HTTP 403: no"),
    ] {
        let server = serve(move |request| {
            modern(request, json!([{"name": "one", "inputSchema": {"type": "object"}}]), |_| {
                Reply::status(status, "no")
            })
        })
        .await;
        let error = call_through_hub(&server.url).await.unwrap_err();
        assert_eq!(error.code(), "unauthorized");
        let expected = format!("server `web` did not permit the call to `one`: {reason}");
        assert_eq!(error.to_string(), expected);
    }
    let server = serve(|_| with_header(Reply::status(503, "later"), "retry-after", "30")).await;
    let failure = Connector::default().connect_error(&http(&server.url, HttpKind::Auto)).await;
    assert_eq!(failure.error.to_string(), "the server is temporarily unavailable (HTTP 503): later");
    assert_eq!(failure.hint().unwrap(), "try again in 30s");
    let session_error = SessionError::Failed(TransportFailure::RateLimited {
        status: 429,
        retry_after: None,
        excerpt: String::new(),
    });
    assert!(!session_error.may_have_run() && !session_error.ends_session());
}
