//! Several toolboxes combined into one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use serde_json::Value;
use toolwire_contract::{CallError, CallOptions, MissingServer, Tool, ToolResult, ToolServer, Toolbox};

/// Several toolboxes combined into one, in their order.
///
/// A tool has its original name unless several toolboxes have a tool of that name. Then each of these tools
/// gets the label of its toolbox as a prefix (`files_search`), permanently. A name that a tool had before
/// still works.
pub struct CombinedToolbox {
    toolboxes: Vec<(String, Arc<dyn Toolbox>)>,
    names: Mutex<NameTable>,
}

#[derive(Default)]
struct NameTable {
    /// For each original name, the indexes of all toolboxes that ever listed it.
    owners: BTreeMap<String, BTreeSet<usize>>,
    /// For each name that was ever listed, the index of its toolbox and its original name.
    routes: BTreeMap<String, (usize, String)>,
    /// The lists of the toolboxes that `listed` was made from.
    sources: Vec<Arc<[Tool]>>,
    listed: Arc<[Tool]>,
}

impl CombinedToolbox {
    /// Combines toolboxes, each with a label. Labels should be unique and valid in tool names.
    pub fn new(
        toolboxes: impl IntoIterator<Item = (impl Into<String>, Arc<dyn Toolbox>)>,
    ) -> CombinedToolbox {
        let toolboxes = toolboxes.into_iter().map(|(label, toolbox)| (label.into(), toolbox)).collect();
        CombinedToolbox { toolboxes, names: Mutex::default() }
    }

    /// Returns the toolbox of a listed name and the tool's original name.
    fn route(&self, name: &str) -> Option<(&Arc<dyn Toolbox>, String)> {
        self.tools();
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let (index, original) = names.routes.get(name)?;
        Some((&self.toolboxes.get(*index)?.1, original.clone()))
    }
}

impl NameTable {
    fn list(&mut self, labels: &[&str], sources: Vec<Arc<[Tool]>>) -> Arc<[Tool]> {
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
                let name = self.unique_name(labels[index], index, &tool.name, &used);
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

    fn unique_name(&self, label: &str, index: usize, original: &str, used: &BTreeSet<String>) -> String {
        let has_one_owner = self.owners.get(original).is_none_or(|owners| owners.len() < 2);
        if has_one_owner && !used.contains(original) {
            return original.to_owned();
        }
        let prefixed = format!("{label}_{original}");
        let is_free = |name: &String| {
            !used.contains(name)
                && self.owners.get(name).is_none_or(|owners| owners.iter().all(|owner| *owner == index))
        };
        let numbered = (2..).map(|number| format!("{prefixed}_{number}"));
        std::iter::once(prefixed.clone()).chain(numbered).find(is_free).unwrap_or(prefixed)
    }
}

impl Toolbox for CombinedToolbox {
    fn tools(&self) -> Arc<[Tool]> {
        let sources = self.toolboxes.iter().map(|(_, toolbox)| toolbox.tools()).collect();
        let labels: Vec<&str> = self.toolboxes.iter().map(|(label, _)| label.as_str()).collect();
        self.names.lock().unwrap_or_else(PoisonError::into_inner).list(&labels, sources)
    }

    fn server_of(&self, tool: &str) -> Option<ToolServer> {
        let (toolbox, original) = self.route(tool)?;
        toolbox.server_of(&original)
    }

    fn original_name(&self, tool: &str) -> Option<String> {
        let (toolbox, listed) = self.route(tool)?;
        toolbox.original_name(&listed).or_else(|| Some(listed).filter(|listed| listed != tool))
    }

    fn missing_servers(&self) -> Vec<MissingServer> {
        self.toolboxes.iter().flat_map(|(_, toolbox)| toolbox.missing_servers()).collect()
    }

    fn changes(&self) -> Option<BoxStream<'static, ()>> {
        let changes: Vec<_> = self.toolboxes.iter().filter_map(|(_, toolbox)| toolbox.changes()).collect();
        (!changes.is_empty()).then(|| stream::select_all(changes).boxed())
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a Value,
        options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            if let Some((toolbox, original)) = self.route(tool) {
                return toolbox.call(&original, arguments, options).await;
            }
            let (mut all_nearest, mut all_missing) = (Vec::new(), Vec::new());
            // A toolbox may have tools that it does not list. The first one that has the tool is used.
            for (_, toolbox) in &self.toolboxes {
                match toolbox.call(tool, arguments, options.clone()).await {
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
