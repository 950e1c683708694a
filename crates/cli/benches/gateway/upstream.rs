//! A provider that responds at once with fixed bytes. The path of a request selects the response.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::http::{Framing, framing};

/// The number of text events of a streamed response.
const STREAMED_WORDS: usize = 20;

/// The behaviour of the model. It is the first part of the path in the base URL of the model.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Behaviour {
    Text,
    Stream,
    /// A stream that does not end after its first event.
    OpenStream,
    /// A call of a tool in each of this many rounds, then text.
    Calls(usize),
}

impl Behaviour {
    pub(crate) fn path(self) -> String {
        match self {
            Behaviour::Text => "/text".to_owned(),
            Behaviour::Stream => "/stream".to_owned(),
            Behaviour::OpenStream => "/open-stream".to_owned(),
            Behaviour::Calls(rounds) => format!("/calls-{rounds}"),
        }
    }

    const ALL: [Behaviour; 5] =
        [Behaviour::Text, Behaviour::Stream, Behaviour::OpenStream, Behaviour::Calls(1), Behaviour::Calls(2)];
}

/// Serves on a separate thread until the process ends.
pub(crate) fn start() -> io::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::spawn(move || runtime.block_on(accept(listener)));
    Ok(address)
}

async fn accept(listener: std::net::TcpListener) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let responses: &'static [FixedResponse] = responses().leak();
    loop {
        let (connection, _) = listener.accept().await?;
        connection.set_nodelay(true)?;
        // An error is the end of the connection.
        tokio::spawn(serve(connection, responses));
    }
}

async fn serve(mut connection: TcpStream, responses: &[FixedResponse]) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(64 * 1024);
    loop {
        let length = loop {
            match framing(&buffer) {
                Some((head, Framing::Length(body))) if buffer.len() >= head + body => break head + body,
                _ if connection.read_buf(&mut buffer).await? == 0 => return Ok(()),
                _ => {}
            }
        };
        let request = &buffer[..length];
        let found = responses.iter().find(|response| request.starts_with(response.start.as_bytes()));
        let Some(found) = found else { return Err(io::ErrorKind::NotFound.into()) };
        let round = match found.behaviour {
            Behaviour::Calls(rounds) => count(request, b"\"tool_call_id\"").min(rounds),
            _ => 0,
        };
        connection.write_all(&found.rounds[round]).await?;
        if found.behaviour == Behaviour::OpenStream {
            tokio::time::sleep(Duration::from_secs(3600)).await;
        }
        buffer.drain(..length);
    }
}

fn count(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).filter(|window| *window == part).count()
}

/// The responses to requests that start like this, one for each round.
struct FixedResponse {
    start: String,
    behaviour: Behaviour,
    rounds: Vec<Vec<u8>>,
}

fn responses() -> Vec<FixedResponse> {
    let of_behaviour = |behaviour: Behaviour| {
        let prefix = behaviour.path();
        [(true, "/v1/messages"), (false, "/v1/chat/completions")].map(|(is_messages, path)| FixedResponse {
            start: format!("POST {prefix}{path} "),
            behaviour,
            rounds: match (behaviour, is_messages) {
                (Behaviour::Calls(rounds), _) => {
                    (0..rounds).map(|round| whole(&chat_call(round))).chain([whole(&chat_text())]).collect()
                }
                (Behaviour::Text, true) => vec![whole(&messages_text())],
                (Behaviour::Text, false) => vec![whole(&chat_text())],
                (Behaviour::Stream, true) => vec![streamed(&messages_events(), true)],
                (Behaviour::Stream, false) => vec![streamed(&chat_events(), true)],
                (Behaviour::OpenStream, true) => vec![streamed(&messages_events()[..3], false)],
                (Behaviour::OpenStream, false) => vec![streamed(&chat_events()[..2], false)],
            },
        })
    };
    Behaviour::ALL.into_iter().flat_map(of_behaviour).collect()
}

fn whole(body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    (head + &body).into_bytes()
}

/// Writes each event as a separate chunk, as providers do.
fn streamed(events: &[String], is_complete: bool) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunks = events.iter().map(|event| format!("{:x}\r\n{event}\r\n", event.len()));
    let end = if is_complete { "0\r\n\r\n" } else { "" };
    (head.to_owned() + &chunks.collect::<String>() + end).into_bytes()
}

fn chat_completion(message: Value, finish_reason: &str) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_700_000_000, "model": "fixed",
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30},
    })
}

fn chat_text() -> Value {
    let message = json!({"role": "assistant", "content": "A response of fixed text.", "refusal": null});
    chat_completion(message, "stop")
}

fn chat_call(round: usize) -> Value {
    let arguments = json!({"operation": "add", "a": 25, "b": 17}).to_string();
    let function = json!({"name": "calculate", "arguments": arguments});
    let call = json!({"id": format!("call_{round}"), "type": "function", "function": function});
    chat_completion(json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls")
}

fn chat_events() -> Vec<String> {
    let chunk = |delta: Value, finish_reason: Value| {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason});
        let chunk = json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "fixed",
            "choices": [choice],
        });
        format!("data: {chunk}\n\n")
    };
    let mut events = vec![chunk(json!({"role": "assistant", "content": ""}), Value::Null)];
    events.extend((0..STREAMED_WORDS).map(|_| chunk(json!({"content": "word "}), Value::Null)));
    events.push(chunk(json!({}), json!("stop")));
    events.push("data: [DONE]\n\n".to_owned());
    events
}

fn messages_text() -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "fixed",
        "content": [{"type": "text", "text": "A response of fixed text."}],
        "stop_reason": "end_turn", "stop_sequence": null,
        "usage": {"input_tokens": 20, "output_tokens": 10},
    })
}

fn messages_events() -> Vec<String> {
    let mut message = messages_text();
    message["content"] = json!([]);
    message["stop_reason"] = Value::Null;
    let text = |text: &str| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}});
    let mut events = vec![
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
    ];
    events.extend((0..STREAMED_WORDS).map(|_| text("word ")));
    events.push(json!({"type": "content_block_stop", "index": 0}));
    let delta = json!({"stop_reason": "end_turn", "stop_sequence": null});
    events.push(json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 10}}));
    events.push(json!({"type": "message_stop"}));
    let name = |event: &Value| event["type"].as_str().unwrap_or_default().to_owned();
    events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", name(event))).collect()
}
