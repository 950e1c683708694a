//! Connections are used again, and requests stay where they were sent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use toolwire_contract::Message;
use toolwire_llm::{EndpointConfig, Models, collect};

use crate::setting::question;

/// Answers every request on a connection with the same short stream.
async fn answer(mut connection: TcpStream) -> std::io::Result<()> {
    let event = json!({"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]});
    let body = format!("data: {event}\n\ndata: [DONE]\n\n");
    let reply = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    let mut held = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = held.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            if connection.read_buf(&mut held).await? == 0 {
                return Ok(());
            }
        };
        let head = String::from_utf8_lossy(&held[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
        let whole = end + length.unwrap_or(0usize);
        while held.len() < whole {
            connection.read_buf(&mut held).await?;
        }
        held.drain(..whole);
        connection.write_all(reply.as_bytes()).await?;
    }
}

#[tokio::test]
async fn one_connection_serves_many_requests_of_many_endpoints() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("this machine has a free port");
    let address = listener.local_addr().expect("it has an address");
    let accepted = Arc::new(AtomicUsize::new(0));
    let counted = accepted.clone();
    let mut server = JoinSet::new();
    server.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((connection, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            connections.spawn(answer(connection));
        }
    });
    let config =
        EndpointConfig { base_url: Some(format!("http://{address}/v1")), ..EndpointConfig::default() };
    let configs = BTreeMap::from([("one".to_owned(), config.clone()), ("two".to_owned(), config)]);
    // A proxy that nobody listens at: this machine is never asked through one.
    let lookup = |name: &str| (name == "ALL_PROXY").then(|| "http://127.0.0.1:9".to_owned());
    let models = Models::new(configs, lookup).expect("models");
    for name in ["one", "two", "one", "two", "one"] {
        let model = models.model(name).expect("an endpoint");
        let answer = collect(model.ask(question("hi"))).await.expect("an answer");
        assert_eq!(answer.message, Message::assistant("hi"));
    }
    assert_eq!(accepted.load(Ordering::SeqCst), 1);
}
