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

use crate::check::{Checker, refused};
use crate::client::Client;
use crate::context::{Context, States};
use crate::declare::{EXPLICIT_ACTION, ToolFunction};
use crate::failure::Failure;
use crate::handler::Handler;
use crate::instruction::Instruction;
use crate::reply::{Answered, Reply};
use crate::secret::{Secrets, redacted};
use crate::tasks::TaskSupport;
use crate::violation::Violation;

/// A tool as it is called: whatever runs it, the rest is the same.
pub(crate) struct Guarded {
    pub(crate) plain_name: String,
    /// Says which arguments are secret.
    pub(crate) schema: Value,
    pub(crate) has_secrets: bool,
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
        let secrets = self.has_secrets.then(|| Secrets::of(&Value::Object(arguments.clone()), &self.schema));
        if tracing::enabled!(Level::TRACE) {
            let arguments = Value::Object(arguments.clone());
            tracing::trace!(arguments = %redacted(&arguments, &self.schema), "called");
        }
        let mut unfinished = Unfinished { since: Instant::now(), is_done: false, client: &*context.client };
        let answered = match unpanicked(self.answered(arguments, context)).await {
            Ok(answered) => answered,
            Err(panic) => {
                let panicked = format!("panicked: {}", panic_message(&*panic));
                Failure::internal().caused_by(panicked).into()
            }
        };
        unfinished.is_done = true;
        let outcome = match &answered.failed {
            Some(failed) => failed.error_type.as_str(),
            None if answered.result.needs_input() => INPUT_REQUIRED,
            None => "success",
        };
        Span::current().record("outcome", outcome);
        if let Some(failed) = &answered.failed {
            let said = |text: String| match &secrets {
                Some(secrets) => secrets.hide(text),
                None => text,
            };
            let error = said(failed.error.clone());
            if failed.cause.is_known() {
                let cause = said(failed.cause.to_string());
                tracing::error!(error_type = %failed.error_type, %error, %cause, "failed");
            } else {
                tracing::error!(error_type = %failed.error_type, %error, "failed");
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
                let (arguments, refusal) = admitted(arguments, *explicit);
                match (refusal, checker.check(arguments)) {
                    (None, Ok(arguments)) => function.run(arguments, context).await,
                    (None, Err(violations)) => refused(&violations).into(),
                    (Some(violation), checked) => {
                        let others = checked.err().unwrap_or_default();
                        without_consent(&self.plain_name, violation, others).into()
                    }
                }
            }
        }
    }
}

/// The arguments without the word of consent, and what is wrong with that.
fn admitted(
    mut arguments: Map<String, Value>,
    explicit: Option<&str>,
) -> (Map<String, Value>, Option<Violation>) {
    let Some(action) = explicit else { return (arguments, None) };
    let problem = match arguments.shift_remove(EXPLICIT_ACTION) {
        Some(given) if given == action => return (arguments, None),
        Some(_) => "names another action",
        None => "is missing",
    };
    (arguments, Some(Violation { field: EXPLICIT_ACTION.to_owned(), message: problem.to_owned() }))
}

/// The failure of a call without consent. What else is wrong is said too, so that it is mended before the user is asked.
fn without_consent(tool: &str, consent: Violation, others: Vec<Violation>) -> Failure {
    let error = format!(
        "`{tool}` runs only when the user has explicitly asked for it, and `{EXPLICIT_ACTION}`, which says so, {}; \
         nothing was done",
        consent.message
    );
    let violations: Vec<Violation> = others.into_iter().chain([consent]).collect();
    Failure::new("explicit_action_required", error)
        .with_instruction(Instruction::require_consent())
        .with_data("validation_errors", violations)
}

/// The outcome of a call that the client makes again with answers, in MCP's word.
const INPUT_REQUIRED: &str = "input_required";

/// A call that ends without an answer: its future was dropped, as it was given up or asked something.
struct Unfinished<'a> {
    since: Instant,
    is_done: bool,
    client: &'a dyn Client,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            let outcome = if self.client.ends_with_questions() { INPUT_REQUIRED } else { "cancelled" };
            Span::current().record("outcome", outcome);
            tracing::debug!(outcome, duration = ?self.since.elapsed(), "outcome");
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
