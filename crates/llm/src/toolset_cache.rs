//! Caches converted tools between requests.

use std::sync::{Arc, Mutex, PoisonError};

use toolwire_contract::Tool;
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

type CacheEntry = (Arc<[Tool]>, Arc<Toolset>);

impl ToolsetCache {
    /// Returns the tools in the dialect, converting them if they are not cached.
    pub(crate) async fn convert(&self, tools: &Arc<[Tool]>, dialect: Dialect) -> Arc<Toolset> {
        if let Some(cached) = self.find(tools) {
            return cached;
        }
        let convert = {
            let tools = tools.clone();
            move || Arc::new(Toolset::new(&tools, dialect, &Options::default()))
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
        self.insert(tools.clone(), toolset.clone());
        toolset
    }

    fn find(&self, tools: &Arc<[Tool]>) -> Option<Arc<Toolset>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let same = entries.iter().position(|(other, _)| Arc::ptr_eq(other, tools));
        let found = same.or_else(|| entries.iter().position(|(other, _)| other == tools))?;
        let entry = entries.remove(found);
        let toolset = entry.1.clone();
        entries.push(entry);
        Some(toolset)
    }

    fn insert(&self, tools: Arc<[Tool]>, toolset: Arc<Toolset>) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= MAX_CACHED_TOOLSETS {
            entries.remove(0);
        }
        entries.push((tools, toolset));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tools(count: usize) -> Arc<[Tool]> {
        (0..count).map(|number| Tool::new(format!("tool_{number}"), json!({"type": "object"}))).collect()
    }

    #[tokio::test]
    async fn the_same_tools_are_converted_once() {
        let cache = ToolsetCache::default();
        for count in [2, MAX_TOOLS_CONVERTED_INLINE + 1] {
            let first = cache.convert(&tools(count), Dialect::OpenAi).await;
            let equal = cache.convert(&tools(count), Dialect::OpenAi).await;
            assert!(Arc::ptr_eq(&first, &equal));
            assert_eq!(first.definitions().len(), count);
        }
    }

    #[tokio::test]
    async fn the_least_recently_used_list_is_removed() {
        let cache = ToolsetCache::default();
        let first = cache.convert(&tools(1), Dialect::OpenAi).await;
        let second = cache.convert(&tools(2), Dialect::OpenAi).await;
        for count in [3, 1, 4, 5] {
            cache.convert(&tools(count), Dialect::OpenAi).await;
        }
        assert!(Arc::ptr_eq(&first, &cache.convert(&tools(1), Dialect::OpenAi).await));
        assert!(!Arc::ptr_eq(&second, &cache.convert(&tools(2), Dialect::OpenAi).await));
    }
}
