//! Converts a parsed response to the types of `toolwire-contract`: tools have their own names and arguments
//! again.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use toolwire_contract::model::{ModelResponse, StopReason, UnusableCall};
use toolwire_contract::text::{MAX_NESTING_DEPTH, object_nesting_depth};
use toolwire_contract::toolbox::ValidationStamp;
use toolwire_contract::{Block, Content, Message, Role, ToolCall};

use super::{CallDraft, CallKind, ParsedResponse, PartialBlock, ReceivedCall};
use crate::arguments::ArgumentError;
use crate::ids::synthetic_id;
use crate::native_tools::qualified_name;
use crate::{Dialect, Toolset};

/// The key of `_meta` for arguments that could not be parsed, as received.
pub(crate) const UNPARSED_ARGUMENTS: &str = "toolwire/arguments";

/// The key of provider data that marks a call of OpenAI's free-text tools. Its only argument is the text,
/// `input`.
pub(crate) const CUSTOM_CALL: &str = "custom";

/// The key of provider data that marks a call of a tool that OpenAI defines and the client runs. Its value is
/// the id of the item.
pub(crate) const NATIVE_CALL: &str = "native";

/// Assembles the response to one request.
#[derive(Debug)]
pub(crate) struct Assembly<'a> {
    pub(crate) dialect: Dialect,
    pub(crate) tools: &'a Toolset,
    /// Makes synthetic ids differ from those of other responses.
    pub(crate) seed: &'a str,
    pub(crate) requires_call_ids: bool,
}

impl Assembly<'_> {
    pub(crate) fn assemble(&self, parsed: ParsedResponse) -> ModelResponse {
        let ParsedResponse { id, blocks, calls, stop, usage, message_data, cut_off, .. } = parsed;
        let mut unusable = Vec::new();
        let mut ids = HashSet::new();
        let named = calls.into_iter().enumerate().map(|(position, draft)| {
            if draft.name.is_empty() {
                return None;
            }
            let mut call_id = self.call_id(&draft, position, id.as_deref());
            if !ids.insert(call_id.clone()) {
                call_id = synthetic_id(&format!("{call_id}\n{position}"));
                ids.insert(call_id.clone());
            }
            Some(self.call(call_id, draft.finish(position), cut_off.as_deref(), &mut unusable))
        });
        let mut calls: Vec<Option<Block>> = named.collect();
        let has_calls = calls.iter().any(Option::is_some);
        let content = blocks.into_iter().filter_map(|block| match block {
            PartialBlock::Call(index) => calls[index].take(),
            PartialBlock::Text { text, provider_data: None } if text.is_empty() => None,
            PartialBlock::Text { text, provider_data } => {
                let extra = self.meta(provider_data);
                Some(Block::Content(Content::Text { text, extra }))
            }
            PartialBlock::Thinking { text, provider_data: None } if text.is_empty() => None,
            PartialBlock::Thinking { text, provider_data } => {
                let fields = [("type".to_owned(), json!("thinking")), ("text".to_owned(), json!(text))];
                Some(other_block(fields.into_iter().chain(self.meta(provider_data))))
            }
            PartialBlock::Opaque { type_name, provider_data } => {
                let fields = [("type".to_owned(), json!(type_name))];
                Some(other_block(fields.into_iter().chain(self.meta(Some(provider_data)))))
            }
            PartialBlock::Media { mut content, provider_data } => {
                if let Content::Image { extra, .. } | Content::Audio { extra, .. } = &mut content {
                    extra.extend(self.meta(provider_data));
                }
                Some(Block::Content(content))
            }
        });
        let mut message = Message::new(Role::Assistant, content.collect());
        message.extra.extend(self.meta(message_data));
        let stop = match stop {
            // Some APIs report a plain end although there are calls, or calls that were not sent.
            StopReason::End if has_calls => StopReason::Calls,
            StopReason::Calls if !has_calls => StopReason::End,
            other => other,
        };
        ModelResponse { message, stop, usage, unusable }
    }

    /// Returns the id of a call: the API's, or a synthetic one that is the same whenever this response is
    /// read.
    pub(crate) fn call_id(&self, draft: &CallDraft, position: usize, response_id: Option<&str>) -> String {
        let response = response_id.unwrap_or_default();
        let synthetic = || synthetic_id(&format!("{}\n{response}\n{position}\n{}", self.seed, draft.name));
        draft.id.clone().unwrap_or_else(synthetic)
    }

    /// Returns the tool's own name for the names in a call.
    pub(crate) fn own_name(&self, name: &str, namespace: Option<&str>) -> String {
        match namespace_of(name, namespace) {
            Some(namespace) => qualified_name(namespace, name),
            None => self.tools.own_name(name).unwrap_or(name).to_owned(),
        }
    }

    fn call(
        &self,
        id: String,
        received: ReceivedCall,
        cut_off: Option<&str>,
        unusable: &mut Vec<UnusableCall>,
    ) -> Block {
        let mut meta = Map::new();
        if let Some(provider_data) = self.call_provider_data(&received) {
            meta.insert(self.dialect.family().meta_key().to_owned(), provider_data);
        }
        let name = self.own_name(&received.name, received.namespace.as_deref());
        let (arguments, problem, validation) = self.decode(&received);
        if arguments.is_none() {
            let text = match received.arguments {
                Value::String(text) => text,
                other => other.to_string(),
            };
            meta.insert(UNPARSED_ARGUMENTS.to_owned(), json!(text));
        }
        let problem = match (cut_off, problem) {
            (Some(reason), _) => Some(format!(
                "the response was cut off ({reason}) before the call of `{name}` was complete, so the tool was not \
                 run; call it again, with shorter arguments if they were long"
            )),
            (None, Some(problem)) => {
                Some(format!("{problem}; the tool was not run: correct the arguments and call it again"))
            }
            (None, None) => None,
        };
        unusable.extend(problem.map(|problem| UnusableCall { id: id.clone(), problem }));
        let meta = (!meta.is_empty()).then_some(("_meta".to_owned(), Value::Object(meta)));
        Block::Call { id, call: ToolCall { name, arguments, extra: meta.into_iter().collect(), validation } }
    }

    /// Returns the tool's own arguments as far as they can be read, the problem with them, and the stamp of
    /// valid ones.
    fn decode(
        &self,
        received: &ReceivedCall,
    ) -> (Option<Map<String, Value>>, Option<String>, Option<ValidationStamp>) {
        if matches!(received.kind, CallKind::Custom | CallKind::Native) {
            return (Some(received.arguments_object()), None, None);
        }
        let mut validation = None;
        let (arguments, problem) = match namespace_of(&received.name, received.namespace.as_deref()) {
            // Only tools of clients have namespaces.
            Some(_) => parse(received),
            None => self.decode_own(received, &mut validation),
        };
        match arguments.as_ref().map(object_nesting_depth) {
            Some(depth) if depth > MAX_NESTING_DEPTH => {
                let problem =
                    format!("the arguments are nested {depth} levels deep, the limit is {MAX_NESTING_DEPTH}");
                (None, Some(problem), None)
            }
            _ => (arguments, problem, validation),
        }
    }

    /// Returns the arguments of a tool of this toolset, and the problem with them.
    fn decode_own(
        &self,
        received: &ReceivedCall,
        validation: &mut Option<ValidationStamp>,
    ) -> (Option<Map<String, Value>>, Option<String>) {
        match self.tools.decode(&received.name, &received.arguments) {
            Ok(decoded) => {
                *validation = decoded.schema.map(|schema| ValidationStamp::new(schema, &decoded.arguments));
                (Some(decoded.arguments), None)
            }
            // The toolbox can explain an unknown tool better than the list of this request.
            Err(ArgumentError::UnknownTool { .. }) => parse(received),
            Err(ArgumentError::Invalid { tool, violations, arguments }) => {
                let error = ArgumentError::Invalid { tool, violations, arguments: arguments.clone() };
                (Some(arguments), Some(error.to_string()))
            }
            Err(error @ ArgumentError::TooComplex { .. }) => (parse(received).0, Some(error.to_string())),
            Err(error) => (None, Some(error.to_string())),
        }
    }

    /// Returns the data that must be sent back to this family with a call.
    fn call_provider_data(&self, call: &ReceivedCall) -> Option<Value> {
        let mut fields = Map::new();
        if !self.requires_call_ids && call.id.given().is_none() {
            fields.insert("id".to_owned(), Value::Null);
        }
        if let Some(signature) = &call.signature {
            fields.insert("thoughtSignature".to_owned(), json!(signature));
        }
        if call.kind == CallKind::Custom {
            fields.insert(CUSTOM_CALL.to_owned(), json!(true));
        }
        if call.kind == CallKind::Native {
            fields.insert(NATIVE_CALL.to_owned(), call.arguments.get("id").cloned().unwrap_or_default());
        }
        if let Some(namespace) = &call.namespace {
            fields.insert("namespace".to_owned(), json!(namespace));
        }
        (!fields.is_empty()).then_some(Value::Object(fields))
    }

    /// Returns a `_meta` field that contains provider data.
    fn meta(&self, provider_data: Option<Value>) -> Map<String, Value> {
        let key = self.dialect.family().meta_key();
        provider_data.map(|data| ("_meta".to_owned(), json!({key: data}))).into_iter().collect()
    }
}

/// Returns the namespace of a call. Some tools without a namespace are called with their own name as the
/// namespace.
fn namespace_of<'n>(name: &str, namespace: Option<&'n str>) -> Option<&'n str> {
    namespace.filter(|namespace| !namespace.is_empty() && *namespace != name)
}

fn other_block(fields: impl Iterator<Item = (String, Value)>) -> Block {
    Block::Content(Content::Other(Value::Object(fields.collect())))
}

/// Parses the arguments of any tool as an object. Returns `None` and the problem if they are not one.
fn parse(call: &ReceivedCall) -> (Option<Map<String, Value>>, Option<String>) {
    let value = match &call.arguments {
        Value::String(text) if !text.trim().is_empty() => match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) => return (None, Some(format!("the arguments are not valid JSON: {error}"))),
        },
        other => other.clone(),
    };
    match value {
        Value::Object(_) | Value::Null => (Some(call.arguments_object()), None),
        Value::String(_) if call.arguments == value => (Some(Map::new()), None),
        _ => (None, Some("the arguments must be an object".to_owned())),
    }
}

/// Returns the text of a call of OpenAI's free-text tools, which are called with a text instead of arguments.
pub fn custom_call_input(call: &ToolCall) -> Option<&str> {
    let meta = call.extra.get("_meta")?.as_object()?;
    let is_custom = meta.values().any(|data| data.get(CUSTOM_CALL).is_some());
    call.arguments.as_ref().filter(|_| is_custom)?.get("input")?.as_str()
}

/// Whether a call has a synthetic id, according to its provider data.
pub(crate) fn has_synthetic_id(provider_data: Option<&Value>) -> bool {
    provider_data.and_then(|data| data.get("id")).is_some_and(Value::is_null)
}
