//! The tools of configured servers, together with those of servers that a request names by URL.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use serde_json::Value;
use toolwire_contract::{CallError, CallOptions, MissingServer, Tool, ToolResult, ToolServer, Toolbox};

/// The tools of configured servers, together with those of servers that a request names by URL. Configured tools keep their
/// names; a tool of another server that has the name of a second tool gets the name of its server as a prefix.
pub(crate) struct HostedTools {
    /// The toolboxes; the first one is that of the configured servers.
    toolboxes: Vec<Arc<dyn Toolbox>>,
    /// The name of the server of each toolbox, except for the first one.
    names: Vec<String>,
    listed: Mutex<Listed>,
}

#[derive(Default)]
struct Listed {
    /// The lists that `tools` was made from.
    sources: Vec<Arc<[Tool]>>,
    tools: Arc<[Tool]>,
    /// For each listed name, the index of the toolbox and its name of the tool.
    routes: BTreeMap<String, (usize, String)>,
}

impl HostedTools {
    /// Combines the configured tools, if the request uses them, with those of servers with these names.
    pub(crate) fn new(
        configured: Option<Arc<dyn Toolbox>>,
        servers: Vec<(String, Arc<dyn Toolbox>)>,
    ) -> HostedTools {
        let (names, servers): (Vec<_>, Vec<_>) = servers.into_iter().unzip();
        let configured = configured.unwrap_or_else(|| Arc::new(NoTools));
        let toolboxes = std::iter::once(configured).chain(servers).collect();
        HostedTools { toolboxes, names, listed: Mutex::default() }
    }

    fn with_list<T>(&self, use_list: impl FnOnce(&Listed) -> T) -> T {
        let sources: Vec<Arc<[Tool]>> = self.toolboxes.iter().map(|toolbox| toolbox.tools()).collect();
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = listed.sources.len() == sources.len()
            && listed.sources.iter().zip(&sources).all(|(known, source)| Arc::ptr_eq(known, source));
        if !is_same {
            *listed = self.list(sources);
        }
        use_list(&listed)
    }

    fn list(&self, sources: Vec<Arc<[Tool]>>) -> Listed {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for tool in sources.iter().flat_map(|tools| tools.iter()) {
            *counts.entry(&tool.name).or_default() += 1;
        }
        let mut tools = Vec::new();
        let mut routes: BTreeMap<String, (usize, String)> = BTreeMap::new();
        for (index, source) in sources.iter().enumerate() {
            for tool in source.iter() {
                let is_unique = counts.get(tool.name.as_str()) == Some(&1);
                let name = match index.checked_sub(1).map(|index| &self.names[index]) {
                    Some(server) if !is_unique => {
                        let prefixed = format!("{server}_{}", tool.name);
                        let numbered = (2..).map(|number| format!("{prefixed}_{number}"));
                        let is_free =
                            |name: &String| !counts.contains_key(name.as_str()) && !routes.contains_key(name);
                        let mut names = std::iter::once(prefixed.clone()).chain(numbered);
                        names.find(is_free).unwrap_or(prefixed)
                    }
                    _ => tool.name.clone(),
                };
                routes.insert(name.clone(), (index, tool.name.clone()));
                tools.push(Tool { name, ..tool.clone() });
            }
        }
        Listed { tools: tools.into(), routes, sources }
    }

    /// Returns the toolbox of a listed tool, its index, and its name of the tool.
    fn route(&self, tool: &str) -> Option<(&Arc<dyn Toolbox>, usize, String)> {
        let (index, name) = self.with_list(|listed| listed.routes.get(tool).cloned())?;
        Some((self.toolboxes.get(index)?, index, name))
    }
}

impl Toolbox for HostedTools {
    fn tools(&self) -> Arc<[Tool]> {
        self.with_list(|listed| listed.tools.clone())
    }

    fn server_of(&self, tool: &str) -> Option<ToolServer> {
        let (toolbox, index, name) = self.route(tool)?;
        let server = toolbox.server_of(&name);
        match index.checked_sub(1).and_then(|index| self.names.get(index)) {
            Some(own) => {
                Some(ToolServer { name: own.clone(), title: server.and_then(|server| server.title) })
            }
            None => server,
        }
    }

    fn original_name(&self, tool: &str) -> Option<String> {
        let (toolbox, _, name) = self.route(tool)?;
        toolbox.original_name(&name).or_else(|| Some(name).filter(|name| name != tool))
    }

    fn missing_servers(&self) -> Vec<MissingServer> {
        self.toolboxes.first().map_or_else(Vec::new, |configured| configured.missing_servers())
    }

    fn changes(&self) -> Option<BoxStream<'static, ()>> {
        let changes: Vec<_> = self.toolboxes.iter().filter_map(|toolbox| toolbox.changes()).collect();
        (!changes.is_empty()).then(|| stream::select_all(changes).boxed())
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a Value,
        options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            match self.route(tool) {
                Some((toolbox, _, name)) => toolbox.call(&name, arguments, options).await,
                None => Err(CallError::UnknownTool {
                    tool: tool.to_owned(),
                    nearest: Vec::new(),
                    missing: self.missing_servers(),
                }),
            }
        })
    }
}

/// Returns names for servers that a request names by URL: the client's label, unless a configured server has this name.
pub(crate) fn server_name(label: &str, configured: &BTreeSet<String>) -> String {
    let numbered = (2..).map(|number| format!("{label}-{number}"));
    let mut names = std::iter::once(label.to_owned()).chain(numbered);
    names.find(|name| !configured.contains(name)).unwrap_or_else(|| label.to_owned())
}

struct NoTools;

impl Toolbox for NoTools {
    fn tools(&self) -> Arc<[Tool]> {
        static NONE: std::sync::LazyLock<Arc<[Tool]>> = std::sync::LazyLock::new(Arc::default);
        NONE.clone()
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        _: &'a Value,
        _: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        let (nearest, missing) = (Vec::new(), Vec::new());
        Box::pin(std::future::ready(Err(CallError::UnknownTool { tool: tool.to_owned(), nearest, missing })))
    }
}
