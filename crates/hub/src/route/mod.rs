//! Maps the name of each tool to its server.
//!
//! [`names`] assigns the names; ADR 0007 describes how they stay stable while servers connect and disconnect.

mod names;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use toolwire_contract::Tool;
use toolwire_contract::text::nearest_names;

use crate::config::{ServerConfig, ServerName};
use crate::result_limiter::READ_RESULT;

/// Names of the hub's own tools; a server's tool with such a name gets the server's prefix.
const RESERVED_NAMES: [&str; 1] = [READ_RESULT];

/// All tools that each server has listed so far.
///
/// It only grows, up to a limit that normal servers do not reach. A name that collided once therefore stays
/// the same while the other server is unavailable.
#[derive(Debug, Default)]
pub(crate) struct ToolHistory {
    tools: BTreeMap<ServerName, BTreeSet<String>>,
    /// Names that were offered before, so that calls from older messages still work.
    former_names: HashMap<String, Route>,
}

/// A configured server and its tools.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerTools<'a> {
    pub(crate) server: &'a ServerConfig,
    /// The tools as the server lists them; `None` while it is unavailable or disabled.
    pub(crate) tools: Option<&'a [Tool]>,
}

/// The server of a tool, and the tool's name on that server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Route {
    pub(crate) server: ServerName,
    pub(crate) tool: String,
}

/// The tools of all servers as one list, with a route for each name.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    tools: Arc<[Tool]>,
    /// The routes of `tools` in the same order; the hub's own tools come last and have none.
    routes: Vec<Route>,
    by_name: HashMap<String, Route>,
}

/// If a server has listed more tools, only the current ones are retained.
const MAX_TOOLS_PER_SERVER: usize = 10_000;
const MAX_FORMER_NAMES: usize = 100_000;
const MAX_FORMER_NAME_BYTES: usize = 4 * 1024 * 1024;

impl ToolHistory {
    /// Adds the tools that a server had when the hub last ran, so that names do not change at a restart.
    pub(crate) fn add<'n>(&mut self, server: &ServerName, tools: impl IntoIterator<Item = &'n str>) {
        self.tools.entry(server.clone()).or_default().extend(tools.into_iter().map(str::to_owned));
    }

    fn add_current(&mut self, server: &ServerName, tools: &[Tool]) {
        self.add(server, tools.iter().map(|tool| tool.name.as_str()));
        if let Some(seen) = self.tools.get_mut(server).filter(|seen| seen.len() > MAX_TOOLS_PER_SERVER) {
            *seen = tools.iter().map(|tool| tool.name.clone()).collect();
        }
    }
}

impl Routes {
    /// Builds the routes to the current tools. `servers` are all configured servers in any order, because the
    /// history of an unavailable or disabled server also affects names. `own` are the hub's own tools.
    pub(crate) fn build(
        servers: &[ServerTools<'_>],
        own: impl IntoIterator<Item = Tool>,
        history: &mut ToolHistory,
    ) -> Routes {
        for server in servers {
            history.add_current(&server.server.name, server.tools.unwrap_or_default());
        }
        let prefixes =
            servers.iter().map(|each| (&each.server.name, each.server.prefix.as_deref())).collect();
        let tools = servers.iter().flat_map(|each| {
            let seen = history.tools.get(&each.server.name).into_iter().flatten();
            let allowed = seen.filter(|tool| each.server.allows_tool(tool));
            allowed.map(|tool| Route { server: each.server.name.clone(), tool: tool.clone() })
        });
        let names = names::assign(tools.collect(), &prefixes);

        let mut routes = Routes::default();
        let mut in_order: Vec<&ServerTools<'_>> = servers.iter().collect();
        in_order.sort_by_key(|each| &each.server.name);
        let mut tools = Vec::new();
        for each in in_order {
            routes.add_server(each, &names, &mut tools);
        }
        tools.extend(own);
        routes.tools = tools.into();
        history.former_names.retain(|_, route| prefixes.contains_key(&route.server));
        let bytes: usize =
            history.former_names.iter().map(|(name, route)| name.len() + route.tool.len()).sum();
        if history.former_names.len() > MAX_FORMER_NAMES || bytes > MAX_FORMER_NAME_BYTES {
            history.former_names.clear();
        }
        // A current name replaces the same former name.
        routes.by_name = history.former_names.clone();
        routes.by_name.extend(names.into_iter().map(|(route, name)| (name, route)));
        history.former_names.extend(routes.offered().map(|(tool, route)| (tool.name.clone(), route.clone())));
        routes
    }

    fn add_server(
        &mut self,
        server: &ServerTools<'_>,
        names: &BTreeMap<Route, String>,
        offered: &mut Vec<Tool>,
    ) {
        let mut tools: Vec<&Tool> = server.tools.unwrap_or_default().iter().collect();
        // Both steps preserve the order: of tools with the same name, the first is offered.
        tools.sort_by_key(|tool| &tool.name);
        tools.dedup_by_key(|tool| &tool.name);
        for tool in tools {
            let route = Route { server: server.server.name.clone(), tool: tool.name.clone() };
            let Some(name) = names.get(&route) else { continue };
            offered.push(Tool { name: name.clone(), ..tool.clone() });
            self.routes.push(route);
        }
    }

    /// Returns the available tools, sorted by server and by name on the server, followed by the hub's own
    /// tools. Only their names differ from the servers' lists.
    pub(crate) fn tools(&self) -> &Arc<[Tool]> {
        &self.tools
    }

    /// Returns the servers' tools, each with its route.
    pub(crate) fn offered(&self) -> impl Iterator<Item = (&Tool, &Route)> {
        self.tools.iter().zip(&self.routes)
    }

    /// Returns the route of a current or former name, also while its server is unavailable.
    pub(crate) fn lookup(&self, name: &str) -> Option<&Route> {
        self.by_name.get(name)
    }

    /// Returns up to three offered names for an unknown one: tools with this name on their server, else tools
    /// with similar names.
    pub(crate) fn nearest(&self, name: &str) -> Vec<String> {
        let named_on_server = self.offered().filter(|(_, route)| route.tool == name);
        let mut nearest: Vec<&str> = named_on_server.map(|(tool, _)| tool.name.as_str()).take(3).collect();
        if nearest.is_empty() {
            nearest = nearest_names(name, self.offered().map(|(tool, _)| tool.name.as_str()));
        }
        nearest.into_iter().map(str::to_owned).collect()
    }
}
