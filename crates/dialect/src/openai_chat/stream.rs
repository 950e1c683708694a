//! Calls out of Chat Completions chunks.

use serde_json::Value;

use super::calls::{ending, take_call};
use crate::calls::{At, CallError, Draft, Drafts, Ending, ReceivedCall, conclude, failure_in};

#[derive(Debug, Default)]
pub(crate) struct Stream {
    drafts: Drafts<u64>,
    finish_reason: Option<String>,
}

impl Stream {
    pub(crate) fn drafts(&self) -> &[Draft] {
        self.drafts.as_slice()
    }

    pub(crate) fn push(&mut self, event: &Value) -> Result<(), CallError> {
        let event = At::root(event);
        event.object()?;
        failure_in(&event)?;
        // Usage, and Azure's content filter results, come in chunks without choices.
        let Some(choices) = event.get("choices") else { return Ok(()) };
        for choice in choices.items()? {
            // Other choices are other answers; one conversation follows the first.
            if choice.index("index")?.unwrap_or(0) != 0 {
                continue;
            }
            if let Some(delta) = choice.get("delta").or_else(|| choice.get("message"))
                && let Some(calls) = delta.get("tool_calls")
            {
                for call in calls.items()? {
                    self.take(&call)?;
                }
            }
            if let Some(reason) = choice.text("finish_reason")?.filter(|reason| !reason.is_empty()) {
                self.finish_reason = Some(reason.to_owned());
            }
        }
        Ok(())
    }

    fn take(&mut self, call: &At<'_>) -> Result<(), CallError> {
        call.object()?;
        if self.finish_reason.is_some() {
            return Err(call.expected("no call after the finish reason"));
        }
        let id = call.text("id")?.filter(|id| !id.is_empty());
        let body = call.get("function").or_else(|| call.get("custom"));
        let has_name = match &body {
            Some(body) => body.text("name")?.is_some_and(|name| !name.is_empty()),
            None => false,
        };
        let index = call.index("index")?;
        let current = match index {
            Some(index) => self.drafts.get(&index),
            None => self.drafts.last(),
        };
        let continues = current.is_some_and(|draft| {
            // Some compatible servers number every call 0, or none at all: another id beside a name begins a call.
            let has_other_id = has_name && id.is_some() && draft.id.is_some() && draft.id.as_deref() != id;
            let is_next = index.is_none() && has_name && !draft.has_no_arguments();
            !has_other_id && !is_next
        });
        let draft = match (index, continues) {
            (Some(index), true) => self.drafts.get(&index),
            (None, true) => self.drafts.last(),
            (Some(index), false) => Some(self.drafts.begin(index, Draft::default())),
            (None, false) if has_name => Some(self.drafts.push(Draft::default())),
            (None, false) => None,
        };
        match draft {
            Some(draft) => take_call(call, draft),
            None => Err(call.expected_under("index", "the index of a call")),
        }
    }

    pub(crate) fn finish(self) -> Result<Vec<ReceivedCall>, CallError> {
        let ending = match self.finish_reason.as_deref() {
            Some(reason) => ending(Some(reason)),
            None => Ending::missing(),
        };
        conclude(self.drafts.into_vec(), ending)
    }
}
