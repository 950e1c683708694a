//! A whole Gemini answer, streamed or not: a chunk has the shape of a whole answer.

use serde_json::{Map, Value, json};
use toolwire_contract::{Content, ModelEvent, StopReason, Usage};

use crate::answers::{Reading, Slot, append, show_text, show_thinking, update, usage};
use crate::calls::{At, CallError};

#[derive(Debug, Default)]
pub(crate) struct Reader {
    parts: Vec<Map<String, Value>>,
    stop: Option<StopReason>,
    usage: Value,
    id: Option<String>,
}

impl Reader {
    pub(crate) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    pub(crate) fn push(&mut self, chunk: &At<'_>, shown: &mut Vec<ModelEvent>) -> Result<(), CallError> {
        if let Some(id) = chunk.text("responseId")? {
            self.id = Some(id.to_owned());
        }
        if let Some(usage) = chunk.get("usageMetadata") {
            update(&mut self.usage, &usage);
        }
        if let Some(feedback) = chunk.get("promptFeedback")
            && let Some(reason) = feedback.text("blockReason")?
        {
            let more = feedback.text("blockReasonMessage")?.map(|message| format!(": {message}"));
            let message = format!("the prompt was blocked ({reason}){}", more.unwrap_or_default());
            return Err(CallError::ErrorAnswer { message });
        }
        let Some(candidates) = chunk.get("candidates") else {
            return self.take_content(chunk, shown);
        };
        let Some(candidate) = candidates.items()?.next() else { return Ok(()) };
        if let Some(content) = candidate.get("content") {
            self.take_content(&content, shown)?;
        }
        if let Some(reason) = candidate.text("finishReason")? {
            self.stop = Some(stop_reason(reason));
        }
        Ok(())
    }

    pub(crate) fn whole(&mut self, answer: &At<'_>, shown: &mut Vec<ModelEvent>) -> Result<(), CallError> {
        self.push(answer, shown)
    }

    fn take_content(&mut self, content: &At<'_>, shown: &mut Vec<ModelEvent>) -> Result<(), CallError> {
        let Some(parts) = content.get("parts") else { return Ok(()) };
        for part in parts.items()? {
            let fields = part.object()?;
            if let Some(text) = part.text("text")? {
                if is_thought(fields) {
                    show_thinking(shown, text)
                } else {
                    show_text(shown, text)
                }
                // Pieces of one text are one part again. What is signed stands alone, as the API asks.
                if let Some(last) = self.parts.last_mut()
                    && is_plain_text(last)
                    && is_plain_text(fields)
                    && is_thought(last) == is_thought(fields)
                {
                    append(last, "text", text);
                    continue;
                }
            }
            // A call that goes on in pieces has begun before.
            let goes_on = part.get("functionCall").is_some_and(|call| call.get("name").is_none());
            if !goes_on {
                self.parts.push(fields.clone());
            }
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Reading {
        let slots = self.parts.into_iter().map(slot).collect();
        Reading { slots, stop: self.stop, usage: read_usage(&self.usage), id: self.id }
    }
}

fn is_thought(part: &Map<String, Value>) -> bool {
    part.get("thought") == Some(&Value::Bool(true))
}

fn is_plain_text(part: &Map<String, Value>) -> bool {
    part.contains_key("text") && !part.contains_key("thoughtSignature")
}

fn slot(part: Map<String, Value>) -> Slot {
    if part.contains_key("functionCall") {
        return Slot::Call;
    }
    let own = part.get("thoughtSignature").map(|signature| json!({"thoughtSignature": signature}));
    if let Some(Value::String(text)) = part.get("text") {
        let text = text.clone();
        return match is_thought(&part) {
            true => Slot::Thinking { text, own: Some(Value::Object(part)) },
            false => Slot::Text { text, own },
        };
    }
    let inline = part.get("inlineData").map(|inline| (&inline["mimeType"], &inline["data"]));
    if let Some((Value::String(mime_type), Value::String(data))) = inline {
        if mime_type.starts_with("image/") {
            return Slot::Media(Content::image(data, mime_type), own);
        }
        if mime_type.starts_with("audio/") {
            return Slot::Media(Content::audio(data, mime_type), own);
        }
    }
    let known = part.keys().find(|key| !matches!(key.as_str(), "thoughtSignature" | "thought"));
    let type_name = known.map_or("part", String::as_str).to_owned();
    Slot::Opaque { type_name, own: Value::Object(part) }
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "STOP" | "FINISH_REASON_UNSPECIFIED" => StopReason::End,
        "MAX_TOKENS" => StopReason::Length,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "LANGUAGE"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => StopReason::Refusal,
        other => StopReason::Other(other.to_owned()),
    }
}

/// Thoughts are counted beside the candidates, and what tools of the provider's put in beside the prompt.
fn read_usage(value: &Value) -> Option<Usage> {
    usage(
        value,
        &["/promptTokenCount", "/toolUsePromptTokenCount"],
        &["/candidatesTokenCount", "/thoughtsTokenCount"],
        &["/cachedContentTokenCount"],
        &["/thoughtsTokenCount"],
    )
}
