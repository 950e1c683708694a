//! Stores the parts of a response that the client does not get: calls of servers' tools, their results, and data of the
//! provider such as signed thinking.
//!
//! The history in the client's next request contains only what the client got. The rest is stored under the ids of the
//! client's calls, because every client returns these ids unchanged. If the stored messages are no longer available, the
//! conversation continues without them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use toolwire_contract::{Block, Content, Message, Role, ToolResult, VerbatimRequest};

use crate::keys::Principal;
use crate::recent::{Recent, StateLimits};
use crate::settings::GatewayLimits;

/// The maximum number of responses that are stored.
const MAX_RESPONSES: usize = 20_000;

/// The complete messages of responses that ended with calls for the client.
pub(crate) struct HiddenRounds(Recent<Round>);

struct Round {
    /// All messages of the response. The last response of the model has the calls; results of the servers' calls follow.
    messages: Vec<Arc<Message>>,
    ids: Vec<ShownId>,
}

/// The id of a call that the client got, and the id in the messages; `None` if the messages already have its result.
pub(crate) type ShownId = (String, Option<String>);

impl Round {
    /// Returns what the user wrote during the response, together with approvals.
    fn said(&self) -> impl Iterator<Item = &Block> {
        let messages = self.messages.iter().filter(|message| message.role == Role::User);
        messages.flat_map(|message| &message.content).filter(|block| matches!(block, Block::Content(_)))
    }

    /// Whether the response contains the whole text of one of the client's messages, and that message has a text.
    fn contains_text_of(&self, message: &Message) -> bool {
        let responses = self.messages.iter().filter(|message| message.role == Role::Assistant);
        let written: String = responses.flat_map(|message| texts(message)).collect();
        let mut texts = texts(message).peekable();
        texts.peek().is_some() && texts.all(|text| written.contains(text))
    }
}

fn texts(message: &Message) -> impl Iterator<Item = &str> {
    message.content.iter().filter_map(|block| match block {
        Block::Content(Content::Text { text, .. }) => Some(text.as_str()),
        _ => None,
    })
}

impl HiddenRounds {
    pub(crate) fn new(limits: &GatewayLimits, has_several_keys: bool) -> HiddenRounds {
        HiddenRounds(Recent::new(StateLimits::new(limits, has_several_keys, MAX_RESPONSES)))
    }

    /// Stores the messages of a response, and the ids of the client's calls in it.
    pub(crate) fn store(&self, principal: &Principal, messages: Vec<Arc<Message>>, ids: Vec<ShownId>) {
        let bytes = messages.iter().map(|message| estimated_bytes(message)).sum();
        let shown = ids.iter().map(|(shown, _)| shown.clone()).collect();
        self.0.store(principal, shown, Round { messages, ids }, bytes);
    }

    /// Returns the client's messages together with the stored ones. Every call in the returned messages has a result.
    ///
    /// A client may send the calls of one response in several messages, each with its result. The complete response then
    /// replaces the last of these messages. In `verbatim`, the ids of the calls are replaced by the original ones.
    pub(crate) fn restore(
        &self,
        principal: &Principal,
        messages: Vec<Arc<Message>>,
        verbatim: Option<&mut VerbatimRequest>,
    ) -> Vec<Arc<Message>> {
        let mut rounds: Vec<(Arc<Round>, usize)> = Vec::new();
        let mut positions: HashMap<*const Round, usize> = HashMap::new();
        for (index, message) in messages.iter().enumerate() {
            let found: Option<Vec<Arc<Round>>> =
                message.calls().map(|(id, _)| self.0.find(principal, id)).collect();
            for round in found.into_iter().flatten() {
                let position = *positions.entry(Arc::as_ptr(&round)).or_insert(rounds.len());
                match rounds.get_mut(position) {
                    Some((_, last)) => *last = index,
                    None => rounds.push((round, index)),
                }
            }
        }
        if rounds.is_empty() {
            return complete_results(messages);
        }
        let mut by_last: HashMap<usize, Vec<&Round>> = HashMap::new();
        for (round, last) in &rounds {
            by_last.entry(*last).or_default().push(round);
        }
        let rounds_at = |index: usize| by_last.get(&index).into_iter().flatten().copied();
        let said: Vec<&Block> = rounds.iter().flat_map(|(round, _)| round.said()).collect();
        let shown = rounds.iter().flat_map(|(round, _)| &round.ids);
        let original_ids: HashMap<&str, &Option<String>> =
            shown.map(|(shown, original)| (shown.as_str(), original)).collect();
        let all_results = messages.iter().flat_map(|message| message.results());
        let results: HashMap<&str, &ToolResult> =
            all_results.filter(|(id, _)| original_ids.contains_key(id)).collect();
        let is_known = |block: &Block| matches!(block, Block::Call { id, .. } | Block::Result { id, .. } if original_ids.contains_key(id.as_str()));
        // Whether a message has only results for the response directly before it. It then stays one message.
        let follows = |index: usize| {
            let ids = index.checked_sub(1).into_iter().flat_map(rounds_at).flat_map(|round| &round.ids);
            let ids: HashSet<&str> =
                ids.filter(|(_, original)| original.is_some()).map(|(shown, _)| shown.as_str()).collect();
            let is_own = |(id, _): (&str, &ToolResult)| !original_ids.contains_key(id) || ids.contains(&id);
            messages.get(index).is_some_and(|message| {
                message.role == Role::User
                    && message.results().all(is_own)
                    && message.calls().next().is_none()
            })
        };
        let mut items = verbatim.map(ClientItems::new);
        let mut restored: Vec<Arc<Message>> = Vec::with_capacity(messages.len());
        for (index, message) in messages.iter().enumerate() {
            match message.role {
                _ if !message.content.iter().any(is_known) => restored.push(message.clone()),
                Role::User if follows(index) => {
                    let renamed = Arc::new(rename_results(message, &original_ids));
                    if let Some(items) = &mut items {
                        items.rename(message, &renamed);
                    }
                    restored.push(renamed);
                }
                Role::User => {
                    let mut message = Message::clone(message);
                    message.content.retain(|block| !is_known(block) && !said.contains(&block));
                    if !message.content.is_empty() {
                        restored.push(message.into());
                    }
                }
                Role::Assistant => {
                    let next = messages
                        .get(index + 1)
                        .filter(|_| by_last.contains_key(&index) && follows(index + 1));
                    let next: HashSet<&str> =
                        next.into_iter().flat_map(|next| next.results()).map(|(id, _)| id).collect();
                    for round in rounds_at(index) {
                        remove_shown_part(&mut restored, round);
                        restored.extend(round.messages.iter().cloned());
                        let earlier = round.ids.iter().filter(|(shown, _)| !next.contains(shown.as_str()));
                        let returned = earlier.filter_map(|(shown, original)| {
                            let result = (*results.get(shown.as_str())?).clone();
                            Some(Block::Result { id: original.clone()?, result })
                        });
                        let returned: Vec<Block> = returned.collect();
                        if !returned.is_empty() {
                            restored.push(Message::new(Role::User, returned).into());
                        }
                    }
                }
            }
        }
        complete_results(restored)
    }

    /// Whether a body contains the id of a call whose response is stored here.
    pub(crate) fn is_mentioned(&self, principal: &Principal, body: &[u8]) -> bool {
        self.0.is_mentioned(principal, body, &["call_", "toolu_"])
    }
}

fn estimated_bytes(message: &Message) -> usize {
    serde_json::to_vec(message).map_or(0, |text| text.len())
}

fn rename_results(message: &Message, original_ids: &HashMap<&str, &Option<String>>) -> Message {
    let mut message = message.clone();
    for block in &mut message.content {
        if let Block::Result { id, .. } = block
            && let Some(Some(original)) = original_ids.get(id.as_str())
        {
            id.clone_from(original);
        }
    }
    message
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

    /// Replaces the ids in the JSON texts of a message. The ids are random, so a text search finds only them.
    fn rename(&mut self, message: &Arc<Message>, renamed: &Arc<Message>) {
        let Some(position) = self.positions.get(&Arc::as_ptr(message)) else { return };
        let (known, items) = &mut self.verbatim.messages[*position];
        *known = renamed.clone();
        let quoted = |id: &str| serde_json::Value::from(id).to_string();
        for ((shown, _), (original, _)) in message.results().zip(renamed.results()) {
            for item in items.iter_mut().filter(|_| shown != original) {
                *item = item.replace(&quoted(shown), &quoted(original));
            }
        }
    }
}

/// Removes the part of a response that the client sent back, because the complete response replaces it: texts of the
/// model, results of servers' calls that the client was shown, and what the user wrote with approvals.
fn remove_shown_part(messages: &mut Vec<Arc<Message>>, round: &Round) {
    let is_shown = |block: &Block| matches!(block, Block::Result { id, .. } if id.starts_with("mcp_") || id.starts_with("mcptoolu_"));
    let is_said = |block: &Block| round.said().any(|said| said == block);
    loop {
        while messages
            .last()
            .is_some_and(|last| last.role == Role::Assistant || last.content.iter().all(is_shown))
        {
            messages.pop();
        }
        let Some(last) = messages.last() else { return };
        if !last.content.last().is_some_and(is_said) {
            return;
        }
        let before = messages.iter().rev().nth(1);
        let is_response =
            before.is_some_and(|before| before.role == Role::Assistant && round.contains_text_of(before));
        if is_response && last.content.iter().all(is_said) {
            // The user wrote it after a text of this response.
            messages.pop();
            continue;
        }
        // The question before the response is part of the same message.
        let count = last.content.iter().rev().take_while(|block| is_said(block)).count();
        let kept = (last.content.len() - count).max(1);
        if kept < last.content.len()
            && let Some(last) = messages.last_mut()
        {
            Arc::make_mut(last).content.truncate(kept);
        }
        return;
    }
}

/// Adds a result to each call that has none, because models require one. A call in the history is never run, because
/// the client could have invented it.
fn complete_results(messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
    let mut completed: Vec<Arc<Message>> = Vec::with_capacity(messages.len());
    let mut messages = messages.into_iter().peekable();
    while let Some(message) = messages.next() {
        if message.role == Role::User || message.calls().next().is_none() {
            completed.push(message);
            continue;
        }
        let mut open: Vec<(String, String)> =
            message.calls().map(|(id, call)| (id.to_owned(), call.name.clone())).collect();
        completed.push(message);
        let mut results = Vec::new();
        while let Some(next) = messages.next_if(|next| next.role == Role::User) {
            open.retain(|(id, _)| next.results().all(|(known, _)| known != id));
            results.push(next);
        }
        if !open.is_empty() {
            let missing = |(id, name)| Block::Result {
                id,
                result: ToolResult::error(format!(
                    "the call to `{name}` has no result: the client did not run it"
                )),
            };
            completed.push(Message::new(Role::User, open.into_iter().map(missing).collect()).into());
        }
        completed.extend(results);
    }
    completed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Keys;

    fn principal() -> Principal {
        Keys::default().authenticate(&http::HeaderMap::new()).expect("no key is needed")
    }

    fn rounds() -> HiddenRounds {
        HiddenRounds::new(&GatewayLimits::default(), false)
    }

    fn message(role: &str, blocks: serde_json::Value) -> Arc<Message> {
        Arc::new(serde_json::from_value(json!({"role": role, "content": blocks})).expect("a message"))
    }

    fn call(id: &str, name: &str) -> serde_json::Value {
        json!({"type": "tool_use", "id": id, "name": name, "input": {}})
    }

    fn result(id: &str, text: &str) -> serde_json::Value {
        json!({"type": "tool_result", "toolUseId": id, "content": [{"type": "text", "text": text}]})
    }

    #[test]
    fn hidden_calls_return_to_their_place() {
        let rounds = rounds();
        let first = message("assistant", json!([call("1", "search")]));
        let first_results = message("user", json!([result("1", "found")]));
        let mixed = message("assistant", json!([call("1", "search"), call("2", "mine")]));
        let own_result = message("user", json!([result("1", "again")]));
        let hidden = vec![first, first_results, mixed, own_result];
        rounds.store(&principal(), hidden.clone(), vec![("call_shown".to_owned(), Some("2".to_owned()))]);
        let question = message("user", json!([{"type": "text", "text": "go"}]));
        let shown =
            message("assistant", json!([{"type": "text", "text": "I look."}, call("call_shown", "mine")]));
        let returned = message("user", json!([result("call_shown", "done")]));
        let restored =
            rounds.restore(&principal(), vec![question.clone(), shown.clone(), returned.clone()], None);
        let mut expected = vec![question.clone()];
        expected.extend(hidden);
        expected.push(message("user", json!([result("2", "done")])));
        assert_eq!(restored, expected);

        let other = Keys::default().with("a", "k");
        let headers = http::HeaderMap::from_iter([(
            http::HeaderName::from_static("x-api-key"),
            http::HeaderValue::from_static("k"),
        )]);
        let other = other.authenticate(&headers).expect("the key is right");
        let plain = vec![question, shown, returned];
        assert_eq!(rounds.restore(&other, plain.clone(), None), plain, "another caller gets nothing");
    }

    #[test]
    fn a_call_without_a_result_gets_one() {
        let rounds = rounds();
        let calls = message("assistant", json!([call("1", "a"), call("2", "b")]));
        let half = message("user", json!([result("2", "done")]));
        let restored = rounds.restore(&principal(), vec![calls.clone(), half.clone()], None);
        assert_eq!(restored.len(), 3);
        assert_eq!(restored[1].results().map(|(id, _)| id).collect::<Vec<_>>(), ["1"]);
        assert_eq!(rounds.restore(&principal(), vec![calls], None).len(), 2);
    }

    #[test]
    fn a_comment_and_a_message_with_an_approval_are_not_repeated() {
        let text = |text: &str| json!({"type": "text", "text": text});
        let question = message("user", json!([text("go")]));
        let comment = message("assistant", json!([text("I look.")]));
        let said = message("user", json!([text("and this")]));
        let complete = vec![
            message("assistant", json!([text("I look."), call("1", "search")])),
            message("user", json!([result("1", "found")])),
            said.clone(),
            message("assistant", json!([text("Then."), call("2", "mine")])),
        ];
        let rounds = rounds();
        rounds.store(&principal(), complete.clone(), vec![("call_shown".to_owned(), Some("2".to_owned()))]);
        let shown = vec![
            message("assistant", json!([call("mcp_1", "search")])),
            message("user", json!([result("mcp_1", "found")])),
            message("assistant", json!([text("Then."), call("call_shown", "mine")])),
        ];
        let returned = message("user", json!([result("call_shown", "done")]));
        let mut expected = vec![question.clone()];
        expected.extend(complete);
        expected.push(message("user", json!([result("2", "done")])));
        let merged = message("user", json!([text("go"), text("and this")]));
        // The model may have written nothing; then, the messages of the user are one.
        for before in [vec![question, comment, said], vec![merged]] {
            let sent = before.into_iter().chain(shown.clone()).chain([returned.clone()]).collect();
            assert_eq!(rounds.restore(&principal(), sent, None), expected);
        }
    }
}
