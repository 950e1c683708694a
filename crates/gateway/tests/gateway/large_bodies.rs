//! Bodies with many values, and large ones, which are read on another thread. The number is that of
//! `docs/security-tests.md`.

use std::time::Duration;

use crate::support::{MODEL, TestGateway};
use serde_json::{Value, json};
use toolwire_gateway::GatewaySettings;
use toolwire_testkit::http_client;

const PATHS: [&str; 6] = [
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/responses/input_tokens",
    "/v1/embeddings",
];

async fn post(gateway: &TestGateway, path: &str, body: String) -> (u16, Value) {
    let request = http_client().post(gateway.url(path)).header("content-type", "application/json");
    let response = request.body(body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// Security rule 17: a body with too many values is rejected before it is parsed, because the values take
/// much more memory than the text.
#[tokio::test]
async fn a_body_has_at_most_a_million_values() {
    let gateway = TestGateway::start().await;
    for element in ["0", "{}"] {
        // The object, its two keys, the name of the model and the array are five values.
        let elements = vec![element; 999_996].join(",");
        let body = format!("{{\"model\":\"{MODEL}\",\"messages\":[{elements}]}}");
        for path in PATHS {
            let (status, error) = post(&gateway, path, body.clone()).await;
            let message = "the body has more than 1000000 values and keys";
            assert_eq!((status, &error["error"]["message"]), (400, &json!(message)), "{path}");
            assert_eq!(error["type"] == "error", path.starts_with("/v1/messages"), "{path}: {error}");
        }
    }
}

/// A large body is read like a small one.
#[tokio::test]
async fn large_bodies_are_served() {
    let gateway = TestGateway::start().await;
    let text = "x".repeat(400_000);
    let history = json!([
        {"role": "user", "content": text}, {"role": "assistant", "content": "Go on."}, {"role": "user", "content": "ours"},
    ]);
    for (path, key) in
        [("/v1/chat/completions", "messages"), ("/v1/responses", "input"), ("/v1/messages", "messages")]
    {
        let mut body = json!({"model": MODEL, "max_tokens": 100});
        if path == "/v1/responses" {
            body = json!({"model": MODEL});
        }
        body[key] = history.clone();
        let (status, response) = post(&gateway, path, body.to_string()).await;
        assert_eq!(status, 200, "{path}: {response}");
        assert!(response.to_string().contains("Results: value of a."), "{path}: {response}");
        body[key] = json!([text, 0]);
        let (status, error) = post(&gateway, path, body.to_string()).await;
        assert_eq!(status, 400, "{path}: {error}");
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.contains(&format!("{key}[0]")), "{path}: {message}");
    }
    let body = json!({"model": MODEL, "messages": history}).to_string();
    let (status, count) = post(&gateway, "/v1/messages/count_tokens", body).await;
    assert_eq!(status, 200, "{count}");
    let body = json!({"model": MODEL, "input": history}).to_string();
    let (status, same) = post(&gateway, "/v1/responses/input_tokens", body).await;
    let expected = json!({"object": "response.input_tokens", "input_tokens": count["input_tokens"]});
    assert_eq!((status, same), (200, expected));
}

/// A history with very many messages or calls is handled in time proportional to its length, also if it must
/// be reduced to the size of the context window.
#[tokio::test]
async fn histories_with_many_messages_end() {
    const TEST_TIMEOUT: Duration = Duration::from_secs(60);
    let mut settings = GatewaySettings::default();
    settings.agent.context.tokens = Some(20_000);
    let gateway = TestGateway::with(settings).await;
    let turn = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]);
    let question = json!({"role": "user", "content": "ours"});
    let turns: Vec<Value> = (0..50_000).flat_map(|_| turn.as_array().unwrap().clone()).collect();
    let calls: Vec<Value> = (0..50_000)
        .map(|number| json!({"id": format!("call_{number}"), "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}))
        .collect();
    let step = vec![question.clone(), json!({"role": "assistant", "content": null, "tool_calls": calls})];
    for history in [turns, step] {
        let messages: Vec<Value> = history.into_iter().chain([question.clone()]).collect();
        let body = json!({"model": MODEL, "messages": messages}).to_string();
        let response = post(&gateway, "/v1/chat/completions", body);
        let (status, response) = tokio::time::timeout(TEST_TIMEOUT, response).await.expect("a response");
        assert_eq!(status, 200, "{response}");
        assert!(response.to_string().contains("Results: value of a."), "{response}");
    }
}
