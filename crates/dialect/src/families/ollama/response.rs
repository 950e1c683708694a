//! Reads Ollama responses and streams. A chunk has the format of a complete response, and its calls are
//! complete.

use serde_json::json;
use toolwire_contract::model::StopReason;

use crate::families::function_calls::read_complete_calls;
use crate::response::{
    Ending, JsonCursor, PartialBlock, ReadResult, ResponseParts, ResponseReader, UsagePaths,
};

#[derive(Debug, Default)]
pub(super) struct OllamaReader {
    content: String,
    thinking: String,
    done_reason: Option<String>,
}

impl ResponseReader for OllamaReader {
    fn event(&mut self, chunk: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
        chunk.object()?;
        chunk.reject_error()?;
        let message = chunk.get("message");
        let message = message.as_ref().unwrap_or(chunk);
        if let Some(fragment) = message.string("thinking")? {
            self.thinking.push_str(fragment);
            response.emit_thinking(fragment);
        }
        if let Some(fragment) = message.string("content")? {
            self.content.push_str(fragment);
            response.emit_text(fragment);
        }
        if let Some(calls) = message.get("tool_calls") {
            // Responses have no id. The time of the first call distinguishes them.
            if response.id.is_none() {
                response.set_id(chunk.string("created_at")?);
            }
            read_complete_calls(&calls, response)?;
        }
        if let Some(reason) = chunk.string("done_reason")? {
            self.done_reason = Some(reason.to_owned());
        }
        if chunk.is_true("done") {
            response.merge_usage(Some(*chunk));
            response.ending = Some(self.ending());
        }
        Ok(())
    }

    fn body(&mut self, body: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
        self.event(body, response)?;
        response.ending = Some(self.ending());
        Ok(())
    }

    fn finish(self: Box<Self>, response: &mut ResponseParts) -> Vec<PartialBlock> {
        let mut blocks = Vec::new();
        if !self.thinking.is_empty() {
            let provider_data = Some(json!({"thinking": self.thinking}));
            blocks.push(PartialBlock::thinking(self.thinking, provider_data));
        }
        blocks.push(PartialBlock::text(self.content));
        blocks.extend(response.call_blocks());
        blocks
    }
}

impl OllamaReader {
    fn ending(&self) -> Ending {
        match self.done_reason.as_deref() {
            Some("stop") | None => Ending::Finished(StopReason::End),
            Some(reason @ "length") => Ending::cut_off(StopReason::Length, reason),
            Some(other) => Ending::other(other),
        }
    }
}

pub(super) const USAGE: UsagePaths<'static> = UsagePaths {
    input: &["/prompt_eval_count"],
    output: &["/eval_count"],
    cached: &[],
    cache_write: &[],
    reasoning: &[],
};
