//! The parts of a response that a family's reader collects.

use serde_json::{Map, Value, json};
use toolwire_contract::Content;
use toolwire_contract::model::{Citation, ModelEvent, ProviderPart, ResponseDetails, StopReason, Usage};

use super::{CallDraft, JsonCursor, ReadResult, ResponseError};

/// The key of a message's data for the container in which the provider ran code.
pub(crate) const CONTAINER: &str = "container";

/// The parts that every API reports in some format. Text and thinking are in the reader until it finishes.
#[derive(Debug, Default)]
pub(crate) struct ResponseParts {
    /// The API's id of the response.
    pub(crate) id: Option<String>,
    /// The usage as the API reports it.
    pub(crate) usage: Value,
    /// `None` until the API reports the end of the response.
    pub(crate) ending: Option<Ending>,
    /// In the order in which they began.
    pub(crate) calls: Vec<CallDraft>,
    /// Fragments that can be displayed and have not been returned yet.
    pub(crate) events: Vec<ModelEvent>,
    /// What the API reports about the response, so far.
    pub(crate) details: ResponseDetails,
}

/// The end of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The model finished its response.
    Finished(StopReason),
    /// The response was cut off, so its calls must not run. `reason` is the API's term.
    CutOff { stop: StopReason, reason: String },
    /// The provider rejected the model's output.
    Rejected { reason: String, message: Option<String> },
}

/// A block of the message. Empty text and thinking without provider data are left out.
///
/// Provider data is JSON that must be sent back to the same family, and only to it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PartialBlock {
    Text {
        text: String,
        provider_data: Option<Value>,
    },
    Thinking {
        text: String,
        provider_data: Option<Value>,
    },
    /// The index of the call in [`ResponseParts::calls`].
    Call(usize),
    Media {
        content: Content,
        provider_data: Option<Value>,
    },
    /// A block that exists only in this family.
    Opaque {
        type_name: String,
        provider_data: Value,
    },
}

/// A response that was read to its end, before names and arguments are decoded.
#[derive(Debug)]
pub(crate) struct ParsedResponse {
    pub(crate) id: Option<String>,
    pub(crate) blocks: Vec<PartialBlock>,
    pub(crate) calls: Vec<CallDraft>,
    pub(crate) stop: StopReason,
    pub(crate) usage: Option<Usage>,
    /// Data of the message as a whole that later requests to the same family need.
    pub(crate) message_data: Option<Value>,
    /// The reason why no call of this response may run.
    pub(crate) cut_off: Option<String>,
    /// Whether the API reported the end of the response.
    pub(crate) is_complete: bool,
}

impl Ending {
    pub(crate) fn cut_off(stop: StopReason, reason: &str) -> Ending {
        Ending::CutOff { stop, reason: reason.to_owned() }
    }

    /// An ending for a reason that is not known here and does not mean that the response was cut off.
    pub(crate) fn other(reason: &str) -> Ending {
        Ending::Finished(StopReason::Other(reason.to_owned()))
    }
}

impl PartialBlock {
    pub(crate) fn text(text: impl Into<String>) -> PartialBlock {
        PartialBlock::Text { text: text.into(), provider_data: None }
    }

    pub(crate) fn thinking(text: impl Into<String>, provider_data: Option<Value>) -> PartialBlock {
        PartialBlock::Thinking { text: text.into(), provider_data }
    }

    pub(crate) fn opaque(type_name: &str, provider_data: Map<String, Value>) -> PartialBlock {
        PartialBlock::Opaque { type_name: type_name.to_owned(), provider_data: Value::Object(provider_data) }
    }
}

impl ResponseParts {
    pub(crate) fn set_id(&mut self, id: Option<&str>) {
        if let Some(id) = id.filter(|id| !id.is_empty() && self.id.as_deref() != Some(id)) {
            self.id = Some(id.to_owned());
        }
    }

    /// Merges reported usage. Later counts replace earlier ones, because streams report totals.
    pub(crate) fn merge_usage(&mut self, usage: Option<JsonCursor<'_>>) {
        match (&mut self.usage, usage.map(|usage| usage.value())) {
            (_, None) => {}
            (Value::Object(known), Some(Value::Object(more))) => {
                let more = more.iter().filter(|(_, value)| !value.is_null());
                known.extend(more.map(|(key, value)| (key.clone(), value.clone())));
            }
            (known, Some(more)) => *known = more.clone(),
        }
    }

    pub(crate) fn emit_text(&mut self, fragment: &str) {
        if !fragment.is_empty() {
            self.events.push(ModelEvent::Text(fragment.to_owned()));
        }
    }

    pub(crate) fn emit_refusal(&mut self, fragment: &str) {
        if !fragment.is_empty() {
            self.events.push(ModelEvent::Refusal(fragment.to_owned()));
        }
    }

    pub(crate) fn emit_thinking(&mut self, fragment: &str) {
        if !fragment.is_empty() {
            self.events.push(ModelEvent::Thinking(fragment.to_owned()));
        }
    }

    /// `family` is the key of the family whose format the citation has.
    pub(crate) fn emit_citation(&mut self, family: &str, value: Value) {
        self.events.push(ModelEvent::Citation(Citation { family: family.to_owned(), value }));
    }

    /// `family` is the key of the family whose format the part has.
    pub(crate) fn emit_provider_part(&mut self, family: &str, value: Value) {
        self.events.push(ModelEvent::ProviderPart(ProviderPart { family: family.to_owned(), value }));
    }

    /// Adds a call and returns its index.
    pub(crate) fn begin_call(&mut self, draft: CallDraft) -> usize {
        self.calls.push(draft);
        self.calls.len() - 1
    }

    /// Fails if the API has already reported the end of the response.
    pub(crate) fn require_open(&self, position: &JsonCursor<'_>, expected: &'static str) -> ReadResult {
        if self.ending.is_some() { Err(position.error(expected)) } else { Ok(()) }
    }

    /// Changes the stop reason of a response that contains a refusal.
    pub(crate) fn mark_refused(&mut self) {
        if let Some(Ending::Finished(stop) | Ending::CutOff { stop, .. }) = &mut self.ending {
            *stop = StopReason::Refusal;
        }
    }

    /// Returns blocks for all calls, for APIs in which calls have no position among the text.
    pub(crate) fn call_blocks(&self) -> impl Iterator<Item = PartialBlock> + use<> {
        (0..self.calls.len()).map(PartialBlock::Call)
    }

    pub(crate) fn finish(
        self,
        blocks: Vec<PartialBlock>,
        usage: Option<Usage>,
    ) -> ReadResult<ParsedResponse> {
        let is_complete = self.ending.is_some();
        let (stop, cut_off) = match self.ending {
            Some(Ending::Finished(stop)) => (stop, None),
            Some(Ending::CutOff { stop, reason }) => (stop, Some(reason)),
            Some(Ending::Rejected { reason, message }) => {
                return Err(ResponseError::Rejected { reason, message });
            }
            None => (StopReason::End, Some("the stream ended early".to_owned())),
        };
        // A response may be cut off before the name of a call. Otherwise a call must have a name.
        if cut_off.is_none()
            && let Some(position) = self.calls.iter().position(|call| call.name.is_empty())
        {
            let (expected, found) = ("the name of the tool in the call", "nothing");
            return Err(ResponseError::Malformed { pointer: format!("/{position}/name"), expected, found });
        }
        let message_data = self.details.container.map(|container| json!({CONTAINER: container}));
        let (id, calls) = (self.id, self.calls);
        Ok(ParsedResponse { id, blocks, calls, stop, usage, message_data, cut_off, is_complete })
    }
}

/// A block of a stream: a call, or the JSON of any other block as a complete response has it.
#[derive(Debug)]
pub(crate) enum StreamedBlock {
    /// The index of the call in [`ResponseParts::calls`].
    Call(usize),
    Json(Map<String, Value>),
}

/// Appends a fragment to the text of a key, which is created if it is missing.
pub(crate) fn append(fields: &mut Map<String, Value>, key: &str, fragment: &str) {
    match fields.get_mut(key) {
        Some(Value::String(text)) => text.push_str(fragment),
        _ => {
            fields.insert(key.to_owned(), json!(fragment));
        }
    }
}

/// Whether a text is a refusal that the provider marks as one.
pub fn is_refusal(content: &Content) -> bool {
    let Content::Text { extra, .. } = content else { return false };
    let data = extra.get("_meta").and_then(Value::as_object).into_iter().flat_map(Map::values);
    data.into_iter().any(|data| data["type"] == "refusal" || data["refusal"].is_string())
}
