//! Conversations, and their items.

use serde_json::json;

use super::{heard, mark, message, record_effects};
use crate::client::{Client, Dialect, Outcome};
use crate::ledger::{Conversation, Fate, Turn};
use crate::model::{MARK, words};
use crate::random::Random;

pub(super) const COMPLETE: &str = "conversation: complete";

/// Adds responses and items to a conversation. The lock of a gateway that was killed ends later, so another
/// request may find the conversation locked.
pub(super) async fn talk(client: &Client, random: &mut Random) -> &'static str {
    let model = *random.choose(&["chat", "messages", "responses"]);
    let Outcome::Done(created) = client.post(Dialect::Responses, "/v1/conversations", &json!({}), &[]).await
    else {
        return "conversation: not created";
    };
    let id = created.body["id"].as_str().unwrap_or_default().to_owned();
    let mut conversation = Conversation { client: client.clone(), id: id.clone(), turns: Vec::new() };
    let mut end = COMPLETE;
    for _ in 0..3 + random.below(4) {
        let mark = mark(client);
        let is_item = random.below(3) == 0;
        let outcome = match is_item {
            true => {
                let item = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": mark}]});
                let path = format!("/v1/conversations/{id}/items");
                client.post(Dialect::Responses, &path, &json!({"items": [item]}), &[409]).await
            }
            false => {
                let text = message(&mark, random);
                let body =
                    json!({"model": model, "input": text, "conversation": id, "stream": random.coin()});
                client.post(Dialect::Responses, "/v1/responses", &body, &[409]).await
            }
        };
        let mut fate = Fate::of(&outcome);
        if let (Outcome::Done(answer), false) = (&outcome, is_item) {
            // A response that is not in the conversation says so.
            if answer.body["conversation"].is_null() {
                fate = Fate::Unknown;
            }
            record_effects(client, heard(&answer.text));
            let mut heard: Vec<String> =
                words(heard(&answer.text), &MARK.to_string()).into_iter().map(str::to_owned).collect();
            if heard.pop().as_ref() != Some(&mark) {
                client.world.ledger().violation(format!("`{mark}` was not heard: {}", answer.body));
            } else if let Err(problem) = conversation.check(&heard) {
                client.world.ledger().violation(format!("{id}: {problem}: the model heard {heard:?}"));
            }
        }
        conversation.turns.push(Turn { mark, fate });
        if matches!(outcome, Outcome::Refused(409)) {
            end = "conversation: locked";
            break;
        }
    }
    client.world.ledger().conversations.push(conversation);
    end
}
