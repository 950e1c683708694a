//! A whole Chat Completions answer, streamed or not.
//!
//! A chunk's `delta` and a whole `message` hold the same keys, so both are read by one hand: the message is put together
//! again and only then taken apart into blocks. Calls have no place among the text here and stand last.

use serde_json::{Map, Value, json};
use toolwire_contract::{ModelEvent, StopReason, Usage};

use crate::answers::{Reading, Slot, append, show_text, show_thinking, update, usage};
use crate::calls::{At, CallError};

/// Where the servers of this shape write what the model thinks; the first that comes is the one shown.
const REASONING: [&str; 2] = ["reasoning_content", "reasoning"];

#[derive(Debug, Default)]
pub(crate) struct Reader {
    content: String,
    refusal: String,
    /// Which of [`REASONING`] is shown.
    shown_reasoning: Option<&'static str>,
    /// Reasoning under the keys it came in.
    reasoning: Map<String, Value>,
    /// Mistral's thinking, which is a part of the content.
    thinking: String,
    /// DIAL's own.
    custom_content: Map<String, Value>,
    stop: Option<StopReason>,
    usage: Value,
    id: Option<String>,
}

impl Reader {
    pub(crate) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.stop.is_some()
    }

    pub(crate) fn push(&mut self, event: &At<'_>, shown: &mut Vec<ModelEvent>) -> Result<(), CallError> {
        if let Some(id) = event.text("id")?.filter(|id| !id.is_empty()) {
            self.id = Some(id.to_owned());
        }
        if let Some(usage) = event.get("usage") {
            update(&mut self.usage, &usage);
        } else if let Some(groq) = event.get("x_groq")
            && let Some(usage) = groq.get("usage")
        {
            update(&mut self.usage, &usage);
        }
        let Some(choices) = event.get("choices") else { return Ok(()) };
        for choice in choices.items()? {
            if choice.index("index")?.unwrap_or(0) != 0 {
                continue;
            }
            if let Some(usage) = choice.get("usage") {
                update(&mut self.usage, &usage);
            }
            if let Some(message) = choice.get("delta").or_else(|| choice.get("message")) {
                self.take_message(&message, shown)?;
            }
            if let Some(reason) = choice.text("finish_reason")?.filter(|reason| !reason.is_empty()) {
                self.stop = Some(stop_reason(reason));
            }
        }
        Ok(())
    }

    pub(crate) fn whole(&mut self, answer: &At<'_>, shown: &mut Vec<ModelEvent>) -> Result<(), CallError> {
        match answer.get("choices") {
            Some(choices) if choices.items()?.next().is_none() => {
                Err(choices.expected("at least one choice"))
            }
            Some(_) => self.push(answer, shown),
            None => self.take_message(answer, shown),
        }
    }

    fn take_message(&mut self, message: &At<'_>, shown: &mut Vec<ModelEvent>) -> Result<(), CallError> {
        message.object()?;
        for key in REASONING {
            // Some servers write something else than text here, and it is not worth an answer.
            let Some(piece) = message.get(key).and_then(|at| at.value().as_str()) else { continue };
            append(&mut self.reasoning, key, piece);
            if !piece.is_empty() && *self.shown_reasoning.get_or_insert(key) == key {
                show_thinking(shown, piece);
            }
        }
        if let Some(details) = message.get("reasoning_details") {
            for detail in details.items()? {
                self.take_detail(detail.value());
            }
        }
        match message.get("content") {
            Some(content) if content.value().is_array() => {
                for part in content.items()? {
                    self.take_part(&part, shown)?;
                }
            }
            Some(_) => self.take_text(message.need_text("content")?, shown),
            None => {}
        }
        if let Some(piece) = message.text("refusal")? {
            self.refusal.push_str(piece);
            show_text(shown, piece);
        }
        if let Some(custom) = message.get("custom_content") {
            for (key, value) in custom.object()? {
                self.take_custom(key, value);
            }
        }
        Ok(())
    }

    /// DIAL's state goes back as it came, and attachments with it. Stages are for people to watch.
    fn take_custom(&mut self, key: &str, value: &Value) {
        match (self.custom_content.get_mut(key), value) {
            (_, Value::Null) => {}
            _ if key == "stages" => {}
            (Some(Value::Object(known)), Value::Object(more)) => known.extend(more.clone()),
            (known, Value::Array(more)) => {
                // The place in the list is a word of streams alone.
                let items = more.iter().cloned().map(|mut item| {
                    if let Value::Object(fields) = &mut item {
                        fields.shift_remove("index");
                    }
                    item
                });
                match known {
                    Some(Value::Array(known)) => known.extend(items),
                    _ => {
                        self.custom_content.insert(key.to_owned(), items.collect());
                    }
                }
            }
            (_, other) => {
                self.custom_content.insert(key.to_owned(), other.clone());
            }
        }
    }

    fn take_text(&mut self, piece: &str, shown: &mut Vec<ModelEvent>) {
        self.content.push_str(piece);
        show_text(shown, piece);
    }

    /// Mistral writes lists of parts; parts other than text and thinking (references) are not the model's words.
    fn take_part(&mut self, part: &At<'_>, shown: &mut Vec<ModelEvent>) -> Result<(), CallError> {
        match part.text("type")? {
            Some("text" | "output_text") => self.take_text(part.text("text")?.unwrap_or_default(), shown),
            Some("thinking") => {
                let Some(thinking) = part.get("thinking") else { return Ok(()) };
                if let Some(piece) = thinking.value().as_str() {
                    self.thinking.push_str(piece);
                    show_thinking(shown, piece);
                    return Ok(());
                }
                for piece in thinking.items()? {
                    let piece = piece.text("text")?.unwrap_or_default();
                    self.thinking.push_str(piece);
                    show_thinking(shown, piece);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// OpenRouter's details: pieces of one index are one, and all go back as they came.
    fn take_detail(&mut self, detail: &Value) {
        let details = self.reasoning.entry("reasoning_details").or_insert_with(|| json!([]));
        let Value::Array(details) = details else { return };
        let same = |known: &&mut Value| {
            detail.get("index").is_some()
                && ["index", "type"].iter().all(|key| known.get(*key) == detail.get(*key))
        };
        match (details.iter_mut().rev().find(same), detail) {
            (Some(Value::Object(known)), Value::Object(more)) => {
                for (key, value) in more {
                    match value {
                        Value::Null => {}
                        Value::String(piece) if matches!(key.as_str(), "text" | "summary" | "data") => {
                            append(known, key, piece);
                        }
                        other => {
                            known.insert(key.clone(), other.clone());
                        }
                    }
                }
            }
            _ => details.push(detail.clone()),
        }
    }

    pub(crate) fn finish(mut self) -> Reading {
        let mut slots = Vec::new();
        if !self.thinking.is_empty() {
            let own = json!({"thinking": [{"type": "text", "text": self.thinking}]});
            slots.push(Slot::Thinking { text: self.thinking, own: Some(own) });
        }
        self.reasoning.retain(|_, value| value != "");
        if !self.reasoning.is_empty() {
            let shown = self.shown_reasoning.and_then(|key| self.reasoning.get(key)?.as_str());
            let text = shown.unwrap_or_default().to_owned();
            slots.push(Slot::Thinking { text, own: Some(Value::Object(self.reasoning)) });
        }
        slots.push(Slot::text(self.content));
        let mut stop = self.stop;
        if !self.refusal.is_empty() {
            let own = json!({"refusal": self.refusal});
            slots.push(Slot::Text { text: self.refusal, own: Some(own) });
            stop = stop.map(|_| StopReason::Refusal);
        }
        if !self.custom_content.is_empty() {
            let own = json!({"custom_content": self.custom_content});
            slots.push(Slot::Opaque { type_name: "custom_content".to_owned(), own });
        }
        Reading { slots, stop, usage: read_usage(&self.usage), id: self.id }
    }
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "stop" | "end_turn" | "eos" | "stop_sequence" => StopReason::End,
        "tool_calls" | "function_call" | "tool_use" => StopReason::Calls,
        "length" | "max_tokens" | "model_length" => StopReason::Length,
        "content_filter" | "refusal" => StopReason::Refusal,
        other => StopReason::Other(other.to_owned()),
    }
}

fn read_usage(value: &Value) -> Option<Usage> {
    let cached = "/prompt_tokens_details/cached_tokens";
    let reasoning = "/completion_tokens_details/reasoning_tokens";
    let cached = if value.pointer(cached).is_some() { cached } else { "/prompt_cache_hit_tokens" };
    let mut usage = usage(value, &["/prompt_tokens"], &["/completion_tokens"], &[cached], &[reasoning])?;
    // xAI counts reasoning beside the output, all others within it; only the total tells.
    let beside =
        usage.input_tokens.saturating_add(usage.output_tokens).saturating_add(usage.reasoning_tokens);
    if usage.reasoning_tokens > 0 && value.get("total_tokens").and_then(Value::as_u64) == Some(beside) {
        usage.output_tokens =
            usage.output_tokens.saturating_add(usage.reasoning_tokens).min(Usage::MAX_COUNT);
    }
    Some(usage)
}
