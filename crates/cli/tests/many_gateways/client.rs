//! Requests, and whether their responses are right, clean errors, or neither.

use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt as _;
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use toolwire_testkit::http_client;

use crate::world::{HOST, PROXY_ERROR, World};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Chat,
    Responses,
    Messages,
    Mcp,
}

/// The result of a request. Everything that is neither a response nor a clean error is counted as a
/// violation.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done(Answer),
    /// A clean error: what was requested has not happened, or it is unknown.
    Refused(u16),
    /// The connection was cut, or a clean error states that the gateway was lost.
    Lost(Answer),
}

/// The response that a client has received.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The body; for a stream, the result of its events.
    pub(crate) body: Value,
    /// The text of the model.
    pub(crate) text: String,
    /// The data of the events of a stream.
    pub(crate) events: Vec<Value>,
    /// The session of MCP.
    pub(crate) session: Option<String>,
    pub(crate) gateway: Option<usize>,
}

/// A client with a key.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) world: Arc<World>,
    pub(crate) key: String,
    /// Whether the requests count.
    pub(crate) is_counted: bool,
}

/// A received response before it is judged.
struct Received {
    from: Instant,
    to: Instant,
    status: Option<u16>,
    gateway: Option<usize>,
    session: Option<String>,
    is_stream: bool,
    body: String,
    /// The error that has ended the connection.
    cut: Option<String>,
}

impl Client {
    /// Returns a client whose requests do not count.
    pub(crate) fn uncounted(&self) -> Client {
        Client { is_counted: false, ..self.clone() }
    }

    /// Sends a request with a body. A status in `expected` is a clean error.
    pub(crate) async fn post(&self, dialect: Dialect, path: &str, body: &Value, expected: &[u16]) -> Outcome {
        let request = http_client().post(format!("{}{path}", self.world.url)).json(body);
        self.send(dialect, request, &format!("POST {path}"), expected).await
    }

    pub(crate) async fn get(&self, dialect: Dialect, path: &str, expected: &[u16]) -> Outcome {
        let request = http_client().get(format!("{}{path}", self.world.url));
        self.send(dialect, request, &format!("GET {path}"), expected).await
    }

    pub(crate) async fn delete(&self, dialect: Dialect, path: &str, expected: &[u16]) -> Outcome {
        let request = http_client().delete(format!("{}{path}", self.world.url));
        self.send(dialect, request, &format!("DELETE {path}"), expected).await
    }

    /// Sends a request, and judges the response.
    pub(crate) async fn send(
        &self,
        dialect: Dialect,
        request: RequestBuilder,
        name: &str,
        expected: &[u16],
    ) -> Outcome {
        if self.is_counted {
            self.world.count_request();
        }
        let request = request.header("host", HOST).bearer_auth(&self.key);
        let received = receive(request).await;
        let outcome = self.judge(dialect, &received, expected).unwrap_or_else(|problem| {
            let Received { status, gateway, body, cut, .. } = &received;
            let start: String = body.chars().take(600).collect();
            let seconds = received.from.duration_since(self.world.start).as_secs_f32();
            let waited = received.to.duration_since(received.from);
            self.world.ledger().violation(format!(
                "{name} at {seconds:.1} s, for {waited:?}, {status:?} from gateway {gateway:?}, {cut:?}: {problem}: {start}"
            ));
            Outcome::Lost(Answer::default())
        });
        if self.is_counted {
            self.world.ledger().count(dialect, &outcome, received.cut.is_some());
        }
        outcome
    }

    fn judge(
        &self,
        dialect: Dialect,
        received: &Received,
        expected: &[u16],
    ) -> Result<Outcome, &'static str> {
        let Received { from, to, gateway, .. } = *received;
        let disturbances = &self.world.disturbances;
        let redis_was_disturbed = || disturbances.disturbed_redis(from, to);
        let Some(status) = received.status else {
            return Err("the proxy has closed the connection");
        };
        if received.cut.is_some() {
            return match gateway.is_some() && disturbances.killed(gateway, from, to) || redis_was_disturbed()
            {
                true => Ok(Outcome::Lost(read(dialect, received).unwrap_or_default())),
                false => Err("the connection was cut, and nothing has happened to its gateway"),
            };
        }
        if status >= 400 {
            let body: Value = serde_json::from_str(&received.body).map_err(|_| "the error is not JSON")?;
            if body["error"]["code"] == PROXY_ERROR {
                return match disturbances.killed(None, from, to) || redis_was_disturbed() {
                    true => Ok(Outcome::Lost(Answer::default())),
                    false => Err("the proxy has no gateway, and nothing has happened to one"),
                };
            }
            if !is_error(dialect, &body) {
                return Err("the error is not one of the dialect");
            }
            let is_expected = expected.contains(&status) || matches!(status, 502 | 503 | 504 | 529);
            return if is_expected { Ok(Outcome::Refused(status)) } else { Err("an unexpected error") };
        }
        let answer = read(dialect, received).ok_or("the response is incomplete")?;
        let failed = answer.events.iter().any(|event| {
            event["type"] == "error" || event.get("error").is_some_and(|error| !error.is_null())
        });
        if dialect != Dialect::Mcp && (failed || answer.body["status"] == "failed") {
            let end = answer.events.last().unwrap_or(&answer.body);
            let error = [&end["error"], &end["response"]["error"], &answer.body["error"]];
            let message = error.iter().find_map(|error| error["message"].as_str()).unwrap_or_default();
            self.world.ledger().worked(&format!("a response failed: {message}"));
            return Ok(Outcome::Refused(status));
        }
        Ok(Outcome::Done(answer))
    }
}

async fn receive(request: RequestBuilder) -> Received {
    let from = Instant::now();
    let mut received = Received {
        from,
        to: from,
        status: None,
        gateway: None,
        session: None,
        is_stream: false,
        body: String::new(),
        cut: None,
    };
    match request.send().await {
        Err(error) => received.cut = Some(format!("{error:?}")),
        Ok(response) => {
            received.status = Some(response.status().as_u16());
            let header = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
            let served_by = header("x-served-by").unwrap_or_default();
            received.gateway = served_by.trim_start_matches("unready-").parse().ok();
            received.session = header("mcp-session-id");
            received.is_stream =
                header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
            let mut bytes = Vec::new();
            let mut parts = response.bytes_stream();
            while let Some(part) = parts.next().await {
                match part {
                    Ok(part) => bytes.extend_from_slice(&part),
                    Err(error) => {
                        received.cut = Some(format!("{error:?}"));
                        break;
                    }
                }
            }
            received.body = String::from_utf8_lossy(&bytes).into_owned();
        }
    }
    received.to = Instant::now();
    received
}

/// Whether a body is an error as the clients of this API know it.
fn is_error(dialect: Dialect, body: &Value) -> bool {
    let error = &body["error"];
    let has_message = error["message"].as_str().is_some_and(|message| !message.is_empty());
    has_message
        && match dialect {
            Dialect::Chat | Dialect::Responses => error["type"].is_string(),
            Dialect::Messages => body["type"] == "error" && error["type"].is_string(),
            Dialect::Mcp => error["code"].is_i64() || error["type"].is_string(),
        }
}

/// Reads a response; `None` if it is incomplete.
fn read(dialect: Dialect, received: &Received) -> Option<Answer> {
    let (session, gateway) = (received.session.clone(), received.gateway);
    if !received.is_stream {
        let body: Value = match received.body.is_empty() {
            true => Value::Null,
            false => serde_json::from_str(&received.body).ok()?,
        };
        return Some(Answer { text: text(dialect, &body), body, session, gateway, events: Vec::new() });
    }
    let data = received.body.lines().filter_map(|line| line.strip_prefix("data:"));
    let events: Vec<Value> = data.clone().filter_map(|data| serde_json::from_str(data).ok()).collect();
    let is_cut = received.cut.is_some();
    let is_complete = match dialect {
        Dialect::Chat => data.clone().any(|data| data.trim() == "[DONE]"),
        Dialect::Messages => {
            events.iter().any(|event| event["type"] == "message_stop" || event["type"] == "error")
        }
        _ => true,
    };
    let has_failed = events.iter().any(|event| event.get("error").is_some_and(|error| !error.is_null()));
    if !is_complete && !is_cut && !has_failed {
        return None;
    }
    let pieces = |pointer: &str| -> String {
        events.iter().filter_map(|event| event.pointer(pointer)?.as_str()).collect()
    };
    let (body, text) = match dialect {
        Dialect::Chat => (Value::Null, pieces("/choices/0/delta/content")),
        Dialect::Messages => (Value::Null, pieces("/delta/text")),
        Dialect::Mcp => (events.iter().rfind(|event| event.get("id").is_some()).cloned()?, String::new()),
        Dialect::Responses => {
            let last = events.iter().rfind(|event| {
                let end = ["response.completed", "response.incomplete", "response.failed"];
                event["type"].as_str().is_some_and(|kind| end.contains(&kind))
            });
            match last {
                Some(last) => (last["response"].clone(), text(dialect, &last["response"])),
                None if is_cut => (json!(null), String::new()),
                None => return None,
            }
        }
    };
    Some(Answer { body, text, events, session, gateway })
}

/// Returns the text of the last message of the model.
pub(crate) fn text(dialect: Dialect, body: &Value) -> String {
    let texts = |content: &Value| -> String {
        let blocks = content.as_array().into_iter().flatten();
        blocks.filter_map(|block| block["text"].as_str()).collect()
    };
    match dialect {
        Dialect::Chat => body["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned(),
        Dialect::Messages => texts(&body["content"]),
        Dialect::Mcp => texts(&body["result"]["content"]),
        Dialect::Responses => {
            let mut items = body["output"].as_array().into_iter().flatten();
            items
                .rfind(|item| item["type"] == "message")
                .map_or_else(String::new, |item| texts(&item["content"]))
        }
    }
}
