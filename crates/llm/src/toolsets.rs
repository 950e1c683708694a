//! Tools bound to the endpoint's dialect, kept from request to request.

use std::sync::{Arc, Mutex, PoisonError};

use toolwire_contract::Tool;
use toolwire_dialect::{Dialect, Options, Status, Toolset};

/// How many lists of tools are remembered: a conversation has one, and a search for tools changes it now and then.
const REMEMBERED: usize = 4;

/// More are converted on a thread of their own, since they take milliseconds.
const MANY: usize = 100;

/// The lists of tools that were asked with last, as the dialect says them.
#[derive(Debug, Default)]
pub(crate) struct Toolsets {
    /// The newest last.
    known: Mutex<Vec<Known>>,
}

type Known = (Arc<[Tool]>, Arc<Toolset>);

impl Toolsets {
    pub(crate) async fn bind(&self, tools: &Arc<[Tool]>, dialect: Dialect) -> Arc<Toolset> {
        if let Some(known) = self.find(tools) {
            return known;
        }
        let convert = {
            let tools = tools.clone();
            move || Arc::new(Toolset::new(&tools, dialect, &Options::default()))
        };
        let toolset = if tools.len() > MANY {
            let converting = tokio::task::spawn_blocking(convert.clone());
            converting.await.unwrap_or_else(|_| convert())
        } else {
            convert()
        };
        for report in toolset.reports().iter().filter(|report| report.status == Status::Refused) {
            let reason = report.reason.as_ref().map(|reason| reason.message.as_str());
            tracing::warn!(tool = report.tool, dialect = %dialect, reason, "a tool is not offered to the model");
        }
        self.remember(tools.clone(), toolset.clone());
        toolset
    }

    fn find(&self, tools: &Arc<[Tool]>) -> Option<Arc<Toolset>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let same = known.iter().position(|(other, _)| Arc::ptr_eq(other, tools));
        let found = same.or_else(|| known.iter().position(|(other, _)| other == tools))?;
        let entry = known.remove(found);
        let toolset = entry.1.clone();
        known.push(entry);
        Some(toolset)
    }

    fn remember(&self, tools: Arc<[Tool]>, toolset: Arc<Toolset>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.remove(0);
        }
        known.push((tools, toolset));
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
        let toolsets = Toolsets::default();
        for count in [2, MANY + 1] {
            let first = toolsets.bind(&tools(count), Dialect::OpenAi).await;
            let equal = toolsets.bind(&tools(count), Dialect::OpenAi).await;
            assert!(Arc::ptr_eq(&first, &equal));
            assert_eq!(first.definitions().len(), count);
        }
    }

    #[tokio::test]
    async fn the_list_that_was_not_used_for_the_longest_time_is_forgotten() {
        let toolsets = Toolsets::default();
        let first = toolsets.bind(&tools(1), Dialect::OpenAi).await;
        let second = toolsets.bind(&tools(2), Dialect::OpenAi).await;
        for count in [3, 1, 4, 5] {
            toolsets.bind(&tools(count), Dialect::OpenAi).await;
        }
        assert!(Arc::ptr_eq(&first, &toolsets.bind(&tools(1), Dialect::OpenAi).await));
        assert!(!Arc::ptr_eq(&second, &toolsets.bind(&tools(2), Dialect::OpenAi).await));
    }
}
