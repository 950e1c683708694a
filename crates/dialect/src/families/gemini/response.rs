//! Reads Gemini responses and streams. A chunk has the format of a complete response and contains complete
//! calls. Only Vertex can be configured to send a call in fragments; see [`StreamedArguments`].

use serde_json::{Map, Value, json};
use toolwire_contract::Content;
use toolwire_contract::model::{ModelEvent, StopReason};

use super::streamed_arguments::StreamedArguments;
use crate::response::{
    CallDraft, Ending, JsonCursor, PartialBlock, ReadResult, ResponseParts, ResponseReader, StreamedBlock,
    UsagePaths, append,
};

#[derive(Debug, Default)]
pub(super) struct GeminiReader {
    parts: Vec<StreamedBlock>,
    /// The arguments of the last call, while they arrive in fragments.
    open_arguments: Option<StreamedArguments>,
}

impl ResponseReader for GeminiReader {
    fn event(&mut self, chunk: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
        chunk.object()?;
        chunk.reject_error()?;
        response.set_id(chunk.string("responseId")?);
        response.merge_usage(chunk.get("usageMetadata"));
        if let Some(feedback) = chunk.get("promptFeedback")
            && let Some(reason) = feedback.string("blockReason")?
        {
            let details = feedback.string("blockReasonMessage")?.map(|message| format!(": {message}"));
            let details = details.unwrap_or_default();
            return Err(chunk.provider_error(format!("the prompt was blocked ({reason}){details}")));
        }
        let Some(candidates) = chunk.get("candidates") else {
            // Only the model's content.
            return self.read_content(chunk, response);
        };
        let Some(candidate) = candidates.items()?.next() else { return Ok(()) };
        if let Some(content) = candidate.get("content") {
            self.read_content(&content, response)?;
        }
        if let Some(reason) = candidate.string("finishReason")? {
            response.ending = Some(ending(reason, candidate.string("finishMessage")?));
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, response: &mut ResponseParts) -> Vec<PartialBlock> {
        if self.open_arguments.is_some()
            && let Some(Ending::Finished(stop)) = &response.ending
        {
            response.ending = Some(Ending::cut_off(stop.clone(), "a call was not completed"));
        }
        self.close_arguments(response);
        self.parts.into_iter().map(finish_part).collect()
    }
}

impl GeminiReader {
    fn read_content(&mut self, content: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
        let Some(parts) = content.get("parts") else { return Ok(()) };
        for part in parts.items()? {
            let fields = part.object()?;
            if let Some(call) = part.get("functionCall") {
                response.require_open(&call, "no call after the finish reason")?;
                self.read_call(&call, part.string("thoughtSignature")?, response)?;
                continue;
            }
            if let Some(text) = part.string("text")? {
                match is_thought(fields) {
                    true => response.emit_thinking(text),
                    false => response.emit_text(text),
                }
                // Fragments of one text are joined. A signed part must stay separate.
                if let Some(StreamedBlock::Json(last)) = self.parts.last_mut()
                    && is_unsigned_text(last)
                    && is_unsigned_text(fields)
                    && is_thought(last) == is_thought(fields)
                {
                    append(last, "text", text);
                    continue;
                }
            }
            if let Some(media) = media(fields).filter(|_| !is_thought(fields)) {
                response.events.push(ModelEvent::Media(media));
            }
            self.parts.push(StreamedBlock::Json(fields.clone()));
        }
        Ok(())
    }

    /// Reads a call, or a fragment of the last call, which has no name.
    fn read_call(
        &mut self,
        call: &JsonCursor<'_>,
        signature: Option<&str>,
        response: &mut ResponseParts,
    ) -> ReadResult {
        call.object()?;
        if let Some(name) = call.string("name")?.filter(|name| !name.is_empty()) {
            self.close_arguments(response);
            // Missing arguments are an empty object here, not a mistake of the model.
            let no_arguments = json!({});
            let arguments = call.get("args").map_or(&no_arguments, |arguments| arguments.value());
            let draft = CallDraft::new(name, call.string("id")?, Some(arguments));
            self.parts.push(StreamedBlock::Call(response.begin_call(draft)));
        } else if self.open_arguments.is_none() {
            return Err(call.error_at("name", "the name of a tool"));
        }
        if let (Some(signature), Some(draft)) = (signature, response.calls.last_mut()) {
            draft.signature = Some(signature.to_owned());
        }
        if let Some(fragments) = call.get("partialArgs") {
            let arguments = self.open_arguments.get_or_insert_default();
            for fragment in fragments.items()? {
                arguments.add(&fragment)?;
            }
        }
        if call.is_true("willContinue") {
            self.open_arguments.get_or_insert_default();
        } else {
            self.close_arguments(response);
        }
        Ok(())
    }

    /// Completes the call whose arguments arrived in fragments.
    fn close_arguments(&mut self, response: &mut ResponseParts) {
        if let (Some(open), Some(draft)) = (self.open_arguments.take(), response.calls.last_mut())
            && let Some(arguments) = open.finish()
        {
            draft.set_arguments(Some(&arguments));
        }
    }
}

fn is_thought(part: &Map<String, Value>) -> bool {
    part.get("thought") == Some(&Value::Bool(true))
}

fn is_unsigned_text(part: &Map<String, Value>) -> bool {
    part.contains_key("text") && !part.contains_key("thoughtSignature")
}

/// Returns the image or audio in a part.
fn media(part: &Map<String, Value>) -> Option<Content> {
    let inline = part.get("inlineData")?;
    let (mime_type, data) = (inline["mimeType"].as_str()?, inline["data"].as_str()?);
    match mime_type.split_once('/')?.0 {
        "image" => Some(Content::image(data, mime_type)),
        "audio" => Some(Content::audio(data, mime_type)),
        _ => None,
    }
}

fn finish_part(part: StreamedBlock) -> PartialBlock {
    let part = match part {
        StreamedBlock::Call(call) => return PartialBlock::Call(call),
        StreamedBlock::Json(part) => part,
    };
    let provider_data = part.get("thoughtSignature").map(|signature| json!({"thoughtSignature": signature}));
    if let Some(Value::String(text)) = part.get("text") {
        let text = text.clone();
        return match is_thought(&part) {
            true => PartialBlock::thinking(text, Some(Value::Object(part))),
            false => PartialBlock::Text { text, provider_data },
        };
    }
    if let Some(content) = media(&part) {
        return PartialBlock::Media { content, provider_data };
    }
    let type_name = part.keys().find(|key| !matches!(key.as_str(), "thoughtSignature" | "thought"));
    let type_name = type_name.map_or("part", String::as_str).to_owned();
    PartialBlock::opaque(&type_name, part)
}

/// The API reports `STOP` for calls too. All other reasons mean that the response is not complete.
fn ending(reason: &str, message: Option<&str>) -> Ending {
    match reason {
        "STOP" | "FINISH_REASON_UNSPECIFIED" => Ending::Finished(StopReason::End),
        "MAX_TOKENS" => Ending::cut_off(StopReason::Length, reason),
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "LANGUAGE"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => Ending::cut_off(StopReason::Refusal, reason),
        "MALFORMED_FUNCTION_CALL"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "MISSING_THOUGHT_SIGNATURE"
        | "MALFORMED_RESPONSE" => {
            Ending::Rejected { reason: reason.to_owned(), message: message.map(str::to_owned) }
        }
        other => Ending::cut_off(StopReason::Other(other.to_owned()), other),
    }
}

/// The API counts thoughts separately from the output, and the prompts of its own tools separately from the
/// input.
pub(super) const USAGE: UsagePaths<'static> = UsagePaths {
    input: &["/promptTokenCount", "/toolUsePromptTokenCount"],
    output: &["/candidatesTokenCount", "/thoughtsTokenCount"],
    cached: &["/cachedContentTokenCount"],
    cache_write: &[],
    reasoning: &["/thoughtsTokenCount"],
};
