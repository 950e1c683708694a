//! The client of one call, for all protocol revisions, and the running call itself.

#![expect(deprecated, reason = "the SDK marks what MCP 2026-07-28 deprecates; older clients still use it")]

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures_core::future::BoxFuture;
use rmcp::model::{
    ClientCapabilities, CustomRequest, ElicitationCapability, LoggingMessageNotification,
    LoggingMessageNotificationParam, ProgressNotification, ProgressNotificationParam, RootsCapabilities,
    SamplingCapability, ServerNotification, ServerRequest,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServiceError};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;
use toolwire_contract::toolbox::Progress;

use super::rounds::Rounds;
use super::shared::Shared;
use super::tasks::Task;
use crate::client::{Client, ClientError, Form, FormReply, Level};
use crate::wire;

/// The maximum number of queued notifications of one call; further ones are dropped.
const MAX_OUTBOX_MESSAGES: usize = 256;

/// The client of one call. Everything is computed on demand, because most calls send nothing to the client.
pub(super) struct Caller {
    context: Arc<RequestContext<RoleServer>>,
    /// The minimum log level that the client has requested.
    level: Option<Level>,
    outbox: Outbox,
    /// Set if questions end the call; `None` if they are requests.
    rounds: Option<Rounds>,
    lacking: Mutex<Option<ClientCapabilities>>,
    reply_timeout: Duration,
    /// Set if the call may become a task.
    detaching: Option<Detaching>,
}

/// The transition of a call to a task.
#[derive(Default)]
struct Detaching {
    /// Notified when the tool requests the transition.
    wanted: Notify,
    /// Cancelled when the transition is accepted or refused.
    decided: CancellationToken,
    task: OnceLock<Arc<Task>>,
}

/// Queued notifications. A channel would allocate space for dozens of messages per call.
#[derive(Default)]
struct Outbox {
    waiting: Mutex<VecDeque<ServerNotification>>,
    filled: Notify,
}

impl Outbox {
    fn put(&self, message: ServerNotification) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < MAX_OUTBOX_MESSAGES {
            waiting.push_back(message);
            self.filled.notify_one();
        }
    }

    fn take(&self) -> Option<ServerNotification> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// A running call. It sends notifications in order and detects every kind of end.
pub(super) struct RunningCall {
    caller: Arc<Caller>,
    /// Cancelled when the server stops waiting for calls.
    abandoned: CancellationToken,
    /// Passed to the tool. The token of the SDK is also cancelled after each response.
    cancelled: CancellationToken,
    _counted: TaskTrackerToken,
}

/// The end of a call.
pub(super) enum CallEnd<T> {
    Done(T),
    /// The call ended with questions to the client.
    InputRequired,
    /// The call continues as a task.
    Detaching,
    Cancelled,
    Panicked,
}

impl RunningCall {
    pub(super) fn new(
        context: &Arc<RequestContext<RoleServer>>,
        level: Option<Level>,
        rounds: Option<Rounds>,
        shared: &Shared,
    ) -> RunningCall {
        let caller = Caller {
            context: context.clone(),
            level,
            outbox: Outbox::default(),
            rounds,
            lacking: Mutex::default(),
            reply_timeout: shared.server.offers.reply_timeout,
            detaching: None,
        };
        RunningCall {
            caller: Arc::new(caller),
            abandoned: shared.abandoned.clone(),
            cancelled: CancellationToken::new(),
            _counted: shared.running_calls.token(),
        }
    }

    /// Allows the call to become a task.
    pub(super) fn detachable(mut self) -> RunningCall {
        let caller = Arc::get_mut(&mut self.caller).expect("the caller is not shared yet");
        caller.detaching = Some(Detaching::default());
        self
    }

    pub(super) fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    /// Returns the token that notifies the tool of cancellation.
    pub(super) fn cancelled(&self) -> CancellationToken {
        self.cancelled.clone()
    }

    pub(super) fn context(&self) -> crate::Context {
        let request = self.caller.context.id.to_string();
        crate::Context::new(request, self.caller.clone(), self.cancelled.clone())
    }

    /// Whether questions end the call (MCP 2026-07-28).
    pub(super) fn is_modern(&self) -> bool {
        self.caller.rounds.is_some()
    }

    pub(super) fn rounds(&self) -> Option<&Rounds> {
        self.caller.rounds.as_ref()
    }

    /// Returns the client capabilities that the call needed but the client lacks.
    pub(super) fn lacking(&self) -> Option<ClientCapabilities> {
        self.caller.lacking()
    }

    pub(super) async fn run<T>(&mut self, work: impl Future<Output = T>) -> CallEnd<T> {
        let caller = self.caller.clone();
        let question = async {
            match &caller.rounds {
                Some(rounds) => rounds.open.notified().await,
                None => std::future::pending().await,
            }
        };
        let detaching = async {
            match &caller.detaching {
                Some(detaching) => detaching.wanted.notified().await,
                None => std::future::pending().await,
            }
        };
        let mut detaching = std::pin::pin!(detaching);
        let mut work = std::pin::pin!(AssertUnwindSafe(work).catch_unwind());
        let mut question = std::pin::pin!(question);
        let end = loop {
            // The order matters: all questions asked at the same time are collected before the call ends.
            tokio::select! {
                biased;
                () = caller.context.ct.cancelled() => break CallEnd::Cancelled,
                () = self.abandoned.cancelled() => break CallEnd::Cancelled,
                done = &mut work => break done.map_or(CallEnd::Panicked, CallEnd::Done),
                () = &mut question => break CallEnd::InputRequired,
                () = &mut detaching => break CallEnd::Detaching,
                () = caller.outbox.filled.notified() => {
                    if !caller.send_all().await {
                        break CallEnd::Cancelled;
                    }
                }
            }
        };
        match end {
            CallEnd::Cancelled => self.cancelled.cancel(),
            _ => {
                caller.send_all().await;
            }
        }
        end
    }
}

impl Caller {
    /// Sends queued notifications. Returns `false` if the client cancelled the request.
    async fn send_all(&self) -> bool {
        while let Some(message) = self.outbox.take() {
            tokio::select! {
                biased;
                () = self.context.ct.cancelled() => return false,
                sent = self.context.peer.send_notification(message) => {
                    if let Err(error) = sent {
                        tracing::debug!(%error, "a notification was not sent");
                    }
                }
            }
        }
        true
    }

    /// Decides whether the call continues as a task, and resumes the tool.
    pub(super) fn decide(&self, task: Option<Arc<Task>>) {
        let Some(detaching) = &self.detaching else { return };
        if let Some(task) = task {
            let _ = detaching.task.set(task);
        }
        detaching.decided.cancel();
    }

    fn task(&self) -> Option<&Arc<Task>> {
        self.detaching.as_ref()?.task.get()
    }

    pub(super) fn lacking(&self) -> Option<ClientCapabilities> {
        self.lacking.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn capabilities(&self) -> ClientCapabilities {
        self.context.client_capabilities().unwrap_or_default()
    }

    /// Asks the client: attached to the task, by ending the call, or as a request.
    async fn ask<T>(
        &self,
        key: Option<&str>,
        method: &'static str,
        params: Value,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<T, ClientError> {
        let timed_out = |_| ClientError::TimedOut { method, after: self.reply_timeout };
        if let Some(task) = self.task() {
            let reply = task.questions.ask(key, method, &params, &read, || task.touch());
            return tokio::time::timeout(self.reply_timeout, reply).await.map_err(timed_out);
        }
        if let Some(rounds) = &self.rounds {
            return match rounds.ask(key, method, &params, &read) {
                Some(reply) => Ok(reply),
                // The running call ends now and drops this future.
                None => std::future::pending().await,
            };
        }
        let request = ServerRequest::CustomRequest(CustomRequest::new(method, Some(params)));
        let response = tokio::time::timeout(self.reply_timeout, self.context.peer.send_request(request))
            .await
            .map_err(timed_out)?
            .map_err(|error| match error {
                ServiceError::McpError(error) => {
                    ClientError::Refused { method, message: error.message.into_owned() }
                }
                _ => ClientError::Disconnected,
            })?;
        let response = serde_json::to_value(response).unwrap_or_default();
        let invalid = || ClientError::Refused { method, message: "invalid response".to_owned() };
        read(&response).ok_or_else(invalid)
    }

    fn unsupported(&self, method: &'static str, lacking: ClientCapabilities) -> ClientError {
        *self.lacking.lock().unwrap_or_else(PoisonError::into_inner) = Some(lacking);
        ClientError::Unsupported { method }
    }

    /// Whether the client supports a kind of question to its user.
    pub(super) fn check_elicitation(&self, form: &Form) -> Result<(), ClientError> {
        const METHOD: &str = "elicitation/create";
        let declared = self.capabilities().elicitation;
        let declared = declared.as_ref();
        let is_supported = match form {
            // `elicitation` without details means forms.
            Form::Fields { .. } => {
                declared.is_some_and(|capability| capability.form.is_some() || capability.url.is_none())
            }
            Form::Url { .. } => declared.is_some_and(|capability| capability.url.is_some()),
        };
        if !is_supported {
            let needed = match form {
                Form::Fields { .. } => ElicitationCapability::default(),
                Form::Url { .. } => ElicitationCapability::default().with_url(Default::default()),
            };
            let mut lacking = ClientCapabilities::default();
            lacking.elicitation = Some(needed);
            return Err(self.unsupported(METHOD, lacking));
        }
        Ok(())
    }

    /// Whether the client has a model for servers.
    pub(super) fn check_sampling(&self) -> Result<(), ClientError> {
        if self.capabilities().sampling.is_some() {
            return Ok(());
        }
        let mut lacking = ClientCapabilities::default();
        lacking.sampling = Some(SamplingCapability::default());
        Err(self.unsupported("sampling/createMessage", lacking))
    }

    async fn elicit_keyed(&self, key: Option<&str>, form: Form) -> Result<FormReply, ClientError> {
        self.check_elicitation(&form)?;
        self.ask(key, "elicitation/create", wire::form_out(form), wire::form_reply).await
    }
}

impl Client for Caller {
    fn progress(&self, progress: Progress) {
        if let Some(task) = self.task() {
            let figures = || match progress.total {
                Some(total) => format!("{} of {total}", progress.done),
                None => progress.done.to_string(),
            };
            task.set_message(progress.message.clone().unwrap_or_else(figures));
            return;
        }
        let Some(token) = self.context.meta.get_progress_token() else { return };
        let mut params = ProgressNotificationParam::new(token, progress.done);
        params.total = progress.total;
        params.message = progress.message;
        self.outbox.put(ServerNotification::from(ProgressNotification::new(params)));
    }

    fn log(&self, level: Level, logger: &str, data: Value) {
        // Tasks have no log messages.
        if self.level.is_none_or(|min| level < min) || self.task().is_some() {
            return;
        }
        let mut params = LoggingMessageNotificationParam::new(wire::level_out(level), data);
        params.logger = (!logger.is_empty()).then(|| logger.to_owned());
        self.outbox.put(ServerNotification::from(LoggingMessageNotification::new(params)));
    }

    fn log_level(&self) -> Option<Level> {
        self.level
    }

    fn supports_tasks(&self) -> bool {
        // The tasks of revisions before 2026-07-28 are different.
        self.rounds.is_some() && self.capabilities().supports_tasks()
    }

    fn elicit<'a>(&'a self, form: Form) -> BoxFuture<'a, Result<FormReply, ClientError>> {
        Box::pin(self.elicit_keyed(None, form))
    }

    fn elicit_as<'a>(&'a self, key: &'a str, form: Form) -> BoxFuture<'a, Result<FormReply, ClientError>> {
        Box::pin(self.elicit_keyed(Some(key), form))
    }

    fn sample<'a>(&'a self, params: Map<String, Value>) -> BoxFuture<'a, Result<Value, ClientError>> {
        const METHOD: &str = "sampling/createMessage";
        Box::pin(async move {
            self.check_sampling()?;
            self.ask(None, METHOD, Value::Object(params), object).await
        })
    }

    fn continue_as_task(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(detaching) = self.detaching.as_ref().filter(|each| !each.decided.is_cancelled()) {
                detaching.wanted.notify_one();
                detaching.decided.cancelled().await;
            }
        })
    }

    fn ends_with_questions(&self) -> bool {
        self.task().is_none() && self.rounds.as_ref().is_some_and(Rounds::has_questions)
    }

    fn roots(&self) -> BoxFuture<'_, Result<Value, ClientError>> {
        const METHOD: &str = "roots/list";
        Box::pin(async move {
            if self.capabilities().roots.is_none() {
                let mut lacking = ClientCapabilities::default();
                lacking.roots = Some(RootsCapabilities::default());
                return Err(self.unsupported(METHOD, lacking));
            }
            self.ask(None, METHOD, json!({}), object).await
        })
    }
}

fn object(response: &Value) -> Option<Value> {
    response.is_object().then(|| response.clone())
}
