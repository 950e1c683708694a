//! A whole Responses answer, streamed or not.
//!
//! An item that is done is told whole, so pieces only count while it is not: for showing, and for what a cut stream left.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use toolwire_contract::{ModelEvent, StopReason, Usage};

use crate::answers::{Reading, Slot, show_text, show_thinking, update, usage};
use crate::calls::{At, CallError};

#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// By their place in the output.
    items: BTreeMap<u64, Item>,
    stop: Option<StopReason>,
    usage: Value,
    id: Option<String>,
}

#[derive(Debug, Default)]
struct Item {
    /// As it began, or as it ended.
    told: Map<String, Value>,
    is_whole: bool,
    text: String,
    refusal: String,
    thinking: String,
}

impl Reader {
    pub(crate) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    pub(crate) fn push(&mut self, event: &At<'_>, shown: &mut Vec<ModelEvent>) -> Result<(), CallError> {
        let Some(name) = event.text("type")? else { return Ok(()) };
        if name == "response.output_item.added" || name == "response.output_item.done" {
            let Some(item) = event.get("item") else { return Ok(()) };
            let place = event.index("output_index")?.unwrap_or(self.items.len() as u64);
            let known = self.items.entry(place).or_default();
            known.told = item.object()?.clone();
            known.is_whole = name.ends_with("done");
            return Ok(());
        }
        if matches!(
            name,
            "response.created" | "response.completed" | "response.incomplete" | "response.failed"
        ) {
            let Some(response) = event.get("response") else {
                if name == "response.completed" {
                    self.stop = Some(StopReason::End);
                }
                return Ok(());
            };
            return self.take_response(&response, name, shown);
        }
        let place = event.index("output_index")?.unwrap_or_default();
        let piece = || event.need_text("delta");
        match name {
            "response.output_text.delta" => {
                self.item(place).text.push_str(piece()?);
                show_text(shown, piece()?);
            }
            "response.refusal.delta" => {
                self.item(place).refusal.push_str(piece()?);
                show_text(shown, piece()?);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.item(place).thinking.push_str(piece()?);
                show_thinking(shown, piece()?);
            }
            "response.reasoning_summary_part.added" if event.index("summary_index")?.unwrap_or(0) > 0 => {
                self.item(place).thinking.push_str("\n\n");
                show_thinking(shown, "\n\n");
            }
            _ => {}
        }
        Ok(())
    }

    fn item(&mut self, place: u64) -> &mut Item {
        self.items.entry(place).or_default()
    }

    /// The response as it began or ended.
    fn take_response(
        &mut self,
        response: &At<'_>,
        event: &str,
        shown: &mut Vec<ModelEvent>,
    ) -> Result<(), CallError> {
        if let Some(id) = response.text("id")? {
            self.id = Some(id.to_owned());
        }
        if event == "response.created" {
            return Ok(());
        }
        let status = response.text("status")?.unwrap_or(event.trim_start_matches("response."));
        if matches!(status, "failed" | "cancelled") {
            return Err(CallError::ErrorAnswer { message: format!("the response was {status}") });
        }
        if let Some(usage) = response.get("usage") {
            update(&mut self.usage, &usage);
        }
        self.stop =
            Some(match response.value().pointer("/incomplete_details/reason").and_then(Value::as_str) {
                Some("max_output_tokens") => StopReason::Length,
                Some("content_filter") => StopReason::Refusal,
                Some(other) if status == "incomplete" => StopReason::Other(other.to_owned()),
                _ if status == "incomplete" => StopReason::Other("incomplete".to_owned()),
                _ => StopReason::End,
            });
        let Some(output) = response.get("output") else { return Ok(()) };
        let is_told_at_once = self.items.is_empty();
        for (place, item) in output.items()?.enumerate() {
            let known = self.items.entry(place as u64).or_default();
            if !known.is_whole {
                known.told = item.object()?.clone();
                known.is_whole = true;
            }
        }
        if is_told_at_once {
            for item in self.items.values() {
                show(item, shown);
            }
        }
        Ok(())
    }

    /// A response, its list of output items, or one item.
    pub(crate) fn whole(&mut self, answer: &At<'_>, shown: &mut Vec<ModelEvent>) -> Result<(), CallError> {
        let wrapped = match answer.value() {
            Value::Array(_) => json!({"output": answer.value()}),
            value if value.get("output").is_some() => value.clone(),
            value => json!({"output": [value]}),
        };
        self.take_response(&At::root(&wrapped), "response.completed", shown)
    }

    pub(crate) fn finish(self) -> Reading {
        let slots: Vec<Slot> = self.items.into_values().flat_map(slots).collect();
        let is_refusal =
            |slot: &Slot| matches!(slot, Slot::Text { own: Some(own), .. } if own["type"] == "refusal");
        let refused = slots.iter().any(is_refusal);
        let stop = self.stop.map(|stop| if refused { StopReason::Refusal } else { stop });
        Reading { slots, stop, usage: read_usage(&self.usage), id: self.id }
    }
}

fn show(item: &Item, shown: &mut Vec<ModelEvent>) {
    for slot in slots(Item { told: item.told.clone(), is_whole: true, ..Item::default() }) {
        match slot {
            Slot::Text { text, .. } => show_text(shown, &text),
            Slot::Thinking { text, .. } => show_thinking(shown, &text),
            _ => {}
        }
    }
}

fn slots(item: Item) -> Vec<Slot> {
    let Item { told, is_whole, text, refusal, thinking } = item;
    let list = |key: &str| told.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let phase = told.get("phase").filter(|phase| !phase.is_null());
    let text_slot = |text: String| Slot::Text { text, own: phase.map(|phase| json!({"phase": phase})) };
    let refusal_slot = |text: String| Slot::Text { text, own: Some(json!({"type": "refusal"})) };
    match told.get("type").and_then(Value::as_str) {
        Some("function_call" | "custom_tool_call") => vec![Slot::Call],
        Some("message") | None if !is_whole => {
            let refusal = (!refusal.is_empty()).then(|| refusal_slot(refusal));
            [Slot::Thinking { text: thinking, own: None }, Slot::text(text)]
                .into_iter()
                .chain(refusal)
                .collect()
        }
        Some("message") => list("content")
            .iter()
            .filter_map(|part| match part["type"].as_str()? {
                "output_text" | "text" => Some(text_slot(part["text"].as_str()?.to_owned())),
                "refusal" => Some(refusal_slot(part["refusal"].as_str()?.to_owned())),
                _ => None,
            })
            .filter(|slot| !matches!(slot, Slot::Text { text, .. } if text.is_empty()))
            .collect(),
        Some("reasoning") if !is_whole => vec![Slot::Thinking { text: thinking, own: None }],
        Some("reasoning") => {
            let texts = |key: &str| {
                let texts: Vec<String> =
                    list(key).iter().filter_map(|part| Some(part["text"].as_str()?.to_owned())).collect();
                texts.join("\n\n")
            };
            let summary = texts("summary");
            let text = if summary.is_empty() { texts("content") } else { summary };
            vec![Slot::Thinking { text, own: Some(Value::Object(told)) }]
        }
        Some(other) => vec![Slot::Opaque { type_name: other.to_owned(), own: Value::Object(told.clone()) }],
        None => Vec::new(),
    }
}

fn read_usage(value: &Value) -> Option<Usage> {
    usage(
        value,
        &["/input_tokens"],
        &["/output_tokens"],
        &["/input_tokens_details/cached_tokens"],
        &["/output_tokens_details/reasoning_tokens"],
    )
}
