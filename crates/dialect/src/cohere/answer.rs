//! A whole Cohere answer, streamed or not.

use serde_json::{Map, Value, json};
use toolwire_contract::{ModelEvent, StopReason, Usage};

use crate::answers::{Reading, Slot, append, show_text, show_thinking, update, usage};
use crate::calls::{At, CallError};

#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// By index, in the order in which they began.
    blocks: Vec<(u64, Map<String, Value>)>,
    /// What the model means to do with its tools. It goes back with the calls.
    plan: String,
    stop: Option<StopReason>,
    usage: Value,
    id: Option<String>,
}

impl Reader {
    pub(crate) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    pub(crate) fn push(&mut self, event: &At<'_>, shown: &mut Vec<ModelEvent>) -> Result<(), CallError> {
        if let Some(id) = event.text("id")? {
            self.id = Some(id.to_owned());
        }
        let Some(delta) = event.get("delta") else { return Ok(()) };
        if event.text("type")? == Some("message-end") {
            return self.take_end(&delta);
        }
        let Some(message) = delta.get("message") else { return Ok(()) };
        if let Some(plan) = message.text("tool_plan")? {
            self.take_plan(plan, shown);
        }
        if matches!(event.text("type")?, Some("content-start" | "content-delta"))
            && let Some(content) = message.get("content")
        {
            self.take_block(event.index("index")?.unwrap_or_default(), &content, shown)?;
        }
        Ok(())
    }

    pub(crate) fn whole(&mut self, answer: &At<'_>, shown: &mut Vec<ModelEvent>) -> Result<(), CallError> {
        self.id = answer.text("id")?.map(str::to_owned);
        self.take_end(answer)?;
        let message = answer.get("message");
        let message = message.as_ref().unwrap_or(answer);
        if let Some(plan) = message.text("tool_plan")? {
            self.take_plan(plan, shown);
        }
        match message.get("content") {
            Some(content) if content.value().is_array() => {
                for (index, block) in content.items()?.enumerate() {
                    self.take_block(index as u64, &block, shown)?;
                }
            }
            Some(content) => {
                let block = json!({"type": "text", "text": content.value()});
                self.take_block(0, &At::root(&block), shown)?;
            }
            None => {}
        }
        Ok(())
    }

    fn take_plan(&mut self, piece: &str, shown: &mut Vec<ModelEvent>) {
        self.plan.push_str(piece);
        show_thinking(shown, piece);
    }

    fn take_end(&mut self, holder: &At<'_>) -> Result<(), CallError> {
        if let Some(reason) = holder.text("finish_reason")? {
            self.stop = Some(stop_reason(reason));
        }
        if let Some(usage) = holder.get("usage") {
            update(&mut self.usage, &usage);
        }
        Ok(())
    }

    /// A block, or a piece of one: its first piece says its type.
    fn take_block(
        &mut self,
        index: u64,
        piece: &At<'_>,
        shown: &mut Vec<ModelEvent>,
    ) -> Result<(), CallError> {
        let place = self.blocks.iter().rposition(|(known, _)| *known == index);
        let place = place.unwrap_or_else(|| {
            self.blocks.push((index, Map::new()));
            self.blocks.len() - 1
        });
        let block = &mut self.blocks[place].1;
        if let Some(type_name) = piece.text("type")? {
            block.insert("type".to_owned(), json!(type_name));
        }
        if let Some(text) = piece.text("text")? {
            append(block, "text", text);
            show_text(shown, text);
        }
        if let Some(thinking) = piece.text("thinking")? {
            append(block, "thinking", thinking);
            show_thinking(shown, thinking);
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Reading {
        let mut slots = Vec::new();
        if !self.plan.is_empty() {
            let own = json!({"tool_plan": self.plan});
            slots.push(Slot::Thinking { text: self.plan, own: Some(own) });
        }
        for (_, block) in self.blocks {
            let text_of = |key: &str| block.get(key).and_then(Value::as_str).map(str::to_owned);
            match (text_of("thinking"), text_of("text")) {
                (Some(text), _) => slots.push(Slot::Thinking { text, own: Some(Value::Object(block)) }),
                (None, Some(text)) => slots.push(Slot::text(text)),
                (None, None) => {}
            }
        }
        Reading { slots, stop: self.stop, usage: read_usage(&self.usage), id: self.id }
    }
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "COMPLETE" | "STOP_SEQUENCE" => StopReason::End,
        "TOOL_CALL" => StopReason::Calls,
        "MAX_TOKENS" => StopReason::Length,
        other => StopReason::Other(other.to_owned()),
    }
}

fn read_usage(value: &Value) -> Option<Usage> {
    usage(value, &["/tokens/input_tokens"], &["/tokens/output_tokens"], &["/cached_tokens"], &[])
        .or_else(|| usage(value, &["/billed_units/input_tokens"], &["/billed_units/output_tokens"], &[], &[]))
}
