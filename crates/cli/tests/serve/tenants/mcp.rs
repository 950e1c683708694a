//! `/mcp`: sessions, tasks, questions, cancellations and results of others.

use std::time::Duration;

use futures::future::join_all;
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use toolwire_testkit::http_client;

use super::world::{Seen, Tenant, World, exchange, unknown};
use crate::mcp_client::{Events, McpClient, read};
use crate::user_servers::HEADER;

fn with_account(request: RequestBuilder, tenant: &Tenant) -> RequestBuilder {
    request.header(HEADER, format!("Bearer token-of-{}", tenant.account))
}

/// A client with a session that does not belong to it.
fn with_session(client: &McpClient, session: &str, tenant: &Tenant) -> McpClient {
    let mut other = client.with_key(Some(&tenant.key));
    other.session = Some(session.to_owned());
    other
}

/// Removes the ids from the JSON of a response.
fn about(value: &Value, id: &str) -> String {
    value.to_string().replace(id, "ID")
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_tasks_and_results_of_others_do_not_exist() {
    let world = World::start("tenants-mcp").await;
    let mut owned = Vec::new();
    for tenant in &world.tenants {
        owned.push(world.populate(tenant).await);
    }
    for (one, other) in world.attacks() {
        let (attacker, victim) = (&world.tenants[one], &world.tenants[other]);
        let victims = &owned[other];
        let session = victims.session.session.clone().unwrap();
        let list = victims.session.message("tools/list", json!({}));
        let end = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
        for (method, event) in
            [("POST", None), ("GET", None), ("GET", Some("0")), ("GET", Some("0/0")), ("DELETE", None)]
        {
            for message in [&list, &end] {
                let attempt = async |session: &str| {
                    let client = with_session(&victims.session, session, attacker);
                    let request =
                        http_client().request(method.parse().unwrap(), format!("{}/mcp", world.served.url));
                    let request = match event {
                        Some(event) => request.header("last-event-id", event),
                        None => request,
                    };
                    let request = if method == "POST" { request.json(message) } else { request };
                    Seen::of(client.prepared(request)).await
                };
                let (found, missing) = (attempt(&session).await, attempt(&unknown(&session)).await);
                // The end of an unknown session is not an error.
                let expected = if method == "DELETE" { 202 } else { 404 };
                assert_eq!((found.status, &found), (expected, &missing), "{method}");
            }
        }

        let modern = world.mcp(attacker, "2026-07-28").await;
        let replies = json!({"confirm": {"action": "accept", "content": {"confirm": true}}});
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let attempt = async |id: &str| {
                let params = json!({"taskId": id, "inputResponses": replies});
                about(&modern.request(method, params).await["error"], id)
            };
            let missing = attempt(&unknown(&victims.task)).await;
            assert!(missing.contains("-32602"), "{missing}");
            assert_eq!(attempt(&victims.task).await, missing, "{method}");
        }

        let missing = unknown(&victims.result);
        let attempt = async |id: &str| about(&modern.call("read_result", json!({"id": id})).await, id);
        let found = attempt(&victims.result).await;
        assert!(!found.contains(&victim.secret), "{found}");
        assert_eq!(found, attempt(&missing).await);
    }
    for (tenant, owned) in world.tenants.iter().zip(&owned) {
        world.verify(tenant, owned).await;
    }
}

/// Calls at the same time with the same ids and progress tokens each get their own result.
#[tokio::test(flavor = "multi_thread")]
async fn calls_with_the_same_ids_are_different_calls() {
    let world = World::start("tenants-calls").await;
    let mut clients = Vec::new();
    for tenant in &world.tenants {
        for revision in ["2025-11-25", "2026-07-28"] {
            clients.push((tenant, world.mcp(tenant, revision).await));
        }
    }
    for number in 0..20 {
        let calls = clients.iter().map(|(tenant, client)| async move {
            let meta = json!({"progressToken": "the-same-token"});
            let call = json!({"name": "whoami", "arguments": {"nonce": number.to_string()}, "_meta": meta});
            let result = exchange(client, tenant, "tools/call", call).await;
            let text = &result["result"]["content"][0]["text"];
            assert_eq!(*text, json!(format!("{} {number}", tenant.account)), "{result}");
        });
        join_all(calls).await;
    }
    assert_eq!(world.notes.record().violations, Vec::<String>::new());
}

/// A question is answered, and its call cancelled, only by the tenant that has made the call.
#[tokio::test(flavor = "multi_thread")]
async fn questions_and_calls_of_others_cannot_be_answered_or_cancelled() {
    let world = World::start("tenants-questions").await;
    for (one, other) in world.attacks() {
        let (attacker, victim) = (&world.tenants[one], &world.tenants[other]);
        let reply = |text: &str| json!({"action": "accept", "content": {"name": text}});

        // In a session, the question is a request with an id.
        let session = world.mcp(victim, "2025-11-25").await;
        let attackers = world.mcp(attacker, "2025-11-25").await;
        let message = session.message("tools/call", json!({"name": "ask", "arguments": {}}));
        let call_id = message["id"].clone();
        let mut listening = session.listen().await;
        let call = with_account(session.post(&message), victim).send().await.unwrap();
        let mut events = Events::new(call);
        let asked = loop {
            let message = tokio::select! {
                message = events.next() => message.unwrap(),
                message = listening.next() => message.unwrap(),
            };
            if message["method"] == "elicitation/create" {
                break message;
            }
        };
        let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": reply("stolen")});
        let cancel =
            |method: &str, params: Value| json!({"jsonrpc": "2.0", "method": method, "params": params});
        for attack in [
            answer,
            cancel("notifications/cancelled", json!({"requestId": message["id"]})),
            cancel("notifications/progress", json!({"progressToken": message["id"], "progress": 1})),
        ] {
            let own = read(with_account(attackers.post(&attack), attacker)).await;
            assert!(own.status < 500, "{own:?}");
            let stolen = with_session(&session, session.session.as_deref().unwrap(), attacker);
            assert_eq!(read(with_account(stolen.post(&attack), attacker)).await.status, 404);
        }
        // The attacker's messages have been handled.
        assert!(attackers.request("ping", json!({})).await.get("result").is_some());
        let response = json!({"jsonrpc": "2.0", "id": asked["id"], "result": reply("own")});
        assert_eq!(read(with_account(session.post(&response), victim)).await.status, 202);
        let result = tokio::time::timeout(Duration::from_secs(60), async {
            loop {
                let message = tokio::select! {
                    message = events.next() => message.unwrap(),
                    message = listening.next() => message.unwrap(),
                };
                if message["id"] == call_id && message.get("method").is_none() {
                    return message;
                }
            }
        });
        let result = result.await.expect("the call was not cancelled");
        let expected = format!("{}: own", victim.account);
        assert_eq!(result["result"]["content"][0]["text"], expected, "{result}");

        // Without a session, the state of the question belongs to the tenant.
        let modern = world.mcp(victim, "2026-07-28").await;
        let attackers = world.mcp(attacker, "2026-07-28").await;
        let call = json!({"name": "ask", "arguments": {}});
        let waiting = exchange(&modern, victim, "tools/call", call.clone()).await["result"].clone();
        assert_eq!(waiting["resultType"], "input_required", "{waiting}");
        let key = waiting["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        let answer = |state: &str, text: &str| {
            let mut params = call.clone();
            params["requestState"] = json!(state);
            params["inputResponses"] = json!({&key: reply(text)});
            params
        };
        let state = waiting["requestState"].as_str().unwrap();
        let stolen = exchange(&attackers, attacker, "tools/call", answer(state, "stolen")).await;
        let invented = exchange(&attackers, attacker, "tools/call", answer(&unknown(state), "stolen")).await;
        assert!(stolen.get("error").is_some(), "{stolen}");
        assert_eq!(stolen["error"], invented["error"]);
        let result = exchange(&modern, victim, "tools/call", answer(state, "own")).await;
        assert_eq!(result["result"]["content"][0]["text"], expected, "{result}");
    }
    assert_eq!(world.notes.record().violations, Vec::<String>::new());
}
