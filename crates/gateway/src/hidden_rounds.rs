//! Stores the parts of a response that the client does not get: calls of servers' tools, their results, and
//! data of the provider such as signed thinking.
//!
//! The history in the client's next request contains only what the client received. The rest is stored under
//! the ids of the client's calls, and of the parts that the provider's own tools have added, because every
//! client returns these ids unchanged. If the stored messages are no longer available, the conversation
//! continues without them.

mod provider_parts;
mod restoration;
mod shown_part;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use toolwire_contract::model::VerbatimRequest;
use toolwire_contract::{Block, Message, Role, ToolResult};

use crate::principal::Principal;
use crate::recent::{Recent, StateLimits};
use crate::settings::GatewayLimits;
use provider_parts::part_id;
pub(crate) use provider_parts::{has_hidden_parts, provider_data, shown_parts};
use restoration::{FoundRound, Restoration};
use shown_part::is_shown_id;

/// The maximum number of responses that are stored.
const MAX_RESPONSES: usize = 20_000;

/// The complete messages of responses that ended with calls for the client.
pub(crate) struct HiddenRounds(Recent<Round>);

struct Round {
    /// All messages of the response. The last response of the model has the calls; results of the servers'
    /// calls follow.
    messages: Vec<Arc<Message>>,
    ids: Vec<ShownId>,
}

/// The id of a call that the client got, and the id in the messages; `None` if the messages already have its
/// result.
pub(crate) type ShownId = (String, Option<String>);

impl Round {
    /// Whether the response has no calls for the client, so that it ends with a message of the model.
    fn is_complete(&self) -> bool {
        self.ids.iter().all(|(_, original)| original.is_none())
    }

    /// Returns what the user wrote during the response, together with approvals.
    fn user_content(&self) -> impl Iterator<Item = &Block> {
        let messages = self.messages.iter().filter(|message| message.role == Role::User);
        messages.flat_map(|message| &message.content).filter(|block| matches!(block, Block::Content(_)))
    }
}

/// A key by which equal content is found in a set.
#[derive(PartialEq, Eq, Hash)]
struct ContentKey(String);

impl ContentKey {
    /// Returns the key of a block; `None` for calls and results.
    fn of(block: &Block) -> Option<ContentKey> {
        match block {
            Block::Content(_) => serde_json::to_string(block).ok().map(ContentKey),
            _ => None,
        }
    }
}

impl HiddenRounds {
    pub(crate) fn new(limits: &GatewayLimits, has_several_keys: bool) -> HiddenRounds {
        HiddenRounds(Recent::new(StateLimits::new(limits, has_several_keys, MAX_RESPONSES)))
    }

    /// Stores the messages of a response, and the ids of the client's calls in it. If they are too large, the
    /// next request continues without them.
    pub(crate) fn store(&self, principal: &Principal, messages: Vec<Arc<Message>>, ids: Vec<ShownId>) {
        let bytes = messages.iter().map(|message| estimated_bytes(message)).sum();
        let shown = ids.iter().map(|(shown, _)| shown.clone()).collect();
        if let Err(error) = self.0.store(principal, shown, Round { messages, ids }, bytes) {
            tracing::warn!(%error, "hidden calls of a response are not stored");
        }
    }

    /// Returns the client's messages together with the stored ones. Every call in the returned messages has a
    /// result.
    ///
    /// A client may send the calls of one response in several messages, each with its result. The complete
    /// response then replaces the last of these messages. In `verbatim`, the ids of the calls are replaced by
    /// the original ones.
    pub(crate) fn restore(
        &self,
        principal: &Principal,
        messages: Vec<Arc<Message>>,
        verbatim: Option<&mut VerbatimRequest>,
    ) -> Vec<Arc<Message>> {
        let rounds = self.find_rounds(principal, &messages);
        if rounds.is_empty() {
            return complete_results(messages);
        }
        complete_results(Restoration::new(&messages, &rounds).messages(verbatim))
    }

    /// Finds the stored responses whose calls or parts are in the messages. All calls of a message must be
    /// known, except those of servers' tools, which the client was shown.
    fn find_rounds(&self, principal: &Principal, messages: &[Arc<Message>]) -> Vec<FoundRound> {
        let mut rounds: Vec<FoundRound> = Vec::new();
        let mut positions: HashMap<*const Round, usize> = HashMap::new();
        for (index, message) in messages.iter().enumerate() {
            let calls = message.calls().map(|(id, _)| id).filter(|id| !is_shown_id(id));
            let found: Option<Vec<Arc<Round>>> = calls.map(|id| self.0.find(principal, id)).collect();
            let parts = message.content.iter().filter_map(part_id);
            let parts = parts.filter_map(|id| self.0.find(principal, id)).collect::<Vec<_>>();
            for round in found.into_iter().flat_map(|calls| calls.into_iter().chain(parts.clone())) {
                let position = *positions.entry(Arc::as_ptr(&round)).or_insert(rounds.len());
                match rounds.get_mut(position) {
                    Some(known) => known.last = index,
                    None => rounds.push(FoundRound { round, last: index }),
                }
            }
        }
        rounds
    }

    /// Whether a body contains the id of a call or a part whose response is stored here.
    pub(crate) fn is_mentioned(&self, principal: &Principal, body: &[u8]) -> bool {
        self.0.is_mentioned(principal, body, &["call_", "toolu_", "srvtoolu_", "ws_", "fs_", "ci_", "ig_"])
    }
}

fn estimated_bytes(message: &Message) -> usize {
    serde_json::to_vec(message).map_or(0, |text| text.len())
}

/// Adds a result to each call that has none, because models require one. A call in the history is never run,
/// because the client could have invented it.
pub(crate) fn complete_results(messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
    let mut completed: Vec<Arc<Message>> = Vec::with_capacity(messages.len());
    let mut messages = messages.into_iter().peekable();
    while let Some(message) = messages.next() {
        if message.role == Role::User || message.calls().next().is_none() {
            completed.push(message);
            continue;
        }
        let following: Vec<Arc<Message>> =
            std::iter::from_fn(|| messages.next_if(|next| next.role == Role::User)).collect();
        let known: HashSet<&str> =
            following.iter().flat_map(|next| next.results()).map(|(id, _)| id).collect();
        let open = message.calls().filter(|(id, _)| !known.contains(id));
        let missing = open.map(|(id, call)| Block::Result {
            id: id.to_owned(),
            result: ToolResult::error(format!(
                "the call to `{}` has no result: the client did not run it",
                call.name
            )),
        });
        let missing: Vec<Block> = missing.collect();
        completed.push(message);
        if !missing.is_empty() {
            completed.push(Message::new(Role::User, missing).into());
        }
        completed.extend(following);
    }
    completed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::principal::tests::principals;

    fn principal() -> Principal {
        Principal::without_key()
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

        let [other, ..] = principals();
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

    /// Each call and result is found in a set, so that many of them take little time. Their order does not
    /// change.
    #[test]
    fn many_calls_and_results_are_paired() {
        let number = 0..500;
        let calls: Vec<_> = number.clone().map(|number| call(&format!("id_{number}"), "a")).collect();
        let results = number.clone().rev().filter(|number| number % 2 == 0);
        let results: Vec<_> = results.map(|number| result(&format!("id_{number}"), "done")).collect();
        let messages = vec![message("assistant", json!(calls)), message("user", json!(results))];
        let restored = rounds().restore(&principal(), messages.clone(), None);
        let missing: Vec<&str> = restored[1].results().map(|(id, _)| id).collect();
        let expected: Vec<String> =
            number.filter(|number| number % 2 == 1).map(|number| format!("id_{number}")).collect();
        assert_eq!((missing, &restored[2]), (expected.iter().map(String::as_str).collect(), &messages[1]));
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
        // If the model has written nothing, the client may send the messages of the user as one.
        for before in [vec![question, comment, said], vec![merged]] {
            let sent = before.into_iter().chain(shown.clone()).chain([returned.clone()]).collect();
            assert_eq!(rounds.restore(&principal(), sent, None), expected);
        }
    }
}
