//! Calls out of Responses events.

use serde_json::Value;

use super::calls::{draft, drafts, ending, item_cut};
use crate::calls::{At, CallError, CallKind, Draft, Drafts, Ending, ReceivedCall, conclude, failure_in};

/// An item of the output: by its place, or by its id where an event leaves the place out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Place(u64),
    Item(String),
}

#[derive(Debug, Default)]
pub(crate) struct Stream {
    drafts: Drafts<Key>,
    ending: Option<Ending>,
    /// An item said of itself that it is not whole.
    cut: Option<Ending>,
}

impl Stream {
    pub(crate) fn drafts(&self) -> &[Draft] {
        self.drafts.as_slice()
    }

    pub(crate) fn push(&mut self, event: &Value) -> Result<(), CallError> {
        let event = At::root(event);
        event.object()?;
        match event.text("type")? {
            Some("response.output_item.added" | "response.output_item.done") => self.take_item(&event),
            Some("response.function_call_arguments.delta" | "response.custom_tool_call_input.delta") => {
                let piece = event.need_text("delta")?;
                self.draft_of(&event)?.append(piece);
                Ok(())
            }
            Some("response.function_call_arguments.done") => self.take_whole(&event, "arguments"),
            Some("response.custom_tool_call_input.done") => self.take_whole(&event, "input"),
            Some("response.completed" | "response.incomplete" | "response.failed") => self.close(&event),
            Some("error") => {
                let message = event.text("message")?.unwrap_or("the stream failed");
                Err(CallError::ErrorAnswer { message: message.to_owned() })
            }
            _ => failure_in(&event),
        }
    }

    /// An item that begins or is done. What it says of itself when done is the last word.
    fn take_item(&mut self, event: &At<'_>) -> Result<(), CallError> {
        let item = event.get("item").ok_or_else(|| event.expected_under("item", "an item"))?;
        let Some(mut whole) = draft(&item)? else { return Ok(()) };
        self.cut = self.cut.take().or(item_cut(&item));
        let place = event.index("output_index")?.map(Key::Place);
        let item_id = item.text("id")?.map(|id| Key::Item(id.to_owned()));
        let Some(key) = place.or(item_id.clone()) else {
            return Err(event.expected_under("output_index", "the place of the item"));
        };
        match self.drafts.get(&key) {
            Some(known) => {
                if whole.has_no_arguments() {
                    whole.arguments = std::mem::take(&mut known.arguments);
                }
                *known = whole;
            }
            None if self.ending.is_some() => return Err(event.expected("no item after the end")),
            None => {
                self.drafts.begin(key.clone(), whole);
            }
        }
        if let Some(item_id) = item_id {
            self.drafts.alias(item_id, &key);
        }
        Ok(())
    }

    fn take_whole(&mut self, event: &At<'_>, key: &str) -> Result<(), CallError> {
        let whole = event.need_text(key)?.to_owned();
        let name = event.text("name")?.map(str::to_owned);
        let draft = self.draft_of(event)?;
        draft.replace(&Value::String(whole));
        if let Some(name) = name.filter(|_| draft.name.is_empty()) {
            draft.name = name;
        }
        Ok(())
    }

    /// The draft an event about arguments belongs to. It may come before the item it belongs to.
    fn draft_of(&mut self, event: &At<'_>) -> Result<&mut Draft, CallError> {
        if self.ending.is_some() {
            return Err(event.expected("no arguments after the end"));
        }
        let key = match (event.index("output_index")?, event.text("item_id")?) {
            (Some(place), _) => Key::Place(place),
            (None, Some(item)) => Key::Item(item.to_owned()),
            (None, None) => return Err(event.expected_under("output_index", "the place of an item")),
        };
        let kind = match event.text("type")? {
            Some(name) if name.contains("custom") => CallKind::Custom,
            _ => CallKind::Function,
        };
        if self.drafts.get(&key).is_none() {
            self.drafts.begin(key.clone(), Draft { kind, ..Draft::default() });
        }
        Ok(self.drafts.get(&key).expect("the draft is there or was just begun"))
    }

    fn close(&mut self, event: &At<'_>) -> Result<(), CallError> {
        let Some(response) = event.get("response") else {
            self.ending = Some(Ending::Done);
            return Ok(());
        };
        failure_in(&response)?;
        self.ending = Some(ending(&response)?);
        // Some gateways send no events for the items.
        if self.drafts.is_empty()
            && let Some(output) = response.get("output")
        {
            let (drafts, cut) = drafts(&output)?;
            self.cut = self.cut.take().or(cut);
            for draft in drafts {
                self.drafts.push(draft);
            }
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<Vec<ReceivedCall>, CallError> {
        let ending = match self.ending {
            Some(Ending::Done) => self.cut.unwrap_or(Ending::Done),
            Some(ending) => ending,
            None => Ending::missing(),
        };
        conclude(self.drafts.into_vec(), ending)
    }
}
