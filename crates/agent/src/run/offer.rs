//! Which tools the model is shown.
//!
//! All of them, in the toolbox's order, as long as they are few. Beyond that, a tool to search for tools, and the ones
//! that were found or called: each is added at the end, so that what was there before stays byte for byte where it is.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwire_contract::{Block, Message, ModelLimits, Tool, ToolCall, ToolResult};

use crate::memory::tool_tokens;
use crate::search::{ToolIndex, first_sentence};
use crate::settings::Settings;

/// Names for the search tool, the first that is free.
const SEARCH_NAMES: [&str; 3] = ["search_tools", "search_all_tools", "toolwire_search_tools"];

/// The tools there are. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Catalog(Arc<Listed>);

#[derive(Default)]
struct Listed {
    tools: Arc<[Tool]>,
    limits: ModelLimits,
    by_name: HashMap<String, usize>,
    /// Listed once and not now. A call may still reach them, and is judged by what they said of themselves.
    gone: HashMap<String, Tool>,
    /// Of all definitions together.
    tokens: u64,
    index: OnceLock<ToolIndex>,
}

impl Catalog {
    /// The tools as they are now. What has not changed is not worked out again.
    pub(crate) fn updated(&self, tools: Arc<[Tool]>, limits: ModelLimits) -> Catalog {
        let is_same = Arc::ptr_eq(&tools, &self.0.tools) || tools == self.0.tools;
        if is_same && limits == self.0.limits {
            return self.clone();
        }
        // The first of a name wins, as a toolbox would have it.
        let mut by_name = HashMap::with_capacity(tools.len());
        for (place, tool) in tools.iter().enumerate() {
            by_name.entry(tool.name.clone()).or_insert(place);
        }
        let mut gone = self.0.gone.clone();
        gone.extend(self.0.tools.iter().map(|tool| (tool.name.clone(), tool.clone())));
        gone.retain(|name, _| !by_name.contains_key(name));
        let tokens = tools.iter().map(tool_tokens).sum();
        Catalog(Arc::new(Listed { tools, limits, by_name, gone, tokens, index: OnceLock::new() }))
    }

    pub(crate) fn limits(&self) -> ModelLimits {
        self.0.limits
    }

    /// A tool that is listed, or was.
    pub(crate) fn tool(&self, name: &str) -> Option<&Tool> {
        self.listed(name).or_else(|| self.0.gone.get(name))
    }

    fn listed(&self, name: &str) -> Option<&Tool> {
        self.0.by_name.get(name).map(|place| &self.0.tools[*place])
    }

    fn index(&self) -> &ToolIndex {
        self.0.index.get_or_init(|| ToolIndex::new(self.0.tools.clone()))
    }

    /// Work that the first search would have to wait for, if the model is going to search and it is not done.
    pub(crate) fn preparation(&self, settings: &Settings) -> Option<impl FnOnce() + Send + 'static> {
        let catalog = (self.is_too_much(settings) && self.0.index.get().is_none()).then(|| self.clone())?;
        Some(move || {
            catalog.index();
        })
    }

    fn is_too_much(&self, settings: &Settings) -> bool {
        let search = &settings.search;
        let most = self.0.limits.tools.map_or(search.tools, |most| most.min(search.tools));
        let size = settings.context.tokens.or(self.0.limits.context_tokens);
        let share = size.map(|size| size.saturating_mul(u64::from(search.percent_of_context)) / 100);
        self.0.tools.len() > most || share.is_some_and(|share| self.0.tokens > share)
    }

    fn search_name(&self) -> &'static str {
        let is_free = |name: &&&str| !self.0.by_name.contains_key(**name);
        SEARCH_NAMES.iter().find(is_free).unwrap_or(&SEARCH_NAMES[2])
    }
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Catalog({} tools)", self.0.tools.len())
    }
}

/// What the model is shown of the tools there are.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Offer {
    /// The tools that were found or called, in the order in which they came into use.
    in_use: Vec<String>,
    /// When each was last called or found, counted in such events.
    last_use: BTreeMap<String, u64>,
    uses: u64,
    /// What the search tool was called when it was last offered.
    search_name: Option<String>,
    #[serde(skip)]
    made: Option<Made>,
}

/// The list as it was last made, with what it was made of.
#[derive(Clone, Debug)]
struct Made {
    catalog: Catalog,
    in_use: usize,
    settings: (crate::settings::Search, crate::settings::Context),
    tools: Arc<[Tool]>,
    tokens: u64,
}

impl Offer {
    /// The tools for the next request: the same list while nothing changes, else the same with more at its end.
    pub(super) fn tools(&mut self, catalog: &Catalog, settings: &Settings) -> Arc<[Tool]> {
        if let Some(made) = &self.made
            && Arc::ptr_eq(&made.catalog.0, &catalog.0)
            && made.in_use == self.in_use.len()
            && made.settings.0 == settings.search
            && made.settings.1 == settings.context
        {
            return made.tools.clone();
        }
        let is_search = catalog.is_too_much(settings);
        let tools: Arc<[Tool]> = if is_search {
            let name = catalog.search_name();
            self.search_name = Some(name.to_owned());
            self.forget(catalog, settings);
            let in_use = self.in_use.iter().filter_map(|name| catalog.listed(name)).cloned();
            let most = catalog.0.limits.tools.unwrap_or(usize::MAX);
            [search_tool(name, catalog.0.tools.len())].into_iter().chain(in_use).take(most).collect()
        } else {
            self.search_name = None;
            catalog.0.tools.clone()
        };
        let tokens = if is_search { tools.iter().map(tool_tokens).sum() } else { catalog.0.tokens };
        self.made = Some(Made {
            catalog: catalog.clone(),
            in_use: self.in_use.len(),
            settings: (settings.search.clone(), settings.context.clone()),
            tools: tools.clone(),
            tokens,
        });
        tools
    }

    /// Of the list that was last given.
    pub(super) fn tokens(&self) -> u64 {
        self.made.as_ref().map_or(0, |made| made.tokens)
    }

    pub(super) fn is_search(&self, name: &str) -> bool {
        self.search_name.as_deref() == Some(name)
    }

    /// Answers a call of the search tool; what it finds is offered from now on.
    pub(super) fn search(&mut self, catalog: &Catalog, call: &ToolCall, settings: &Settings) -> ToolResult {
        let query =
            call.arguments.as_ref().and_then(|arguments| arguments.get("query")).and_then(Value::as_str);
        let Some(query) = query.filter(|query| !query.trim().is_empty()) else {
            return ToolResult::error("`query` is missing: say in a few words what the tool should do");
        };
        let room = settings.search.hits.min(room(catalog, settings)).max(1);
        let hits = catalog.index().search(query, room);
        if hits.is_empty() {
            return ToolResult::text(format!(
                "No tool fits `{query}`. Search again with other words, more general ones or the name of the service, or go \
                 on without."
            ));
        }
        let mut text = String::from("These tools can be called now:\n");
        for hit in &hits {
            text.push_str(&format!("- {}: {}\n", hit.tool.name, first_sentence(hit.tool)));
        }
        text.push_str("If none of them is right, search again with other words.");
        for hit in hits {
            self.mark(&hit.tool.name);
        }
        ToolResult::text(text)
    }

    /// A tool is called, whether it was offered or not.
    pub(super) fn use_tool(&mut self, catalog: &Catalog, name: &str) {
        if catalog.listed(name).is_some() {
            self.mark(name);
        }
    }

    /// The tools that a history calls are in use, so that a resumed conversation has them at hand.
    pub(super) fn remember(&mut self, history: &[Arc<Message>]) {
        for block in history.iter().flat_map(|message| &message.content) {
            if let Block::Call { call, .. } = block {
                if SEARCH_NAMES.contains(&&*call.name) {
                    self.search_name = Some(call.name.clone());
                } else {
                    self.mark(&call.name);
                }
            }
        }
    }

    fn mark(&mut self, name: &str) {
        self.uses += 1;
        if self.last_use.insert(name.to_owned(), self.uses).is_none() {
            self.in_use.push(name.to_owned());
        }
    }

    /// Makes room when too many are in use: half of them go, those that were used longest ago, so that the list stays
    /// as it is for a while again.
    fn forget(&mut self, catalog: &Catalog, settings: &Settings) {
        let last_use = &mut self.last_use;
        let most = room(catalog, settings);
        if self.in_use.iter().filter(|name| catalog.listed(name).is_some()).count() <= most {
            return;
        }
        let mut ages: Vec<u64> = last_use.values().copied().collect();
        ages.sort_unstable_by(|one, other| other.cmp(one));
        let oldest = ages.get((most / 2).max(settings.search.hits.min(most)).saturating_sub(1)).copied();
        last_use.retain(|_, used| oldest.is_some_and(|oldest| *used >= oldest));
        self.in_use.retain(|name| last_use.contains_key(name));
    }
}

/// How many tools can be offered beside the search tool.
fn room(catalog: &Catalog, settings: &Settings) -> usize {
    let most = catalog.0.limits.tools.map_or(usize::MAX, |most| most.saturating_sub(1));
    settings.search.kept.min(most)
}

fn search_tool(name: &str, count: usize) -> Tool {
    // The count is rounded down: a tool more or less must not change the bytes of the list.
    let about = if count >= 100 { count / 100 * 100 } else { count / 10 * 10 };
    let description = format!(
        "Finds tools by what they do. There are more than {about} tools, and only those found so far are listed. Search \
         before you say that something cannot be done; what is found can be called in the next step."
    );
    let schema = json!({
        "type": "object",
        "properties": {"query": {"type": "string", "description": "What the tool should do, in a few words, with the name of the service if it is known"}},
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
