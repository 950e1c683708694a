//! Makes the calls of one step: in parallel up to a limit, each with exactly one result.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt, stream};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;
use toolwire_contract::{CallError, CallOptions, CallPermission, Progress, ToolCall, ToolResult};

use super::Driver;
use crate::agent::AgentInner;
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
    /// Makes the calls. Each result is saved as soon as it arrives, independently of the other calls.
    pub(super) async fn call_tools(&mut self, calls: Vec<(String, ToolCall)>) {
        let (agent, events, cancellation) =
            (self.agent.clone(), self.events.clone(), self.cancellation.clone());
        let parallel = agent.parallel_calls;
        let calls: Vec<_> = calls
            .into_iter()
            .map(|(id, call)| {
                let permission = self.run.call_permission(&call.name);
                make_call(agent.clone(), events.clone(), id, call, permission)
            })
            .collect();
        let mut finished = stream::iter(calls).buffer_unordered(parallel).ready_chunks(parallel);
        loop {
            let chunk = tokio::select! {
                biased;
                () = cancellation.cancelled() => return self.run.cancel(),
                chunk = finished.next() => chunk,
            };
            let Some(chunk) = chunk else { return };
            self.run.tools_returned(chunk.iter().map(|call| (call.id.clone(), call.result.clone())));
            for FinishedCall { id, name, result, elapsed } in chunk {
                self.emit(AgentEvent::CallFinished { id, name, result, elapsed: Some(elapsed) }).await;
            }
            self.emit_and_persist().await;
            if self.run.is_done() {
                return;
            }
        }
    }
}

async fn make_call(
    agent: Arc<AgentInner>,
    events: mpsc::Sender<AgentEvent>,
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
    let options = CallOptions { timeout: agent.call_timeout, progress, permission, validation };
    let arguments = Value::Object(arguments);
    // An async block, because `call` itself may panic before it returns a future.
    let call = async { agent.tools.call(&name, &arguments, options).await };
    let call = AssertUnwindSafe(call).catch_unwind();
    let outcome = match agent.call_timeout {
        Some(timeout) => tokio::time::timeout(timeout + TIMEOUT_GRACE, call).await.unwrap_or_else(|_| {
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
