//! Calls under construction: pieces in, calls out once the answer has ended.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{CallError, CallId, CallKind, ReceivedCall};
use crate::ids::fingerprint;

/// How an answer ended, in the words all APIs share.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The model was done, whatever the API calls it: some say `stop` beside calls.
    Done,
    /// The model was stopped.
    Cut(String),
    /// The API itself gave the call up.
    Failed { reason: String, message: Option<String> },
}

impl Ending {
    /// The stream ended, and no event said that the answer had.
    pub(crate) fn missing() -> Ending {
        Ending::Cut("the stream ended early".to_owned())
    }
}

/// One call under construction.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) kind: CallKind,
    pub(crate) arguments: Arguments,
    pub(crate) signature: Option<String>,
}

/// Arguments under construction.
#[derive(Debug, Default)]
pub(crate) enum Arguments {
    #[default]
    Absent,
    /// Pieces of text, joined. Nothing is parsed until the end: a piece may end in the middle of a character's escape.
    Text(String),
    /// A value that came whole.
    Whole(Value),
}

impl Draft {
    /// An id, unless it is empty: some servers write `""` for none.
    pub(crate) fn set_id(&mut self, id: Option<&str>) {
        if let Some(id) = id.filter(|id| !id.is_empty()) {
            self.id = Some(id.to_owned());
        }
    }

    pub(crate) fn append(&mut self, piece: &str) {
        match &mut self.arguments {
            Arguments::Text(text) => text.push_str(piece),
            // An empty start value is only a placeholder for the pieces to come.
            other => *other = Arguments::Text(piece.to_owned()),
        }
    }

    pub(crate) fn replace(&mut self, value: &Value) {
        self.arguments = match value {
            Value::Null => Arguments::Absent,
            Value::String(text) => Arguments::Text(text.clone()),
            other => Arguments::Whole(other.clone()),
        };
    }

    /// Whether nothing but an empty start has come yet.
    pub(crate) fn has_no_arguments(&self) -> bool {
        match &self.arguments {
            Arguments::Absent => true,
            Arguments::Text(text) => text.is_empty(),
            Arguments::Whole(value) => value.as_object().is_some_and(Map::is_empty),
        }
    }

    /// For APIs whose arguments are objects and only their streams write text: the text as the object it stands for.
    /// Text that is not JSON stays text, for `decode` to explain.
    pub(crate) fn parse_text(&mut self) {
        let parsed = match &self.arguments {
            Arguments::Text(text) if text.trim().is_empty() => Ok(Value::Object(Map::new())),
            Arguments::Text(text) => serde_json::from_str(text),
            Arguments::Absent => Ok(Value::Object(Map::new())),
            Arguments::Whole(_) => return,
        };
        if let Ok(value) = parsed {
            self.arguments = Arguments::Whole(value);
        }
    }

    fn finish(self, position: usize) -> ReceivedCall {
        let arguments = match self.arguments {
            Arguments::Absent => Value::Null,
            Arguments::Text(text) => Value::String(text),
            Arguments::Whole(value) => value,
        };
        let id = match self.id {
            Some(id) => CallId::Given(id),
            None => CallId::Synthetic(synthetic_id(position, &self.name, &arguments)),
        };
        let Draft { name, namespace, kind, signature, .. } = self;
        ReceivedCall { id, name, namespace, arguments, kind, signature }
    }
}

/// An id for a call that came without one: the same for the same call at the same place, as nothing here is random.
fn synthetic_id(position: usize, name: &str, arguments: &Value) -> String {
    format!("call_{}", fingerprint(&format!("{position}\n{name}\n{arguments}")))
}

/// Drafts in the order in which they began, found again by the API's own key.
#[derive(Debug)]
pub(crate) struct Drafts<Key> {
    drafts: Vec<Draft>,
    positions: BTreeMap<Key, usize>,
}

impl<Key> Default for Drafts<Key> {
    fn default() -> Self {
        Drafts { drafts: Vec::new(), positions: BTreeMap::new() }
    }
}

impl<Key: Ord> Drafts<Key> {
    pub(crate) fn get(&mut self, key: &Key) -> Option<&mut Draft> {
        self.positions.get(key).map(|&position| &mut self.drafts[position])
    }

    /// Begins a draft; a later one of the same key takes the key over.
    pub(crate) fn begin(&mut self, key: Key, draft: Draft) -> &mut Draft {
        self.positions.insert(key, self.drafts.len());
        self.push(draft)
    }

    /// Lets a draft be found by another key too.
    pub(crate) fn alias(&mut self, key: Key, known: &Key) {
        if let Some(&position) = self.positions.get(known) {
            self.positions.insert(key, position);
        }
    }

    /// Adds a draft that needs no key.
    pub(crate) fn push(&mut self, draft: Draft) -> &mut Draft {
        self.drafts.push(draft);
        self.drafts.last_mut().expect("a draft was just pushed")
    }

    pub(crate) fn last(&mut self) -> Option<&mut Draft> {
        self.drafts.last_mut()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.drafts.is_empty()
    }

    /// In the order in which they began.
    pub(crate) fn as_slice(&self) -> &[Draft] {
        &self.drafts
    }

    pub(crate) fn into_vec(self) -> Vec<Draft> {
        self.drafts
    }
}

/// The calls of an answer that has ended.
pub(crate) fn conclude(mut drafts: Vec<Draft>, ending: Ending) -> Result<Vec<ReceivedCall>, CallError> {
    if matches!(ending, Ending::Cut(_)) {
        // A draft cut before its name was known is nothing that could be answered.
        drafts.retain(|draft| !draft.name.is_empty());
    } else if let Some(position) = drafts.iter().position(|draft| draft.name.is_empty()) {
        return Err(CallError::Malformed {
            pointer: format!("/{position}/name"),
            expected: "the name of a tool in the call",
            found: "nothing",
        });
    }
    let calls: Vec<ReceivedCall> =
        drafts.into_iter().enumerate().map(|(position, draft)| draft.finish(position)).collect();
    match ending {
        Ending::Done => Ok(calls),
        Ending::Cut(_) if calls.is_empty() => Ok(calls),
        Ending::Cut(reason) => Err(CallError::Cut { reason, calls }),
        Ending::Failed { reason, message } => Err(CallError::Failed { reason, message }),
    }
}
