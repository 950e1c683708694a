//! Batches, which only 2025-03-26 supports.

use serde_json::{Value, json};
use toolwire_toolkit::transport::{HttpOptions, in_process};

use crate::fixture;
use crate::support::{
    HttpClient, StreamClient, WaitingTool, initialize, request, send, session_of, with_timeout,
};

fn echo(id: u64, text: &str) -> Value {
    request(id, "tools/call", json!({"name": "echo", "arguments": {"text": text}}))
}

fn initialized() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
}

fn by_id(mut responses: Vec<Value>) -> Vec<Value> {
    responses.sort_by_key(|response| response["id"].as_i64());
    responses
}

#[tokio::test]
async fn a_batch_on_a_stream_gets_a_batch_of_responses() {
    let (stream, _server) = in_process(fixture::server()).unwrap();
    let mut client = StreamClient::new(stream);
    client.initialize("2025-03-26").await;
    let invalid = json!({"jsonrpc": "2.0", "id": 3, "method": 5});
    client.send(json!([echo(1, "a"), initialized(), echo(2, "b"), invalid, initialize("2025-03-26")])).await;
    let responses = by_id(client.next().await.as_array().expect("one array").clone());
    let ids: Vec<&Value> = responses.iter().map(|response| &response["id"]).collect();
    assert_eq!(ids, [&initialize("2025-03-26")["id"], &json!(1), &json!(2), &json!(3)]);
    assert_eq!(responses[0]["error"]["code"], -32600);
    assert_eq!(responses[1]["result"]["content"][0]["text"], "a");
    assert_eq!(responses[2]["result"]["content"][0]["text"], "b");
    assert_eq!(responses[3]["error"]["code"], -32600);
    // A batch of notifications has no response; an empty batch is an error.
    client.send(json!([initialized()])).await;
    client.send(json!([])).await;
    assert_eq!(client.next().await["error"]["message"], "the batch is empty");
    client.send(json!(vec![initialized(); 1000])).await;
    let rejected = client.next().await["error"]["message"].clone();
    assert_eq!(rejected, "the batch has 1000 messages; the limit is 256");
    assert_eq!(client.request(echo(4, "c")).await["result"]["content"][0]["text"], "c");
}

#[tokio::test]
async fn a_batch_does_not_wait_for_cancelled_requests() {
    let mut waiting = WaitingTool::new();
    let (stream, _server) = in_process(waiting.server()).unwrap();
    let mut client = StreamClient::new(stream);
    client.initialize("2025-03-26").await;
    client
        .send(json!([request(1, "tools/call", json!({"name": "wait"})), request(2, "ping", json!({}))]))
        .await;
    with_timeout(waiting.started.recv()).await.unwrap();
    // Responses to requests outside the batch are not delayed.
    assert_eq!(client.request(request(3, "ping", json!({}))).await["id"], 3);
    client
        .send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}))
        .await;
    let responses = client.next().await;
    assert_eq!(responses, json!([{"jsonrpc": "2.0", "id": 2, "result": {}}]));
}

#[tokio::test]
async fn a_batch_over_http_gets_one_stream_of_responses() {
    let http = HttpClient::serve(fixture::server(), HttpOptions::default()).await;
    let session = session_of(&send(http.post(&initialize("2025-03-26"))).await);
    let post = |batch: &Value| http.post(batch).header("mcp-session-id", &session);
    assert_eq!(send(post(&json!([initialized()]))).await.status, 202);

    let invalid = json!({"jsonrpc": "2.0", "id": 3, "method": 5});
    let batch = json!([echo(1, "a"), invalid, echo(2, "b"), initialize("2025-03-26")]);
    let response = with_timeout(post(&batch).send()).await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["content-type"]),
        (200, &"text/event-stream".parse().unwrap())
    );
    let text = with_timeout(response.text()).await.unwrap();
    let events = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| !data.is_empty());
    let responses = by_id(events.map(|data| serde_json::from_str(data).unwrap()).collect());
    assert_eq!(responses.len(), 4, "{text}");
    assert_eq!(responses[0]["error"]["message"], "`initialize` cannot be part of a batch");
    assert_eq!(responses[1]["result"]["content"][0]["text"], "a");
    assert_eq!(responses[2]["result"]["content"][0]["text"], "b");
    assert_eq!(responses[3]["error"]["code"], -32600);

    assert_eq!(send(post(&json!([]))).await.body["error"]["message"], "the batch is empty");
    let repeated = send(post(&json!([echo(7, "a"), echo(7, "b")]))).await;
    assert_eq!(repeated.body["error"]["message"], "two requests of the batch have the id 7");
    let unknown_session = http.post(&batch).header("mcp-session-id", "unknown");
    assert_eq!(send(unknown_session).await.status, 404);
}

#[tokio::test]
async fn each_message_of_a_batch_counts_as_a_request() {
    let mut options = HttpOptions::default();
    options.max_requests = 2;
    let http = HttpClient::serve(fixture::server(), options).await;
    let session = session_of(&send(http.post(&initialize("2025-03-26"))).await);
    let post = |batch: &Value| http.post(batch).header("mcp-session-id", &session);
    assert_eq!(send(post(&json!([echo(1, "a"), echo(2, "b"), echo(3, "c")]))).await.status, 503);
    assert_eq!(send(post(&json!([echo(1, "a"), echo(2, "b")]))).await.status, 200);
    assert_eq!(send(post(&json!([echo(4, "a"), echo(5, "b")]))).await.status, 200);
}

#[tokio::test]
async fn later_revisions_reject_batches() {
    let (stream, _server) = in_process(fixture::server()).unwrap();
    let mut client = StreamClient::new(stream);
    client.initialize("2025-06-18").await;
    client.send(json!([echo(1, "a")])).await;
    assert_eq!(client.next().await["error"]["code"], -32600);

    let http = HttpClient::serve(fixture::server(), HttpOptions::default()).await;
    let session = session_of(&http.initialize().await);
    let rejected = send(http.in_session(&session, &json!([echo(1, "a")]))).await;
    assert_eq!((rejected.status, &rejected.body["error"]["code"]), (400, &json!(-32600)));
}
