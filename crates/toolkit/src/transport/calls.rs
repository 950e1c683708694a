//! Tool calls, including those that become tasks.

use std::collections::BTreeMap;
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
use toolwire_contract::ToolResult;
use toolwire_contract::offers::OfferMethod;
use toolwire_contract::toolbox::CallError;

use super::caller::{CallEnd, RunningCall};
use super::connection::{Connection, RequestBinding, is_modern, panicked, request_cancelled};
use super::parked::{Advance, ContinuableCall, ParkingClient};
use super::redaction::OriginalArguments;
use super::request_tools::RequestTools;
use super::tasks::{Task, TaskRefusal, Work};
use crate::Context;
use crate::tasks::{TaskStart, TaskSupport};
use crate::wire::{self, Outgoing};

/// In the range that JSON-RPC reserves for servers.
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
            Some(support) if supports_tasks(&context) => Some(support),
            Some(support) if support.is_required => {
                return Err(ErrorData::missing_required_client_capability(tasks_capability()));
            }
            _ => None,
        };
        let CallToolRequestParams { name, arguments, input_responses, request_state, .. } = request;
        let arguments = OriginalArguments::of(&context).or(arguments);
        // Cloned to bind questions to the request, because the tool consumes the arguments.
        let bound_arguments = is_modern(&context).then(|| arguments.clone()).flatten();
        let client = RequestTools::client_of(&context).to_owned();
        let bound = RequestBinding {
            method: "tools/call",
            name: &name,
            arguments: bound_arguments.as_ref(),
            client: &client,
        };
        if is_modern(&context) && !self.server_for(&context).has_function(&name) {
            let context = Arc::new(context);
            return self.call_kept(&context, &bound, arguments, input_responses, request_state).await;
        }
        let Some(support) = support else {
            let context = Arc::new(context);
            let mut running = self.start_call(&context, input_responses, request_state.as_deref(), &bound)?;
            let tool_context = running.context();
            let server = self.server_for(&context);
            let end = running.run(server.call(&name, arguments, &tool_context)).await;
            return self.respond_to_end(&context, &running, &bound, end, |result| {
                final_result(&name, result, running.lacking(), running.is_modern())
            });
        };
        let of_request = context.clone();
        // The permit stays with the request, because a task may outlive it.
        context.extensions.clear();
        let context = Arc::new(context);
        let running =
            self.start_call(&context, input_responses, request_state.as_deref(), &bound)?.detachable();
        let work = self.work(&running, &name, arguments);
        self.call_with_task(&of_request, running, &bound, work, support).await
    }

    /// Calls a tool of a toolbox. While its client answers questions, the call waits.
    async fn call_kept(
        &self,
        context: &Arc<RequestContext<RoleServer>>,
        bound: &RequestBinding<'_>,
        arguments: Option<Map<String, Value>>,
        replies: Option<BTreeMap<String, Value>>,
        state: Option<String>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = bound.name;
        // Its rounds stay empty: the questions are those of the kept call.
        let mut running = self.start_call(context, None, None, bound)?;
        let mut call = match state {
            Some(state) => {
                let (caller, bytes) = (running.caller().clone(), bound.to_bytes());
                let replies = replies.unwrap_or_default();
                let resumed =
                    self.shared.parked.resume(&state, replies, caller, &bytes, &self.shared.signature);
                resumed.map_err(|_| {
                    let message =
                        "`requestState` was not issued by this server for this request, or has expired";
                    ErrorData::invalid_params(message, None)
                })?
            }
            None => {
                let server = self.server_for(context).into_owned();
                let (tool, request) = (name.to_owned(), context.id.to_string());
                let cancelled = running.cancelled();
                let timeout = self.shared.server.offers.reply_timeout;
                ContinuableCall::new(running.caller().clone(), timeout, |client| {
                    Box::pin(async move {
                        let context = Context::new(request, client, cancelled);
                        server.call(&tool, arguments, &context).await
                    })
                })
            }
        };
        let end = match running.run(call.advance()).await {
            CallEnd::Done(Advance::Done(result)) => CallEnd::Done(result),
            CallEnd::Done(Advance::Asks(questions)) => {
                let bytes = bound.to_bytes();
                let owner = ParkingClient {
                    id: bound.client,
                    max_calls: RequestTools::of(context).and_then(|tools| tools.max_waiting_calls),
                };
                let parked = self.shared.parked.park(call, questions, &bytes, owner, &self.shared.signature);
                let result = parked.map_err(|full| ErrorData::internal_error(full.to_string(), None))?;
                self.respond(context, result);
                return Ok(CallToolResult::default().into());
            }
            CallEnd::InputRequired | CallEnd::Detaching | CallEnd::Cancelled => CallEnd::Cancelled,
            CallEnd::Panicked => CallEnd::Panicked,
        };
        self.respond_to_end(context, &running, bound, end, |result| {
            self.seal_task(bound.client, final_result(name, result, running.lacking(), true)?)
        })
    }

    /// Returns a call that can continue without its request.
    fn work(&self, running: &RunningCall, name: &str, arguments: Option<Map<String, Value>>) -> Work {
        let (shared, caller, tool_context) =
            (self.shared.clone(), running.caller().clone(), running.context());
        let name = name.to_owned();
        let counted = shared.running_calls.token();
        Box::pin(async move {
            let _counted = counted;
            let call = shared.server.call(&name, arguments, &tool_context);
            let result = AssertUnwindSafe(call).catch_unwind().await.map_err(|_| panicked())?;
            let result = final_result(&name, result, caller.lacking(), true)?;
            Ok(wire::result_in_task(match result.needs_input() {
                true => ToolResult::error(format!(
                    "the tool `{name}` requests input in a way that tasks do not support"
                )),
                false => result,
            }))
        })
    }

    async fn call_with_task(
        &self,
        context: &RequestContext<RoleServer>,
        mut running: RunningCall,
        bound: &RequestBinding<'_>,
        mut work: Work,
        support: TaskSupport,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut is_time = support.start == TaskStart::AtOnce;
        loop {
            if is_time {
                match self.shared.tasks.open(running.cancelled()) {
                    Ok(task) => {
                        running.caller().decide(Some(task.clone()));
                        self.respond(context, self.shared.tasks.creation_response(&task));
                        self.spawn_task(task, work);
                        return Ok(CallToolResult::default().into());
                    }
                    Err(reason) if support.is_required => {
                        running.cancelled().cancel();
                        return Err(task_refused(&reason));
                    }
                    Err(_) => running.caller().decide(None),
                }
            }
            match running.run(work.as_mut()).await {
                CallEnd::Detaching => is_time = true,
                CallEnd::Done(result) => {
                    self.respond(context, result?);
                    return Ok(CallToolResult::default().into());
                }
                CallEnd::InputRequired => {
                    self.respond(context, self.input_required(&running, bound));
                    return Ok(CallToolResult::default().into());
                }
                CallEnd::Cancelled => return Err(request_cancelled()),
                CallEnd::Panicked => return Err(panicked()),
            }
        }
    }

    fn spawn_task(&self, task: Arc<Task>, work: Work) {
        let shared = self.shared.clone();
        tokio::spawn(async move { shared.tasks.run(&task, work).await });
    }

    fn respond_to_end(
        &self,
        context: &RequestContext<RoleServer>,
        running: &RunningCall,
        bound: &RequestBinding<'_>,
        end: CallEnd<Result<ToolResult, CallError>>,
        conclude: impl FnOnce(Result<ToolResult, CallError>) -> Result<ToolResult, ErrorData>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = bound.name;
        let result = match end {
            CallEnd::Done(result) => conclude(result)?,
            CallEnd::InputRequired => {
                self.respond(context, self.input_required(running, bound));
                return Ok(CallToolResult::default().into());
            }
            CallEnd::Cancelled | CallEnd::Detaching => return Err(request_cancelled()),
            CallEnd::Panicked => {
                tracing::error!(tool = %name, "the tool panicked");
                ToolResult::error(format!("the tool `{name}` failed unexpectedly"))
            }
        };
        let typed = match wire::result_out(result) {
            Outgoing::Typed(typed) => typed,
            Outgoing::Raw(raw) => {
                self.respond(context, raw);
                CallToolResult::default()
            }
        };
        Ok(typed.into())
    }

    /// Responds with the status of a task.
    pub(super) async fn task(
        &self,
        id: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let status = match self.shared.tasks.find(id) {
            Ok(task) => self.shared.tasks.status(&task),
            Err(_) => self.request_foreign_task(OfferMethod::GetTask, id, Map::new(), context).await?,
        };
        self.respond(context, status);
        Ok(GetTaskResult::new(DetailedTask::new(rmcp::model::Task::default(), TaskPayload::Working)))
    }
}

/// Returns the final result of a call, for a response or for a task.
fn final_result(
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
        true => ToolResult::error(format!("the tool `{name}` needs input that this client cannot provide")),
        false => result,
    })
}

/// Tasks are an extension of MCP 2026-07-28; the tasks of 2025-11-25 are different.
fn supports_tasks(context: &RequestContext<RoleServer>) -> bool {
    is_modern(context) && context.client_capabilities().is_some_and(|can| can.supports_tasks())
}

fn tasks_capability() -> ClientCapabilities {
    let mut needed = ClientCapabilities::default();
    needed.extensions.get_or_insert_default().insert(TASKS_EXTENSION_ID.to_owned(), Map::new());
    needed
}

fn task_refused(reason: &TaskRefusal) -> ErrorData {
    match reason {
        TaskRefusal::Full => ErrorData::new(TOO_MANY_TASKS, "too many tasks", None),
        TaskRefusal::NoRandomness => ErrorData::internal_error("the system provides no random bytes", None),
    }
}
