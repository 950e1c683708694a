//! Reads Messages responses and streams. Streamed blocks are assembled into the format of a complete
//! response.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use toolwire_contract::model::{ModelEvent, StopReason};

use crate::Family;
use crate::response::{
    CallDraft, Ending, JsonCursor, PartialBlock, ReadResult, ResponseParts, ResponseReader, StreamedBlock,
    UsagePaths, append,
};

#[derive(Debug, Default)]
pub(super) struct AnthropicReader {
    /// By their index in the message.
    blocks: BTreeMap<u64, StreamedBlock>,
}

/// The key for the JSON fragments of a block until it is complete. The API has no such key.
const INPUT_FRAGMENTS: &str = "toolwire/fragments";

impl ResponseReader for AnthropicReader {
    fn event(&mut self, event: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
        event.object()?;
        match event.string("type")? {
            Some("message_start") => {
                event.reject_error()?;
                event.get("message").map_or(Ok(()), |message| read_head(&message, response))
            }
            Some("content_block_start") => {
                let index = event.required_index("index")?;
                let block = event.get("content_block");
                let block = block.ok_or_else(|| event.error_at("content_block", "a block"))?;
                response.require_open(event, "no block after the stop reason")?;
                if self.blocks.contains_key(&index) {
                    return Err(event.error_at("index", "an index that no other block has"));
                }
                self.begin(index, &block, response)
            }
            Some("content_block_delta") => self.append(event, response),
            Some("content_block_stop") => {
                self.complete(event.required_index("index")?, response);
                Ok(())
            }
            Some("message_delta") => {
                read_usage(event, response);
                let Some(delta) = event.get("delta") else { return Ok(()) };
                read_container(&delta, response);
                read_stop(&delta, response)
            }
            _ => event.reject_error(),
        }
    }

    fn body(&mut self, body: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
        body.object()?;
        body.reject_error()?;
        read_head(body, response)?;
        let content = body.get("content").ok_or_else(|| body.error_at("content", "an array"))?;
        if let Some(text) = content.value().as_str() {
            let block = json!({"type": "text", "text": text});
            self.begin(0, &JsonCursor::root(&block), response)?;
        } else {
            for (index, block) in content.items()?.enumerate() {
                self.begin(index as u64, &block, response)?;
                self.complete(index as u64, response);
            }
        }
        read_stop(body, response)
    }

    fn finish(self: Box<Self>, response: &mut ResponseParts) -> Vec<PartialBlock> {
        response.calls.iter_mut().for_each(CallDraft::parse_arguments);
        self.blocks.into_values().map(finish_block).collect()
    }
}

impl AnthropicReader {
    /// Whether the last block is text.
    fn is_after_text(&self) -> bool {
        let last = self.blocks.last_key_value().map(|(_, block)| block);
        matches!(last, Some(StreamedBlock::Json(fields)) if fields.get("type").is_some_and(|kind| kind == "text"))
    }

    fn begin(&mut self, index: u64, block: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
        let fields = block.object()?;
        // `server_tool_use` and `mcp_tool_use` run at the provider.
        if block.string("type")? == Some("tool_use") {
            let name = block.required_string("name")?;
            let draft = CallDraft::new(name, block.string("id")?, fields.get("input"));
            self.blocks.insert(index, StreamedBlock::Call(response.begin_call(draft)));
        } else {
            if block.string("type")? == Some("text") && self.is_after_text() {
                response.events.push(ModelEvent::TextPart);
            }
            response.emit_text(block.string("text")?.unwrap_or_default());
            for citation in block.value()["citations"].as_array().into_iter().flatten() {
                response.emit_citation(Family::Anthropic.meta_key(), citation.clone());
            }
            response.emit_thinking(block.string("thinking")?.unwrap_or_default());
            self.blocks.insert(index, StreamedBlock::Json(fields.clone()));
        }
        Ok(())
    }

    /// Emits a block that only this API has, as soon as it is complete.
    fn complete(&mut self, index: u64, response: &mut ResponseParts) {
        let Some(StreamedBlock::Json(fields)) = self.blocks.get_mut(&index) else { return };
        let type_name = fields.get("type").and_then(Value::as_str).unwrap_or_default();
        // The gateway has blocks of these types for its own calls.
        let is_known =
            matches!(type_name, "text" | "thinking" | "redacted_thinking") || type_name.starts_with("mcp_");
        if !is_known {
            parse_input(fields);
            response.emit_provider_part(Family::Anthropic.meta_key(), Value::Object(fields.clone()));
        }
    }

    fn append(&mut self, event: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
        let delta = event.get("delta").ok_or_else(|| event.error_at("delta", "a delta"))?;
        let delta_type = delta.string("type")?;
        let fields = match self.blocks.get_mut(&event.required_index("index")?) {
            Some(StreamedBlock::Json(fields)) => fields,
            Some(&mut StreamedBlock::Call(call)) => {
                if delta_type == Some("input_json_delta") {
                    response.require_open(event, "no input after the stop reason")?;
                    response.calls[call].append_arguments(delta.required_string("partial_json")?);
                }
                return Ok(());
            }
            None => return Err(event.error_at("index", "the index of a block that has started")),
        };
        match delta_type {
            Some("text_delta") => {
                let fragment = delta.required_string("text")?;
                append(fields, "text", fragment);
                response.emit_text(fragment);
            }
            Some("thinking_delta") => {
                let fragment = delta.required_string("thinking")?;
                append(fields, "thinking", fragment);
                response.emit_thinking(fragment);
            }
            Some("signature_delta") => append(fields, "signature", delta.required_string("signature")?),
            Some("input_json_delta") => {
                append(fields, INPUT_FRAGMENTS, delta.required_string("partial_json")?)
            }
            Some("citations_delta") => {
                if let Some(citation) = delta.get("citation") {
                    response.emit_citation(Family::Anthropic.meta_key(), citation.value().clone());
                    match fields.get_mut("citations") {
                        Some(Value::Array(citations)) => citations.push(citation.value().clone()),
                        _ => {
                            fields.insert("citations".to_owned(), json!([citation.value()]));
                        }
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn read_head(message: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
    response.set_id(message.string("id")?);
    read_usage(message, response);
    read_container(message, response);
    let tier = message.value().pointer("/usage/service_tier").and_then(Value::as_str);
    response.details.service_tier = tier.map(str::to_owned).or(response.details.service_tier.take());
    Ok(())
}

/// Reads the usage so far.
fn read_usage(message: &JsonCursor<'_>, response: &mut ResponseParts) {
    response.merge_usage(message.get("usage"));
    let own_tools = response.usage.get("server_tool_use").filter(|calls| calls.is_object());
    response.details.server_tool_use = own_tools.cloned();
}

/// Reads the container in which the provider has run code.
fn read_container(message: &JsonCursor<'_>, response: &mut ResponseParts) {
    if let Some(container) = message.get("container").filter(|container| container.value().is_object()) {
        response.details.container = Some(container.value().clone());
    }
}

fn read_stop(message: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
    let Some(reason) = message.string("stop_reason")? else { return Ok(()) };
    response.details.stop_details = message.get("stop_details").map(|details| details.value().clone());
    response.details.is_context_full = reason == "model_context_window_exceeded";
    response.ending = Some(match reason {
        "end_turn" => Ending::Finished(StopReason::End),
        "stop_sequence" => Ending::Finished(match message.string("stop_sequence")? {
            Some(sequence) => StopReason::Sequence(sequence.to_owned()),
            None => StopReason::End,
        }),
        "tool_use" => Ending::Finished(StopReason::Calls),
        "pause_turn" => Ending::Finished(StopReason::Paused),
        "max_tokens" | "model_context_window_exceeded" => Ending::cut_off(StopReason::Length, reason),
        "refusal" => Ending::cut_off(StopReason::Refusal, reason),
        other => Ending::other(other),
    });
    Ok(())
}

fn finish_block(block: StreamedBlock) -> PartialBlock {
    let mut fields = match block {
        StreamedBlock::Call(call) => return PartialBlock::Call(call),
        StreamedBlock::Json(fields) => fields,
    };
    let text_of = |fields: &Map<String, Value>, key: &str| {
        fields.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    match text_of(&fields, "type").as_str() {
        "text" => {
            // The API requires citations of its searches to come back with the text.
            let citations =
                fields.get("citations").filter(|list| list.as_array().is_some_and(|list| !list.is_empty()));
            let provider_data = citations.map(|citations| json!({"citations": citations}));
            PartialBlock::Text { text: text_of(&fields, "text"), provider_data }
        }
        "thinking" => {
            let text = text_of(&fields, "thinking");
            // The API rejects thinking without its signature, as in a response that was cut off.
            let is_signed = !text_of(&fields, "signature").is_empty();
            PartialBlock::thinking(text, is_signed.then_some(Value::Object(fields)))
        }
        "redacted_thinking" => PartialBlock::thinking("", Some(Value::Object(fields))),
        other => {
            parse_input(&mut fields);
            PartialBlock::opaque(other, fields)
        }
    }
}

/// Replaces the streamed fragments of the input by the input. A call that the provider runs has such
/// fragments too.
fn parse_input(fields: &mut Map<String, Value>) {
    if let Some(Value::String(fragments)) = fields.shift_remove(INPUT_FRAGMENTS)
        && let Ok(input) = serde_json::from_str::<Value>(&fragments)
    {
        fields.insert("input".to_owned(), input);
    }
}

/// The API counts cached tokens separately from the input.
pub(super) const USAGE: UsagePaths<'static> = UsagePaths {
    input: &["/input_tokens", "/cache_creation_input_tokens", "/cache_read_input_tokens"],
    output: &["/output_tokens"],
    cached: &["/cache_read_input_tokens"],
    cache_write: &["/cache_creation_input_tokens"],
    reasoning: &[],
};
