//! Sends requests and waits for their responses.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, MetaObject, NumberOrString, RequestId,
    RequestMetaObject, ServerResult, TASKS_EXTENSION_ID,
};
use rmcp::service::{PeerRequestOptions, ServiceError};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::{Instant, sleep_until};
use toolwire_contract::elicitation::{ElicitHandler, SampleHandler};
use toolwire_contract::log::LogReceiver;
use toolwire_contract::trace_context::TraceContext;

use super::{ProtocolEra, Session, SessionError};
use crate::client_service::{self, CallHandlers, Question};
use crate::raw_capture::{CallReceivers, ProgressListener, RawResponse};
use crate::sync::lock;
use crate::transport::{ConnectionEnd, TransportFailure};

/// The maximum number of times that a tool call is sent while the server responds with requests for input.
const MAX_INPUT_ROUNDS: usize = 10;

/// The first pause before a call is repeated for a server that needs no input but is not done yet. Each pause
/// is longer than the last one by the same time, up to the maximum.
const REPEAT_DELAY: Duration = Duration::from_millis(20);
const MAX_REPEAT_DELAY: Duration = Duration::from_secs(2);

/// The key of `_meta` for the lowest level of the log messages that a client wants.
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// The key of `_meta` for the capabilities of the client.
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// The place of the tasks extension in the capabilities of a server.
const TASKS_POINTER: &str = "/extensions/io.modelcontextprotocol~1tasks";

/// The limits of one request, and the receiver of its progress.
pub(crate) struct SessionCall {
    /// The maximum time without a message from the server. Progress restarts it, and the time that the
    /// application takes to respond to the server does not count.
    pub(crate) timeout: Duration,
    /// The maximum duration of the request in total.
    pub(crate) max_total: Duration,
    /// Receives the progress. It must not block.
    pub(crate) progress: Option<ProgressListener>,
    /// The trace that the request belongs to.
    pub(crate) trace: Option<TraceContext>,
    /// Asks the user the questions of the server during a call.
    pub(crate) elicitation: Option<Arc<ElicitHandler>>,
    /// Responds to requests of the server for a sample of a model.
    pub(crate) sampling: Option<Arc<SampleHandler>>,
    /// Receives what the server logs during a call.
    pub(crate) log: Option<LogReceiver>,
    /// Who makes the call, if there are several callers.
    pub(crate) owner: Option<Arc<str>>,
    /// Whether the server may continue the call as a task.
    pub(crate) accepts_task: bool,
}

impl SessionCall {
    /// Returns the options of a request that has only a limit for its duration.
    pub(crate) fn within(timeout: Duration) -> SessionCall {
        SessionCall {
            timeout,
            max_total: timeout,
            progress: None,
            trace: None,
            elicitation: None,
            sampling: None,
            log: None,
            owner: None,
            accepts_task: false,
        }
    }
}

impl Session {
    /// Calls a tool and returns its result as the server sent it.
    ///
    /// If the call times out or this future is dropped, the server is notified that the call is cancelled.
    pub(crate) async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        mut call: SessionCall,
    ) -> Result<Value, SessionError> {
        let until = Instant::now() + call.max_total;
        let (elicitation, sampling) = (call.elicitation.clone(), call.sampling.clone());
        let _in_progress = self.connection.calls.begin_call(elicitation, sampling, call.owner.clone());
        if let Some(log) = call.log.take() {
            self.request_log_level(log.level).await;
            call.log = Some(self.receiver(log));
        }
        let mut params = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        let mut rounds = 0;
        let mut delay = Duration::ZERO;
        while rounds < MAX_INPUT_ROUNDS {
            let request = ClientRequest::CallToolRequest(CallToolRequest::new(params.clone()));
            let (result, _) = self.request(request, &call, until).await?;
            if !result.is_object() {
                return Err(SessionError::Malformed { reason: "the result is not an object".into() });
            }
            if result.get("resultType").and_then(Value::as_str) != Some("input_required") {
                return Ok(result);
            }
            params.input_responses = self.collect_input(&result, &call, until).await?;
            match params.input_responses {
                Some(_) => rounds += 1,
                None => {
                    delay = MAX_REPEAT_DELAY.min(delay + REPEAT_DELAY);
                    self.pause(delay, &call, until).await?;
                }
            }
            params.request_state = result.get("requestState").and_then(Value::as_str).map(str::to_owned);
        }
        Err(SessionError::TooManyInputRounds { rounds: MAX_INPUT_ROUNDS })
    }

    /// Sends a request and waits for its response.
    pub(super) async fn request(
        &self,
        request: ClientRequest,
        call: &SessionCall,
        until: Instant,
    ) -> Result<(Value, ServerResult), SessionError> {
        if let Some(end) = self.connection.end() {
            return Err(SessionError::NotSent { end });
        }
        let mut deadline = until.min(Instant::now() + call.timeout);
        let mut options = PeerRequestOptions::no_options();
        options.meta = self.metadata(call);
        let sending = self.peer.send_request_with_option(request, options);
        let mut handle = tokio::select! {
            handle = sending => handle.map_err(|_| SessionError::NotSent {
                end: self.connection.end().unwrap_or(ConnectionEnd::Closed),
            })?,
            () = sleep_until(deadline) => return Err(SessionError::TimedOut { after: call.timeout }),
        };
        let NumberOrString::Number(id) = handle.id else {
            return Err(SessionError::Malformed { reason: "the SDK's request id is not a number".into() });
        };
        let capture = &self.connection.capture;
        let mut cancel_guard = CancelOnDrop {
            session: self,
            request_id: handle.id.clone(),
            id,
            cancel_reason: Some("the caller stopped waiting"),
        };
        let receivers = CallReceivers {
            progress: call.progress.clone(),
            log: call.log.clone(),
            owner: call.owner.clone(),
        };
        let activity = capture.watch(id, receivers);
        let mut open_requests = self.connection.open_requests();
        loop {
            let is_application_responding = *open_requests.borrow_and_update() > 0;
            let limit = if is_application_responding { until } else { deadline };
            tokio::select! {
                biased;
                response = &mut handle.rx => {
                    cancel_guard.cancel_reason = None;
                    return self.finish(id, response.unwrap_or(Err(ServiceError::TransportClosed)));
                }
                end = self.connection.ended() => {
                    cancel_guard.cancel_reason = None;
                    // The last output of a process may be the response.
                    return match capture.take_response(id) {
                        Some(response) => Ok((into_result(response)?, ServerResult::empty(()))),
                        None => Err(self.disconnected(id, end)),
                    };
                }
                () = activity.notified() => {
                    // The response to a call is captured before the SDK receives it.
                    if let Some(response) = capture.take_response(id) {
                        cancel_guard.cancel_reason = None;
                        self.late_receivers.hold(handle.rx);
                        return Ok((into_result(response)?, ServerResult::empty(())));
                    }
                    deadline = until.min(Instant::now() + call.timeout);
                }
                changed = open_requests.changed() => {
                    if changed.is_ok() {
                        deadline = until.min(Instant::now() + call.timeout);
                    }
                }
                () = sleep_until(limit) => {
                    cancel_guard.cancel_reason = Some("timed out");
                    let after = if limit < until { call.timeout } else { call.max_total };
                    return Err(SessionError::TimedOut { after });
                }
            }
        }
    }

    /// Returns the keys of `_meta` for a request.
    fn metadata(&self, call: &SessionCall) -> Option<RequestMetaObject> {
        let mut metadata = MetaObject::new();
        if let Some(trace) = &call.trace {
            add_trace(&mut metadata, trace);
        }
        if let Some(log) = call.log.as_ref().filter(|_| self.info.era == ProtocolEra::Modern) {
            metadata.0.insert(LOG_LEVEL.to_owned(), log.level.name().into());
        }
        let can_run_tasks = || self.info.capabilities.pointer(TASKS_POINTER).is_some_and(Value::is_object);
        if call.accepts_task && self.info.era == ProtocolEra::Modern && can_run_tasks() {
            // They replace those that the SDK adds to each request.
            let mut capabilities = client_service::capabilities(&*self.host);
            capabilities["extensions"] = json!({TASKS_EXTENSION_ID: {}});
            metadata.0.insert(CAPABILITIES.to_owned(), capabilities);
        }
        (!metadata.0.is_empty()).then(|| metadata.into())
    }

    /// Waits before a call is repeated, within the limits of the call.
    async fn pause(&self, delay: Duration, call: &SessionCall, until: Instant) -> Result<(), SessionError> {
        tokio::select! {
            () = tokio::time::sleep(delay) => Ok(()),
            end = self.connection.ended() => Err(SessionError::Disconnected { end }),
            () = sleep_until(until) => Err(SessionError::TimedOut { after: call.max_total }),
        }
    }

    /// Asks the application for the input that the server needs to continue the call. Returns `None` if it
    /// needs none because it is still working.
    async fn collect_input(
        &self,
        result: &Value,
        call: &SessionCall,
        until: Instant,
    ) -> Result<Option<BTreeMap<String, Value>>, SessionError> {
        let requests = result.get("inputRequests").and_then(Value::as_object);
        let responses =
            futures::future::try_join_all(requests.into_iter().flatten().map(async |(key, request)| {
                let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
                let params = request.get("params").cloned().unwrap_or_default();
                let handlers = CallHandlers {
                    elicitation: call.elicitation.as_deref(),
                    sampling: call.sampling.as_deref(),
                };
                let question = Question { server: &self.server, key: Some(key), method, params };
                let response = client_service::respond(&*self.host, handlers, question).await;
                response.map(|response| (key.clone(), response))
            }));
        let responses = tokio::select! {
            responses = responses => responses,
            end = self.connection.ended() => return Err(SessionError::Disconnected { end }),
            () = sleep_until(until) => return Err(SessionError::TimedOut { after: call.max_total }),
        };
        match responses {
            Ok(responses) if responses.is_empty() => {
                if result.get("requestState").is_none() {
                    let reason = "input is required, but there are no `inputRequests`".into();
                    return Err(SessionError::Malformed { reason });
                }
                Ok(None)
            }
            Ok(responses) => Ok(Some(responses.into_iter().collect())),
            Err(refusal) => Err(SessionError::Rejected {
                code: refusal.code.0.into(),
                message: refusal.message.into_owned(),
            }),
        }
    }

    /// Combines the captured response with what the SDK returned.
    fn finish(
        &self,
        id: i64,
        response: Result<ServerResult, ServiceError>,
    ) -> Result<(Value, ServerResult), SessionError> {
        let capture = &self.connection.capture;
        match (capture.take_response(id), response) {
            (Some(raw), response) => {
                Ok((into_result(raw)?, response.unwrap_or_else(|_| ServerResult::empty(()))))
            }
            (None, Ok(_)) => {
                Err(SessionError::Malformed { reason: "the raw response was not captured".into() })
            }
            // The error is the SDK's own: it stopped using the connection.
            (None, Err(error)) => Err(match (self.connection.end(), capture.rejection(id)) {
                (Some(end), _) => self.disconnected(id, end),
                (None, Some(rejection)) => SessionError::Failed(rejection),
                (None, None) => {
                    let reason = error.to_string();
                    SessionError::Failed(match capture.was_delivered(id) {
                        true => TransportFailure::Interrupted { reason },
                        false => TransportFailure::Unreachable { reason, proxy: None },
                    })
                }
            }),
        }
    }

    fn disconnected(&self, id: i64, end: ConnectionEnd) -> SessionError {
        match self.connection.capture.was_delivered(id) {
            true => SessionError::Disconnected { end },
            false => SessionError::NotSent { end },
        }
    }
}

/// The receivers of responses that were captured before the SDK delivered them. They are held until then,
/// because the SDK logs an error when a receiver is dropped.
#[derive(Default)]
pub(super) struct LateReceivers(Mutex<VecDeque<oneshot::Receiver<Result<ServerResult, ServiceError>>>>);

impl LateReceivers {
    fn hold(&self, receiver: oneshot::Receiver<Result<ServerResult, ServiceError>>) {
        let mut receivers = lock(&self.0);
        let is_done =
            |receiver: &mut oneshot::Receiver<_>| !matches!(receiver.try_recv(), Err(TryRecvError::Empty));
        while receivers.front_mut().is_some_and(is_done) {
            receivers.pop_front();
        }
        receivers.push_back(receiver);
    }
}

/// Notifies the server that a request is cancelled if the wait for its response ends without one.
struct CancelOnDrop<'a> {
    session: &'a Session,
    request_id: RequestId,
    /// `request_id` as a number, for the raw capture.
    id: i64,
    /// `None` if the server need not be notified.
    cancel_reason: Option<&'static str>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        self.session.connection.capture.forget(self.id);
        if let Some(reason) = self.cancel_reason {
            // The queue is full only if the server reads nothing, and then it would not read this either.
            let _ = self.session.abandoned.try_send((self.request_id.clone(), reason));
        }
    }
}

/// Adds the keys of `_meta` for a trace, as MCP defines them.
fn add_trace(metadata: &mut MetaObject, trace: &TraceContext) {
    metadata.set_traceparent(trace.parent());
    if let Some(state) = trace.state() {
        metadata.set_tracestate(state);
    }
}

fn into_result(response: RawResponse) -> Result<Value, SessionError> {
    match response {
        RawResponse::Result(result) => Ok(result),
        RawResponse::Error(error) => Err(SessionError::Rejected {
            code: error.get("code").and_then(Value::as_i64).unwrap_or_default(),
            message: match error.get("message").and_then(Value::as_str) {
                Some(message) => message.to_owned(),
                None => error.to_string(),
            },
        }),
        RawResponse::Failure(failure) => Err(SessionError::Failed(failure)),
    }
}
