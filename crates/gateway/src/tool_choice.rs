//! A request's choice of tools, if it names tools of servers.

use std::sync::Arc;

use toolwire_agent::{Agent, AgentSettings};
use toolwire_contract::Tool;
use toolwire_contract::model::ToolChoice;
use toolwire_contract::toolbox::Toolbox;
use toolwire_dialect::client::{ClientRequest, ToolReference};

use crate::named_tools::{known_servers, suggestion};
use crate::response::Failure;
use crate::tools::ToolSelection;

/// Requires a call of a server's tool. If the choice names only the server, the client's tools are not
/// offered.
pub(crate) fn require_tool(
    settings: &mut AgentSettings,
    agent: &Agent,
    selection: &ToolSelection,
    required: &ToolReference,
    source: &dyn Toolbox,
) -> Result<(), Failure> {
    let tool = find_tool(agent, selection, required).ok_or_else(|| {
        let tools = settings.client_tools.iter().map(|tool| tool.name.as_str());
        unknown_tool(source, selection, required, tools.collect())
    })?;
    match required.name {
        Some(_) => settings.tool_choice = ToolChoice::Tool(tool),
        None => settings.client_tools = Arc::default(),
    }
    Ok(())
}

/// Checks that the tools in `allowed_tools` exist.
pub(crate) fn check_allowed(
    allowed: &[ToolReference],
    agent: &Agent,
    client: &ClientRequest,
    selection: &ToolSelection,
    source: &dyn Toolbox,
) -> Result<(), Failure> {
    let is_of_client = |reference: &ToolReference| {
        let mut names =
            client.request.tools.iter().map(|tool| tool.name.as_str()).chain(client.provider_tools());
        reference.server.is_none() && names.any(|name| Some(name) == reference.name.as_deref())
    };
    let is_unknown = |reference: &&ToolReference| {
        !is_of_client(reference) && find_tool(agent, selection, reference).is_none()
    };
    let Some(unknown) = allowed.iter().find(is_unknown) else { return Ok(()) };
    let of_client = client.request.tools.iter().map(|tool| tool.name.as_str()).chain(client.provider_tools());
    Err(unknown_tool(source, selection, unknown, of_client.collect()))
}

/// Returns the name of the first tool of a server that matches a choice.
fn find_tool(agent: &Agent, selection: &ToolSelection, reference: &ToolReference) -> Option<String> {
    let tools = agent.tools();
    let server = reference.server.as_deref().map(|label| selection.server_of(label));
    let is_meant = |tool: &&Tool| {
        let is_of_server =
            server.is_none_or(|server| tools.server_of(&tool.name).is_some_and(|found| found.name == server));
        let is_named = reference
            .name
            .as_ref()
            .is_none_or(|name| *name == tool.name || tools.original_name(&tool.name).as_ref() == Some(name));
        is_of_server && is_named
    };
    tools.tools().iter().find(is_meant).map(|tool| tool.name.clone())
}

/// Creates the error for a choice of a tool that does not exist. It suggests tools of the same server, or,
/// without a server, of all servers and of the client. `tools` are those that the caller may use.
fn unknown_tool(
    tools: &dyn Toolbox,
    selection: &ToolSelection,
    reference: &ToolReference,
    of_client: Vec<&str>,
) -> Failure {
    let name = reference.name.as_deref().unwrap_or_default();
    let message = match (&reference.server, &reference.name) {
        (Some(server), Some(_)) => {
            let own = selection.server_of(server);
            let is_own = |tool: &&Tool| tools.server_of(&tool.name).is_some_and(|found| found.name == own);
            let original = |tool: &Tool| tools.original_name(&tool.name).unwrap_or_else(|| tool.name.clone());
            let names: Vec<String> = tools.tools().iter().filter(is_own).map(original).collect();
            let hint = suggestion(name, names.iter().map(String::as_str));
            format!("the server `{server}` has no tool named `{name}`{hint}")
        }
        (Some(server), None) => {
            let labels = selection.hosted.iter().map(|filter| filter.label.clone());
            let names: Vec<String> = labels.chain(known_servers(tools, [])).collect();
            let hint = suggestion(server, names.iter().map(String::as_str));
            format!("there is no server `{server}` with tools{hint}")
        }
        (None, _) => {
            let own = tools.tools();
            let hint = suggestion(name, own.iter().map(|tool| tool.name.as_str()).chain(of_client));
            format!("there is no tool named `{name}`{hint}")
        }
    };
    Failure::invalid("tool_choice", message)
}
