//! Stored responses that continue each other.

use serde_json::{Value, json};

use super::{check, heard, mark, message, record_effects};
use crate::client::{Answer, Client, Dialect, Outcome};
use crate::ledger::StoredResponse;
use crate::model::{APPENDED, words};
use crate::random::Random;

pub(super) const PATH: &str = "/v1/responses";

pub(super) const COMPLETE: &str = "responses: complete";
pub(super) const CONTINUED: &str = "approval: call made by another gateway";

/// The number of times that a client sends a request again.
const TRIES: usize = 4;

/// Records a response that the client can read again.
fn stored(client: &Client, answer: &Answer) {
    if answer.body["store"] == true {
        let body = answer.body.clone();
        client.world.ledger().responses.push(StoredResponse {
            client: client.clone(),
            body,
            is_removed: false,
        });
    }
}

/// A conversation in which each response continues the one before it. A request that fails is sent again: it
/// continues the same response, which has not changed.
pub(super) async fn chain(client: &Client, random: &mut Random) -> &'static str {
    let model = *random.choose(&["chat", "messages", "responses"]);
    // Without tools of servers, a request to the model `responses` is forwarded.
    let is_forwarded = random.coin();
    let (mut previous, mut marks) = (Value::Null, Vec::new());
    let mut last: Option<Value> = None;
    for _ in 0..2 + random.below(3) {
        let mark = mark(client);
        let text = if is_forwarded { mark.clone() } else { message(&mark, random) };
        let mut marks_of_turn: Vec<String> = marks.clone();
        marks_of_turn.push(mark);
        let mut is_done = false;
        for _ in 0..TRIES {
            let mut body = json!({"model": model, "input": text, "stream": random.coin()});
            if !previous.is_null() {
                body["previous_response_id"] = previous.clone();
            }
            if is_forwarded {
                body["metadata"] = json!({"toolwire": {"servers": ["none"]}});
            }
            if let Outcome::Done(answer) = client.post(Dialect::Responses, PATH, &body, &[]).await {
                check(client, &answer, &marks_of_turn, "a response that continues another one");
                // A response that is not stored says so. Nothing can continue it, and to send its request
                // again would repeat its calls.
                if answer.body["store"] != true {
                    if text.contains(" do ") {
                        return "responses: not stored";
                    }
                    continue;
                }
                stored(client, &answer);
                previous = answer.body["id"].clone();
                last = Some(answer.body);
                is_done = true;
                break;
            }
            // The effects of a request that failed may have happened.
            if text.contains(" do ") {
                return "responses: interrupted during calls";
            }
        }
        if !is_done {
            return "responses: given up";
        }
        marks = marks_of_turn;
    }
    if let (Some(last), 0) = (&last, random.below(5)) {
        return remove(client, last).await;
    }
    COMPLETE
}

/// Removes a response. The test checks in the end that it no longer exists.
async fn remove(client: &Client, response: &Value) -> &'static str {
    let path = format!("{PATH}/{}", response["id"].as_str().unwrap_or_default());
    // If an earlier request was lost, the response may already be removed.
    for expected in [&[][..], &[404]] {
        let outcome = client.delete(Dialect::Responses, &path, expected).await;
        let is_unknown = matches!(outcome, Outcome::Refused(500..) | Outcome::Lost(_));
        let mut ledger = client.world.ledger();
        let is_same = |stored: &StoredResponse| stored.body["id"] == response["id"];
        if let Some(position) = ledger.responses.iter().position(is_same) {
            match is_unknown {
                // It is unknown whether it was removed, so it cannot be checked in the end.
                true => drop(ledger.responses.swap_remove(position)),
                false => ledger.responses[position].is_removed = true,
            }
        }
        drop(ledger);
        if !is_unknown {
            return "responses: removed";
        }
    }
    "responses: perhaps removed"
}

/// Starts a run that waits for approval, and may continue at another gateway.
pub(super) async fn approval(client: &Client, random: &mut Random) -> &'static str {
    let mark = mark(client);
    let id = format!("e{}", &mark[1..]);
    let tools = json!([{
        "type": "mcp", "server_label": "effects", "require_approval": "always",
    }]);
    let model = *random.choose(&["chat", "messages", "responses"]);
    let body = |input: Value, stream: bool| json!({"model": model, "input": input, "tools": tools, "stream": stream});
    let first = body(json!(format!("{mark} do append:{id}")), random.coin());
    let Outcome::Done(asked) = client.post(Dialect::Responses, PATH, &first, &[]).await else {
        return "approval: no question";
    };
    if asked.body["store"] != true {
        return "approval: not stored";
    }
    let items = asked.body["output"].as_array().cloned().unwrap_or_default();
    let Some(request) = items.iter().find(|item| item["type"] == "mcp_approval_request") else {
        client.world.ledger().violation(format!("no request for approval: {}", asked.body));
        return "approval: no question";
    };
    stored(client, &asked);
    let decision =
        json!([{"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": true}]);
    let mut is_first = true;
    for _ in 0..TRIES {
        let mut body = body(decision.clone(), random.coin());
        body["previous_response_id"] = asked.body["id"].clone();
        // After a failure, it may be unknown which calls have run. Then the approval is refused.
        let expected: &[u16] = if is_first { &[] } else { &[400, 409] };
        match client.post(Dialect::Responses, PATH, &body, expected).await {
            Outcome::Done(answer) => {
                let text = heard(&answer.text);
                record_effects(client, text);
                let effects = words(text, APPENDED);
                if is_first && effects != [format!("{APPENDED}{id}")] {
                    client
                        .world
                        .ledger()
                        .violation(format!("the approved call has no result: {}", answer.body));
                }
                stored(client, &answer);
                return match (effects.is_empty(), answer.gateway == asked.gateway) {
                    (true, _) => "approval: outcome unknown",
                    (false, true) => "approval: call made by the same gateway",
                    (false, false) => CONTINUED,
                };
            }
            Outcome::Refused(400..=499) => return "approval: refused after a failure",
            _ => is_first = false,
        }
    }
    "approval: given up"
}
