//! What a family reads out of an answer, before names and arguments are turned back.

use serde_json::{Map, Value, json};
use toolwire_contract::{Content, ModelEvent, StopReason, Usage};

use crate::calls::At;

/// An answer as its family reads it.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) slots: Vec<Slot>,
    /// `None` while nothing said that the answer had ended.
    pub(crate) stop: Option<StopReason>,
    pub(crate) usage: Option<Usage>,
    /// What the API calls this answer.
    pub(crate) id: Option<String>,
}

/// A block of the message to be. Texts that turn out empty, and own nothing, are left out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Slot {
    Text {
        text: String,
        /// What goes back to this family beside the text.
        own: Option<Value>,
    },
    Thinking {
        text: String,
        /// What the API sent, whole, if it may go back.
        own: Option<Value>,
    },
    /// The next of the calls.
    Call,
    Media(Content, Option<Value>),
    /// Something only this family has a word for.
    Opaque {
        type_name: String,
        own: Value,
    },
}

impl Slot {
    pub(crate) fn text(text: impl Into<String>) -> Slot {
        Slot::Text { text: text.into(), own: None }
    }
}

/// The key under which what only a family understands stands in `_meta`.
pub(crate) fn own_meta(key: &str, own: Value) -> Map<String, Value> {
    Map::from_iter([("_meta".to_owned(), json!({key: own}))])
}

/// Shows a piece of text, if there is one.
pub(crate) fn show_text(shown: &mut Vec<ModelEvent>, piece: &str) {
    if !piece.is_empty() {
        shown.push(ModelEvent::Text(piece.to_owned()));
    }
}

/// Shows a piece of thinking, if there is one.
pub(crate) fn show_thinking(shown: &mut Vec<ModelEvent>, piece: &str) {
    if !piece.is_empty() {
        shown.push(ModelEvent::Thinking(piece.to_owned()));
    }
}

/// Appends a piece to the text under `key`, which is made where it is missing.
pub(crate) fn append(fields: &mut Map<String, Value>, key: &str, piece: &str) {
    match fields.get_mut(key) {
        Some(Value::String(text)) => text.push_str(piece),
        _ => {
            fields.insert(key.to_owned(), json!(piece));
        }
    }
}

/// A number of tokens; what is no such number counts nothing.
pub(crate) fn tokens(usage: &Value, path: &str) -> Option<u64> {
    let number = usage.pointer(path).filter(|value| value.is_number())?;
    let count = number.as_u64().or_else(|| number.as_f64().map(|count| count.max(0.0) as u64))?;
    Some(count.min(Usage::MAX_COUNT))
}

/// The usage of an API that counts each kind under one path; `None` when neither tokens in nor out are told.
pub(crate) fn usage(
    value: &Value,
    input: &[&str],
    output: &[&str],
    cached: &[&str],
    reasoning: &[&str],
) -> Option<Usage> {
    let sum = |paths: &[&str]| {
        let counts: Vec<u64> = paths.iter().filter_map(|path| tokens(value, path)).collect();
        (!counts.is_empty()).then(|| counts.iter().sum::<u64>().min(Usage::MAX_COUNT))
    };
    let (input, output) = (sum(input), sum(output));
    if input.is_none() && output.is_none() {
        return None;
    }
    Some(Usage {
        input_tokens: input.unwrap_or_default(),
        output_tokens: output.unwrap_or_default(),
        cached_tokens: sum(cached).unwrap_or_default(),
        reasoning_tokens: sum(reasoning).unwrap_or_default(),
        cost_nanodollars: cost(value),
    })
}

/// What the answer costs, where the API says so: OpenRouter in dollars, xAI in ten-billionths of one.
fn cost(usage: &Value) -> Option<u64> {
    let number =
        |key: &str| usage.get(key).and_then(Value::as_f64).filter(|cost| cost.is_finite() && *cost >= 0.0);
    let nanodollars = match (number("cost"), number("cost_in_usd_ticks")) {
        (Some(dollars), _) => dollars * 1e9,
        (None, Some(ticks)) => ticks / 10.0,
        (None, None) => return None,
    };
    Some((nanodollars.round() as u64).min(Usage::MAX_COUNT))
}

/// Adds the fields of `more` to `known`; later counts replace earlier ones, as streams count from the beginning.
pub(crate) fn update(known: &mut Value, more: &At<'_>) {
    match (known, more.value()) {
        (Value::Object(known), Value::Object(more)) => {
            let more = more.iter().filter(|(_, value)| !value.is_null());
            known.extend(more.map(|(key, value)| (key.clone(), value.clone())));
        }
        (known, more) => *known = more.clone(),
    }
}
