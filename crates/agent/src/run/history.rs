//! The order of messages that models accept: users and assistants alternate, and each call has its result in
//! the next message.
//!
//! Stores have the messages in the order in which they were added: results as they arrived, and anything that
//! followed an interruption. [`normalize`] converts the stored order to the accepted one deterministically.

use std::sync::Arc;

use serde_json::json;
use toolwire_contract::{Block, Content, Message, Role, ToolCall, ToolResult, pair_results};

use super::calls::{is_outcome_unknown, outcome_unknown_result};
use crate::context_window::Summary;

/// The `_meta` field of a stored message that is a summary: the number of messages that it replaces in
/// requests.
const SUMMARY_KEY: &str = "toolwire/summary";

/// Converts stored messages to the form that models accept.
///
/// Messages of the same role are merged. The results of a step are in the order of its calls. A call without
/// a result gets one that says that the outcome is unknown; a result without a call is removed. Normalized
/// messages stay unchanged. Summaries, which [`Agent::compact`](crate::Agent::compact) stores, are removed.
pub fn normalize(messages: impl IntoIterator<Item = impl Into<Arc<Message>>>) -> Vec<Arc<Message>> {
    let mut history = assemble(without_summaries(messages).0);
    complete_calls(&mut history);
    history
}

/// Returns the messages of the conversation itself, and the last summary of it.
pub(super) fn without_summaries(
    messages: impl IntoIterator<Item = impl Into<Arc<Message>>>,
) -> (Vec<Arc<Message>>, Option<Summary>) {
    let mut summary = None;
    let mut others = Vec::new();
    for message in messages {
        let message: Arc<Message> = message.into();
        match read_summary(&message) {
            Some(found) => summary = Some(found),
            None => others.push(message),
        }
    }
    (others, summary)
}

/// Returns a message that stores a summary.
pub(super) fn summary_message(summary: &Summary) -> Message {
    let mut message = Message::user(&*summary.text);
    message.extra.insert("_meta".to_owned(), json!({SUMMARY_KEY: {"messages": summary.messages}}));
    message
}

/// Whether a stored message is a summary of the messages before it, and not a message of the conversation.
pub fn is_summary(message: &Message) -> bool {
    read_summary(message).is_some()
}

/// Whether a stored message is input of the user. A message of the role `user` that contains only results is
/// not, and neither is a summary.
pub fn is_user_input(message: &Message) -> bool {
    message.role == Role::User
        && !is_summary(message)
        && message.content.iter().any(|block| matches!(block, Block::Content(_)))
}

fn read_summary(message: &Message) -> Option<Summary> {
    let messages = message.extra.get("_meta")?.get(SUMMARY_KEY)?.get("messages")?.as_u64()?;
    Some(Summary { text: super::text_of(message), messages: usize::try_from(messages).ok()? })
}

/// Like [`normalize`], but the calls of the last step may still lack results.
pub(super) fn assemble(messages: impl IntoIterator<Item = impl Into<Arc<Message>>>) -> Vec<Arc<Message>> {
    let mut history = Vec::new();
    for message in messages {
        let message: Arc<Message> = message.into();
        // A call without a result will never get one if the model or the user continues.
        let is_response = message.role == Role::Assistant;
        let is_of_user = !is_response && !message.content.iter().all(is_result);
        if is_response {
            complete_calls(&mut history);
        }
        push(&mut history, message);
        if is_of_user {
            complete_calls(&mut history);
        }
    }
    history
}

/// Adds a message; merges it with the last one if both have the same role.
pub(super) fn push(history: &mut Vec<Arc<Message>>, message: Arc<Message>) {
    if message.content.is_empty() {
        return;
    }
    match history.last_mut() {
        Some(last) if last.role == message.role => {
            let (last, message) = (Arc::make_mut(last), Arc::unwrap_or_clone(message));
            last.content.extend(message.content);
            for (key, value) in message.extra {
                last.extra.entry(key).or_insert(value);
            }
        }
        _ => history.push(message),
    }
    let (last, before) = history.split_last_mut().expect("a message was just added");
    let response = before.last().map(|message| &**message).filter(|message| message.role == Role::Assistant);
    if last.role == Role::User && !has_sorted_results(response, last) {
        sort_results(response, Arc::make_mut(last));
        if last.content.is_empty() {
            history.pop();
        }
    }
}

pub(crate) fn is_result(block: &Block) -> bool {
    matches!(block, Block::Result { .. })
}

/// Whether the results come first, one for each call, in the order of the calls. Such a message is not
/// copied.
fn has_sorted_results(response: Option<&Message>, message: &Message) -> bool {
    let count = message.content.iter().take_while(|block| is_result(block)).count();
    let ids = response.into_iter().flat_map(Message::calls).map(|(id, _)| id);
    let positions = message.results().enumerate().map(|(position, (id, _))| (id, position));
    message.results().count() == count && pair_results(ids, positions).into_iter().flatten().eq(0..count)
}

/// Moves the results to the front, one for each call of the response, in the order of the calls. Removes all
/// others.
fn sort_results(response: Option<&Message>, message: &mut Message) {
    let mut results = Vec::new();
    let mut others = Vec::new();
    for block in std::mem::take(&mut message.content) {
        match block {
            Block::Result { id, result } => results.push((id, result)),
            other => others.push(other),
        }
    }
    let ids = || response.into_iter().flat_map(Message::calls).map(|(id, _)| id);
    for (id, result) in ids().zip(pair_results(ids(), results)) {
        message.content.extend(result.map(|result| Block::Result { id: id.to_owned(), result }));
    }
    message.content.extend(others);
}

/// Adds a result to each call of the last response that has none.
fn complete_calls(history: &mut Vec<Arc<Message>>) {
    let results: Vec<Block> = last_step(history)
        .filter(|(_, _, result)| result.is_none())
        .map(|(id, call, _)| Block::Result { id: id.to_owned(), result: outcome_unknown_result(&call.name) })
        .collect();
    if !results.is_empty() {
        push(history, Message::new(Role::User, results).into());
    }
}

/// Returns the calls of the last response with their results.
fn last_step(history: &[Arc<Message>]) -> impl Iterator<Item = (&str, &ToolCall, Option<&ToolResult>)> {
    let response = history.iter().rposition(|message| message.role == Role::Assistant);
    let calls = move || response.into_iter().flat_map(|response| history[response].calls());
    let results = response.and_then(|response| history.get(response + 1));
    let results =
        pair_results(calls().map(|(id, _)| id), results.into_iter().flat_map(|message| message.results()));
    calls().zip(results).map(|((id, call), result)| (id, call, result))
}

/// If a call of the last response has no result, returns all calls of that response with their results, which
/// are removed from the history.
pub(super) fn take_open_calls(
    history: &mut Vec<Arc<Message>>,
) -> Vec<(String, ToolCall, Option<ToolResult>)> {
    if last_step(history).all(|(_, _, result)| result.is_some()) {
        return Vec::new();
    }
    let calls =
        last_step(history).map(|(id, call, result)| (id.to_owned(), call.clone(), result.cloned())).collect();
    history.pop_if(|last| last.role == Role::User);
    calls
}

/// Returns the tools of the last step whose results say that the outcome of the call is unknown.
pub(super) fn interrupted_calls(history: &[Arc<Message>]) -> impl Iterator<Item = &str> {
    let is_interrupted = |result: Option<&ToolResult>| result.is_some_and(is_outcome_unknown);
    last_step(history).filter(move |step| is_interrupted(step.2)).map(|(_, call, _)| call.name.as_str())
}

/// Makes the ids of the calls in a message unique. Some models use an id twice or none at all.
pub(super) fn make_call_ids_unique(message: &mut Message) {
    let mut used: Vec<String> = Vec::new();
    for block in &mut message.content {
        let Block::Call { id, .. } = block else { continue };
        let base = if id.is_empty() { "call" } else { id.as_str() };
        let mut unique = id.clone();
        let mut number = 1;
        while unique.is_empty() || used.contains(&unique) {
            number += 1;
            unique = format!("{base}-{number}");
        }
        used.push(unique.clone());
        *id = unique;
    }
}

/// Whether a response has no calls and no content except reasoning and white space.
pub(super) fn is_empty_response(message: &Message) -> bool {
    message.content.iter().all(|block| match block {
        Block::Content(Content::Text { text, .. }) => text.trim().is_empty(),
        Block::Content(Content::Other(value)) => {
            value.get("type").and_then(|kind| kind.as_str()) == Some("thinking")
        }
        Block::Result { .. } => true,
        Block::Content(_) | Block::Call { .. } => false,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn results_and_summaries_are_not_user_input() {
        let result = Block::Result { id: "1".into(), result: ToolResult::text("x") };
        assert!(!is_user_input(&Message::new(Role::User, vec![result])));
        assert!(is_user_input(&Message::user("x")));
        assert!(!is_user_input(&Message::assistant("x")));
        assert!(!is_user_input(&summary_message(&Summary { text: "x".into(), messages: 1 })));
    }

    /// Reads messages in a short form: `[role, block, …]`. A block is a text or an object that maps `call`,
    /// `result` or `unknown` (a result that says that the outcome is unknown) to an id.
    fn messages(short: Value) -> Vec<Message> {
        let block = |block: &Value| {
            if let Some(text) = block.as_str() {
                return Block::Content(Content::text(text));
            }
            let (kind, id) =
                block.as_object().and_then(|block| block.iter().next()).expect("a kind and an id");
            let id = id.as_str().expect("a text").to_owned();
            match kind.as_str() {
                "call" => Block::Call { id, call: ToolCall::new("f", serde_json::Map::new()) },
                "result" => Block::Result { id, result: ToolResult::text("done") },
                "unknown" => Block::Result { id, result: outcome_unknown_result("f") },
                _ => panic!("not a block: {block}"),
            }
        };
        let message = |short: &Value| {
            let (role, blocks) =
                short.as_array().and_then(|short| short.split_first()).expect("a role and blocks");
            let role = if role == "user" { Role::User } else { Role::Assistant };
            Message::new(role, blocks.iter().map(block).collect())
        };
        short.as_array().expect("an array of messages").iter().map(message).collect()
    }

    #[track_caller]
    fn check(stored: Value, expected: Value) {
        assert_eq!(normalize(messages(stored)), messages(expected));
    }

    #[test]
    fn normalized_messages_stay_unchanged() {
        let history = json!([
            ["user", "a"],
            ["assistant", "b", {"call": "1"}, {"call": "2"}],
            ["user", {"result": "1"}, {"result": "2"}],
            ["assistant", "c"]
        ]);
        check(history.clone(), history.clone());
        let shared: Vec<Arc<Message>> = messages(history).into_iter().map(Arc::new).collect();
        let is_same = |pair: (&Arc<Message>, &Arc<Message>)| Arc::ptr_eq(pair.0, pair.1);
        assert!(normalize(shared.clone()).iter().zip(&shared).all(is_same), "no message is copied");
    }

    #[test]
    fn results_that_arrived_one_by_one_are_merged_in_the_order_of_the_calls() {
        check(
            json!([
                ["user", "a"], ["assistant", {"call": "1"}, {"call": "2"}], ["user", {"result": "2"}],
                ["user", {"result": "1"}], ["user", "and?"]
            ]),
            json!([
                ["user", "a"],
                ["assistant", {"call": "1"}, {"call": "2"}],
                ["user", {"result": "1"}, {"result": "2"}, "and?"]
            ]),
        );
    }

    #[test]
    fn a_call_without_a_result_gets_one() {
        check(
            json!([
                ["user", "a"], ["assistant", {"call": "1"}, {"call": "2"}], ["user", {"result": "2"}],
                ["user", "b"], ["assistant", {"call": "3"}], ["assistant", {"call": "4"}]
            ]),
            json!([
                ["user", "a"],
                ["assistant", {"call": "1"}, {"call": "2"}],
                ["user", {"unknown": "1"}, {"result": "2"}, "b"],
                ["assistant", {"call": "3"}],
                ["user", {"unknown": "3"}],
                ["assistant", {"call": "4"}],
                ["user", {"unknown": "4"}]
            ]),
        );
    }

    #[test]
    fn a_result_without_a_call_and_a_second_result_are_removed() {
        check(
            json!([
                ["user", {"result": "0"}, "a"], ["assistant", {"call": "1"}],
                ["user", {"result": "1"}, {"result": "1"}, {"result": "2"}]
            ]),
            json!([["user", "a"], ["assistant", {"call": "1"}], ["user", {"result": "1"}]]),
        );
    }

    #[test]
    fn a_step_ends_with_a_message_that_has_results_and_text() {
        let stored = json!([["assistant", {"call": "1"}, {"call": "2"}], ["user", {"result": "1"}, "stop"]]);
        let expected = json!([
            ["assistant", {"call": "1"}, {"call": "2"}],
            ["user", {"result": "1"}, {"unknown": "2"}, "stop"]
        ]);
        assert_eq!(assemble(messages(stored)), messages(expected));
    }
}
