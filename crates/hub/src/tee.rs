//! Raw JSON beside the SDK's types.
//!
//! The SDK's typed layer drops fields it does not know, and one malformed tool or content block fails a whole answer.
//! So each message is read here first, once, as plain JSON: the answers to `tools/list` and `tools/call` are kept whole
//! under the id of their request, and the SDK is handed a small stand-in that it can always read. The SDK keeps what it
//! is good at (both lifecycles, sessions, resumption, headers), and nothing a server said is lost (ADR 0005).
//!
//! What cannot be read costs no more than itself: noise is counted, an answer nobody asked for is ignored, a tool or a block
//! that is no JSON is told apart from the others, and an answer that is too long or has no shape fails its own call.

mod pieces;
mod salvage;
mod stand_in;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{ClientJsonRpcMessage, GetMeta, NumberOrString, ProgressToken, RequestId};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use crate::transport::Failure;
use crate::wire;
pub(crate) use pieces::UNREADABLE;
pub(crate) use stand_in::Schemas;

/// The longest message that is read whole.
pub(crate) const LONGEST_MESSAGE: usize = 64 * 1024 * 1024;

/// How many requests of a server may wait for the application at once.
const MOST_REQUESTS: usize = 64;

/// How many ids of abandoned requests are remembered, so that their late answers do not count as strays.
const MOST_FORGOTTEN: usize = 1024;

/// How far a server has come with a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    pub progress: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}

pub(crate) type Listener = Arc<dyn Fn(Progress) + Send + Sync>;

/// What a server sent that was no message to us.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Noise {
    /// Lines or events that are no JSON-RPC message.
    pub unreadable: u64,
    /// Answers to requests that were never made, or were answered before.
    pub strays: u64,
    /// Messages over the length limit.
    pub oversized: u64,
    /// The beginning of the last unreadable line.
    pub last: Option<String>,
}

/// How a request ended, as the server put it.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    Result(Value),
    /// The `error` of a JSON-RPC error.
    Error(Value),
    /// The transport could not bring an answer.
    Failure(Failure),
}

pub(crate) struct Tee {
    server: String,
    schemas: Schemas,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    asked: HashMap<i64, Asked>,
    answers: HashMap<i64, Answer>,
    watchers: HashMap<i64, Watcher>,
    forgotten: VecDeque<i64>,
    requests: HashMap<RequestId, Value>,
    handshake: Option<Handshake>,
    silent_probe: Option<i64>,
    woke_late: bool,
    noise: Noise,
}

impl State {
    fn answer(&mut self, id: i64, asked: &Asked, answer: Answer) {
        self.answers.insert(id, answer);
        if let (Method::CallTool, Some(watcher)) = (asked.method, self.watchers.get(&id)) {
            watcher.moved.notify_one();
        }
    }
}

/// A request without an answer.
struct Asked {
    method: Method,
    delivered: bool,
    /// Why the server did not take it, where it may be sent once more.
    refused: Option<Failure>,
    /// Progress that came before its watcher.
    early: Option<Progress>,
}

/// Somebody who waits for an answer.
struct Watcher {
    listener: Option<Listener>,
    /// Told of progress, and of the answer to a call: that need not go through the SDK to be had.
    moved: Arc<Notify>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Initialize,
    Discover,
    ListTools,
    CallTool,
    Other,
}

/// The result of `initialize` or `server/discover`, as the server gave it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Handshake {
    pub(crate) discovered: bool,
    pub(crate) result: Value,
}

impl Tee {
    pub(crate) fn new(server: impl Into<String>, schemas: Schemas) -> Tee {
        Tee { server: server.into(), schemas, state: Mutex::default() }
    }

    /// Remembers what is asked, and marks the request so that its progress is known by its id.
    pub(crate) fn asking(&self, message: &mut ClientJsonRpcMessage) -> Option<i64> {
        let ClientJsonRpcMessage::Request(request) = message else { return None };
        let NumberOrString::Number(id) = request.id else { return None };
        let method = match request.request.method() {
            "initialize" => Method::Initialize,
            "server/discover" => Method::Discover,
            "tools/list" => Method::ListTools,
            "tools/call" => Method::CallTool,
            _ => Method::Other,
        };
        if matches!(method, Method::ListTools | Method::CallTool) {
            // Never 0, which more than one server takes for no token at all.
            let token = ProgressToken(NumberOrString::Number(id + 1));
            request.request.get_meta_mut().set_progress_token(token);
        }
        let mut state = self.state();
        if method == Method::Initialize {
            // The SDK has not waited for the answer to its probe, and would not know it: a server may take long to start.
            let probe =
                state.asked.iter().find(|(_, asked)| asked.method == Method::Discover).map(|(id, _)| *id);
            if let Some(probe) = probe {
                state.asked.remove(&probe);
                state.silent_probe = Some(probe);
            }
        }
        state.asked.insert(id, Asked { method, delivered: false, refused: None, early: None });
        Some(id)
    }

    /// Whether the server may act on the request from here on.
    pub(crate) fn delivered(&self, id: i64, is_delivered: bool) {
        if let Some(asked) = self.state().asked.get_mut(&id) {
            asked.delivered = is_delivered;
        }
    }

    /// The server did not take the request, and so has not acted on it. The SDK may send it again.
    pub(crate) fn refused(&self, id: i64, failure: Failure) {
        if let Some(asked) = self.state().asked.get_mut(&id) {
            asked.delivered = false;
            asked.refused = Some(failure);
        }
    }

    /// Why the server did not take the request, when it was last sent.
    pub(crate) fn refusal(&self, id: i64) -> Option<Failure> {
        self.state().asked.get(&id)?.refused.clone()
    }

    /// Whether the server may have acted on the request.
    pub(crate) fn was_delivered(&self, id: i64) -> bool {
        self.state().asked.get(&id).is_some_and(|asked| asked.delivered)
    }

    /// Reads what a server sent and gives what the SDK is to see of it.
    pub(crate) fn hear(&self, text: &[u8]) -> Vec<Value> {
        match serde_json::from_slice(text) {
            Ok(Value::Array(batch)) => {
                batch.into_iter().filter_map(|message| self.hear_message(message)).collect()
            }
            Ok(message) => self.hear_message(message).into_iter().collect(),
            Err(error) => match pieces::read(text) {
                Some(messages) => {
                    messages.into_iter().filter_map(|message| self.hear_message(message)).collect()
                }
                None => self.unreadable(text, text, &error.to_string()).into_iter().collect(),
            },
        }
    }

    /// A message that was too long to keep: all that is left of it are its two ends.
    pub(crate) fn hear_oversized(&self, head: &[u8], tail: &[u8]) -> Option<Value> {
        self.state().noise.oversized += 1;
        let id = salvage::top_level_id(head, tail)?;
        self.fail(id, Failure::TooLong { limit: LONGEST_MESSAGE })
    }

    /// Ends a request without an answer, and gives the error that tells the SDK so.
    pub(crate) fn fail(&self, id: i64, failure: Failure) -> Option<Value> {
        let mut state = self.state();
        let asked = state.asked.remove(&id)?;
        let message = failure.to_string();
        if asked.is_fetched() {
            state.answer(id, &asked, Answer::Failure(failure));
        }
        Some(error_message(id, -32603, &message))
    }

    /// Gives up on a `server/discover` that a silent old server will not answer.
    pub(crate) fn give_up_probe(&self, id: i64) -> Option<Value> {
        let mut state = self.state();
        state.asked.remove(&id)?;
        state.silent_probe = Some(id);
        Some(error_message(id, -32601, "no answer to `server/discover`"))
    }

    /// Whether a probe that was given up was answered later, by a server of the new era after all.
    pub(crate) fn woke_late(&self) -> bool {
        self.state().woke_late
    }

    /// Takes the answer to a request, once.
    pub(crate) fn take(&self, id: i64) -> Option<Answer> {
        self.state().answers.remove(&id)
    }

    /// Nobody waits for this request any more.
    pub(crate) fn forget(&self, id: i64) {
        let mut state = self.state();
        state.watchers.remove(&id);
        state.answers.remove(&id);
        if state.asked.remove(&id).is_some() {
            if state.forgotten.len() == MOST_FORGOTTEN {
                state.forgotten.pop_front();
            }
            state.forgotten.push_back(id);
        }
    }

    /// Has `listener` told of a request's progress, until it is forgotten. The returned notifier moves with it, and when a call
    /// is answered.
    ///
    /// The request may not have come by here yet: the SDK sends it in its own time.
    pub(crate) fn watch(&self, id: i64, listener: Option<Listener>) -> Arc<Notify> {
        let moved = Arc::<Notify>::default();
        let mut state = self.state();
        let early = state.asked.get_mut(&id).and_then(|asked| asked.early.take());
        state.watchers.insert(id, Watcher { listener: listener.clone(), moved: moved.clone() });
        drop(state);
        if let (Some(listener), Some(progress)) = (listener, early) {
            listener(progress);
        }
        moved
    }

    /// The parameters of a request that the server made, as it gave them.
    pub(crate) fn take_request(&self, id: &RequestId) -> Option<Value> {
        self.state().requests.remove(id)
    }

    /// Whether the SDK is shown the tools that it can read.
    pub(crate) fn shows_schemas(&self) -> bool {
        self.schemas == Schemas::Needed
    }

    pub(crate) fn handshake(&self) -> Option<Handshake> {
        self.state().handshake.clone()
    }

    pub(crate) fn noise(&self) -> Noise {
        self.state().noise.clone()
    }

    fn hear_message(&self, message: Value) -> Option<Value> {
        let Value::Object(mut message) = message else {
            return self.unreadable(message.to_string().as_bytes(), b"", "not an object");
        };
        message.insert("jsonrpc".into(), "2.0".into());
        if let Some(method) = message.get("method").and_then(Value::as_str) {
            let method = method.to_owned();
            return match message.get("id") {
                None | Some(Value::Null) => self.hear_notification(&method, message),
                Some(_) => self.hear_request(&method, message),
            };
        }
        if message.contains_key("result") || message.contains_key("error") {
            return self.hear_answer(message);
        }
        self.unreadable(Value::Object(message).to_string().as_bytes(), b"", "neither a request nor an answer")
    }

    fn hear_notification(&self, method: &str, mut message: Map<String, Value>) -> Option<Value> {
        match method {
            "notifications/progress" => {
                self.progress(message.get("params")?);
                None
            }
            "notifications/message" => {
                wire::log(&self.server, message.get("params")?);
                None
            }
            "notifications/tools/list_changed"
            | "notifications/cancelled"
            | "notifications/subscriptions/acknowledged" => {
                message.remove("id");
                Some(Value::Object(message))
            }
            // Nothing here listens to the rest, and a flood of it should cost nothing.
            _ => None,
        }
    }

    fn hear_request(&self, method: &str, message: Map<String, Value>) -> Option<Value> {
        if matches!(method, "elicitation/create" | "sampling/createMessage") {
            let id = serde_json::from_value::<RequestId>(message.get("id")?.clone()).ok()?;
            let params = message.get("params").cloned().unwrap_or_default();
            let mut state = self.state();
            if state.requests.len() >= MOST_REQUESTS {
                state.noise.strays += 1;
                return None;
            }
            state.requests.insert(id, params);
        }
        Some(Value::Object(message))
    }

    fn hear_answer(&self, mut message: Map<String, Value>) -> Option<Value> {
        let mut state = self.state();
        let is_nameless = message.get("id").is_none_or(Value::is_null);
        let is_error = message.get("error").is_some_and(Value::is_object);
        let id = match message.get("id").and_then(id_number) {
            Some(id) => id,
            // An error without an id answers a request whose id the server could not read: clear while only one waits. A
            // result, or an id that is none of ours, answers nothing.
            None if is_nameless && is_error && state.asked.len() == 1 => *state.asked.keys().next()?,
            None => {
                state.noise.strays += 1;
                return None;
            }
        };
        let result = message.remove("result");
        let error = message.remove("error").filter(|error| !error.is_null());
        let Some(asked) = state.asked.remove(&id) else {
            if state.silent_probe == Some(id) {
                state.woke_late = result.is_some_and(|result| stand_in::is_discovery(&result));
                state.silent_probe = None;
            } else if !state.forgotten.contains(&id) {
                state.noise.strays += 1;
            }
            return None;
        };
        if let Some(error) = error {
            let shown = stand_in::error(&error);
            if asked.is_fetched() {
                state.answer(id, &asked, Answer::Error(error));
            }
            return Some(json!({ "jsonrpc": "2.0", "id": id, "error": shown }));
        }
        let result = result.unwrap_or_default();
        let shown = match asked.method {
            Method::Initialize => stand_in::initialize(&result),
            Method::Discover if !stand_in::is_discovery(&result) => {
                return Some(error_message(
                    id,
                    -32601,
                    "no answer to `server/discover` that says which versions there are",
                ));
            }
            Method::Discover => stand_in::discover(&result),
            Method::ListTools => stand_in::tools(&result, self.schemas),
            Method::CallTool => json!({}),
            Method::Other => result.clone(),
        };
        match asked.method {
            Method::Initialize | Method::Discover => {
                state.handshake = Some(Handshake { discovered: asked.method == Method::Discover, result });
            }
            Method::ListTools | Method::CallTool => state.answer(id, &asked, Answer::Result(result)),
            Method::Other => {}
        }
        Some(json!({ "jsonrpc": "2.0", "id": id, "result": shown }))
    }

    fn progress(&self, params: &Value) {
        let Some(token) = params.get("progressToken").and_then(id_number) else { return };
        let progress = Progress {
            progress: params.get("progress").and_then(Value::as_f64).unwrap_or_default(),
            total: params.get("total").and_then(Value::as_f64),
            message: params.get("message").and_then(Value::as_str).map(str::to_owned),
        };
        let id = token.wrapping_sub(1);
        let mut state = self.state();
        let Some(asked) = state.asked.get_mut(&id) else { return };
        asked.early = Some(progress.clone());
        let Some(watcher) = state.watchers.get(&id) else { return };
        watcher.moved.notify_one();
        let listener = watcher.listener.clone();
        // The listener is the application's: it must not run under the lock.
        drop(state);
        if let Some(listener) = listener {
            listener(progress);
        }
    }

    fn unreadable(&self, head: &[u8], tail: &[u8], why: &str) -> Option<Value> {
        let mut state = self.state();
        if let Some(id) = salvage::top_level_id(head, tail).filter(|id| state.asked.contains_key(id)) {
            drop(state);
            return self.fail(id, Failure::Unreadable { why: why.into() });
        }
        if head.iter().any(|byte| !byte.is_ascii_whitespace()) {
            state.noise.unreadable += 1;
            state.noise.last = Some(salvage::excerpt(head));
        }
        None
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code of others runs under the lock, so a poisoned one still holds whole values.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Asked {
    /// Whether somebody will come for the raw answer.
    fn is_fetched(&self) -> bool {
        matches!(self.method, Method::ListTools | Method::CallTool)
    }
}

fn id_number(id: &Value) -> Option<i64> {
    match id {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

fn error_message(id: i64, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

#[cfg(test)]
mod tests;
