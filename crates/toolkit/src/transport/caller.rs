//! The client at the other end of one call, in either era, and the desk at which the call is attended to.

#![expect(deprecated, reason = "the SDK marks what MCP 2026-07-28 deprecates; older clients still use it")]

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures_core::future::BoxFuture;
use rmcp::model::{
    ClientCapabilities, CustomRequest, ElicitationCapability, LoggingMessageNotification,
    LoggingMessageNotificationParam, ProgressNotification, ProgressNotificationParam, ProgressToken,
    RootsCapabilities, SamplingCapability, ServerNotification, ServerRequest,
};
use rmcp::service::RequestContext;
use rmcp::{Peer, RoleServer, ServiceError};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;
use toolwire_contract::Progress;

use super::rounds::Rounds;
use super::shared::Shared;
use crate::client::{Answer, Client, ClientError, Form, Level};
use crate::wire;

/// How much progress and how many log messages of one call may wait for a slow client; more are dropped.
const OUTBOX: usize = 256;

/// The client at the other end of one call.
pub(super) struct Caller {
    peer: Peer<RoleServer>,
    capabilities: ClientCapabilities,
    progress: Option<ProgressToken>,
    /// The least level the client wants to hear of.
    level: Option<Level>,
    outbox: mpsc::Sender<ServerNotification>,
    /// Where questions end the call; `None` where they are requests.
    rounds: Option<Rounds>,
    lacking: Mutex<Option<ClientCapabilities>>,
    answer_within: Duration,
}

/// Where one call is attended to: what it sends leaves in order, and its end is noticed however it comes.
pub(super) struct Desk {
    caller: Arc<Caller>,
    outbox: mpsc::Receiver<ServerNotification>,
    /// The SDK's word that the client gave up or went away.
    given_up: CancellationToken,
    /// Ours: the server will not wait any longer.
    abandoned: CancellationToken,
    /// Ours to the tool. The SDK's own fires after each answer as well.
    cancelled: CancellationToken,
    _counted: TaskTrackerToken,
}

/// How a call ended.
pub(super) enum End<T> {
    Done(T),
    /// With questions to the client.
    Asked,
    GivenUp,
    Panicked,
}

impl Desk {
    pub(super) fn new(
        context: &RequestContext<RoleServer>,
        level: Option<Level>,
        rounds: Option<Rounds>,
        shared: &Shared,
    ) -> Desk {
        let (sender, outbox) = mpsc::channel(OUTBOX);
        let caller = Caller {
            peer: context.peer.clone(),
            capabilities: context.client_capabilities().unwrap_or_default(),
            progress: context.meta.get_progress_token(),
            level,
            outbox: sender,
            rounds,
            lacking: Mutex::default(),
            answer_within: shared.server.offers.answer_within,
        };
        Desk {
            caller: Arc::new(caller),
            outbox,
            given_up: context.ct.clone(),
            abandoned: shared.abandoned.clone(),
            cancelled: CancellationToken::new(),
            _counted: shared.answering.token(),
        }
    }

    pub(super) fn context(&self, context: &RequestContext<RoleServer>) -> crate::Context {
        crate::Context::new(context.id.to_string(), self.caller.clone(), self.cancelled.clone())
    }

    pub(super) fn rounds(&self) -> Option<&Rounds> {
        self.caller.rounds.as_ref()
    }

    /// What the client would have to be capable of for the call to succeed.
    pub(super) fn lacking(&self) -> Option<ClientCapabilities> {
        self.caller.lacking.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) async fn run<T>(&mut self, work: impl Future<Output = T>) -> End<T> {
        let caller = self.caller.clone();
        let asked = async {
            match &caller.rounds {
                Some(rounds) => rounds.open.notified().await,
                None => std::future::pending().await,
            }
        };
        let mut work = std::pin::pin!(AssertUnwindSafe(work).catch_unwind());
        let mut asked = std::pin::pin!(asked);
        let end = loop {
            // In this order: of questions asked at the same time, all are put before the call ends.
            tokio::select! {
                biased;
                () = self.given_up.cancelled() => break End::GivenUp,
                () = self.abandoned.cancelled() => break End::GivenUp,
                done = &mut work => break done.map_or(End::Panicked, End::Done),
                () = &mut asked => break End::Asked,
                Some(message) = self.outbox.recv() => {
                    if !send(&self.caller.peer, &self.given_up, message).await {
                        break End::GivenUp;
                    }
                }
            }
        };
        match end {
            End::GivenUp => self.cancelled.cancel(),
            _ => {
                while let Ok(message) = self.outbox.try_recv() {
                    if !send(&self.caller.peer, &self.given_up, message).await {
                        break;
                    }
                }
            }
        }
        end
    }
}

/// Whether the client still wants to hear.
async fn send(peer: &Peer<RoleServer>, given_up: &CancellationToken, message: ServerNotification) -> bool {
    tokio::select! {
        biased;
        () = given_up.cancelled() => false,
        sent = peer.send_notification(message) => {
            if let Err(error) = sent {
                tracing::debug!(%error, "a notification did not leave");
            }
            true
        }
    }
}

impl Caller {
    /// Puts a question: as a request of its own, or by ending the call.
    async fn ask<T>(
        &self,
        key: Option<&str>,
        method: &'static str,
        params: Value,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<T, ClientError> {
        if let Some(rounds) = &self.rounds {
            return match rounds.ask(key, method, &params, &read) {
                Some(answer) => Ok(answer),
                // The desk ends the call now, and with it this wait.
                None => std::future::pending().await,
            };
        }
        let request = ServerRequest::CustomRequest(CustomRequest::new(method, Some(params)));
        let answer = tokio::time::timeout(self.answer_within, self.peer.send_request(request))
            .await
            .map_err(|_| ClientError::TimedOut { method, after: self.answer_within })?
            .map_err(|error| match error {
                ServiceError::McpError(error) => {
                    ClientError::Refused { method, message: error.message.into_owned() }
                }
                _ => ClientError::Gone,
            })?;
        let answer = serde_json::to_value(answer).unwrap_or_default();
        let unreadable = || ClientError::Refused { method, message: "the answer cannot be read".to_owned() };
        read(&answer).ok_or_else(unreadable)
    }

    fn unsupported(&self, method: &'static str, lacking: ClientCapabilities) -> ClientError {
        *self.lacking.lock().unwrap_or_else(PoisonError::into_inner) = Some(lacking);
        ClientError::Unsupported { method }
    }

    async fn elicit_keyed(&self, key: Option<&str>, form: Form) -> Result<Answer, ClientError> {
        const METHOD: &str = "elicitation/create";
        let declared = self.capabilities.elicitation.as_ref();
        let can = match &form {
            // A client that says nothing more than `elicitation` means forms.
            Form::Fields { .. } => declared.is_some_and(|can| can.form.is_some() || can.url.is_none()),
            Form::Url { .. } => declared.is_some_and(|can| can.url.is_some()),
        };
        if !can {
            let needed = match form {
                Form::Fields { .. } => ElicitationCapability::default(),
                Form::Url { .. } => ElicitationCapability::default().with_url(Default::default()),
            };
            let mut lacking = ClientCapabilities::default();
            lacking.elicitation = Some(needed);
            return Err(self.unsupported(METHOD, lacking));
        }
        self.ask(key, METHOD, wire::form_out(form), wire::answer_in).await
    }
}

impl Client for Caller {
    fn progress(&self, progress: Progress) {
        let Some(token) = &self.progress else { return };
        let mut params = ProgressNotificationParam::new(token.clone(), progress.done);
        params.total = progress.total;
        params.message = progress.message;
        let _ = self.outbox.try_send(ServerNotification::from(ProgressNotification::new(params)));
    }

    fn log(&self, level: Level, logger: &str, data: Value) {
        if self.level.is_none_or(|least| level < least) {
            return;
        }
        let mut params = LoggingMessageNotificationParam::new(wire::level_out(level), data);
        params.logger = Some(logger.to_owned());
        let _ = self.outbox.try_send(ServerNotification::from(LoggingMessageNotification::new(params)));
    }

    fn elicit<'a>(&'a self, form: Form) -> BoxFuture<'a, Result<Answer, ClientError>> {
        Box::pin(self.elicit_keyed(None, form))
    }

    fn elicit_as<'a>(&'a self, key: &'a str, form: Form) -> BoxFuture<'a, Result<Answer, ClientError>> {
        Box::pin(self.elicit_keyed(Some(key), form))
    }

    fn sample<'a>(&'a self, params: Map<String, Value>) -> BoxFuture<'a, Result<Value, ClientError>> {
        const METHOD: &str = "sampling/createMessage";
        Box::pin(async move {
            if self.capabilities.sampling.is_none() {
                let mut lacking = ClientCapabilities::default();
                lacking.sampling = Some(SamplingCapability::default());
                return Err(self.unsupported(METHOD, lacking));
            }
            self.ask(None, METHOD, Value::Object(params), object).await
        })
    }

    fn roots(&self) -> BoxFuture<'_, Result<Value, ClientError>> {
        const METHOD: &str = "roots/list";
        Box::pin(async move {
            if self.capabilities.roots.is_none() {
                let mut lacking = ClientCapabilities::default();
                lacking.roots = Some(RootsCapabilities::default());
                return Err(self.unsupported(METHOD, lacking));
            }
            self.ask(None, METHOD, json!({}), object).await
        })
    }
}

fn object(answer: &Value) -> Option<Value> {
    answer.is_object().then(|| answer.clone())
}
