//! Clients that do wrong, over HTTP.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use toolwire_toolkit::HttpOptions;

use crate::fixture;
use crate::support::{Http, Waiting, answered, initialize, request, session_of, soon};

/// Sends bytes as they are, and reads until the server closes or has answered.
async fn raw(http: &Http, bytes: &str) -> String {
    let mut stream = TcpStream::connect(http.server.address()).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while !String::from_utf8_lossy(&answer).contains("\r\n\r\n") {
        match soon(stream.read(&mut buffer)).await {
            Ok(0) | Err(_) => break,
            Ok(read) => answer.extend_from_slice(&buffer[..read]),
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn unknown_hosts_and_origins_are_rejected() {
    let http = Http::serve(fixture::server(), HttpOptions::default()).await;
    let list = || http.modern("tools/list", json!({}));
    for origin in ["http://evil.example", "https://localhost.evil.example", "null", "nonsense"] {
        assert_eq!(answered(list().header("origin", origin)).await.status, 403, "{origin}");
    }
    for origin in ["http://localhost:5173", "http://127.0.0.1", "http://[::1]:80"] {
        assert_eq!(answered(list().header("origin", origin)).await.status, 200, "{origin}");
    }
    assert_eq!(answered(list().header("host", "evil.example")).await.status, 403);
    assert_eq!(answered(list().header("host", "localhost:1")).await.status, 200);
    let get = http.client.get(http.server.url()).header("accept", "text/event-stream");
    assert_eq!(answered(get.header("origin", "http://evil.example")).await.status, 403);
}

#[tokio::test]
async fn listed_hosts_and_origins_are_allowed() {
    let mut options = HttpOptions::default();
    options.hosts = vec!["tools.example".to_owned()];
    options.origins = vec!["https://page.example:443".to_owned()];
    let http = Http::serve(fixture::server(), options).await;
    let list = |host: &str, origin: &str| {
        http.modern("tools/list", json!({})).header("host", host).header("origin", origin)
    };
    assert_eq!(answered(list("tools.example", "https://page.example")).await.status, 200);
    assert_eq!(answered(list("tools.example", "http://localhost")).await.status, 403);
    assert_eq!(answered(list("localhost", "https://page.example")).await.status, 403);
}

#[tokio::test]
async fn bodies_that_are_too_large_are_rejected() {
    let mut options = HttpOptions::default();
    options.max_body_bytes = 1000;
    let http = Http::serve(fixture::server(), options).await;
    let large = json!({"name": "echo", "arguments": {"text": "a".repeat(1000)}});
    let refused = answered(http.modern("tools/call", large.clone())).await;
    assert_eq!(refused.status, 413);
    assert_eq!(refused.body["error"]["message"], "the body is larger than 1000 bytes");
    // One that does not say its length beforehand.
    let text = request(1, "tools/call", large).to_string();
    let pieces: Vec<Result<String, std::io::Error>> =
        vec![Ok(text[..500].to_owned()), Ok(text[500..].to_owned())];
    let body = reqwest::Body::wrap_stream(futures::stream::iter(pieces));
    assert_eq!(answered(http.modern("tools/call", json!({"name": "echo"})).body(body)).await.status, 413);
    assert_eq!(answered(http.call("echo")).await.status, 200);
}

#[tokio::test]
async fn invalid_bodies_get_an_error() {
    let http = Http::serve(fixture::server(), HttpOptions::default()).await;
    for (body, code) in
        [("{\"half\":", -32700), ("", -32700), ("[]", -32600), ("{\"a\":1}", -32600), ("7", -32600)]
    {
        let answer = answered(http.post(&json!(null)).body(body)).await;
        assert_eq!((answer.status, &answer.body["error"]["code"]), (400, &json!(code)), "{body}");
    }
    let post = |accept: &str, kind: &str| {
        let body = initialize("2025-11-25").to_string();
        let post = http.client.post(http.server.url()).body(body);
        post.header("accept", accept).header("content-type", kind)
    };
    assert_eq!(answered(post("application/json, text/event-stream", "text/plain")).await.status, 415);
    assert_eq!(answered(post("text/html", "application/json")).await.status, 406);
    assert_eq!(answered(http.client.put(http.server.url())).await.status, 405);
    let elsewhere = http.server.url().replace("/mcp", "/other");
    assert_eq!(answered(http.client.get(elsewhere)).await.status, 404);
}

#[tokio::test]
async fn unknown_sessions_are_not_found() {
    let http = Http::serve(fixture::server(), HttpOptions::default()).await;
    let ping = request(1, "ping", json!({}));
    assert_eq!(answered(http.in_session("nobody", &ping)).await.status, 404);
    assert_eq!(answered(http.post(&ping)).await.status, 400, "it names no session");
    let session = session_of(&http.open().await);
    assert_eq!(answered(http.in_session(&session, &ping)).await.status, 200);
    let end = http.client.delete(http.server.url()).header("mcp-session-id", &session);
    assert_eq!(answered(end).await.status, 202);
    assert_eq!(answered(http.in_session(&session, &ping)).await.status, 404);
}

#[tokio::test]
async fn an_incomplete_request_does_not_block_the_server() {
    let mut options = HttpOptions::default();
    options.read_timeout = Duration::from_millis(300);
    options.max_requests = 1;
    let http = Http::serve(fixture::server(), options).await;
    let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\naccept: application/json, text/event-stream\r\n";
    let half_a_body = format!("{head}content-type: application/json\r\ncontent-length: 100\r\n\r\n{{\"json");
    let answer = raw(&http, &half_a_body).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    // Hyper closes a connection that does not finish its head.
    let answer = raw(&http, head).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert_eq!(answered(http.call("echo")).await.status, 200, "the one place is free again");
}

#[tokio::test]
async fn a_disconnected_client_cancels_its_call() {
    let mut waiting = Waiting::new();
    let http = Http::serve(waiting.server(), HttpOptions::default()).await;
    let call = tokio::spawn(http.call("wait").send());
    soon(waiting.started.recv()).await.unwrap();
    call.abort();
    soon(waiting.cancelled.recv()).await.unwrap();
}

#[tokio::test]
async fn in_a_session_only_a_cancellation_cancels_a_call() {
    let mut waiting = Waiting::new();
    let mut options = HttpOptions::default();
    options.max_requests = 2;
    let http = Http::serve(waiting.server(), options).await;
    let session = session_of(&http.open().await);
    let call = request(1, "tools/call", json!({"name": "wait"}));
    let response = soon(http.in_session(&session, &call).send()).await.unwrap();
    soon(waiting.started.recv()).await.unwrap();
    drop(response);
    // It still has its place: there is room for one other, and not for two.
    let second = http.call("wait").send();
    let second = tokio::spawn(second);
    soon(waiting.started.recv()).await.unwrap();
    assert_eq!(answered(http.call("echo")).await.status, 503);
    second.abort();
    soon(waiting.cancelled.recv()).await.unwrap();
    soon(async { while answered(http.call("echo")).await.status != 200 {} }).await;
    let ping = request(2, "ping", json!({}));
    assert_eq!(answered(http.in_session(&session, &ping)).await.status, 200);
    assert!(waiting.cancelled.try_recv().is_err());
    let word = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(answered(http.in_session(&session, &word)).await.status, 202);
    soon(waiting.cancelled.recv()).await.unwrap();
}

/// The client is still writing when the answer is known, and must get to see it.
#[tokio::test]
async fn a_body_that_is_too_large_is_read_before_it_is_rejected() {
    let mut options = HttpOptions::default();
    options.max_body_bytes = 1024;
    let http = Http::serve(fixture::server(), options).await;
    let large = "x".repeat(8 * 1024 * 1024);
    let announced = answered(http.post(&json!(null)).body(large.clone())).await;
    assert_eq!((announced.status, &announced.body["error"]["code"]), (413, &json!(-32600)));
    let chunks = large.as_bytes().chunks(64 * 1024).map(|chunk| Ok::<_, std::io::Error>(chunk.to_vec()));
    let body = reqwest::Body::wrap_stream(futures::stream::iter(chunks.collect::<Vec<_>>()));
    let unannounced = answered(http.post(&json!(null)).body(body)).await;
    assert_eq!((unannounced.status, &unannounced.body["error"]["code"]), (413, &json!(-32600)));
}
