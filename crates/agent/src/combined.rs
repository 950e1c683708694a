//! Several toolboxes combined into one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use futures::stream::{self, BoxStream, StreamExt};
use serde_json::Value;
use toolwire_contract::toolbox::{CallError, CallOptions, MissingServer, ToolServer, Toolbox};
use toolwire_contract::{Tool, ToolResult};

/// Several toolboxes combined into one, in their order.
///
/// A tool has its original name unless several toolboxes have a tool of that name. Then each of these tools
/// gets the label of its toolbox as a prefix (`files_search`), permanently. A name that a tool had before
/// still works, and never becomes that of another tool.
pub struct CombinedToolbox {
    members: Vec<Member>,
    names: Mutex<NameTable>,
}

struct Member {
    label: String,
    toolbox: Arc<dyn Toolbox>,
    /// Whether the label is the name of the server of all its tools.
    is_server: bool,
}

#[derive(Default)]
struct NameTable {
    /// For each original name, the indexes of all members that ever listed it.
    owners: BTreeMap<String, BTreeSet<usize>>,
    /// For each name that was ever listed, the index of its member and its original name.
    routes: BTreeMap<String, (usize, String)>,
    /// The lists of the members that `listed` was made from.
    sources: Vec<Arc<[Tool]>>,
    listed: Arc<[Tool]>,
}

impl CombinedToolbox {
    /// Combines toolboxes, each with a label. Labels should be unique and valid in tool names.
    pub fn new(
        toolboxes: impl IntoIterator<Item = (impl Into<String>, Arc<dyn Toolbox>)>,
    ) -> CombinedToolbox {
        CombinedToolbox { members: Vec::new(), names: Mutex::default() }.with(toolboxes, false)
    }

    /// Adds servers, each with its name and its tools. If a server and one of the other toolboxes have a tool
    /// of the same name, only the server's tool gets another one.
    #[must_use]
    pub fn with_servers(
        self,
        servers: impl IntoIterator<Item = (impl Into<String>, Arc<dyn Toolbox>)>,
    ) -> CombinedToolbox {
        self.with(servers, true)
    }

    fn with(
        mut self,
        toolboxes: impl IntoIterator<Item = (impl Into<String>, Arc<dyn Toolbox>)>,
        is_server: bool,
    ) -> CombinedToolbox {
        let members = toolboxes.into_iter();
        let members = members.map(|(label, toolbox)| Member { label: label.into(), toolbox, is_server });
        self.members.extend(members);
        self
    }

    /// Returns the toolbox of a listed name and the tool's original name.
    fn route(&self, name: &str) -> Option<(&Member, String)> {
        self.tools();
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let (index, original) = names.routes.get(name)?;
        Some((self.members.get(*index)?, original.clone()))
    }
}

impl NameTable {
    fn list(&mut self, members: &[Member], sources: Vec<Arc<[Tool]>>) -> Arc<[Tool]> {
        let is_unchanged = self.sources.len() == sources.len()
            && self.sources.iter().zip(&sources).all(|(old, new)| Arc::ptr_eq(old, new));
        if is_unchanged {
            return self.listed.clone();
        }
        for (index, tools) in sources.iter().enumerate() {
            for tool in tools.iter() {
                self.owners.entry(tool.name.clone()).or_default().insert(index);
            }
        }
        let mut listed: Vec<Tool> = Vec::new();
        let mut used = BTreeSet::new();
        for (index, tools) in sources.iter().enumerate() {
            for tool in tools.iter() {
                let name = self.unique_name(members, index, &tool.name, &used);
                used.insert(name.clone());
                self.routes.insert(name.clone(), (index, tool.name.clone()));
                listed.push(Tool { name, ..tool.clone() });
            }
        }
        self.sources = sources;
        // Equal tools stay the same list, even if a toolbox created its list again.
        if *self.listed != *listed {
            self.listed = listed.into();
        }
        self.listed.clone()
    }

    fn unique_name(
        &self,
        members: &[Member],
        index: usize,
        original: &str,
        used: &BTreeSet<String>,
    ) -> String {
        // A name that another tool had, however briefly, may be in the messages of a conversation.
        let is_own = |route: &(usize, String)| route.0 == index && route.1 == original;
        let is_free = |name: &str| !used.contains(name) && self.routes.get(name).is_none_or(is_own);
        let member = &members[index];
        let is_rival = |other: &usize| {
            let is_server = members.get(*other).is_some_and(|other| other.is_server);
            *other != index && (member.is_server || !is_server)
        };
        let has_rival = |name: &str| self.owners.get(name).is_some_and(|owners| owners.iter().any(is_rival));
        if is_free(original) && !has_rival(original) {
            return original.to_owned();
        }
        let prefixed = format!("{}_{original}", member.label);
        let numbered = (2..).map(|number| format!("{prefixed}_{number}"));
        // Another member has a tool with this original name, which keeps it if possible.
        let is_of_another = |name: &str| {
            let is_other = |owner: &usize| *owner != index;
            !self.routes.contains_key(name)
                && self.owners.get(name).is_some_and(|owners| owners.iter().any(is_other))
        };
        let mut names = std::iter::once(prefixed.clone()).chain(numbered);
        names.find(|name| is_free(name) && !is_of_another(name)).unwrap_or(prefixed)
    }
}

impl Toolbox for CombinedToolbox {
    fn tools(&self) -> Arc<[Tool]> {
        let sources = self.members.iter().map(|member| member.toolbox.tools()).collect();
        self.names.lock().unwrap_or_else(PoisonError::into_inner).list(&self.members, sources)
    }

    fn server_of(&self, tool: &str) -> Option<ToolServer> {
        let (member, original) = self.route(tool)?;
        let server = member.toolbox.server_of(&original);
        match member.is_server {
            true => {
                Some(ToolServer { name: member.label.clone(), title: server.and_then(|server| server.title) })
            }
            false => server,
        }
    }

    fn original_name(&self, tool: &str) -> Option<String> {
        let (member, listed) = self.route(tool)?;
        member.toolbox.original_name(&listed).or_else(|| Some(listed).filter(|listed| listed != tool))
    }

    fn missing_servers(&self) -> Vec<MissingServer> {
        self.members.iter().flat_map(|member| member.toolbox.missing_servers()).collect()
    }

    fn started<'a>(&'a self, servers: &'a [String]) -> BoxFuture<'a, ()> {
        let members = self.members.iter().map(|member| member.toolbox.started(servers));
        Box::pin(join_all(members).map(|_| ()))
    }

    fn changes(&self) -> Option<BoxStream<'static, ()>> {
        let changes: Vec<_> = self.members.iter().filter_map(|member| member.toolbox.changes()).collect();
        (!changes.is_empty()).then(|| stream::select_all(changes).boxed())
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a Value,
        options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            if let Some((member, original)) = self.route(tool) {
                return member.toolbox.call(&original, arguments, options).await;
            }
            let (mut all_nearest, mut all_missing) = (Vec::new(), Vec::new());
            // A toolbox may have tools that it does not list. The first one that has the tool is used.
            for member in &self.members {
                match member.toolbox.call(tool, arguments, options.clone()).await {
                    Err(CallError::UnknownTool { nearest, missing, .. }) => {
                        all_nearest.extend(nearest);
                        all_missing.extend(missing);
                    }
                    other => return other,
                }
            }
            Err(CallError::UnknownTool { tool: tool.to_owned(), nearest: all_nearest, missing: all_missing })
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A toolbox whose list changes. A call returns the label and the name of the called tool.
    struct Changing {
        label: &'static str,
        tools: Mutex<Arc<[Tool]>>,
    }

    impl Changing {
        fn new(label: &'static str, names: &[&str]) -> Arc<Changing> {
            let changing = Arc::new(Changing { label, tools: Mutex::default() });
            changing.set(names);
            changing
        }

        fn set(&self, names: &[&str]) {
            let tools = names.iter().map(|name| Tool::new(*name, json!({"type": "object"}))).collect();
            *self.tools.lock().expect("no panic") = tools;
        }
    }

    impl Toolbox for Changing {
        fn tools(&self) -> Arc<[Tool]> {
            self.tools.lock().expect("no panic").clone()
        }

        fn server_of(&self, _: &str) -> Option<ToolServer> {
            Some(ToolServer { name: "inner".to_owned(), title: Some(self.label.to_owned()) })
        }

        fn call<'a>(
            &'a self,
            tool: &'a str,
            _: &'a Value,
            _: CallOptions,
        ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
            Box::pin(async move { Ok(ToolResult::text(format!("{}:{tool}", self.label))) })
        }
    }

    fn names(toolbox: &CombinedToolbox) -> String {
        toolbox.tools().iter().map(|tool| tool.name.clone()).collect::<Vec<_>>().join(" ")
    }

    async fn called(toolbox: &CombinedToolbox, tool: &str) -> String {
        let result = toolbox.call(tool, &json!({}), CallOptions::default()).await.expect("a result");
        json!(result)["content"][0]["text"].as_str().unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn a_name_never_becomes_that_of_another_tool() {
        let (a, b) = (Changing::new("a", &["search"]), Changing::new("b", &["read"]));
        let both = CombinedToolbox::new([("a", a.clone() as Arc<dyn Toolbox>), ("b", b.clone())]);
        assert_eq!(names(&both), "search read");
        b.set(&["read", "search"]);
        assert_eq!(names(&both), "a_search read b_search");
        assert_eq!(called(&both, "search").await, "a:search", "the name that it had before");
        b.set(&["read", "search", "a_search"]);
        assert_eq!(names(&both), "a_search read b_search b_a_search");
        assert_eq!(called(&both, "a_search").await, "a:search");
        a.set(&[]);
        assert_eq!(names(&both), "read b_search b_a_search");
        a.set(&["b_search"]);
        assert_eq!(names(&both), "a_b_search read b_search b_a_search");
        assert_eq!(called(&both, "b_search").await, "b:search");
    }

    #[tokio::test]
    async fn only_tools_of_servers_get_other_names() {
        let tools = |label, names: &[&str]| -> Arc<dyn Toolbox> { Changing::new(label, names) };
        let all = CombinedToolbox::new([("own", tools("own", &["search", "read"]))])
            .with_servers([("one", tools("1", &["search", "list"])), ("two", tools("2", &["list", "find"]))]);
        assert_eq!(names(&all), "search read one_search one_list two_list find");
        for (name, server, title, original) in [
            ("search", "inner", "own", None),
            ("one_search", "one", "1", Some("search")),
            ("two_list", "two", "2", Some("list")),
            ("find", "two", "2", None),
        ] {
            let title = Some(title.to_owned());
            assert_eq!(all.server_of(name), Some(ToolServer { name: server.to_owned(), title }));
            assert_eq!(all.original_name(name).as_deref(), original);
        }
        assert_eq!(called(&all, "two_list").await, "2:list");
    }
}
