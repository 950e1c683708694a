//! Handles a request to a model: forwards it, or runs the tool loop.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::BoxFuture;
use http::HeaderMap;
use http::header::HeaderValue;
use tokio::time::Instant;
use toolwire_agent::run::Run;
use toolwire_agent::{Agent, AgentSettings};
use toolwire_contract::model::ToolChoice;
use toolwire_contract::{Block, Content, Message, Role};
use toolwire_dialect::Family;
use toolwire_dialect::client::{ClientRequest, ErrorKind, ResponseWriter};

use crate::exchange::{Exchange, ExchangeContext};
use crate::fixed_tools::FixedTools;
use crate::gateway::{Caller, Inner};
use crate::hidden_rounds::{complete_results, provider_data};
use crate::hosted::{self, NamedServers};
use crate::items::ClientItems;
use crate::large_bodies::is_large;
use crate::named_tools::suggestion;
use crate::paused_runs::{apply_decisions, missing_decision};
use crate::permitted_tools::add_rules;
use crate::prepare::Prepared;
use crate::request_body::RequestBody;
use crate::response::{DROPPED, Failure, HttpResponse, UNAVAILABLE};
use crate::response_in_progress::ResponseInProgress;
use crate::state::{
    BackgroundResponse, CallGate, ClaimedPause, Continuation, GateSender, Purpose, Resumed, SavedRequest,
    record_forwarded,
};
use crate::tool_choice::{check_allowed, require_tool};
use crate::tools::add_rules_of_renamed;
use crate::traffic::RunRecorder;

/// The user's message of a request that has only instructions. OpenAI accepts such a request, and other APIs
/// need a message.
const ONLY_INSTRUCTIONS: &str = "(the conversation begins with your message)";

/// How a request uses stored responses.
pub(crate) struct StoredParts {
    /// The id of the response, if it will be stored.
    pub(crate) response_id: Option<String>,
    /// The response that the request continues.
    pub(crate) continuation: Option<Continuation>,
    /// The run whose calls the client has decided about.
    pub(crate) pause: Option<ClaimedPause>,
    /// The gate for the calls of a response in the background.
    pub(crate) gate: Option<GateSender>,
    /// The progress of a response that another gateway has begun.
    pub(crate) resumed: Option<Resumed>,
}

/// How a request is handled.
enum Plan {
    /// The provider gets it.
    Forward(BoxFuture<'static, Result<HttpResponse, Failure>>),
    /// The gateway runs it.
    Run(Box<Prepared>),
}

impl Inner {
    /// Handles a request to a model.
    pub(crate) async fn complete(
        self: &Arc<Inner>,
        family: Family,
        mut caller: Caller,
        headers: &HeaderMap,
        body: RequestBody,
    ) -> Result<HttpResponse, Failure> {
        let recording = self.recording(family, &caller.principal, &body)?;
        let is_background = self.is_background(family, &body, recording.as_ref())?;
        if is_background {
            caller.deadline = Instant::now() + self.settings.limits.background_timeout;
            caller.client_deadline = None;
        }
        let (body, mut continuation) = match family {
            Family::OpenAiResponses => {
                self.continue_conversation(&caller.principal, body, Purpose::Respond).await?
            }
            _ => (body, None),
        };
        let recording = match &mut continuation {
            Some(continuation) => recording.map(|recording| recording.continuing(continuation)),
            None => recording,
        };
        let (body, saved) = match is_background {
            true => {
                let body = RequestBody::read(body.without("background"))?;
                let saved = SavedRequest::new(&caller.request_id, headers, &body);
                (body, saved.filter(|_| !caller.principal.has_credentials()))
            }
            false => (body, None),
        };
        // The provider does not know the ids of items that the gateway has written.
        let may_forward =
            !is_background && continuation.as_ref().is_none_or(|continuation| !continuation.has_own_items);
        let (caller, plan) = match is_large(body.len()) {
            false => {
                let plan = self.plan(family, &caller, headers, &body, may_forward);
                (caller, plan)
            }
            true => {
                let (inner, headers) = (self.clone(), headers.clone());
                let read = move || {
                    let plan = inner.plan(family, &caller, &headers, &body, may_forward);
                    (caller, plan)
                };
                self.large_bodies.run(read).await?
            }
        };
        let plan = match &continuation {
            Some(continuation) => plan.map_err(|failure| continuation.own_positions_in(failure)),
            None => plan,
        };
        let mut prepared = match plan? {
            Plan::Forward(forward) => {
                let response = forward.await?;
                return Ok(match recording {
                    Some(recording) => record_forwarded(response, recording).await,
                    None => response,
                });
            }
            Plan::Run(prepared) => *prepared,
        };
        if let Some(continuation) = &continuation {
            for approval in &mut prepared.client.approvals {
                approval.parameter = continuation.own_position(&approval.parameter);
            }
        }
        if let Some(open) = &prepared.client.open_approval {
            let parameter = match &continuation {
                Some(continuation) => continuation.own_position(&open.parameter),
                None => open.parameter.clone(),
            };
            return Err(missing_decision(&open.request_id, &parameter));
        }
        prepared.head.request_id.clone_from(&caller.request_id);
        if let Some(continuation) = &continuation {
            let (key, value) = continuation.echo();
            prepared.head.echo.insert(key.to_owned(), value);
        }
        prepared.head.is_background = is_background;
        if let Some(recording) = &recording {
            prepared.head.echo.insert("store".to_owned(), recording.stores_response.into());
        }
        let decisions = &prepared.client.approvals;
        let pause = match decisions.is_empty() && continuation.is_none() {
            true => None,
            false => self.claim_pause(&caller.principal, decisions, continuation.as_ref()).await?,
        };
        // Decisions apply once, so no other gateway can continue after them.
        let saved = saved.filter(|_| prepared.client.approvals.is_empty());
        self.connect_servers(family, &caller, &mut prepared).await?;
        let dropped = bounded_list(&prepared.dropped);
        let is_stream = prepared.client.stream;
        let writer = ResponseWriter::new(family, prepared.head.clone()).ok_or_else(|| {
            Failure::new(ErrorKind::Internal, "the gateway writes no responses of this API")
        })?;
        let items = prepared
            .stores_items
            .then(|| ClientItems { items: self.items.clone(), principal: caller.principal.clone() });
        let request_id = caller.request_id.clone();
        let (gate, calls) = match is_background {
            true => Some(CallGate::new()).unzip(),
            false => (None, None),
        };
        let response_id = recording.as_ref().map(|_| prepared.head.id.clone());
        let stored = StoredParts { response_id, continuation, pause, gate, resumed: None };
        let (principal, hold, id) = (caller.principal.clone(), caller.hold.clone(), prepared.head.id.clone());
        let exchange = self.start(family, caller, prepared, stored)?;
        let unavailable = bounded_list(&exchange.unavailable_servers());
        let heartbeat = self.settings.limits.heartbeat;
        let mut response = match (calls, recording) {
            (Some(gate), Some(recording)) => {
                let (recording, request) = (recording.of_gateway(), saved);
                let parts = BackgroundResponse {
                    exchange,
                    writer,
                    id,
                    recording,
                    items,
                    gate,
                    hold,
                    request,
                    is_stream,
                };
                self.begin_background(&principal, parts).await?
            }
            (_, recording) => {
                let response =
                    ResponseInProgress::new(exchange, writer, heartbeat, request_id, items, recording);
                match is_stream {
                    true => response.stream().await?,
                    false => response.whole(family).await?,
                }
            }
        };
        let of_response = response.headers().get(DROPPED).and_then(|names| names.to_str().ok());
        let dropped = [Some(&*dropped).filter(|names| !names.is_empty()), of_response];
        let dropped = dropped.into_iter().flatten().collect::<Vec<_>>().join(", ");
        for (name, list) in [(DROPPED, dropped), (UNAVAILABLE, unavailable)] {
            if let Ok(value) = HeaderValue::from_str(&list)
                && !value.is_empty()
            {
                response.headers_mut().insert(name, value);
            }
        }
        Ok(response)
    }

    /// Waits for the servers of a request, and connects those that it names.
    pub(crate) async fn connect_servers(
        &self,
        family: Family,
        caller: &Caller,
        prepared: &mut Prepared,
    ) -> Result<(), Failure> {
        self.wait_for_servers(caller, &prepared.client, &prepared.options.selection).await;
        prepared.named =
            self.name_servers(family, caller, &prepared.client, &prepared.options.selection).await?;
        let servers = &prepared.client.hosted_servers;
        self.check_selection(&caller.principal, &prepared.options, servers, &prepared.named)?;
        prepared.dropped.append(&mut prepared.named.ignored);
        Ok(())
    }

    /// Reads a request, and decides how it is handled. `may_forward`: whether the provider may get it unchanged.
    fn plan(
        &self,
        family: Family,
        caller: &Caller,
        headers: &HeaderMap,
        body: &RequestBody,
        may_forward: bool,
    ) -> Result<Plan, Failure> {
        self.check_provider_state(&caller.principal, body)?;
        let forward = match may_forward {
            true => self.forward_unchanged(family, caller, headers, body)?,
            false => None,
        };
        Ok(match forward {
            Some(forward) => Plan::Forward(forward),
            None => Plan::Run(Box::new(self.prepare(family, &caller.principal, headers, body)?)),
        })
    }

    /// Starts the run of a request.
    pub(crate) fn start(
        &self,
        family: Family,
        caller: Caller,
        prepared: Prepared,
        stored: StoredParts,
    ) -> Result<Exchange, Failure> {
        let Prepared { mut client, mut options, served, listed_servers, named, .. } = prepared;
        let request_id = caller.request_id.clone();
        let mut context = self.context(family, caller);
        // Calls of `functions` have no ids.
        context.returns_call_ids = !client.has_functions;
        let StoredParts { response_id, continuation, pause, gate, resumed } = stored;
        context.response_id = response_id;
        context.records = gate.is_some().then(Vec::new);
        let (claim, pause) = pause.map(ClaimedPause::into_parts).unzip();
        context.claim = claim;
        let pause = pause.flatten();
        if !client.approvals.is_empty() && pause.is_none() {
            let resumed = self.paused.resume(&context.principal, &client)?;
            return Ok(Exchange::resume(resumed, context));
        }
        let NamedServers { filters, tools, unavailable, .. } = named;
        options.selection.hosted.clone_from(&filters);
        let selection = options.selection.clone();
        let agent = match &tools {
            // Not cached: the tools of servers that a request names by URL are for this request only.
            Some(tools) => self.new_agent(&served, &selection, tools)?,
            None => self.agent(&context.principal, &served, options.selection)?,
        };
        let rights = context.principal.tool_rights().cloned().unwrap_or_default();
        // The client, or the rules of its key, decide about the tools that are listed now, so later ones are
        // not used.
        let agent = match filters.is_empty() && rights.ask.is_empty() {
            true => agent,
            false => agent.with_tools(Arc::new(FixedTools::new(agent.tools().clone()))),
        };
        let agent = match self.attributed(agent.tools(), &context.principal, &request_id) {
            Some(attributed) => agent.with_tools(attributed),
            None => agent,
        };
        let agent = match gate {
            Some(gate) => agent.with_tools(gate.guard(agent.tools().clone())),
            None => agent,
        };
        if let Some((pause, messages)) = pause {
            let paused = pause.resume(messages, agent, tools.is_some(), &client)?;
            return Ok(Exchange::resume(apply_decisions(paused, &client), context));
        }
        let mut settings = self.run_settings(&agent, &client, options.max_steps)?;
        let source = tools.unwrap_or_else(|| self.tools_for(&context.principal));
        add_rules(&mut settings.approvals, &*source, &rights);
        add_rules_of_renamed(&mut settings.approvals, &source, &selection);
        if let Some(required) = &client.required_tool {
            require_tool(&mut settings, &agent, &selection, required, &*source)?;
        }
        if let Some(allowed) = &client.allowed_tools {
            check_allowed(allowed, &agent, &client, &selection, &*source)?;
        }
        if !filters.is_empty() {
            hosted::add_approvals(
                &mut settings.approvals,
                &client.hosted_servers,
                &filters,
                &**agent.tools(),
            );
            settings.search.deferred =
                hosted::deferred_tools(&client.hosted_servers, &filters, &**agent.tools());
        }
        let mut verbatim = client.request.verbatim.take();
        if client.required_tool.as_ref().is_some_and(|required| required.name.is_none())
            && let Some(verbatim) = &mut verbatim
        {
            // Only the tools of one server are offered.
            Arc::make_mut(verbatim).provider_tools.clear();
        }
        let own_items = verbatim.as_mut().map(Arc::make_mut);
        let read = client.request.messages;
        let (earlier, new) = match continuation {
            Some(continuation) => continuation.split(read),
            None => (None, read),
        };
        let restored = self.hidden.restore(&context.principal, new.clone(), own_items);
        let is_complete = restored.len() == new.len()
            && restored.iter().zip(&new).all(|(restored, read)| Arc::ptr_eq(restored, read));
        context.has_hidden_history = earlier.is_some() || !is_complete;
        let mut messages = match earlier {
            Some(earlier) => complete_results(earlier.into_iter().chain(restored).collect()),
            None => restored,
        };
        if let Some(history) = resumed.as_ref().and_then(|resumed| resumed.history.clone()) {
            context.has_hidden_history = true;
            messages = history;
        }
        if messages.is_empty() && client.request.instructions.is_some() {
            messages.push(Arc::new(Message::user(ONLY_INSTRUCTIONS)));
        }
        settings.verbatim = verbatim;
        let parameter = if family == Family::OpenAiResponses { "input" } else { "messages" };
        match messages.last() {
            Some(last) if last.role == Role::User => {}
            Some(last)
                if family == Family::Anthropic && may_be_paused(last) && settings.verbatim.is_some() => {}
            Some(_) => {
                let message = "the last message must be a user message; hint: an assistant message can be continued only \
                               if the model's provider has this API and no tools are added (`x-toolwire-servers: none`)";
                return Err(Failure::invalid(parameter, message));
            }
            None => return Err(Failure::invalid(parameter, "the request has no message to respond to")),
        }
        if served.dialect.is_some_and(|dialect| dialect.family() == Family::Anthropic) {
            omit_thinking(&mut settings, &messages);
        }
        let (tools, limits) = (agent.tools().tools(), agent.model().limits());
        let exchange = match resumed {
            None => {
                let mut run = Run::resume(settings, messages.iter().cloned(), tools, limits);
                run.continue_response();
                Exchange::new(agent, run, messages, context)
            }
            Some(Resumed { messages: later, started, usage, .. }) => {
                if !later.is_empty() && settings.tool_choice != ToolChoice::None {
                    // The choice applies to the first request only.
                    settings.tool_choice = ToolChoice::Auto;
                }
                let all = messages.iter().chain(&later).cloned();
                let run = Run::resume_with_started(settings, all, tools, limits, &started);
                Exchange::new(agent, run, messages, context).continuing(later, usage)
            }
        };
        Ok(exchange.with_servers(filters, &listed_servers, unavailable))
    }

    fn context(&self, family: Family, caller: Caller) -> ExchangeContext {
        if let Some(meter) = &caller.meter {
            meter.begin_run();
        }
        ExchangeContext {
            family,
            principal: caller.principal,
            returns_call_ids: true,
            hidden: self.hidden.clone(),
            paused: self.paused.clone(),
            deadline: caller.deadline,
            client_deadline: caller.client_deadline,
            meter: caller.meter,
            span: caller.span,
            recorder: caller.recorder.map(|recorder| RunRecorder::new(recorder, self.all_tools.clone())),
            response_id: None,
            has_hidden_history: false,
            claim: None,
            records: None,
        }
    }

    /// Returns the settings of a run: those of the gateway, restricted and extended by the request.
    fn run_settings(
        &self,
        agent: &Agent,
        client: &ClientRequest,
        max_steps: Option<u32>,
    ) -> Result<AgentSettings, Failure> {
        let request = &client.request;
        let mut settings = self.settings.agent.clone();
        settings.max_steps = max_steps.map_or(settings.max_steps, |steps| steps.min(settings.max_steps));
        let limits = &self.settings.limits;
        let max_calls = client.max_tool_calls.map_or(limits.calls, |calls| calls.min(limits.calls));
        settings.max_calls = settings.max_calls.min(max_calls);
        settings.max_calls_per_step = settings.max_calls_per_step.min(limits.calls_per_step);
        // Clients repeat failed requests, and an empty response is valid.
        settings.max_empty_responses = 1;
        let servers = hosted::descriptions(&client.hosted_servers);
        let parts = [settings.instructions, request.instructions.clone(), servers];
        settings.instructions = parts.into_iter().flatten().reduce(|one, other| format!("{one}\n\n{other}"));
        settings.max_output_tokens = request.max_output_tokens.or(settings.max_output_tokens);
        settings.temperature = request.temperature.or(settings.temperature);
        settings.generation = request.generation.clone();
        settings.client_tools = request.tools.clone();
        settings.output = request.output.clone();
        settings.check().map_err(|error| Failure::new(ErrorKind::InvalidRequest, error.to_string()))?;
        settings.tool_choice = request.tool_choice.clone();
        if let ToolChoice::Tool(name) = &request.tool_choice
            && client.provider_tools().all(|tool| tool != name)
        {
            let own = agent.tools().tools();
            let names: BTreeSet<&str> =
                request.tools.iter().chain(own.iter()).map(|tool| tool.name.as_str()).collect();
            if !names.contains(name.as_str()) {
                let choice = if client.has_functions { "function_call" } else { "tool_choice" };
                let hint = suggestion(name, names);
                return Err(Failure::invalid(choice, format!("there is no tool named `{name}`{hint}")));
            }
        }
        Ok(settings)
    }
}

/// Whether a message at the end may be one that the provider has paused: it has calls that the provider has
/// made itself.
fn may_be_paused(message: &Message) -> bool {
    message.content.iter().any(|block| provider_data(block, Family::Anthropic).is_some())
}

/// Turns thinking off if the last calls have no signed thinking. With thinking on, Anthropic's API requires
/// the signed thinking before calls, and it is lost after a restart, for example.
fn omit_thinking(settings: &mut AgentSettings, messages: &[Arc<Message>]) {
    let generation = &mut settings.generation;
    let mut responses = messages.iter().rev().filter(|message| message.role == Role::Assistant);
    let continues = messages.last().is_some_and(|last| last.results().next().is_some());
    let Some(response) = responses.next().filter(|_| continues && generation.thinking_tokens.is_some())
    else {
        return;
    };
    let is_signed = |block: &Block| match block {
        Block::Content(Content::Other(other)) => other["type"] == "thinking" && other.get("_meta").is_some(),
        _ => false,
    };
    if !response.content.iter().any(is_signed) {
        generation.thinking_tokens = None;
        if let Some(others) = &mut generation.family_fields {
            others.fields.shift_remove("thinking");
        }
        if let Some(verbatim) = &mut settings.verbatim {
            Arc::make_mut(verbatim).fields.retain(|(name, _)| name != "thinking");
        }
    }
}

/// Joins names that a client sent, up to a length that fits into a header. Characters that a header cannot
/// have are replaced.
pub(crate) fn bounded_list(names: &[String]) -> String {
    const MAX_BYTES: usize = 1024;
    let mut list = String::new();
    let in_header = |character: char| if character.is_ascii_graphic() { character } else { '?' };
    for (index, name) in names.iter().enumerate() {
        if list.len() + name.len() > MAX_BYTES {
            let others = format!("and {} more", names.len() - index);
            return if list.is_empty() { others } else { format!("{list}, {others}") };
        }
        if !list.is_empty() {
            list.push_str(", ");
        }
        list.extend(name.chars().map(in_header));
    }
    list
}
