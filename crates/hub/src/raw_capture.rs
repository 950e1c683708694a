//! The raw JSON of server messages, captured before the SDK parses them.
//!
//! The SDK's typed layer drops fields that it does not know, and one malformed tool or content block makes a
//! complete response unreadable. So each message is parsed here first, once, as plain JSON. The responses to
//! `tools/list` and `tools/call` are stored unchanged under the id of their request, and the SDK receives a
//! small placeholder that it can always parse. The SDK still handles both lifecycles,
//! sessions, resumption and headers, and nothing that a server sent is lost (ADR 0005).
//!
//! Invalid input affects nothing else: unreadable lines are counted, unexpected responses are ignored, one
//! invalid tool or content block leaves the others intact, and a response that is too long or malformed fails
//! only its own call.

mod incoming;
mod partial_parse;
mod placeholder;
mod response_id;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use rmcp::model::{ClientJsonRpcMessage, GetMeta, NumberOrString, ProgressToken, RequestId};
use serde_json::{Value, json};
use tokio::sync::Notify;
use toolwire_contract::log::{Level, LogMessage, LogReceiver};
use toolwire_contract::toolbox::Progress;

use crate::sync::lock;
use crate::transport::{ProxyCredentials, TransportFailure};
pub(crate) use partial_parse::UNREADABLE;
pub(crate) use placeholder::SdkSchemas;

/// The largest message that is read completely.
pub(crate) const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// The maximum number of abandoned requests whose ids are remembered, so that their late responses do not
/// count as unexpected.
const MAX_ABANDONED_IDS: usize = 1024;

pub(crate) type ProgressListener = Arc<dyn Fn(Progress) + Send + Sync>;

/// Output of a server that was ignored because it was not a usable message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IgnoredOutput {
    /// Lines or events that are not JSON-RPC messages.
    pub unreadable: u64,
    /// Responses to requests that were never sent or already had a response.
    pub unexpected: u64,
    /// Messages over the size limit.
    pub oversized: u64,
    /// The beginning of the last unreadable line.
    pub last_unreadable: Option<String>,
}

/// The response to a request, as the server sent it.
#[derive(Debug, PartialEq)]
pub(crate) enum RawResponse {
    Result(Value),
    /// The `error` of a JSON-RPC error.
    Error(Value),
    /// The transport could not deliver a response.
    Failure(TransportFailure),
}

/// Captures what passes between one server and the SDK.
pub(crate) struct RawCapture {
    server: String,
    schemas: SdkSchemas,
    state: Mutex<CaptureState>,
}

#[derive(Default)]
struct CaptureState {
    /// Requests without a response.
    pending: HashMap<i64, PendingRequest>,
    responses: HashMap<i64, RawResponse>,
    waiters: HashMap<i64, Waiter>,
    /// Log messages of calls that arrived before the waiter was registered.
    early_logs: HashMap<i64, Vec<EarlyLog>>,
    abandoned: VecDeque<i64>,
    /// The requests that the server sent.
    server_requests: HashMap<RequestId, ServerQuestion>,
    handshake: Option<Handshake>,
    abandoned_probe: Option<i64>,
    discovered_late: bool,
    ignored: IgnoredOutput,
    /// Removed from excerpts of output.
    credentials: Arc<ProxyCredentials>,
}

impl CaptureState {
    /// Stores the response to a request whose raw response is read later, and wakes the call that waits for
    /// it.
    fn store_response(&mut self, id: i64, method: RequestMethod, response: RawResponse) {
        if !method.is_captured() {
            return;
        }
        self.responses.insert(id, response);
        let is_awaited = matches!(method, RequestMethod::CallTool | RequestMethod::Offer);
        if let Some(waiter) = self.waiters.get(&id).filter(|_| is_awaited) {
            waiter.activity.notify_one();
        }
    }
}

struct PendingRequest {
    method: RequestMethod,
    is_delivered: bool,
    /// The reason why the server rejected it, if it may be sent again.
    rejection: Option<TransportFailure>,
    /// Progress that arrived before the waiter was registered.
    early_progress: Option<Progress>,
}

impl PendingRequest {
    fn is_call(&self) -> bool {
        self.method == RequestMethod::CallTool
    }
}

/// The receivers of progress and log messages of a call, until its response.
#[derive(Clone, Default)]
pub(crate) struct CallReceivers {
    pub(crate) progress: Option<ProgressListener>,
    pub(crate) log: Option<LogReceiver>,
    /// Who makes the call, if there are several callers.
    pub(crate) owner: Option<Arc<str>>,
}

impl CallReceivers {
    /// Returns the receiver of a log message, if the call gets the message. With several callers, a message
    /// whose call is unknown may be about the call of another caller, so the call does not get it.
    fn log_of(&self, level: Level, is_assigned: bool) -> Option<&LogReceiver> {
        let log = self.log.as_ref().filter(|log| level >= log.level)?;
        (is_assigned || self.owner.is_none()).then_some(log)
    }
}

/// A question of the server to the user or the model.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ServerQuestion {
    pub(crate) params: Value,
    /// The request in whose response the server has sent the question. It is known only with HTTP.
    during: Option<i64>,
}

struct EarlyLog {
    message: LogMessage,
    /// Whether the server has stated the call.
    is_assigned: bool,
}

struct Waiter {
    receivers: CallReceivers,
    /// Notified of progress and of the response to a call, so the call need not wait for the SDK.
    activity: Arc<Notify>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestMethod {
    Initialize,
    Discover,
    ListTools,
    CallTool,
    /// A request about prompts, resources, tasks or the log.
    Offer,
    Other,
}

impl RequestMethod {
    /// Whether the raw response is stored for the session.
    fn is_captured(self) -> bool {
        matches!(self, RequestMethod::ListTools | RequestMethod::CallTool | RequestMethod::Offer)
    }
}

/// The result of `initialize` or `server/discover`, as the server sent it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Handshake {
    pub(crate) is_discovery: bool,
    pub(crate) result: Value,
}

impl RawCapture {
    pub(crate) fn new(server: impl Into<String>, schemas: SdkSchemas) -> RawCapture {
        RawCapture { server: server.into(), schemas, state: Mutex::default() }
    }

    /// Registers a request that is about to be sent, and adds a progress token that identifies it. Returns
    /// its id, or `None` if the message is not a request.
    pub(crate) fn register(&self, message: &mut ClientJsonRpcMessage) -> Option<i64> {
        let ClientJsonRpcMessage::Request(request) = message else { return None };
        let NumberOrString::Number(id) = request.id else { return None };
        let method = match request.request.method() {
            "initialize" => RequestMethod::Initialize,
            "server/discover" => RequestMethod::Discover,
            "tools/list" => RequestMethod::ListTools,
            "tools/call" => RequestMethod::CallTool,
            "prompts/list"
            | "prompts/get"
            | "resources/list"
            | "resources/templates/list"
            | "resources/read"
            | "resources/subscribe"
            | "completion/complete"
            | "tasks/get"
            | "tasks/update"
            | "tasks/cancel"
            | "logging/setLevel" => RequestMethod::Offer,
            _ => RequestMethod::Other,
        };
        if matches!(method, RequestMethod::ListTools | RequestMethod::CallTool) {
            // Never 0: several servers treat it as a missing token.
            let token = ProgressToken(NumberOrString::Number(id + 1));
            request.request.get_meta_mut().set_progress_token(token);
        }
        let mut state = self.state();
        if method == RequestMethod::Initialize {
            // The SDK stopped waiting for its probe, because the server may be slow to start, and would not
            // recognize a late response to it.
            let mut pending = state.pending.iter();
            let probe = pending.find(|(_, request)| request.method == RequestMethod::Discover);
            if let Some(probe) = probe.map(|(id, _)| *id) {
                state.pending.remove(&probe);
                state.abandoned_probe = Some(probe);
            }
        }
        let request = PendingRequest { method, is_delivered: false, rejection: None, early_progress: None };
        state.pending.insert(id, request);
        Some(id)
    }

    /// Records whether the server may act on the request from now on.
    pub(crate) fn set_delivered(&self, id: i64, is_delivered: bool) {
        if let Some(request) = self.state().pending.get_mut(&id) {
            request.is_delivered = is_delivered;
        }
    }

    /// Records that the server rejected the request without acting on it. The SDK may send it again.
    pub(crate) fn set_rejected(&self, id: i64, failure: TransportFailure) {
        if let Some(request) = self.state().pending.get_mut(&id) {
            request.is_delivered = false;
            request.rejection = Some(failure);
        }
    }

    /// Returns why the server rejected the request when it was last sent.
    pub(crate) fn rejection(&self, id: i64) -> Option<TransportFailure> {
        self.state().pending.get(&id)?.rejection.clone()
    }

    /// Whether the server may have acted on the request.
    pub(crate) fn was_delivered(&self, id: i64) -> bool {
        self.state().pending.get(&id).is_some_and(|request| request.is_delivered)
    }

    /// Ends a request without a response. Returns the error message for the SDK.
    pub(crate) fn fail(&self, id: i64, failure: TransportFailure) -> Option<Value> {
        let mut state = self.state();
        let request = state.pending.remove(&id)?;
        let message = failure.to_string();
        state.store_response(id, request.method, RawResponse::Failure(failure));
        Some(error_message(id, -32603, &message))
    }

    /// Stops waiting for the response to `server/discover`, to which old servers do not respond.
    pub(crate) fn abandon_probe(&self, id: i64) -> Option<Value> {
        let mut state = self.state();
        state.pending.remove(&id)?;
        state.abandoned_probe = Some(id);
        Some(error_message(id, -32601, "no response to `server/discover`"))
    }

    /// Whether a modern server responded to the probe after it was abandoned.
    pub(crate) fn discovered_late(&self) -> bool {
        self.state().discovered_late
    }

    /// Removes and returns the response to a request.
    pub(crate) fn take_response(&self, id: i64) -> Option<RawResponse> {
        self.state().responses.remove(&id)
    }

    /// Forgets a request that the caller no longer waits for.
    pub(crate) fn forget(&self, id: i64) {
        let mut state = self.state();
        state.waiters.remove(&id);
        state.early_logs.remove(&id);
        state.responses.remove(&id);
        if state.pending.remove(&id).is_some() {
            if state.abandoned.len() == MAX_ABANDONED_IDS {
                state.abandoned.pop_front();
            }
            state.abandoned.push_back(id);
        }
    }

    /// Sends the progress and the log messages of a request to its receivers until the request is forgotten.
    /// The returned notifier is notified of progress and of the response to a call.
    ///
    /// The request may not be registered yet, because the SDK sends it on another task.
    pub(crate) fn watch(&self, id: i64, receivers: CallReceivers) -> Arc<Notify> {
        let activity = Arc::<Notify>::default();
        let mut state = self.state();
        let early_progress = state.pending.get_mut(&id).and_then(|request| request.early_progress.take());
        let early_logs = state.early_logs.remove(&id).unwrap_or_default();
        state.waiters.insert(id, Waiter { receivers: receivers.clone(), activity: activity.clone() });
        drop(state);
        for EarlyLog { message, is_assigned } in early_logs {
            if let Some(log) = receivers.log_of(message.level, is_assigned) {
                (log.receive)(message);
            }
        }
        if let (Some(listener), Some(progress)) = (receivers.progress, early_progress) {
            listener(progress);
        }
        activity
    }

    /// Removes and returns a request that the server sent.
    pub(crate) fn take_server_request(&self, id: &RequestId) -> Option<ServerQuestion> {
        self.state().server_requests.remove(id)
    }

    /// Returns the caller that a question is for, if the server has stated its call. `Some(None)` means that
    /// there is only one caller.
    pub(crate) fn owner_of(&self, question: &ServerQuestion) -> Option<Option<Arc<str>>> {
        let state = self.state();
        Some(state.waiters.get(&question.during?)?.receivers.owner.clone())
    }

    /// Whether the SDK receives the tools that it can parse.
    pub(crate) fn passes_tools(&self) -> bool {
        self.schemas == SdkSchemas::Needed
    }

    pub(crate) fn handshake(&self) -> Option<Handshake> {
        self.state().handshake.clone()
    }

    /// Sets what is removed from excerpts of output.
    pub(crate) fn set_credentials(&self, credentials: Arc<ProxyCredentials>) {
        self.state().credentials = credentials;
    }

    pub(crate) fn ignored_output(&self) -> IgnoredOutput {
        self.state().ignored.clone()
    }

    fn state(&self) -> MutexGuard<'_, CaptureState> {
        // No foreign code runs under the lock, so a poisoned lock still protects consistent values.
        lock(&self.state)
    }
}

fn error_message(id: i64, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

#[cfg(test)]
mod tests;
