//! Requests with an `Idempotency-Key`: a repeated request gets the first response, and calls no tool again.

use std::sync::atomic::Ordering;
use std::time::Duration;

use http::HeaderMap;
use serde_json::{Value, json};
use toolwire_gateway::{GatewaySettings, Keys};
use toolwire_testkit::http_client;

use crate::client::{CHAT, MESSAGES, RESPONSES};
use crate::support::{MODEL, TestGateway};

const KEYS: [&str; 2] = ["tw_0123456789abcdef0123456789abcdef", "tw_other456789abcdef0123456789abcdef"];

/// The maximum time to wait for an expected event.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

fn body(path: &str, text: &str) -> Value {
    match path {
        RESPONSES => json!({"model": MODEL, "input": text}),
        _ => json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": text}]}),
    }
}

fn request(gateway: &TestGateway, path: &str, key: &str, body: &Value) -> reqwest::RequestBuilder {
    http_client().post(gateway.url(path)).header("Idempotency-Key", key).json(body)
}

async fn send(request: reqwest::RequestBuilder) -> (u16, HeaderMap, Value) {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    (status, headers, response.json().await.unwrap())
}

async fn post(gateway: &TestGateway, path: &str, key: &str, body: &Value) -> (u16, HeaderMap, Value) {
    send(request(gateway, path, key, body)).await
}

fn is_replayed(headers: &HeaderMap) -> bool {
    headers.get("idempotent-replayed").is_some_and(|value| value == "true")
}

async fn until(condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, waiting).await.expect("the condition holds at last");
}

#[tokio::test]
async fn a_repeated_request_gets_the_first_response() {
    let gateway = TestGateway::start().await;
    for (number, path) in [CHAT, RESPONSES, MESSAGES].into_iter().enumerate() {
        let [one, two] = [format!("{path} 1"), format!("{path} 2")];
        let (status, headers, first) = post(&gateway, path, &one, &body(path, "ours")).await;
        assert_eq!((status, is_replayed(&headers)), (200, false), "{first}");
        let (status, headers, second) = post(&gateway, path, &one, &body(path, "ours")).await;
        assert_eq!((status, is_replayed(&headers)), (200, true));
        assert_eq!(first, second, "also the id");
        assert_eq!(gateway.running.calls.load(Ordering::SeqCst), 2 * number + 1, "one call for the key");
        // Without the key, or with another one, it is another request.
        post(&gateway, path, &two, &body(path, "ours")).await;
        assert_eq!(gateway.running.calls.load(Ordering::SeqCst), 2 * number + 2);
        let (status, _, error) = post(&gateway, path, &one, &body(path, "say hi")).await;
        assert_eq!(status, 422, "{error}");
        assert!(path == MESSAGES || error["error"]["code"] == "idempotency_key_reused", "{error}");
    }
}

/// The SDKs repeat a request after a timeout or a lost connection. The tool of the first attempt still runs,
/// and its result is used.
#[tokio::test]
async fn a_request_that_still_runs_is_awaited() {
    let gateway = TestGateway::start().await;
    for path in [CHAT, RESPONSES, MESSAGES] {
        let calls = gateway.running.calls.load(Ordering::SeqCst);
        let body = body(path, "wait 300");
        let first = tokio::spawn(send(request(&gateway, path, path, &body)));
        until(|| gateway.running.calls.load(Ordering::SeqCst) == calls + 1).await;
        first.abort();
        assert!(first.await.is_err_and(|error| error.is_cancelled()), "the client has left");
        let second = tokio::spawn(send(request(&gateway, path, path, &body)));
        let (status, headers, third) = post(&gateway, path, path, &body).await;
        assert_eq!((status, is_replayed(&headers)), (200, true), "{third}");
        assert_eq!(second.await.unwrap().2, third);
        assert!(third.to_string().contains("Results: waited"), "{third}");
        assert_eq!(gateway.running.calls.load(Ordering::SeqCst), calls + 1);
    }
}

#[tokio::test]
async fn a_failed_request_is_run_again_unless_a_tool_was_called() {
    let gateway = TestGateway::start().await;
    for path in [CHAT, RESPONSES, MESSAGES] {
        for attempt in 1..=2 {
            let asked = gateway.model.requests().len();
            let (status, headers, _) =
                post(&gateway, path, &format!("{path} status"), &body(path, "status 429")).await;
            assert_eq!((status, is_replayed(&headers)), (429, false));
            assert_eq!(gateway.model.requests().len(), asked + 1, "attempt {attempt}");
        }
        let calls = gateway.running.calls.load(Ordering::SeqCst);
        let late = format!("{path} late");
        let (status, headers, first) = post(&gateway, path, &late, &body(path, "late-status")).await;
        assert!(status >= 500 && headers["x-should-retry"] == "false", "{status}: {first}");
        let (repeated, headers, second) = post(&gateway, path, &late, &body(path, "late-status")).await;
        assert_eq!((repeated, &headers["x-should-retry"]), (status, &"false".parse().unwrap()));
        assert_eq!(first, second);
        assert_eq!(gateway.running.calls.load(Ordering::SeqCst), calls + 1);
    }
}

#[tokio::test]
async fn keys_belong_to_the_caller_and_streams_ignore_them() {
    let mut settings = GatewaySettings::default();
    settings.keys = Keys::default().with("one", KEYS[0]).with("two", KEYS[1]);
    let gateway = TestGateway::with(settings).await;
    let ask = async |caller: usize, text: &str| {
        let request = request(&gateway, RESPONSES, "k", &body(RESPONSES, text)).bearer_auth(KEYS[caller]);
        send(request).await
    };
    let (status, _, one) = ask(0, "say one").await;
    assert_eq!(status, 200, "{one}");
    let (status, headers, two) = ask(1, "say two").await;
    assert_eq!((status, is_replayed(&headers)), (200, false), "{two}");
    assert_eq!(ask(0, "say one").await.2, one);
    assert_eq!(ask(1, "say two").await.2, two);
    let mut streamed = body(RESPONSES, "ours");
    streamed["stream"] = json!(true);
    for attempt in 1..=2 {
        let request = request(&gateway, RESPONSES, "stream", &streamed).bearer_auth(KEYS[0]);
        let text = request.send().await.unwrap().text().await.unwrap();
        assert!(text.contains("response.completed"), "{text}");
        assert_eq!(gateway.running.calls.load(Ordering::SeqCst), attempt);
    }
}
