//! Requests that continue a response.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use toolwire_contract::Role;

use super::*;

/// The tools of the client.
fn own_tools() -> Value {
    let tool = |name: &str| json!({"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}});
    json!([tool("get_weather"), tool("get_time")])
}

fn output(call: &Value, text: &str) -> Value {
    json!({"type": "function_call_output", "call_id": call["call_id"], "output": text})
}

/// A response of another gateway with the same store continues as one of the same gateway.
#[tokio::test]
async fn a_conversation_continues_on_any_gateway() {
    let store = memory();
    let gateways = [TestGateway::with(settings(&store)).await, TestGateway::with(settings(&store)).await];
    for stream in [false, true] {
        let fields = |previous: &str| json!({"stream": stream, "previous_response_id": previous});
        let first =
            create(&gateways[0], json!("say one"), json!({"stream": stream, "instructions": "Be brief."}))
                .await;
        let second = create(&gateways[1], json!("say two"), fields(id(&first))).await;
        assert_eq!((text(&second), &second["previous_response_id"]), ("two", &first["id"]));
        let requests = gateways[1].model.requests();
        let last = requests.last().unwrap();
        let texts: Vec<String> = last.messages.iter().map(|message| message.texts().collect()).collect();
        assert_eq!(texts, ["say one", "one", "say two"]);
        assert_eq!(last.instructions, None, "instructions are those of the request");
        let third = create(&gateways[0], json!("say three"), fields(id(&second))).await;
        assert_eq!(text(&third), "three");
        assert!(last_messages(&gateways[0]).contains("say two"));
        // A stream repeats the id from its start.
        assert_eq!(get(&gateways[0], &path_of(&second)).await.1["previous_response_id"], first["id"]);
    }
}

#[tokio::test]
async fn conversations_branch_and_never_change() {
    let gateway = gateway().await;
    let first = create(&gateway, json!("say one"), json!({})).await;
    let before = get(&gateway, &path_of(&first)).await;
    for branch in ["say left", "say right"] {
        let second = continued(&gateway, &first, json!(branch)).await;
        continued(&gateway, &second, json!("say end")).await;
        let messages = last_messages(&gateway);
        assert_eq!(
            (messages.contains("say left"), messages.contains("say right")),
            (branch == "say left", branch == "say right"),
            "{messages}"
        );
    }
    assert_eq!(get(&gateway, &path_of(&first)).await, before);
}

/// The client does not see the calls of configured servers, and the model does, also in later turns.
#[tokio::test]
async fn the_model_sees_hidden_calls_again() {
    let store = memory();
    let gateway = TestGateway::with(settings(&store)).await;
    for stream in [false, true] {
        let first = create(&gateway, json!("rounds"), json!({"stream": stream})).await;
        assert_eq!(types(&first["output"]), ["message"; 3]);
        let second = continued(&gateway, &first, json!("say and")).await;
        let other = TestGateway::with(settings(&store)).await;
        let third = continued(&other, &second, json!("say again")).await;
        assert_eq!(text(&third), "again");
        let requests = other.model.requests();
        let messages = &requests.last().unwrap().messages;
        assert_eq!(messages.iter().flat_map(|message| message.results()).count(), 2, "{messages:?}");
        assert_eq!(messages.iter().flat_map(|message| message.calls()).count(), 2);
        let questions = messages.iter().filter(|message| message.role == Role::User);
        let questions: Vec<String> = questions.map(|message| message.texts().collect()).collect();
        assert_eq!(questions.concat(), "roundssay andsay again");
    }
}

/// The client returns the results of its calls, and nothing else.
#[tokio::test]
async fn the_results_of_the_clients_tools_continue_on_any_gateway() {
    for scenario in ["client", "pause", "late", "mixed"] {
        for stream in [false, true] {
            let store = memory();
            let gateway = TestGateway::with(settings(&store)).await;
            let fields = json!({"tools": own_tools(), "stream": stream});
            let first = create(&gateway, json!(scenario), fields).await;
            let call = first["output"]
                .as_array()
                .unwrap()
                .iter()
                .find(|item| item["type"] == "function_call")
                .unwrap();
            let calls = gateway.running.calls.load(Ordering::SeqCst);
            drop(gateway);
            let other = TestGateway::with(settings(&store)).await;
            let fields = json!({"previous_response_id": id(&first), "tools": own_tools(), "stream": stream});
            let second = create(&other, json!([output(call, "sunny")]), fields).await;
            assert!(text(&second).contains("sunny"), "{scenario}: {second}");
            assert!(text(&second).contains("value of") == (calls > 0), "{scenario}: {second}");
            assert_eq!(other.running.calls.load(Ordering::SeqCst), 0, "no call runs again");
            let requests = other.model.requests();
            let messages = &requests.last().unwrap().messages;
            let ids = |results: bool| {
                let mut ids: Vec<&str> = match results {
                    true => messages.iter().flat_map(|message| message.results()).map(|(id, _)| id).collect(),
                    false => messages.iter().flat_map(|message| message.calls()).map(|(id, _)| id).collect(),
                };
                ids.sort_unstable();
                ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>()
            };
            assert_eq!(ids(true), ids(false), "{scenario}");
            assert!(ids(true).iter().all(|id| id.len() == 1), "{scenario}: the ids are those of the model");
            let third = continued(&other, &second, json!("say bye")).await;
            assert_eq!(text(&third), "bye");
            assert!(last_messages(&other).contains("sunny"), "{scenario}");
        }
    }
}

/// A user may also write something else: the open calls then have an error as their result.
#[tokio::test]
async fn a_call_without_a_result_does_not_stop_the_conversation() {
    let gateway = gateway().await;
    let first = create(&gateway, json!("clients"), json!({"tools": own_tools()})).await;
    let call = &first["output"][0];
    for input in [json!("say hi"), json!([output(call, "sunny"), {"role": "user", "content": "say hi"}])] {
        let fields = json!({"previous_response_id": id(&first), "tools": own_tools()});
        let second = create(&gateway, input, fields).await;
        assert_eq!(text(&second), "hi");
        let requests = gateway.model.requests();
        let results = requests.last().unwrap().messages.iter().flat_map(|message| message.results()).count();
        assert_eq!(results, 2);
    }
}

#[tokio::test]
async fn instructions_among_the_items_stay() {
    let gateway = gateway().await;
    let input = json!([{"role": "developer", "content": "Be kind."}, {"role": "user", "content": "rounds"}]);
    let first = create(&gateway, input, json!({"instructions": "Be brief."})).await;
    continued(&gateway, &first, json!("say hi")).await;
    let instructions = gateway.model.requests().last().unwrap().instructions.clone();
    assert_eq!(instructions.as_deref(), Some("Be kind."));
}

#[tokio::test]
async fn a_failed_response_cannot_be_continued() {
    let gateway = gateway().await;
    let first = create(&gateway, json!("say one"), json!({})).await;
    let fields = json!({"stream": true, "previous_response_id": id(&first)});
    let failed = create(&gateway, json!("broken"), fields).await;
    assert_eq!(failed["status"], "failed");
    assert_eq!(get(&gateway, &path_of(&failed)).await, (200, failed.clone()));
    let body = json!({"model": MODEL, "input": "say two", "previous_response_id": id(&failed)});
    let (status, error) = post(&gateway, &body).await;
    assert_eq!((status, &error["error"]["param"]), (400, &json!("previous_response_id")), "{error}");
    // The conversation before it is not affected.
    assert_eq!(text(&continued(&gateway, &first, json!("say two")).await), "two");
    let incomplete = continued(&gateway, &first, json!("length")).await;
    assert_eq!(incomplete["status"], "incomplete");
    assert_eq!(text(&continued(&gateway, &incomplete, json!("say three")).await), "three");
}

/// References to items are resolved before they are stored, because the items themselves are not kept as
/// long.
#[tokio::test]
async fn references_are_stored_as_items() {
    let store = memory();
    let gateway = TestGateway::with(settings(&store)).await;
    let first = create(&gateway, json!("say one"), json!({})).await;
    let reference = json!({"type": "item_reference", "id": first["output"][0]["id"]});
    let input =
        json!([{"role": "user", "content": "say one"}, reference, {"role": "user", "content": "say two"}]);
    let second = create(&gateway, input, json!({})).await;
    let other = TestGateway::with(settings(&store)).await;
    assert_eq!(text(&continued(&other, &second, json!("say three")).await), "three");
    let requests = other.model.requests();
    let texts: Vec<String> =
        requests.last().unwrap().messages.iter().map(|message| message.texts().collect()).collect();
    assert_eq!(texts, ["say one", "one", "say two", "two", "say three"]);
}

#[tokio::test]
async fn the_estimate_of_tokens_includes_the_conversation() {
    let gateway = gateway().await;
    let first = create(&gateway, json!(format!("say {}", "word ".repeat(2_000))), json!({})).await;
    let count = async |fields: Value| {
        let mut body = json!({"model": MODEL, "input": "say two"});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let (status, counted) = call(&gateway, "POST", "/v1/responses/input_tokens", Some(&body)).await;
        assert_eq!(status, 200, "{counted}");
        counted["input_tokens"].as_u64().unwrap()
    };
    let alone = count(json!({})).await;
    assert!(count(json!({"previous_response_id": id(&first)})).await > alone + 2_000);
}
