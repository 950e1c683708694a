//! Reads responses and streams of the Responses API.
//!
//! A completed item is sent in full, so its fragments only matter before that: for display, and in a stream
//! that ends early.

mod blocks;
mod cited_content;

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};
use toolwire_contract::model::StopReason;

use crate::Family;
use crate::native_tools::NativeTool;
use crate::response::CallKind;
use crate::response::{
    CallDraft, Ending, JsonCursor, PartialBlock, ReadResult, ResponseParts, ResponseReader, UsagePaths,
};
use blocks::blocks;

/// The first index assigned to calls that arrive without one. The indexes of the API are smaller.
const FIRST_ASSIGNED_INDEX: u64 = 1 << 63;

#[derive(Debug, Default)]
pub(super) struct ResponsesReader {
    /// By their index in the output.
    items: BTreeMap<u64, OutputItem>,
    /// The indexes of items by id, for events without an index.
    index_by_id: HashMap<String, u64>,
    /// Whether the status of a call is `incomplete`.
    has_incomplete_call: bool,
}

#[derive(Debug, Default)]
struct OutputItem {
    /// The item's JSON, from the event that started or completed it.
    fields: Map<String, Value>,
    is_complete: bool,
    text: String,
    refusal: String,
    thinking: String,
    call: Option<usize>,
    /// The number of citations, images and other parts that were emitted.
    emitted: usize,
}

impl ResponseReader for ResponsesReader {
    fn event(&mut self, event: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
        event.object()?;
        if event.index("output_index")?.is_some_and(|index| index >= FIRST_ASSIGNED_INDEX) {
            return Err(event.error_at("output_index", "an index"));
        }
        match event.string("type")? {
            Some("response.created") => {
                if let Some(created) = event.get("response") {
                    response.set_id(created.string("id")?);
                }
                event.reject_error()
            }
            Some("response.output_item.added") => self.read_item_event(event, false, response),
            Some("response.output_item.done") => self.read_item_event(event, true, response),
            Some("response.function_call_arguments.delta" | "response.custom_tool_call_input.delta") => {
                let fragment = event.required_string("delta")?;
                self.call_of(event, response)?.append_arguments(fragment);
                Ok(())
            }
            Some("response.function_call_arguments.done") => {
                self.complete_arguments(event, "arguments", response)
            }
            Some("response.custom_tool_call_input.done") => self.complete_arguments(event, "input", response),
            Some("response.output_text.delta") => {
                let fragment = event.required_string("delta")?;
                self.item_of(event)?.text.push_str(fragment);
                response.emit_text(fragment);
                Ok(())
            }
            Some("response.output_text.annotation.added") => {
                if let Some(annotation) = event.get("annotation") {
                    self.item_of(event)?.emitted += 1;
                    let family = Family::OpenAiResponses.meta_key();
                    response.emit_citation(family, annotation.value().clone());
                }
                Ok(())
            }
            Some("response.refusal.delta") => {
                let fragment = event.required_string("delta")?;
                self.item_of(event)?.refusal.push_str(fragment);
                response.emit_refusal(fragment);
                Ok(())
            }
            Some("response.reasoning_summary_text.delta" | "response.reasoning_text.delta") => {
                let fragment = event.required_string("delta")?;
                self.item_of(event)?.thinking.push_str(fragment);
                response.emit_thinking(fragment);
                Ok(())
            }
            Some("response.reasoning_summary_part.added") if event.index("summary_index")? > Some(0) => {
                self.item_of(event)?.thinking.push_str("\n\n");
                response.emit_thinking("\n\n");
                Ok(())
            }
            Some(name @ ("response.completed" | "response.incomplete" | "response.failed")) => {
                let status = name.trim_start_matches("response.");
                match event.get("response") {
                    Some(ended) => self.read_response(&ended, status, response),
                    // Without the response, the reason is unknown, and the response counts as incomplete.
                    None if status == "incomplete" => Ok(()),
                    None => end(event, status, response),
                }
            }
            Some("error") => {
                Err(event.provider_error(event.string("message")?.unwrap_or("the stream failed")))
            }
            _ => event.reject_error(),
        }
    }

    /// Reads a response, its array of output items, or one item.
    fn body(&mut self, body: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
        if body.value().is_array() {
            return self.read_output(body, response);
        }
        body.object()?;
        if body.get("output").is_some() {
            return self.read_response(body, "completed", response);
        }
        body.reject_error()?;
        self.read_item(0, body, true, response)
    }

    fn finish(self: Box<Self>, response: &mut ResponseParts) -> Vec<PartialBlock> {
        if self.has_incomplete_call
            && let Some(Ending::Finished(stop)) = &response.ending
        {
            response.ending = Some(Ending::cut_off(stop.clone(), "incomplete"));
        }
        let blocks: Vec<PartialBlock> = self.items.values().flat_map(blocks).collect();
        let is_refusal = |block: &PartialBlock| match block {
            PartialBlock::Text { provider_data: Some(data), .. } => data["type"] == "refusal",
            _ => false,
        };
        if blocks.iter().any(is_refusal) {
            response.mark_refused();
        }
        blocks
    }
}

impl ResponsesReader {
    fn read_item_event(
        &mut self,
        event: &JsonCursor<'_>,
        is_complete: bool,
        response: &mut ResponseParts,
    ) -> ReadResult {
        let item = event.get("item").ok_or_else(|| event.error_at("item", "an item"))?;
        let id = item.string("id")?;
        let known = event.index("output_index")?.or_else(|| self.index_by_id.get(id?).copied());
        let is_call = call_form(&item)?.is_some();
        let index = match (known, is_call) {
            (Some(index), _) => index,
            (None, false) if is_complete => self.open_item(),
            (None, false) => self.next_index(),
            (None, true) if id.is_some() => self.next_assigned_index(),
            (None, true) => return Err(event.error_at("output_index", "the index of the item")),
        };
        if is_call && self.items.get(&index).is_none_or(|item| item.call.is_none()) {
            response.require_open(event, "no item after the end of the response")?;
        }
        if let Some(id) = id {
            self.index_by_id.insert(id.to_owned(), index);
        }
        self.read_item(index, &item, is_complete, response)?;
        if is_complete && let Some(item) = self.items.get_mut(&index) {
            item.emit_rest(response);
        }
        Ok(())
    }

    /// Reads an item. If the item contains no arguments, those that arrived before are retained.
    fn read_item(
        &mut self,
        index: u64,
        item: &JsonCursor<'_>,
        is_complete: bool,
        response: &mut ResponseParts,
    ) -> ReadResult {
        let known = self.items.entry(index).or_default();
        known.fields = item.object()?.clone();
        known.is_complete = is_complete;
        let Some(form) = call_form(item)? else { return Ok(()) };
        self.has_incomplete_call |= item.value().get("status").is_some_and(|status| status == "incomplete");
        let id = item.string("call_id")?;
        let (kind, mut draft) = match form {
            CallForm::Named(kind, key) => {
                (kind, CallDraft::new(item.required_string("name")?, id, item.value().get(key)))
            }
            CallForm::Native(tool) => (CallKind::Native, CallDraft::new(tool.name, id, Some(item.value()))),
        };
        draft.namespace = item.string("namespace")?.map(str::to_owned);
        draft.kind = kind;
        match known.call {
            Some(call) => {
                let call = &mut response.calls[call];
                if draft.has_no_arguments() {
                    draft.arguments = std::mem::take(&mut call.arguments);
                }
                *call = draft;
            }
            None => known.call = Some(response.begin_call(draft)),
        }
        Ok(())
    }

    fn complete_arguments(
        &mut self,
        event: &JsonCursor<'_>,
        key: &str,
        response: &mut ResponseParts,
    ) -> ReadResult {
        event.required_string(key)?;
        let name = event.string("name")?;
        let draft = self.call_of(event, response)?;
        draft.set_arguments(event.value().get(key));
        if draft.name.is_empty() {
            draft.name = name.unwrap_or_default().to_owned();
        }
        Ok(())
    }

    /// Returns the call of an event about arguments. Such an event may arrive before the item itself.
    fn call_of<'r>(
        &mut self,
        event: &JsonCursor<'_>,
        response: &'r mut ResponseParts,
    ) -> ReadResult<&'r mut CallDraft> {
        response.require_open(event, "no arguments after the end of the response")?;
        let index = match (event.index("output_index")?, event.string("item_id")?) {
            (Some(index), _) => index,
            (None, Some(id)) => {
                let assigned = self.next_assigned_index();
                *self.index_by_id.entry(id.to_owned()).or_insert(assigned)
            }
            (None, None) => return Err(event.error_at("output_index", "the index of an item")),
        };
        let kind = match event.string("type")? {
            Some("response.custom_tool_call_input.delta" | "response.custom_tool_call_input.done") => {
                CallKind::Custom
            }
            _ => CallKind::Function,
        };
        let item = self.items.entry(index).or_default();
        let call =
            *item.call.get_or_insert_with(|| response.begin_call(CallDraft { kind, ..CallDraft::default() }));
        Ok(&mut response.calls[call])
    }

    /// Returns the item of an event about text.
    fn item_of(&mut self, event: &JsonCursor<'_>) -> ReadResult<&mut OutputItem> {
        let index = match event.index("output_index")? {
            Some(index) => Some(index),
            None => event.string("item_id")?.and_then(|id| self.index_by_id.get(id).copied()),
        };
        let index = index.unwrap_or_else(|| self.open_item());
        Ok(self.items.entry(index).or_default())
    }

    /// Returns the index of the item that an event without index and id belongs to: the last one that is not
    /// complete, or else a new one.
    fn open_item(&self) -> u64 {
        let open = self.items.iter().rfind(|(_, item)| !item.is_complete && item.call.is_none());
        open.map_or_else(|| self.next_index(), |(index, _)| *index)
    }

    /// Returns the index after the last one of the API.
    fn next_index(&self) -> u64 {
        self.items.range(..FIRST_ASSIGNED_INDEX).next_back().map_or(0, |(last, _)| last + 1)
    }

    /// Returns an index for a call that arrives without one.
    fn next_assigned_index(&self) -> u64 {
        let next = self.items.last_key_value().map_or(0, |(last, _)| last.saturating_add(1));
        next.max(FIRST_ASSIGNED_INDEX)
    }

    /// Reads a response that has ended. `status` is used if it does not report one.
    fn read_response(
        &mut self,
        ended: &JsonCursor<'_>,
        status: &str,
        response: &mut ResponseParts,
    ) -> ReadResult {
        ended.reject_error()?;
        response.set_id(ended.string("id")?);
        response.merge_usage(ended.get("usage"));
        // Earlier events have the tier of the request.
        let tier = ended.value().get("service_tier").and_then(Value::as_str);
        response.details.service_tier = tier.map(str::to_owned);
        if let Some(output) = ended.get("output") {
            self.read_output(&output, response)?;
        }
        end(ended, ended.string("status")?.unwrap_or(status), response)
    }

    /// Reads the output of a response that has ended. Some gateways send no events for the items.
    fn read_output(&mut self, output: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
        let is_first = self.items.is_empty();
        let has_calls = !response.calls.is_empty();
        for (index, item) in output.items()?.enumerate() {
            let index = index as u64;
            let is_complete = self.items.get(&index).is_some_and(|known| known.is_complete);
            // If calls were streamed, they are known, perhaps under other indexes.
            if !(is_complete || has_calls && call_form(&item)?.is_some()) {
                self.read_item(index, &item, true, response)?;
            }
        }
        if is_first {
            for item in self.items.values_mut() {
                for block in blocks(item) {
                    match block {
                        PartialBlock::Text { text, provider_data: Some(data) }
                            if data["type"] == "refusal" =>
                        {
                            response.emit_refusal(&text);
                        }
                        PartialBlock::Text { text, .. } => response.emit_text(&text),
                        PartialBlock::Thinking { text, .. } => response.emit_thinking(&text),
                        _ => {}
                    }
                }
                item.emit_rest(response);
            }
        }
        Ok(())
    }
}

/// The form of an item that is a call.
enum CallForm {
    /// A call of a tool with a name, and the key of its arguments.
    Named(CallKind, &'static str),
    /// A call of a tool that OpenAI defines. The whole item is its arguments.
    Native(&'static NativeTool),
}

/// Returns the form of a call. Calls of hosted tools run at the provider.
fn call_form(item: &JsonCursor<'_>) -> ReadResult<Option<CallForm>> {
    item.object()?;
    Ok(match item.string("type")? {
        Some("function_call") => Some(CallForm::Named(CallKind::Function, "arguments")),
        Some("custom_tool_call") => Some(CallForm::Named(CallKind::Custom, "input")),
        _ => NativeTool::of_call(item.value()).map(CallForm::Native),
    })
}

fn end(ended: &JsonCursor<'_>, status: &str, response: &mut ResponseParts) -> ReadResult {
    if matches!(status, "failed" | "cancelled") {
        return Err(ended.provider_error(format!("the status of the response is `{status}`")));
    }
    let details = ended.get("incomplete_details");
    let reason = match &details {
        Some(details) => details.string("reason")?,
        None => None,
    };
    response.ending = Some(match reason {
        Some(reason @ "max_output_tokens") => Ending::cut_off(StopReason::Length, reason),
        Some(reason @ "content_filter") => Ending::cut_off(StopReason::Refusal, reason),
        reason if status == "incomplete" => {
            let reason = reason.unwrap_or("incomplete");
            Ending::cut_off(StopReason::Other(reason.to_owned()), reason)
        }
        _ => Ending::Finished(StopReason::End),
    });
    Ok(())
}

pub(super) const USAGE: UsagePaths<'static> = UsagePaths {
    input: &["/input_tokens"],
    output: &["/output_tokens"],
    cached: &["/input_tokens_details/cached_tokens"],
    cache_write: &["/input_tokens_details/cache_write_tokens"],
    reasoning: &["/output_tokens_details/reasoning_tokens"],
};
