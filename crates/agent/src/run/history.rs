//! Messages in the order that models take: users and assistants in turns, each call with its result in the next message.
//!
//! What is kept is what happened, message by message: results as they came, and whatever was said after an interruption.
//! [`mend`] makes one of the other, always in the same way.

use std::sync::Arc;

use toolwire_contract::{Block, Content, Message, Role, ToolCall, ToolResult};

use super::calls::outcome_unknown_result;

/// Kept messages as models take them.
///
/// Messages of the same role become one; the results of a step stand in the order of its calls; a call that has no result
/// gets one that says so; a result without a call is left out. Messages that are in order already stay as they are.
pub fn mend(messages: impl IntoIterator<Item = impl Into<Arc<Message>>>) -> Vec<Arc<Message>> {
    let mut mended = assemble(messages);
    let results = missing_results(&mended, mended.len());
    if !results.is_empty() {
        push(&mut mended, Message::new(Role::User, results).into());
    }
    mended
}

/// The same, but for the last step: its calls may still get their results.
pub(super) fn assemble(messages: impl IntoIterator<Item = impl Into<Arc<Message>>>) -> Vec<Arc<Message>> {
    let mut assembled: Vec<Arc<Message>> = Vec::new();
    for message in messages {
        let message = message.into();
        let is_open = assembled.last().is_some_and(|last| last.role == Role::User)
            && message.role == Role::User
            && message.content.iter().all(|block| matches!(block, Block::Result { .. }));
        let follows_call = assembled.last().is_some_and(|last| last.role == Role::Assistant)
            && message.content.iter().any(|block| matches!(block, Block::Result { .. }))
            && message.role == Role::User;
        // Somebody goes on: what has no result by now will never have one.
        if !is_open && !follows_call {
            let results = missing_results(&assembled, assembled.len());
            if !results.is_empty() {
                push(&mut assembled, Message::new(Role::User, results).into());
            }
        }
        push(&mut assembled, message);
    }
    assembled
}

/// Adds a message, in the one way in which messages follow each other.
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
    let (last, before) = history.split_last_mut().expect("it was just added to");
    if last.role == Role::User && last.content.iter().any(|block| matches!(block, Block::Result { .. })) {
        put_results_in_order(before.last().map(|message| &**message), Arc::make_mut(last));
        if last.content.is_empty() {
            history.pop();
        }
    }
}

/// Results come first, one for each call, in the order of the calls; those without a call go.
fn put_results_in_order(asked: Option<&Message>, answer: &mut Message) {
    let (mut results, others): (Vec<Block>, Vec<Block>) = std::mem::take(&mut answer.content)
        .into_iter()
        .partition(|block| matches!(block, Block::Result { .. }));
    let asked = asked.filter(|message| message.role == Role::Assistant);
    for (id, _) in asked.into_iter().flat_map(Message::calls) {
        let found =
            results.iter().position(|block| matches!(block, Block::Result { id: of, .. } if of == id));
        answer.content.extend(found.map(|found| results.remove(found)));
    }
    answer.content.extend(others);
}

/// Results for the calls of the last step before `end` that have none.
fn missing_results(history: &[Arc<Message>], end: usize) -> Vec<Block> {
    let Some(asked) = history[..end].iter().rposition(|message| message.role == Role::Assistant) else {
        return Vec::new();
    };
    let has_result = |id: &str| {
        history.get(asked + 1).is_some_and(|message| {
            message.content.iter().any(|block| matches!(block, Block::Result { id: of, .. } if of == id))
        })
    };
    history[asked]
        .calls()
        .filter(|(id, _)| !has_result(id))
        .map(|(id, call)| Block::Result { id: id.to_owned(), result: outcome_unknown_result(&call.name) })
        .collect()
}

/// The last step, when a call of it has no result: its calls, and the results that are there, which leave the history.
#[allow(clippy::type_complexity, reason = "a pair of lists of pairs is what it is")]
pub(super) fn take_open_step(
    history: &mut Vec<Arc<Message>>,
) -> Option<(Vec<(String, ToolCall)>, Vec<(String, ToolResult)>)> {
    if missing_results(history, history.len()).is_empty() {
        return None;
    }
    let answer = history.pop_if(|last| last.role == Role::User);
    let results =
        answer.into_iter().flat_map(|message| Arc::unwrap_or_clone(message).content).filter_map(|block| {
            match block {
                Block::Result { id, result } => Some((id, result)),
                _ => None,
            }
        });
    let calls = history.last()?.calls().map(|(id, call)| (id.to_owned(), call.clone())).collect();
    Some((calls, results.collect()))
}

/// The tools called in a message whose results, in the next one, say that the outcome is not known.
pub(super) fn of_unknown_outcome<'a>(
    asked: &'a Message,
    answered: &'a Message,
) -> impl Iterator<Item = &'a str> {
    asked.calls().map(|(id, call)| (id, call.name.as_str())).filter(move |(id, name)| {
        let unknown = outcome_unknown_result(name);
        let is_it = |block: &Block| matches!(block, Block::Result { id: of, result } if of == id && *result == unknown);
        answered.content.iter().any(is_it)
    }).map(|(_, name)| name)
}

/// Models name their calls, some of them two calls the same and some not at all. Within a message each has its own name.
pub(super) fn give_each_call_an_id(message: &mut Message) {
    let mut taken: Vec<String> = Vec::new();
    for block in &mut message.content {
        let Block::Call { id, .. } = block else { continue };
        let wanted = if id.is_empty() { "call" } else { id.as_str() };
        let mut free = id.clone();
        let mut number = 1;
        while free.is_empty() || taken.contains(&free) {
            number += 1;
            free = format!("{wanted}-{number}");
        }
        taken.push(free.clone());
        *id = free;
    }
}

/// Whether there is nothing in a message but thinking and blanks.
pub(super) fn says_nothing(message: &Message) -> bool {
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
    use serde_json::{Value, json};

    use super::*;

    /// Messages in short: `[role, block, …]`, where a block is text, `{"call": id}` or `{"result": id}`.
    fn messages(short: Value) -> Vec<Message> {
        let block = |block: &Value| match (block.as_str(), block["call"].as_str(), block["result"].as_str()) {
            (Some(text), ..) => json!({"type": "text", "text": text}),
            (_, Some(id), _) => json!({"type": "tool_use", "id": id, "name": "f", "input": {}}),
            (.., Some(id)) => json!({"type": "tool_result", "toolUseId": id, "content": []}),
            _ => panic!("no block: {block}"),
        };
        let message = |short: &Value| {
            let (role, blocks) =
                short.as_array().and_then(|short| short.split_first()).expect("a role and blocks");
            let blocks: Vec<Value> = blocks.iter().map(block).collect();
            serde_json::from_value(json!({"role": role, "content": blocks})).expect("it is a message")
        };
        short.as_array().expect("a list of messages").iter().map(message).collect()
    }

    #[track_caller]
    fn check(kept: Value, expected: Value) {
        let mut mended = mend(messages(kept));
        // Results that were made up are told by what they say.
        for block in mended.iter_mut().flat_map(|message| &mut Arc::make_mut(message).content) {
            if let Block::Result { id, result } = block
                && result.is_error()
            {
                *id = format!("{id} unknown");
                *result = ToolResult { content: Some(Vec::new()), ..ToolResult::default() };
            }
        }
        assert_eq!(mended, messages(expected));
    }

    #[test]
    fn what_is_in_order_stays() {
        let history = json!([
            ["user", "a"],
            ["assistant", "b", {"call": "1"}, {"call": "2"}],
            ["user", {"result": "1"}, {"result": "2"}],
            ["assistant", "c"]
        ]);
        check(history.clone(), history);
    }

    #[test]
    fn results_that_came_one_by_one_are_one_message_in_the_order_of_the_calls() {
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
    fn a_call_without_a_result_gets_one_wherever_it_is() {
        check(
            json!([
                ["user", "a"], ["assistant", {"call": "1"}, {"call": "2"}], ["user", {"result": "2"}], ["user", "b"],
                ["assistant", {"call": "3"}], ["assistant", {"call": "4"}]
            ]),
            json!([
                ["user", "a"],
                ["assistant", {"call": "1"}, {"call": "2"}],
                ["user", {"result": "1 unknown"}, {"result": "2"}, "b"],
                ["assistant", {"call": "3"}],
                ["user", {"result": "3 unknown"}],
                ["assistant", {"call": "4"}],
                ["user", {"result": "4 unknown"}]
            ]),
        );
    }

    #[test]
    fn a_result_without_a_call_is_left_out_and_so_is_a_second_one() {
        check(
            json!([
                ["user", {"result": "0"}, "a"], ["assistant", {"call": "1"}],
                ["user", {"result": "1"}, {"result": "1"}, {"result": "2"}]
            ]),
            json!([["user", "a"], ["assistant", {"call": "1"}], ["user", {"result": "1"}]]),
        );
    }
}
