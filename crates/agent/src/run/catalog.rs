//! All tools that are available.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use toolwire_contract::Tool;
use toolwire_contract::model::ModelLimits;
use toolwire_contract::toolbox::ToolServer;

use crate::search::{ToolIndex, embedding_texts};
use crate::settings::AgentSettings;

/// The size of the search tool and of the list of names that it returns.
const SEARCH_TOOL_TOKENS: u64 = 400;

/// The available tools, with data that is computed once. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Catalog(Arc<CatalogInner>);

#[derive(Default)]
struct CatalogInner {
    tools: Arc<[Tool]>,
    /// The server of each tool, if it is known.
    servers: Vec<Option<ToolServer>>,
    limits: ModelLimits,
    by_name: HashMap<String, usize>,
    /// Tools that were listed before. They may still be called, and their annotations decide whether such a
    /// call needs approval.
    removed: HashMap<String, Tool>,
    /// The size of all definitions.
    tokens: u64,
    index: OnceLock<ToolIndex>,
}

impl Catalog {
    /// Returns the catalog of these tools: the same one if nothing has changed.
    pub(crate) fn updated(
        &self,
        tools: Arc<[Tool]>,
        limits: ModelLimits,
        server_of: impl Fn(&str) -> Option<ToolServer>,
    ) -> Catalog {
        let is_unchanged = Arc::ptr_eq(&tools, &self.0.tools) || tools == self.0.tools;
        if is_unchanged && limits == self.0.limits {
            return self.clone();
        }
        // If several tools have the same name, a toolbox calls the first one.
        let mut by_name = HashMap::with_capacity(tools.len());
        for (index, tool) in tools.iter().enumerate() {
            by_name.entry(tool.name.clone()).or_insert(index);
        }
        let mut removed = self.0.removed.clone();
        removed.extend(self.0.tools.iter().map(|tool| (tool.name.clone(), tool.clone())));
        removed.retain(|name, _| !by_name.contains_key(name));
        let tokens = tools.iter().map(Tool::estimated_tokens).sum();
        let servers = tools.iter().map(|tool| server_of(&tool.name)).collect();
        let index = OnceLock::new();
        Catalog(Arc::new(CatalogInner { tools, servers, limits, by_name, removed, tokens, index }))
    }

    pub(crate) fn is_same(&self, other: &Catalog) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn tools(&self) -> &Arc<[Tool]> {
        &self.0.tools
    }

    pub(super) fn limits(&self) -> ModelLimits {
        self.0.limits
    }

    /// Returns the size of all definitions in tokens.
    pub(super) fn tokens(&self) -> u64 {
        self.0.tokens
    }

    /// Returns a tool that is listed now or was listed before.
    pub(super) fn tool(&self, name: &str) -> Option<&Tool> {
        self.listed(name).or_else(|| self.0.removed.get(name))
    }

    pub(super) fn listed(&self, name: &str) -> Option<&Tool> {
        self.0.by_name.get(name).map(|index| &self.0.tools[*index])
    }

    /// Returns the text of each tool for an embedding.
    pub(crate) fn texts(&self) -> Vec<String> {
        embedding_texts(&self.0.tools, &self.0.servers)
    }

    pub(crate) fn index(&self) -> &ToolIndex {
        self.0.index.get_or_init(|| ToolIndex::with_servers(self.0.tools.clone(), &self.0.servers))
    }

    /// Returns a function that builds the search index, or `None` if the index exists or is not needed.
    pub(super) fn pending_index_build(
        &self,
        settings: &AgentSettings,
    ) -> Option<impl FnOnce() + Send + 'static> {
        let is_pending = self.needs_search(settings) && self.0.index.get().is_none();
        let catalog = is_pending.then(|| self.clone())?;
        Some(move || {
            catalog.index();
        })
    }

    /// Whether some tools are found only by a search.
    pub(super) fn needs_search(&self, settings: &AgentSettings) -> bool {
        let is_listed = |name: &String| self.listed(name).is_some();
        settings.search.deferred.iter().any(is_listed) || self.is_too_large(settings)
    }

    /// Whether there are too many tools to send all definitions. Deferred tools do not count, because they
    /// are never sent before a search finds them.
    pub(super) fn is_too_large(&self, settings: &AgentSettings) -> bool {
        let search = &settings.search;
        let (mut own, mut tokens) = (self.0.tools.len(), self.0.tokens);
        for tool in self.0.tools.iter().filter(|tool| !search.deferred.is_empty() && search.is_deferred(tool))
        {
            own -= 1;
            tokens = tokens.saturating_sub(tool.estimated_tokens());
        }
        let window = settings.context.window(self.0.limits);
        let max_tokens =
            window.map(|window| window.saturating_mul(u64::from(search.percent_of_context)) / 100);
        // The client's tools are always sent, so a search cannot replace them.
        let exceeds_limit =
            self.0.limits.tools.is_some_and(|limit| own + settings.client_tools.len() > limit);
        // A search only helps if the search tool and the tools that it finds are smaller than all tools.
        let found = SEARCH_TOOL_TOKENS + tokens * (search.hits as u64) / (own as u64).max(1);
        own > search.tools
            || exceeds_limit
            || (tokens > found && max_tokens.is_some_and(|max_tokens| tokens > max_tokens))
    }
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Catalog({} tools)", self.0.tools.len())
    }
}
