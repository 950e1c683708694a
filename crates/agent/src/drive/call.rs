//! Makes the calls of one step, in parallel up to a limit and during the reviews of others. Each call has
//! exactly one result.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use toolwire_contract::conversations::ConversationId;
use toolwire_contract::elicitation::ElicitHandler;
use toolwire_contract::toolbox::{CallError, CallOptions, CallPermission, Progress};
use toolwire_contract::{ToolCall, ToolResult};

use super::Driver;
use crate::agent::AgentInner;
use crate::approval::Decision;
use crate::elicitation::{ElicitationHandler, ServerQuestion};
use crate::event::AgentEvent;

/// The time that the driver waits longer than the toolbox, because the toolbox's own timeout error is more
/// precise.
const TIMEOUT_GRACE: Duration = Duration::from_secs(1);

struct FinishedCall {
    id: String,
    name: String,
    result: ToolResult,
    elapsed: Duration,
}

impl Driver {
    /// Makes the calls, while the approver decides about the others; calls that it approves are made too.
    /// Each result is saved as soon as it arrives, independently of the other calls.
    pub(super) async fn call_tools(&mut self, calls: Vec<(String, ToolCall)>) {
        let cancellation = self.cancellation.clone();
        let decisions = self.decisions.clone();
        let parallel = self.agent.parallel_calls;
        let mut queued = VecDeque::from(calls);
        let mut running = FuturesUnordered::new();
        let mut review: Option<BoxFuture<'static, (String, Decision)>> = None;
        loop {
            while running.len() < parallel
                && let Some((id, call)) = queued.pop_front()
            {
                let permission = self.run.call_permission(&call.name);
                let conversation = self.run.stored_in().map(|(conversation, _)| conversation.clone());
                let events = self.events.clone();
                running.push(make_call(self.agent.clone(), events, conversation, id, call, permission));
            }
            if review.is_none() {
                review = self.next_review().await;
            }
            if running.is_empty() && review.is_none() {
                return;
            }
            tokio::select! {
                biased;
                () = cancellation.cancelled() => return self.run.cancel(),
                Some(first) = running.next() => {
                    let mut finished = vec![first];
                    while let Some(Some(call)) = running.next().now_or_never() {
                        finished.push(call);
                    }
                    self.record(finished).await;
                }
                (id, decision) = decided(&mut review) => {
                    review = None;
                    self.run.decide(&id, decision);
                    queued.extend(self.run.start_approved());
                    self.emit_and_persist().await;
                }
                reported = decisions.next() => {
                    for (id, decision) in reported {
                        self.run.decide(&id, decision);
                    }
                    queued.extend(self.run.start_approved());
                    self.emit_and_persist().await;
                }
            }
            if self.run.is_done() {
                return;
            }
        }
    }

    async fn record(&mut self, finished: Vec<FinishedCall>) {
        self.run.tools_returned(finished.iter().map(|call| (call.id.clone(), call.result.clone())));
        for FinishedCall { id, name, result, elapsed } in finished {
            self.emit(AgentEvent::CallFinished { id, name, result, elapsed: Some(elapsed) }).await;
        }
        self.emit_and_persist().await;
    }

    /// Starts the review of the next call that needs approval, if there is one and an approver.
    async fn next_review(&self) -> Option<BoxFuture<'static, (String, Decision)>> {
        let approver = self.agent.approver.clone()?;
        let call = self.run.pending_calls().into_iter().next()?;
        self.emit(AgentEvent::ApprovalNeeded(call.clone())).await;
        let timeout = self.agent.approval_timeout;
        Some(Box::pin(async move {
            let decision = tokio::select! {
                biased;
                decision = approver.review(&call) => decision,
                () = elapsed(timeout) => {
                    Decision::Unattended { why: format!("{}, and it was not approved in time", call.why) }
                }
            };
            (call.id, decision)
        }))
    }
}

/// Waits for the decision of a review; forever if there is none.
async fn decided(review: &mut Option<BoxFuture<'static, (String, Decision)>>) -> (String, Decision) {
    match review {
        Some(review) => review.await,
        None => std::future::pending().await,
    }
}

/// Completes after `timeout`; never if there is none.
async fn elapsed(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

async fn make_call(
    agent: Arc<AgentInner>,
    events: mpsc::Sender<AgentEvent>,
    conversation: Option<ConversationId>,
    id: String,
    call: ToolCall,
    permission: Option<Arc<CallPermission>>,
) -> FinishedCall {
    let ToolCall { name, arguments, validation, .. } = call;
    let arguments = arguments.unwrap_or_default();
    let started =
        AgentEvent::CallStarted { id: id.clone(), name: name.clone(), arguments: arguments.clone() };
    // The receiver may be gone; ignore the send error.
    let _ = events.send(started).await;
    let start = Instant::now();
    let progress = Some(progress_sender(events, id.clone()));
    let mut options = CallOptions::default();
    options.timeout = agent.call_timeout;
    options.progress = progress;
    options.permission = permission;
    options.validation = validation;
    let open_questions = Arc::new(watch::Sender::new(0));
    options.elicitation = agent.elicitation.clone().map(|handler| {
        let call = (conversation, id.clone(), name.clone());
        elicitation(handler, call, open_questions.clone())
    });
    let arguments = Value::Object(arguments);
    // An async block, because `call` itself may panic before it returns a future.
    let call = async { agent.tools.call(&name, &arguments, options).await };
    let call = AssertUnwindSafe(call).catch_unwind();
    let outcome = match agent.call_timeout {
        Some(timeout) => within(timeout + TIMEOUT_GRACE, &open_questions, call).await.unwrap_or_else(|| {
            Ok(Err(CallError::TimedOut { server: "toolbox".to_owned(), tool: name.clone(), after: timeout }))
        }),
        None => call.await,
    };
    let result = match outcome {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => error.to_result(),
        Err(panic) => ToolResult::error(format!(
            "`{name}` crashed: {}. It is unknown whether the call took effect",
            panic_message(&*panic).unwrap_or("its code panicked")
        )),
    };
    FinishedCall { id, name, result, elapsed: start.elapsed() }
}

/// Returns the handler of the questions of one call. `open` has the number of those without a reply.
fn elicitation(
    handler: Arc<dyn ElicitationHandler>,
    (conversation, call, tool): (Option<ConversationId>, String, String),
    open: Arc<watch::Sender<usize>>,
) -> Arc<ElicitHandler> {
    Arc::new(move |server, request| {
        let question = ServerQuestion {
            conversation: conversation.clone(),
            call: call.clone(),
            tool: tool.clone(),
            server: server.to_owned(),
            request,
        };
        let reply = handler.elicit(question);
        let open = OpenQuestion::new(open.clone());
        Box::pin(async move {
            let _open = open;
            reply.await
        })
    })
}

/// Counts as an open question until it is dropped.
struct OpenQuestion(Arc<watch::Sender<usize>>);

impl OpenQuestion {
    fn new(open: Arc<watch::Sender<usize>>) -> OpenQuestion {
        open.send_modify(|count| *count += 1);
        OpenQuestion(open)
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// Waits for a call; `None` if it times out. The timeout does not pass while the user has an open question,
/// and begins again after it.
async fn within<T>(
    timeout: Duration,
    open_questions: &watch::Sender<usize>,
    call: impl Future<Output = T>,
) -> Option<T> {
    let mut call = std::pin::pin!(call);
    let mut questions = open_questions.subscribe();
    let mut until = Instant::now() + timeout;
    loop {
        let has_open = *questions.borrow_and_update() > 0;
        tokio::select! {
            biased;
            outcome = &mut call => return Some(outcome),
            _ = questions.changed() => until = Instant::now() + timeout,
            () = tokio::time::sleep_until(until), if !has_open => return None,
        }
    }
}

/// Sends progress reports as events. A report that does not fit in the buffer is dropped, so it cannot delay
/// the call.
fn progress_sender(events: mpsc::Sender<AgentEvent>, id: String) -> Arc<dyn Fn(Progress) + Send + Sync> {
    Arc::new(move |progress| {
        let _ = events.try_send(AgentEvent::CallProgress { id: id.clone(), progress });
    })
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> Option<&str> {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}
