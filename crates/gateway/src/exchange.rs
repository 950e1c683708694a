//! One response: drives the run, and turns its events into those of the client's API.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures::StreamExt;
use serde_json::{Map, Value};
use tokio::time::Instant;
use toolwire_agent::{Agent, AgentEvent, Ending, FinishedRun, PendingCall, Run, RunLimit, RunStream};
use toolwire_contract::{Message, StopReason, Tool, ToolCall, ToolChoice, ToolResult, Usage};
use toolwire_dialect::{ClientError, ClientEvent, ErrorKind, Family, ServerCall};

use crate::hidden_rounds::HiddenRounds;
use crate::ids::random_id;
use crate::keys::Principal;
use crate::paused_runs::{PausedCall, PausedRun, PausedRuns};
use crate::response::run_error;

/// Everything that a response needs besides its run.
pub(crate) struct ExchangeContext {
    pub(crate) family: Family,
    pub(crate) principal: Principal,
    pub(crate) hidden: Arc<HiddenRounds>,
    pub(crate) paused: Arc<PausedRuns>,
    pub(crate) deadline: Instant,
}

/// One response in progress. Dropping it cancels the request to the model and all calls.
pub(crate) struct Exchange {
    agent: Agent,
    run: Option<RunStream>,
    /// Events that were read and not yet returned.
    ready: VecDeque<ClientEvent>,
    context: ExchangeContext,
    /// The messages of this response, complete.
    messages: Vec<Arc<Message>>,
    /// The arguments of running calls, by id.
    arguments: HashMap<String, Map<String, Value>>,
    /// Calls that the client has approved.
    approved: Vec<PausedCall>,
    /// The usage before the run was continued.
    usage: Usage,
    /// Whether a tool of a server was called, so that the request must not be repeated.
    has_called: bool,
    /// Whether the model was asked for a final response after a limit was reached.
    is_last_request: bool,
}

impl Exchange {
    pub(crate) fn new(agent: Agent, run: Run, context: ExchangeContext) -> Exchange {
        Exchange {
            run: Some(agent.drive(run)),
            agent,
            ready: VecDeque::new(),
            context,
            messages: Vec::new(),
            arguments: HashMap::new(),
            approved: Vec::new(),
            usage: Usage::default(),
            has_called: false,
            is_last_request: false,
        }
    }

    /// Lists the tools of these servers for the client.
    pub(crate) fn with_tool_lists(mut self, servers: impl IntoIterator<Item = String>) -> Exchange {
        let tools = self.agent.tools();
        for server in servers {
            let is_of_server =
                |tool: &&Tool| tools.server_of(&tool.name).is_some_and(|found| found.name == server);
            let original = |tool: &Tool| Tool {
                name: tools.original_name(&tool.name).unwrap_or_else(|| tool.name.clone()),
                ..tool.clone()
            };
            let listed: Vec<Tool> = tools.tools().iter().filter(is_of_server).map(original).collect();
            self.ready.push_back(ClientEvent::ServerTools { server, tools: listed.into() });
        }
        self
    }

    pub(crate) fn with_approvals(mut self, approved: Vec<PausedCall>) -> Exchange {
        self.approved = approved;
        self
    }

    /// Whether a tool of a server was called.
    pub(crate) fn has_called(&self) -> bool {
        self.has_called
    }

    /// Returns the next event; the last one is `Done` or `Failed`. It is safe to drop the future.
    pub(crate) async fn next(&mut self) -> Option<ClientEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let run = self.run.as_mut()?;
            match tokio::time::timeout_at(self.context.deadline, run.next()).await {
                Ok(Some(event)) => self.read(event),
                Ok(None) => {
                    self.fail(ClientError::new(ErrorKind::Internal, "the run ended without an outcome"))
                }
                Err(_) => self.fail(ClientError::new(ErrorKind::TimedOut, "the response took too long")),
            }
        }
    }

    fn read(&mut self, event: AgentEvent) {
        match event {
            AgentEvent::Text(text) => self.ready.push_back(ClientEvent::Text(text)),
            AgentEvent::Thinking(text) => self.ready.push_back(ClientEvent::Thinking(text)),
            AgentEvent::StepStarted { step } if step > 1 || self.is_last_request => {
                self.ready.push_back(ClientEvent::RoundFinished);
            }
            AgentEvent::MessageAdded(message) => self.messages.push(message),
            AgentEvent::CallStarted { id, arguments, .. } => {
                self.has_called = true;
                self.arguments.insert(id, arguments);
            }
            AgentEvent::CallFinished { id, name, result, .. } => self.show_call(&id, &name, result),
            AgentEvent::Done(finished) => self.finish(*finished),
            _ => {}
        }
    }

    fn finish(&mut self, finished: FinishedRun) {
        self.run = None;
        let FinishedRun { outcome, run } = finished;
        self.usage = self.usage.plus(&outcome.usage);
        let stop = outcome.stop.clone().unwrap_or(StopReason::End);
        match outcome.ending {
            Ending::Finished => self.done(stop),
            Ending::NeedsResults(calls) => self.hand_over(calls),
            Ending::NeedsApproval(calls) => self.ask_for_approval(&calls, run),
            Ending::Stopped(RunLimit::Steps | RunLimit::Tokens) if !self.is_last_request => {
                self.ask_once_more(run)
            }
            Ending::Stopped(RunLimit::Output | RunLimit::Steps | RunLimit::Tokens) => {
                self.done(StopReason::Length)
            }
            Ending::Stopped(limit) => self.fail(ClientError::new(ErrorKind::Unreachable, limit.to_string())),
            Ending::Failed(failure) => self.fail(run_error(&failure)),
            other => {
                tracing::debug!(?other, "unexpected end of a run");
                self.fail(ClientError::new(ErrorKind::Internal, "the run was cancelled"));
            }
        }
    }

    /// After a limit is reached, every call has a result that says so. Asks for a response without tools, so that the client
    /// does not get half a conversation.
    fn ask_once_more(&mut self, run: Run) {
        let mut settings = run.settings().clone();
        (settings.max_steps, settings.token_budget) = (1, None);
        settings.tool_choice = ToolChoice::None;
        let limits = self.agent.model().limits();
        let run = Run::resume(settings, run.messages().to_vec(), self.agent.tools().tools(), limits);
        if run.is_done() {
            return self.done(StopReason::Length);
        }
        self.is_last_request = true;
        self.run = Some(self.agent.drive(run));
    }

    /// Shows a call of a server's tool, with its result.
    fn show_call(&mut self, id: &str, name: &str, result: ToolResult) {
        // Tools of the agent itself, such as the search, belong to no server.
        let Some(server) = self.agent.tools().server_of(name) else { return };
        let approval = self.approved.iter().find(|call| call.call_id == id);
        self.ready.push_back(ClientEvent::ServerCall(ServerCall {
            server: server.name,
            name: self.agent.tools().original_name(name).unwrap_or_else(|| name.to_owned()),
            arguments: self.arguments.remove(id).unwrap_or_default(),
            result,
            approval_id: approval.map(|call| call.request_id.clone()),
        }));
    }

    /// Ends the response with calls for the client, and stores what it does not see.
    fn hand_over(&mut self, calls: Vec<(String, ToolCall)>) {
        let Some(ids) = self.show_client_calls(calls) else { return };
        self.context.hidden.store(&self.context.principal, std::mem::take(&mut self.messages), ids);
        self.done(StopReason::Calls);
    }

    /// Shows calls of the client's tools. Returns the id that it is sent and the original one, for each; `None` if the response
    /// has failed.
    fn show_client_calls(&mut self, calls: Vec<(String, ToolCall)>) -> Option<Vec<(String, String)>> {
        let prefix = if self.context.family == Family::Anthropic { "toolu_" } else { "call_" };
        let mut ids = Vec::new();
        for (original, call) in calls {
            let id = self.new_id(prefix)?;
            ids.push((id.clone(), original));
            let arguments = call.arguments.unwrap_or_default();
            self.ready.push_back(ClientEvent::Call { id, name: call.name, arguments });
        }
        Some(ids)
    }

    fn new_id(&mut self, prefix: &str) -> Option<String> {
        let id = random_id(prefix);
        if let Err(error) = &id {
            self.fail(ClientError::new(ErrorKind::Internal, error.to_string()));
        }
        id.ok()
    }

    /// Ends the response with requests for approval, and stores the run until the client decides.
    fn ask_for_approval(&mut self, calls: &[PendingCall], run: Run) {
        let listed = self.agent.tools().tools();
        let mut approvals = Vec::new();
        for call in calls {
            let Some(request_id) = self.new_id("mcpr_") else { return };
            let server =
                self.agent.tools().server_of(&call.name).map(|server| server.name).unwrap_or_default();
            let name = self.agent.tools().original_name(&call.name).unwrap_or_else(|| call.name.clone());
            self.ready.push_back(ClientEvent::ApprovalRequest {
                id: request_id.clone(),
                server,
                name,
                arguments: call.arguments.clone(),
            });
            let tool = listed.iter().find(|tool| tool.name == call.name).cloned();
            approvals.push(PausedCall { request_id, call_id: call.id.clone(), tool });
        }
        let Some(client_calls) = self.show_client_calls(run.external_calls()) else { return };
        self.context.paused.store(PausedRun {
            principal: self.context.principal.clone(),
            agent: self.agent.clone(),
            run,
            approvals,
            client_calls,
            paused_at: std::time::Instant::now(),
        });
        self.done(StopReason::End);
    }

    fn done(&mut self, stop: StopReason) {
        let usage = (self.usage != Usage::default()).then_some(self.usage);
        self.ready.push_back(ClientEvent::Done { stop, usage });
    }

    fn fail(&mut self, error: ClientError) {
        self.run = None;
        self.ready.push_back(ClientEvent::Failed(error));
    }
}
