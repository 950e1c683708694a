//! One response: drives the run, and turns its events into those of the client's API.

mod approvals;
mod errors;
mod servers;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use futures::StreamExt;
use serde_json::{Map, Value};
use tokio::time::Instant;
use toolwire_agent::run::Run;
use toolwire_agent::{Agent, AgentEvent, Ending, FinishedRun, RunLimit, RunStream};
use toolwire_contract::model::{StopReason, ToolChoice, Usage};
use toolwire_contract::{Message, Role, ToolCall};
use toolwire_dialect::Family;
use toolwire_dialect::client::{ClientError, ClientEvent, ErrorKind};
use toolwire_dialect::response::custom_call_input;
use toolwire_page::traffic::RequestOutcome;

use crate::hidden_rounds::{HiddenRounds, ShownId, has_hidden_parts, shown_parts};
use crate::ids::random_id;
use crate::meter::Meter;
use crate::paused_runs::PausedRuns;
use crate::principal::Principal;
use crate::response::model_error;
use crate::spans::{OpenSpan, traced};
use crate::state::{HeldClaim, KeptMessages, RunRecord};
use crate::traffic::RunRecorder;
use approvals::Continued;

/// Everything that a response needs besides its run.
pub(crate) struct ExchangeContext {
    pub(crate) family: Family,
    pub(crate) principal: Principal,
    /// The path of the response format in the request; empty if the request has none.
    pub(crate) output_parameter: &'static str,
    /// Whether the client sends the ids of its calls back, so that hidden messages are found by them.
    pub(crate) returns_call_ids: bool,
    pub(crate) hidden: Arc<HiddenRounds>,
    pub(crate) paused: Arc<PausedRuns>,
    pub(crate) deadline: Instant,
    /// The end of the client's timeout, if the request states one.
    pub(crate) client_deadline: Option<Instant>,
    /// Counts the request, if its key has limits.
    pub(crate) meter: Option<Meter>,
    /// The record of the request, if there is one.
    pub(crate) recorder: Option<RunRecorder>,
    /// The span of the request in a distributed trace.
    pub(crate) span: Option<OpenSpan>,
    /// The id of the response, if it will be stored.
    pub(crate) response_id: Option<String>,
    /// Whether the messages before the response contain more than the client's items.
    pub(crate) has_hidden_history: bool,
    /// The right to continue a stored run.
    pub(crate) claim: Option<HeldClaim>,
    /// The steps of the run that are not in the log yet; `None` if the response has no log.
    pub(crate) records: Option<Vec<RunRecord>>,
}

/// One response in progress. Dropping it cancels the request to the model and all calls.
pub(crate) struct Exchange {
    agent: Agent,
    run: Option<RunStream>,
    /// Events that are ready but not yet returned.
    ready: VecDeque<ClientEvent>,
    context: ExchangeContext,
    /// The client's labels for servers.
    labels: BTreeMap<String, String>,
    /// The labels of servers that the request names and that are unavailable.
    unavailable: Vec<String>,
    /// Whether the tools of the agent are only for this run.
    owns_tools: bool,
    /// The messages before this response.
    history: Vec<Arc<Message>>,
    /// The messages of this response, complete.
    messages: Vec<Arc<Message>>,
    /// The arguments of running calls, by id.
    arguments: HashMap<String, Map<String, Value>>,
    /// The ids of the calls that were started since the last response of the model.
    started: HashSet<String>,
    /// The requests for approval that this request decides, until the client has received the response;
    /// `None` for other requests.
    continued: Option<Continued>,
    /// The messages to store with the response, if its items do not contain everything.
    kept: Option<KeptMessages>,
    /// The usage of this response.
    usage: Usage,
    /// The part of it that another gateway has counted.
    counted_usage: Usage,
    /// The usage of the current run since its last message of the user.
    run_usage: Usage,
    /// The usage of the run before it was continued.
    earlier_usage: Usage,
    /// Whether a tool of a server was called, so that the request must not be repeated.
    has_called: bool,
    /// Whether the client has got a part of the response.
    has_begun: bool,
    /// Whether the model was asked for a final response after a limit was reached.
    is_last_request: bool,
}

impl Exchange {
    /// Starts a response to the messages of a run.
    pub(crate) fn new(
        agent: Agent,
        run: Run,
        history: Vec<Arc<Message>>,
        context: ExchangeContext,
    ) -> Exchange {
        let mut exchange = Exchange::without_run(agent, history, context);
        exchange.earlier_usage = run.usage();
        exchange.run = Some(exchange.agent.drive(run));
        exchange
    }

    fn without_run(agent: Agent, history: Vec<Arc<Message>>, context: ExchangeContext) -> Exchange {
        let agent = match &context.span {
            Some(span) => traced(&agent, span),
            None => agent,
        };
        Exchange {
            earlier_usage: Usage::default(),
            run: None,
            agent,
            ready: VecDeque::new(),
            context,
            labels: BTreeMap::new(),
            unavailable: Vec::new(),
            owns_tools: false,
            history,
            messages: Vec::new(),
            arguments: HashMap::new(),
            started: HashSet::new(),
            continued: None,
            kept: None,
            usage: Usage::default(),
            counted_usage: Usage::default(),
            run_usage: Usage::default(),
            has_called: false,
            has_begun: false,
            is_last_request: false,
        }
    }

    /// Continues a response that another gateway has begun.
    #[must_use]
    pub(crate) fn continuing(self, messages: Vec<Arc<Message>>, usage: Usage) -> Exchange {
        let mut exchange = self;
        (exchange.usage, exchange.counted_usage) = (usage, usage);
        exchange.messages = messages;
        exchange
    }

    /// Returns the messages before the response, if they contain more than the client's items.
    pub(crate) fn hidden_history(&self) -> Option<Vec<Arc<Message>>> {
        self.context.has_hidden_history.then(|| self.history.clone())
    }

    /// Reads everything that the run has emitted, without letting it advance.
    pub(crate) fn read_emitted(&mut self) {
        let emitted = self.run.as_mut().map(RunStream::take_emitted).unwrap_or_default();
        emitted.into_iter().for_each(|event| self.read(event));
    }

    /// Returns the next event that was already read.
    pub(crate) fn take_ready(&mut self) -> Option<ClientEvent> {
        self.ready.pop_front()
    }

    /// Returns the steps of the run since the last call.
    pub(crate) fn take_records(&mut self) -> Vec<RunRecord> {
        self.context.records.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Ends the record of a request whose response continues in the background.
    pub(crate) fn end_record(&self, error: Option<&str>) {
        if let Some(recorder) = &self.context.recorder {
            let outcome = if error.is_some() { RequestOutcome::UpstreamError } else { RequestOutcome::Ok };
            recorder.end(outcome, error);
        }
    }

    /// Whether a tool of a server was called.
    pub(crate) fn has_called(&self) -> bool {
        self.has_called
    }

    /// Records that a part of the response is sent to the client.
    pub(crate) fn begin(&mut self) {
        self.has_begun = true;
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
        if let Some(recorder) = &mut self.context.recorder {
            recorder.observe(&event);
        }
        if let Some(continued) = &mut self.continued {
            continued.advance(self.context.claim.take());
        }
        self.record(&event);
        match event {
            AgentEvent::Text(text) => self.emit(ClientEvent::Text(text)),
            AgentEvent::Refusal(text) => self.emit(ClientEvent::Refusal(text)),
            AgentEvent::TextPart => self.emit(ClientEvent::TextPart),
            AgentEvent::Citation(citation) => self.emit(ClientEvent::Citation(citation)),
            AgentEvent::Media(content) => self.emit(ClientEvent::Media(content)),
            AgentEvent::ProviderPart(part) => self.emit(ClientEvent::ProviderPart(part)),
            AgentEvent::Details(details) => self.emit(ClientEvent::Details(details)),
            AgentEvent::Usage { total, .. } => {
                self.run_usage = total;
                if let Some(meter) = &self.context.meter {
                    let usage = self.usage.plus(&total.since(&self.earlier_usage));
                    meter.record(&usage.since(&self.counted_usage));
                }
            }
            AgentEvent::Thinking(text) => self.emit(ClientEvent::Thinking(text)),
            AgentEvent::StepStarted { step } => {
                self.started.clear();
                if step > 1 || self.is_last_request {
                    self.emit(ClientEvent::RoundFinished);
                }
            }
            AgentEvent::MessageAdded(message) => {
                if let Some(continued) = self.continued.as_mut().filter(|_| message.role == Role::Assistant) {
                    continued.model_responded();
                }
                self.messages.push(message);
            }
            AgentEvent::CallStarted { id, arguments, .. } => {
                self.has_called = true;
                self.started.insert(id.clone());
                self.arguments.insert(id, arguments);
            }
            AgentEvent::CallFinished { id, name, result, .. } => self.show_call(&id, &name, result),
            // The client would time out before the retry. Once a part of the response was sent, heartbeats
            // prevent that, but before the first message, a late response is still useless.
            AgentEvent::Retrying { after, error, .. }
                if (self.messages.is_empty() || !self.has_begun)
                    && self.context.client_deadline.is_some_and(|end| Instant::now() + after >= end) =>
            {
                self.fail(model_error(&error));
            }
            AgentEvent::Done(finished) => self.finish(*finished),
            _ => {}
        }
    }

    /// Records a step that another gateway needs to continue the run.
    fn record(&mut self, event: &AgentEvent) {
        let Some(records) = &mut self.context.records else { return };
        match event {
            AgentEvent::MessageAdded(message) => records.push(RunRecord::Message(message.clone())),
            AgentEvent::CallStarted { id, .. } => records.push(RunRecord::Started(id.clone())),
            AgentEvent::Usage { total, .. } => {
                records.push(RunRecord::Usage(self.usage.plus(&total.since(&self.earlier_usage))));
            }
            _ => {}
        }
    }

    fn finish(&mut self, finished: FinishedRun) {
        self.run = None;
        let FinishedRun { outcome, run } = finished;
        self.usage = self.usage.plus(&run.usage().since(&self.earlier_usage));
        (self.earlier_usage, self.run_usage) = (Usage::default(), Usage::default());
        let stop = outcome.stop.clone().unwrap_or(StopReason::End);
        match outcome.ending {
            Ending::Finished => self.done(stop),
            Ending::NeedsResults(calls) => self.end_with_client_calls(calls),
            Ending::NeedsApproval(calls) => self.ask_for_approval(&calls, run),
            // The client can send the response back, so that the model continues it.
            Ending::Stopped(_) if stop == StopReason::Paused && run.settings().output.is_text() => {
                self.done(stop);
            }
            Ending::Stopped(RunLimit::Steps | RunLimit::Tokens) if !self.is_last_request => {
                self.ask_once_more(run)
            }
            Ending::Stopped(RunLimit::Output) => self.done(StopReason::Length),
            // An empty response is valid, but not in a required format.
            Ending::Stopped(limit) if !run.settings().output.is_text() => self.fail_without_output(limit),
            Ending::Stopped(RunLimit::EmptyResponses) => self.done(stop),
            Ending::Stopped(_) => self.done(StopReason::Length),
            Ending::Failed(failure) => self.fail_run(&failure),
            other => {
                tracing::debug!(?other, "unexpected end of a run");
                self.fail(ClientError::new(ErrorKind::Internal, "the run was cancelled"));
            }
        }
    }

    /// Asks for a final response without tools after a limit is reached, so that the client gets an answer
    /// instead of unfinished calls. Every call already has a result that states the limit.
    fn ask_once_more(&mut self, run: Run) {
        let mut settings = run.settings().clone();
        (settings.max_steps, settings.token_budget) = (1, None);
        settings.tool_choice = ToolChoice::None;
        let limits = self.agent.model().limits();
        let requires_output = !settings.output.is_text();
        let run = Run::resume(settings, run.messages().to_vec(), self.agent.tools().tools(), limits);
        if run.is_done() {
            return match requires_output {
                true => self.fail_without_output(RunLimit::Tokens),
                false => self.done(StopReason::Length),
            };
        }
        self.is_last_request = true;
        self.run = Some(self.agent.drive(run));
    }

    fn emit(&mut self, event: ClientEvent) {
        if let Some(continued) = &mut self.continued {
            continued.record(&event);
        }
        self.ready.push_back(event);
    }

    /// Ends the response with calls for the client, and stores the messages that the client does not see.
    fn end_with_client_calls(&mut self, calls: Vec<(String, ToolCall)>) {
        let Some((ids, events)) = self.client_call_events(calls) else { return };
        self.keep_messages(ids.clone());
        events.into_iter().for_each(|event| self.emit(event));
        if self.context.returns_call_ids {
            // After an approval, the messages begin with those before it. Calls in them already have their
            // results.
            let parts = shown_parts(&self.messages, self.context.family).collect::<Vec<_>>();
            let ids = ids.into_iter().chain(self.earlier_client_calls()).chain(parts).collect();
            self.context.hidden.store(&self.context.principal, std::mem::take(&mut self.messages), ids);
        }
        self.done(StopReason::Calls);
    }

    /// Returns for each call of the client's tools the id that the client gets and the original id, and the
    /// events that show the calls; `None` if the response has failed.
    fn client_call_events(
        &mut self,
        calls: Vec<(String, ToolCall)>,
    ) -> Option<(Vec<ShownId>, Vec<ClientEvent>)> {
        let prefix = if self.context.family == Family::Anthropic { "toolu_" } else { "call_" };
        let (mut ids, mut events) = (Vec::new(), Vec::new());
        for (original, call) in calls {
            let id = self.new_id(prefix)?;
            ids.push((id.clone(), Some(original)));
            events.push(match custom_call_input(&call).map(str::to_owned) {
                Some(input) => ClientEvent::CustomCall { id, name: call.name, input },
                None => {
                    ClientEvent::Call { id, name: call.name, arguments: call.arguments.unwrap_or_default() }
                }
            });
        }
        Some((ids, events))
    }

    fn new_id(&mut self, prefix: &str) -> Option<String> {
        let id = random_id(prefix);
        if let Err(error) = &id {
            self.fail(ClientError::new(ErrorKind::Internal, error.to_string()));
        }
        id.ok()
    }

    /// Keeps the messages of the conversation until the response is stored. `calls` are those that the client
    /// runs.
    fn keep_messages(&mut self, client_calls: Vec<ShownId>) {
        let has_hidden = || {
            self.context.has_hidden_history || !client_calls.is_empty() || has_hidden_parts(&self.messages)
        };
        if self.context.response_id.is_some() && self.kept.is_none() && has_hidden() {
            let messages = self.history.iter().chain(&self.messages).cloned().collect();
            self.kept = Some(KeptMessages { messages, client_calls, pause: None });
        }
    }

    /// Returns the messages to store with the response.
    pub(crate) fn take_kept(&mut self) -> Option<KeptMessages> {
        self.kept.take()
    }

    fn done(&mut self, stop: StopReason) {
        self.keep_messages(Vec::new());
        let messages = std::mem::take(&mut self.messages);
        if has_hidden_parts(&messages) {
            let parts = shown_parts(&messages, self.context.family).collect::<Vec<_>>();
            if !parts.is_empty() {
                let ids = parts.into_iter().chain(self.earlier_client_calls()).collect();
                self.context.hidden.store(&self.context.principal, messages, ids);
            }
        }
        let usage = (self.usage != Usage::default()).then_some(self.usage);
        self.emit(ClientEvent::Done { stop, usage });
        if let Some(continued) = &mut self.continued {
            continued.is_complete = true;
        }
    }
}
