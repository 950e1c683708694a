//! Caches converted tools between requests.

use std::sync::{Arc, Mutex, PoisonError};

use toolwire_contract::Tool;
use toolwire_contract::model::ModelRequest;
use toolwire_dialect::{Dialect, Options, Status, Toolset};

/// The number of tool lists that are cached. A conversation usually has one; a tool search changes it
/// occasionally.
const MAX_CACHED_TOOLSETS: usize = 4;

/// Longer lists are converted on a blocking thread, since that takes milliseconds.
const MAX_TOOLS_CONVERTED_INLINE: usize = 100;

/// The most recently used tool lists, converted to the dialect of the endpoint.
#[derive(Debug, Default)]
pub(crate) struct ToolsetCache {
    /// The most recently used entry is last.
    entries: Mutex<Vec<CacheEntry>>,
}

/// A conversion, and what it was made from.
#[derive(Debug)]
struct CacheEntry {
    tools: Arc<[Tool]>,
    /// Empty unless the dialect depends on it.
    recent_tools: Arc<[String]>,
    toolset: Arc<Toolset>,
}

impl ToolsetCache {
    /// Returns the tools of a request in the dialect, converting them if they are not cached. A client's
    /// tools that are sent unchanged need no conversion, so the tools of a gateway are converted once for all
    /// clients.
    pub(crate) async fn convert(&self, request: &ModelRequest, dialect: Dialect) -> Arc<Toolset> {
        let recent_tools = match dialect {
            Dialect::AnthropicStrict => request.recent_tools.clone(),
            _ => Arc::default(),
        };
        if let Some(cached) = self.find(request, &recent_tools) {
            return cached;
        }
        let tools: Arc<[Tool]> = match request.verbatim {
            Some(_) => converted(request).cloned().collect(),
            None => request.tools.clone(),
        };
        let convert = {
            let (tools, recent_tools) = (tools.clone(), recent_tools.to_vec());
            move || {
                let options = Options::default().with_recent_tools(recent_tools);
                Arc::new(Toolset::new(&tools, dialect, &options))
            }
        };
        let toolset = if tools.len() > MAX_TOOLS_CONVERTED_INLINE {
            let conversion = tokio::task::spawn_blocking(convert.clone());
            conversion.await.unwrap_or_else(|_| convert())
        } else {
            convert()
        };
        for report in toolset.reports().iter().filter(|report| report.status == Status::Refused) {
            let reason = report.reason.as_ref().map(|reason| reason.message.as_str());
            tracing::warn!(tool = report.tool, dialect = %dialect, reason, "a tool is not offered to the model");
        }
        self.insert(CacheEntry { tools, recent_tools, toolset: toolset.clone() });
        toolset
    }

    fn find(&self, request: &ModelRequest, recent_tools: &Arc<[String]>) -> Option<Arc<Toolset>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        // With a client's own definitions, only a part of the same list is converted.
        let is_whole_list =
            |tools: &Arc<[Tool]>| request.verbatim.is_none() && Arc::ptr_eq(tools, &request.tools);
        let found = entries.iter().rposition(|entry| {
            entry.recent_tools == *recent_tools
                && (is_whole_list(&entry.tools) || entry.tools.iter().eq(converted(request)))
        })?;
        let entry = entries.remove(found);
        let toolset = entry.toolset.clone();
        entries.push(entry);
        Some(toolset)
    }

    fn insert(&self, entry: CacheEntry) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= MAX_CACHED_TOOLSETS {
            entries.remove(0);
        }
        entries.push(entry);
    }
}

/// Returns the tools of a request that are not sent as a client defined them.
fn converted(request: &ModelRequest) -> impl Iterator<Item = &Tool> {
    let is_client =
        |tool: &&Tool| request.verbatim.as_ref().is_some_and(|verbatim| verbatim.tool(&tool.name).is_some());
    request.tools.iter().filter(move |tool| !is_client(tool))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolwire_contract::model::VerbatimRequest;

    use super::*;

    fn request(count: usize) -> ModelRequest {
        let tool = |number| Tool::new(format!("tool_{number}"), json!({"type": "object"}));
        ModelRequest { tools: (0..count).map(tool).collect(), ..ModelRequest::default() }
    }

    #[tokio::test]
    async fn tools_that_were_used_are_strict_first() {
        let cache = ToolsetCache::default();
        let closed = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
            "additionalProperties": false});
        let mut request = ModelRequest {
            tools: (0..30).map(|number| Tool::new(format!("tool_{number}"), closed.clone())).collect(),
            ..ModelRequest::default()
        };
        let strict = |toolset: &Toolset, index: usize| toolset.definitions()[index]["strict"] == json!(true);
        let before = cache.convert(&request, Dialect::AnthropicStrict).await;
        assert!(strict(&before, 0) && !strict(&before, 29));
        request.recent_tools = Arc::new(["tool_29".to_owned()]);
        let after = cache.convert(&request, Dialect::AnthropicStrict).await;
        assert!(strict(&after, 0) && strict(&after, 29));
        let again = cache.convert(&request, Dialect::AnthropicStrict).await;
        assert!(Arc::ptr_eq(&after, &again));
    }

    #[tokio::test]
    async fn the_same_tools_are_converted_once() {
        let cache = ToolsetCache::default();
        for count in [2, MAX_TOOLS_CONVERTED_INLINE + 1] {
            let first = cache.convert(&request(count), Dialect::OpenAi).await;
            let equal = cache.convert(&request(count), Dialect::OpenAi).await;
            assert!(Arc::ptr_eq(&first, &equal));
            assert_eq!(first.definitions().len(), count);
        }
    }

    #[tokio::test]
    async fn tools_of_clients_are_not_converted() {
        let cache = ToolsetCache::default();
        let mut toolsets = Vec::new();
        for number in 0..10 {
            let name = format!("client_{number}");
            let verbatim = VerbatimRequest {
                tools: vec![(name.clone(), "{}".to_owned())],
                ..VerbatimRequest::default()
            };
            let own = request(2);
            let tools = own.tools.iter().cloned();
            let request = ModelRequest {
                tools: [Tool::new(name, json!({"type": "object"}))].into_iter().chain(tools).collect(),
                verbatim: Some(Arc::new(verbatim)),
                ..own
            };
            toolsets.push(cache.convert(&request, Dialect::OpenAi).await);
        }
        assert_eq!(toolsets[0].definitions().len(), 2);
        assert!(toolsets.iter().all(|toolset| Arc::ptr_eq(toolset, &toolsets[0])));
    }

    #[tokio::test]
    async fn a_list_that_was_converted_whole_is_not_used_with_a_client_s_definitions() {
        let cache = ToolsetCache::default();
        let whole = request(2);
        assert_eq!(cache.convert(&whole, Dialect::OpenAi).await.definitions().len(), 2);
        let verbatim = VerbatimRequest {
            tools: vec![("tool_0".to_owned(), "{}".to_owned())],
            ..VerbatimRequest::default()
        };
        let request = ModelRequest { verbatim: Some(Arc::new(verbatim)), ..whole };
        assert_eq!(cache.convert(&request, Dialect::OpenAi).await.definitions().len(), 1);
    }

    #[tokio::test]
    async fn the_least_recently_used_list_is_removed() {
        let cache = ToolsetCache::default();
        let first = cache.convert(&request(1), Dialect::OpenAi).await;
        let second = cache.convert(&request(2), Dialect::OpenAi).await;
        for count in [3, 1, 4, 5] {
            cache.convert(&request(count), Dialect::OpenAi).await;
        }
        assert!(Arc::ptr_eq(&first, &cache.convert(&request(1), Dialect::OpenAi).await));
        assert!(!Arc::ptr_eq(&second, &cache.convert(&request(2), Dialect::OpenAi).await));
    }
}
