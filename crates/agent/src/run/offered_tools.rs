//! The tools of a request.
//!
//! If there are few tools, a request contains all of them, in the order of the toolbox. Otherwise it contains
//! a search tool and the tools that were found or called before. New tools are added at the end, so that
//! prompt caches stay valid.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwire_contract::{Block, Message, Tool, ToolCall, ToolResult};

use super::catalog::Catalog;
use crate::search::{Similarities, first_sentence};
use crate::settings::{AgentSettings, ContextSettings, SearchSettings};

/// Names of the search tool. The first name that no other tool has is used.
const SEARCH_NAMES: [&str; 3] = ["search_tools", "search_all_tools", "toolwire_search_tools"];

/// The key in the `_meta` of a search result with the names of the tools found.
const FOUND_TOOLS: &str = "toolwire/found";

/// Selects the tools of each request.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct OfferedTools {
    /// The tools that were found or called, in the order of their first use.
    in_use: Vec<String>,
    /// For each of them, the value of `uses` when it was last found or called.
    last_use: BTreeMap<String, u64>,
    uses: u64,
    /// The name of the search tool in the last request.
    search_name: Option<String>,
    /// The similarities of the tools to each query of the response that is being handled.
    #[serde(skip)]
    similarities: HashMap<String, Similarities>,
    #[serde(skip)]
    cached: Option<CachedList>,
}

/// The last list, with everything that it depends on.
#[derive(Clone, Debug)]
struct CachedList {
    catalog: Catalog,
    in_use_count: usize,
    settings: (SearchSettings, ContextSettings),
    client_tools: Arc<[Tool]>,
    tools: Arc<[Tool]>,
    recent: Arc<[String]>,
    tokens: u64,
}

impl OfferedTools {
    /// Returns the tools of the next request. The list is the same one as before if nothing has changed.
    pub(super) fn list(&mut self, catalog: &Catalog, settings: &AgentSettings) -> Arc<[Tool]> {
        if let Some(cached) = &self.cached
            && cached.catalog.is_same(catalog)
            && cached.in_use_count == self.in_use.len()
            && cached.settings.0 == settings.search
            && cached.settings.1 == settings.context
            && Arc::ptr_eq(&cached.client_tools, &settings.client_tools)
        {
            return cached.tools.clone();
        }
        let needs_search = catalog.needs_search(settings);
        let tools: Arc<[Tool]> = if needs_search {
            let name = free_search_name(catalog, settings);
            self.search_name = Some(name.to_owned());
            self.remove_least_recently_used(catalog, settings);
            // If only some tools are deferred, all others are listed.
            let is_partial = !catalog.is_too_large(settings);
            let is_listed = |tool: &&Tool| is_partial && !settings.search.is_deferred(tool);
            let always = catalog.tools().iter().filter(is_listed);
            let in_use = self.in_use.iter().filter_map(|name| catalog.listed(name));
            let in_use = always.chain(in_use.filter(|tool| !is_listed(tool))).cloned();
            let max_tools = catalog.limits().tools.unwrap_or(usize::MAX);
            let search_tool = search_tool(name, catalog.tools().len());
            let in_use = in_use.filter(|tool| !settings.is_client_tool(&tool.name));
            let client_tools = settings.client_tools.iter().cloned();
            client_tools.chain([search_tool]).chain(in_use).take(max_tools).collect()
        } else {
            self.search_name = None;
            if settings.client_tools.is_empty() {
                catalog.tools().clone()
            } else {
                let own = catalog.tools().iter().filter(|tool| !settings.is_client_tool(&tool.name));
                settings.client_tools.iter().chain(own).cloned().collect()
            }
        };
        let is_catalog = Arc::ptr_eq(&tools, catalog.tools());
        let tokens =
            if is_catalog { catalog.tokens() } else { tools.iter().map(Tool::estimated_tokens).sum() };
        self.cached = Some(CachedList {
            catalog: catalog.clone(),
            in_use_count: self.in_use.len(),
            settings: (settings.search.clone(), settings.context.clone()),
            client_tools: settings.client_tools.clone(),
            tools: tools.clone(),
            recent: self.most_recent_first(),
            tokens,
        });
        tools
    }

    /// Returns the tools that were found or called before the last list was made, the most recent first. Like
    /// the list, it changes only if another tool is used, so that prompt caches stay valid.
    pub(super) fn recent(&self) -> Arc<[String]> {
        self.cached.as_ref().map(|cached| cached.recent.clone()).unwrap_or_default()
    }

    fn most_recent_first(&self) -> Arc<[String]> {
        let mut names: Vec<(&String, &u64)> = self.last_use.iter().collect();
        names.sort_by_key(|(_, used)| std::cmp::Reverse(**used));
        names.into_iter().map(|(name, _)| name.clone()).collect()
    }

    /// Returns the size of the last list in tokens.
    pub(super) fn tokens(&self) -> u64 {
        self.cached.as_ref().map_or(0, |cached| cached.tokens)
    }

    pub(super) fn is_search_tool(&self, name: &str) -> bool {
        self.search_name.as_deref() == Some(name)
    }

    /// Returns the queries of the calls of the search tool.
    pub(super) fn queries<'c>(&self, calls: impl Iterator<Item = &'c ToolCall>) -> Vec<String> {
        calls.filter(|call| self.is_search_tool(&call.name)).filter_map(query_of).map(str::to_owned).collect()
    }

    pub(super) fn set_similarities(&mut self, similarities: HashMap<String, Similarities>) {
        self.similarities = similarities;
    }

    /// Performs a call of the search tool. The following requests contain the tools found.
    pub(super) fn search(
        &mut self,
        catalog: &Catalog,
        call: &ToolCall,
        settings: &AgentSettings,
    ) -> ToolResult {
        let Some(query) = query_of(call) else {
            return ToolResult::error("`query` is missing: describe in a few words what the tool should do");
        };
        let max_hits = settings.search.hits.min(max_in_use(catalog, settings)).max(1);
        let hits = match self.similarities.get(query) {
            Some(similarities) => catalog.index().search_similar(query, similarities, max_hits),
            None => catalog.index().search(query, max_hits),
        };
        if hits.is_empty() {
            return ToolResult::text(format!(
                "No tool matches `{query}`. Search again with other words, more general words or the name of the \
                 service, or continue without a tool."
            ));
        }
        let mut text = String::from("You can call these tools now:\n");
        for hit in &hits {
            let server = hit.server.map(|server| format!(" (server `{}`)", server.name)).unwrap_or_default();
            text.push_str(&format!("- {}{server}: {}\n", hit.tool.name, first_sentence(hit.tool)));
        }
        text.push_str("If none of them is suitable, search again with other words.");
        let names: Vec<&str> = hits.iter().map(|hit| hit.tool.name.as_str()).collect();
        self.mark_found(&names);
        let mut result = ToolResult::text(text);
        result.extra.insert("_meta".to_owned(), json!({FOUND_TOOLS: names}));
        result
    }

    /// Marks the tools that a search found, the best one first. It becomes the first one in the list, and the
    /// most recent one.
    fn mark_found(&mut self, names: &[&str]) {
        names.iter().chain(names.iter().rev()).for_each(|name| self.mark(name));
    }

    /// Marks a listed tool as used.
    pub(super) fn mark_used(&mut self, catalog: &Catalog, name: &str) {
        if catalog.listed(name).is_some() {
            self.mark(name);
        }
    }

    /// Marks the tools that a history calls, or that its searches found, so that the requests of a resumed
    /// conversation contain them.
    pub(super) fn mark_history(&mut self, history: &[Arc<Message>]) {
        let mut searches = HashSet::new();
        for block in history.iter().flat_map(|message| &message.content) {
            match block {
                Block::Call { id, call } if SEARCH_NAMES.contains(&&*call.name) => {
                    self.search_name = Some(call.name.clone());
                    searches.insert(id);
                }
                Block::Call { call, .. } => self.mark(&call.name),
                // Providers may use an id again for a later call.
                Block::Result { id, result } if searches.remove(id) => self.mark_found(&found_tools(result)),
                _ => {}
            }
        }
    }

    fn mark(&mut self, name: &str) {
        self.uses += 1;
        if self.last_use.insert(name.to_owned(), self.uses).is_none() {
            self.in_use.push(name.to_owned());
        }
    }

    /// If too many tools are in use, removes the least recently used half of them, so that the list then
    /// stays unchanged for some time.
    fn remove_least_recently_used(&mut self, catalog: &Catalog, settings: &AgentSettings) {
        let last_use = &mut self.last_use;
        let max = max_in_use(catalog, settings);
        if self.in_use.iter().filter(|name| catalog.listed(name).is_some()).count() <= max {
            return;
        }
        let mut newest_first: Vec<u64> = last_use.values().copied().collect();
        newest_first.sort_unstable_by(|one, other| other.cmp(one));
        let remaining = (max / 2).max(settings.search.hits.min(max));
        let oldest_remaining = newest_first.get(remaining.saturating_sub(1)).copied();
        last_use.retain(|_, used| oldest_remaining.is_some_and(|oldest| *used >= oldest));
        self.in_use.retain(|name| last_use.contains_key(name));
    }
}

/// Returns the names of the tools that a search found, from its result.
fn found_tools(result: &ToolResult) -> Vec<&str> {
    let found = result.extra.get("_meta").and_then(|meta| meta.get(FOUND_TOOLS)?.as_array());
    found.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn query_of(call: &ToolCall) -> Option<&str> {
    let query = call.arguments.as_ref()?.get("query")?.as_str()?;
    (!query.trim().is_empty()).then_some(query)
}

/// Returns how many tools a request can contain in addition to the search tool.
fn max_in_use(catalog: &Catalog, settings: &AgentSettings) -> usize {
    let limit = catalog
        .limits()
        .tools
        .map_or(usize::MAX, |limit| limit.saturating_sub(1 + settings.client_tools.len()));
    settings.search.kept.min(limit)
}

fn free_search_name(catalog: &Catalog, settings: &AgentSettings) -> &'static str {
    let is_free = |name: &&&str| catalog.listed(name).is_none() && !settings.is_client_tool(name);
    SEARCH_NAMES.iter().find(is_free).unwrap_or(&SEARCH_NAMES[2])
}

fn search_tool(name: &str, count: usize) -> Tool {
    // Rounded down, so that one tool more or less does not change the list.
    let unit = match count {
        0..10 => 1,
        10..100 => 10,
        _ => 100,
    };
    let count = count / unit * unit;
    let description = format!(
        "Finds tools by what they do. At least {count} tools are available, but only those found so far are listed. \
         Search before you say that something is impossible. In the next step, you can call the tools found."
    );
    let query = "What the tool should do, in a few words, with the name of the service if you know it";
    let schema = json!({
        "type": "object",
        "properties": {"query": {"type": "string", "description": query}},
        "required": ["query"],
        "additionalProperties": false
    });
    let annotations = json!({"readOnlyHint": true, "openWorldHint": false});
    Tool {
        description: Some(description),
        annotations: annotations.as_object().cloned(),
        ..Tool::new(name, schema)
    }
}
