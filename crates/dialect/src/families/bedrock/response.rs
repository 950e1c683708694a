//! Reads Converse responses and streams. Streamed blocks are assembled into the format of a complete
//! response.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use toolwire_contract::model::StopReason;

use crate::response::{
    CallDraft, Ending, JsonCursor, PartialBlock, ReadResult, ResponseParts, ResponseReader, StreamedBlock,
    UsagePaths, append,
};

#[derive(Debug, Default)]
pub(super) struct BedrockReader {
    /// By their index in the message.
    blocks: BTreeMap<u64, StreamedBlock>,
}

impl ResponseReader for BedrockReader {
    /// Reads an event: an object with the event's name as its only key.
    fn event(&mut self, event: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
        event.reject_error()?;
        for (name, body) in event.object()? {
            if name.ends_with("Exception") {
                let message = body.get("message").and_then(Value::as_str).unwrap_or(name);
                return Err(event.provider_error(message));
            }
        }
        if let Some(start) = event.get("contentBlockStart")
            && let Some(block) = start.get("start")
        {
            let index = start.required_index("contentBlockIndex")?;
            response.require_open(&start, "no block after the stop reason")?;
            if self.blocks.contains_key(&index) {
                return Err(start.error_at("contentBlockIndex", "an index that no other block has"));
            }
            self.begin(index, &block, response)?;
        }
        if let Some(body) = event.get("contentBlockDelta")
            && let Some(delta) = body.get("delta")
        {
            self.append(&body, &delta, response)?;
        }
        if let Some(stop) = event.get("messageStop") {
            read_stop(&stop, response)?;
        }
        if let Some(metadata) = event.get("metadata") {
            response.merge_usage(metadata.get("usage"));
        }
        Ok(())
    }

    fn body(&mut self, body: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
        body.object()?;
        body.reject_error()?;
        response.merge_usage(body.get("usage"));
        let output = body.get("output");
        let message = output.as_ref().and_then(|output| output.get("message"));
        let message = message.as_ref().unwrap_or(body);
        let content = message.get("content").ok_or_else(|| message.error_at("content", "an array"))?;
        for (index, block) in content.items()?.enumerate() {
            self.begin(index as u64, &block, response)?;
        }
        read_stop(body, response)
    }

    fn finish(self: Box<Self>, response: &mut ResponseParts) -> Vec<PartialBlock> {
        response.calls.iter_mut().for_each(CallDraft::parse_arguments);
        self.blocks.into_values().map(finish_block).collect()
    }
}

impl BedrockReader {
    fn begin(&mut self, index: u64, block: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
        let fields = block.object()?;
        if let Some(call) = block.get("toolUse") {
            call.object()?;
            // Other calls run at the provider.
            if call.string("type")? != Some("server_tool_use") {
                let (name, id) = (call.required_string("name")?, call.string("toolUseId")?);
                let draft = CallDraft::new(name, id, call.value().get("input"));
                self.blocks.insert(index, StreamedBlock::Call(response.begin_call(draft)));
                return Ok(());
            }
        }
        response.emit_text(block.string("text")?.unwrap_or_default());
        if let Some(reasoning) = block.value().pointer("/reasoningContent/reasoningText/text") {
            response.emit_thinking(reasoning.as_str().unwrap_or_default());
        }
        self.blocks.insert(index, StreamedBlock::Json(fields.clone()));
        Ok(())
    }

    fn append(
        &mut self,
        body: &JsonCursor<'_>,
        delta: &JsonCursor<'_>,
        response: &mut ResponseParts,
    ) -> ReadResult {
        let index = body.required_index("contentBlockIndex")?;
        if let Some(call) = delta.get("toolUse") {
            let fragment = call.string("input")?.unwrap_or_default();
            return match self.blocks.get_mut(&index) {
                Some(&mut StreamedBlock::Call(call)) => {
                    response.require_open(body, "no input after the stop reason")?;
                    response.calls[call].append_arguments(fragment);
                    Ok(())
                }
                Some(StreamedBlock::Json(fields)) if fields.contains_key("toolUse") => Ok(()),
                _ => Err(body.error_at("contentBlockIndex", "the index of a call that has started")),
            };
        }
        // Only calls have a start event. Text and thinking start with their first fragment.
        let block = self.blocks.entry(index).or_insert_with(|| StreamedBlock::Json(Map::new()));
        let StreamedBlock::Json(fields) = block else {
            return Err(delta.error("the input of a call"));
        };
        if let Some(fragment) = delta.string("text")? {
            append(fields, "text", fragment);
            response.emit_text(fragment);
        }
        let Some(reasoning) = delta.get("reasoningContent") else { return Ok(()) };
        let known = fields.entry("reasoningContent").or_insert_with(|| json!({}));
        let Value::Object(known) = known else {
            return Err(delta.error("one kind of content in a block"));
        };
        if let Some(redacted) = reasoning.string("redactedContent")? {
            append(known, "redactedContent", redacted);
        }
        for key in ["text", "signature"] {
            if let Some(fragment) = reasoning.string(key)? {
                let text = known.entry("reasoningText").or_insert_with(|| json!({}));
                if let Value::Object(text) = text {
                    append(text, key, fragment);
                }
                if key == "text" {
                    response.emit_thinking(fragment);
                }
            }
        }
        Ok(())
    }
}

fn read_stop(position: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
    let Some(reason) = position.string("stopReason")? else { return Ok(()) };
    response.ending = Some(match reason {
        "end_turn" | "stop_sequence" => Ending::Finished(StopReason::End),
        "tool_use" => Ending::Finished(StopReason::Calls),
        "max_tokens" | "model_context_window_exceeded" => Ending::cut_off(StopReason::Length, reason),
        "guardrail_intervened" | "content_filtered" => Ending::cut_off(StopReason::Refusal, reason),
        "malformed_tool_use" | "malformed_model_output" => {
            Ending::Rejected { reason: reason.to_owned(), message: None }
        }
        other => Ending::other(other),
    });
    Ok(())
}

fn finish_block(block: StreamedBlock) -> PartialBlock {
    let fields = match block {
        StreamedBlock::Call(call) => return PartialBlock::Call(call),
        StreamedBlock::Json(fields) => fields,
    };
    if let Some(Value::String(text)) = fields.get("text") {
        return PartialBlock::text(text);
    }
    if let Some(reasoning) = fields.get("reasoningContent") {
        let text = reasoning.pointer("/reasoningText/text").and_then(Value::as_str).unwrap_or_default();
        return PartialBlock::thinking(text.to_owned(), Some(Value::Object(fields)));
    }
    match fields.keys().next().cloned() {
        Some(type_name) => PartialBlock::opaque(&type_name, fields),
        // The block started, but no content followed.
        None => PartialBlock::text(""),
    }
}

/// The API counts cached tokens separately from the input.
pub(super) const USAGE: UsagePaths<'static> = UsagePaths {
    input: &["/inputTokens", "/cacheReadInputTokens", "/cacheWriteInputTokens"],
    output: &["/outputTokens"],
    cached: &["/cacheReadInputTokens"],
    cache_write: &["/cacheWriteInputTokens"],
    reasoning: &[],
};
