//! Responses in the background.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::{Value, json};
use toolwire_gateway::Keys;
use toolwire_testkit::http_client;

use super::*;

/// Starts a response in the background, and returns it.
pub(super) async fn start(gateway: &TestGateway, input: &str, fields: Value) -> Value {
    let mut all = json!({"background": true});
    all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let response = create(gateway, json!(input), all).await;
    assert_eq!(
        (&response["status"], &response["background"]),
        (&json!("queued"), &json!(true)),
        "{response}"
    );
    assert_eq!((&response["output"], &response["store"]), (&json!([]), &json!(true)));
    response
}

/// Reads a response until it is complete.
pub(super) async fn completed(gateway: &TestGateway, response: &Value) -> Value {
    loop {
        let (status, response) = get(gateway, &path_of(response)).await;
        assert_eq!((status, &response["background"]), (200, &json!(true)), "{response}");
        if !["queued", "in_progress"].contains(&response["status"].as_str().unwrap()) {
            return response;
        }
    }
}

/// Reads the events of a response.
pub(super) async fn stream(gateway: &TestGateway, response: &Value, query: &str) -> Vec<Value> {
    let url = gateway.url(&format!("{}?stream=true{query}", path_of(response)));
    let response = http_client().get(url).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
    events(&response.text().await.unwrap())
}

fn events(stream: &str) -> Vec<Value> {
    let data = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<Value> = data.map(|data| serde_json::from_str(data).unwrap()).collect();
    let names: Vec<&str> = stream.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(names, types(&json!(events)));
    events
}

pub(super) fn numbers(events: &[Value]) -> Vec<u64> {
    events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect()
}

/// Waits until a number of calls runs at a gateway.
pub(super) async fn running(gateway: &TestGateway, count: usize) {
    while gateway.running.now.load(Ordering::SeqCst) != count {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_response_is_written_in_the_background() {
    let store = memory();
    let gateways = [TestGateway::with(settings(&store)).await, TestGateway::with(settings(&store)).await];
    let first = start(&gateways[0], "rounds", json!({"metadata": {"a": "b"}})).await;
    let response = completed(&gateways[1], &first).await;
    assert_eq!(
        (&response["status"], &response["metadata"], &response["id"]),
        (&json!("completed"), &json!({"a": "b"}), &first["id"])
    );
    assert_eq!(text(&response), "Results: value of a | value of b.");
    let (_, list) = get(&gateways[1], &format!("{}/input_items", path_of(&first))).await;
    assert_eq!(list["data"][0]["content"][0]["text"], "rounds");
    // Another response continues it, also in the background.
    let next = start(&gateways[1], "say two", json!({"previous_response_id": id(&first)})).await;
    let next = completed(&gateways[0], &next).await;
    assert_eq!((text(&next), &next["previous_response_id"]), ("two", &first["id"]));
    assert!(last_messages(&gateways[1]).contains("value of b"), "the model sees the hidden calls");
    // A conversation gets its items.
    let (_, conversation) = call(&gateways[0], "POST", "/v1/conversations", Some(&json!({}))).await;
    let response = start(&gateways[0], "say one", json!({"conversation": conversation["id"]})).await;
    let response = completed(&gateways[0], &response).await;
    assert_eq!(response["conversation"], json!({"id": conversation["id"]}));
    let path = format!("/v1/conversations/{}/items?order=asc", id(&conversation));
    loop {
        // They are added after the response is stored.
        let (_, list) = get(&gateways[1], &path).await;
        if list["data"].as_array().unwrap().len() == 2 {
            assert_eq!(list["data"][1]["content"][0]["text"], "one");
            break;
        }
    }
}

#[tokio::test]
async fn the_events_can_be_read_again_from_any_number() {
    let store = memory();
    let gateways = [TestGateway::with(settings(&store)).await, TestGateway::with(settings(&store)).await];
    // More events than are read at once.
    let long = format!("say {}", "word ".repeat(400));
    for question in ["rounds", &long, "length", "broken"] {
        let body = json!({"model": MODEL, "input": question, "background": true, "stream": true});
        let response = http_client().post(gateways[0].url("/v1/responses")).json(&body).send().await.unwrap();
        let sent = events(&response.text().await.unwrap());
        assert_eq!(numbers(&sent), (0..sent.len() as u64).collect::<Vec<_>>());
        assert_eq!(
            types(&json!(sent[..3])),
            ["response.created", "response.queued", "response.in_progress"],
            "{question}"
        );
        assert_eq!(sent[0]["response"]["status"], "queued");
        let last = &sent.last().unwrap()["response"];
        assert_eq!(get(&gateways[1], &path_of(last)).await, (200, last.clone()));
        for gateway in &gateways {
            assert_eq!(stream(gateway, last, "").await, sent);
            for after in [0, 3, sent.len() - 2] {
                assert_eq!(
                    stream(gateway, last, &format!("&starting_after={after}")).await,
                    sent[after + 1..]
                );
            }
            assert_eq!(
                stream(gateway, last, &format!("&starting_after={}", sent.len())).await,
                Vec::<Value>::new()
            );
        }
    }
}

#[tokio::test]
async fn a_client_can_leave_and_return() {
    let store = memory();
    let gateways = [TestGateway::with(settings(&store)).await, TestGateway::with(settings(&store)).await];
    let body = json!({"model": MODEL, "input": "tell-wait", "background": true, "stream": true});
    let response = http_client().post(gateways[0].url("/v1/responses")).json(&body).send().await.unwrap();
    let mut parts = response.bytes_stream();
    let mut received = String::new();
    while !received.contains("Wait.") {
        received.push_str(std::str::from_utf8(&parts.next().await.unwrap().unwrap()).unwrap());
    }
    drop(parts);
    let complete = received.rfind("\n\n").unwrap() + 2;
    let first = events(&received[..complete]);
    let after = numbers(&first).last().copied().unwrap();
    // The stream of another gateway ends when the response is complete.
    let rest = stream(&gateways[1], &first[0]["response"], &format!("&starting_after={after}")).await;
    let all: Vec<Value> = first.into_iter().chain(rest).collect();
    assert_eq!(numbers(&all), (0..all.len() as u64).collect::<Vec<_>>());
    let response = &all.last().unwrap()["response"];
    assert_eq!((text(response), &response["status"]), ("Results: waited.", &json!("completed")));
    assert_eq!(gateways[0].running.calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_response_is_cancelled_at_any_gateway() {
    let store = memory();
    let mut settings = settings(&store);
    settings.limits.background_lease = Duration::from_secs(3);
    let gateways = [TestGateway::with(settings.clone()).await, TestGateway::with(settings).await];
    for gateway in &gateways {
        let (_, conversation) = call(gateway, "POST", "/v1/conversations", Some(&json!({}))).await;
        let response = start(&gateways[0], "wait", json!({"conversation": conversation["id"]})).await;
        running(&gateways[0], 1).await;
        let path = format!("{}/cancel", path_of(&response));
        let (status, cancelled) = call(gateway, "POST", &path, None).await;
        assert_eq!((status, &cancelled["status"]), (200, &json!("cancelled")), "{cancelled}");
        assert_eq!(call(gateway, "POST", &path, None).await, (200, cancelled.clone()));
        assert_eq!(get(gateway, &path_of(&response)).await, (200, cancelled.clone()));
        // The call ends, and nothing more is written.
        running(&gateways[0], 0).await;
        assert_eq!(get(gateway, &path_of(&response)).await, (200, cancelled.clone()));
        let events = stream(gateway, &response, "").await;
        let last = events.last().unwrap();
        assert_eq!((&last["type"], &last["response"]), (&json!("response.incomplete"), &cancelled));
        let next = json!({"model": MODEL, "input": "x", "previous_response_id": id(&response)});
        assert_eq!(post(gateway, &next).await.0, 400);
        // The conversation is free, and has no new items.
        let next = json!({"model": MODEL, "input": "say x", "conversation": conversation["id"]});
        while post(gateway, &next).await.0 == 409 {}
    }
    let done = start(&gateways[0], "say hi", json!({})).await;
    let done = completed(&gateways[0], &done).await;
    assert_eq!(call(&gateways[1], "POST", &format!("{}/cancel", path_of(&done)), None).await, (200, done));
}

#[tokio::test]
async fn a_removed_response_stops() {
    let gateway = gateway().await;
    let response = start(&gateway, "wait", json!({})).await;
    running(&gateway, 1).await;
    assert_eq!(call(&gateway, "DELETE", &path_of(&response), None).await.0, 200);
    running(&gateway, 0).await;
    assert_eq!(get(&gateway, &path_of(&response)).await.0, 404);
    assert_eq!(get(&gateway, &format!("{}?stream=true", path_of(&response))).await.0, 404);
}

#[tokio::test]
async fn invalid_requests_are_refused() {
    let gateway = gateway().await;
    let refused = async |gateway: &TestGateway, fields: Value| {
        let mut body = json!({"model": MODEL, "input": "say x"});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let (status, error) = post(gateway, &body).await;
        assert_eq!(status, 400, "{error}");
        error["error"]["param"].clone()
    };
    assert_eq!(refused(&gateway, json!({"background": true, "store": false})).await, "background");
    assert_eq!(refused(&gateway, json!({"background": "yes"})).await, "background");
    assert_eq!(refused(&gateway, json!({"background": true, "temperature": "hot"})).await, "temperature");
    assert_eq!(refused(&TestGateway::start().await, json!({"background": true})).await, "background");
    let whole = create(&gateway, json!("say x"), json!({"background": false})).await;
    assert_eq!((&whole["status"], &whole["background"]), (&json!("completed"), &json!(false)));
    let (status, error) = call(&gateway, "POST", &format!("{}/cancel", path_of(&whole)), None).await;
    assert_eq!((status, &error["error"]["param"]), (400, &json!("response_id")), "{error}");
    let response = start(&gateway, "say x", json!({})).await;
    for (query, parameter) in [("stream=true&starting_after=x", "starting_after")] {
        let (status, error) = get(&gateway, &format!("{}?{query}", path_of(&response))).await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!(parameter)), "{error}");
    }
}

#[tokio::test]
async fn errors_are_stored() {
    let gateway = gateway().await;
    for (question, code) in [("broken", "server_error"), ("status 429", "rate_limit_exceeded")] {
        let response = start(&gateway, question, json!({})).await;
        let response = completed(&gateway, &response).await;
        assert_eq!((&response["status"], &response["error"]["code"]), (&json!("failed"), &json!(code)));
    }
    let mut settings = settings(&memory());
    settings.limits.background_timeout = Duration::from_millis(50);
    let gateway = TestGateway::with(settings).await;
    let response = start(&gateway, "wait", json!({})).await;
    let response = completed(&gateway, &response).await;
    assert_eq!((&response["status"], &response["error"]["code"]), (&json!("failed"), &json!("server_error")));
}

#[tokio::test]
async fn approvals_work_in_the_background() {
    let store = memory();
    let gateways = [TestGateway::with(settings(&store)).await, TestGateway::with(settings(&store)).await];
    for gateway in &gateways {
        let fields =
            json!({"tools": [{"type": "mcp", "server_label": "demo", "require_approval": "always"}]});
        let asked = start(&gateways[0], "ours", fields.clone()).await;
        let asked = completed(&gateways[0], &asked).await;
        let request = asked["output"].as_array().unwrap().last().unwrap();
        let decision =
            json!([{"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": true}]);
        let mut fields = fields;
        fields["previous_response_id"] = asked["id"].clone();
        fields["background"] = json!(true);
        let response = create(gateway, decision, fields).await;
        let response = completed(&gateways[0], &response).await;
        assert_eq!(text(&response), "Results: value of a.", "{response}");
    }
}

/// 27: the response of another owner does not exist.
#[tokio::test]
async fn another_owners_response_does_not_exist() {
    let keys = ["first-key-0123456789abcdef0123456789", "other-key-0123456789abcdef0123456789"];
    let mut settings = settings(&memory());
    settings.keys = Keys::default().with("first", keys[0]).with("other", keys[1]);
    settings.limits.requests_per_key = Some(1);
    let gateway = TestGateway::with(settings).await;
    let send = async |key: &str, method: &str, path: &str, body: &Value| {
        let request = http_client().request(method.parse().unwrap(), gateway.url(path)).bearer_auth(key);
        let response = request.json(body).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let body = json!({"model": MODEL, "input": "wait", "background": true});
    let (status, response) = send(keys[0], "POST", "/v1/responses", &body).await;
    assert_eq!(status, 200, "{response}");
    let response: Value = serde_json::from_str(&response).unwrap();
    running(&gateway, 1).await;
    let (own, random) = (id(&response), "resp_0123456789ABCDEFGHIJKLMNOPQ");
    for (method, suffix) in [("POST", "/cancel"), ("GET", "?stream=true"), ("GET", ""), ("DELETE", "")] {
        let path = |id: &str| format!("/v1/responses/{id}{suffix}");
        let foreign = send(keys[1], method, &path(own), &json!({})).await;
        let unknown = send(keys[1], method, &path(random), &json!({})).await;
        assert_eq!(foreign.0, 404, "{method} {suffix}: {}", foreign.1);
        assert_eq!((foreign.0, foreign.1.replace(own, random)), unknown);
    }
    assert_eq!(gateway.running.now.load(Ordering::SeqCst), 1, "it still runs");
    // A key has a number of responses in the background, and can read them at the same time.
    let path = path_of(&response);
    assert_eq!(send(keys[0], "GET", &path, &json!({})).await.0, 200);
    let mut say = json!({"model": MODEL, "input": "say x", "background": true});
    assert_eq!(send(keys[0], "POST", "/v1/responses", &say).await.0, 429);
    assert_eq!(send(keys[1], "POST", "/v1/responses", &say).await.0, 200);
    say["background"] = json!(false);
    assert_eq!(send(keys[0], "POST", "/v1/responses", &say).await.0, 200);
    // A response that ends makes room for the next one.
    assert_eq!(send(keys[0], "POST", &format!("{path}/cancel"), &json!({})).await.0, 200);
    say["background"] = json!(true);
    while send(keys[0], "POST", "/v1/responses", &say).await.0 != 200 {}
}
