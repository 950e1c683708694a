//! Starts the run of a request.

use std::sync::Arc;

use toolwire_agent::Agent;
use toolwire_agent::run::Run;
use toolwire_contract::model::ToolChoice;
use toolwire_dialect::Family;

use super::history::{History, complete_end};
use super::settings::{ToolRules, add_tool_rules, omit_thinking};
use crate::exchange::{Exchange, ExchangeContext};
use crate::fixed_tools::FixedTools;
use crate::gateway::{Caller, Inner};
use crate::hosted::NamedServers;
use crate::paused_runs::apply_decisions;
use crate::prepare::Prepared;
use crate::response::Failure;
use crate::state::{ClaimedPause, Continuation, GateSender, Resumed};
use crate::traffic::RunRecorder;

/// How a request uses stored responses.
pub(crate) struct StoredParts {
    /// The id of the response, if it will be stored.
    pub(crate) response_id: Option<String>,
    /// The response that the request continues.
    pub(crate) continuation: Option<Continuation>,
    /// The paused run, if the client has decided about its calls.
    pub(crate) pause: Option<ClaimedPause>,
    /// The gate for the calls of a response in the background.
    pub(crate) gate: Option<GateSender>,
    /// The progress of a response that another gateway has begun.
    pub(crate) resumed: Option<Resumed>,
}

impl Inner {
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
        context.output_parameter = client.output_parameter;
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
        let selection = options.selection;
        let agent = match &tools {
            // Not cached: the tools of servers that a request names by URL are for this request only.
            Some(tools) => self.new_agent(&served, &selection, tools)?,
            None => self.agent(&context.principal, &served, selection.clone())?,
        };
        let agent = self.with_call_checks(agent, &context, &request_id, !filters.is_empty(), gate);
        if let Some((pause, messages)) = pause {
            let paused = pause.resume(messages, agent, tools.is_some(), &client)?;
            return Ok(Exchange::resume(apply_decisions(paused, &client), context));
        }
        let mut settings = self.run_settings(&agent, &client, options.max_steps)?;
        let source = tools.unwrap_or_else(|| self.tools_for(&context.principal));
        let rights = context.principal.tool_rights().cloned().unwrap_or_default();
        let rules = ToolRules { source: &source, selection: &selection, rights: &rights };
        add_tool_rules(&mut settings, &agent, &client, &rules)?;
        settings.verbatim = client.request.verbatim.take();
        if client.required_tool.as_ref().is_some_and(|required| required.name.is_none())
            && let Some(verbatim) = &mut settings.verbatim
        {
            // Only the tools of one server are offered.
            Arc::make_mut(verbatim).provider_tools.clear();
        }
        let own_items = settings.verbatim.as_mut().map(Arc::make_mut);
        let read = client.request.messages;
        let mut history = self.history(&context.principal, read, continuation, own_items);
        if let Some(messages) = resumed.as_ref().and_then(|resumed| resumed.history.clone()) {
            history = History { messages, has_hidden: true };
        }
        context.has_hidden_history = history.has_hidden;
        let mut messages = history.messages;
        let has_instructions = client.request.instructions.is_some();
        complete_end(&mut messages, family, has_instructions, settings.verbatim.is_some())?;
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

    /// Adds the steps before each call to an agent's tools: the definition is compared with the one that was
    /// approved, the call is logged, and it waits at the gate.
    fn with_call_checks(
        &self,
        agent: Agent,
        context: &ExchangeContext,
        request_id: &str,
        names_servers: bool,
        gate: Option<GateSender>,
    ) -> Agent {
        // The client, or the rules of its key, decide about the tools that are listed now, so tools that are
        // listed later are not used.
        let asks = context.principal.tool_rights().is_some_and(|rights| !rights.ask.is_empty());
        let agent = match names_servers || asks {
            true => agent.with_tools(Arc::new(FixedTools::new(agent.tools().clone()))),
            false => agent,
        };
        let agent = match self.attributed(agent.tools(), &context.principal, request_id) {
            Some(attributed) => agent.with_tools(attributed),
            None => agent,
        };
        match gate {
            Some(gate) => agent.with_tools(gate.guard(agent.tools().clone())),
            None => agent,
        }
    }

    fn context(&self, family: Family, caller: Caller) -> ExchangeContext {
        if let Some(meter) = &caller.meter {
            meter.begin_run();
        }
        ExchangeContext {
            family,
            principal: caller.principal,
            returns_call_ids: true,
            output_parameter: "",
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
}
