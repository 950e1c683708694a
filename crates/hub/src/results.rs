//! Results within a budget, and the tool that reads the rest.

use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use toolwire_contract::{CallError, Tool, ToolResult};
use toolwire_dialect::Checker;

use crate::spill::{Budget, Spill, fit};

/// The hub's own tool.
pub(crate) const READ_RESULT: &str = "read_result";

/// Kept results are removed after a day, or when they take more room than this.
const AGE: Duration = Duration::from_secs(24 * 3600);
const ROOM: u64 = 1 << 30;
/// Characters of a page, if nothing else is asked for.
const PAGE: u64 = 20_000;
const LONGEST_PAGE: u64 = 100_000;

/// What becomes of results.
pub(crate) struct Results {
    budget: Option<Budget>,
    spill: Option<Spill>,
}

impl Results {
    pub(crate) fn new(budget: Option<Budget>, folder: Option<&Path>) -> Results {
        let spill = folder.filter(|_| budget.is_some()).map(|folder| Spill::new(folder.join("results")));
        if let Some(spill) = &spill
            && let Err(error) = spill.clean(AGE, ROOM, SystemTime::now())
        {
            tracing::warn!(target: "toolwire::hub", "old results cannot be removed: {error}");
        }
        Results { budget, spill }
    }

    /// The tool that reads what was kept, if anything is.
    pub(crate) fn tool(&self) -> Option<Tool> {
        self.spill.as_ref()?;
        let mut tool = Tool::new(READ_RESULT, schema());
        tool.description = Some(
            "Read on in a result that was cut because it is too long. The mark at the cut names the id."
                .to_owned(),
        );
        tool.annotations = json!({"readOnlyHint": true}).as_object().cloned();
        Some(tool)
    }

    /// The result within its budget. What is cut off is kept, where there is a place for it.
    pub(crate) async fn hand_on(&self, result: ToolResult) -> ToolResult {
        let Some(budget) = &self.budget else { return result };
        let id = Spill::fresh_id();
        let fitted = fit(result, budget, &id);
        if let (Some(whole), Some(spill)) = (fitted.whole, self.spill.clone()) {
            let kept = tokio::task::spawn_blocking(move || spill.keep(&id, &whole)).await;
            if !matches!(kept, Ok(Ok(()))) {
                tracing::warn!(target: "toolwire::hub", "a result over the budget could not be kept: {kept:?}");
            }
        }
        fitted.result
    }

    /// Answers a call of [`READ_RESULT`].
    pub(crate) async fn read(&self, arguments: &Value) -> Result<ToolResult, CallError> {
        let arguments = Checker::new(&schema()).check(READ_RESULT, arguments).map_err(|error| {
            CallError::InvalidArguments { tool: READ_RESULT.to_owned(), problem: error.problem() }
        })?;
        let arguments = Value::Object(arguments.arguments);
        let number = |key: &str, otherwise: u64| arguments[key].as_u64().unwrap_or(otherwise);
        let id = arguments["id"].as_str().unwrap_or_default().to_owned();
        let (offset, length) = (number("offset", 0), number("length", PAGE).min(LONGEST_PAGE));
        let Some(spill) = self.spill.clone() else {
            return Err(CallError::UnknownTool {
                tool: READ_RESULT.to_owned(),
                nearest: Vec::new(),
                missing: Vec::new(),
            });
        };
        let (offset, length) = (usize::try_from(offset).unwrap_or(usize::MAX), length as usize);
        let page = tokio::task::spawn_blocking(move || spill.read(&id, offset, length)).await;
        Ok(match page {
            Ok(Ok(page)) => {
                let end = page.offset + page.text.chars().count();
                let rest = match page.next {
                    Some(next) => {
                        format!("\n[characters {}-{end} of {}; next offset {next}]", page.offset, page.total)
                    }
                    None => format!("\n[characters {}-{end} of {}; the end]", page.offset, page.total),
                };
                ToolResult::text(page.text + &rest)
            }
            Ok(Err(error)) => ToolResult::error(error.to_string()),
            Err(_) => ToolResult::error("the kept result could not be read"),
        })
    }
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "The id that the mark names"},
            "offset": {"type": "integer", "minimum": 0, "description": "The first character to read"},
            "length": {"type": "integer", "minimum": 1, "description": "How many characters, at most 100000"}
        },
        "required": ["id"],
        "additionalProperties": false
    })
}
