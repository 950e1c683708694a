//! A whole Messages answer, streamed or not: the blocks are put together again as a whole answer has them.

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
    id: Option<String>,
}

/// Where JSON in pieces waits until its block is whole. No block has such a key of its own.
const PIECES: &str = "toolwire/pieces";

impl Reader {
    pub(crate) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    pub(crate) fn push(&mut self, event: &At<'_>, shown: &mut Vec<ModelEvent>) -> Result<(), CallError> {
        match event.text("type")? {
            Some("message_start") => {
                if let Some(message) = event.get("message") {
                    self.take_head(&message)?;
                }
            }
            Some("content_block_start") => {
                let index = event.index("index")?.unwrap_or_default();
                if let Some(block) = event.get("content_block") {
                    self.begin(index, &block, shown)?;
                }
            }
            Some("content_block_delta") => self.append(event, shown)?,
            Some("message_delta") => {
                if let Some(usage) = event.get("usage") {
                    update(&mut self.usage, &usage);
                }
                if let Some(delta) = event.get("delta") {
                    self.take_stop(&delta)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn whole(&mut self, answer: &At<'_>, shown: &mut Vec<ModelEvent>) -> Result<(), CallError> {
        self.take_head(answer)?;
        self.take_stop(answer)?;
        match answer.get("content") {
            Some(content) if content.value().is_string() => {
                let text = content.value().as_str().unwrap_or_default();
                show_text(shown, text);
                self.blocks.push((
                    0,
                    Map::from_iter([("type".to_owned(), json!("text")), ("text".to_owned(), json!(text))]),
                ));
            }
            Some(content) => {
                for (index, block) in content.items()?.enumerate() {
                    self.begin(index as u64, &block, shown)?;
                }
            }
            None => {}
        }
        Ok(())
    }

    fn take_head(&mut self, message: &At<'_>) -> Result<(), CallError> {
        self.id = message.text("id")?.map(str::to_owned);
        if let Some(usage) = message.get("usage") {
            update(&mut self.usage, &usage);
        }
        Ok(())
    }

    fn take_stop(&mut self, message: &At<'_>) -> Result<(), CallError> {
        if let Some(reason) = message.text("stop_reason")? {
            self.stop = Some(stop_reason(reason));
        }
        Ok(())
    }

    fn begin(&mut self, index: u64, block: &At<'_>, shown: &mut Vec<ModelEvent>) -> Result<(), CallError> {
        show_text(shown, block.text("text")?.unwrap_or_default());
        show_thinking(shown, block.text("thinking")?.unwrap_or_default());
        self.blocks.push((index, block.object()?.clone()));
        Ok(())
    }

    fn append(&mut self, event: &At<'_>, shown: &mut Vec<ModelEvent>) -> Result<(), CallError> {
        let index = event.index("index")?.unwrap_or_default();
        let Some(delta) = event.get("delta") else { return Ok(()) };
        let Some((_, block)) = self.blocks.iter_mut().rev().find(|(known, _)| *known == index) else {
            return Err(event.expected_under("index", "the index of a block that began"));
        };
        match delta.text("type")? {
            Some("text_delta") => {
                let piece = delta.need_text("text")?;
                append(block, "text", piece);
                show_text(shown, piece);
            }
            Some("thinking_delta") => {
                let piece = delta.need_text("thinking")?;
                append(block, "thinking", piece);
                show_thinking(shown, piece);
            }
            Some("signature_delta") => append(block, "signature", delta.need_text("signature")?),
            Some("input_json_delta") => append(block, PIECES, delta.need_text("partial_json")?),
            Some("citations_delta") => {
                if let Some(citation) = delta.get("citation") {
                    match block.get_mut("citations") {
                        Some(Value::Array(citations)) => citations.push(citation.value().clone()),
                        _ => {
                            block.insert("citations".to_owned(), json!([citation.value()]));
                        }
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Reading {
        let slots = self.blocks.into_iter().map(|(_, block)| slot(block)).collect();
        Reading { slots, stop: self.stop, usage: read_usage(&self.usage), id: self.id }
    }
}

fn slot(mut block: Map<String, Value>) -> Slot {
    let text_of = |block: &Map<String, Value>, key: &str| {
        block.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    match text_of(&block, "type").as_str() {
        "text" => Slot::text(text_of(&block, "text")),
        "tool_use" => Slot::Call,
        "thinking" => {
            let text = text_of(&block, "thinking");
            // Without its signature, a cut one, it would be refused.
            let is_signed = !text_of(&block, "signature").is_empty();
            Slot::Thinking { text, own: is_signed.then_some(Value::Object(block)) }
        }
        "redacted_thinking" => Slot::Thinking { text: String::new(), own: Some(Value::Object(block)) },
        other => {
            // A call that the provider runs streams its input as we know it from our own.
            if let Some(Value::String(pieces)) = block.shift_remove(PIECES)
                && let Ok(input) = serde_json::from_str::<Value>(&pieces)
            {
                block.insert("input".to_owned(), input);
            }
            Slot::Opaque { type_name: other.to_owned(), own: Value::Object(block) }
        }
    }
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "end_turn" | "stop_sequence" => StopReason::End,
        "tool_use" => StopReason::Calls,
        "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
        "refusal" => StopReason::Refusal,
        other => StopReason::Other(other.to_owned()),
    }
}

/// The API counts what came from the cache, and what went into it, beside the input.
fn read_usage(value: &Value) -> Option<Usage> {
    let input = ["/input_tokens", "/cache_creation_input_tokens", "/cache_read_input_tokens"];
    usage(value, &input, &["/output_tokens"], &["/cache_read_input_tokens"], &[])
}
