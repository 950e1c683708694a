//! Calls that the client must approve: what it can send with its decisions, and what happens if the response
//! fails.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::{MODEL, TestGateway};
use serde_json::{Value, json};
use toolwire_gateway::GatewaySettings;
use toolwire_testkit::http_client;

/// The maximum wait for something that happens in any case.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Sends a request of the Responses API whose calls need approval.
async fn post(gateway: &TestGateway, input: &[Value]) -> (u16, Value) {
    post_to(gateway.url("/v1/responses"), input.to_vec()).await
}

async fn post_to(url: String, input: Vec<Value>) -> (u16, Value) {
    let tools = json!([
        {"type": "mcp", "server_label": "demo", "require_approval": "always"},
        {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}},
    ]);
    let body = json!({"model": MODEL, "input": input, "tools": tools});
    let response = http_client().post(url).json(&body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// Sends an input, and disconnects as soon as this number of calls runs.
async fn disconnect_during_calls(gateway: &TestGateway, input: &[Value], count: usize) {
    let sent = tokio::spawn(post_to(gateway.url("/v1/responses"), input.to_vec()));
    let running = async |count: usize| {
        while gateway.running.now.load(Ordering::SeqCst) != count {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, running(count)).await.expect("the calls start");
    sent.abort();
    tokio::time::timeout(TEST_TIMEOUT, running(0)).await.expect("the calls end with their client");
}

/// Repeats a request until the gateway has stored the run of the client that is gone.
async fn repeat(gateway: &TestGateway, input: &[Value]) -> Vec<Value> {
    let repeating = async {
        loop {
            let (status, response) = post(gateway, input).await;
            if status == 200 {
                return response["output"].as_array().unwrap().clone();
            }
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, repeating).await.expect("the run is stored")
}

/// Sends an input and adds the output to it.
async fn respond(gateway: &TestGateway, input: &mut Vec<Value>) -> Vec<Value> {
    let (status, response) = post(gateway, input).await;
    assert_eq!(status, 200, "{response}");
    let output = response["output"].as_array().unwrap().clone();
    input.extend(output.clone());
    output
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn approve(output: &[Value]) -> Value {
    approve_all(output).swap_remove(0)
}

fn approve_all(output: &[Value]) -> Vec<Value> {
    let requests = output.iter().filter(|item| item["type"] == "mcp_approval_request");
    let approve = |request: &Value| json!({"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": true});
    requests.map(approve).collect()
}

fn types(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| item["type"].as_str().unwrap()).collect()
}

fn text(output: &[Value]) -> &str {
    output.last().unwrap()["content"][0]["text"].as_str().unwrap()
}

/// A user message that is sent before or after the decision follows the result of the approved call.
#[tokio::test]
async fn the_user_can_write_together_with_an_approval() {
    for is_first in [true, false] {
        let gateway = TestGateway::start().await;
        let mut input = vec![user("ours")];
        let output = respond(&gateway, &mut input).await;
        let decision = approve(&output);
        let message = user("say and this");
        input.extend(if is_first { [message, decision] } else { [decision, message] });
        let output = respond(&gateway, &mut input).await;
        assert_eq!(text(&output), "and this", "{output:?}");
        assert_eq!(gateway.running.calls.load(Ordering::SeqCst), 1);
        let requests = gateway.model.requests();
        let last = requests.last().unwrap().messages.last().unwrap().clone();
        assert_eq!((last.results().count(), last.content.len()), (1, 2), "{last:?}");
    }
}

/// If the response to an approval fails, the client sends it again, and the call does not run again.
#[tokio::test]
async fn an_approval_can_be_sent_again_if_the_model_fails() {
    let gateway = TestGateway::start().await;
    let mut input = vec![user("ours")];
    let output = respond(&gateway, &mut input).await;
    input.push(approve(&output));
    gateway.failures.store(2, Ordering::SeqCst);
    for _ in 0..2 {
        let (status, error) = post(&gateway, &input).await;
        assert_eq!(status, 502, "{error}");
    }
    let output = respond(&gateway, &mut input.clone()).await;
    assert_eq!(types(&output), ["mcp_call", "message"]);
    assert_eq!((output[0]["output"].as_str(), text(&output)), (Some("value of a"), "Results: value of a."));
    assert_eq!(output[0]["approval_request_id"], input.last().unwrap()["approval_request_id"]);
    assert_eq!(gateway.running.calls.load(Ordering::SeqCst), 1, "the call ran once");
    let (status, error) = post(&gateway, &input).await;
    assert_eq!(status, 400, "an approval is valid once: {error}");
}

/// The usage of a response after an approval does not include the usage before it.
#[tokio::test]
async fn the_usage_before_an_approval_is_not_counted_again() {
    let gateway = TestGateway::start().await;
    let mut input = vec![user("ours")];
    let (_, first) = post(&gateway, &input).await;
    let output = first["output"].as_array().unwrap();
    input.extend(output.clone());
    input.push(approve(output));
    let (_, second) = post(&gateway, &input).await;
    assert_eq!(first["usage"]["input_tokens"], second["usage"]["input_tokens"], "{first} {second}");
}

/// A step with calls of both kinds pauses; the next step has a call of the client. The model sees every call
/// once.
#[tokio::test]
async fn calls_before_and_after_an_approval_stay_in_their_place() {
    let gateway = TestGateway::start().await;
    let mut input = vec![user("pause-late")];
    let output = respond(&gateway, &mut input).await;
    assert_eq!(types(&output), ["mcp_list_tools", "mcp_approval_request", "function_call"]);
    input.push(json!({"type": "function_call_output", "call_id": output[2]["call_id"], "output": "sunny"}));
    input.push(approve(&output));
    let output = respond(&gateway, &mut input).await;
    assert_eq!(types(&output), ["mcp_call", "function_call"]);
    input.push(json!({"type": "function_call_output", "call_id": output[1]["call_id"], "output": "rain"}));
    let output = respond(&gateway, &mut input).await;
    assert_eq!(text(&output), "Results: value of a | sunny | rain.");
}

/// A provider uses the same ids in every step: each result belongs to its own step.
#[tokio::test]
async fn results_before_a_second_approval_are_not_used_again() {
    let gateway = TestGateway::start().await;
    let mut input = vec![user("pause-twice")];
    for weather in ["sunny", "rain"] {
        let output = respond(&gateway, &mut input).await;
        let call = output.iter().find(|item| item["type"] == "function_call").unwrap();
        input.push(json!({"type": "function_call_output", "call_id": call["call_id"], "output": weather}));
        input.push(approve(&output));
    }
    let output = respond(&gateway, &mut input).await;
    assert_eq!(text(&output), "Results: value of a | sunny | value of b | rain.");
}

/// The model writes a text beside its request, and the user writes one beside the approval. A call of the
/// client follows: the model sees each text once.
#[tokio::test]
async fn texts_beside_an_approval_are_not_repeated() {
    let gateway = TestGateway::start().await;
    let mut input = vec![user("comment")];
    let output = respond(&gateway, &mut input).await;
    assert_eq!(types(&output), ["mcp_list_tools", "message", "mcp_approval_request"]);
    input.extend([approve(&output), user("client")]);
    let output = respond(&gateway, &mut input).await;
    assert_eq!(types(&output), ["mcp_call", "message", "function_call"]);
    input.push(json!({"type": "function_call_output", "call_id": output[2]["call_id"], "output": "sunny"}));
    respond(&gateway, &mut input).await;
    let messages = gateway.model.requests().last().unwrap().messages.clone();
    let history = serde_json::to_string(&messages).unwrap();
    for text in ["\"comment\"", "A comment.", "\"client\"", "I look.", "value of a", "sunny"] {
        assert_eq!(history.matches(text).count(), 1, "{text}: {history}");
    }
}

/// The client disconnects while eight approved calls run, and one still waits for its turn. That one is not
/// reported as unknown: it runs when the client repeats its request.
#[tokio::test]
async fn an_approved_call_that_had_not_started_runs_later() {
    let gateway = TestGateway::start().await;
    let mut input = vec![user("hold")];
    let output = respond(&gateway, &mut input).await;
    input.extend(approve_all(&output));
    assert_eq!(approve_all(&output).len(), 9);
    disconnect_during_calls(&gateway, &input, 8).await;
    let output = repeat(&gateway, &input).await;
    let calls: Vec<&Value> = output.iter().filter(|item| item["type"] == "mcp_call").collect();
    let is_unknown =
        |call: &&&Value| call["error"].to_string().contains("it is unknown whether it took effect");
    assert_eq!((calls.len(), calls.iter().filter(is_unknown).count()), (9, 8), "{output:?}");
    assert!(text(&output).ends_with("| deleted."), "{output:?}");
    assert_eq!(gateway.running.calls.load(Ordering::SeqCst), 8, "no call runs twice");
}

/// A text of the user is not taken for one of the model that was already in the response.
#[tokio::test]
async fn the_user_can_write_the_same_text_as_the_model() {
    let gateway = TestGateway::start().await;
    let mut input = vec![user("comment-hold")];
    let output = respond(&gateway, &mut input).await;
    input.extend([approve(&output), user("A comment.")]);
    disconnect_during_calls(&gateway, &input, 1).await;
    repeat(&gateway, &input).await;
    let messages = gateway.model.requests().last().unwrap().messages.clone();
    let history = serde_json::to_string(&messages).unwrap();
    assert_eq!(history.matches("A comment.").count(), 2, "{history}");
}

/// A run that cannot be stored could not be approved, so the client gets an error instead of a request for
/// approval.
#[tokio::test]
async fn a_run_that_is_too_large_to_store_is_an_error() {
    let mut settings = GatewaySettings::default();
    settings.limits.state_bytes = 100;
    let gateway = TestGateway::with(settings).await;
    let (status, error) = post(&gateway, &[user("ours")]).await;
    assert_eq!(status, 413, "{error}");
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains("need approval") && message.contains("the maximum of 100 per key"), "{message}");
    assert_eq!(gateway.running.calls.load(Ordering::SeqCst), 0);
}
