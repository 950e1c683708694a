//! Makes the calls of one step: at the same time, up to a bound, each with exactly one result.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt, stream};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;
use toolwire_contract::{CallError, CallOptions, CallPermission, Progress, ToolCall, ToolResult};

use super::Driver;
use crate::agent::World;
use crate::event::AgentEvent;

/// How much longer than the toolbox we wait: its own word on being late says more than ours.
const GRACE: Duration = Duration::from_secs(1);

struct Returned {
    id: String,
    name: String,
    result: ToolResult,
    elapsed: Duration,
}

impl Driver {
    /// A result is kept as soon as it is known, whatever the other calls do.
    pub(super) async fn call(&mut self, calls: Vec<(String, ToolCall)>) {
        let (world, events, cancelled) = (self.world.clone(), self.events.clone(), self.cancelled.clone());
        let parallel = world.parallel;
        let making: Vec<_> = calls
            .into_iter()
            .map(|(id, call)| {
                let permits = self.run.permits(&call.name);
                make(world.clone(), events.clone(), id, call, permits)
            })
            .collect();
        let mut returning = stream::iter(making).buffer_unordered(parallel).ready_chunks(parallel);
        loop {
            let returned = tokio::select! {
                biased;
                () = cancelled.cancelled() => return self.run.cancel(),
                returned = returning.next() => returned,
            };
            let Some(returned) = returned else { return };
            let results = returned.iter().map(|one| (one.id.clone(), one.result.clone()));
            self.run.tools_returned(results);
            for Returned { id, name, result, elapsed } in returned {
                self.tell(AgentEvent::CallFinished { id, name, result, elapsed: Some(elapsed) }).await;
            }
            self.keep().await;
            if self.run.is_done() {
                return;
            }
        }
    }
}

async fn make(
    world: Arc<World>,
    events: mpsc::Sender<AgentEvent>,
    id: String,
    call: ToolCall,
    permits: Option<Arc<CallPermission>>,
) -> Returned {
    let ToolCall { name, arguments, validation, .. } = call;
    let arguments = arguments.unwrap_or_default();
    let started =
        AgentEvent::CallStarted { id: id.clone(), name: name.clone(), arguments: arguments.clone() };
    // Nobody listening is nobody to tell.
    let _ = events.send(started).await;
    let began = Instant::now();
    let progress = Some(listener(events, id.clone()));
    let options = CallOptions { timeout: world.call_timeout, progress, permission: permits, validation };
    let arguments = Value::Object(arguments);
    // In a future of its own, as making the call may panic before there is a future.
    let calling = async { world.tools.call(&name, &arguments, options).await };
    let calling = AssertUnwindSafe(calling).catch_unwind();
    let answer = match world.call_timeout {
        Some(limit) => tokio::time::timeout(limit + GRACE, calling).await.unwrap_or_else(|_| {
            Ok(Err(CallError::TimedOut {
                server: "the toolbox".to_owned(),
                tool: name.clone(),
                after: limit,
            }))
        }),
        None => calling.await,
    };
    let result = match answer {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => error.to_result(),
        Err(panic) => ToolResult::error(format!(
            "`{name}` broke down: {}. Whether it did its work is not known",
            reason(&*panic).unwrap_or("its code panicked")
        )),
    };
    Returned { id, name, result, elapsed: began.elapsed() }
}

/// Progress is told if there is room for it: it must not hold up the call.
fn listener(events: mpsc::Sender<AgentEvent>, id: String) -> Arc<dyn Fn(Progress) + Send + Sync> {
    Arc::new(move |progress| {
        let _ = events.try_send(AgentEvent::CallProgress { id: id.clone(), progress });
    })
}

fn reason(panic: &(dyn std::any::Any + Send)) -> Option<&str> {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}
