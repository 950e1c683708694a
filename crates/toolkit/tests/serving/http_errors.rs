//! Invalid HTTP requests, and clients that disconnect.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use toolwire_toolkit::transport::HttpOptions;

use crate::fixture;
use crate::support::{HttpClient, WaitingTool, initialize, request, send, session_of, with_timeout};

/// Sends raw bytes, and reads until the end of the response head or of the connection.
async fn send_raw(http: &HttpClient, bytes: &str) -> String {
    let mut stream = TcpStream::connect(http.server.address()).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    let mut buffer = [0; 4096];
    while !String::from_utf8_lossy(&response).contains("\r\n\r\n") {
        match with_timeout(stream.read(&mut buffer)).await {
            Ok(0) | Err(_) => break,
            Ok(read) => response.extend_from_slice(&buffer[..read]),
        }
    }
    String::from_utf8_lossy(&response).into_owned()
}

#[tokio::test]
async fn unknown_hosts_and_origins_are_rejected() {
    let http = HttpClient::serve(fixture::server(), HttpOptions::default()).await;
    let list = || http.modern("tools/list", json!({}));
    for origin in ["http://evil.example", "https://localhost.evil.example", "null", "nonsense"] {
        assert_eq!(send(list().header("origin", origin)).await.status, 403, "{origin}");
    }
    for origin in ["http://localhost:5173", "http://127.0.0.1", "http://[::1]:80"] {
        assert_eq!(send(list().header("origin", origin)).await.status, 200, "{origin}");
    }
    assert_eq!(send(list().header("host", "evil.example")).await.status, 403);
    assert_eq!(send(list().header("host", "localhost:1")).await.status, 200);
    let get = http.client.get(http.server.url()).header("accept", "text/event-stream");
    assert_eq!(send(get.header("origin", "http://evil.example")).await.status, 403);
}

#[tokio::test]
async fn listed_hosts_and_origins_are_allowed() {
    let mut options = HttpOptions::default();
    options.hosts = vec!["tools.example".to_owned()];
    options.origins = vec!["https://page.example:443".to_owned()];
    let http = HttpClient::serve(fixture::server(), options).await;
    let list = |host: &str, origin: &str| {
        http.modern("tools/list", json!({})).header("host", host).header("origin", origin)
    };
    assert_eq!(send(list("tools.example", "https://page.example")).await.status, 200);
    assert_eq!(send(list("tools.example", "http://localhost")).await.status, 403);
    assert_eq!(send(list("localhost", "https://page.example")).await.status, 403);
}

#[tokio::test]
async fn bodies_that_are_too_large_are_rejected() {
    let mut options = HttpOptions::default();
    options.max_body_bytes = 1000;
    let http = HttpClient::serve(fixture::server(), options).await;
    let large = json!({"name": "echo", "arguments": {"text": "a".repeat(1000)}});
    let rejected = send(http.modern("tools/call", large.clone())).await;
    assert_eq!(rejected.status, 413);
    assert_eq!(rejected.body["error"]["message"], "the body is larger than 1000 bytes");
    // A body without a declared length.
    let text = request(1, "tools/call", large).to_string();
    let pieces: Vec<Result<String, std::io::Error>> =
        vec![Ok(text[..500].to_owned()), Ok(text[500..].to_owned())];
    let body = reqwest::Body::wrap_stream(futures::stream::iter(pieces));
    assert_eq!(send(http.modern("tools/call", json!({"name": "echo"})).body(body)).await.status, 413);
    assert_eq!(send(http.call("echo")).await.status, 200);
}

#[tokio::test]
async fn invalid_bodies_get_an_error() {
    let http = HttpClient::serve(fixture::server(), HttpOptions::default()).await;
    for (body, code) in
        [("{\"half\":", -32700), ("", -32700), ("[]", -32600), ("{\"a\":1}", -32600), ("7", -32600)]
    {
        let response = send(http.post(&json!(null)).body(body)).await;
        assert_eq!((response.status, &response.body["error"]["code"]), (400, &json!(code)), "{body}");
    }
    let post = |accept: &str, kind: &str| {
        let body = initialize("2025-11-25").to_string();
        let post = http.client.post(http.server.url()).body(body);
        post.header("accept", accept).header("content-type", kind)
    };
    assert_eq!(send(post("application/json, text/event-stream", "text/plain")).await.status, 415);
    assert_eq!(send(post("text/html", "application/json")).await.status, 406);
    assert_eq!(send(http.client.put(http.server.url())).await.status, 405);
    let other_path = http.server.url().replace("/mcp", "/other");
    assert_eq!(send(http.client.get(other_path)).await.status, 404);
}

#[tokio::test]
async fn unknown_sessions_are_not_found() {
    let http = HttpClient::serve(fixture::server(), HttpOptions::default()).await;
    let ping = request(1, "ping", json!({}));
    assert_eq!(send(http.in_session("nobody", &ping)).await.status, 404);
    assert_eq!(send(http.post(&ping)).await.status, 400, "without a session id");
    let session = session_of(&http.initialize().await);
    assert_eq!(send(http.in_session(&session, &ping)).await.status, 200);
    let end = http.client.delete(http.server.url()).header("mcp-session-id", &session);
    assert_eq!(send(end).await.status, 202);
    assert_eq!(send(http.in_session(&session, &ping)).await.status, 404);
}

#[tokio::test]
async fn an_incomplete_request_does_not_block_the_server() {
    let mut options = HttpOptions::default();
    options.read_timeout = Duration::from_millis(300);
    options.max_requests = 1;
    let http = HttpClient::serve(fixture::server(), options).await;
    let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\naccept: application/json, text/event-stream\r\n";
    let incomplete_body =
        format!("{head}content-type: application/json\r\ncontent-length: 100\r\n\r\n{{\"json");
    let response = send_raw(&http, &incomplete_body).await;
    assert!(response.starts_with("HTTP/1.1 408"), "{response}");
    // Hyper closes a connection that does not finish its head.
    let response = send_raw(&http, head).await;
    assert!(response.is_empty() || response.starts_with("HTTP/1.1 408"), "{response}");
    assert_eq!(send(http.call("echo")).await.status, 200, "the permit is released");
}

#[tokio::test]
async fn a_disconnected_client_cancels_its_call() {
    let mut waiting = WaitingTool::new();
    let http = HttpClient::serve(waiting.server(), HttpOptions::default()).await;
    let call = tokio::spawn(http.call("wait").send());
    with_timeout(waiting.started.recv()).await.unwrap();
    call.abort();
    with_timeout(waiting.cancelled.recv()).await.unwrap();
}

#[tokio::test]
async fn in_a_session_only_a_cancellation_cancels_a_call() {
    let mut waiting = WaitingTool::new();
    let mut options = HttpOptions::default();
    options.max_requests = 2;
    let http = HttpClient::serve(waiting.server(), options).await;
    let session = session_of(&http.initialize().await);
    let call = request(1, "tools/call", json!({"name": "wait"}));
    let response = with_timeout(http.in_session(&session, &call).send()).await.unwrap();
    with_timeout(waiting.started.recv()).await.unwrap();
    drop(response);
    // The call still holds a permit: one more call fits, and another one does not.
    let second = tokio::spawn(http.call("wait").send());
    with_timeout(waiting.started.recv()).await.unwrap();
    assert_eq!(send(http.call("echo")).await.status, 503);
    second.abort();
    with_timeout(waiting.cancelled.recv()).await.unwrap();
    with_timeout(async { while send(http.call("echo")).await.status != 200 {} }).await;
    let ping = request(2, "ping", json!({}));
    assert_eq!(send(http.in_session(&session, &ping)).await.status, 200);
    assert!(waiting.cancelled.try_recv().is_err());
    let cancellation =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(send(http.in_session(&session, &cancellation)).await.status, 202);
    with_timeout(waiting.cancelled.recv()).await.unwrap();
}

/// The client still sends the body when the response is known, and must receive the response.
#[tokio::test]
async fn a_body_that_is_too_large_is_read_before_it_is_rejected() {
    let mut options = HttpOptions::default();
    options.max_body_bytes = 1024;
    let http = HttpClient::serve(fixture::server(), options).await;
    let large = "x".repeat(8 * 1024 * 1024);
    let with_length = send(http.post(&json!(null)).body(large.clone())).await;
    assert_eq!((with_length.status, &with_length.body["error"]["code"]), (413, &json!(-32600)));
    let chunks = large.as_bytes().chunks(64 * 1024).map(|chunk| Ok::<_, std::io::Error>(chunk.to_vec()));
    let body = reqwest::Body::wrap_stream(futures::stream::iter(chunks.collect::<Vec<_>>()));
    let without_length = send(http.post(&json!(null)).body(body)).await;
    assert_eq!((without_length.status, &without_length.body["error"]["code"]), (413, &json!(-32600)));
}
