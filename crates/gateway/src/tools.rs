//! The tools that one request may use.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use serde_json::Value;
use toolwire_agent::approval::{ApprovalPolicy, Verdict};
use toolwire_contract::model::ModelRequest;
use toolwire_contract::toolbox::{
    CallError, CallOptions, MissingServer, ToolServer, Toolbox, ToolboxDecorator,
};
use toolwire_contract::{Glob, Tool, ToolResult};
use toolwire_dialect::client::ToolReference;
use toolwire_dialect::{Dialect, Options, Status, Toolset};

use crate::catalog::ServedModel;
use crate::response::Failure;

/// The tools of servers that a request selects.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ToolSelection {
    /// Names or patterns of servers; `None` selects all.
    pub(crate) servers: Option<Vec<String>>,
    /// Names or patterns of tools; `None` selects all.
    pub(crate) tools: Option<Vec<String>>,
    /// Servers that the request names itself; if there are any, only their tools are selected.
    pub(crate) hosted: Vec<HostedFilter>,
    /// The only tools that may be called, by the names that the client knows; `None` allows all.
    pub(crate) allowed: Option<Vec<ToolReference>>,
    /// Whether the client can approve calls, so that a run pauses for it.
    pub(crate) can_approve: bool,
    /// Names of the client's own tools. A tool of a server that has one of these names gets another one.
    pub(crate) taken: BTreeSet<String>,
}

/// The tools of a server that a request names.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostedFilter {
    pub(crate) server: String,
    /// The client's name for the server.
    pub(crate) label: String,
    /// Whether the request names the server by its URL, so that the client knows it only by its label.
    pub(crate) is_url: bool,
    pub(crate) allowed: Option<Vec<String>>,
    pub(crate) denied: Vec<String>,
    pub(crate) read_only: bool,
}

impl HostedFilter {
    /// Whether a tool is selected. `original` is the tool's name on its server.
    pub(crate) fn selects(&self, tool: &Tool, original: &str) -> bool {
        let is_in = |names: &Vec<String>| names.iter().any(|name| name == original || *name == tool.name);
        self.allowed.as_ref().is_none_or(is_in)
            && !is_in(&self.denied)
            && (!self.read_only || tool.hints().read_only == Some(true))
    }
}

impl ToolSelection {
    /// Whether no tool of any server is selected.
    pub(crate) fn is_none(&self) -> bool {
        let is_none = |patterns: &Option<Vec<String>>| {
            patterns.as_ref().is_some_and(|patterns| patterns.iter().all(|pattern| pattern == "none"))
        };
        is_none(&self.servers) || is_none(&self.tools)
    }

    fn is_everything(&self) -> bool {
        *self == ToolSelection { can_approve: self.can_approve, ..ToolSelection::default() }
    }

    /// Estimates the memory that a cached agent with this selection uses: the selection and its list of
    /// tools.
    pub(crate) fn bytes(&self, tools: &dyn Toolbox) -> usize {
        let lists = self.servers.iter().chain(&self.tools).flatten().chain(&self.taken);
        let names: usize = lists.map(|name| name.len() + size_of::<String>()).sum();
        let filters = format!("{:?}{:?}", self.hosted, self.allowed).len();
        let list = if self.is_everything() { 0 } else { estimated_bytes(&tools.tools()) };
        list.saturating_add(names + 2 * filters)
    }

    pub(crate) fn selects_server(&self, name: Option<&str>) -> bool {
        let Some(patterns) = &self.servers else { return true };
        let is_named = |filter: &&HostedFilter| filter.is_url && Some(filter.server.as_str()) == name;
        let label = self.hosted.iter().find(is_named).map(|filter| filter.label.as_str());
        label.or(name).is_some_and(|name| matches_any(patterns, name))
    }

    /// Whether tools of a server may be selected.
    pub(crate) fn includes_server(&self, name: &str) -> bool {
        let is_named = |filter: &HostedFilter| filter.server == name;
        !self.is_none()
            && self.selects_server(Some(name))
            && (self.hosted.is_empty() || self.hosted.iter().any(is_named))
    }

    fn selects_tool(&self, name: &str) -> bool {
        self.tools.as_ref().is_none_or(|patterns| matches_any(patterns, name))
    }

    /// Whether the request's tool choice allows a tool of a server. `original` is the tool's name on its
    /// server.
    fn allows(&self, tool: &Tool, original: &str, server: Option<&str>) -> bool {
        let is_same = |allowed: &ToolReference| {
            let is_server =
                allowed.server.as_deref().is_none_or(|label| server == Some(self.server_of(label)));
            let is_name = allowed.name.as_ref().is_none_or(|name| *name == tool.name || name == original);
            // A name without a server means the client's tool of this name, if there is one.
            let is_taken = allowed.server.is_none()
                && allowed.name.as_ref().is_some_and(|name| self.taken.contains(name));
            is_server && is_name && !is_taken
        };
        self.allowed.as_ref().is_none_or(|allowed| allowed.iter().any(is_same))
    }

    /// Returns the name of the server with a label of the request.
    pub(crate) fn server_of<'a>(&'a self, label: &'a str) -> &'a str {
        let found = self.hosted.iter().find(|hosted| hosted.label == label);
        found.map_or(label, |hosted| &hosted.server)
    }
}

fn matches_any(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| Glob::new(pattern.as_str()).matches(name))
}

/// A cache of client tool lists that a dialect can express, so that each list is checked once.
#[derive(Default)]
pub(crate) struct CheckedTools(Mutex<VecDeque<CheckedList>>);

struct CheckedList {
    dialect: Dialect,
    tools: Arc<[Tool]>,
    bytes: usize,
}

/// The maximum number of cached lists, and of their bytes together. A larger list is not cached.
const MAX_CHECKED: usize = 16;
const MAX_CHECKED_BYTES: usize = 16 * 1024 * 1024;

impl CheckedTools {
    /// Checks that a model accepts all tools of a client. Without one of them, the request would have another
    /// meaning. Definitions that are sent unchanged to a provider with the client's API are not checked.
    /// `parameter` is the client's name for its tools.
    pub(crate) fn check(
        &self,
        served: &ServedModel,
        request: &ModelRequest,
        parameter: &str,
    ) -> Result<(), Failure> {
        let (model, tools) = (served.model.name(), &request.tools);
        if let Some(limit) = served.model.limits().tools.filter(|limit| tools.len() > *limit) {
            let message =
                format!("`{model}` accepts at most {limit} tools, and the request has {}", tools.len());
            return Err(Failure::invalid(parameter, message));
        }
        let is_converted =
            !tools.is_empty() && request.verbatim.as_ref().is_none_or(|verbatim| verbatim.tools.is_empty());
        let Some(dialect) = served.dialect.filter(|_| is_converted) else { return Ok(()) };
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lock().iter().any(|checked| checked.dialect == dialect && checked.tools == *tools) {
            return Ok(());
        }
        let toolset = Toolset::new(tools, dialect, &Options::default());
        let mut refused = toolset.reports().iter().filter(|report| report.status == Status::Refused);
        if let Some(report) = refused.next() {
            let reason = report.reason.as_ref().map_or("", |reason| reason.message.as_str());
            let message = format!("the API of `{model}` cannot express the tool `{}`: {reason}", report.tool);
            return Err(Failure::invalid(parameter, message));
        }
        let bytes = estimated_bytes(tools);
        if bytes <= MAX_CHECKED_BYTES {
            let mut checked = lock();
            checked.push_back(CheckedList { dialect, tools: tools.clone(), bytes });
            let mut total: usize = checked.iter().map(|list| list.bytes).sum();
            while checked.len() > MAX_CHECKED || total > MAX_CHECKED_BYTES {
                let Some(removed) = checked.pop_front() else { break };
                total -= removed.bytes;
            }
        }
        Ok(())
    }
}

/// Estimates the memory of tools: a token has about four bytes of text, and a parsed value takes about four
/// times the memory of its text.
pub(crate) fn estimated_bytes(tools: &[Tool]) -> usize {
    let tokens: u64 = tools.iter().map(Tool::estimated_tokens).sum();
    usize::try_from(tokens.saturating_mul(16)).unwrap_or(usize::MAX)
}

/// Returns the selected part of a toolbox.
pub(crate) fn select(tools: &Arc<dyn Toolbox>, selection: ToolSelection) -> Arc<dyn Toolbox> {
    if selection.is_everything() {
        return tools.clone();
    }
    Arc::new(SelectedTools { tools: tools.clone(), selection, listed: Mutex::default() })
}

/// Applies the rules of the configuration to tools that have another name in a request, because the client
/// has a tool with their name. Otherwise, a client could bypass the rules for a tool by giving one of its own
/// tools the same name.
pub(crate) fn add_rules_of_renamed(
    policy: &mut ApprovalPolicy,
    tools: &Arc<dyn Toolbox>,
    selection: &ToolSelection,
) {
    let source = tools.tools();
    if !source.iter().any(|tool| selection.taken.contains(&tool.name)) {
        return;
    }
    let (tools, selection) = (tools.clone(), selection.clone());
    let selected = SelectedTools { tools, selection, listed: Mutex::default() };
    let rules = policy.clone();
    for (name, original) in selected.list(source.clone()).originals {
        let tool = source.iter().find(|tool| tool.name == original);
        let verdict = rules.verdict(&original, tool);
        if verdict == rules.verdict(&name, tool) {
            continue;
        }
        match verdict {
            Verdict::Allow => policy.allow.push(name),
            Verdict::Ask(_) => policy.ask.push(name),
            Verdict::Deny(_) => policy.deny.push(name),
        }
    }
}

/// The selected tools. Only these can be called, whatever name a model uses.
struct SelectedTools {
    tools: Arc<dyn Toolbox>,
    selection: ToolSelection,
    listed: Mutex<Listed>,
}

#[derive(Default)]
struct Listed {
    /// The complete list of tools from which this list was created.
    source: Option<Arc<[Tool]>>,
    tools: Arc<[Tool]>,
    /// The original name of each listed tool.
    originals: BTreeMap<String, String>,
}

impl SelectedTools {
    /// Calls a function with the list of selected tools, which is updated first if the complete list changed.
    fn with_list<T>(&self, use_list: impl FnOnce(&Listed) -> T) -> T {
        let source = if self.selection.is_none() { Arc::default() } else { self.tools.tools() };
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if !listed.source.as_ref().is_some_and(|known| Arc::ptr_eq(known, &source)) {
            *listed = self.list(source);
        }
        use_list(&listed)
    }

    fn list(&self, source: Arc<[Tool]>) -> Listed {
        let mut tools: Vec<Tool> = Vec::new();
        let mut originals = BTreeMap::new();
        let all: BTreeSet<&str> = source.iter().map(|tool| tool.name.as_str()).collect();
        for tool in source.iter() {
            let server = self.tools.server_of(&tool.name).map(|server| server.name);
            if !self.selection.selects_server(server.as_deref()) || !self.selection.selects_tool(&tool.name) {
                continue;
            }
            let own_name = self.tools.original_name(&tool.name);
            let original = own_name.as_deref().unwrap_or(&tool.name);
            let mut hosted = self.selection.hosted.iter();
            let is_of_hosted = |filter: &HostedFilter| server.as_deref() == Some(&filter.server);
            if !self.selection.hosted.is_empty()
                && !hosted.any(|filter| is_of_hosted(filter) && filter.selects(tool, original))
            {
                continue;
            }
            if !self.selection.allows(tool, original, server.as_deref()) {
                continue;
            }
            let is_free = |name: &String| {
                !self.selection.taken.contains(name)
                    && !originals.contains_key(name)
                    && !all.contains(name.as_str())
            };
            let name = if self.selection.taken.contains(&tool.name) {
                let prefixed = format!("{}_{}", server.as_deref().unwrap_or("mcp"), tool.name);
                let numbered = (2..).map(|number| format!("{prefixed}_{number}"));
                std::iter::once(prefixed.clone()).chain(numbered).find(is_free).unwrap_or(prefixed)
            } else {
                tool.name.clone()
            };
            originals.insert(name.clone(), tool.name.clone());
            tools.push(Tool { name, ..tool.clone() });
        }
        Listed { tools: tools.into(), source: Some(source), originals }
    }

    fn original(&self, name: &str) -> Option<String> {
        self.with_list(|listed| listed.originals.get(name).cloned())
    }
}

impl ToolboxDecorator for SelectedTools {
    fn inner(&self) -> &dyn Toolbox {
        &*self.tools
    }

    fn tools(&self) -> Arc<[Tool]> {
        self.with_list(|listed| listed.tools.clone())
    }

    fn server_of(&self, tool: &str) -> Option<ToolServer> {
        self.tools.server_of(&self.original(tool)?)
    }

    fn original_name(&self, tool: &str) -> Option<String> {
        let listed = self.original(tool)?;
        self.tools.original_name(&listed).or_else(|| Some(listed).filter(|listed| listed != tool))
    }

    fn missing_servers(&self) -> Vec<MissingServer> {
        let mut missing = self.tools.missing_servers();
        missing.retain(|missing| self.selection.includes_server(&missing.server));
        missing
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a Value,
        options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            match self.original(tool) {
                Some(original) => self.tools.call(&original, arguments, options).await,
                None => Err(CallError::UnknownTool {
                    tool: tool.to_owned(),
                    nearest: Vec::new(),
                    missing: Toolbox::missing_servers(self),
                }),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolwire_testkit::ScriptedModel;

    use super::*;

    #[test]
    fn the_cache_of_checked_tools_is_bounded() {
        let checked = CheckedTools::default();
        let mut served = ServedModel::new(Arc::new(ScriptedModel::new([])));
        served.dialect = Some(Dialect::OpenAi);
        let sizes = || -> (usize, usize) {
            let lists = checked.0.lock().expect("the cache");
            (lists.len(), lists.iter().map(|list| list.bytes).sum())
        };
        let check = |name: String, bytes: usize| {
            let mut tool = Tool::new(name, json!({"type": "object"}));
            tool.description = Some("x".repeat(bytes));
            let request = ModelRequest { tools: Arc::new([tool]), ..ModelRequest::default() };
            assert!(checked.check(&served, &request, "tools").is_ok());
        };
        for number in 0..20 {
            check(format!("small_{number}"), 10);
            check(format!("small_{number}"), 10);
        }
        assert_eq!(sizes().0, MAX_CHECKED);
        check("huge".to_owned(), MAX_CHECKED_BYTES / 2);
        assert_eq!(sizes().0, MAX_CHECKED, "it is not kept, and the others stay");
        for number in 0..20 {
            check(format!("large_{number}"), MAX_CHECKED_BYTES / 8);
        }
        let (count, bytes) = sizes();
        assert!(count > 0 && bytes <= MAX_CHECKED_BYTES, "{count} {bytes}");
    }
}
