//! The settings of the run of a request.

use std::collections::BTreeSet;
use std::sync::Arc;

use toolwire_agent::{Agent, AgentSettings, BuildError};
use toolwire_contract::keys::KeyRights;
use toolwire_contract::model::ToolChoice;
use toolwire_contract::toolbox::Toolbox;
use toolwire_contract::{Block, Content, Message, Role};
use toolwire_dialect::client::{ClientRequest, ErrorKind};

use crate::gateway::Inner;
use crate::hosted;
use crate::named_tools::suggestion;
use crate::permitted_tools::add_rules;
use crate::response::Failure;
use crate::tool_choice::{check_allowed, require_tool};
use crate::tools::{ToolSelection, add_rules_of_renamed};
/// The rules that restrict the tools of a run.
pub(super) struct ToolRules<'a> {
    /// The tools before the selection.
    pub(super) source: &'a Arc<dyn Toolbox>,
    pub(super) selection: &'a ToolSelection,
    pub(super) rights: &'a KeyRights,
}

impl Inner {
    /// Returns the settings of a run: those of the gateway, restricted and extended by the request.
    pub(super) fn run_settings(
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
        settings.check().map_err(|error| match error {
            BuildError::InvalidSchema { .. } => Failure::invalid(client.output_parameter, error.to_string()),
            _ => Failure::new(ErrorKind::InvalidRequest, error.to_string()),
        })?;
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

/// Adds the rules for tools of a request and of its key.
pub(super) fn add_tool_rules(
    settings: &mut AgentSettings,
    agent: &Agent,
    client: &ClientRequest,
    rules: &ToolRules<'_>,
) -> Result<(), Failure> {
    let ToolRules { source, selection, rights } = *rules;
    add_rules(&mut settings.approvals, &**source, rights);
    add_rules_of_renamed(&mut settings.approvals, source, selection);
    if let Some(required) = &client.required_tool {
        require_tool(settings, agent, selection, required, &**source)?;
    }
    if let Some(allowed) = &client.allowed_tools {
        check_allowed(allowed, agent, client, selection, &**source)?;
    }
    if !selection.hosted.is_empty() {
        let (servers, tools) = (&client.hosted_servers, &**agent.tools());
        hosted::add_approvals(&mut settings.approvals, servers, &selection.hosted, tools);
        settings.search.deferred = hosted::deferred_tools(servers, &selection.hosted, tools);
    }
    Ok(())
}

/// Turns thinking off if the last calls have no signed thinking. With thinking on, Anthropic's API requires
/// the signed thinking before calls, and it is lost after a restart, for example.
pub(super) fn omit_thinking(settings: &mut AgentSettings, messages: &[Arc<Message>]) {
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
