//! What every call goes through: it is logged, checked, and cannot take the server down.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use futures_core::future::BoxFuture;
use serde_json::{Map, Value};
use toolwire_contract::ToolResult;
use tracing::{Instrument, Level, Span};

use crate::check::Checker;
use crate::context::{Context, States};
use crate::declare::{EXPLICIT_ACTION, ToolFunction};
use crate::failure::Failure;
use crate::handler::Handler;
use crate::instruction::Instruction;
use crate::reply::{Answered, Reply};
use crate::secret::redacted;
use crate::tasks::TaskSupport;

/// A tool as it is called: whatever runs it, the rest is the same.
pub(crate) struct Guarded {
    pub(crate) plain_name: String,
    /// Says which arguments are secret.
    pub(crate) schema: Value,
    pub(crate) states: Arc<States>,
    pub(crate) runs: Runs,
}

pub(crate) enum Runs {
    Function {
        function: Box<dyn ToolFunction>,
        checker: Checker,
        explicit: Option<&'static str>,
        task: Option<TaskSupport>,
    },
    Handler(Arc<dyn Handler>),
}

impl Handler for Guarded {
    fn run<'a>(&'a self, arguments: Map<String, Value>, context: &'a Context) -> BoxFuture<'a, ToolResult> {
        // An error must show which call it belongs to, so the span is there at every level that shows errors.
        let span = tracing::error_span!(
            "tool_call",
            tool = %self.plain_name,
            request_id = %context.request,
            outcome = tracing::field::Empty,
        );
        let context = Context { states: self.states.clone(), ..context.clone() };
        let call = async move { self.logged(arguments, &context).await };
        Box::pin(call.instrument(span))
    }

    fn task_support(&self) -> Option<TaskSupport> {
        match &self.runs {
            Runs::Function { task, .. } => *task,
            Runs::Handler(handler) => handler.task_support(),
        }
    }
}

impl Guarded {
    async fn logged(&self, arguments: Map<String, Value>, context: &Context) -> ToolResult {
        if tracing::enabled!(Level::TRACE) {
            let arguments = Value::Object(arguments.clone());
            tracing::trace!(arguments = %redacted(&arguments, &self.schema), "called");
        }
        let mut unfinished = Unfinished { since: Instant::now(), is_done: false };
        let answered = match unpanicked(self.answered(arguments, context)).await {
            Ok(answered) => answered,
            Err(panic) => {
                let panicked = format!("panicked: {}", panic_message(&*panic));
                Failure::internal().caused_by(panicked).into()
            }
        };
        unfinished.is_done = true;
        let outcome = answered.failed.as_ref().map_or("success", |failed| failed.error_type.as_str());
        Span::current().record("outcome", outcome);
        if let Some(failed) = &answered.failed {
            if failed.cause.is_known() {
                tracing::error!(error_type = %failed.error_type, error = %failed.error, cause = %failed.cause, "failed");
            } else {
                tracing::error!(error_type = %failed.error_type, error = %failed.error, "failed");
            }
        }
        tracing::debug!(outcome, duration = ?unfinished.since.elapsed(), "outcome");
        tracing::trace!("completed");
        answered.result
    }

    async fn answered(&self, arguments: Map<String, Value>, context: &Context) -> Answered {
        match &self.runs {
            Runs::Handler(handler) => handler.run(arguments, context).await.answer(),
            Runs::Function { function, checker, explicit, .. } => {
                match admitted(arguments, *explicit, &self.plain_name)
                    .and_then(|arguments| checker.check(arguments))
                {
                    Ok(arguments) => function.run(arguments, context).await,
                    Err(failure) => failure.into(),
                }
            }
        }
    }
}

/// The arguments without the word of consent, if it is there as it must be.
fn admitted(
    mut arguments: Map<String, Value>,
    explicit: Option<&str>,
    tool: &str,
) -> Result<Map<String, Value>, Failure> {
    let Some(action) = explicit else { return Ok(arguments) };
    let problem = match arguments.shift_remove(EXPLICIT_ACTION) {
        Some(given) if given == action => return Ok(arguments),
        Some(_) => "names another action",
        None => "is missing",
    };
    let error = format!(
        "`{tool}` runs only when the user has explicitly asked for it, and `{EXPLICIT_ACTION}`, which says so, {problem}; \
         nothing was done"
    );
    Err(Failure::new("explicit_action_required", error).with_instruction(Instruction::require_consent()))
}

/// A call that ends without an answer was given up: its future was dropped.
struct Unfinished {
    since: Instant,
    is_done: bool,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_done {
            Span::current().record("outcome", "cancelled");
            tracing::debug!(outcome = "cancelled", duration = ?self.since.elapsed(), "outcome");
        }
    }
}

/// The future's output, or what it panicked with.
async fn unpanicked<T>(future: impl Future<Output = T>) -> Result<T, Box<dyn Any + Send>> {
    let mut future = Box::pin(future);
    // A future that panicked is dropped unpolled, and the tool's own state is the tool's to keep whole.
    poll_fn(move |task| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(task))) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => std::task::Poll::Ready(Err(panic)),
    })
    .await
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without words")
}
