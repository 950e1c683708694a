//! Serving over a stream of JSON lines.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};
use tokio_stream::wrappers::UnboundedReceiverStream;
use toolwire_contract::toolbox::{CallError, CallOptions, Toolbox};
use toolwire_contract::{Tool, ToolResult};
use toolwire_toolkit::Server;
use toolwire_toolkit::handler::Changes;
use toolwire_toolkit::transport::in_process;

use crate::fixture;
use crate::support::{StreamClient, WaitingTool, modern, request, with_timeout};

fn call(id: u64, tool: &str) -> Value {
    request(id, "tools/call", json!({"name": tool, "arguments": {}}))
}

#[tokio::test]
async fn every_revision_is_supported() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let (stream, _server) = in_process(fixture::server()).unwrap();
        let mut client = StreamClient::new(stream);
        assert_eq!(client.initialize(revision).await["result"]["protocolVersion"], revision);
        let response = client
            .request(request(1, "tools/call", json!({"name": "echo", "arguments": {"text": "a"}})))
            .await;
        assert_eq!(response["result"], json!({"content": [{"type": "text", "text": "a"}]}), "{revision}");
    }
    let (stream, _server) = in_process(fixture::server()).unwrap();
    let mut client = StreamClient::new(stream);
    let params = modern(json!({"name": "echo", "arguments": {"text": "a"}}));
    let response = client.request(request(1, "tools/call", params)).await;
    let expected = json!({"resultType": "complete", "content": [{"type": "text", "text": "a"}]});
    assert_eq!(response["result"], expected);
}

#[tokio::test]
async fn an_unknown_revision_is_answered_with_the_newest_that_has_a_handshake() {
    let (stream, _server) = in_process(fixture::server()).unwrap();
    let response = StreamClient::new(stream).initialize("2031-01-01").await;
    assert_eq!(response["result"]["protocolVersion"], "2025-11-25");
}

#[tokio::test]
async fn fields_unknown_to_the_sdk_arrive_unchanged() {
    let (stream, _server) = in_process(fixture::server()).unwrap();
    let mut client = StreamClient::new(stream);
    client.initialize("2025-11-25").await;
    let listed = client.request(request(1, "tools/list", json!({}))).await;
    let tools = fixture::server().tools();
    let expected: Vec<Value> = tools.iter().cloned().map(Value::from).collect();
    assert_eq!(listed["result"], json!({"tools": expected}));
    let response = client.request(call(2, "test_unknown_content")).await;
    let expected = json!({
        "content": [{"type": "video", "data": "AA==", "frames": 12345678901234567890_u64}],
        "later": {"a": 1},
    });
    assert_eq!(response["result"], expected);
}

#[tokio::test]
async fn a_panicking_tool_fails_only_its_own_call() {
    let (stream, _server) = in_process(fixture::server()).unwrap();
    let mut client = StreamClient::new(stream);
    client.initialize("2025-11-25").await;
    assert_eq!(client.request(call(1, "test_panic")).await["result"]["isError"], true);
    assert_eq!(client.request(call(2, "test_simple_text")).await["id"], 2);
}

#[tokio::test]
async fn unknown_names_are_rejected_and_quoted() {
    let (stream, _server) = in_process(fixture::server()).unwrap();
    let mut client = StreamClient::new(stream);
    client.initialize("2025-11-25").await;
    let tool = client.request(call(1, "tset_simple_text")).await;
    assert_eq!(tool["error"]["code"], -32602);
    assert!(tool["error"]["message"].as_str().unwrap().contains("`tset_simple_text`"), "{tool}");
    let prompt = client.request(request(2, "prompts/get", json!({"name": "none"}))).await;
    assert_eq!(prompt["error"]["code"], -32602);
    let argument =
        client.request(request(3, "prompts/get", json!({"name": "test_prompt_with_arguments"}))).await;
    assert_eq!(
        argument["error"]["message"],
        "the prompt `test_prompt_with_arguments` requires `arg1` and `arg2`"
    );
    let resource = client.request(request(4, "resources/read", json!({"uri": "none://"}))).await;
    assert_eq!(resource["error"]["code"], -32002);
    let cursor = client.request(request(5, "tools/list", json!({"cursor": "2"}))).await;
    assert_eq!(cursor["error"]["code"], -32602);
}

#[tokio::test]
async fn invalid_parameters_are_reported() {
    let (stream, _server) = in_process(fixture::server()).unwrap();
    let mut client = StreamClient::new(stream);
    client.initialize("2025-11-25").await;
    for (id, params) in [
        (1, json!({"name": "echo", "arguments": [1]})),
        (2, json!({"name": "echo", "arguments": "x"})),
        (3, json!({"name": 5})),
    ] {
        let error = client.request(request(id, "tools/call", params)).await["error"].clone();
        assert_eq!(error["code"], -32602, "{error}");
        assert!(error["message"].as_str().unwrap().contains("`tools/call`"), "{error}");
    }
}

#[tokio::test]
async fn a_server_survives_garbage_and_early_notifications() {
    let (stream, _server) = in_process(fixture::server()).unwrap();
    let mut client = StreamClient::new(stream);
    client.write("this is not JSON").await;
    assert_eq!(client.next().await["error"]["code"], -32700);
    client
        .send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}))
        .await;
    client.initialize("2025-11-25").await;
    client.write("{\"half\":").await;
    assert_eq!(client.next().await["error"]["code"], -32700);
    client.send(json!({"jsonrpc": "2.0", "id": 77, "result": {}})).await;
    assert_eq!(client.request(call(1, "test_simple_text")).await["id"], 1);
}

#[tokio::test]
async fn a_cancelled_call_gets_no_response() {
    let mut waiting = WaitingTool::new();
    let (stream, _server) = in_process(waiting.server()).unwrap();
    let mut client = StreamClient::new(stream);
    client.initialize("2025-11-25").await;
    client.send(call(1, "wait")).await;
    with_timeout(waiting.started.recv()).await.unwrap();
    client
        .send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}))
        .await;
    with_timeout(waiting.cancelled.recv()).await.unwrap();
    let next =
        client.request(request(2, "tools/call", json!({"name": "echo", "arguments": {"text": "a"}}))).await;
    assert_eq!(next["id"], 2);
}

#[tokio::test]
async fn a_finished_call_is_not_cancelled() {
    let mut waiting = WaitingTool::new();
    let (stream, server) = in_process(waiting.server()).unwrap();
    let mut client = StreamClient::new(stream);
    client.initialize("2025-11-25").await;
    client.send(call(1, "wait")).await;
    with_timeout(waiting.started.recv()).await.unwrap();
    waiting.may_end.notify_one();
    assert_eq!(client.next().await["id"], 1);
    server.shutdown(Duration::from_secs(60)).await;
    assert!(waiting.cancelled.try_recv().is_err());
}

#[tokio::test]
async fn shutdown_waits_for_calls_in_flight_and_rejects_new_ones() {
    let mut waiting = WaitingTool::new();
    let (stream, server) = in_process(waiting.server()).unwrap();
    let mut client = StreamClient::new(stream);
    client.initialize("2025-11-25").await;
    client.send(call(1, "wait")).await;
    with_timeout(waiting.started.recv()).await.unwrap();
    let shutdown = tokio::spawn(server.shutdown(Duration::from_secs(60)));
    // Calls succeed until the shutdown has started.
    let mut id = 2;
    let rejected = loop {
        let response = client
            .request(request(id, "tools/call", json!({"name": "echo", "arguments": {"text": "a"}})))
            .await;
        if response.get("error").is_some() {
            break response;
        }
        id += 1;
    };
    assert_eq!(rejected["error"]["message"], "the server is shutting down");
    waiting.may_end.notify_one();
    let response = client.next().await;
    assert_eq!((&response["id"], &response["result"]["content"][0]["text"]), (&json!(1), &json!("waited")));
    assert_eq!(client.next().await, Value::Null, "the stream has ended");
    with_timeout(shutdown).await.unwrap();
}

#[tokio::test]
async fn calls_are_cancelled_after_the_grace_period() {
    let mut waiting = WaitingTool::new();
    let (stream, server) = in_process(waiting.server()).unwrap();
    let mut client = StreamClient::new(stream);
    client.initialize("2025-11-25").await;
    client.send(call(1, "wait")).await;
    with_timeout(waiting.started.recv()).await.unwrap();
    with_timeout(server.shutdown(Duration::ZERO)).await;
    with_timeout(waiting.cancelled.recv()).await.unwrap();
}

#[tokio::test]
async fn elicitations_are_requests_in_older_revisions() {
    let (stream, _server) = in_process(fixture::server()).unwrap();
    let mut client = StreamClient::new(stream);
    client.initialize("2025-06-18").await;
    let question = client.request(call(1, "test_input_required_result_elicitation")).await;
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["message"], "What is your name?");
    let accepted = json!({"action": "accept", "content": {"name": "Oslo"}});
    let response = client.request(json!({"jsonrpc": "2.0", "id": question["id"], "result": accepted})).await;
    assert_eq!(response["result"]["content"][0]["text"], "Hello, Oslo!");
    // This client does not declare sampling.
    let response = client.request(call(2, "test_missing_capability")).await;
    let expected = "the client does not support `sampling/createMessage`";
    assert_eq!(response["result"]["content"][0]["text"], expected);
}

#[tokio::test]
async fn request_state_is_rejected_for_another_request() {
    let (stream, _server) = in_process(fixture::server()).unwrap();
    let mut client = StreamClient::new(stream);
    let tool_call = |tool: &str, extra: Value| {
        let mut params = modern(json!({"name": tool, "arguments": {}}));
        params.as_object_mut().unwrap().extend(extra.as_object().cloned().unwrap());
        request(1, "tools/call", params)
    };
    let question = client.request(tool_call("test_input_required_result_request_state", json!({}))).await;
    let state = question["result"]["requestState"].clone();
    let accepted = json!({"confirm": {"action": "accept", "content": {"ok": true}}});
    let with_state = json!({"requestState": state, "inputResponses": accepted});
    let other_request =
        client.request(tool_call("test_input_required_result_tampered_state", with_state.clone())).await;
    assert_eq!(other_request["error"]["code"], -32602);
    let response = client.request(tool_call("test_input_required_result_request_state", with_state)).await;
    assert_eq!(response["result"]["content"][0]["text"], "state-ok");
}

#[tokio::test]
async fn log_messages_respect_the_level() {
    let (stream, _server) = in_process(fixture::server()).unwrap();
    let mut client = StreamClient::new(stream);
    client.initialize("2025-11-25").await;
    client.request(request(1, "logging/setLevel", json!({"level": "error"}))).await;
    let message = client.request(call(2, "test_logging_tool")).await;
    assert_eq!(message["params"], json!({"level": "emergency", "logger": "fixture", "data": "a message"}));
    assert_eq!(client.next().await["id"], 2);
}

#[tokio::test]
async fn only_subscribers_are_notified_of_a_resource() {
    let changes = Changes::new();
    let server = Server::builder("changing")
        .changes(&changes)
        .resources(Arc::new(fixture::Templates))
        .build()
        .expect("unique names");
    let (stream, _server) = in_process(server).unwrap();
    let mut client = StreamClient::new(stream);
    client.initialize("2025-11-25").await;
    client.request(request(1, "resources/subscribe", json!({"uri": "a:b"}))).await;
    changes.resource("a:c");
    changes.resource("a:b");
    let expected =
        json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "a:b"}});
    assert_eq!(client.next().await, expected);
    client.request(request(2, "resources/unsubscribe", json!({"uri": "a:b"}))).await;
    changes.resource("a:b");
    changes.resources();
    assert_eq!(client.next().await["method"], "notifications/resources/list_changed");
}

/// A toolbox whose changes are controlled by the test.
struct ChangingToolbox {
    changes: Mutex<Option<mpsc::UnboundedReceiver<()>>>,
}

impl Toolbox for ChangingToolbox {
    fn tools(&self) -> Arc<[Tool]> {
        Arc::new([Tool::new("a", json!({"type": "object"}))])
    }

    fn changes(&self) -> Option<BoxStream<'static, ()>> {
        let changes = self.changes.try_lock().ok()?.take()?;
        Some(UnboundedReceiverStream::new(changes).boxed())
    }

    fn call<'a>(
        &'a self,
        _: &'a str,
        arguments: &'a Value,
        _: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move { Ok(ToolResult::text(arguments.to_string())) })
    }
}

#[tokio::test]
async fn tools_with_the_same_name_are_listed_once() {
    let toolbox = || Arc::new(ChangingToolbox { changes: Mutex::default() });
    let server = Server::builder("two").toolbox(toolbox()).toolbox(toolbox()).build().unwrap();
    let names: Vec<String> = server.tools().iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(names, ["a"]);
}

#[tokio::test]
async fn a_toolbox_is_served_and_its_changes_are_forwarded() {
    let (sender, changes) = mpsc::unbounded_channel();
    let toolbox = ChangingToolbox { changes: Mutex::new(Some(changes)) };
    let server = Server::builder("box").toolbox(Arc::new(toolbox)).build().expect("unique names");
    let (stream, _server) = in_process(server).unwrap();
    let mut client = StreamClient::new(stream);
    let initialized = client.initialize("2025-11-25").await;
    assert_eq!(initialized["result"]["capabilities"]["tools"], json!({"listChanged": true}));
    let large_number = json!({"name": "a", "arguments": {"n": 12345678901234567890_u64}});
    let response = client.request(request(1, "tools/call", large_number)).await;
    assert_eq!(response["result"]["content"][0]["text"], r#"{"n":12345678901234567890}"#);
    sender.send(()).unwrap();
    assert_eq!(client.next().await["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn a_listener_of_the_newest_revision_is_notified_of_changes() {
    let changes = Changes::new();
    let server = Server::builder("changing")
        .register(fixture::echo())
        .changes(&changes)
        .build()
        .expect("unique names");
    let (stream, server) = in_process(server).unwrap();
    let mut client = StreamClient::new(stream);
    let filter = modern(json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true}}));
    let acknowledged = client.request(request(1, "subscriptions/listen", filter)).await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    changes.prompts();
    changes.tools();
    let notification = client.next().await;
    assert_eq!(notification["method"], "notifications/tools/list_changed");
    assert_eq!(notification["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
    let shutdown = tokio::spawn(server.shutdown(Duration::from_secs(60)));
    assert_eq!(client.next().await["id"], 1, "the subscription ends with a result");
    with_timeout(shutdown).await.unwrap();
}
