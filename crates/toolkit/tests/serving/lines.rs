//! Invalid and unusual lines on a stream.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use toolwire_toolkit::transport::in_process;

use crate::fixture;
use crate::support::{StreamClient, modern, request};

/// Sends a raw line and checks the id and the code of the error; the server must work as before.
async fn check(line: &[u8], id: Value, code: i64) {
    let (stream, _server) = in_process(fixture::server()).unwrap();
    let mut client = StreamClient::new(stream);
    let echo = |number: u64| {
        request(number, "tools/call", modern(json!({"name": "echo", "arguments": {"text": "here"}})))
    };
    assert_eq!(client.request(echo(1)).await["result"]["content"][0]["text"], "here");
    let excerpt = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
    client.output.write_all(line).await.unwrap();
    client.output.write_all(b"\n").await.unwrap();
    let response = client.next().await;
    assert_eq!((&response["id"], &response["error"]["code"]), (&id, &json!(code)), "{excerpt}: {response}");
    assert_eq!(response["jsonrpc"], "2.0");
    assert_eq!(client.request(echo(2)).await["result"]["content"][0]["text"], "here", "after {excerpt}");
}

fn call(text: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"echo","arguments":{{"text":{text}}}}}}}"#
    )
}

#[tokio::test]
async fn an_invalid_line_gets_an_error_with_its_id() {
    check(call(r#""\ud800""#).as_bytes(), json!(7), -32700).await;
    let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
    check(call(&deep).as_bytes(), json!(7), -32700).await;
    let mut invalid_utf8 = call(r#""?""#).into_bytes();
    let position = invalid_utf8.iter().position(|byte| *byte == b'?').unwrap();
    invalid_utf8[position] = 0xff;
    check(&invalid_utf8, json!(7), -32700).await;
    check(call("1e").as_bytes(), json!(7), -32700).await;
    check(br#"{"jsonrpc":"2.0","id":"cut","method":"tools/call","params":{"na"#, json!("cut"), -32700).await;
}

#[tokio::test]
async fn an_invalid_line_without_an_id_gets_an_error_without_id() {
    check(b"hello", Value::Null, -32700).await;
    check(b"[1,2]", Value::Null, -32600).await;
    check(br#"{"id":{},"method":"ping","jsonrpc":"2.0"}"#, Value::Null, -32600).await;
    check(br#"{"jsonrpc":"2.0","id":3,"result":"\ud800"}"#, Value::Null, -32700).await;
}

#[tokio::test]
async fn a_line_that_is_too_long_is_skipped() {
    let long = call(&format!("\"{}\"", "x".repeat(16 * 1024 * 1024)));
    check(long.as_bytes(), json!(7), -32700).await;
}

#[tokio::test]
async fn an_unknown_notification_gets_no_response() {
    let (stream, _server) = in_process(fixture::server()).unwrap();
    let mut client = StreamClient::new(stream);
    client.initialize("2025-11-25").await;
    client.send(json!({"jsonrpc": "2.0", "method": "$/unknown", "params": 5})).await;
    client.write("").await;
    let response = client.request(request(1, "ping", json!({}))).await;
    assert_eq!(response, json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
}

#[tokio::test]
async fn the_last_line_needs_no_line_break() {
    let (stream, _server) = in_process(fixture::server()).unwrap();
    let mut client = StreamClient::new(stream);
    let echo = request(1, "tools/call", modern(json!({"name": "echo", "arguments": {"text": "here"}})));
    client.output.write_all(echo.to_string().as_bytes()).await.unwrap();
    client.output.shutdown().await.unwrap();
    assert_eq!(client.next().await["result"]["content"][0]["text"], "here");
}
