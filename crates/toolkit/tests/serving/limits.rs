//! How much is taken on at once, and how it comes to an end.

use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use toolwire_toolkit::HttpOptions;

use crate::fixture;
use crate::support::{Http, Waiting, answered, request, session_of, soon};

#[tokio::test]
async fn requests_over_the_limit_get_retry_after() {
    let mut options = HttpOptions::default();
    options.max_requests = 1;
    let mut waiting = Waiting::new();
    let http = Http::serve(waiting.server(), options).await;
    let first = tokio::spawn(http.call("wait").send());
    soon(waiting.started.recv()).await.unwrap();
    let second = answered(http.call("echo")).await;
    assert_eq!((second.status, &second.headers["retry-after"]), (503, &"1".parse().unwrap()));
    waiting.may_end.notify_one();
    let first = soon(first).await.unwrap().unwrap();
    assert_eq!(first.status(), 200);
    soon(first.text()).await.unwrap();
    // The place is free when the answer has left, which the client sees a moment before the server.
    soon(async { while answered(http.call("echo")).await.status != 200 {} }).await;
}

#[tokio::test]
async fn the_number_of_sessions_is_limited() {
    let mut options = HttpOptions::default();
    options.max_sessions = 1;
    let http = Http::serve(fixture::server(), options).await;
    let first = http.open().await;
    assert_eq!(first.status, 200);
    let second = http.open().await;
    assert_eq!((second.status, &second.body["error"]["message"]), (503, &json!("too many sessions")));
    let end = http.client.delete(http.server.url()).header("mcp-session-id", session_of(&first));
    assert_eq!(answered(end).await.status, 202);
    soon(async { while http.open().await.status != 200 {} }).await;
}

#[tokio::test]
async fn an_idle_session_ends() {
    let mut options = HttpOptions::default();
    options.session_idle = Duration::from_millis(50);
    let http = Http::serve(fixture::server(), options).await;
    let session = session_of(&http.open().await);
    // Each try would keep it alive, so they come at longer and longer intervals.
    let mut pause = Duration::from_millis(100);
    soon(async {
        loop {
            tokio::time::sleep(pause).await;
            if answered(http.in_session(&session, &request(1, "ping", json!({})))).await.status == 404 {
                return;
            }
            pause *= 2;
        }
    })
    .await;
}

#[tokio::test]
async fn concurrent_calls_all_get_responses() {
    let http = Http::serve(fixture::server(), HttpOptions::default()).await;
    let calls = (0..200).map(|number| {
        let text = format!("call {number}");
        let call = http.modern("tools/call", json!({"name": "echo", "arguments": {"text": text}}));
        async move { (text, answered(call).await) }
    });
    for (text, answer) in join_all(calls).await {
        assert_eq!(answer.body["result"]["content"][0]["text"], text);
    }
}

#[tokio::test]
async fn shutting_down_finishes_calls_in_flight() {
    let mut waiting = Waiting::new();
    let Http { server, client } = Http::serve(waiting.server(), HttpOptions::default()).await;
    let http = Http { server, client };
    let newer = tokio::spawn(http.call("wait").send());
    soon(waiting.started.recv()).await.unwrap();
    let session = session_of(&http.open().await);
    let call = request(1, "tools/call", json!({"name": "wait"}));
    let older = soon(http.in_session(&session, &call).send()).await.unwrap();
    soon(waiting.started.recv()).await.unwrap();
    let late = http.call("echo");
    let ending = tokio::spawn(http.server.shutdown(Duration::from_secs(60)));
    // New connections are refused as soon as the shutdown has begun.
    let mut late = Some(late);
    soon(async {
        while let Some(again) = late.as_ref().and_then(reqwest::RequestBuilder::try_clone) {
            match again.send().await {
                Ok(response) if response.status() == 200 => (),
                _ => late = None,
            }
        }
    })
    .await;
    assert!(!ending.is_finished());
    waiting.may_end.notify_one();
    waiting.may_end.notify_one();
    // `notify_one` keeps a single permit, so the second waiter may need another.
    let release = tokio::spawn({
        let may_end = waiting.may_end.clone();
        async move {
            loop {
                may_end.notify_one();
                tokio::task::yield_now().await;
            }
        }
    });
    let newer = soon(newer).await.unwrap().unwrap();
    assert!(soon(newer.text()).await.unwrap().contains("waited"));
    assert!(soon(older.text()).await.unwrap().contains("waited"));
    soon(ending).await.unwrap();
    release.abort();
    assert!(waiting.cancelled.try_recv().is_err());
}

#[tokio::test]
async fn the_grace_period_ends() {
    let mut waiting = Waiting::new();
    let http = Http::serve(waiting.server(), HttpOptions::default()).await;
    let call = tokio::spawn(http.call("wait").send());
    soon(waiting.started.recv()).await.unwrap();
    let session = session_of(&http.open().await);
    let message = request(1, "tools/call", json!({"name": "wait"}));
    let _older = soon(http.in_session(&session, &message).send()).await.unwrap();
    soon(waiting.started.recv()).await.unwrap();
    soon(http.server.shutdown(Duration::ZERO)).await;
    soon(waiting.cancelled.recv()).await.unwrap();
    soon(waiting.cancelled.recv()).await.unwrap();
    call.abort();
}
