//! The kinds of work that clients do.

mod background;
mod conversations;
mod mcp;
mod plain;
mod responses;

use std::sync::Arc;
use std::time::Duration;

use crate::client::{Answer, Client};
use crate::ledger::Ledger;
use crate::model::{APPENDED, MARK, words};
use crate::random::Random;
use crate::world::World;

/// The results of work that must occur at least once.
const REQUIRED: [&str; 8] = [
    plain::COMPLETE,
    plain::USED,
    responses::COMPLETE,
    responses::CONTINUED,
    conversations::COMPLETE,
    background::COMPLETE,
    mcp::COMPLETE,
    mcp::WITH_SESSION_COMPLETE,
];

/// Returns the required results that have not occurred yet.
pub(crate) fn missing(ledger: &Ledger) -> Vec<&'static str> {
    REQUIRED.into_iter().filter(|name| !ledger.works.contains_key(*name)).collect()
}

/// Sends requests until enough are sent. It is one of several clients that work at the same time.
pub(crate) async fn work(world: Arc<World>, seed: u64) {
    let mut random = Random::new(seed);
    let key = random.choose(&world.keys).clone();
    let client = Client { world: world.clone(), key, is_counted: true };
    let limited = Client { key: world.limited_key.clone(), ..client.clone() };
    while !world.is_done() {
        let name = match random.below(9) {
            0 => plain::chat(&client, &mut random).await,
            1 => plain::messages(&client, &mut random).await,
            2 | 3 => responses::chain(&client, &mut random).await,
            4 => responses::approval(&client, &mut random).await,
            5 => conversations::talk(&client, &mut random).await,
            6 => background::leave_and_return(&client, &mut random).await,
            7 => mcp::call(&client, &mut random).await,
            _ => plain::with_budget(&limited, &mut random).await,
        };
        world.ledger().worked(name);
        tokio::time::sleep(Duration::from_millis(random.below(300) as u64)).await;
    }
}

/// A new mark for a message.
fn mark(client: &Client) -> String {
    format!("{MARK}{}", client.world.number())
}

/// Returns a message with a mark, and perhaps calls of tools.
fn message(mark: &str, random: &mut Random) -> String {
    let id = &mark[1..];
    let calls = match random.below(4) {
        0 => format!(" do append:e{id}"),
        1 => format!(" do pause append:e{id}.1 pause append:e{id}.2"),
        _ => String::new(),
    };
    format!("{mark}{calls}")
}

/// Returns the last response of the model in a text that may begin with its responses before calls.
fn heard(text: &str) -> &str {
    &text[text.rfind("heard ").unwrap_or_default()..]
}

/// Checks that the model has heard exactly these marks, and records the results that the client has.
fn check(client: &Client, answer: &Answer, marks: &[String], name: &str) {
    let heard = heard(&answer.text);
    let found = words(heard, &MARK.to_string());
    if found != marks {
        let problem =
            format!("{name}: the model should have heard {marks:?}: `{}`, {}", answer.text, answer.body);
        client.world.ledger().violation(problem);
    }
    record_effects(client, heard);
}

/// Records the results of calls that the client has.
fn record_effects(client: &Client, text: &str) {
    let effects = words(text, APPENDED).into_iter().map(|word| word[APPENDED.len()..].to_owned());
    client.world.ledger().effects.extend(effects);
}
