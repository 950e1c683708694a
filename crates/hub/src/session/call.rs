//! Asking and waiting.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, NumberOrString, RequestId, ServerResult,
};
use rmcp::service::{PeerRequestOptions, ServiceError};
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{Session, SessionError};
use crate::tee::{Answer, Progress};
use crate::transport::{Ending, Failure};
use crate::wire;

/// How often a server may ask for input before it answers a call.
const MOST_ROUNDS: usize = 10;

/// How a call is waited for.
#[derive(Clone)]
pub struct CallOptions {
    /// How long the server may be silent. Progress, and the time the application takes to answer the server, do not
    /// count.
    pub timeout: Duration,
    /// How long the call may take in all.
    pub max_total: Duration,
    /// Told of the call's progress. It must not block.
    pub progress: Option<Arc<dyn Fn(Progress) + Send + Sync>>,
    /// Ends the call, and tells the server so.
    pub cancel: CancellationToken,
}

impl Default for CallOptions {
    fn default() -> CallOptions {
        CallOptions {
            timeout: Duration::from_secs(60),
            max_total: Duration::from_secs(600),
            progress: None,
            cancel: CancellationToken::new(),
        }
    }
}

impl Session {
    /// Calls a tool and gives its result as the server sent it.
    ///
    /// A call that is given up, by its time limit, its token or because this future is dropped, is cancelled at the
    /// server.
    pub async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        options: CallOptions,
    ) -> Result<Value, SessionError> {
        let until = Instant::now() + options.max_total;
        let mut params = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        for _ in 0..MOST_ROUNDS {
            let request = ClientRequest::CallToolRequest(CallToolRequest::new(params.clone()));
            let (result, _) = self.request(request, &options, until).await?;
            if !result.is_object() {
                return Err(SessionError::Malformed { why: "the result is no object".into() });
            }
            if result.get("resultType").and_then(Value::as_str) != Some("input_required") {
                return Ok(result);
            }
            params.input_responses = self.input(&result, &options, until).await?;
            params.request_state = result.get("requestState").and_then(Value::as_str).map(str::to_owned);
        }
        Err(SessionError::TooManyRounds { rounds: MOST_ROUNDS })
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn request(
        &self,
        request: ClientRequest,
        options: &CallOptions,
        until: Instant,
    ) -> Result<(Value, ServerResult), SessionError> {
        if let Some(ending) = self.link.ending() {
            return Err(SessionError::NotSent { ending });
        }
        let first = until.min(Instant::now() + options.timeout);
        let sending = self.peer.send_request_with_option(request, PeerRequestOptions::no_options());
        let mut handle = tokio::select! {
            handle = sending => handle.map_err(|_| SessionError::NotSent { ending: self.ending_or_closed() })?,
            () = options.cancel.cancelled() => return Err(SessionError::Cancelled),
            () = sleep_until(first) => return Err(SessionError::TimedOut { after: options.timeout }),
        };
        let NumberOrString::Number(id) = handle.id else {
            return Err(SessionError::Malformed { why: "the request has no number".into() });
        };
        let mut waiting =
            Waiting { session: self, id: handle.id.clone(), number: id, given_up: Some(ABANDONED) };
        let moved = self.link.tee.watch(id, options.progress.clone());
        let mut asking = self.link.asking();
        let mut deadline = first;
        loop {
            let is_asking = *asking.borrow_and_update() > 0;
            let limit = if is_asking { until } else { deadline };
            tokio::select! {
                biased;
                response = &mut handle.rx => {
                    waiting.given_up = None;
                    return self.settle(id, response.unwrap_or(Err(ServiceError::TransportClosed)));
                }
                ending = self.link.ended() => {
                    waiting.given_up = None;
                    // The last thing a process said may be the answer.
                    return match self.link.tee.take(id) {
                        Some(answer) => Ok((settled(answer)?, ServerResult::empty(()))),
                        None => Err(self.lost(id, ending)),
                    };
                }
                () = options.cancel.cancelled() => {
                    waiting.given_up = Some("cancelled by the caller");
                    return Err(SessionError::Cancelled);
                }
                () = moved.notified() => {
                    // The answer to a call is there before the SDK has seen it.
                    if let Some(answer) = self.link.tee.take(id) {
                        waiting.given_up = None;
                        self.unheard.keep(handle.rx);
                        return Ok((settled(answer)?, ServerResult::empty(())));
                    }
                    deadline = until.min(Instant::now() + options.timeout);
                }
                changed = asking.changed() => {
                    if changed.is_ok() {
                        deadline = until.min(Instant::now() + options.timeout);
                    }
                }
                () = sleep_until(limit) => {
                    waiting.given_up = Some("no answer in time");
                    let after = if limit < until { options.timeout } else { options.max_total };
                    return Err(SessionError::TimedOut { after });
                }
            }
        }
    }

    /// Has the application answer what the server wants to know before it goes on.
    async fn input(
        &self,
        result: &Value,
        options: &CallOptions,
        until: Instant,
    ) -> Result<Option<BTreeMap<String, Value>>, SessionError> {
        let asked = result.get("inputRequests").and_then(Value::as_object);
        let answers =
            futures::future::try_join_all(asked.into_iter().flatten().map(async |(key, request)| {
                let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
                let params = request.get("params").cloned().unwrap_or_default();
                let answer = wire::answer(&*self.host, &self.server, method, params).await;
                answer.map(|answer| (key.clone(), answer))
            }));
        let answers = tokio::select! {
            answers = answers => answers,
            ending = self.link.ended() => return Err(SessionError::Disconnected { ending }),
            () = options.cancel.cancelled() => return Err(SessionError::Cancelled),
            () = sleep_until(until) => return Err(SessionError::TimedOut { after: options.max_total }),
        };
        match answers {
            Ok(answers) if answers.is_empty() => {
                if result.get("requestState").is_none() {
                    return Err(SessionError::Malformed {
                        why: "it asks for input but says not which".into(),
                    });
                }
                // The server only wants to be asked again; not at once, for it is still at work.
                tokio::time::sleep(Duration::from_millis(100)).await;
                Ok(None)
            }
            Ok(answers) => Ok(Some(answers.into_iter().collect())),
            Err(refusal) => Err(SessionError::Refused {
                code: refusal.code.0.into(),
                message: refusal.message.into_owned(),
                data: refusal.data,
            }),
        }
    }

    fn settle(
        &self,
        id: i64,
        response: Result<ServerResult, ServiceError>,
    ) -> Result<(Value, ServerResult), SessionError> {
        match (self.link.tee.take(id), response) {
            (Some(answer), Ok(shown)) => Ok((settled(answer)?, shown)),
            (Some(answer), Err(_)) => Ok((settled(answer)?, ServerResult::empty(()))),
            (None, Ok(_)) => Err(SessionError::Malformed { why: "the answer was lost".into() }),
            // An error that the server did not send is the SDK's own: it gave up on the connection.
            (None, Err(error)) => Err(match (self.link.ending(), self.link.tee.refusal(id)) {
                (Some(ending), _) => self.lost(id, ending),
                (None, Some(refusal)) => SessionError::Failed(refusal),
                (None, None) if self.link.tee.was_delivered(id) => {
                    SessionError::Failed(Failure::Broken { reason: error.to_string() })
                }
                (None, None) => SessionError::Failed(Failure::Unreachable { reason: error.to_string() }),
            }),
        }
    }

    fn lost(&self, id: i64, ending: Ending) -> SessionError {
        if self.link.tee.was_delivered(id) {
            SessionError::Disconnected { ending }
        } else {
            SessionError::NotSent { ending }
        }
    }

    fn ending_or_closed(&self) -> Ending {
        self.link.ending().unwrap_or(Ending::Closed)
    }
}

/// Where the SDK brings the answers that were had before: it complains of an answer that it cannot bring.
#[derive(Default)]
pub(super) struct Unheard(Mutex<VecDeque<oneshot::Receiver<Result<ServerResult, ServiceError>>>>);

impl Unheard {
    fn keep(&self, answer: oneshot::Receiver<Result<ServerResult, ServiceError>>) {
        let mut unheard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while unheard.front_mut().is_some_and(|answer| !matches!(answer.try_recv(), Err(TryRecvError::Empty)))
        {
            unheard.pop_front();
        }
        unheard.push_back(answer);
    }
}

const ABANDONED: &str = "nobody waits for it";

/// A request that is waited for. When the wait ends without an answer, the server is told.
struct Waiting<'a> {
    session: &'a Session,
    id: RequestId,
    number: i64,
    given_up: Option<&'static str>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.session.link.tee.forget(self.number);
        if let Some(reason) = self.given_up {
            // A full queue means a server that reads nothing: it would not read this either.
            let _ = self.session.abandoned.try_send((self.id.clone(), reason));
        }
    }
}

fn settled(answer: Answer) -> Result<Value, SessionError> {
    match answer {
        Answer::Result(result) => Ok(result),
        Answer::Error(mut error) => Err(SessionError::Refused {
            code: error.get("code").and_then(Value::as_i64).unwrap_or_default(),
            message: match error.get("message").and_then(Value::as_str) {
                Some(message) => message.to_owned(),
                None => error.to_string(),
            },
            data: error.get_mut("data").map(Value::take),
        }),
        Answer::Failure(failure) => Err(SessionError::Failed(failure)),
    }
}
