//! Lines that are no messages, over a stream.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use toolwire_toolkit::in_process;

use crate::fixture;
use crate::support::{Lines, modern, request};

/// Sends a line as it is, and compares id and code of what comes back; the server must then answer as before.
async fn check(line: &[u8], id: Value, code: i64) {
    let (stream, _server) = in_process(fixture::server()).unwrap();
    let mut lines = Lines::new(stream);
    let echo = |number: u64| {
        request(number, "tools/call", modern(json!({"name": "echo", "arguments": {"text": "here"}})))
    };
    assert_eq!(lines.ask(echo(1)).await["result"]["content"][0]["text"], "here");
    let shown = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
    lines.output.write_all(line).await.unwrap();
    lines.output.write_all(b"\n").await.unwrap();
    let answer = lines.next().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(code)), "{shown}: {answer}");
    assert_eq!(answer["jsonrpc"], "2.0");
    assert_eq!(lines.ask(echo(2)).await["result"]["content"][0]["text"], "here", "after {shown}");
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
    let mut no_text = call(r#""?""#).into_bytes();
    let place = no_text.iter().position(|byte| *byte == b'?').unwrap();
    no_text[place] = 0xff;
    check(&no_text, json!(7), -32700).await;
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
    let mut lines = Lines::new(stream);
    lines.open("2025-11-25").await;
    lines.send(json!({"jsonrpc": "2.0", "method": "$/unknown", "params": 5})).await;
    lines.write("").await;
    let answer = lines.ask(request(1, "ping", json!({}))).await;
    assert_eq!(answer, json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
}

/// A last line whose end was never sent is a message all the same.
#[tokio::test]
async fn the_last_line_needs_no_line_break() {
    let (stream, _server) = in_process(fixture::server()).unwrap();
    let mut lines = Lines::new(stream);
    let echo = request(1, "tools/call", modern(json!({"name": "echo", "arguments": {"text": "here"}})));
    lines.output.write_all(echo.to_string().as_bytes()).await.unwrap();
    lines.output.shutdown().await.unwrap();
    assert_eq!(lines.next().await["result"]["content"][0]["text"], "here");
}
