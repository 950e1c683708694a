//! Reads Chat Completions responses and streams.
//!
//! The `delta` of a chunk and the `message` of a complete response have the same keys, so one function reads
//! both. Calls have no position among the text and come last.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use toolwire_contract::model::{StopReason, Usage};

use crate::Family;
use crate::families::function_calls::{read_complete_calls, read_fragment};
use crate::response::{
    CallDraft, Ending, JsonCursor, PartialBlock, ReadResult, ResponseParts, ResponseReader, UsagePaths,
    append,
};

/// The keys that servers use for reasoning. Only the first one that arrives is displayed.
const REASONING_KEYS: [&str; 2] = ["reasoning_content", "reasoning"];

#[derive(Debug, Default)]
pub(super) struct ChatReader {
    content: String,
    refusal: String,
    /// The one of [`REASONING_KEYS`] that is displayed.
    displayed_reasoning: Option<&'static str>,
    /// Reasoning under its original keys.
    reasoning: Map<String, Value>,
    /// Mistral's thinking, which is part of the content.
    thinking: String,
    /// DIAL's own content.
    custom_content: Map<String, Value>,
    /// The position of each call by the index that the server assigned.
    call_by_index: BTreeMap<u64, usize>,
}

impl ResponseReader for ChatReader {
    fn event(&mut self, event: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
        read_head(event, response)?;
        // Chunks without choices contain the usage, or Azure's content filter results.
        let Some(choices) = event.get("choices") else { return Ok(()) };
        for choice in choices.items()? {
            // Other choices are alternative responses; a conversation continues with the first.
            if choice.index("index")?.unwrap_or(0) != 0 {
                continue;
            }
            response.merge_usage(choice.get("usage"));
            if let Some(message) = choice.get("delta").or_else(|| choice.get("message")) {
                self.read_message(&message, response)?;
                if let Some(calls) = message.get("tool_calls") {
                    for call in calls.items()? {
                        self.read_call(&call, response)?;
                    }
                }
            }
            read_finish_reason(&choice, response)?;
        }
        Ok(())
    }

    fn body(&mut self, body: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
        read_head(body, response)?;
        let choices = body.get("choices");
        let choice = match &choices {
            Some(choices) => {
                Some(choices.items()?.next().ok_or_else(|| choices.error("at least one choice"))?)
            }
            None => None,
        };
        let message = match &choice {
            Some(choice) => {
                Some(choice.get("message").ok_or_else(|| choice.error_at("message", "a message"))?)
            }
            None => None,
        };
        let message = message.as_ref().unwrap_or(body);
        self.read_message(message, response)?;
        if let Some(calls) = message.get("tool_calls") {
            read_complete_calls(&calls, response)?;
        }
        if let Some(choice) = &choice {
            choice.index("index")?;
            response.merge_usage(choice.get("usage"));
            read_finish_reason(choice, response)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, response: &mut ResponseParts) -> Vec<PartialBlock> {
        let mut blocks = Vec::new();
        if !self.thinking.is_empty() {
            let provider_data = json!({"thinking": [{"type": "text", "text": self.thinking}]});
            blocks.push(PartialBlock::thinking(self.thinking, Some(provider_data)));
        }
        self.reasoning.retain(|_, value| value != "");
        if !self.reasoning.is_empty() {
            let displayed = self.displayed_reasoning.and_then(|key| self.reasoning.get(key)?.as_str());
            let text = displayed.unwrap_or_default().to_owned();
            blocks.push(PartialBlock::thinking(text, Some(Value::Object(self.reasoning))));
        }
        blocks.push(PartialBlock::text(self.content));
        if !self.refusal.is_empty() {
            let provider_data = Some(json!({"refusal": self.refusal}));
            blocks.push(PartialBlock::Text { text: self.refusal, provider_data });
            response.mark_refused();
        }
        if !self.custom_content.is_empty() {
            let provider_data = json!({"custom_content": self.custom_content});
            blocks.push(PartialBlock::Opaque { type_name: "custom_content".to_owned(), provider_data });
        }
        blocks.extend(response.call_blocks());
        blocks
    }
}

impl ChatReader {
    /// Reads everything in a message except its calls.
    fn read_message(&mut self, message: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
        message.object()?;
        for key in REASONING_KEYS {
            // Some servers send a value other than a string here. It is not worth rejecting the response.
            let Some(fragment) = message.value().get(key).and_then(Value::as_str) else { continue };
            append(&mut self.reasoning, key, fragment);
            if !fragment.is_empty() && *self.displayed_reasoning.get_or_insert(key) == key {
                response.emit_thinking(fragment);
            }
        }
        if let Some(details) = message.get("reasoning_details") {
            for detail in details.items()? {
                self.read_reasoning_detail(detail.value());
            }
        }
        match message.get("content") {
            Some(content) if content.value().is_array() => {
                for part in content.items()? {
                    self.read_part(&part, response)?;
                }
            }
            Some(_) => self.append_text(message.required_string("content")?, response),
            None => {}
        }
        if let Some(fragment) = message.string("refusal")? {
            self.refusal.push_str(fragment);
            response.emit_refusal(fragment);
        }
        for annotation in message.value()["annotations"].as_array().into_iter().flatten() {
            read_annotation(annotation, response);
        }
        if let Some(custom) = message.get("custom_content") {
            for (key, value) in custom.object()? {
                self.read_custom_content(key, value);
            }
        }
        Ok(())
    }

    fn append_text(&mut self, fragment: &str, response: &mut ResponseParts) {
        self.content.push_str(fragment);
        response.emit_text(fragment);
    }

    /// Reads a part of Mistral's content. Parts other than text and thinking, such as references, are
    /// ignored.
    fn read_part(&mut self, part: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
        match part.string("type")? {
            Some("text" | "output_text") => {
                self.append_text(part.string("text")?.unwrap_or_default(), response)
            }
            Some("thinking") => {
                let Some(thinking) = part.get("thinking") else { return Ok(()) };
                let mut append_thinking = |fragment: &str| {
                    self.thinking.push_str(fragment);
                    response.emit_thinking(fragment);
                };
                if let Some(fragment) = thinking.value().as_str() {
                    append_thinking(fragment);
                } else {
                    for part in thinking.items()? {
                        append_thinking(part.string("text")?.unwrap_or_default());
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads one of OpenRouter's details. Fragments with the same index are joined; all are sent back
    /// unchanged.
    fn read_reasoning_detail(&mut self, detail: &Value) {
        let details = self.reasoning.entry("reasoning_details").or_insert_with(|| json!([]));
        let Value::Array(details) = details else { return };
        let is_same = |known: &&mut Value| {
            detail.get("index").is_some()
                && ["index", "type"].iter().all(|key| known.get(*key) == detail.get(*key))
        };
        match (details.iter_mut().rev().find(is_same), detail) {
            (Some(Value::Object(known)), Value::Object(more)) => {
                for (key, value) in more {
                    match value {
                        Value::Null => {}
                        Value::String(fragment) if matches!(key.as_str(), "text" | "summary" | "data") => {
                            append(known, key, fragment);
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

    /// Reads DIAL's state and attachments, which are sent back unchanged. Stages are only for display.
    fn read_custom_content(&mut self, key: &str, value: &Value) {
        match (self.custom_content.get_mut(key), value) {
            (_, Value::Null) => {}
            _ if key == "stages" => {}
            (Some(Value::Object(known)), Value::Object(more)) => known.extend(more.clone()),
            (known, Value::Array(more)) => {
                // Only streams have an index in each item.
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

    /// Reads a fragment of a streamed call.
    fn read_call(&mut self, call: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
        call.object()?;
        response.require_open(call, "no call after the finish reason")?;
        let id = call.string("id")?.filter(|id| !id.is_empty());
        let body = call.get("function").or_else(|| call.get("custom"));
        let has_name = match &body {
            Some(body) => body.string("name")?.is_some_and(|name| !name.is_empty()),
            None => false,
        };
        let index = call.index("index")?;
        let current = match index {
            Some(index) => self.call_by_index.get(&index).copied(),
            None => response.calls.len().checked_sub(1),
        };
        let continued = current.filter(|&position| {
            let draft = &response.calls[position];
            // Some servers send the index 0 for every call, or no index: a name with a new id starts a call.
            let has_other_id = has_name && id.is_some() && draft.id.is_some() && draft.id.as_deref() != id;
            let is_next = index.is_none() && has_name && !draft.has_no_arguments();
            !has_other_id && !is_next
        });
        let position = match continued {
            Some(position) => position,
            None if index.is_none() && !has_name => {
                return Err(call.error_at("index", "the index of a call"));
            }
            None => response.begin_call(CallDraft::default()),
        };
        if let Some(index) = index {
            self.call_by_index.insert(index, position);
        }
        read_fragment(call, &mut response.calls[position])
    }
}

/// Reads a citation. It gets the format of the Responses API, in which the same fields are not nested.
fn read_annotation(annotation: &Value, response: &mut ResponseParts) {
    let Some(kind) = annotation["type"].as_str() else { return };
    let Some(fields) = annotation.get(kind).and_then(Value::as_object) else { return };
    let mut citation = Map::from_iter([("type".to_owned(), json!(kind))]);
    citation.extend(fields.clone());
    response.emit_citation(Family::OpenAiResponses.meta_key(), Value::Object(citation));
}

fn read_head(event: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
    event.object()?;
    event.reject_error()?;
    response.set_id(event.string("id")?);
    let groq = event.get("x_groq");
    response.merge_usage(event.get("usage").or_else(|| groq.as_ref()?.get("usage")));
    let known = |key: &str| event.value().get(key).and_then(Value::as_str).map(str::to_owned);
    let details = &mut response.details;
    details.service_tier = known("service_tier").or(details.service_tier.take());
    details.system_fingerprint = known("system_fingerprint").or(details.system_fingerprint.take());
    Ok(())
}

fn read_finish_reason(choice: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
    if let Some(reason) = choice.string("finish_reason")?.filter(|reason| !reason.is_empty()) {
        response.ending = Some(ending(reason));
    }
    Ok(())
}

/// vLLM reports `stop` after a forced call and xAI `end_turn`, so calls are valid unless the response was cut
/// off.
fn ending(reason: &str) -> Ending {
    match reason {
        "stop" | "end_turn" | "eos" | "stop_sequence" => Ending::Finished(StopReason::End),
        "tool_calls" | "function_call" | "tool_use" => Ending::Finished(StopReason::Calls),
        "length" | "max_tokens" | "model_length" => Ending::cut_off(StopReason::Length, reason),
        "content_filter" => Ending::cut_off(StopReason::Refusal, reason),
        "refusal" => Ending::Finished(StopReason::Refusal),
        "error" => Ending::cut_off(StopReason::Other(reason.to_owned()), reason),
        other => Ending::other(other),
    }
}

pub(super) fn read_usage(reported: &Value) -> Option<Usage> {
    let cached = "/prompt_tokens_details/cached_tokens";
    let cached = if reported.pointer(cached).is_some() { cached } else { "/prompt_cache_hit_tokens" };
    let paths = UsagePaths {
        input: &["/prompt_tokens"],
        output: &["/completion_tokens"],
        cached: &[cached],
        cache_write: &["/prompt_tokens_details/cache_write_tokens"],
        reasoning: &["/completion_tokens_details/reasoning_tokens"],
    };
    let mut usage = paths.read(reported)?;
    // xAI counts reasoning separately from the output, all others count it as output. Only the total shows
    // which is the case.
    let output = usage.output_tokens.saturating_add(usage.reasoning_tokens);
    let total = usage.input_tokens.saturating_add(output);
    if usage.reasoning_tokens > 0 && reported.get("total_tokens").and_then(Value::as_u64) == Some(total) {
        usage.output_tokens = output.min(Usage::MAX_COUNT);
    }
    Some(usage)
}
