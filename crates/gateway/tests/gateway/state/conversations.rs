//! Conversations: their paths, and requests that use them.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use toolwire_gateway::Keys;
use toolwire_testkit::http_client;

use super::*;

async fn new_conversation(gateway: &TestGateway, body: Value) -> Value {
    let (status, conversation) = call(gateway, "POST", "/v1/conversations", Some(&body)).await;
    assert_eq!((status, &conversation["object"]), (200, &json!("conversation")), "{conversation}");
    conversation
}

fn place(conversation: &Value) -> String {
    format!("/v1/conversations/{}", id(conversation))
}

/// Creates a response in a conversation.
async fn respond(gateway: &TestGateway, conversation: &Value, input: Value, fields: Value) -> Value {
    let mut all = json!({"conversation": conversation["id"]});
    all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    create(gateway, input, all).await
}

async fn items(gateway: &TestGateway, conversation: &Value) -> Value {
    let path = format!("{}/items?order=asc&limit=100", place(conversation));
    let (status, list) = get(gateway, &path).await;
    assert_eq!((status, &list["object"]), (200, &json!("list")), "{list}");
    list["data"].clone()
}

fn texts(items: &Value) -> Vec<&str> {
    items
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["content"][0]["text"].as_str().unwrap_or_default())
        .collect()
}

#[tokio::test]
async fn a_conversation_is_created_changed_and_deleted() {
    let gateway = gateway().await;
    let items = json!([{"role": "user", "content": "one"}]);
    let conversation = new_conversation(&gateway, json!({"metadata": {"a": "b"}, "items": items})).await;
    assert!(id(&conversation).starts_with("conv_") && conversation["created_at"].is_u64());
    assert_eq!(get(&gateway, &place(&conversation)).await, (200, conversation.clone()));
    let mut updated = conversation.clone();
    updated["metadata"] = json!({"c": "d"});
    let body = json!({"metadata": {"c": "d"}});
    assert_eq!(call(&gateway, "POST", &place(&conversation), Some(&body)).await, (200, updated.clone()));
    assert_eq!(get(&gateway, &place(&conversation)).await, (200, updated));
    let deleted = json!({"id": id(&conversation), "object": "conversation.deleted", "deleted": true});
    assert_eq!(call(&gateway, "DELETE", &place(&conversation), None).await, (200, deleted));
    for (method, suffix, body) in [
        ("GET", "", None),
        ("DELETE", "", None),
        ("POST", "", Some(json!({"metadata": {}}))),
        ("GET", "/items", None),
        ("POST", "/items", Some(json!({"items": []}))),
        ("GET", "/items/msg_1", None),
        ("DELETE", "/items/msg_1", None),
    ] {
        let path = format!("{}{suffix}", place(&conversation));
        let (status, error) = call(&gateway, method, &path, body.as_ref()).await;
        assert_eq!(
            (status, &error["error"]["type"]),
            (404, &json!("invalid_request_error")),
            "{method} {suffix}"
        );
    }
    let body = json!({"model": MODEL, "input": "x", "conversation": id(&conversation)});
    assert_eq!(post(&gateway, &body).await.0, 404);
    for metadata in [json!({"a": 1}), json!([]), json!({"x".repeat(65): "a"}), json!({"a": "x".repeat(513)})]
    {
        let (status, error) =
            call(&gateway, "POST", "/v1/conversations", Some(&json!({"metadata": metadata}))).await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!("metadata")), "{error}");
    }
}

#[tokio::test]
async fn items_are_added_read_and_deleted() {
    let gateway = gateway().await;
    let conversation = new_conversation(&gateway, json!({})).await;
    let path = format!("{}/items", place(&conversation));
    let new = json!({"items": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]});
    let (status, list) = call(&gateway, "POST", &path, Some(&new)).await;
    assert_eq!((status, texts(&list["data"]), &list["has_more"]), (200, vec!["one", "two"], &json!(false)));
    let second = list["data"][1].clone();
    let item_path = format!("{path}/{}", id(&second));
    assert_eq!(get(&gateway, &item_path).await, (200, second));
    assert_eq!(call(&gateway, "DELETE", &item_path, None).await, (200, conversation.clone()));
    assert_eq!(get(&gateway, &item_path).await.0, 404);
    assert_eq!(call(&gateway, "DELETE", &item_path, None).await.0, 404);
    assert_eq!(texts(&items(&gateway, &conversation).await), ["one"]);
    // What no request could contain is refused, and nothing changes.
    let result = json!({"type": "function_call_output", "call_id": "call_1", "output": "x"});
    for invalid in [json!([result]), json!([1]), json!("x"), json!([{"role": "robot", "content": "x"}])] {
        let (status, error) = call(&gateway, "POST", &path, Some(&json!({"items": invalid}))).await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!("items")), "{error}");
    }
    let call_item =
        json!({"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": "{}"});
    let (_, list) = call(&gateway, "POST", &path, Some(&json!({"items": [call_item, result]}))).await;
    let (status, error) = call(&gateway, "DELETE", &format!("{path}/{}", id(&list["data"][0])), None).await;
    assert_eq!((status, &error["error"]["param"]), (400, &json!("item_id")), "{error}");
    assert_eq!(items(&gateway, &conversation).await.as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_response_adds_its_items_to_the_conversation() {
    let store = memory();
    let gateways = [TestGateway::with(settings(&store)).await, TestGateway::with(settings(&store)).await];
    for stream in [false, true] {
        let first = json!([{"role": "user", "content": "zero"}]);
        let conversation = new_conversation(&gateways[0], json!({"items": first})).await;
        let response =
            respond(&gateways[0], &conversation, json!("say one"), json!({"stream": stream})).await;
        assert_eq!(response["conversation"], json!({"id": conversation["id"]}));
        // The form with an object, at another gateway.
        let fields = json!({"conversation": {"id": conversation["id"]}, "stream": stream});
        assert_eq!(
            text(&create(&gateways[1], json!("rounds"), fields).await),
            "Results: value of a | value of b."
        );
        let response = respond(&gateways[0], &conversation, json!("say two"), json!({"store": false})).await;
        assert_eq!(get(&gateways[0], &path_of(&response)).await.0, 404, "only the items are stored");
        let expected = [
            "zero",
            "say one",
            "one",
            "rounds",
            "First.",
            "Second.",
            "Results: value of a | value of b.",
            "say two",
            "two",
        ];
        assert_eq!(texts(&items(&gateways[1], &conversation).await), expected);
        // The model sees the hidden calls, also after items were added.
        let added = json!({"items": [{"role": "user", "content": "added"}]});
        call(&gateways[0], "POST", &format!("{}/items", place(&conversation)), Some(&added)).await;
        respond(&gateways[1], &conversation, json!("say three"), json!({})).await;
        let requests = gateways[1].model.requests();
        let messages = &requests.last().unwrap().messages;
        assert_eq!(messages.iter().flat_map(|message| message.results()).count(), 2, "{messages:?}");
        assert!(last_messages(&gateways[1]).contains("added"));
    }
}

/// A response that fails changes nothing, and the conversation is free again.
#[tokio::test]
async fn a_failed_response_adds_nothing() {
    let gateway = gateway().await;
    let conversation = new_conversation(&gateway, json!({})).await;
    for stream in [false, true] {
        let body =
            json!({"model": MODEL, "input": "broken", "conversation": conversation["id"], "stream": stream});
        http_client()
            .post(gateway.url("/v1/responses"))
            .json(&body)
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap();
        assert_eq!(items(&gateway, &conversation).await, json!([]));
    }
    let mut body = json!({"model": MODEL, "input": "say one", "conversation": conversation["id"]});
    until_free(&gateway, &body).await;
    body["input"] = json!("say two");
    let response = respond(&gateway, &conversation, body["input"].clone(), json!({})).await;
    assert_eq!(text(&response), "two");
}

/// Creates a response as soon as the conversation is free. The lock of a request that failed is released in the
/// background.
async fn until_free(gateway: &TestGateway, body: &Value) -> Value {
    let (status, response) = until_not_locked(gateway, "/v1/responses", body).await;
    assert_eq!(status, 200, "{response}");
    response
}

/// Sends a request again while the conversation is locked.
async fn until_not_locked(gateway: &TestGateway, path: &str, body: &Value) -> (u16, Value) {
    for _ in 0..10_000 {
        let (status, response) = call(gateway, "POST", path, Some(body)).await;
        if response["error"]["code"] != "conversation_locked" {
            return (status, response);
        }
    }
    panic!("the conversation stays locked");
}

#[tokio::test]
async fn one_request_at_a_time_uses_a_conversation() {
    let store = memory();
    let gateways = [TestGateway::with(settings(&store)).await, TestGateway::with(settings(&store)).await];
    let conversation = new_conversation(&gateways[0], json!({})).await;
    let body = json!({"model": MODEL, "input": "wait", "conversation": conversation["id"]});
    let running = tokio::spawn(http_client().post(gateways[0].url("/v1/responses")).json(&body).send());
    while gateways[0].running.now.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    for gateway in &gateways {
        let body = json!({"model": MODEL, "input": "say one", "conversation": conversation["id"]});
        let (status, error) = post(gateway, &body).await;
        assert_eq!((status, &error["error"]["code"]), (409, &json!("conversation_locked")), "{error}");
        for (method, suffix, body) in [
            ("POST", "", Some(json!({"metadata": {}}))),
            ("POST", "/items", Some(json!({"items": []}))),
            ("DELETE", "", None),
        ] {
            let (status, _) =
                call(gateway, method, &format!("{}{suffix}", place(&conversation)), body.as_ref()).await;
            assert_eq!(status, 409, "{method} {suffix}");
        }
        assert_eq!(get(gateway, &place(&conversation)).await.0, 200, "reading is possible");
        let (status, count) = call(gateway, "POST", "/v1/responses/input_tokens", Some(&body)).await;
        assert_eq!((status, &count["object"]), (200, &json!("response.input_tokens")), "{count}");
    }
    // The client leaves, and another gateway continues.
    running.abort();
    let body = json!({"model": MODEL, "input": "say two", "conversation": conversation["id"]});
    assert_eq!(text(&until_free(&gateways[1], &body).await), "two");
    assert_eq!(texts(&items(&gateways[0], &conversation).await), ["say two", "two"]);
}

/// Results of the client's tools and approvals belong to the last response of the conversation.
#[tokio::test]
async fn results_and_approvals_continue_a_conversation() {
    let store = memory();
    let gateways = [TestGateway::with(settings(&store)).await, TestGateway::with(settings(&store)).await];
    let tools = json!([
        {"type": "mcp", "server_label": "demo", "require_approval": "always"},
        {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}},
    ]);
    let fields = json!({"tools": tools});
    let conversation = new_conversation(&gateways[0], json!({})).await;
    let first = respond(&gateways[0], &conversation, json!("client"), fields.clone()).await;
    let call_item =
        first["output"].as_array().unwrap().iter().find(|item| item["type"] == "function_call").unwrap();
    let result =
        json!([{"type": "function_call_output", "call_id": call_item["call_id"], "output": "sunny"}]);
    let second = respond(&gateways[1], &conversation, result, fields.clone()).await;
    assert_eq!(text(&second), "Results: sunny.");
    let asked = respond(&gateways[0], &conversation, json!("ours"), fields.clone()).await;
    let request = asked["output"].as_array().unwrap().last().unwrap();
    assert_eq!(request["type"], "mcp_approval_request");
    let body = json!({"model": MODEL, "input": "say no", "tools": tools, "conversation": conversation["id"]});
    let (status, error) = post(&gateways[1], &body).await;
    assert_eq!((status, &error["error"]["param"]), (400, &json!("input")), "{error}");
    let added = json!({"items": [{"role": "user", "content": "added"}]});
    let path = format!("{}/items", place(&conversation));
    let (status, error) = until_not_locked(&gateways[0], &path, &added).await;
    assert_eq!((status, &error["error"]["param"]), (400, &json!("items")), "{error}");
    let decision =
        json!([{"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": true}]);
    let body = json!({"model": MODEL, "input": decision, "tools": tools, "conversation": conversation["id"]});
    let approved = until_free(&gateways[1], &body).await;
    assert_eq!(text(&approved), "Results: value of a.");
    let bye = respond(&gateways[0], &conversation, json!("say bye"), fields).await;
    assert_eq!(text(&bye), "bye");
    assert!(
        last_messages(&gateways[0]).contains("sunny") && last_messages(&gateways[0]).contains("value of a")
    );
}

/// 27: the conversation of another owner does not exist.
#[tokio::test]
async fn another_owners_conversation_does_not_exist() {
    let keys = ["first-key-0123456789abcdef0123456789", "other-key-0123456789abcdef0123456789"];
    let mut settings = settings(&memory());
    settings.keys = Keys::default().with("first", keys[0]).with("other", keys[1]);
    let gateway = TestGateway::with(settings).await;
    let send = async |key: &str, method: &str, path: &str, body: &Value| {
        let request =
            http_client().request(method.parse().unwrap(), gateway.url(path)).bearer_auth(key).json(body);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let new = json!({"items": [{"role": "user", "content": "secret"}]});
    let (_, conversation) = send(keys[0], "POST", "/v1/conversations", &new).await;
    let conversation: Value = serde_json::from_str(&conversation).unwrap();
    let (_, list) = send(keys[0], "GET", &format!("{}/items", place(&conversation)), &json!({})).await;
    let item = serde_json::from_str::<Value>(&list).unwrap()["data"][0]["id"].as_str().unwrap().to_owned();
    let (own, random) = (id(&conversation), "conv_0123456789ABCDEFGHIJKLMNOPQ");
    let item_path = format!("/items/{item}");
    for (method, suffix, body) in [
        ("GET", "", json!({})),
        ("POST", "", json!({"metadata": {}})),
        ("DELETE", "", json!({})),
        ("GET", "/items", json!({})),
        ("POST", "/items", new),
        ("GET", item_path.as_str(), json!({})),
        ("DELETE", item_path.as_str(), json!({})),
    ] {
        let path = |id: &str| format!("/v1/conversations/{id}{suffix}");
        let foreign = send(keys[1], method, &path(own), &body).await;
        let unknown = send(keys[1], method, &path(random), &body).await;
        assert_eq!(foreign.0, 404, "{method} {suffix}: {}", foreign.1);
        assert_eq!((foreign.0, foreign.1.replace(own, random)), unknown);
    }
    let body = |id: &str| json!({"model": MODEL, "input": "say x", "conversation": id});
    let foreign = send(keys[1], "POST", "/v1/responses", &body(own)).await;
    let unknown = send(keys[1], "POST", "/v1/responses", &body(random)).await;
    assert_eq!((foreign.0, foreign.1.replace(own, random)), unknown);
    assert_eq!(foreign.0, 404);
    // The id of a response is not that of a conversation.
    let (_, response) =
        send(keys[0], "POST", "/v1/responses", &json!({"model": MODEL, "input": "say x"})).await;
    let response: Value = serde_json::from_str(&response).unwrap();
    let path = format!("/v1/conversations/{}", id(&response));
    assert_eq!(send(keys[0], "GET", &path, &json!({})).await.0, 404);
    for method in ["GET", "DELETE"] {
        assert_eq!(
            send(keys[0], method, &format!("/v1/responses/{own}"), &json!({})).await.0,
            404,
            "{method}"
        );
    }
    let next = json!({"model": MODEL, "input": "say x", "previous_response_id": own});
    assert_eq!(send(keys[0], "POST", "/v1/responses", &next).await.0, 400);
    assert_eq!(send(keys[0], "GET", &place(&conversation), &json!({})).await.0, 200);
}
