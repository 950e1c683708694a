//! An answer as MCP's sampling has it: a message, which is never told in smaller pieces.

use serde_json::Value;
use toolwire_contract::{Content, ModelEvent, StopReason};

use crate::answers::{Reading, Slot, show_text};
use crate::calls::{At, CallError};

#[derive(Debug, Default)]
pub(crate) struct Reader {
    slots: Vec<Slot>,
    stop: Option<StopReason>,
}

impl Reader {
    /// Answers have no ids in the body here.
    pub(crate) fn id(&self) -> Option<&str> {
        None
    }

    pub(crate) fn push(&mut self, message: &At<'_>, shown: &mut Vec<ModelEvent>) -> Result<(), CallError> {
        let Some(content) = message.get("content") else { return Ok(()) };
        let blocks: Vec<&Value> = match content.value() {
            Value::Array(blocks) => blocks.iter().collect(),
            lone => vec![lone],
        };
        for block in blocks {
            if block.get("type").and_then(Value::as_str) == Some("tool_use") {
                self.slots.push(Slot::Call);
                continue;
            }
            let content = Content::from(block.clone());
            if let Content::Text { text, .. } = &content {
                show_text(shown, text);
            }
            self.slots.push(Slot::Media(content, None));
        }
        self.stop = Some(match message.text("stopReason")? {
            Some("endTurn" | "stopSequence") | None => StopReason::End,
            Some("toolUse") => StopReason::Calls,
            Some("maxTokens") => StopReason::Length,
            Some(other) => StopReason::Other(other.to_owned()),
        });
        Ok(())
    }

    pub(crate) fn whole(&mut self, answer: &At<'_>, shown: &mut Vec<ModelEvent>) -> Result<(), CallError> {
        self.push(answer, shown)
    }

    pub(crate) fn finish(self) -> Reading {
        Reading { slots: self.slots, stop: self.stop, ..Reading::default() }
    }
}
