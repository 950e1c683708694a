//! What clients do not see of a response: calls of the servers' tools, their results, and the provider's own data.
//!
//! A client returns only what it was sent. The rest is stored under the ids of the calls that it was sent, because every
//! client returns those unchanged. If it is gone, the conversation continues without it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use toolwire_contract::{Block, Message, Role, ToolResult};

use crate::keys::Principal;

const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
const MAX_ENTRIES: usize = 20_000;
const MAX_BYTES: usize = 256 * 1024 * 1024;

/// The complete messages of responses that ended with calls for the client.
#[derive(Default)]
pub(crate) struct HiddenRounds(Mutex<Rounds>);

#[derive(Default)]
struct Rounds {
    by_id: HashMap<String, Arc<Round>>,
    /// The oldest first.
    order: VecDeque<Arc<Round>>,
    bytes: usize,
}

struct Round {
    principal: Principal,
    /// All messages of the response. The last response of the model has the calls; results of the servers' calls follow.
    messages: Vec<Arc<Message>>,
    /// For each call of the client, the id that it was sent and the id in the messages.
    ids: Vec<(String, String)>,
    stored_at: Instant,
    bytes: usize,
}

impl HiddenRounds {
    /// Stores the messages of a response. `ids` has the id that the client was sent and the original one, for each of its
    /// calls.
    pub(crate) fn store(
        &self,
        principal: &Principal,
        messages: Vec<Arc<Message>>,
        ids: Vec<(String, String)>,
    ) {
        let bytes = messages.iter().map(|message| estimated_bytes(message)).sum();
        let round =
            Arc::new(Round { principal: principal.clone(), messages, ids, stored_at: Instant::now(), bytes });
        let mut rounds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rounds.bytes += bytes;
        for (id, _) in &round.ids {
            rounds.by_id.insert(id.clone(), round.clone());
        }
        rounds.order.push_back(round);
        rounds.remove_oldest();
    }

    /// Returns the messages that a client sent, with all that it was not sent. Every call has a result afterwards.
    pub(crate) fn restore(&self, principal: &Principal, messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
        let mut restored: Vec<Arc<Message>> = Vec::with_capacity(messages.len());
        let mut original_ids: HashMap<String, String> = HashMap::new();
        for message in messages {
            let round = match message.role {
                Role::Assistant => message.calls().find_map(|(id, _)| self.find(principal, id)),
                Role::User => None,
            };
            match round {
                Some(round) => {
                    remove_shown_calls(&mut restored);
                    restored.extend(round.messages.iter().cloned());
                    original_ids.extend(round.ids.iter().cloned());
                }
                None if !original_ids.is_empty()
                    && message.results().any(|(id, _)| original_ids.contains_key(id)) =>
                {
                    restored.push(rename_results(&message, &original_ids));
                }
                None => restored.push(message),
            }
        }
        complete_results(restored)
    }

    /// Whether a body contains the id of a call whose response was not complete for the client.
    pub(crate) fn is_mentioned(&self, body: &[u8]) -> bool {
        let rounds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if rounds.by_id.is_empty() {
            return false;
        }
        let strings = body
            .split(|byte| *byte == b'"')
            .filter(|text| text.starts_with(b"call_") || text.starts_with(b"toolu_"));
        strings.filter_map(|text| std::str::from_utf8(text).ok()).any(|text| rounds.by_id.contains_key(text))
    }

    fn find(&self, principal: &Principal, id: &str) -> Option<Arc<Round>> {
        let rounds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let round = rounds.by_id.get(id)?;
        (round.principal == *principal && round.stored_at.elapsed() < LIFETIME).then(|| round.clone())
    }
}

impl Rounds {
    fn remove_oldest(&mut self) {
        while let Some(oldest) = self.order.front() {
            let is_over = self.order.len() > MAX_ENTRIES || self.bytes > MAX_BYTES;
            if !is_over && oldest.stored_at.elapsed() < LIFETIME {
                return;
            }
            let Some(oldest) = self.order.pop_front() else { return };
            self.bytes -= oldest.bytes;
            for (id, _) in &oldest.ids {
                self.by_id.remove(id);
            }
        }
    }
}

fn estimated_bytes(message: &Message) -> usize {
    serde_json::to_vec(message).map_or(0, |text| text.len())
}

fn rename_results(message: &Message, original_ids: &HashMap<String, String>) -> Arc<Message> {
    let mut message = message.clone();
    for block in &mut message.content {
        if let Block::Result { id, .. } = block
            && let Some(original) = original_ids.get(id)
        {
            id.clone_from(original);
        }
    }
    message.into()
}

/// Removes the visible part of a response, because the complete one replaces it: texts of the model, and calls that were made for
/// the client.
fn remove_shown_calls(messages: &mut Vec<Arc<Message>>) {
    let is_shown = |block: &Block| matches!(block, Block::Result { id, .. } if id.starts_with("mcp_") || id.starts_with("mcptoolu_"));
    while messages
        .last()
        .is_some_and(|last| last.role == Role::Assistant || last.content.iter().all(is_shown))
    {
        messages.pop();
    }
}

/// Adds a result to each call that has none. Models require one, and a call in the history is never run, because the
/// client wrote it.
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
    use toolwire_contract::ToolCall;

    use super::*;
    use crate::Keys;

    fn principal() -> Principal {
        Keys::default().authenticate(&http::HeaderMap::new()).expect("no key is needed")
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
        let rounds = HiddenRounds::default();
        let first = message("assistant", json!([call("1", "search")]));
        let first_results = message("user", json!([result("1", "found")]));
        let mixed = message("assistant", json!([call("1", "search"), call("2", "mine")]));
        let own_result = message("user", json!([result("1", "again")]));
        let hidden = vec![first, first_results, mixed, own_result];
        rounds.store(&principal(), hidden.clone(), vec![("call_shown".to_owned(), "2".to_owned())]);
        let question = message("user", json!([{"type": "text", "text": "go"}]));
        let shown =
            message("assistant", json!([{"type": "text", "text": "I look."}, call("call_shown", "mine")]));
        let returned = message("user", json!([result("call_shown", "done")]));
        let restored = rounds.restore(&principal(), vec![question.clone(), shown.clone(), returned.clone()]);
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
        assert_eq!(rounds.restore(&other, plain.clone()), plain, "another caller gets nothing");
    }

    #[test]
    fn a_call_without_a_result_gets_one() {
        let rounds = HiddenRounds::default();
        let calls = message("assistant", json!([call("1", "a"), call("2", "b")]));
        let half = message("user", json!([result("2", "done")]));
        let restored = rounds.restore(&principal(), vec![calls.clone(), half.clone()]);
        assert_eq!(restored.len(), 3);
        assert_eq!(restored[1].results().map(|(id, _)| id).collect::<Vec<_>>(), ["1"]);
        assert_eq!(rounds.restore(&principal(), vec![calls]).len(), 2);
    }

    #[test]
    fn the_oldest_responses_are_forgotten_first() {
        let rounds = HiddenRounds::default();
        let call = Block::Call { id: "1".to_owned(), call: ToolCall::new("a", serde_json::Map::new()) };
        let messages = vec![Arc::new(Message::new(Role::Assistant, vec![call]))];
        for number in 0..=MAX_ENTRIES {
            rounds.store(&principal(), messages.clone(), vec![(format!("call_{number}"), "1".to_owned())]);
        }
        assert!(rounds.find(&principal(), "call_0").is_none());
        assert!(rounds.find(&principal(), "call_1").is_some());
        let inner = rounds.0.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!((inner.order.len(), inner.by_id.len()), (MAX_ENTRIES, MAX_ENTRIES));
    }
}
