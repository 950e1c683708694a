//! Approvals that come with `previous_response_id`: any gateway with the same store continues the run, and
//! only one of them.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::*;

fn server() -> Value {
    json!([
        {"type": "mcp", "server_label": "demo", "require_approval": "always", "authorization": "secret-token"},
        {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}},
    ])
}

/// Asks a question whose call needs approval.
async fn ask(gateway: &TestGateway, question: &str) -> Value {
    create(gateway, json!(question), json!({"tools": server()})).await
}

fn request(response: &Value) -> &Value {
    let output = response["output"].as_array().unwrap();
    output.iter().find(|item| item["type"] == "mcp_approval_request").expect("a request for approval")
}

fn decision(response: &Value, approve: bool) -> Value {
    json!({"type": "mcp_approval_response", "approval_request_id": request(response)["id"], "approve": approve})
}

fn approving(response: &Value, stream: bool) -> Value {
    let input = [decision(response, true)];
    json!({"model": MODEL, "input": input, "tools": server(), "stream": stream, "previous_response_id": id(response)})
}

fn calls(gateway: &TestGateway) -> usize {
    gateway.running.calls.load(Ordering::SeqCst)
}

#[tokio::test]
async fn an_approval_continues_on_any_gateway_and_only_once() {
    for is_other in [false, true] {
        for stream in [false, true] {
            let store = memory();
            let first = TestGateway::with(settings(&store)).await;
            let second = TestGateway::with(settings(&store)).await;
            let asked = ask(&first, "ours").await;
            assert_eq!(calls(&first), 0);
            let gateway = if is_other { &second } else { &first };
            let fields = json!({"tools": server(), "stream": stream, "previous_response_id": id(&asked)});
            let response = create(gateway, json!([decision(&asked, true)]), fields).await;
            assert_eq!(types(&response["output"]), ["mcp_call", "message"], "{response}");
            assert_eq!(response["output"][0]["approval_request_id"], request(&asked)["id"]);
            assert_eq!(text(&response), "Results: value of a.");
            for gateway in [&first, &second] {
                let (status, error) = post(gateway, &approving(&asked, false)).await;
                assert_eq!((status, &error["error"]["param"]), (400, &json!("input[0]")), "{error}");
            }
            assert_eq!(calls(&first) + calls(&second), 1);
            // The conversation goes on.
            let next = continued(&first, &response, json!("say bye")).await;
            assert_eq!(text(&next), "bye");
            assert!(last_messages(&first).contains("value of a"));
        }
    }
}

#[tokio::test]
async fn a_refused_call_does_not_run() {
    let store = memory();
    let asked = ask(&TestGateway::with(settings(&store)).await, "ours").await;
    let gateway = TestGateway::with(settings(&store)).await;
    let fields = json!({"tools": server(), "previous_response_id": id(&asked)});
    let response = create(&gateway, json!([decision(&asked, false)]), fields).await;
    assert_eq!((calls(&gateway), response["status"].as_str()), (0, Some("completed")), "{response}");
}

/// Two gateways get the same approval at the same time.
#[tokio::test]
async fn concurrent_approvals_run_a_call_once() {
    let store = memory();
    let asked = ask(&TestGateway::with(settings(&store)).await, "ours").await;
    let gateways = [TestGateway::with(settings(&store)).await, TestGateway::with(settings(&store)).await];
    let body = approving(&asked, false);
    let sent = (0..12).map(|number| post(&gateways[number % 2], &body));
    let statuses = futures::future::join_all(sent).await;
    let done = statuses.iter().filter(|(status, _)| *status == 200).count();
    assert_eq!((done, calls(&gateways[0]) + calls(&gateways[1])), (1, 1), "{statuses:?}");
}

/// Calls of the client's tools in the same step need their results too.
#[tokio::test]
async fn results_come_together_with_an_approval() {
    let store = memory();
    let asked = ask(&TestGateway::with(settings(&store)).await, "pause").await;
    let call =
        asked["output"].as_array().unwrap().iter().find(|item| item["type"] == "function_call").unwrap();
    let result = json!({"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"});
    let gateway = TestGateway::with(settings(&store)).await;
    let fields = json!({"tools": server(), "previous_response_id": id(&asked)});
    let response = create(&gateway, json!([result, decision(&asked, true)]), fields).await;
    assert_eq!((text(&response), calls(&gateway)), ("Results: value of a | sunny.", 1), "{response}");
}

#[tokio::test]
async fn a_request_without_the_decision_is_refused() {
    let store = memory();
    let asked = ask(&TestGateway::with(settings(&store)).await, "ours").await;
    let gateway = TestGateway::with(settings(&store)).await;
    let other = ask(&gateway, "ours").await;
    for input in [json!("say hi"), json!([decision(&other, true)])] {
        let body =
            json!({"model": MODEL, "input": input, "tools": server(), "previous_response_id": id(&asked)});
        let (status, error) = post(&gateway, &body).await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!("input")), "{error}");
        assert!(
            error["error"]["message"].as_str().unwrap().contains(request(&asked)["id"].as_str().unwrap())
        );
    }
    // The decision belongs to another response.
    let plain = create(&gateway, json!("say hi"), json!({})).await;
    let body = json!({"model": MODEL, "input": [decision(&asked, true)], "tools": server(), "previous_response_id": id(&plain)});
    assert_eq!(post(&gateway, &body).await.0, 400);
    assert_eq!(calls(&gateway), 0);
}

/// An approval is for one definition of the tool. If nothing has run, it is still valid.
#[tokio::test]
async fn the_approved_tool_must_be_offered() {
    let store = memory();
    let asked = ask(&TestGateway::with(settings(&store)).await, "ours").await;
    let gateway = TestGateway::with(settings(&store)).await;
    let mut body = approving(&asked, false);
    body["tools"] = json!([{"type": "mcp", "server_label": "demo", "allowed_tools": ["fail"]}]);
    let (status, error) = post(&gateway, &body).await;
    assert_eq!((status, &error["error"]["param"], calls(&gateway)), (400, &json!("tools"), 0), "{error}");
    let other = TestGateway::with(settings(&store)).await;
    // The right to continue is released in the background.
    let mut attempts = 0;
    loop {
        let (status, response) = post(&other, &approving(&asked, false)).await;
        if status == 200 {
            break assert_eq!(text(&response), "Results: value of a.");
        }
        attempts += 1;
        assert!(attempts < 1_000, "{response}");
    }
    assert_eq!(calls(&other), 1);
}

/// If the response to an approval fails, the client repeats its request at the same gateway. Another one does
/// not know which calls have run.
#[tokio::test]
async fn a_call_that_has_run_does_not_run_again_on_another_gateway() {
    let store = memory();
    let asked = ask(&TestGateway::with(settings(&store)).await, "ours").await;
    let gateway = TestGateway::with(settings(&store)).await;
    let other = TestGateway::with(settings(&store)).await;
    gateway.failures.store(1, Ordering::SeqCst);
    let (status, error) = post(&gateway, &approving(&asked, false)).await;
    assert_eq!((status, calls(&gateway)), (502, 1), "{error}");
    let (status, error) = post(&other, &approving(&asked, false)).await;
    assert_eq!((status, calls(&other)), (400, 0), "{error}");
    let (status, response) = post(&gateway, &approving(&asked, false)).await;
    assert_eq!((status, calls(&gateway)), (200, 1), "{response}");
    assert_eq!(text(&response), "Results: value of a.");
    assert_eq!(text(&continued(&other, &response, json!("say bye")).await), "bye");
}

/// The credentials of servers are not stored.
#[tokio::test]
async fn nothing_secret_is_stored() {
    let store = memory();
    let gateway = TestGateway::with(settings(&store)).await;
    let asked = ask(&gateway, "ours").await;
    let key = toolwire_contract::state::StateKey::new("anyone", id(&asked)).unwrap();
    let stored = store.get(&key).await.unwrap().expect("the response is stored");
    assert!(stored.contains("mcp_approval_request") && !stored.contains("secret-token"), "{stored}");
}
