//! Inserts the stored messages of responses into the history that the client sent.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use toolwire_contract::model::VerbatimRequest;
use toolwire_contract::{Block, Message, Role, ToolResult};

use super::provider_parts::part_id;
use super::shown_part::{has_only_shown_results, remove_shown_part};
use super::{ContentKey, Round};

/// A stored response, and the last message of the client with one of its calls.
pub(super) struct FoundRound {
    pub(super) round: Arc<Round>,
    pub(super) last: usize,
}

/// The client's messages, and the stored responses that belong to them.
pub(super) struct Restoration<'a> {
    messages: &'a [Arc<Message>],
    /// The responses, by the position of the message that they replace.
    rounds: HashMap<usize, Vec<&'a Round>>,
    /// The original ids of the calls that the client received; `None` if the messages already have the
    /// result.
    original_ids: HashMap<&'a str, Option<&'a str>>,
    /// The client's results of these calls.
    results: HashMap<&'a str, &'a ToolResult>,
    /// What the user wrote during the responses.
    user_content: HashSet<ContentKey>,
}

impl<'a> Restoration<'a> {
    pub(super) fn new(messages: &'a [Arc<Message>], found: &'a [FoundRound]) -> Restoration<'a> {
        let mut rounds: HashMap<usize, Vec<&Round>> = HashMap::new();
        for FoundRound { round, last } in found {
            rounds.entry(*last).or_default().push(round);
        }
        let shown = found.iter().flat_map(|found| &found.round.ids);
        let original_ids: HashMap<&str, Option<&str>> =
            shown.map(|(shown, original)| (shown.as_str(), original.as_deref())).collect();
        let results = messages.iter().flat_map(|message| message.results());
        let results = results.filter(|(id, _)| original_ids.contains_key(id)).collect();
        let user_content = found.iter().flat_map(|found| found.round.user_content());
        let user_content = user_content.filter_map(ContentKey::of).collect();
        Restoration { messages, rounds, original_ids, results, user_content }
    }

    /// Returns the messages with the stored responses.
    pub(super) fn messages(&self, verbatim: Option<&mut VerbatimRequest>) -> Vec<Arc<Message>> {
        let mut items = verbatim.map(ClientItems::new);
        let mut restored: Vec<Arc<Message>> = Vec::with_capacity(self.messages.len());
        // Whether the next messages may be the rest of a response that was restored completely.
        let mut is_rest = false;
        for (index, message) in self.messages.iter().enumerate() {
            let is_of_response = message.role == Role::Assistant || has_only_shown_results(message);
            let is_known = message.content.iter().any(|block| self.is_known(block));
            is_rest &= is_of_response;
            if is_rest && !is_known {
                continue;
            }
            is_rest = self.rounds_at(index).any(Round::is_complete);
            match message.role {
                _ if !is_known => restored.push(message.clone()),
                Role::User if self.follows(index) => {
                    let renamed = Arc::new(self.rename_results(message));
                    if let Some(items) = &mut items {
                        items.rename(message, &renamed);
                    }
                    restored.push(renamed);
                }
                Role::User => restored.extend(self.without_known(message)),
                Role::Assistant => self.add_rounds(index, &mut restored),
            }
        }
        restored
    }

    fn rounds_at(&self, index: usize) -> impl Iterator<Item = &'a Round> {
        self.rounds.get(&index).into_iter().flatten().copied()
    }

    /// Whether a block is a call, a result or a part of a stored response.
    fn is_known(&self, block: &Block) -> bool {
        let id = match block {
            Block::Call { id, .. } | Block::Result { id, .. } => Some(id.as_str()),
            Block::Content(_) => part_id(block),
        };
        id.is_some_and(|id| self.original_ids.contains_key(id))
    }

    /// Whether a message has only results for the response directly before it. It then stays one message.
    fn follows(&self, index: usize) -> bool {
        let ids = index.checked_sub(1).into_iter().flat_map(|before| self.rounds_at(before));
        let ids = ids.flat_map(|round| &round.ids).filter(|(_, original)| original.is_some());
        let ids: HashSet<&str> = ids.map(|(shown, _)| shown.as_str()).collect();
        let is_own = |(id, _): (&str, &ToolResult)| !self.original_ids.contains_key(id) || ids.contains(id);
        self.messages.get(index).is_some_and(|message| {
            message.role == Role::User && message.results().all(is_own) && message.calls().next().is_none()
        })
    }

    fn rename_results(&self, message: &Message) -> Message {
        let mut message = message.clone();
        for block in &mut message.content {
            if let Block::Result { id, .. } = block
                && let Some(Some(original)) = self.original_ids.get(id.as_str())
            {
                *id = (*original).to_owned();
            }
        }
        message
    }

    /// Returns a message of the user without the parts that the stored responses contain.
    fn without_known(&self, message: &Message) -> Option<Arc<Message>> {
        let is_repeated =
            |block: &Block| ContentKey::of(block).is_some_and(|key| self.user_content.contains(&key));
        let mut message = message.clone();
        message
            .content
            .retain(|block| !self.is_known(block) && (self.user_content.is_empty() || !is_repeated(block)));
        (!message.content.is_empty()).then(|| message.into())
    }

    /// Adds the stored responses that replace a message of the assistant, and the client's results that the
    /// next message does not have.
    fn add_rounds(&self, index: usize, restored: &mut Vec<Arc<Message>>) {
        let next = self.messages.get(index + 1);
        let next = next.filter(|_| self.rounds.contains_key(&index) && self.follows(index + 1));
        let next: HashSet<&str> =
            next.into_iter().flat_map(|next| next.results()).map(|(id, _)| id).collect();
        for round in self.rounds_at(index) {
            remove_shown_part(restored, round);
            restored.extend(round.messages.iter().cloned());
            let earlier = round.ids.iter().filter(|(shown, _)| !next.contains(shown.as_str()));
            let returned = earlier.filter_map(|(shown, original)| {
                let result = (*self.results.get(shown.as_str())?).clone();
                Some(Block::Result { id: original.clone()?, result })
            });
            let returned: Vec<Block> = returned.collect();
            if !returned.is_empty() {
                restored.push(Message::new(Role::User, returned).into());
            }
        }
    }
}

/// The client's own JSON texts of its messages.
struct ClientItems<'v> {
    verbatim: &'v mut VerbatimRequest,
    positions: HashMap<*const Message, usize>,
}

impl<'v> ClientItems<'v> {
    fn new(verbatim: &'v mut VerbatimRequest) -> ClientItems<'v> {
        let messages = verbatim.messages.iter().enumerate();
        let positions = messages.map(|(position, (message, _))| (Arc::as_ptr(message), position)).collect();
        ClientItems { verbatim, positions }
    }

    /// Replaces the ids in the JSON texts of a message.
    fn rename(&mut self, message: &Arc<Message>, renamed: &Arc<Message>) {
        let Some(position) = self.positions.get(&Arc::as_ptr(message)) else { return };
        let (known, items) = &mut self.verbatim.messages[*position];
        *known = renamed.clone();
        let ids =
            message.results().zip(renamed.results()).map(|((shown, _), (original, _))| (shown, original));
        let ids: HashMap<&str, String> = ids
            .filter(|(shown, original)| shown != original)
            .map(|(shown, original)| (shown, serde_json::Value::from(original).to_string()))
            .collect();
        for item in items.iter_mut().filter(|_| !ids.is_empty()) {
            *item = replace_strings(item, &ids);
        }
    }
}

/// Replaces strings in a JSON text by other JSON texts. The strings are random ids without characters that
/// need escapes, so a text search finds only them.
fn replace_strings(text: &str, replacements: &HashMap<&str, String>) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('"') {
        let (before, string) = (&rest[..start], &rest[start + 1..]);
        replaced.push_str(before);
        let found = string.find('"').and_then(|end| Some((end, replacements.get(&string[..end])?)));
        rest = match found {
            Some((end, replacement)) => {
                replaced.push_str(replacement);
                &string[end + 1..]
            }
            None => {
                replaced.push('"');
                string
            }
        };
    }
    replaced.push_str(rest);
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_strings_are_replaced() {
        let ids = HashMap::from([("call_a", r#""1""#.to_owned()), ("call_b", r#""2\"""#.to_owned())]);
        for (text, expected) in [
            (r#"{"id":"call_a"}"#, r#"{"id":"1"}"#),
            (r#"["call_a","call_b","call_a"]"#, r#"["1","2\"","1"]"#),
            (r#"{"text":"call_a and call_b"}"#, r#"{"text":"call_a and call_b"}"#),
            (r#"{"text":"\"call_a\""}"#, r#"{"text":"\"call_a\""}"#),
            (r#"{"text":"é","id" : "call_b"}"#, r#"{"text":"é","id" : "2\""}"#),
            ("no strings", "no strings"),
        ] {
            assert_eq!(replace_strings(text, &ids), expected);
        }
    }
}
