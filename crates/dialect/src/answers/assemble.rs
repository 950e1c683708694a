//! An answer as the contract has it, out of what its family read: names and arguments are the tools' own again.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use toolwire_contract::{
    Block, Content, MAX_NESTING_DEPTH, Message, ModelResponse, Role, StopReason, ToolCall, UnusableCall,
    ValidationStamp, object_nesting_depth,
};

use super::reading::{Reading, Slot, own_meta};
use crate::calls::arguments_object;
use crate::ids::fingerprint;
use crate::{ArgumentError, CallId, Dialect, Family, ReceivedCall, Toolset};

/// Under this key of `_meta` stand arguments that could not be read, as they came.
pub(crate) const UNREADABLE: &str = "toolwire/arguments";

/// What makes an answer of what was read.
pub(super) struct Assembly<'a> {
    pub(super) dialect: Dialect,
    pub(super) tools: &'a Toolset,
    /// What makes made-up ids unlike those of other answers.
    pub(super) seed: &'a str,
    /// Why no call of this answer may run.
    pub(super) cut: Option<String>,
}

impl Assembly<'_> {
    pub(super) fn assemble(&self, reading: Reading, calls: Vec<ReceivedCall>) -> ModelResponse {
        let Reading { slots, stop, usage, id } = reading;
        let stop = settled(stop.unwrap_or(StopReason::End), !calls.is_empty());
        let key = self.dialect.family().meta_key();
        let mut unusable = Vec::new();
        let mut ids = HashSet::new();
        let mut calls = calls.into_iter().enumerate().map(|(position, call)| {
            let response = id.as_deref().unwrap_or_default();
            let mut call_id = call_id(call.id.given(), position, &call.name, response, self.seed);
            if !ids.insert(call_id.clone()) {
                call_id = made_up(&format!("{call_id}\n{position}"));
                ids.insert(call_id.clone());
            }
            self.call(call_id, &call, &mut unusable)
        });
        let mut content = Vec::new();
        for slot in slots {
            match slot {
                Slot::Text { text, own: None } if text.is_empty() => {}
                Slot::Text { text, own } => {
                    let extra = own.map(|own| own_meta(key, own)).unwrap_or_default();
                    content.push(Block::Content(Content::Text { text, extra }));
                }
                Slot::Thinking { text, own: None } if text.is_empty() => {}
                Slot::Thinking { text, own } => {
                    let mut block = Map::from_iter([
                        ("type".to_owned(), json!("thinking")),
                        ("text".to_owned(), json!(text)),
                    ]);
                    block.extend(own.map(|own| own_meta(key, own)).unwrap_or_default());
                    content.push(Block::Content(Content::Other(Value::Object(block))));
                }
                Slot::Opaque { type_name, own } => {
                    let mut block = Map::from_iter([("type".to_owned(), json!(type_name))]);
                    block.extend(own_meta(key, own));
                    content.push(Block::Content(Content::Other(Value::Object(block))));
                }
                Slot::Media(mut media, own) => {
                    if let Content::Image { extra, .. } | Content::Audio { extra, .. } = &mut media {
                        extra.extend(own.map(|own| own_meta(key, own)).unwrap_or_default());
                    }
                    content.push(Block::Content(media));
                }
                Slot::Call => content.extend(calls.next()),
            }
        }
        content.extend(calls);
        ModelResponse { message: Message::new(Role::Assistant, content), stop, usage, unusable }
    }

    fn call(&self, id: String, received: &ReceivedCall, unusable: &mut Vec<UnusableCall>) -> Block {
        let mut meta = Map::new();
        if let Some(own) = self.own(received) {
            meta.insert(self.dialect.family().meta_key().to_owned(), own);
        }
        let name = self.tools.own_name(&received.name).unwrap_or(&received.name).to_owned();
        let mut validation = None;
        let (arguments, problem) = match self.tools.decode(&received.name, &received.arguments) {
            Ok(decoded) => {
                validation = decoded.schema.map(|schema| ValidationStamp::new(schema, &decoded.arguments));
                (Some(decoded.arguments), None)
            }
            // The toolbox knows better than this request's list what to say about a tool that is not there.
            Err(ArgumentError::UnknownTool { .. }) => parsed(received),
            Err(ArgumentError::Invalid { tool, violations, arguments }) => {
                let error = ArgumentError::Invalid { tool, violations, arguments: arguments.clone() };
                (Some(arguments), Some(error.to_string()))
            }
            Err(error @ ArgumentError::TooComplex { .. }) => (parsed(received).0, Some(error.to_string())),
            Err(error) => (None, Some(error.to_string())),
        };
        let (arguments, problem) = match arguments.as_ref().map(object_nesting_depth) {
            Some(levels) if levels > MAX_NESTING_DEPTH => {
                let problem = format!(
                    "the arguments are nested {levels} levels deep, at most {MAX_NESTING_DEPTH} are taken"
                );
                (None, Some(problem))
            }
            _ => (arguments, problem),
        };
        if arguments.is_none() {
            let text = match &received.arguments {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            meta.insert(UNREADABLE.to_owned(), json!(text));
        }
        let problem = match (&self.cut, problem) {
            (Some(reason), _) => Some(format!(
                "the answer was cut off ({reason}) before the call of `{name}` was known to be whole, so it was not run; \
                 make the call again, with shorter arguments if they were long"
            )),
            (None, Some(problem)) => {
                Some(format!("{problem}; the tool was not run: correct the arguments and call it again"))
            }
            (None, None) => None,
        };
        unusable.extend(problem.map(|problem| UnusableCall { id: id.clone(), problem }));
        let extra = if meta.is_empty() {
            Map::new()
        } else {
            Map::from_iter([("_meta".to_owned(), Value::Object(meta))])
        };
        Block::Call { id, call: ToolCall { name, arguments, extra, validation } }
    }

    /// What goes back to this family beside a call.
    fn own(&self, call: &ReceivedCall) -> Option<Value> {
        let mut own = Map::new();
        let can_do_without_ids = matches!(self.dialect.family(), Family::Gemini | Family::Ollama);
        if can_do_without_ids && call.id.given().is_none() {
            own.insert("id".to_owned(), Value::Null);
        }
        if let Some(signature) = &call.signature {
            own.insert("thoughtSignature".to_owned(), json!(signature));
        }
        if let Some(namespace) = &call.namespace {
            own.insert("namespace".to_owned(), json!(namespace));
        }
        (!own.is_empty()).then_some(Value::Object(own))
    }
}

/// The arguments as an object, whatever the tool; `None` and the reason if they are none.
fn parsed(call: &ReceivedCall) -> (Option<Map<String, Value>>, Option<String>) {
    let value = match &call.arguments {
        Value::String(text) if !text.trim().is_empty() => match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) => return (None, Some(format!("the arguments cannot be read as JSON: {error}"))),
        },
        other => other.clone(),
    };
    match value {
        Value::Object(_) | Value::Null => (Some(arguments_object(call)), None),
        Value::String(_) if call.arguments == value => (Some(Map::new()), None),
        _ => (None, Some("the arguments must be an object".to_owned())),
    }
}

/// The reason, made to agree with what came: APIs say `stop` beside calls, and promise calls that do not come.
fn settled(stop: StopReason, has_calls: bool) -> StopReason {
    match stop {
        StopReason::End if has_calls => StopReason::Calls,
        StopReason::Calls if !has_calls => StopReason::End,
        other => other,
    }
}

/// The id of a call: the API's, or one made up that is the same whenever this answer is read.
pub(super) fn call_id(
    given: Option<&str>,
    position: usize,
    name: &str,
    response: &str,
    seed: &str,
) -> String {
    match given {
        Some(id) => id.to_owned(),
        None => made_up(&format!("{seed}\n{response}\n{position}\n{name}")),
    }
}

fn made_up(text: &str) -> String {
    format!("call_{}", fingerprint(text))
}

/// Whether a call's id was made up, as [`Assembly::own`] notes it.
pub(crate) fn is_made_up(own: Option<&Value>) -> bool {
    own.and_then(|own| own.get("id")).is_some_and(Value::is_null)
}

/// The id a call has in a request: as it is, unless it was made up for an API that can do without.
pub(crate) fn id_for(family: Family, id: String, own: Option<&Value>) -> CallId {
    match family {
        Family::Gemini | Family::Ollama if is_made_up(own) => CallId::Synthetic(id),
        _ => CallId::Given(id),
    }
}
