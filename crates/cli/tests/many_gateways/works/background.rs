//! Responses in the background, whose clients leave and return.

use serde_json::{Value, json};

use super::{mark, message};
use crate::client::{Client, Dialect, Outcome};
use crate::ledger::BackgroundResponse;
use crate::model::heard;
use crate::random::Random;

const PATH: &str = "/v1/responses";

pub(super) const COMPLETE: &str = "background: all events";
pub(super) const RESUMED: &str = "background: all events, from several requests";

/// Starts a response in the background, reads its events in several requests, and perhaps cancels it. The
/// test waits in the end until each of them is complete.
pub(super) async fn leave_and_return(client: &Client, random: &mut Random) -> &'static str {
    let model = *random.choose(&["chat", "messages"]);
    let mark = mark(client);
    let text = message(&mark, random);
    let is_stream = random.coin();
    let body = json!({"model": model, "input": text, "background": true, "stream": is_stream});
    let (answer, is_whole) = match client.post(Dialect::Responses, PATH, &body, &[]).await {
        Outcome::Done(answer) => (answer, true),
        Outcome::Lost(answer) => (answer, false),
        Outcome::Refused(_) => return "background: not started",
    };
    // The first event of a stream has the response.
    let first = answer.events.first().map_or(&answer.body, |event| &event["response"]);
    let Some(id) = first["id"].as_str().map(str::to_owned) else {
        return "background: not started";
    };
    let response = BackgroundResponse {
        client: client.clone(),
        id: id.clone(),
        expected: heard(&[mark]),
        is_cancelled: false,
    };
    client.world.ledger().backgrounds.push(response);
    let mut events = answer.events;
    if !is_stream && random.below(5) == 0 {
        let outcome = client.post(Dialect::Responses, &format!("{PATH}/{id}/cancel"), &json!({}), &[]).await;
        let Outcome::Done(cancelled) = outcome else { return "background: perhaps cancelled" };
        if cancelled.body["status"] == "cancelled" {
            let mut ledger = client.world.ledger();
            if let Some(response) = ledger.backgrounds.iter_mut().find(|response| response.id == id) {
                response.is_cancelled = true;
            }
            return "background: cancelled";
        }
    }
    if is_stream && is_whole {
        return end_of(client, random, &id, &events, COMPLETE).await;
    }
    for _ in 0..4 {
        let mut path = format!("{PATH}/{id}?stream=true");
        if let Some(last) = events.last() {
            path.push_str(&format!("&starting_after={}", last["sequence_number"]));
        }
        match client.get(Dialect::Responses, &path, &[]).await {
            Outcome::Done(answer) => {
                let name = if events.is_empty() { COMPLETE } else { RESUMED };
                events.extend(answer.events);
                return end_of(client, random, &id, &events, name).await;
            }
            Outcome::Lost(answer) => events.extend(answer.events),
            Outcome::Refused(_) => {}
        }
    }
    "background: events given up"
}

/// Checks that each event was received once, and that the last ones can be read again.
async fn end_of(
    client: &Client,
    random: &mut Random,
    id: &str,
    events: &[Value],
    name: &'static str,
) -> &'static str {
    let numbers: Vec<Option<u64>> = events.iter().map(|event| event["sequence_number"].as_u64()).collect();
    let expected: Vec<Option<u64>> = (0..numbers.len() as u64).map(Some).collect();
    if numbers != expected {
        client.world.ledger().violation(format!("the events of {id} have the numbers {numbers:?}"));
        return name;
    }
    // At least the last event remains to be read.
    let after = random.below(events.len().max(2) - 1);
    let path = format!("{PATH}/{id}?stream=true&starting_after={after}");
    if let Outcome::Done(again) = client.get(Dialect::Responses, &path, &[]).await
        && again.events != events[after + 1..]
    {
        let problem = format!("the events of {id} after {after} were {events:?}, and are {:?}", again.events);
        client.world.ledger().violation(problem);
    }
    name
}
