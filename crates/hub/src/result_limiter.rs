//! Limits results to a budget, and provides the tool that reads the rest.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use toolwire_contract::toolbox::CallError;
use toolwire_contract::{Tool, ToolResult};
use toolwire_dialect::arguments::Checker;

use crate::result_store::{ResultBudget, ResultStore, truncate_result};

/// The hub's own tool.
pub(crate) const READ_RESULT: &str = "read_result";

/// Stored results are removed after this time, or when all of them exceed the size.
const MAX_STORED_AGE: Duration = Duration::from_secs(24 * 3600);
const MAX_STORED_BYTES: u64 = 1 << 30;

const DEFAULT_PAGE_CHARS: u64 = 20_000;
const MAX_PAGE_CHARS: u64 = 100_000;

pub(crate) struct ResultLimiter {
    budget: Option<ResultBudget>,
    store: Option<ResultStore>,
    /// Whether a result was truncated. A model that gets [`READ_RESULT`] earlier calls it without need.
    has_truncated: AtomicBool,
}

impl ResultLimiter {
    pub(crate) fn new(budget: Option<ResultBudget>, data_folder: Option<&Path>) -> ResultLimiter {
        let folder = data_folder.filter(|_| budget.is_some());
        let store = folder.map(|folder| ResultStore::new(folder.join("results")));
        if let Some(store) = &store
            && let Err(error) = store.clean(MAX_STORED_AGE, MAX_STORED_BYTES, SystemTime::now())
        {
            tracing::warn!(target: "toolwire::hub", "cannot remove old results: {error}");
        }
        ResultLimiter { budget, store, has_truncated: AtomicBool::new(false) }
    }

    /// Returns the store of truncated results, if there is one.
    pub(crate) fn store(&self) -> Option<&ResultStore> {
        self.store.as_ref()
    }

    /// Records that there is a truncated result to read. Returns whether it is the first one.
    pub(crate) fn record_truncated(&self) -> bool {
        self.store.is_some() && !self.has_truncated.swap(true, Ordering::Relaxed)
    }

    /// Returns the tool that reads stored results, once there is one to read.
    pub(crate) fn tool(&self) -> Option<Tool> {
        self.store.as_ref().filter(|_| self.has_truncated.load(Ordering::Relaxed))?;
        let mut tool = Tool::new(READ_RESULT, schema());
        tool.description = Some(
            "Read more of a result that was truncated because it is too long. The note at its end contains the id."
                .to_owned(),
        );
        tool.annotations = json!({"readOnlyHint": true}).as_object().cloned();
        Some(tool)
    }

    /// Cuts a result to the budget, and stores the full text for its owner if there is a store. Returns the
    /// result, and whether it is the first one that was truncated.
    pub(crate) async fn limit(&self, result: ToolResult, owner: Option<&str>) -> (ToolResult, bool) {
        let Some(budget) = &self.budget else { return (result, false) };
        let id = ResultStore::new_id();
        let truncated = truncate_result(result, budget, &id);
        let is_first = truncated.full_text.is_some() && self.record_truncated();
        if let (Some(full_text), Some(store)) = (truncated.full_text, self.store.as_ref()) {
            let store = store.of(owner);
            let stored = tokio::task::spawn_blocking(move || store.store(&id, &full_text)).await;
            if let Err(error) = stored.unwrap_or_else(|error| Err(error.into())) {
                tracing::warn!(target: "toolwire::hub", "cannot store a truncated result: {error}");
            }
        }
        (truncated.result, is_first)
    }
}

/// Runs a call of [`READ_RESULT`].
pub(crate) async fn read_result(
    store: &ResultStore,
    owner: Option<&str>,
    arguments: &Value,
) -> Result<ToolResult, CallError> {
    let arguments = Checker::new(&schema()).check(READ_RESULT, arguments).map_err(|error| {
        CallError::InvalidArguments { tool: READ_RESULT.to_owned(), problem: error.problem() }
    })?;
    let arguments = Value::Object(arguments.arguments);
    let number = |key: &str, default: u64| arguments[key].as_u64().unwrap_or(default);
    let id = arguments["id"].as_str().unwrap_or_default().to_owned();
    let offset = usize::try_from(number("offset", 0)).unwrap_or(usize::MAX);
    let length = number("length", DEFAULT_PAGE_CHARS).min(MAX_PAGE_CHARS) as usize;
    let store = store.of(owner);
    let page = tokio::task::spawn_blocking(move || store.read(&id, offset, length)).await;
    Ok(match page {
        Ok(Ok(page)) => {
            let end = page.offset + page.text.chars().count();
            let position = match page.next {
                Some(next) => format!("next offset {next}"),
                None => "end of the result".to_owned(),
            };
            let footer = format!("\n[characters {}-{end} of {}; {position}]", page.offset, page.total);
            ToolResult::text(page.text + &footer)
        }
        Ok(Err(error)) => ToolResult::error(error.to_string()),
        Err(_) => ToolResult::error("the stored result could not be read"),
    })
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "The id in the note at the end of the truncated result"},
            "offset": {"type": "integer", "minimum": 0, "description": "The first character to read"},
            "length": {
                "type": "integer",
                "minimum": 1,
                "description": "The number of characters to read, at most 100000"
            }
        },
        "required": ["id"],
        "additionalProperties": false
    })
}
