//! Requests without stored state.

use serde_json::json;

use super::{check, mark, message};
use crate::client::{Client, Dialect, Outcome};
use crate::random::Random;
use crate::world::BUDGET;

pub(super) const COMPLETE: &str = "two turns without a store: complete";
pub(super) const USED: &str = "budget: used";

/// A conversation of two turns, whose history the client sends.
async fn two_turns(
    client: &Client,
    random: &mut Random,
    dialect: Dialect,
    path: &str,
    model: &str,
) -> &'static str {
    let (mut history, mut marks) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let mark = mark(client);
        history.push(json!({"role": "user", "content": message(&mark, random)}));
        marks.push(mark);
        let body = json!({"model": model, "messages": history, "max_tokens": 200, "stream": random.coin()});
        match client.post(dialect, path, &body, &[]).await {
            Outcome::Done(answer) => {
                check(client, &answer, &marks, path);
                history.push(json!({"role": "assistant", "content": answer.text}));
            }
            _ => return "two turns without a store: interrupted",
        }
    }
    COMPLETE
}

pub(super) async fn chat(client: &Client, random: &mut Random) -> &'static str {
    let model = *random.choose(&["chat", "messages"]);
    two_turns(client, random, Dialect::Chat, "/v1/chat/completions", model).await
}

pub(super) async fn messages(client: &Client, random: &mut Random) -> &'static str {
    let model = *random.choose(&["chat", "messages"]);
    two_turns(client, random, Dialect::Messages, "/v1/messages", model).await
}

/// One request with a key that has a budget.
pub(super) async fn with_budget(client: &Client, random: &mut Random) -> &'static str {
    let mark = mark(client);
    let messages = json!([{"role": "user", "content": mark}]);
    let body = json!({"model": "chat", "messages": messages, "max_tokens": 20, "stream": random.coin()});
    match client.post(Dialect::Chat, "/v1/chat/completions", &body, &[429]).await {
        Outcome::Done(answer) => {
            check(client, &answer, &[mark], "a request with a budget");
            let mut ledger = client.world.ledger();
            // Each request to the model uses 12 tokens, and its response 5.
            ledger.tokens += 17;
            if ledger.tokens > BUDGET {
                let tokens = ledger.tokens;
                ledger.violation(format!("a key with a budget of {BUDGET} tokens has used {tokens}"));
            }
            USED
        }
        Outcome::Refused(429) => "budget: used up",
        _ => "budget: interrupted",
    }
}
