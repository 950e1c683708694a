//! Reuse of connections.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use toolwire_contract::Message;
use toolwire_contract::model::Model;
use toolwire_llm::{Endpoint, EndpointConfig, Models, collect};

use crate::harness::question;

/// The heads of the received requests.
type Heads = Arc<Mutex<Vec<String>>>;

/// Sends the same short stream for every request on a connection.
async fn respond(mut connection: TcpStream, heads: Heads) -> std::io::Result<()> {
    let event = json!({"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]});
    let body = format!("data: {event}\n\ndata: [DONE]\n\n");
    let response = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    let mut buffer = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            if connection.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        };
        let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
        heads.lock().expect("no thread panicked").push(head.clone());
        let length = head
            .to_lowercase()
            .lines()
            .find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
        let request_length = end + length.unwrap_or(0usize);
        while buffer.len() < request_length {
            connection.read_buf(&mut buffer).await?;
        }
        buffer.drain(..request_length);
        connection.write_all(response.as_bytes()).await?;
    }
}

/// Starts a server. Returns its address, the number of connections and the heads of the requests.
async fn start_server(tasks: &mut JoinSet<()>) -> (SocketAddr, Arc<AtomicUsize>, Heads) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a local address");
    let (accepted, heads) = (Arc::new(AtomicUsize::new(0)), Heads::default());
    let (counted, recorded) = (accepted.clone(), heads.clone());
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((connection, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            connections.spawn(respond(connection, recorded.clone()));
        }
    });
    (address, accepted, heads)
}

#[tokio::test]
async fn one_connection_serves_many_requests_of_many_endpoints() {
    let mut tasks = JoinSet::new();
    let (address, accepted, _) = start_server(&mut tasks).await;
    let config: EndpointConfig =
        serde_json::from_value(json!({"baseUrl": format!("http://{address}/v1")})).expect("a configuration");
    let configs = BTreeMap::from([("one".to_owned(), config.clone()), ("two".to_owned(), config)]);
    // A proxy that does not exist: requests to localhost never use a proxy.
    let lookup = |name: &str| (name == "ALL_PROXY").then(|| "http://127.0.0.1:9".to_owned());
    let models = Models::new(configs, lookup).expect("models");
    for name in ["one", "two", "one", "two", "one"] {
        let model = models.model(name).expect("an endpoint");
        let response = collect(model.ask(question("hi"))).await.expect("a response");
        assert_eq!(response.message, Message::assistant("hi"));
    }
    assert_eq!(accepted.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn the_login_of_the_base_url_is_in_every_request() {
    let mut tasks = JoinSet::new();
    let (address, _, heads) = start_server(&mut tasks).await;
    let config = json!({"baseUrl": format!("http://me:secret@{address}/v1")});
    let config: EndpointConfig = serde_json::from_value(config).expect("a configuration");
    let endpoint = Endpoint::new("vllm/m", &config, |_| None).expect("an endpoint");
    endpoint.prepare().await;
    collect(endpoint.ask(question("hi"))).await.expect("a response");
    let heads = heads.lock().expect("no thread panicked");
    assert_eq!(heads.len(), 2, "the limits of the model, then the question: {heads:?}");
    for head in heads.iter() {
        assert!(head.contains("authorization: Basic bWU6c2VjcmV0\r\n"), "{head}");
    }
}
