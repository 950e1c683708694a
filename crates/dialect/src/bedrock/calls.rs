//! Calls in a Converse answer, whole and streamed, and back into history.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::calls::{
    At, CallError, Draft, Drafts, Ending, ReceivedCall, arguments_object, conclude, failure_in,
};
use crate::{Dialect, wire_id};

pub(crate) fn read_calls(answer: &Value) -> Result<Vec<ReceivedCall>, CallError> {
    let answer = At::root(answer);
    answer.object()?;
    failure_in(&answer)?;
    let ending = ending(answer.text("stopReason")?);
    let output = answer.get("output");
    let message = output.as_ref().and_then(|output| output.get("message"));
    let message = message.as_ref().unwrap_or(&answer);
    let content = message.get("content").ok_or_else(|| message.expected_under("content", "an array"))?;
    let mut drafts = Vec::new();
    for block in content.items()? {
        if let Some(call) = block.get("toolUse") {
            drafts.extend(draft(&call)?);
        }
    }
    conclude(drafts, ending)
}

fn ending(stop_reason: Option<&str>) -> Ending {
    match stop_reason {
        Some(
            reason @ ("max_tokens"
            | "model_context_window_exceeded"
            | "guardrail_intervened"
            | "content_filtered"),
        ) => Ending::Cut(reason.to_owned()),
        Some(reason @ ("malformed_tool_use" | "malformed_model_output")) => {
            Ending::Failed { reason: reason.to_owned(), message: None }
        }
        _ => Ending::Done,
    }
}

/// The call in a `toolUse`, unless the provider runs it.
fn draft(call: &At<'_>) -> Result<Option<Draft>, CallError> {
    call.object()?;
    if call.text("type")? == Some("server_tool_use") {
        return Ok(None);
    }
    let mut draft = Draft { name: call.need_text("name")?.to_owned(), ..Draft::default() };
    draft.set_id(call.text("toolUseId")?);
    if let Some(input) = call.get("input") {
        draft.replace(input.value());
    }
    Ok(Some(draft))
}

/// Collects calls from Converse events, each an object with the event's name as its one key.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    drafts: Drafts<u64>,
    /// Blocks that began with a call the provider runs.
    others: BTreeSet<u64>,
    stop_reason: Option<String>,
}

impl Stream {
    pub(crate) fn drafts(&self) -> &[Draft] {
        self.drafts.as_slice()
    }

    pub(crate) fn push(&mut self, event: &Value) -> Result<(), CallError> {
        let event = At::root(event);
        failure_in(&event)?;
        for (name, body) in event.object()? {
            if name.ends_with("Exception") {
                let message = body.get("message").and_then(Value::as_str).unwrap_or(name);
                return Err(CallError::ErrorAnswer { message: message.to_owned() });
            }
        }
        if let Some(start) = event.get("contentBlockStart") {
            self.begin(&start)?;
        }
        if let Some(delta) = event.get("contentBlockDelta") {
            self.append(&delta)?;
        }
        if let Some(stop) = event.get("messageStop")
            && let Some(reason) = stop.text("stopReason")?
        {
            self.stop_reason = Some(reason.to_owned());
        }
        Ok(())
    }

    fn begin(&mut self, event: &At<'_>) -> Result<(), CallError> {
        let start = event.get("start");
        let Some(call) = start.as_ref().and_then(|start| start.get("toolUse")) else { return Ok(()) };
        let index = index_of(event)?;
        if self.stop_reason.is_some() {
            return Err(event.expected("no block after the stop reason"));
        }
        if self.drafts.get(&index).is_some() || self.others.contains(&index) {
            return Err(event.expected_under("contentBlockIndex", "an index that no other block has"));
        }
        match draft(&call)? {
            Some(draft) => {
                self.drafts.begin(index, draft);
            }
            None => {
                self.others.insert(index);
            }
        }
        Ok(())
    }

    fn append(&mut self, event: &At<'_>) -> Result<(), CallError> {
        let delta = event.get("delta");
        let Some(call) = delta.as_ref().and_then(|delta| delta.get("toolUse")) else { return Ok(()) };
        let index = index_of(event)?;
        let piece = call.text("input")?.unwrap_or_default();
        match self.drafts.get(&index) {
            Some(_) if self.stop_reason.is_some() => Err(event.expected("no input after the stop reason")),
            Some(draft) => {
                draft.append(piece);
                Ok(())
            }
            None if self.others.contains(&index) => Ok(()),
            None => Err(event.expected_under("contentBlockIndex", "the index of a block that began")),
        }
    }

    pub(crate) fn finish(self) -> Result<Vec<ReceivedCall>, CallError> {
        let ending = match self.stop_reason.as_deref() {
            Some(reason) => ending(Some(reason)),
            None => Ending::missing(),
        };
        let mut drafts = self.drafts.into_vec();
        for draft in &mut drafts {
            draft.parse_text();
        }
        conclude(drafts, ending)
    }
}

fn index_of(event: &At<'_>) -> Result<u64, CallError> {
    event
        .index("contentBlockIndex")?
        .ok_or_else(|| event.expected_under("contentBlockIndex", "the index of a block"))
}

pub(crate) fn write_calls(dialect: Dialect, calls: &[ReceivedCall]) -> Vec<Value> {
    let blocks: Vec<Value> = calls
        .iter()
        .map(|call| {
            json!({"toolUse": {
                "toolUseId": wire_id(dialect, call.id.as_str()),
                "name": call.name,
                "input": arguments_object(call),
            }})
        })
        .collect();
    vec![json!({"role": "assistant", "content": blocks})]
}
