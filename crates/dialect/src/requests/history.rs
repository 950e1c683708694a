//! A conversation in the order and with the pairs that every API asks for, before any of them writes it.
//!
//! Messages of one role in a row are one turn. Each call has its result right after its turn, and no result stands
//! without its call. Blank texts, and what only another provider understands, are gone.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value};
use toolwire_contract::{Block, Content, Message, Role, ToolCall, ToolResult};

use crate::answers::{UNREADABLE, id_for};
use crate::calls::arguments_object;
use crate::ids::fingerprint;
use crate::results::{Carrier, Piece, clean, piece};
use crate::{
    Answered, CallKind, Dialect, Family, ReceivedCall, RequestOptions, Toolset, to_valid_tool_name, wire_id,
};

/// A turn of the conversation.
#[derive(Debug)]
pub(crate) enum Turn<'a> {
    User(Vec<Piece>),
    Assistant(Vec<Said<'a>>),
    /// The results of the calls in the turn before, in their order.
    Results(Vec<(ReceivedCall, Option<&'a ToolResult>)>),
}

/// A block of the assistant's.
#[derive(Clone, Debug)]
pub(crate) enum Said<'a> {
    Text {
        text: String,
        /// What this family sent beside it.
        own: Option<&'a Value>,
    },
    /// What this family sent, whole.
    Own {
        value: &'a Value,
        is_thinking: bool,
    },
    Media {
        piece: Piece,
        own: Option<&'a Value>,
    },
    Call(ReceivedCall),
}

/// What is known of a message before calls and results are paired.
struct Entry<'a> {
    role: Role,
    said: Vec<Said<'a>>,
    /// The ids of the calls in `said`, as the history has them.
    ids: Vec<&'a str>,
    pieces: Vec<Piece>,
    results: Vec<(&'a str, &'a ToolResult)>,
}

/// Puts a history in order.
pub(crate) struct Ordering<'a> {
    pub(crate) dialect: Dialect,
    pub(crate) tools: &'a Toolset,
    pub(crate) options: &'a RequestOptions,
    /// What a message of the user's may hold.
    pub(crate) user: Carrier,
    /// What a message of the assistant's may hold.
    pub(crate) assistant: Carrier,
}

impl<'a> Ordering<'a> {
    pub(crate) fn turns(&self, messages: &'a [Arc<Message>]) -> Vec<Turn<'a>> {
        let mut used = HashSet::new();
        let mut entries: Vec<Entry<'a>> = Vec::new();
        for message in messages {
            let entry = match message.role {
                Role::User => self.user_entry(message),
                Role::Assistant => self.assistant_entry(message, &mut used),
            };
            if entry.said.is_empty() && entry.pieces.is_empty() && entry.results.is_empty() {
                continue;
            }
            match entries.last_mut() {
                Some(last) if last.role == entry.role => last.merge(entry),
                _ => entries.push(entry),
            }
        }
        pair(entries)
    }

    fn user_entry(&self, message: &'a Message) -> Entry<'a> {
        let mut entry = Entry::of(Role::User);
        for block in &message.content {
            match block {
                Block::Result { id, result } => entry.results.push((id, result)),
                Block::Content(content) if content.is_for_model() && !is_someones(content) => {
                    let piece = piece(content, &self.user, &self.options.results);
                    if !is_blank(&piece) {
                        entry.pieces.push(piece);
                    }
                }
                // The user calls no tools.
                Block::Content(_) | Block::Call { .. } => {}
            }
        }
        entry
    }

    fn assistant_entry(&self, message: &'a Message, used: &mut HashSet<String>) -> Entry<'a> {
        let mut entry = Entry::of(Role::Assistant);
        for block in &message.content {
            match block {
                Block::Call { id, call } => {
                    entry.ids.push(id);
                    entry.said.push(Said::Call(self.received(id, call, used)));
                }
                Block::Content(content) => entry.said.extend(self.said(content)),
                Block::Result { .. } => {}
            }
        }
        // Thinking that led to nothing, as in an answer that was cut off, is refused.
        while matches!(entry.said.last(), Some(Said::Own { is_thinking: true, .. })) {
            entry.said.pop();
        }
        entry
    }

    fn said(&self, content: &'a Content) -> Option<Said<'a>> {
        let key = self.dialect.family().meta_key();
        match content {
            Content::Text { text, extra } => {
                let own = own_of(extra, key);
                // Gemini signs empty texts too.
                let is_signed = own.is_some() && self.dialect.family() == Family::Gemini;
                let is_kept = !text.trim().is_empty() || is_signed;
                is_kept.then(|| Said::Text { text: clean(text), own })
            }
            Content::Other(value) if is_someones(content) => {
                let value = value.get("_meta")?.get(key)?;
                Some(Said::Own { value, is_thinking: content.type_name() == Some("thinking") })
            }
            Content::Image { extra, .. } | Content::Audio { extra, .. } => {
                match piece(content, &self.assistant, &self.options.results) {
                    Piece::Text(text) => Some(Said::Text { text, own: None }),
                    piece => Some(Said::Media { piece, own: own_of(extra, key) }),
                }
            }
            other => match piece(other, &Carrier::TEXT, &self.options.results) {
                Piece::Text(text) if !text.trim().is_empty() => Some(Said::Text { text, own: None }),
                _ => None,
            },
        }
    }

    /// A call as this API saw it, or would have seen it.
    fn received(&self, id: &str, call: &ToolCall, used: &mut HashSet<String>) -> ReceivedCall {
        let own = own_of(&call.extra, self.dialect.family().meta_key());
        let text_of = |key: &str| own.and_then(|own| own.get(key)?.as_str()).map(str::to_owned);
        let mut wire = wire_id(self.dialect, id);
        let mut salt = 0u32;
        while !used.insert(wire.clone()) {
            // Two calls of one id, as servers that count from 0 in each answer make them.
            salt += 1;
            wire = wire_id(self.dialect, &format!("call_{}", fingerprint(&format!("{id}\n{salt}"))));
        }
        let name = match self.tools.wire_name(&call.name) {
            Some(name) => name.to_owned(),
            None if self.dialect == Dialect::Mcp => call.name.clone(),
            None => to_valid_tool_name(&call.name, ""),
        };
        let mut received = ReceivedCall {
            id: id_for(self.dialect.family(), wire, own),
            name,
            namespace: text_of("namespace"),
            arguments: Value::Object(call.arguments.clone().unwrap_or_default()),
            kind: CallKind::Function,
            signature: text_of("thoughtSignature"),
        };
        if let Some(text) = own_of(&call.extra, UNREADABLE) {
            received.arguments = text.clone();
            // Much of what lies behind an API parses what it is sent, so what is no JSON is told inside of one.
            received.arguments = Value::Object(arguments_object(&received));
        } else if let Ok(encoded) = self.tools.encode(&call.name, &received.arguments) {
            received.arguments = Value::Object(encoded.arguments);
        }
        received
    }
}

impl<'a> Entry<'a> {
    fn of(role: Role) -> Entry<'a> {
        Entry { role, said: Vec::new(), ids: Vec::new(), pieces: Vec::new(), results: Vec::new() }
    }

    fn merge(&mut self, more: Entry<'a>) {
        self.said.extend(more.said);
        self.ids.extend(more.ids);
        self.pieces.extend(more.pieces);
        self.results.extend(more.results);
    }
}

/// Gives each call the first result of its id in the next message of the user's.
fn pair(entries: Vec<Entry<'_>>) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    let mut open: Vec<(&str, ReceivedCall)> = Vec::new();
    for entry in entries {
        match entry.role {
            Role::Assistant => {
                let calls = entry.said.iter().filter_map(|said| match said {
                    Said::Call(call) => Some(call.clone()),
                    _ => None,
                });
                open = entry.ids.iter().copied().zip(calls).collect();
                match turns.last_mut() {
                    // What stood between held nothing but results of no call.
                    Some(Turn::Assistant(said)) => said.extend(entry.said),
                    _ => turns.push(Turn::Assistant(entry.said)),
                }
            }
            Role::User => {
                answer(&mut turns, std::mem::take(&mut open), entry.results);
                match turns.last_mut() {
                    _ if entry.pieces.is_empty() => {}
                    Some(Turn::User(pieces)) => pieces.extend(entry.pieces),
                    _ => turns.push(Turn::User(entry.pieces)),
                }
            }
        }
    }
    answer(&mut turns, open, Vec::new());
    turns
}

fn answer<'a>(
    turns: &mut Vec<Turn<'a>>,
    calls: Vec<(&str, ReceivedCall)>,
    mut results: Vec<(&'a str, &'a ToolResult)>,
) {
    if calls.is_empty() {
        return;
    }
    let answered = calls.into_iter().map(|(id, call)| {
        let place = results.iter().position(|(known, _)| *known == id);
        (call, place.map(|place| results.remove(place).1))
    });
    turns.push(Turn::Results(answered.collect()));
}

/// What stands under a key of a block's `_meta`.
fn own_of<'a>(extra: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    extra.get("_meta")?.get(key)
}

/// Whether only one provider understands the block.
fn is_someones(content: &Content) -> bool {
    let Content::Other(value) = content else { return false };
    let meta = value.get("_meta").and_then(Value::as_object);
    let is_kept = meta.is_some_and(|meta| meta.keys().any(|key| key.starts_with("toolwire/")));
    is_kept || content.type_name() == Some("thinking")
}

fn is_blank(piece: &Piece) -> bool {
    matches!(piece, Piece::Text(text) if text.trim().is_empty())
}

/// The results of a turn, as `write_results` takes them.
pub(crate) fn answered<'t>(results: &'t [(ReceivedCall, Option<&'t ToolResult>)]) -> Vec<Answered<'t>> {
    results.iter().map(|(call, result)| Answered { call, result: *result }).collect()
}

/// Whether a family wants the turns of user and assistant to alternate, beginning with the user.
pub(crate) fn alternates(family: Family) -> bool {
    matches!(family, Family::Anthropic | Family::Gemini | Family::Bedrock)
}
