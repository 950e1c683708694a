//! A whole Converse answer, streamed or not: the blocks are put together again as a whole answer has them.

use serde_json::{Map, Value, json};
use toolwire_contract::{ModelEvent, StopReason, Usage};

use crate::answers::{Reading, Slot, append, show_text, show_thinking, update, usage};
use crate::calls::{At, CallError};

#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// By index, in the order in which they began.
    blocks: Vec<(u64, Map<String, Value>)>,
    stop: Option<StopReason>,
    usage: Value,
}

impl Reader {
    /// Answers have no ids in the body here.
    pub(crate) fn id(&self) -> Option<&str> {
        None
    }

    pub(crate) fn push(&mut self, event: &At<'_>, shown: &mut Vec<ModelEvent>) -> Result<(), CallError> {
        if let Some(start) = event.get("contentBlockStart") {
            let index = start.index("contentBlockIndex")?.unwrap_or_default();
            if let Some(block) = start.get("start") {
                self.blocks.push((index, block.object()?.clone()));
            }
        }
        if let Some(body) = event.get("contentBlockDelta") {
            let index = body.index("contentBlockIndex")?.unwrap_or_default();
            if let Some(delta) = body.get("delta") {
                self.append(index, &delta, shown)?;
            }
        }
        if let Some(stop) = event.get("messageStop") {
            self.take_stop(&stop)?;
        }
        if let Some(metadata) = event.get("metadata")
            && let Some(usage) = metadata.get("usage")
        {
            update(&mut self.usage, &usage);
        }
        Ok(())
    }

    pub(crate) fn whole(&mut self, answer: &At<'_>, shown: &mut Vec<ModelEvent>) -> Result<(), CallError> {
        self.take_stop(answer)?;
        if let Some(usage) = answer.get("usage") {
            update(&mut self.usage, &usage);
        }
        let output = answer.get("output");
        let message = output.as_ref().and_then(|output| output.get("message"));
        let message = message.as_ref().unwrap_or(answer);
        let Some(content) = message.get("content") else { return Ok(()) };
        for (index, block) in content.items()?.enumerate() {
            show_text(shown, block.text("text")?.unwrap_or_default());
            if let Some(reasoning) = block.value().pointer("/reasoningContent/reasoningText/text") {
                show_thinking(shown, reasoning.as_str().unwrap_or_default());
            }
            self.blocks.push((index as u64, block.object()?.clone()));
        }
        Ok(())
    }

    fn take_stop(&mut self, holder: &At<'_>) -> Result<(), CallError> {
        if let Some(reason) = holder.text("stopReason")? {
            self.stop = Some(stop_reason(reason));
        }
        Ok(())
    }

    fn append(&mut self, index: u64, delta: &At<'_>, shown: &mut Vec<ModelEvent>) -> Result<(), CallError> {
        let place = self.blocks.iter().rposition(|(known, _)| *known == index);
        // Only calls announce themselves; text and thinking begin with their first piece.
        let place = place.unwrap_or_else(|| {
            self.blocks.push((index, Map::new()));
            self.blocks.len() - 1
        });
        let block = &mut self.blocks[place].1;
        if let Some(piece) = delta.text("text")? {
            append(block, "text", piece);
            show_text(shown, piece);
        }
        let Some(reasoning) = delta.get("reasoningContent") else { return Ok(()) };
        let own = block.entry("reasoningContent").or_insert_with(|| json!({}));
        let Value::Object(own) = own else { return Err(delta.expected("one kind of content in a block")) };
        if let Some(redacted) = reasoning.text("redactedContent")? {
            append(own, "redactedContent", redacted);
        }
        for key in ["text", "signature"] {
            if let Some(piece) = reasoning.text(key)? {
                let text = own.entry("reasoningText").or_insert_with(|| json!({}));
                if let Value::Object(text) = text {
                    append(text, key, piece);
                }
                if key == "text" {
                    show_thinking(shown, piece);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Reading {
        let slots = self.blocks.into_iter().map(|(_, block)| slot(block)).collect();
        Reading { slots, stop: self.stop, usage: read_usage(&self.usage), id: None }
    }
}

fn slot(block: Map<String, Value>) -> Slot {
    if let Some(Value::String(text)) = block.get("text") {
        return Slot::text(text.as_str());
    }
    if let Some(call) = block.get("toolUse") {
        return match call.get("type").and_then(Value::as_str) {
            Some("server_tool_use") => opaque(block),
            _ => Slot::Call,
        };
    }
    match block.get("reasoningContent") {
        Some(reasoning) => {
            let text = reasoning.pointer("/reasoningText/text").and_then(Value::as_str).unwrap_or_default();
            Slot::Thinking { text: text.to_owned(), own: Some(Value::Object(block)) }
        }
        None => opaque(block),
    }
}

fn opaque(block: Map<String, Value>) -> Slot {
    let type_name = block.keys().next().cloned().unwrap_or_else(|| "nothing".to_owned());
    // A block that began and never came has nothing to go back.
    if block.is_empty() { Slot::text("") } else { Slot::Opaque { type_name, own: Value::Object(block) } }
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "end_turn" | "stop_sequence" => StopReason::End,
        "tool_use" => StopReason::Calls,
        "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
        "guardrail_intervened" | "content_filtered" => StopReason::Refusal,
        other => StopReason::Other(other.to_owned()),
    }
}

/// The API counts what came from the cache, and what went into it, beside the input.
fn read_usage(value: &Value) -> Option<Usage> {
    let input = ["/inputTokens", "/cacheReadInputTokens", "/cacheWriteInputTokens"];
    usage(value, &input, &["/outputTokens"], &["/cacheReadInputTokens"], &[])
}
