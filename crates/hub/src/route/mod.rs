//! Which server has which tool, and what it is called.
//!
//! Names are given by [`names`]; ADR 0007 says how they stay the same while servers come and go.

mod names;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use toolwire_contract::Tool;

use crate::config::{ServerConfig, ServerName};

/// Names that the hub keeps for tools of its own; a server's tool of that name gets the server's prefix.
pub const RESERVED: [&str; 1] = ["read_result"];

/// What each server has ever been seen to have, for the life of a hub.
///
/// It only grows (up to a limit that honest servers stay below), so a name that collided once is spelt the same when the
/// other server is away.
#[derive(Debug, Default)]
pub struct Known {
    tools: BTreeMap<ServerName, BTreeSet<String>>,
    /// Names that were offered and are no longer, so that calls from older messages still arrive.
    offered: HashMap<String, Route>,
}

/// One configured server that is not disabled, and its tools.
#[derive(Clone, Copy, Debug)]
pub struct ServerTools<'a> {
    pub server: &'a ServerConfig,
    /// As the server listed them; `None` while it is away.
    pub tools: Option<&'a [Tool]>,
}

/// The way to a tool: its server, and what that server calls it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    pub server: ServerName,
    pub tool: String,
}

/// The tools of all servers as one list, and the way from each name to its tool.
#[derive(Debug, Default)]
pub struct Routes {
    /// Shared with whoever asks for the list, so that there is one.
    tools: Arc<[Tool]>,
    /// The ways to them, in their order; to the hub's own, which come last, there is none.
    routes: Vec<Route>,
    by_name: HashMap<String, Route>,
    doubled: Vec<Route>,
}

/// Tools of one server to remember; one that lists ever new names is remembered by its present ones alone.
const REMEMBERED_PER_SERVER: usize = 10_000;
/// Former names to remember.
const REMEMBERED_NAMES: usize = 100_000;

impl Known {
    /// Tells of tools that a server had in an earlier life of the hub, so that names are those of that life from the start.
    pub fn remember<'n>(&mut self, server: &ServerName, tools: impl IntoIterator<Item = &'n str>) {
        self.tools.entry(server.clone()).or_default().extend(tools.into_iter().map(str::to_owned));
    }

    fn see(&mut self, server: &ServerName, tools: &[Tool]) {
        self.remember(server, tools.iter().map(|tool| tool.name.as_str()));
        if let Some(seen) = self.tools.get_mut(server).filter(|seen| seen.len() > REMEMBERED_PER_SERVER) {
            *seen = tools.iter().map(|tool| tool.name.clone()).collect();
        }
    }
}

impl Routes {
    /// The routes to what `servers` have now. All configured servers belong into the list, in any order; what one of them is
    /// known to have had counts for the spelling of names even while it is away. `own` are the hub's own tools.
    pub fn build(
        servers: &[ServerTools<'_>],
        own: impl IntoIterator<Item = Tool>,
        known: &mut Known,
    ) -> Routes {
        for server in servers {
            known.see(&server.server.name, server.tools.unwrap_or_default());
        }
        let prefixes =
            servers.iter().map(|each| (&each.server.name, each.server.prefix.as_deref())).collect();
        let tools = servers.iter().flat_map(|each| {
            let seen = known.tools.get(&each.server.name).into_iter().flatten();
            let admitted = seen.filter(|tool| each.server.admits(tool));
            admitted.map(|tool| Route { server: each.server.name.clone(), tool: tool.clone() })
        });
        let names = names::give(tools.collect(), &prefixes);

        let mut routes = Routes::default();
        let mut in_order: Vec<&ServerTools<'_>> = servers.iter().collect();
        in_order.sort_by_key(|each| &each.server.name);
        let mut tools = Vec::new();
        for each in in_order {
            routes.offer(each, &names, &mut tools);
        }
        tools.extend(own);
        routes.tools = tools.into();
        known.offered.retain(|_, route| prefixes.contains_key(&route.server));
        if known.offered.len() > REMEMBERED_NAMES {
            known.offered.clear();
        }
        // What is offered now is stronger than what was once offered under the same name.
        routes.by_name = known.offered.clone();
        routes.by_name.extend(names.into_iter().map(|(route, name)| (name, route)));
        known.offered.extend(routes.offered().map(|(tool, route)| (tool.name.clone(), route.clone())));
        routes
    }

    fn offer(&mut self, server: &ServerTools<'_>, names: &BTreeMap<Route, String>, offered: &mut Vec<Tool>) {
        let mut tools: Vec<&Tool> = server.tools.unwrap_or_default().iter().collect();
        // Stable: of two tools with one name the first that the server listed is offered.
        tools.sort_by_key(|tool| &tool.name);
        let mut previous: Option<&str> = None;
        for tool in tools {
            let route = Route { server: server.server.name.clone(), tool: tool.name.clone() };
            let Some(name) = names.get(&route) else { continue };
            if previous.replace(&tool.name) == Some(&tool.name) {
                self.doubled.push(route);
                continue;
            }
            offered.push(Tool { name: name.clone(), ..tool.clone() });
            self.routes.push(route);
        }
    }

    /// The tools that can be called now, by server name and then by the server's own name for them, and the hub's own after
    /// them: the same list for the same tools, however they came. Each is as its server listed it, but for the name.
    pub fn tools(&self) -> &Arc<[Tool]> {
        &self.tools
    }

    /// The same, each with the way to it; without the hub's own.
    pub fn offered(&self) -> impl Iterator<Item = (&Tool, &Route)> {
        self.tools.iter().zip(&self.routes)
    }

    /// The way to the tool that is or was offered as `name`, also while its server is away.
    pub fn lookup(&self, name: &str) -> Option<&Route> {
        self.by_name.get(name)
    }

    /// Up to three offered names that `name` may have been meant as: tools that their servers call just that, else alike ones.
    pub fn nearest(&self, name: &str) -> Vec<String> {
        let own = self.offered().filter(|(_, route)| route.tool == name);
        let mut near: Vec<String> = own.map(|(tool, _)| tool.name.clone()).take(3).collect();
        if near.is_empty() {
            let offered = self.offered().map(|(tool, _)| tool.name.as_str());
            near = toolwire_contract::nearest_names(name, offered).into_iter().map(str::to_owned).collect();
        }
        near
    }

    /// Tools that their server listed more than once; the first of each is offered.
    pub fn doubled(&self) -> &[Route] {
        &self.doubled
    }
}
