//! The format of conversations in Redis.
//!
//! | key | type | contents |
//! |---|---|---|
//! | `PREFIX:{ID}:head` | hash | `format`, `title`, `model`, `created`, `changed`, `messages`, the sums of usage, `parent` and `at`, `recent`: the last 32 writes, to detect repeated ones |
//! | `PREFIX:{ID}:entries` | list | one string per message: its time, `:`, and the JSON of message, model and usage |
//! | `PREFIX:{ID}:forks` | set | ids of the forks of the conversation |
//! | `PREFIX:list` | sorted set | ids by the time of the last change |
//!
//! The braces are a hash tag: all keys of a conversation are in one slot of a cluster, so one script can use
//! several.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toolwire_contract::Message;
use toolwire_contract::conversations::{
    Conversation, ConversationId, Entry, Parent, StoreError, Timestamp, Transcript,
};
use toolwire_contract::model::Usage;

use crate::nesting;

/// The format version that this code writes.
pub(super) const FORMAT: u64 = 1;

pub(super) struct Keys {
    pub(super) head: String,
    pub(super) entries: String,
    pub(super) forks: String,
}

impl Keys {
    pub(super) fn new(prefix: &str, id: &ConversationId) -> Keys {
        let key = |part: &str| format!("{prefix}:{{{id}}}:{part}");
        Keys { head: key("head"), entries: key("entries"), forks: key("forks") }
    }
}

#[derive(Serialize, Deserialize)]
struct Body {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    message: Arc<Message>,
}

/// Returns the JSON of an entry, without the time that the script prepends.
pub(super) fn write_body(
    message: Arc<Message>,
    model: Option<String>,
    usage: Option<Usage>,
    place: &str,
) -> Result<String, StoreError> {
    let text = serde_json::to_string(&Body { model, usage, message })
        .expect("messages and numbers are always valid JSON");
    nesting::check(&text, place)?;
    Ok(text)
}

pub(super) fn write_entry(entry: Entry, place: &str) -> Result<String, StoreError> {
    let Entry { time, model, usage, message, .. } = entry;
    Ok(format!("{}:{}", time.0, write_body(message, model, usage, place)?))
}

pub(super) fn read_entry(text: &str, sequence: u64, place: &str) -> Result<Entry, StoreError> {
    let damaged = |problem: String| StoreError::Damaged { place: place.to_owned(), problem };
    let (time, body) = text.split_once(':').ok_or_else(|| damaged("an entry has no time".to_owned()))?;
    let time = time.parse().map_err(|_| damaged(format!("`{time}` is not a timestamp")))?;
    let Body { model, usage, message } = serde_json::from_str(body)
        .map_err(|error| damaged(format!("message {sequence} cannot be parsed: {error}")))?;
    Ok(Entry { sequence, time: Timestamp(time), model, usage, message })
}

/// Returns the fields of a conversation's head, except those that the script writes.
pub(super) fn write_head(conversation: &Conversation) -> Vec<(&'static str, String)> {
    let Conversation { title, model, messages, usage, parent, .. } = conversation;
    let mut fields = vec![("messages", messages.to_string())];
    fields.extend(title.clone().map(|title| ("title", title)));
    fields.extend(model.clone().map(|model| ("model", model)));
    let [input, output, cached, written, reasoning, cost] = write_usage(usage);
    fields.extend([("input", input), ("output", output), ("cached", cached), ("written", written)]);
    fields.push(("reasoning", reasoning));
    if !cost.is_empty() {
        fields.push(("cost", cost));
    }
    if let Some(Parent { conversation, at }) = parent {
        fields.extend([("parent", conversation.to_string()), ("at", at.to_string())]);
    }
    fields
}

/// Returns input, output, cached, written to the cache, reasoning and cost; an unknown cost is an empty
/// string.
pub(super) fn write_usage(usage: &Usage) -> [String; 6] {
    [
        usage.input_tokens.to_string(),
        usage.output_tokens.to_string(),
        usage.cached_tokens.to_string(),
        usage.cache_write_tokens.to_string(),
        usage.reasoning_tokens.to_string(),
        usage.cost_nanodollars.map_or_else(String::new, |cost| cost.to_string()),
    ]
}

/// Parses the head of a conversation; `None` if it does not exist.
pub(super) fn read_head(
    id: ConversationId,
    mut fields: HashMap<String, String>,
    place: &str,
) -> Result<Option<Conversation>, StoreError> {
    if fields.is_empty() {
        return Ok(None);
    }
    let damaged = |problem: String| StoreError::Damaged { place: place.to_owned(), problem };
    let number = |name: &str| -> Result<u64, StoreError> {
        let text = fields.get(name).ok_or_else(|| damaged(format!("conversation `{id}` has no `{name}`")))?;
        text.parse()
            .map_err(|_| damaged(format!("`{name}` of conversation `{id}` is not a number: `{text}`")))
    };
    let found = number("format")?;
    if found > FORMAT {
        return Err(StoreError::Newer { place: place.to_owned(), found, known: FORMAT });
    }
    let parent = match fields.get("parent") {
        Some(parent) => Some(Parent {
            conversation: parent.parse().map_err(|error| damaged(format!("{error}")))?,
            at: number("at")?,
        }),
        None => None,
    };
    let usage = Usage {
        input_tokens: number("input")?,
        output_tokens: number("output")?,
        cached_tokens: number("cached")?,
        // Conversations of earlier versions do not have it.
        cache_write_tokens: if fields.contains_key("written") { number("written")? } else { 0 },
        reasoning_tokens: number("reasoning")?,
        cost_nanodollars: fields.contains_key("cost").then(|| number("cost")).transpose()?,
    };
    let (created, changed) = (Timestamp(number("created")?), Timestamp(number("changed")?));
    let messages = number("messages")?;
    let (title, model) = (fields.remove("title"), fields.remove("model"));
    Ok(Some(Conversation { id, title, model, created, changed, messages, usage, parent }))
}

/// Combines a head and at most `limit` of its entries. Entries can be missing if the server evicts keys.
pub(super) fn read_transcript(
    conversation: Conversation,
    texts: &[String],
    after: u64,
    limit: u64,
    place: &str,
) -> Result<Transcript, StoreError> {
    let expected = conversation.messages.saturating_sub(after).min(limit);
    if texts.len() as u64 != expected {
        let problem = format!(
            "wrong number of messages in conversation `{}` after position {after}: expected {expected}, found {}",
            conversation.id,
            texts.len()
        );
        return Err(StoreError::Damaged { place: place.to_owned(), problem });
    }
    let numbered = texts.iter().enumerate().map(|(index, text)| (after + 1 + index as u64, text));
    let entries: Result<Vec<Entry>, StoreError> =
        numbered.map(|(sequence, text)| read_entry(text, sequence, place)).collect();
    Ok(Transcript { conversation, entries: entries? })
}
