//! Parses what a server sends, and decides what the SDK receives.

use rmcp::model::RequestId;
use serde_json::{Map, Value, json};
use toolwire_contract::log::{Level, LogMessage};
use toolwire_contract::toolbox::Progress;

use super::{
    EarlyLog, Handshake, MAX_MESSAGE_BYTES, RawCapture, RawResponse, RequestMethod, ServerQuestion,
    error_message, partial_parse, placeholder, response_id,
};
use crate::client_service;
use crate::excerpt::excerpt_of;
use crate::transport::TransportFailure;

/// The maximum number of requests from a server that wait for the application at once.
pub(super) const MAX_SERVER_REQUESTS: usize = 64;

/// The maximum number of log messages of a call that are kept until the call receives them.
const MAX_EARLY_LOGS: usize = 64;

/// Longer log messages are not passed on.
const MAX_LOG_BYTES: usize = 64 * 1024;

impl RawCapture {
    /// Parses what a server sent and returns the messages for the SDK.
    pub(crate) fn receive(&self, text: &[u8]) -> Vec<Value> {
        self.receive_during(None, text)
    }

    /// Like [`RawCapture::receive`], for what a server sent in response to the request with this id.
    pub(crate) fn receive_during(&self, request: Option<i64>, text: &[u8]) -> Vec<Value> {
        let messages = match serde_json::from_slice(text) {
            Ok(Value::Array(batch)) => batch,
            Ok(message) => vec![message],
            Err(error) => match partial_parse::parse(text) {
                Some(messages) => messages,
                None => return self.unreadable(text, text, &error.to_string()).into_iter().collect(),
            },
        };
        messages.into_iter().filter_map(|message| self.receive_message(request, message)).collect()
    }

    /// Handles a message that was too long to store; only its two ends are known.
    pub(crate) fn receive_oversized(&self, head: &[u8], tail: &[u8]) -> Option<Value> {
        let id = response_id::top_level_id(head, tail)?;
        self.fail(id, TransportFailure::TooLong { limit: MAX_MESSAGE_BYTES })
    }

    /// Records the number of messages that were too long, including one that has no end yet.
    pub(crate) fn set_oversized(&self, count: u64) {
        self.state().ignored.oversized = count;
    }

    fn receive_message(&self, request: Option<i64>, message: Value) -> Option<Value> {
        let Value::Object(mut message) = message else {
            return self.unreadable(message.to_string().as_bytes(), b"", "not an object");
        };
        message.insert("jsonrpc".into(), "2.0".into());
        if let Some(method) = message.get("method").and_then(Value::as_str) {
            let method = method.to_owned();
            return match message.get("id") {
                None | Some(Value::Null) => self.receive_notification(request, &method, message),
                Some(_) => self.receive_request(request, &method, message),
            };
        }
        if message.contains_key("result") || message.contains_key("error") {
            return self.receive_response(message);
        }
        self.unreadable(
            Value::Object(message).to_string().as_bytes(),
            b"",
            "neither a request nor a response",
        )
    }

    fn receive_notification(
        &self,
        request: Option<i64>,
        method: &str,
        mut message: Map<String, Value>,
    ) -> Option<Value> {
        match method {
            "notifications/progress" => {
                self.report_progress(message.get("params")?);
                None
            }
            "notifications/message" => {
                let params = message.get("params")?;
                client_service::log(&self.server, params);
                self.report_log(request, params);
                None
            }
            "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed"
            | "notifications/resources/updated"
            | "notifications/cancelled"
            | "notifications/subscriptions/acknowledged" => {
                message.remove("id");
                Some(Value::Object(message))
            }
            // The others are not used, and a flood of them should cost nothing.
            _ => None,
        }
    }

    fn receive_request(
        &self,
        during: Option<i64>,
        method: &str,
        message: Map<String, Value>,
    ) -> Option<Value> {
        if matches!(method, "elicitation/create" | "sampling/createMessage") {
            let id = serde_json::from_value::<RequestId>(message.get("id")?.clone()).ok()?;
            let params = message.get("params").cloned().unwrap_or_default();
            let mut state = self.state();
            if state.server_requests.len() >= MAX_SERVER_REQUESTS {
                state.ignored.unexpected += 1;
                return None;
            }
            state.server_requests.insert(id, ServerQuestion { params, during });
        }
        Some(Value::Object(message))
    }

    fn receive_response(&self, mut message: Map<String, Value>) -> Option<Value> {
        let mut state = self.state();
        let has_no_id = message.get("id").is_none_or(Value::is_null);
        let is_error = message.get("error").is_some_and(Value::is_object);
        let id = match message.get("id").and_then(id_number) {
            Some(id) => id,
            // The server could not read the id of the request that this error belongs to. If only one request
            // is pending, it is that one. A result without an id, or a foreign id, belongs to no request.
            None if has_no_id && is_error && state.pending.len() == 1 => *state.pending.keys().next()?,
            None => {
                state.ignored.unexpected += 1;
                return None;
            }
        };
        let result = message.remove("result");
        let error = message.remove("error").filter(|error| !error.is_null());
        let Some(request) = state.pending.remove(&id) else {
            if state.abandoned_probe == Some(id) {
                state.discovered_late = result.is_some_and(|result| placeholder::is_discovery(&result));
                state.abandoned_probe = None;
            } else if !state.abandoned.contains(&id) {
                state.ignored.unexpected += 1;
            }
            return None;
        };
        if let Some(error) = error {
            let sdk_error = placeholder::error(&error);
            state.store_response(id, request.method, RawResponse::Error(error));
            return Some(json!({ "jsonrpc": "2.0", "id": id, "error": sdk_error }));
        }
        let result = result.unwrap_or_default();
        let sdk_result = match request.method {
            RequestMethod::Initialize => placeholder::initialize(&result),
            RequestMethod::Discover if !placeholder::is_discovery(&result) => {
                return Some(error_message(
                    id,
                    -32601,
                    "the response to `server/discover` does not list the supported versions",
                ));
            }
            RequestMethod::Discover => placeholder::discover(&result),
            RequestMethod::ListTools => placeholder::tools(&result, self.schemas),
            RequestMethod::CallTool | RequestMethod::Offer => json!({}),
            RequestMethod::Other => result.clone(),
        };
        match request.method {
            RequestMethod::Initialize | RequestMethod::Discover => {
                let is_discovery = request.method == RequestMethod::Discover;
                state.handshake = Some(Handshake { is_discovery, result });
            }
            method => state.store_response(id, method, RawResponse::Result(result)),
        }
        Some(json!({ "jsonrpc": "2.0", "id": id, "result": sdk_result }))
    }

    fn report_progress(&self, params: &Value) {
        let Some(token) = params.get("progressToken").and_then(id_number) else { return };
        let progress = Progress {
            done: params.get("progress").and_then(Value::as_f64).unwrap_or_default(),
            total: params.get("total").and_then(Value::as_f64),
            message: params.get("message").and_then(Value::as_str).map(str::to_owned),
        };
        let id = token.wrapping_sub(1);
        let mut state = self.state();
        let Some(request) = state.pending.get_mut(&id) else { return };
        request.early_progress = Some(progress.clone());
        let Some(waiter) = state.waiters.get(&id) else { return };
        waiter.activity.notify_one();
        let listener = waiter.receivers.progress.clone();
        // The listener belongs to the application, so it must not run under the lock.
        drop(state);
        if let Some(listener) = listener {
            listener(progress);
        }
    }

    /// Passes a log message to its call. A server states the call only by the response that contains the
    /// message. Otherwise it may be about any earlier or later call, so it is passed on only if the server
    /// has a single caller, and only one call is in progress.
    fn report_log(&self, request: Option<i64>, params: &Value) {
        let level = params.get("level").and_then(Value::as_str).and_then(Level::from_name);
        let (Some(level), Some(data)) = (level, params.get("data")) else { return };
        let mut state = self.state();
        let mut calls = state.pending.iter().filter(|(_, request)| request.is_call()).map(|(id, _)| *id);
        let is_assigned = request.is_some();
        let id = match request {
            Some(id) => calls.find(|call| *call == id),
            None => calls.next().filter(|_| calls.next().is_none()),
        };
        let Some(id) = id else { return };
        let waiter = state.waiters.get(&id);
        let log = waiter.map(|waiter| waiter.receivers.log_of(level, is_assigned).cloned());
        if log.as_ref().is_some_and(Option::is_none) || !is_short(data) {
            return;
        }
        let logger = params.get("logger").and_then(Value::as_str).map(str::to_owned);
        let message = LogMessage { level, logger, data: data.clone() };
        match log.flatten() {
            Some(log) => {
                // The receiver belongs to the application, so it must not run under the lock.
                drop(state);
                (log.receive)(message);
            }
            None => {
                let early = state.early_logs.entry(id).or_default();
                if early.len() < MAX_EARLY_LOGS {
                    early.push(EarlyLog { message, is_assigned });
                }
            }
        }
    }

    /// Fails the request that the text responds to, if its id can be found; else counts the text as ignored.
    fn unreadable(&self, head: &[u8], tail: &[u8], reason: &str) -> Option<Value> {
        let mut state = self.state();
        if let Some(id) = response_id::top_level_id(head, tail).filter(|id| state.pending.contains_key(id)) {
            drop(state);
            return self.fail(id, TransportFailure::Unreadable { reason: reason.into() });
        }
        if head.iter().any(|byte| !byte.is_ascii_whitespace()) {
            state.ignored.unreadable += 1;
            let credentials = state.credentials.clone();
            state.ignored.last_unreadable = Some(excerpt_of(head, |text| credentials.redact(text)));
        }
        None
    }
}

fn is_short(data: &Value) -> bool {
    match data {
        Value::String(text) => text.len() <= MAX_LOG_BYTES,
        data => data.to_string().len() <= MAX_LOG_BYTES,
    }
}

fn id_number(id: &Value) -> Option<i64> {
    match id {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}
