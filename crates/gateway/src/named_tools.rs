//! Checks the names of servers and tools that a request selects. A name that nothing has is an error, because
//! the request would otherwise silently run with other tools than its client expects.
//!
//! The errors suggest only names that the caller may use: a name that exists, but that its key may not use,
//! is treated as one that does not exist.

use std::collections::BTreeSet;

use toolwire_contract::text::nearest_names;
use toolwire_contract::toolbox::Toolbox;
use toolwire_dialect::client::HostedServer;

use crate::gateway::Inner;
use crate::hosted::NamedServers;
use crate::principal::Principal;
use crate::request_options::RequestOptions;
use crate::response::Failure;
use crate::tools::{HostedFilter, ToolSelection};

/// The characters with which a name is a pattern.
const WILDCARDS: [char; 2] = ['*', '?'];

/// The word that selects nothing.
const NONE: &str = "none";

/// Suggests similar names, as the end of an error message.
pub(crate) fn suggestion<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    let nearest: Vec<String> =
        nearest_names(name, known).into_iter().map(|name| format!("`{name}`")).collect();
    match nearest.is_empty() {
        true => String::new(),
        false => format!("; hint: did you mean {}?", nearest.join(" or ")),
    }
}

/// Returns the names of the servers that a caller may use: those with tools, the unavailable ones, and those
/// with a URL.
pub(crate) fn known_servers<'a>(
    tools: &dyn Toolbox,
    urls: impl IntoIterator<Item = &'a String>,
) -> BTreeSet<String> {
    let listed = tools.tools();
    let owners = listed.iter().filter_map(|tool| tools.server_of(&tool.name));
    let mut names: BTreeSet<String> = owners.map(|server| server.name).collect();
    names.extend(tools.missing_servers().into_iter().map(|missing| missing.server));
    names.extend(urls.into_iter().cloned());
    names
}

impl Inner {
    /// Checks the names in the options of a request whose servers are connected.
    pub(crate) fn check_selection(
        &self,
        principal: &Principal,
        options: &RequestOptions,
        servers: &[HostedServer],
        named: &NamedServers,
    ) -> Result<(), Failure> {
        let ToolSelection { servers: selected_servers, tools: selected_tools, .. } = &options.selection;
        if (selected_servers.is_none() && selected_tools.is_none()) || options.selection.is_none() {
            return Ok(());
        }
        let configured = self.tools_for(principal);
        if let Some(patterns) = selected_servers {
            let mut known = known_servers(&*configured, self.server_urls(principal).keys());
            known.extend(servers.iter().map(|hosted| hosted.label.clone()));
            check(&options.servers_parameter, "server", patterns, &known)?;
        }
        let Some(patterns) = selected_tools else { return Ok(()) };
        let missing = configured.missing_servers();
        let is_incomplete = named.is_incomplete
            || missing.iter().any(|missing| options.selection.includes_server(&missing.server));
        // The tools of an unavailable server are not known.
        if is_incomplete {
            return Ok(());
        }
        let tools = named.tools.as_ref().unwrap_or(&configured).tools();
        let known: BTreeSet<String> = tools.iter().map(|tool| tool.name.clone()).collect();
        check(&options.tools_parameter, "tool", patterns, &known)
    }
}

fn check(parameter: &str, kind: &str, patterns: &[String], known: &BTreeSet<String>) -> Result<(), Failure> {
    let is_unknown = |pattern: &&String| {
        !pattern.contains(WILDCARDS) && pattern.as_str() != NONE && !known.contains(pattern.as_str())
    };
    let Some(name) = patterns.iter().find(is_unknown) else { return Ok(()) };
    let hint = suggestion(name, known.iter().map(String::as_str));
    Err(Failure::invalid(
        parameter,
        format!("`{parameter}` names the {kind} `{name}`, which does not exist{hint}"),
    ))
}

/// Checks the tools that a request names for a server. Returns the places of those that do not exist and that
/// the client's API ignores, without indexes.
pub(crate) fn check_named_tools(
    hosted: &HostedServer,
    filter: &HostedFilter,
    tools: &dyn Toolbox,
) -> Result<Vec<String>, Failure> {
    if hosted.named_tools.is_empty() {
        return Ok(Vec::new());
    }
    let listed = tools.tools();
    let is_of_server = |name: &str| tools.server_of(name).is_some_and(|server| server.name == filter.server);
    let own = listed.iter().filter(|tool| is_of_server(&tool.name));
    let originals: BTreeSet<String> = own
        .clone()
        .map(|tool| tools.original_name(&tool.name).unwrap_or_else(|| tool.name.clone()))
        .collect();
    let names: BTreeSet<&str> =
        own.map(|tool| tool.name.as_str()).chain(originals.iter().map(String::as_str)).collect();
    let mut ignored = Vec::new();
    for named in hosted.named_tools.iter().filter(|named| !names.contains(named.name.as_str())) {
        if named.is_required {
            let hint = suggestion(&named.name, originals.iter().map(String::as_str));
            let message = format!(
                "`{}` names the tool `{}`, which the server `{}` does not have{hint}",
                named.parameter, named.name, hosted.label
            );
            return Err(Failure::invalid(&named.parameter, message));
        }
        ignored.push(format!("tools.configs.{}", named.name));
    }
    Ok(ignored)
}
