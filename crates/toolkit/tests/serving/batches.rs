//! Batches, as 2025-03-26 has them and no other revision.

use serde_json::{Value, json};
use toolwire_toolkit::{HttpOptions, in_process};

use crate::fixture;
use crate::support::{Http, Lines, Waiting, answered, initialize, request, session_of, soon};

fn echo(id: u64, text: &str) -> Value {
    request(id, "tools/call", json!({"name": "echo", "arguments": {"text": text}}))
}

fn initialized() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
}

fn by_id(mut answers: Vec<Value>) -> Vec<Value> {
    answers.sort_by_key(|answer| answer["id"].as_i64());
    answers
}

#[tokio::test]
async fn a_batch_on_a_stream_gets_a_batch_of_responses() {
    let (stream, _server) = in_process(fixture::server()).unwrap();
    let mut client = Lines::new(stream);
    client.open("2025-03-26").await;
    let nonsense = json!({"jsonrpc": "2.0", "id": 3, "method": 5});
    client.send(json!([echo(1, "a"), initialized(), echo(2, "b"), nonsense, initialize("2025-03-26")])).await;
    let answers = by_id(client.next().await.as_array().expect("one array").clone());
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [&initialize("2025-03-26")["id"], &json!(1), &json!(2), &json!(3)]);
    assert_eq!(answers[0]["error"]["code"], -32600);
    assert_eq!(answers[1]["result"]["content"][0]["text"], "a");
    assert_eq!(answers[2]["result"]["content"][0]["text"], "b");
    assert_eq!(answers[3]["error"]["code"], -32600);
    // Notifications alone have no answer; an empty batch is none.
    client.send(json!([initialized()])).await;
    client.send(json!([])).await;
    assert_eq!(client.next().await["error"]["message"], "the batch is empty");
    client.send(json!(vec![initialized(); 1000])).await;
    let refused = client.next().await["error"]["message"].clone();
    assert_eq!(refused, "the batch has 1000 messages; the limit is 256");
    assert_eq!(client.ask(echo(4, "c")).await["result"]["content"][0]["text"], "c");
}

#[tokio::test]
async fn a_batch_does_not_wait_for_cancelled_requests() {
    let mut waiting = Waiting::new();
    let (stream, _server) = in_process(waiting.server()).unwrap();
    let mut client = Lines::new(stream);
    client.open("2025-03-26").await;
    client
        .send(json!([request(1, "tools/call", json!({"name": "wait"})), request(2, "ping", json!({}))]))
        .await;
    soon(waiting.started.recv()).await.unwrap();
    // An answer of its own is not held back by the batch.
    assert_eq!(client.ask(request(3, "ping", json!({}))).await["id"], 3);
    client
        .send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}))
        .await;
    let answers = client.next().await;
    assert_eq!(answers, json!([{"jsonrpc": "2.0", "id": 2, "result": {}}]));
}

#[tokio::test]
async fn a_batch_over_http_gets_one_stream_of_responses() {
    let http = Http::serve(fixture::server(), HttpOptions::default()).await;
    let session = session_of(&answered(http.post(&initialize("2025-03-26"))).await);
    let post = |batch: &Value| http.post(batch).header("mcp-session-id", &session);
    assert_eq!(answered(post(&json!([initialized()]))).await.status, 202);

    let nonsense = json!({"jsonrpc": "2.0", "id": 3, "method": 5});
    let batch = json!([echo(1, "a"), nonsense, echo(2, "b"), initialize("2025-03-26")]);
    let response = soon(post(&batch).send()).await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["content-type"]),
        (200, &"text/event-stream".parse().unwrap())
    );
    let text = soon(response.text()).await.unwrap();
    let events = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| !data.is_empty());
    let answers = by_id(events.map(|data| serde_json::from_str(data).unwrap()).collect());
    assert_eq!(answers.len(), 4, "{text}");
    assert_eq!(answers[0]["error"]["message"], "`initialize` cannot be part of a batch");
    assert_eq!(answers[1]["result"]["content"][0]["text"], "a");
    assert_eq!(answers[2]["result"]["content"][0]["text"], "b");
    assert_eq!(answers[3]["error"]["code"], -32600);

    assert_eq!(answered(post(&json!([]))).await.body["error"]["message"], "the batch is empty");
    let elsewhere = http.post(&batch).header("mcp-session-id", "of nobody");
    assert_eq!(answered(elsewhere).await.status, 404);
}

#[tokio::test]
async fn each_message_of_a_batch_counts_as_a_request() {
    let mut options = HttpOptions::default();
    options.max_requests = 2;
    let http = Http::serve(fixture::server(), options).await;
    let session = session_of(&answered(http.post(&initialize("2025-03-26"))).await);
    let post = |batch: &Value| http.post(batch).header("mcp-session-id", &session);
    assert_eq!(answered(post(&json!([echo(1, "a"), echo(2, "b"), echo(3, "c")]))).await.status, 503);
    assert_eq!(answered(post(&json!([echo(1, "a"), echo(2, "b")]))).await.status, 200);
    assert_eq!(answered(post(&json!([echo(4, "a"), echo(5, "b")]))).await.status, 200);
}

#[tokio::test]
async fn later_revisions_reject_batches() {
    let (stream, _server) = in_process(fixture::server()).unwrap();
    let mut client = Lines::new(stream);
    client.open("2025-06-18").await;
    client.send(json!([echo(1, "a")])).await;
    assert_eq!(client.next().await["error"]["code"], -32600);

    let http = Http::serve(fixture::server(), HttpOptions::default()).await;
    let session = session_of(&http.open().await);
    let refused = answered(http.in_session(&session, &json!([echo(1, "a")]))).await;
    assert_eq!((refused.status, &refused.body["error"]["code"]), (400, &json!(-32600)));
}
