//! Reads Cohere responses and streams.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use toolwire_contract::model::{StopReason, Usage};

use crate::families::function_calls::{read_complete_calls, read_fragment};
use crate::response::{
    CallDraft, Ending, JsonCursor, PartialBlock, ReadResult, ResponseParts, ResponseReader, UsagePaths,
    append,
};

#[derive(Debug, Default)]
pub(super) struct CohereReader {
    /// By their index in the content.
    blocks: BTreeMap<u64, Map<String, Value>>,
    /// The model's plan for its calls. It is sent back with them.
    plan: String,
    /// The position of each call by the API's index.
    call_by_index: BTreeMap<u64, usize>,
}

impl ResponseReader for CohereReader {
    fn event(&mut self, event: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
        event.object()?;
        event.reject_error()?;
        response.set_id(event.string("id")?);
        match event.string("type")? {
            Some("tool-call-start") => return self.read_call(event, true, response),
            Some("tool-call-delta") => return self.read_call(event, false, response),
            event_type => {
                let Some(delta) = event.get("delta") else { return Ok(()) };
                if event_type == Some("message-end") {
                    return read_end(&delta, response);
                }
                let Some(message) = delta.get("message") else { return Ok(()) };
                if let Some(plan) = message.string("tool_plan")? {
                    self.read_plan(plan, response);
                }
                if matches!(event_type, Some("content-start" | "content-delta"))
                    && let Some(content) = message.get("content")
                {
                    self.read_block(event.index("index")?.unwrap_or_default(), &content, response)?;
                }
            }
        }
        Ok(())
    }

    fn body(&mut self, body: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
        body.object()?;
        body.reject_error()?;
        response.set_id(body.string("id")?);
        let message = body.get("message");
        let message = message.as_ref().unwrap_or(body);
        if let Some(plan) = message.string("tool_plan")? {
            self.read_plan(plan, response);
        }
        match message.get("content") {
            Some(content) if content.value().is_array() => {
                for (index, block) in content.items()?.enumerate() {
                    self.read_block(index as u64, &block, response)?;
                }
            }
            Some(_) => {
                let text = message.required_string("content")?;
                self.blocks.insert(0, Map::from_iter([("text".to_owned(), json!(text))]));
                response.emit_text(text);
            }
            None => {}
        }
        if let Some(calls) = message.get("tool_calls") {
            read_complete_calls(&calls, response)?;
        }
        read_end(body, response)
    }

    fn finish(self: Box<Self>, response: &mut ResponseParts) -> Vec<PartialBlock> {
        let mut blocks = Vec::new();
        if !self.plan.is_empty() {
            let provider_data = Some(json!({"tool_plan": self.plan}));
            blocks.push(PartialBlock::thinking(self.plan, provider_data));
        }
        for block in self.blocks.into_values() {
            let text_of = |key: &str| block.get(key).and_then(Value::as_str).map(str::to_owned);
            match (text_of("thinking"), text_of("text")) {
                (Some(text), _) => blocks.push(PartialBlock::thinking(text, Some(Value::Object(block)))),
                (None, Some(text)) => blocks.push(PartialBlock::text(text)),
                (None, None) => {}
            }
        }
        blocks.extend(response.call_blocks());
        blocks
    }
}

impl CohereReader {
    /// Reads a streamed call, or a fragment of one.
    fn read_call(
        &mut self,
        event: &JsonCursor<'_>,
        is_start: bool,
        response: &mut ResponseParts,
    ) -> ReadResult {
        response.require_open(event, "no call after the end of the message")?;
        let index = event.required_index("index")?;
        let delta = event.get("delta");
        let message = delta.as_ref().and_then(|delta| delta.get("message"));
        let Some(call) = message.as_ref().and_then(|message| message.get("tool_calls")) else {
            return Err(event.error_at("delta/message/tool_calls", "a call"));
        };
        call.object()?;
        let position = match (self.call_by_index.get(&index), is_start) {
            (Some(&position), false) => position,
            (None, true) => response.begin_call(CallDraft::default()),
            (Some(_), true) => return Err(event.error_at("index", "an index that no other call has")),
            (None, false) => return Err(event.error_at("index", "the index of a call that has started")),
        };
        self.call_by_index.insert(index, position);
        read_fragment(&call, &mut response.calls[position])
    }

    fn read_plan(&mut self, fragment: &str, response: &mut ResponseParts) {
        self.plan.push_str(fragment);
        response.emit_thinking(fragment);
    }

    /// Reads a block, or a fragment of one. The first fragment contains the type.
    fn read_block(
        &mut self,
        index: u64,
        fragment: &JsonCursor<'_>,
        response: &mut ResponseParts,
    ) -> ReadResult {
        let block = self.blocks.entry(index).or_default();
        if let Some(type_name) = fragment.string("type")? {
            block.insert("type".to_owned(), json!(type_name));
        }
        if let Some(text) = fragment.string("text")? {
            append(block, "text", text);
            response.emit_text(text);
        }
        if let Some(thinking) = fragment.string("thinking")? {
            append(block, "thinking", thinking);
            response.emit_thinking(thinking);
        }
        Ok(())
    }
}

/// Reads the finish reason and the usage.
fn read_end(position: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
    response.merge_usage(position.get("usage"));
    let Some(reason) = position.string("finish_reason")? else { return Ok(()) };
    response.ending = Some(match reason {
        "COMPLETE" | "STOP_SEQUENCE" => Ending::Finished(StopReason::End),
        "TOOL_CALL" => Ending::Finished(StopReason::Calls),
        "MAX_TOKENS" => Ending::cut_off(StopReason::Length, reason),
        "TIMEOUT" => Ending::cut_off(StopReason::Other(reason.to_owned()), reason),
        "ERROR" => {
            // Streams report the error together with the finish reason.
            let message = position.string("error")?.map(str::to_owned);
            Ending::Rejected { reason: reason.to_owned(), message }
        }
        other => Ending::other(other),
    });
    Ok(())
}

pub(super) fn read_usage(reported: &Value) -> Option<Usage> {
    let tokens = UsagePaths {
        input: &["/tokens/input_tokens"],
        output: &["/tokens/output_tokens"],
        cached: &["/cached_tokens"],
        cache_write: &[],
        reasoning: &[],
    };
    let billed = UsagePaths {
        input: &["/billed_units/input_tokens"],
        output: &["/billed_units/output_tokens"],
        cached: &[],
        cache_write: &[],
        reasoning: &[],
    };
    tokens.read(reported).or_else(|| billed.read(reported))
}
