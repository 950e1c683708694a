//! Calls in a whole Chat Completions answer, and back into history.

use serde_json::{Value, json};

use crate::calls::{
    At, CallError, CallKind, Draft, Ending, ReceivedCall, arguments_text, conclude, failure_in,
};
use crate::{Dialect, wire_id};

pub(crate) fn read_calls(answer: &Value) -> Result<Vec<ReceivedCall>, CallError> {
    let answer = At::root(answer);
    answer.object()?;
    failure_in(&answer)?;
    let Some(choices) = answer.get("choices") else {
        return conclude(drafts(&answer)?, Ending::Done);
    };
    let Some(choice) = choices.items()?.next() else { return Ok(Vec::new()) };
    let message = choice.get("message").ok_or_else(|| choice.expected_under("message", "a message"))?;
    conclude(drafts(&message)?, ending(choice.text("finish_reason")?))
}

/// What a finish reason means for the calls beside it. vLLM says `stop` after a forced call, xAI `end_turn`, so only
/// the reasons that mean a stop against the model's will count.
pub(super) fn ending(finish_reason: Option<&str>) -> Ending {
    match finish_reason {
        Some(reason @ ("length" | "max_tokens" | "model_length" | "content_filter" | "error")) => {
            Ending::Cut(reason.to_owned())
        }
        _ => Ending::Done,
    }
}

fn drafts(message: &At<'_>) -> Result<Vec<Draft>, CallError> {
    let Some(calls) = message.get("tool_calls") else { return Ok(Vec::new()) };
    calls.items()?.map(|call| draft(&call)).collect()
}

/// One whole call: `{"id", "type", "function": {"name", "arguments"}}`.
pub(crate) fn draft(call: &At<'_>) -> Result<Draft, CallError> {
    call.object()?;
    let mut draft = Draft::default();
    take_call(call, &mut draft)?;
    if draft.name.is_empty() {
        return Err(call.expected_under("function/name", "the name of a tool"));
    }
    Ok(draft)
}

/// Adds a call, or a piece of one, to its draft.
pub(crate) fn take_call(call: &At<'_>, draft: &mut Draft) -> Result<(), CallError> {
    draft.set_id(call.text("id")?);
    let (body, arguments_key) = match (call.get("function"), call.get("custom")) {
        (None, Some(custom)) => {
            draft.kind = CallKind::Custom;
            (custom, "input")
        }
        (Some(function), _) => (function, "arguments"),
        (None, None) => return Ok(()),
    };
    body.object()?;
    if let Some(name) = body.text("name")? {
        // Some servers repeat the whole name with every piece; none repeats it once the arguments flow and means it.
        if draft.name != name && draft.has_no_arguments() {
            draft.name.push_str(name);
        }
    }
    if let Some(arguments) = body.get(arguments_key) {
        match arguments.value() {
            Value::String(piece) => draft.append(piece),
            // Mistral and some proxies write an object. Anything else is the model's to answer for, and `decode`
            // explains it to the model.
            whole => draft.replace(whole),
        }
    }
    Ok(())
}

pub(crate) fn write_calls(dialect: Dialect, calls: &[ReceivedCall]) -> Vec<Value> {
    let calls: Vec<Value> = calls.iter().map(|call| written(dialect, call)).collect();
    vec![json!({"role": "assistant", "content": null, "tool_calls": calls})]
}

fn written(dialect: Dialect, call: &ReceivedCall) -> Value {
    let id = wire_id(dialect, call.id.as_str());
    match (call.kind, &call.arguments) {
        (CallKind::Custom, Value::String(input)) => {
            json!({"id": id, "type": "custom", "custom": {"name": call.name, "input": input}})
        }
        _ => json!({
            "id": id,
            "type": "function",
            "function": {"name": call.name, "arguments": arguments_text(call)},
        }),
    }
}
