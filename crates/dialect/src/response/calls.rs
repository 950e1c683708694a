//! Calls in a response: while they are streamed, and complete.

use serde_json::{Map, Value};

use crate::ids::synthetic_id;
use crate::native_tools::native_arguments;

/// A call, as the model requested it.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedCall {
    pub id: CallId,
    /// The tool's name in this dialect.
    pub name: String,
    /// The namespace of the tool, in APIs that have namespaces: look tools up by (namespace, name).
    pub namespace: Option<String>,
    /// As received: an object, JSON text of one, or something that a model should not have written. `Null`
    /// when absent.
    pub arguments: Value,
    pub kind: CallKind,
    /// Gemini's `thoughtSignature` of this call. It must be sent back unchanged with the call.
    pub signature: Option<String>,
}

/// The id that pairs a call with its result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CallId {
    /// An id from the API.
    Given(String),
    /// An id generated here, because the API sent none. It is not sent back to an API that does not need ids.
    Synthetic(String),
}

/// The kind of tool that is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallKind {
    /// A tool with JSON arguments, as all MCP tools are.
    #[default]
    Function,
    /// OpenAI's free-text tool; the arguments are the text itself.
    Custom,
    /// A tool that OpenAI defines and the client runs, such as `shell`; the arguments are the item of the
    /// call.
    Native,
}

/// A call that may still be incomplete.
#[derive(Debug, Default)]
pub(crate) struct CallDraft {
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) kind: CallKind,
    pub(crate) arguments: PartialArguments,
    pub(crate) signature: Option<String>,
}

/// Arguments that may still be incomplete.
#[derive(Debug, Default)]
pub(crate) enum PartialArguments {
    #[default]
    Absent,
    /// The concatenated fragments. They are parsed only at the end: a fragment may end inside an escape
    /// sequence.
    Text(String),
    /// A value that was sent at once.
    Complete(Value),
}

impl CallId {
    pub fn as_str(&self) -> &str {
        match self {
            CallId::Given(id) | CallId::Synthetic(id) => id,
        }
    }

    /// Returns the id if the API sent it.
    pub fn given(&self) -> Option<&str> {
        match self {
            CallId::Given(id) => Some(id),
            CallId::Synthetic(_) => None,
        }
    }
}

impl ReceivedCall {
    /// Returns the arguments as JSON text. It is never empty: xAI rejects an empty string in the history.
    pub(crate) fn arguments_text(&self) -> String {
        match &self.arguments {
            Value::Null => "{}".to_owned(),
            Value::String(text) if text.trim().is_empty() => "{}".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    /// Returns the arguments as an object, for APIs that accept nothing else. Any other value is wrapped in
    /// an object, so that the model still sees what it wrote and why the result is an error.
    pub(crate) fn arguments_object(&self) -> Map<String, Value> {
        let wrapped = |key: &str, value: Value| Map::from_iter([(key.to_owned(), value)]);
        match &self.arguments {
            Value::Null => Map::new(),
            Value::Object(item) if self.kind == CallKind::Native => native_arguments(item),
            Value::Object(arguments) => arguments.clone(),
            Value::String(text) if self.kind == CallKind::Custom => {
                wrapped("input", Value::String(text.clone()))
            }
            Value::String(text) if text.trim().is_empty() => Map::new(),
            Value::String(text) => match serde_json::from_str(text) {
                Ok(Value::Object(arguments)) => arguments,
                Ok(Value::Null) => Map::new(),
                _ => wrapped("arguments", Value::String(text.clone())),
            },
            other => wrapped("arguments", other.clone()),
        }
    }
}

impl CallDraft {
    /// Starts a call from the fields that all APIs have.
    pub(crate) fn new(name: &str, id: Option<&str>, arguments: Option<&Value>) -> CallDraft {
        let mut draft = CallDraft { name: name.to_owned(), ..CallDraft::default() };
        draft.set_id(id);
        draft.set_arguments(arguments);
        draft
    }

    /// Sets the id, unless it is empty: some servers write `""` for a missing id.
    pub(crate) fn set_id(&mut self, id: Option<&str>) {
        if let Some(id) = id.filter(|id| !id.is_empty()) {
            self.id = Some(id.to_owned());
        }
    }

    /// Appends a fragment to the arguments. An initial value, such as `{}`, is only a placeholder for them.
    pub(crate) fn append_arguments(&mut self, fragment: &str) {
        match &mut self.arguments {
            PartialArguments::Text(text) => text.push_str(fragment),
            other => *other = PartialArguments::Text(fragment.to_owned()),
        }
    }

    pub(crate) fn set_arguments(&mut self, value: Option<&Value>) {
        self.arguments = match value {
            None | Some(Value::Null) => PartialArguments::Absent,
            Some(Value::String(text)) => PartialArguments::Text(text.clone()),
            Some(other) => PartialArguments::Complete(other.clone()),
        };
    }

    /// Whether at most an empty placeholder has arrived.
    pub(crate) fn has_no_arguments(&self) -> bool {
        match &self.arguments {
            PartialArguments::Absent => true,
            PartialArguments::Text(text) => text.is_empty(),
            PartialArguments::Complete(value) => value.as_object().is_some_and(Map::is_empty),
        }
    }

    /// Parses text into the object that it contains, for APIs whose arguments are objects and only their
    /// streams send text. Text that is not JSON stays text; `decode` reports the error.
    pub(crate) fn parse_arguments(&mut self) {
        let parsed = match &self.arguments {
            PartialArguments::Text(text) if !text.trim().is_empty() => serde_json::from_str(text),
            PartialArguments::Absent | PartialArguments::Text(_) => Ok(Value::Object(Map::new())),
            PartialArguments::Complete(_) => return,
        };
        if let Ok(value) = parsed {
            self.arguments = PartialArguments::Complete(value);
        }
    }

    /// Completes the call. A synthetic id is the same for the same call at the same position.
    pub(crate) fn finish(self, position: usize) -> ReceivedCall {
        let arguments = match self.arguments {
            PartialArguments::Absent => Value::Null,
            PartialArguments::Text(text) => Value::String(text),
            PartialArguments::Complete(value) => value,
        };
        let CallDraft { name, namespace, kind, signature, .. } = self;
        let id = match self.id {
            Some(id) => CallId::Given(id),
            None => CallId::Synthetic(synthetic_id(&format!("{position}\n{name}\n{arguments}"))),
        };
        ReceivedCall { id, name, namespace, arguments, kind, signature }
    }
}
