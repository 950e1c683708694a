//! Calls of toolboxes that wait while their client answers questions (MCP 2026-07-28).
//!
//! A question ends the request, and the client repeats it with the reply. The function of a tool would run
//! again from its beginning. For the tool of another server, that could do something twice, so its call is
//! kept until the client returns. `requestState` contains its number, signed and bound to the request and to
//! the client.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_core::future::BoxFuture;
use rmcp::model::{RequestStateCodec, SealOptions};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use toolwire_contract::ToolResult;
use toolwire_contract::toolbox::{CallError, Progress};

use super::caller::Caller;
use crate::client::{Client, ClientError, Form, FormReply, Level};
use crate::wire;

/// The maximum number of calls that wait for their clients. Further questions are declined.
const MAX_PARKED: usize = 1_024;

/// The calls that wait for their clients.
#[derive(Default)]
pub(super) struct ParkedCalls(Arc<Mutex<ParkedTable>>);

#[derive(Default)]
struct ParkedTable {
    next: u64,
    calls: HashMap<u64, ParkedCall>,
    /// The tasks that end calls whose clients do not return.
    expiring: JoinSet<()>,
}

struct ParkedCall {
    call: ContinuableCall,
    /// The client that must answer, if the application identifies it.
    owner: String,
    /// By the keys that the client sees.
    open_questions: HashMap<String, Question>,
    /// Ends the call if its client does not return.
    expiry: AbortHandle,
}

/// A call that can continue in another request.
pub(super) struct ContinuableCall {
    work: BoxFuture<'static, Result<ToolResult, CallError>>,
    client: Arc<CurrentClient>,
    questions: mpsc::UnboundedReceiver<Question>,
    question_count: u64,
}

/// The next result of a call.
pub(super) enum Advance {
    Done(Result<ToolResult, CallError>),
    /// The client must answer these questions.
    Asks(Vec<Question>),
}

pub(super) struct Question {
    /// The name that the server has given to it.
    name: Option<String>,
    method: &'static str,
    params: Value,
    reply: oneshot::Sender<Value>,
}

/// The client of a parked call: that of its latest request.
pub(super) struct CurrentClient {
    latest: Mutex<Arc<Caller>>,
    questions: mpsc::UnboundedSender<Question>,
    reply_timeout: Duration,
}

/// The client of a call that is going to wait.
#[derive(Clone, Copy)]
pub(super) struct ParkingClient<'a> {
    pub(super) id: &'a str,
    /// The maximum number of its calls that wait.
    pub(super) max_calls: Option<usize>,
}

/// Too many calls wait for replies.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoRoom {
    #[error("too many calls wait for replies")]
    OfServer,
    #[error("too many calls of this client wait for replies; the maximum is {max}")]
    OfClient { max: usize },
}

/// The `requestState` belongs to another request, or the call no longer waits.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotWaiting;

impl ContinuableCall {
    /// Creates a call. `start` gets its client.
    pub(super) fn new(
        caller: Arc<Caller>,
        reply_timeout: Duration,
        start: impl FnOnce(Arc<CurrentClient>) -> BoxFuture<'static, Result<ToolResult, CallError>>,
    ) -> ContinuableCall {
        let (sender, questions) = mpsc::unbounded_channel();
        let client = Arc::new(CurrentClient { latest: Mutex::new(caller), questions: sender, reply_timeout });
        ContinuableCall { work: start(client.clone()), client, questions, question_count: 0 }
    }

    /// Continues the call until it is done or asks something.
    pub(super) async fn advance(&mut self) -> Advance {
        tokio::select! {
            biased;
            result = &mut self.work => Advance::Done(result),
            Some(question) = self.questions.recv() => {
                let mut questions = vec![question];
                while let Ok(question) = self.questions.try_recv() {
                    questions.push(question);
                }
                Advance::Asks(questions)
            }
        }
    }
}

impl ParkedCalls {
    /// Keeps a call until its client has answered the questions. Returns the result with the questions.
    pub(super) fn park(
        &self,
        mut call: ContinuableCall,
        questions: Vec<Question>,
        request: &[u8],
        owner: ParkingClient<'_>,
        signature: &RequestStateCodec,
    ) -> Result<Map<String, Value>, NoRoom> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while table.expiring.try_join_next().is_some() {}
        let own = || table.calls.values().filter(|parked| parked.owner == owner.id).count();
        if let Some(max) = owner.max_calls.filter(|max| own() >= *max) {
            return Err(NoRoom::OfClient { max });
        }
        if table.calls.len() >= MAX_PARKED {
            return Err(NoRoom::OfServer);
        }
        let within = call.client.reply_timeout;
        let mut open_questions = HashMap::new();
        let mut requests = Map::new();
        for question in questions {
            call.question_count += 1;
            let is_free = |name: &String| !open_questions.contains_key(name);
            let mut key =
                question.name.clone().filter(is_free).unwrap_or_else(|| call.question_count.to_string());
            while open_questions.contains_key(&key) {
                call.question_count += 1;
                key = call.question_count.to_string();
            }
            requests.insert(key.clone(), json!({"method": question.method, "params": question.params}));
            open_questions.insert(key, question);
        }
        let number = table.next;
        table.next += 1;
        let weak = Arc::downgrade(&self.0);
        let expiry = table.expiring.spawn(async move {
            tokio::time::sleep(within).await;
            if let Some(table) = weak.upgrade() {
                let expired = table.lock().unwrap_or_else(PoisonError::into_inner).calls.remove(&number);
                // Cancels the call, without the lock.
                drop(expired);
            }
        });
        let parked = ParkedCall { call, owner: owner.id.to_owned(), open_questions, expiry };
        table.calls.insert(number, parked);
        let options = SealOptions::new().associated_data(request).ttl(within);
        let state = signature.seal_json_with(&json!({"call": number}), &options).unwrap_or_default();
        let mut result = Map::new();
        result.insert("resultType".to_owned(), json!("input_required"));
        result.insert("inputRequests".to_owned(), Value::Object(requests));
        result.insert("requestState".to_owned(), json!(state));
        Ok(result)
    }

    /// Returns a call whose client has sent the replies, and passes them to the call.
    pub(super) fn resume(
        &self,
        state: &str,
        replies: BTreeMap<String, Value>,
        caller: Arc<Caller>,
        request: &[u8],
        signature: &RequestStateCodec,
    ) -> Result<ContinuableCall, NotWaiting> {
        let state: Value = signature.open_json_with(state, request).map_err(|_| NotWaiting)?;
        let number = state.get("call").and_then(Value::as_u64).ok_or(NotWaiting)?;
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let parked = table.calls.remove(&number).ok_or(NotWaiting)?;
        let ParkedCall { call, mut open_questions, expiry, .. } = parked;
        expiry.abort();
        *call.client.latest.lock().unwrap_or_else(PoisonError::into_inner) = caller;
        for (key, reply) in replies {
            if let Some(question) = open_questions.remove(&key) {
                // The call may have ended meanwhile.
                let _ = question.reply.send(reply);
            }
        }
        // Questions without a reply count as cancelled: their senders are dropped.
        Ok(call)
    }
}

impl CurrentClient {
    fn latest(&self) -> Arc<Caller> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn ask<T>(
        &self,
        name: Option<&str>,
        method: &'static str,
        params: Value,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<T, ClientError> {
        let (reply, receiver) = oneshot::channel();
        let question = Question { name: name.map(str::to_owned), method, params, reply };
        self.questions.send(question).map_err(|_| ClientError::Disconnected)?;
        let reply = tokio::time::timeout(self.reply_timeout, receiver).await;
        let reply = reply.map_err(|_| ClientError::TimedOut { method, after: self.reply_timeout })?;
        let reply = reply.map_err(|_| ClientError::Disconnected)?;
        let invalid = || ClientError::Refused { method, message: "invalid response".to_owned() };
        read(&reply).ok_or_else(invalid)
    }
}

impl CurrentClient {
    async fn elicit_named(&self, name: Option<&str>, form: Form) -> Result<FormReply, ClientError> {
        self.latest().check_elicitation(&form)?;
        self.ask(name, "elicitation/create", wire::form_out(form), wire::form_reply).await
    }
}

impl Client for CurrentClient {
    fn progress(&self, progress: Progress) {
        self.latest().progress(progress);
    }

    fn log(&self, level: Level, logger: &str, data: Value) {
        self.latest().log(level, logger, data);
    }

    fn log_level(&self) -> Option<Level> {
        self.latest().log_level()
    }

    fn supports_tasks(&self) -> bool {
        self.latest().supports_tasks()
    }

    fn elicit<'a>(&'a self, form: Form) -> BoxFuture<'a, Result<FormReply, ClientError>> {
        Box::pin(self.elicit_named(None, form))
    }

    fn elicit_as<'a>(&'a self, key: &'a str, form: Form) -> BoxFuture<'a, Result<FormReply, ClientError>> {
        Box::pin(self.elicit_named(Some(key), form))
    }

    fn sample<'a>(&'a self, params: Map<String, Value>) -> BoxFuture<'a, Result<Value, ClientError>> {
        Box::pin(async move {
            self.latest().check_sampling()?;
            let object = |reply: &Value| reply.is_object().then(|| reply.clone());
            self.ask(None, "sampling/createMessage", Value::Object(params), object).await
        })
    }

    fn roots(&self) -> BoxFuture<'_, Result<Value, ClientError>> {
        Box::pin(std::future::ready(Err(ClientError::Unsupported { method: "roots/list" })))
    }
}
