//! The parts of a response that the provider's own tools have added, such as a web search. Clients of the
//! same API get them, and send them back unchanged.

use std::sync::Arc;

use serde_json::Value;
use toolwire_contract::{Block, Content, Message};
use toolwire_dialect::Family;

use super::ShownId;

/// Whether these messages of a response have parts that the client does not get: calls of servers' tools, or
/// thinking that the provider must get back.
pub(crate) fn has_hidden_parts(messages: &[Arc<Message>]) -> bool {
    let is_thinking =
        |block: &Block| matches!(block, Block::Content(content) if content.type_name() == Some("thinking"));
    messages.len() > 1 || messages.iter().any(|message| message.content.iter().any(is_thinking))
}

/// Returns the ids of the parts that clients of this API get.
pub(crate) fn shown_parts(messages: &[Arc<Message>], family: Family) -> impl Iterator<Item = ShownId> {
    let blocks = messages.iter().flat_map(|message| &message.content);
    let parts = blocks.filter_map(move |block| provider_data(block, family));
    parts.filter_map(|part| Some((part.get("id")?.as_str()?.to_owned(), None)))
}

/// Returns the part of a response in the format of an API that a block contains, unless it is thinking.
pub(crate) fn provider_data(block: &Block, family: Family) -> Option<&Value> {
    let Block::Content(content @ Content::Other(value)) = block else { return None };
    value.get("_meta")?.get(family.meta_key()).filter(|_| content.type_name() != Some("thinking"))
}

/// Returns the id of the part in a block, in the format of any API.
pub(super) fn part_id(block: &Block) -> Option<&str> {
    let part = [Family::Anthropic, Family::OpenAiResponses]
        .into_iter()
        .find_map(|family| provider_data(block, family))?;
    part.get("id")?.as_str()
}
