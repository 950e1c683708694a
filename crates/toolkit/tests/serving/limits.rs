//! Limits of requests and sessions, and shutdown.

use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use toolwire_toolkit::transport::HttpOptions;

use crate::fixture;
use crate::support::{HttpClient, WaitingTool, request, send, session_of, with_timeout};

#[tokio::test]
async fn requests_over_the_limit_get_retry_after() {
    let mut options = HttpOptions::default();
    options.max_requests = 1;
    let mut waiting = WaitingTool::new();
    let http = HttpClient::serve(waiting.server(), options).await;
    let first = tokio::spawn(http.call("wait").send());
    with_timeout(waiting.started.recv()).await.unwrap();
    let second = send(http.call("echo")).await;
    assert_eq!((second.status, &second.headers["retry-after"]), (503, &"1".parse().unwrap()));
    waiting.may_end.notify_one();
    let first = with_timeout(first).await.unwrap().unwrap();
    assert_eq!(first.status(), 200);
    with_timeout(first.text()).await.unwrap();
    // The permit is released after the response was sent, slightly later than the client receives it.
    with_timeout(async { while send(http.call("echo")).await.status != 200 {} }).await;
}

/// The SDK would send both responses to the second request.
#[tokio::test]
async fn an_id_has_one_running_request_in_a_session() {
    let mut waiting = WaitingTool::new();
    let http = HttpClient::serve(waiting.server(), HttpOptions::default()).await;
    let session = session_of(&http.initialize().await);
    let call = |id, tool: &str| request(id, "tools/call", json!({"name": tool}));
    let first = tokio::spawn(http.in_session(&session, &call(7, "wait")).send());
    with_timeout(waiting.started.recv()).await.unwrap();
    let second = send(http.in_session(&session, &call(7, "wait"))).await;
    assert_eq!((second.status, &second.body["id"]), (400, &json!(7)), "{}", second.body);
    assert_eq!(second.body["error"]["code"], -32600);
    assert_eq!(send(http.in_session(&session, &request(8, "ping", json!({})))).await.status, 200);
    waiting.may_end.notify_one();
    let first = with_timeout(first).await.unwrap().unwrap();
    assert!(with_timeout(first.text()).await.unwrap().contains("\"id\":7"));
    assert_eq!(send(http.in_session(&session, &request(7, "ping", json!({})))).await.status, 200);
}

#[tokio::test]
async fn the_number_of_sessions_is_limited() {
    let mut options = HttpOptions::default();
    options.max_sessions = 1;
    let http = HttpClient::serve(fixture::server(), options).await;
    let first = http.initialize().await;
    assert_eq!(first.status, 200);
    let second = http.initialize().await;
    assert_eq!((second.status, &second.body["error"]["message"]), (503, &json!("too many sessions")));
    let end = http.client.delete(http.server.url()).header("mcp-session-id", session_of(&first));
    assert_eq!(send(end).await.status, 202);
    with_timeout(async { while http.initialize().await.status != 200 {} }).await;
}

#[tokio::test]
async fn an_idle_session_ends() {
    let mut options = HttpOptions::default();
    options.session_idle = Duration::from_millis(50);
    let http = HttpClient::serve(fixture::server(), options).await;
    let session = session_of(&http.initialize().await);
    // Each request keeps the session alive, so the intervals grow.
    let mut pause = Duration::from_millis(100);
    with_timeout(async {
        loop {
            tokio::time::sleep(pause).await;
            if send(http.in_session(&session, &request(1, "ping", json!({})))).await.status == 404 {
                return;
            }
            pause *= 2;
        }
    })
    .await;
}

#[tokio::test]
async fn concurrent_calls_all_get_responses() {
    let http = HttpClient::serve(fixture::server(), HttpOptions::default()).await;
    let calls = (0..200).map(|number| {
        let text = format!("call {number}");
        let call = http.modern("tools/call", json!({"name": "echo", "arguments": {"text": text}}));
        async move { (text, send(call).await) }
    });
    for (text, response) in join_all(calls).await {
        assert_eq!(response.body["result"]["content"][0]["text"], text);
    }
}

#[tokio::test]
async fn shutdown_waits_for_calls_in_flight() {
    let mut waiting = WaitingTool::new();
    let http = HttpClient::serve(waiting.server(), HttpOptions::default()).await;
    let newer = tokio::spawn(http.call("wait").send());
    with_timeout(waiting.started.recv()).await.unwrap();
    let session = session_of(&http.initialize().await);
    let call = request(1, "tools/call", json!({"name": "wait"}));
    let older = with_timeout(http.in_session(&session, &call).send()).await.unwrap();
    with_timeout(waiting.started.recv()).await.unwrap();
    let mut probe = Some(http.call("echo"));
    let shutdown = tokio::spawn(http.server.shutdown(Duration::from_secs(60)));
    // New connections are refused once the shutdown has started.
    with_timeout(async {
        while let Some(request) = probe.as_ref().and_then(reqwest::RequestBuilder::try_clone) {
            match request.send().await {
                Ok(response) if response.status() == 200 => (),
                _ => probe = None,
            }
        }
    })
    .await;
    assert!(!shutdown.is_finished());
    waiting.may_end.notify_one();
    waiting.may_end.notify_one();
    // `notify_one` stores a single permit, so the second waiter may need another.
    let release = tokio::spawn({
        let may_end = waiting.may_end.clone();
        async move {
            loop {
                may_end.notify_one();
                tokio::task::yield_now().await;
            }
        }
    });
    let newer = with_timeout(newer).await.unwrap().unwrap();
    assert!(with_timeout(newer.text()).await.unwrap().contains("waited"));
    assert!(with_timeout(older.text()).await.unwrap().contains("waited"));
    with_timeout(shutdown).await.unwrap();
    release.abort();
    assert!(waiting.cancelled.try_recv().is_err());
}

#[tokio::test]
async fn calls_are_cancelled_after_the_grace_period() {
    let mut waiting = WaitingTool::new();
    let http = HttpClient::serve(waiting.server(), HttpOptions::default()).await;
    let call = tokio::spawn(http.call("wait").send());
    with_timeout(waiting.started.recv()).await.unwrap();
    let session = session_of(&http.initialize().await);
    let message = request(1, "tools/call", json!({"name": "wait"}));
    let _older = with_timeout(http.in_session(&session, &message).send()).await.unwrap();
    with_timeout(waiting.started.recv()).await.unwrap();
    with_timeout(http.server.shutdown(Duration::ZERO)).await;
    with_timeout(waiting.cancelled.recv()).await.unwrap();
    with_timeout(waiting.cancelled.recv()).await.unwrap();
    call.abort();
}
