//! Runs tools: logs each call, validates its arguments, and catches panics.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use futures_core::future::BoxFuture;
use serde_json::{Map, Value};
use toolwire_contract::ToolResult;
use tracing::{Instrument, Level, Span};

use crate::check::{Checker, validation_failure};
use crate::client::Client;
use crate::context::{Context, States};
use crate::declare::{EXPLICIT_ACTION, ToolFunction};
use crate::failure::Failure;
use crate::handler::Handler;
use crate::instruction::Instruction;
use crate::reply::{CompletedCall, Reply};
use crate::secret::{Secrets, redacted};
use crate::tasks::TaskSupport;
use crate::violation::Violation;

/// A tool with logging, validation and panic handling.
pub(crate) struct CheckedTool {
    pub(crate) plain_name: String,
    /// The input schema, which marks secret arguments.
    pub(crate) schema: Value,
    pub(crate) has_secrets: bool,
    pub(crate) states: Arc<States>,
    pub(crate) runner: ToolRunner,
}

pub(crate) enum ToolRunner {
    Function {
        function: Box<dyn ToolFunction>,
        checker: Checker,
        explicit: Option<&'static str>,
        task: Option<TaskSupport>,
    },
    Handler(Arc<dyn Handler>),
}

impl Handler for CheckedTool {
    fn run<'a>(&'a self, arguments: Map<String, Value>, context: &'a Context) -> BoxFuture<'a, ToolResult> {
        // The span has level ERROR so that every logged error shows its call.
        let span = tracing::error_span!(
            "tool_call",
            tool = %self.plain_name,
            request_id = %context.request,
            outcome = tracing::field::Empty,
        );
        let context = Context { states: self.states.clone(), ..context.clone() };
        let call = async move { self.run_logged(arguments, &context).await };
        Box::pin(call.instrument(span))
    }

    fn task_support(&self) -> Option<TaskSupport> {
        match &self.runner {
            ToolRunner::Function { task, .. } => *task,
            ToolRunner::Handler(handler) => handler.task_support(),
        }
    }
}

impl CheckedTool {
    async fn run_logged(&self, arguments: Map<String, Value>, context: &Context) -> ToolResult {
        let secrets = self.has_secrets.then(|| Secrets::of(&Value::Object(arguments.clone()), &self.schema));
        if tracing::enabled!(Level::TRACE) {
            let arguments = Value::Object(arguments.clone());
            tracing::trace!(arguments = %redacted(&arguments, &self.schema), "called");
        }
        let mut unfinished =
            UnfinishedCall { started: Instant::now(), is_done: false, client: &*context.client };
        let completed = match catch_panic(self.run_tool(arguments, context)).await {
            Ok(completed) => completed,
            Err(panic) => {
                let panicked = format!("panicked: {}", panic_message(&*panic));
                Failure::internal().caused_by(panicked).into()
            }
        };
        unfinished.is_done = true;
        let outcome = match &completed.failure {
            Some(failure) => failure.error_type.as_str(),
            None if completed.result.needs_input() => INPUT_REQUIRED,
            None => "success",
        };
        Span::current().record("outcome", outcome);
        if let Some(failure) = &completed.failure {
            let redact = |text: String| match &secrets {
                Some(secrets) => secrets.redact(text),
                None => text,
            };
            let error = redact(failure.error.clone());
            if failure.cause.is_set() {
                let cause = redact(failure.cause.to_string());
                tracing::error!(error_type = %failure.error_type, %error, %cause, "failed");
            } else {
                tracing::error!(error_type = %failure.error_type, %error, "failed");
            }
        }
        tracing::debug!(outcome, duration = ?unfinished.started.elapsed(), "outcome");
        tracing::trace!("completed");
        completed.result
    }

    async fn run_tool(&self, arguments: Map<String, Value>, context: &Context) -> CompletedCall {
        match &self.runner {
            ToolRunner::Handler(handler) => handler.run(arguments, context).await.complete(),
            ToolRunner::Function { function, checker, explicit, .. } => {
                let (arguments, violation) = take_consent(arguments, *explicit);
                match (violation, checker.check(arguments)) {
                    (None, Ok(arguments)) => function.run(arguments, context).await,
                    (None, Err(violations)) => validation_failure(&violations).into(),
                    (Some(violation), checked) => {
                        let others = checked.err().unwrap_or_default();
                        consent_failure(&self.plain_name, violation, others).into()
                    }
                }
            }
        }
    }
}

/// Removes `explicit_action` from the arguments. Returns the violation if it is missing or wrong.
fn take_consent(
    mut arguments: Map<String, Value>,
    explicit: Option<&str>,
) -> (Map<String, Value>, Option<Violation>) {
    let Some(action) = explicit else { return (arguments, None) };
    let problem = match arguments.shift_remove(EXPLICIT_ACTION) {
        Some(given) if given == action => return (arguments, None),
        Some(_) => "has the wrong value",
        None => "is missing",
    };
    (arguments, Some(Violation { field: EXPLICIT_ACTION.to_owned(), message: problem.to_owned() }))
}

/// Returns the failure of a call without consent. It also lists the other violations, so that they are fixed
/// before the user is asked.
fn consent_failure(tool: &str, consent: Violation, others: Vec<Violation>) -> Failure {
    let error = format!(
        "`{tool}` requires an explicit request from the user, but `{EXPLICIT_ACTION}` {}; nothing was done",
        consent.message
    );
    let violations: Vec<Violation> = others.into_iter().chain([consent]).collect();
    Failure::new("explicit_action_required", error)
        .with_instruction(Instruction::require_consent())
        .with_data("validation_errors", violations)
}

/// MCP's term for the outcome of a call that ended with questions. The client repeats it with the replies.
const INPUT_REQUIRED: &str = "input_required";

/// Logs the outcome of a call whose future was dropped, because it was cancelled or asked a question.
struct UnfinishedCall<'a> {
    started: Instant,
    is_done: bool,
    client: &'a dyn Client,
}

impl Drop for UnfinishedCall<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            let outcome = if self.client.ends_with_questions() { INPUT_REQUIRED } else { "cancelled" };
            Span::current().record("outcome", outcome);
            tracing::debug!(outcome, duration = ?self.started.elapsed(), "outcome");
        }
    }
}

/// Returns the output of the future, or the payload of its panic.
async fn catch_panic<T>(future: impl Future<Output = T>) -> Result<T, Box<dyn Any + Send>> {
    let mut future = Box::pin(future);
    // A future that panicked is not polled again. The tool is responsible for the consistency of its own
    // state.
    poll_fn(move |task| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(task))) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => std::task::Poll::Ready(Err(panic)),
    })
    .await
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
