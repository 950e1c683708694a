//! Converts a conversation into turns with the order and the call-result pairs that every API requires.
//!
//! Consecutive messages of one role become one turn. Each call has its result right after its turn, and every
//! result has its call. Blank text, and blocks that only another provider understands, are removed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};
use toolwire_contract::{
    Block, Content, Message, ResourceBody, ResourceContents, Role, ToolCall, ToolResult, pair_results,
};

use super::FamilyRules;
use crate::ids::synthetic_id;
use crate::names::to_valid_tool_name;
use crate::native_tools::{NativeTool, without_namespace};
use crate::request::wire_id;
use crate::response::{CUSTOM_CALL, NATIVE_CALL, UNPARSED_ARGUMENTS, has_synthetic_id};
use crate::response::{CallId, CallKind, ReceivedCall};
use crate::result::CallOutcome;
use crate::result::{ContentLimits, ContentPart, MediaKind};
use crate::result::{clean, client_part, content_part, is_provider_data};
use crate::{Dialect, Toolset};

/// A turn of the conversation.
#[derive(Debug)]
pub(crate) enum Turn<'a> {
    User(Vec<ContentPart>),
    Assistant(Vec<AssistantBlock<'a>>),
    /// The results of the calls in the previous turn, in the order of the calls.
    Results(Vec<PairedCall<'a>>),
}

/// A block of an assistant turn.
///
/// Provider data is JSON that this family sent, and that must be sent back to it.
#[derive(Clone, Debug)]
pub(crate) enum AssistantBlock<'a> {
    Text {
        text: String,
        provider_data: Option<&'a Value>,
    },
    /// A block that only this family understands.
    Opaque {
        provider_data: &'a Value,
        is_thinking: bool,
    },
    Media {
        part: ContentPart,
        provider_data: Option<&'a Value>,
    },
    Call(PairedCall<'a>),
}

/// A call of the history and its result.
#[derive(Clone, Debug)]
pub(crate) struct PairedCall<'a> {
    /// The id in the history.
    pub(crate) id: &'a str,
    /// The tool's own name.
    pub(crate) tool: &'a str,
    /// The call in the format of this dialect.
    pub(crate) received: ReceivedCall,
    pub(crate) result: Option<&'a ToolResult>,
}

impl PairedCall<'_> {
    pub(crate) fn outcome(&self) -> CallOutcome<'_> {
        CallOutcome { call: &self.received, result: self.result }
    }
}

/// Returns the calls among `blocks`.
pub(crate) fn calls<'t>(blocks: &'t [AssistantBlock<'_>]) -> Vec<&'t ReceivedCall> {
    let call = |block: &'t AssistantBlock<'_>| match block {
        AssistantBlock::Call(call) => Some(&call.received),
        _ => None,
    };
    blocks.iter().filter_map(call).collect()
}

/// Reads a conversation for one request.
pub(crate) struct HistoryReader<'a> {
    pub(crate) dialect: Dialect,
    pub(crate) rules: &'a FamilyRules,
    pub(crate) tools: &'a Toolset,
    pub(crate) user_limits: ContentLimits,
    pub(crate) assistant_limits: ContentLimits,
}

impl<'a> HistoryReader<'a> {
    pub(crate) fn turns(&self, messages: &'a [Arc<Message>]) -> Vec<Turn<'a>> {
        let mut turns: Vec<Turn<'a>> = Vec::new();
        let mut ids = WireIds::default();
        for message in messages {
            match message.role {
                Role::User => self.add_user_message(&mut turns, message),
                Role::Assistant => {
                    let blocks = self.assistant_blocks(message, &mut ids);
                    match turns.last_mut() {
                        _ if blocks.is_empty() => {}
                        Some(Turn::Assistant(existing)) => existing.extend(blocks),
                        _ => turns.push(Turn::Assistant(blocks)),
                    }
                }
            }
        }
        close_calls(&mut turns);
        turns
    }

    fn add_user_message(&self, turns: &mut Vec<Turn<'a>>, message: &'a Message) {
        let mut parts = Vec::new();
        let mut results = Vec::new();
        for block in &message.content {
            match block {
                Block::Result { id, result } => results.push((id.as_str(), result)),
                Block::Content(content) if content.is_for_model() && !is_provider_data(content) => {
                    let has_text =
                        |part: &ContentPart| part.as_text().is_none_or(|text| !text.trim().is_empty());
                    parts.extend(user_parts(content, &self.user_limits).into_iter().filter(has_text));
                }
                Block::Content(content) => {
                    let native = client_part(content, self.dialect.family().meta_key());
                    parts.extend(native.flatten().cloned().map(ContentPart::Native));
                }
                // Users do not call tools.
                Block::Call { .. } => {}
            }
        }
        if parts.is_empty() && results.is_empty() {
            return;
        }
        close_calls(turns);
        add_results(turns, results);
        match turns.last_mut() {
            _ if parts.is_empty() => {}
            Some(Turn::User(existing)) => existing.extend(parts),
            _ => turns.push(Turn::User(parts)),
        }
    }

    fn assistant_blocks(&self, message: &'a Message, ids: &mut WireIds<'a>) -> Vec<AssistantBlock<'a>> {
        let mut blocks = Vec::new();
        for block in &message.content {
            match block {
                Block::Call { id, call } => {
                    let received = self.received(id, call, ids);
                    blocks.push(AssistantBlock::Call(PairedCall {
                        id,
                        tool: &call.name,
                        received,
                        result: None,
                    }));
                }
                Block::Content(content) => blocks.extend(self.assistant_block(content)),
                Block::Result { .. } => {}
            }
        }
        // APIs reject thinking at the end of a turn, which remains if a response was cut off.
        while matches!(blocks.last(), Some(AssistantBlock::Opaque { is_thinking: true, .. })) {
            blocks.pop();
        }
        blocks
    }

    fn assistant_block(&self, content: &'a Content) -> Option<AssistantBlock<'a>> {
        let key = self.dialect.family().meta_key();
        match content {
            Content::Text { text, extra } => {
                let provider_data = meta_field(extra, key);
                let is_signed = self.rules.signs_empty_text && provider_data.is_some();
                (is_signed || !text.trim().is_empty())
                    .then(|| AssistantBlock::Text { text: clean(text), provider_data })
            }
            Content::Other(value) if is_provider_data(content) => {
                let provider_data = value.get("_meta")?.get(key)?;
                let is_thinking = content.type_name() == Some("thinking");
                Some(AssistantBlock::Opaque { provider_data, is_thinking })
            }
            Content::Image { extra, .. } | Content::Audio { extra, .. } => {
                match content_part(content, &self.assistant_limits) {
                    ContentPart::Text(text) => Some(AssistantBlock::Text { text, provider_data: None }),
                    part => Some(AssistantBlock::Media { part, provider_data: meta_field(extra, key) }),
                }
            }
            other => match content_part(other, &ContentLimits::TEXT) {
                ContentPart::Text(text) if !text.trim().is_empty() => {
                    Some(AssistantBlock::Text { text, provider_data: None })
                }
                _ => None,
            },
        }
    }

    /// Returns a call in the format in which this API sent it, or would have sent it.
    fn received(&self, id: &'a str, call: &ToolCall, ids: &mut WireIds<'a>) -> ReceivedCall {
        let provider_data = meta_field(&call.extra, self.dialect.family().meta_key());
        let field = |key: &str| provider_data.and_then(|data| data.get(key)?.as_str()).map(str::to_owned);
        let wire = ids.unique(self.dialect, id);
        let is_synthetic = !self.rules.requires_call_ids && has_synthetic_id(provider_data);
        // A tool of this toolset is a function, even if the client defined it in another form.
        let known = self.tools.wire_name(&call.name);
        let provider_form = provider_data.filter(|_| known.is_none());
        let namespace = provider_form.and_then(|data| data.get("namespace")?.as_str());
        let name = match known {
            Some(name) => name.to_owned(),
            None if self.dialect == Dialect::Mcp => call.name.clone(),
            None => to_valid_tool_name(without_namespace(namespace, &call.name), ""),
        };
        let mut received = ReceivedCall {
            id: if is_synthetic { CallId::Synthetic(wire) } else { CallId::Given(wire) },
            name,
            namespace: namespace.map(str::to_owned),
            arguments: Value::Object(call.arguments.clone().unwrap_or_default()),
            kind: CallKind::Function,
            signature: field("thoughtSignature"),
        };
        let native = provider_form.and_then(|data| data.get(NATIVE_CALL)).zip(NativeTool::named(&call.name));
        if let Some((item_id, tool)) = native {
            received.kind = CallKind::Native;
            received.arguments = native_item(tool, item_id, call);
            return received;
        }
        let is_custom = provider_form.is_some_and(|data| data.get(CUSTOM_CALL).is_some());
        if let (true, Some(input)) = (is_custom, received.arguments.get("input").cloned()) {
            received.kind = CallKind::Custom;
            received.arguments = input;
        } else if let Some(text) = meta_field(&call.extra, UNPARSED_ARGUMENTS) {
            received.arguments = text.clone();
            // Many servers behind an API parse the arguments, so invalid JSON is wrapped in an object.
            received.arguments = Value::Object(received.arguments_object());
        } else if let Ok(encoded) = self.tools.encode(&call.name, &received.arguments) {
            received.arguments = Value::Object(encoded.arguments);
        }
        received
    }
}

/// The ids of the calls of one request.
#[derive(Default)]
struct WireIds<'a> {
    used: HashSet<String>,
    /// How often an id of the history was replaced. A client may repeat one id very often.
    replaced: HashMap<&'a str, u32>,
}

impl<'a> WireIds<'a> {
    /// Returns an id that no earlier call has. Two calls of the history may have the same id: some servers
    /// count from 0 in each response.
    fn unique(&mut self, dialect: Dialect, id: &'a str) -> String {
        let mut wire = wire_id(dialect, id);
        if self.used.contains(&wire) {
            let salt = self.replaced.entry(id).or_default();
            while self.used.contains(&wire) {
                *salt += 1;
                wire = wire_id(dialect, &synthetic_id(&format!("{id}\n{salt}")));
            }
        }
        self.used.insert(wire.clone());
        wire
    }
}

/// Returns the item of a call of a native tool, without the id of the call.
fn native_item(tool: &NativeTool, item_id: &Value, call: &ToolCall) -> Value {
    let mut item = Map::from_iter([("type".to_owned(), Value::from(tool.call))]);
    if !item_id.is_null() {
        item.insert("id".to_owned(), item_id.clone());
    }
    item.extend(call.arguments.clone().unwrap_or_default());
    Value::Object(item)
}

/// Converts a block of a user message. The name of a file is in the text, because most APIs have no field for
/// it.
fn user_parts(content: &Content, limits: &ContentLimits) -> Vec<ContentPart> {
    let Some(name) = content.resource_name() else { return vec![content_part(content, limits)] };
    let label = format!("Attached file `{}`:", name.replace(['`', '\n', '\r'], "\u{fffd}"));
    if let Content::Resource { resource: ResourceContents { body: ResourceBody::Text(text), .. }, .. } =
        content
    {
        let fence = "`".repeat(longest_backtick_run(text).max(2) + 1);
        let end = if text.ends_with('\n') { "" } else { "\n" };
        return vec![ContentPart::Text(clean(&format!("{label}\n{fence}\n{text}{end}{fence}")))];
    }
    match content_part(content, limits) {
        note @ ContentPart::Text(_) => vec![note],
        media => vec![ContentPart::Text(clean(&label)), media],
    }
}

/// Returns the length of the longest run of backticks, so that a longer fence cannot be closed by the text.
fn longest_backtick_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or_default()
}

/// Adds a turn for the results of the calls in the last turn, if it has any.
fn close_calls(turns: &mut Vec<Turn<'_>>) {
    let Some(Turn::Assistant(blocks)) = turns.last() else { return };
    let calls = blocks.iter().filter_map(|block| match block {
        AssistantBlock::Call(call) => Some(call.clone()),
        _ => None,
    });
    let calls: Vec<PairedCall<'_>> = calls.collect();
    if !calls.is_empty() {
        turns.push(Turn::Results(calls));
    }
}

/// Pairs results with the calls of the last assistant turn that have none.
fn add_results<'a>(turns: &mut [Turn<'a>], results: Vec<(&str, &'a ToolResult)>) {
    let last_results = turns.iter_mut().rev().find(|turn| !matches!(turn, Turn::User(_)));
    let Some(Turn::Results(calls)) = last_results else { return };
    let mut open: Vec<&mut PairedCall<'a>> = calls.iter_mut().filter(|call| call.result.is_none()).collect();
    let results = pair_results(open.iter().map(|call| call.id), results);
    for (call, result) in open.iter_mut().zip(results) {
        call.result = result;
    }
}

/// Returns a field of a block's `_meta`.
fn meta_field<'a>(extra: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    extra.get("_meta")?.get(key)
}

/// Returns the type of the first block of a user that only another family understands. In a result, other
/// blocks than images and files become text.
pub(crate) fn find_foreign_content(messages: &[Arc<Message>], meta_key: &str) -> Option<String> {
    let type_name = |content: &Content| content.type_name().unwrap_or_default().to_owned();
    let is_foreign = |content: &&Content| client_part(content, meta_key) == Some(None);
    let is_media = |content: &&Content| match content {
        Content::Other(value) => MediaKind::of(value).is_some(),
        _ => false,
    };
    let users = messages.iter().filter(|message| message.role == Role::User);
    users.flat_map(|message| &message.content).find_map(|block| match block {
        Block::Content(content) => Some(content).filter(is_foreign).map(type_name),
        Block::Result { result, .. } => {
            let mut blocks = result.blocks().iter().filter(|block| block.is_for_model());
            blocks.find(|block| is_foreign(block) && is_media(block)).map(type_name)
        }
        Block::Call { .. } => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of attempts does not grow with the number of repetitions: otherwise, this test would take
    /// hours.
    #[test]
    fn an_id_can_be_repeated_very_often() {
        let mut ids = WireIds::default();
        let mut unique = |id: &'static str| ids.unique(Dialect::OpenAi, id);
        let replaced = |number: u32| synthetic_id(&format!("c\n{number}"));
        let first = [unique("c"), unique("other"), unique("c"), unique("c"), unique("other")];
        let other = synthetic_id("other\n1");
        assert_eq!(first, ["c".to_owned(), "other".to_owned(), replaced(1), replaced(2), other]);
        let more: HashSet<String> = (0..200_000).map(|_| unique("c")).collect();
        assert_eq!((more.len(), more.contains(&replaced(200_002))), (200_000, true));
    }
}
