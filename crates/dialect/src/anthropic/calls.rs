//! Calls in a whole Messages answer, and back into history.

use serde_json::{Value, json};

use crate::calls::{At, CallError, Draft, Ending, ReceivedCall, arguments_object, conclude, failure_in};
use crate::{Dialect, wire_id};

pub(crate) fn read_calls(answer: &Value) -> Result<Vec<ReceivedCall>, CallError> {
    let answer = At::root(answer);
    answer.object()?;
    failure_in(&answer)?;
    let content = answer.get("content").ok_or_else(|| answer.expected_under("content", "an array"))?;
    // A message may be a bare text, and then holds no calls.
    if content.value().is_string() {
        return Ok(Vec::new());
    }
    let mut drafts = Vec::new();
    for block in content.items()? {
        drafts.extend(draft(&block)?);
    }
    conclude(drafts, ending(answer.text("stop_reason")?))
}

pub(super) fn ending(stop_reason: Option<&str>) -> Ending {
    match stop_reason {
        Some(reason @ ("max_tokens" | "model_context_window_exceeded" | "refusal")) => {
            Ending::Cut(reason.to_owned())
        }
        _ => Ending::Done,
    }
}

/// The call in a block, if it is one of ours to answer: `server_tool_use` and `mcp_tool_use` run at the provider.
pub(super) fn draft(block: &At<'_>) -> Result<Option<Draft>, CallError> {
    block.object()?;
    if block.text("type")? != Some("tool_use") {
        return Ok(None);
    }
    let mut draft = Draft { name: block.need_text("name")?.to_owned(), ..Draft::default() };
    draft.set_id(block.text("id")?);
    if let Some(input) = block.get("input") {
        draft.replace(input.value());
    }
    Ok(Some(draft))
}

pub(crate) fn write_calls(dialect: Dialect, calls: &[ReceivedCall]) -> Vec<Value> {
    let blocks: Vec<Value> = calls
        .iter()
        .map(|call| {
            json!({
                "type": "tool_use",
                "id": wire_id(dialect, call.id.as_str()),
                "name": call.name,
                "input": arguments_object(call),
            })
        })
        .collect();
    vec![json!({"role": "assistant", "content": blocks})]
}
