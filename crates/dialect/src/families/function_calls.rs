//! Calls in the format `{"id", "type", "function": {"name", "arguments"}}`, which several families share.

use serde_json::{Value, json};

use crate::Dialect;
use crate::request::wire_id;
use crate::response::{CallDraft, JsonCursor, ReadResult, ResponseParts};
use crate::response::{CallKind, ReceivedCall};

/// Reads an array of complete calls.
pub(super) fn read_complete_calls(calls: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
    for call in calls.items()? {
        call.object()?;
        response.require_open(&call, "no call after the end of the response")?;
        let mut draft = CallDraft::default();
        read_fragment(&call, &mut draft)?;
        if draft.name.is_empty() {
            return Err(call.error_at("function/name", "the name of a tool"));
        }
        response.begin_call(draft);
    }
    Ok(())
}

/// Adds a call, or a fragment of one, to its draft.
pub(super) fn read_fragment(call: &JsonCursor<'_>, draft: &mut CallDraft) -> ReadResult {
    draft.set_id(call.string("id")?);
    let (body, arguments_key) = match (call.get("function"), call.get("custom")) {
        (None, Some(custom)) => {
            draft.kind = CallKind::Custom;
            (custom, "input")
        }
        (Some(function), _) => (function, "arguments"),
        (None, None) => return Ok(()),
    };
    body.object()?;
    if let Some(name) = body.string("name")? {
        // Some servers repeat the complete name in every fragment. No server sends the rest of a name after
        // arguments.
        if draft.name != name && draft.has_no_arguments() {
            draft.name.push_str(name);
        }
    }
    match body.get(arguments_key).map(|arguments| arguments.value()) {
        Some(Value::String(fragment)) => draft.append_arguments(fragment),
        // Mistral and some proxies send an object. Any other value is the model's mistake, which `decode`
        // reports.
        Some(complete) => draft.set_arguments(Some(complete)),
        None => {}
    }
    Ok(())
}

pub(super) fn write_call(dialect: Dialect, call: &ReceivedCall) -> Value {
    let id = wire_id(dialect, call.id.as_str());
    match (call.kind, &call.arguments) {
        (CallKind::Custom, Value::String(input)) => {
            json!({"id": id, "type": "custom", "custom": {"name": call.name, "input": input}})
        }
        _ => json!({
            "id": id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments_text()},
        }),
    }
}
