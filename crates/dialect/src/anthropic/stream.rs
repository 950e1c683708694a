//! Calls out of Messages events.

use std::collections::BTreeSet;

use serde_json::Value;

use super::calls::{draft, ending};
use crate::calls::{At, CallError, Draft, Drafts, Ending, ReceivedCall, conclude, failure_in};

#[derive(Debug, Default)]
pub(crate) struct Stream {
    drafts: Drafts<u64>,
    /// Blocks that began and are no calls of ours; some of them stream JSON too.
    others: BTreeSet<u64>,
    stop_reason: Option<String>,
}

impl Stream {
    pub(crate) fn drafts(&self) -> &[Draft] {
        self.drafts.as_slice()
    }

    pub(crate) fn push(&mut self, event: &Value) -> Result<(), CallError> {
        let event = At::root(event);
        event.object()?;
        match event.text("type")? {
            Some("content_block_start") => self.begin(&event),
            Some("content_block_delta") => self.append(&event),
            Some("message_delta") => {
                if let Some(delta) = event.get("delta")
                    && let Some(reason) = delta.text("stop_reason")?
                {
                    self.stop_reason = Some(reason.to_owned());
                }
                Ok(())
            }
            _ => failure_in(&event),
        }
    }

    fn begin(&mut self, event: &At<'_>) -> Result<(), CallError> {
        let index = index_of(event)?;
        let block =
            event.get("content_block").ok_or_else(|| event.expected_under("content_block", "a block"))?;
        if self.stop_reason.is_some() {
            return Err(event.expected("no block after the stop reason"));
        }
        if self.drafts.get(&index).is_some() || self.others.contains(&index) {
            return Err(event.expected_under("index", "an index that no other block has"));
        }
        match draft(&block)? {
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
        let delta = event.get("delta").ok_or_else(|| event.expected_under("delta", "a delta"))?;
        if delta.text("type")? != Some("input_json_delta") {
            return Ok(());
        }
        let index = index_of(event)?;
        let piece = delta.need_text("partial_json")?;
        match self.drafts.get(&index) {
            Some(_) if self.stop_reason.is_some() => Err(event.expected("no input after the stop reason")),
            Some(draft) => {
                draft.append(piece);
                Ok(())
            }
            None if self.others.contains(&index) => Ok(()),
            None => Err(event.expected_under("index", "the index of a block that began")),
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
    event.index("index")?.ok_or_else(|| event.expected_under("index", "the index of a block"))
}
