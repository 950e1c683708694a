//! Several toolboxes as one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use serde_json::Value;
use toolwire_contract::{CallError, CallOptions, MissingServer, Tool, ToolResult, Toolbox};

/// Several toolboxes as one, in their order.
///
/// A tool has its own name unless tools of two toolboxes want the same: then all of them have the label of their toolbox
/// in front (`files_search`), from then on. A name that a tool once had still finds it.
pub struct Combined {
    toolboxes: Vec<(String, Arc<dyn Toolbox>)>,
    names: Mutex<Names>,
}

#[derive(Default)]
struct Names {
    /// Which toolboxes were ever seen to have a tool of this name.
    wanted: BTreeMap<String, BTreeSet<usize>>,
    /// Where a name that was ever offered leads: toolbox, and name there.
    ways: BTreeMap<String, (usize, String)>,
    /// What the list was last made of, and the list.
    sources: Vec<Arc<[Tool]>>,
    listed: Arc<[Tool]>,
}

impl Combined {
    /// Labels tell tools of the same name apart; each should be different, and legal in the name of a tool.
    pub fn new(toolboxes: impl IntoIterator<Item = (impl Into<String>, Arc<dyn Toolbox>)>) -> Combined {
        let toolboxes = toolboxes.into_iter().map(|(label, toolbox)| (label.into(), toolbox)).collect();
        Combined { toolboxes, names: Mutex::default() }
    }

    /// The toolbox that a name leads to, and the name there.
    fn way(&self, name: &str) -> Option<(&Arc<dyn Toolbox>, String)> {
        self.tools();
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let (place, own) = names.ways.get(name)?;
        Some((&self.toolboxes.get(*place)?.1, own.clone()))
    }
}

impl Names {
    fn list(&mut self, labels: &[&str], sources: Vec<Arc<[Tool]>>) -> Arc<[Tool]> {
        let is_same = self.sources.len() == sources.len()
            && self.sources.iter().zip(&sources).all(|(one, other)| Arc::ptr_eq(one, other));
        if is_same {
            return self.listed.clone();
        }
        for (place, tools) in sources.iter().enumerate() {
            for tool in tools.iter() {
                self.wanted.entry(tool.name.clone()).or_default().insert(place);
            }
        }
        let mut listed: Vec<Tool> = Vec::new();
        let mut taken = BTreeSet::new();
        for (place, tools) in sources.iter().enumerate() {
            for tool in tools.iter() {
                let name = self.name(labels, place, &tool.name, &taken);
                taken.insert(name.clone());
                self.ways.insert(name.clone(), (place, tool.name.clone()));
                listed.push(Tool { name, ..tool.clone() });
            }
        }
        self.sources = sources;
        // The same tools are the same list, also when a toolbox made its own anew.
        if *self.listed != *listed {
            self.listed = listed.into();
        }
        self.listed.clone()
    }

    fn name(&self, labels: &[&str], place: usize, own: &str, taken: &BTreeSet<String>) -> String {
        let is_wanted_once = self.wanted.get(own).is_none_or(|places| places.len() < 2);
        if is_wanted_once && !taken.contains(own) {
            return own.to_owned();
        }
        let prefixed = format!("{}_{own}", labels[place]);
        let is_free = |name: &String| {
            !taken.contains(name)
                && self.wanted.get(name).is_none_or(|places| places.iter().all(|one| *one == place))
        };
        let numbered = (2..).map(|number| format!("{prefixed}_{number}"));
        std::iter::once(prefixed.clone()).chain(numbered).find(is_free).unwrap_or(prefixed)
    }
}

impl Toolbox for Combined {
    fn tools(&self) -> Arc<[Tool]> {
        let sources = self.toolboxes.iter().map(|(_, toolbox)| toolbox.tools()).collect();
        let labels: Vec<&str> = self.toolboxes.iter().map(|(label, _)| label.as_str()).collect();
        self.names.lock().unwrap_or_else(PoisonError::into_inner).list(&labels, sources)
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
            if let Some((toolbox, own)) = self.way(tool) {
                return toolbox.call(&own, arguments, options).await;
            }
            let mut unknown = (Vec::new(), Vec::new());
            // A toolbox may know names that it does not list. The first that does has the last word.
            for (_, toolbox) in &self.toolboxes {
                match toolbox.call(tool, arguments, options.clone()).await {
                    Err(CallError::UnknownTool { nearest, missing, .. }) => {
                        unknown.0.extend(nearest);
                        unknown.1.extend(missing);
                    }
                    other => return other,
                }
            }
            Err(CallError::UnknownTool { tool: tool.to_owned(), nearest: unknown.0, missing: unknown.1 })
        })
    }
}
