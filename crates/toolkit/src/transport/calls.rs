//! Calls of tools, and those that become tasks.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use rmcp::model::{
    CallToolRequestMethod, CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities,
    DetailedTask, ErrorCode, GetTaskResult, TASKS_EXTENSION_ID, TaskPayload,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Map, Value};
use toolwire_contract::{CallError, ToolResult};

use super::caller::{Desk, End};
use super::connection::{Bound, Connection, given_up, is_modern, panicked};
use super::tasks::{NoTask, Task, Work};
use super::veil::Veiled;
use crate::tasks::{TaskStart, TaskSupport};
use crate::wire::{self, Outgoing};

/// In the range that JSON-RPC leaves to servers.
const TOO_MANY_TASKS: ErrorCode = ErrorCode(-32000);

impl Connection {
    pub(super) async fn call(
        &self,
        request: CallToolRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if self.shared.info.capabilities.tools.is_none() {
            return Err(ErrorData::method_not_found::<CallToolRequestMethod>());
        }
        let support = self.shared.server.task_support(&request.name);
        let support = match support {
            Some(support) if knows_tasks(&context) => Some(support),
            Some(support) if support.is_required => {
                return Err(ErrorData::missing_required_client_capability(tasks_capability()));
            }
            _ => None,
        };
        let CallToolRequestParams { name, arguments, input_responses, request_state, .. } = request;
        let arguments = Veiled::of(&context).or(arguments);
        // Kept for the questions: the tool takes the arguments themselves.
        let kept = is_modern(&context).then(|| arguments.clone()).flatten();
        let bound = Bound { method: "tools/call", name: &name, arguments: kept.as_ref() };
        let Some(support) = support else {
            let context = Arc::new(context);
            let mut desk = self.desk(&context, input_responses, request_state.as_deref(), &bound)?;
            let ours = desk.context();
            let end = desk.run(self.shared.server.call(&name, arguments, &ours)).await;
            return self.answer_end(&context, &desk, &bound, end, |result| {
                concluded(&name, result, desk.lacking(), desk.is_modern())
            });
        };
        let of_request = context.clone();
        // The place among the requests stays with the request: a task may outlast it.
        context.extensions.clear();
        let context = Arc::new(context);
        let desk = self.desk(&context, input_responses, request_state.as_deref(), &bound)?.detachable();
        let work = self.work(&desk, &name, arguments);
        self.call_with_task(&of_request, desk, &bound, work, support).await
    }

    /// A call that can go on without its request.
    fn work(&self, desk: &Desk, name: &str, arguments: Option<Map<String, Value>>) -> Work {
        let (shared, caller, ours) = (self.shared.clone(), desk.caller().clone(), desk.context());
        let name = name.to_owned();
        let counted = shared.answering.token();
        Box::pin(async move {
            let _counted = counted;
            let call = shared.server.call(&name, arguments, &ours);
            let result = AssertUnwindSafe(call).catch_unwind().await.map_err(|_| panicked())?;
            let result = concluded(&name, result, caller.lacking(), true)?;
            Ok(wire::result_in_task(match result.needs_input() {
                true => {
                    ToolResult::error(format!("the tool `{name}` asks in a way that a task has no place for"))
                }
                false => result,
            }))
        })
    }

    async fn call_with_task(
        &self,
        context: &RequestContext<RoleServer>,
        mut desk: Desk,
        bound: &Bound<'_>,
        mut work: Work,
        support: TaskSupport,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut is_time = support.start == TaskStart::AtOnce;
        loop {
            if is_time {
                match self.shared.tasks.open(desk.cancelled()) {
                    Ok(task) => {
                        desk.caller().decide(Some(task.clone()));
                        self.answer(context, self.shared.tasks.created(&task));
                        self.attend(task, work);
                        return Ok(CallToolResult::default().into());
                    }
                    Err(reason) if support.is_required => {
                        desk.cancelled().cancel();
                        return Err(no_task(&reason));
                    }
                    Err(_) => desk.caller().decide(None),
                }
            }
            match desk.run(work.as_mut()).await {
                End::Detaching => is_time = true,
                End::Done(result) => {
                    self.answer(context, result?);
                    return Ok(CallToolResult::default().into());
                }
                End::Asked => {
                    self.answer(context, self.questions(&desk, bound));
                    return Ok(CallToolResult::default().into());
                }
                End::GivenUp => return Err(given_up()),
                End::Panicked => return Err(panicked()),
            }
        }
    }

    fn attend(&self, task: Arc<Task>, work: Work) {
        let shared = self.shared.clone();
        tokio::spawn(async move { shared.tasks.attend(&task, work).await });
    }

    fn answer_end(
        &self,
        context: &RequestContext<RoleServer>,
        desk: &Desk,
        bound: &Bound<'_>,
        end: End<Result<ToolResult, CallError>>,
        conclude: impl FnOnce(Result<ToolResult, CallError>) -> Result<ToolResult, ErrorData>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = bound.name;
        let result = match end {
            End::Done(result) => conclude(result)?,
            End::Asked => {
                self.answer(context, self.questions(desk, bound));
                return Ok(CallToolResult::default().into());
            }
            End::GivenUp | End::Detaching => return Err(given_up()),
            End::Panicked => {
                tracing::error!(tool = %name, "the tool panicked");
                ToolResult::error(format!("the tool `{name}` failed unexpectedly"))
            }
        };
        let typed = match wire::result_out(result) {
            Outgoing::Typed(typed) => typed,
            Outgoing::Raw(raw) => {
                self.answer(context, raw);
                CallToolResult::default()
            }
        };
        Ok(typed.into())
    }

    /// How a task is.
    pub(super) fn task(
        &self,
        id: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let task = self.shared.tasks.find(id)?;
        self.answer(context, self.shared.tasks.seen(&task));
        Ok(GetTaskResult::new(DetailedTask::new(rmcp::model::Task::default(), TaskPayload::Working)))
    }
}

/// What a call comes to, whether it is answered at once or later.
fn concluded(
    name: &str,
    result: Result<ToolResult, CallError>,
    lacking: Option<ClientCapabilities>,
    is_modern: bool,
) -> Result<ToolResult, ErrorData> {
    let result = match result {
        Ok(result) => result,
        Err(error) => wire::call_error(&error)?,
    };
    if let Some(lacking) = lacking.filter(|_| result.is_error() && is_modern) {
        return Err(ErrorData::missing_required_client_capability(lacking));
    }
    Ok(match result.needs_input() && !is_modern {
        true => ToolResult::error(format!("the tool `{name}` needs input that this client cannot give")),
        false => result,
    })
}

/// Tasks are an extension of the newer era; the tasks of 2025-11-25 were another thing.
fn knows_tasks(context: &RequestContext<RoleServer>) -> bool {
    is_modern(context) && context.client_capabilities().is_some_and(|can| can.supports_tasks())
}

fn tasks_capability() -> ClientCapabilities {
    let mut needed = ClientCapabilities::default();
    needed.extensions.get_or_insert_default().insert(TASKS_EXTENSION_ID.to_owned(), Map::new());
    needed
}

fn no_task(reason: &NoTask) -> ErrorData {
    match reason {
        NoTask::Full => ErrorData::new(TOO_MANY_TASKS, "there are too many tasks already", None),
        NoTask::NoRandomness => ErrorData::internal_error("the system gives no random bytes", None),
    }
}
