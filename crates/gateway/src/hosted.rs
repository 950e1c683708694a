//! MCP servers that a request names in the format of OpenAI or Anthropic. Only configured servers can be named.

use std::collections::BTreeMap;

use http::StatusCode;
use serde_json::{Map, Value};
use toolwire_agent::ApprovalPolicy;
use toolwire_contract::{Tool, Toolbox};
use toolwire_dialect::{ErrorKind, Family, HostedApproval, HostedServer, ToolFilter};

use crate::response::Failure;
use crate::tools::HostedFilter;

/// The start of a URL that refers to a configured server by its name.
const OWN_SCHEME: &str = "toolwire://";

/// Returns the tools that a request selects by naming servers.
pub(crate) fn filters(
    servers: &[HostedServer],
    tools: &dyn Toolbox,
    urls: &BTreeMap<String, String>,
    family: Family,
) -> Result<Vec<HostedFilter>, Failure> {
    let listed = tools.tools();
    let has_tools = |name: &str| {
        listed.iter().any(|tool| tools.server_of(&tool.name).is_some_and(|server| server.name == name))
    };
    let missing = tools.missing_servers();
    let mut filters = Vec::new();
    for hosted in servers {
        let name = server_name(hosted, urls)?;
        if let Some(missing) = missing.iter().find(|missing| missing.server == name) {
            let failure = Failure::invalid("tools", missing.to_string());
            let status = if family == Family::Anthropic {
                StatusCode::BAD_REQUEST
            } else {
                StatusCode::FAILED_DEPENDENCY
            };
            return Err(failure.with_status(status));
        }
        if !has_tools(name) {
            return Err(Failure::invalid("tools", format!("no server named `{name}` is configured")));
        }
        filters.push(HostedFilter {
            server: name.to_owned(),
            label: hosted.label.clone(),
            allowed: hosted.allowed_tools.clone(),
            denied: hosted.denied_tools.clone(),
            read_only: hosted.read_only,
        });
    }
    Ok(filters)
}

/// Returns the name of the configured server that a request means. A URL must be that of a configured server.
fn server_name<'a>(hosted: &'a HostedServer, urls: &'a BTreeMap<String, String>) -> Result<&'a str, Failure> {
    let Some(url) = hosted.url.as_deref() else { return Ok(&hosted.label) };
    let url = url.trim_end_matches('/');
    if let Some(name) = url.strip_prefix(OWN_SCHEME) {
        return Ok(name);
    }
    let is_same = |name: &&String| urls.get(*name).is_some_and(|known| known.trim_end_matches('/') == url);
    // Several servers may have the same URL with different credentials, so a server with the client's label is preferred.
    if let Some(name) = Some(&hosted.label).filter(is_same).or_else(|| urls.keys().find(is_same)) {
        return Ok(name);
    }
    let message = format!(
        "no configured server has the URL of `{}`, and the gateway connects only to configured servers; hint: \
         configure the server, and use its URL or `{OWN_SCHEME}NAME`",
        hosted.label
    );
    Err(Failure::new(ErrorKind::Forbidden, message))
}

/// Adds the approvals that a request requires to a policy. A request can only require more approvals than the
/// configuration. If several entries select a tool, it needs approval if one of them requires it.
pub(crate) fn add_approvals(
    policy: &mut ApprovalPolicy,
    servers: &[HostedServer],
    filters: &[HostedFilter],
    tools: &dyn Toolbox,
) {
    for tool in tools.tools().iter() {
        let Some(server) = tools.server_of(&tool.name) else { continue };
        let original = tools.original_name(&tool.name).unwrap_or_else(|| tool.name.clone());
        let mut entries = servers
            .iter()
            .zip(filters)
            .filter(|(_, filter)| filter.server == server.name && filter.selects(tool, &original));
        if entries.any(|(hosted, _)| needs_approval(&hosted.approval, tool, &original)) {
            policy.ask.push(tool.name.clone());
        }
    }
}

/// Returns the tools that the model finds only by a search (`defer_loading`). If several entries select a tool, it is
/// deferred only if all of them defer it.
pub(crate) fn deferred_tools(
    servers: &[HostedServer],
    filters: &[HostedFilter],
    tools: &dyn Toolbox,
) -> Vec<String> {
    let is_deferred = |tool: &&Tool| {
        let Some(server) = tools.server_of(&tool.name) else { return false };
        let original = tools.original_name(&tool.name).unwrap_or_else(|| tool.name.clone());
        let mut entries = servers
            .iter()
            .zip(filters)
            .filter(|(_, filter)| filter.server == server.name && filter.selects(tool, &original))
            .peekable();
        let is_exception = |hosted: &HostedServer| hosted.defer_exceptions.contains(&original);
        entries.peek().is_some() && entries.all(|(hosted, _)| hosted.defer_loading != is_exception(hosted))
    };
    tools.tools().iter().filter(is_deferred).map(|tool| tool.name.clone()).collect()
}

fn needs_approval(approval: &HostedApproval, tool: &Tool, original: &str) -> bool {
    let is_in = |filter: &Option<ToolFilter>| {
        let is_named = |names: &Vec<String>| names.iter().any(|name| name == original || *name == tool.name);
        filter.as_ref().is_some_and(|filter| {
            filter.names.as_ref().is_none_or(is_named)
                && (!filter.read_only || tool.hints().read_only == Some(true))
        })
    };
    match approval {
        HostedApproval::Always => true,
        HostedApproval::Never => false,
        HostedApproval::Lists { always, never } => is_in(always) || !is_in(never),
    }
}

/// Returns the labels of the servers whose tools the history already lists.
pub(crate) fn listed_servers(body: &Map<String, Value>) -> Vec<String> {
    let items = body.get("input").and_then(Value::as_array).into_iter().flatten();
    let lists = items.filter(|item| item.get("type").and_then(Value::as_str) == Some("mcp_list_tools"));
    lists.filter_map(|item| item.get("server_label")?.as_str().map(str::to_owned)).collect()
}
