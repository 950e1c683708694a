//! Calls in a whole Responses answer, and back into history.

use serde_json::{Map, Value, json};

use crate::calls::{
    At, CallError, CallKind, Draft, Ending, ReceivedCall, arguments_text, conclude, failure_in,
};
use crate::{Dialect, wire_id};

/// Takes a response, its list of output items, or one item.
pub(crate) fn read_calls(answer: &Value) -> Result<Vec<ReceivedCall>, CallError> {
    let answer = At::root(answer);
    if answer.value().is_array() {
        let (drafts, cut) = drafts(&answer)?;
        return conclude(drafts, cut.unwrap_or(Ending::Done));
    }
    answer.object()?;
    match answer.get("output") {
        Some(_) => read_response(&answer),
        None => {
            failure_in(&answer)?;
            let draft = draft(&answer)?;
            let cut = draft.as_ref().and_then(|_| item_cut(&answer));
            conclude(draft.into_iter().collect(), cut.unwrap_or(Ending::Done))
        }
    }
}

/// The calls of a response object.
fn read_response(response: &At<'_>) -> Result<Vec<ReceivedCall>, CallError> {
    failure_in(response)?;
    let output = response.get("output").ok_or_else(|| response.expected_under("output", "an array"))?;
    let (drafts, cut) = drafts(&output)?;
    let ending = match ending(response)? {
        Ending::Done => cut.unwrap_or(Ending::Done),
        other => other,
    };
    conclude(drafts, ending)
}

/// How a response object says it ended.
pub(super) fn ending(response: &At<'_>) -> Result<Ending, CallError> {
    Ok(match response.text("status")? {
        Some("incomplete") => {
            let details = response.get("incomplete_details");
            let reason = match &details {
                Some(details) => details.text("reason")?,
                None => None,
            };
            Ending::Cut(reason.unwrap_or("incomplete").to_owned())
        }
        Some(status @ ("failed" | "cancelled")) => Ending::Cut(status.to_owned()),
        _ => Ending::Done,
    })
}

pub(super) fn drafts(output: &At<'_>) -> Result<(Vec<Draft>, Option<Ending>), CallError> {
    let mut drafts = Vec::new();
    let mut cut = None;
    for item in output.items()? {
        if let Some(draft) = draft(&item)? {
            cut = cut.or(item_cut(&item));
            drafts.push(draft);
        }
    }
    Ok((drafts, cut))
}

/// An item of its own may say that it is not whole.
pub(super) fn item_cut(item: &At<'_>) -> Option<Ending> {
    let status = item.value().get("status")?.as_str()?;
    (status == "incomplete").then(|| Ending::Cut(status.to_owned()))
}

/// The call in an item, if the item is one of ours to answer: calls of hosted tools are the provider's own affair.
pub(super) fn draft(item: &At<'_>) -> Result<Option<Draft>, CallError> {
    item.object()?;
    let (kind, arguments_key) = match item.text("type")? {
        Some("function_call") => (CallKind::Function, "arguments"),
        Some("custom_tool_call") => (CallKind::Custom, "input"),
        _ => return Ok(None),
    };
    let mut draft = Draft {
        name: item.need_text("name")?.to_owned(),
        namespace: item.text("namespace")?.map(str::to_owned),
        kind,
        ..Draft::default()
    };
    draft.set_id(item.text("call_id")?);
    if let Some(arguments) = item.get(arguments_key) {
        draft.replace(arguments.value());
    }
    Ok(Some(draft))
}

pub(crate) fn write_calls(dialect: Dialect, calls: &[ReceivedCall]) -> Vec<Value> {
    // The item's own `id` belongs to another response and may be refused; calls pair by `call_id` alone.
    calls.iter().map(|call| Value::Object(written(dialect, call))).collect()
}

fn written(dialect: Dialect, call: &ReceivedCall) -> Map<String, Value> {
    let (item_type, key, arguments) = match (call.kind, &call.arguments) {
        (CallKind::Custom, Value::String(input)) => ("custom_tool_call", "input", input.clone()),
        _ => ("function_call", "arguments", arguments_text(call)),
    };
    let mut item = Map::new();
    item.insert("type".to_owned(), json!(item_type));
    item.insert("call_id".to_owned(), json!(wire_id(dialect, call.id.as_str())));
    if let Some(namespace) = &call.namespace {
        item.insert("namespace".to_owned(), json!(namespace));
    }
    item.insert("name".to_owned(), json!(call.name));
    item.insert(key.to_owned(), json!(arguments));
    item
}
