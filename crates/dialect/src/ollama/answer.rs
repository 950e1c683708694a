//! A whole answer of Ollama, streamed or not: a chunk has the shape of a whole answer.

use serde_json::{Value, json};
use toolwire_contract::{ModelEvent, StopReason, Usage};

use crate::answers::{Reading, Slot, show_text, show_thinking, update, usage};
use crate::calls::{At, CallError};

#[derive(Debug, Default)]
pub(crate) struct Reader {
    content: String,
    thinking: String,
    stop: Option<StopReason>,
    usage: Value,
    /// When the first call came: answers have no ids here, and this tells them apart.
    called_at: Option<String>,
}

impl Reader {
    pub(crate) fn id(&self) -> Option<&str> {
        self.called_at.as_deref()
    }

    pub(crate) fn push(&mut self, chunk: &At<'_>, shown: &mut Vec<ModelEvent>) -> Result<(), CallError> {
        let message = chunk.get("message");
        let message = message.as_ref().unwrap_or(chunk);
        if let Some(piece) = message.text("thinking")? {
            self.thinking.push_str(piece);
            show_thinking(shown, piece);
        }
        if let Some(piece) = message.text("content")? {
            self.content.push_str(piece);
            show_text(shown, piece);
        }
        if self.called_at.is_none() && message.get("tool_calls").is_some() {
            self.called_at = chunk.text("created_at")?.map(str::to_owned);
        }
        if chunk.get("done").is_some_and(|done| done.value() == true) {
            update(&mut self.usage, chunk);
            self.stop = Some(match chunk.text("done_reason")? {
                Some("stop") | None => StopReason::End,
                Some("length") => StopReason::Length,
                Some(other) => StopReason::Other(other.to_owned()),
            });
        }
        Ok(())
    }

    pub(crate) fn whole(&mut self, answer: &At<'_>, shown: &mut Vec<ModelEvent>) -> Result<(), CallError> {
        self.push(answer, shown)
    }

    pub(crate) fn finish(self) -> Reading {
        let mut slots = Vec::new();
        if !self.thinking.is_empty() {
            let own = json!({"thinking": self.thinking});
            slots.push(Slot::Thinking { text: self.thinking, own: Some(own) });
        }
        slots.push(Slot::text(self.content));
        Reading { slots, stop: self.stop, usage: read_usage(&self.usage), id: self.called_at }
    }
}

fn read_usage(value: &Value) -> Option<Usage> {
    usage(value, &["/prompt_eval_count"], &["/eval_count"], &[], &[])
}
