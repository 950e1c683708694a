//! Ids that a caller does not have, and requests that contradict themselves.

use serde_json::{Value, json};
use toolwire_gateway::{GatewaySettings, Keys};
use toolwire_testkit::http_client;

use super::*;

const KEYS: [&str; 3] = [
    "first-key-0123456789abcdef0123456789",
    "second-key-0123456789abcdef012345678",
    "third-key-0123456789abcdef0123456789",
];

/// Sends a request with a key, and returns the response as text.
async fn send(
    gateway: &TestGateway,
    key: &str,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> (u16, String) {
    let request = http_client().request(method.parse().unwrap(), gateway.url(path)).bearer_auth(key);
    let request = match body {
        Some(body) => request.json(body),
        None => request,
    };
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

/// Security rule 27: the id of another owner's response gets the same error as one that does not exist.
#[tokio::test]
async fn another_owners_response_does_not_exist() {
    let mut settings = settings(&memory());
    let [first, second, third] = KEYS;
    let keys = Keys::default().with("first", first).with_tenant("acme");
    settings.keys = keys.with("second", second).with_tenant("acme").with("third", third);
    let gateway = TestGateway::with(settings).await;
    let body = json!({"model": MODEL, "input": "say secret"});
    let (_, response) = send(&gateway, first, "POST", "/v1/responses", Some(&body)).await;
    let response: Value = serde_json::from_str(&response).unwrap();
    let random = "resp_0123456789ABCDEFGHIJKLMNOPQ";
    for (method, suffix) in [("GET", ""), ("GET", "/input_items"), ("GET", "?stream=false"), ("DELETE", "")] {
        let path = |id: &str| format!("/v1/responses/{id}{suffix}");
        let foreign = send(&gateway, third, method, &path(id(&response)), None).await;
        let unknown = send(&gateway, third, method, &path(random), None).await;
        assert_eq!(foreign.0, 404, "{method} {suffix}: {}", foreign.1);
        assert_eq!((foreign.0, foreign.1.replace(id(&response), random)), unknown);
    }
    let next = |id: &str| json!({"model": MODEL, "input": "say again", "previous_response_id": id});
    let foreign = send(&gateway, third, "POST", "/v1/responses", Some(&next(id(&response)))).await;
    let unknown = send(&gateway, third, "POST", "/v1/responses", Some(&next(random))).await;
    assert_eq!((foreign.0, foreign.1.replace(id(&response), random)), unknown);
    let error: Value = serde_json::from_str(&unknown.1).unwrap();
    assert_eq!(
        (unknown.0, &error["error"]["code"], &error["error"]["param"]),
        (400, &json!("previous_response_not_found"), &json!("previous_response_id"))
    );
    assert!(!last_messages(&gateway).contains("again"));
    // Keys of one tenant share responses.
    assert_eq!(send(&gateway, second, "GET", &path_of(&response), None).await.0, 200);
    assert_eq!(send(&gateway, second, "POST", "/v1/responses", Some(&next(id(&response)))).await.0, 200);
    // Without a key, a gateway does not find the responses of a key.
    assert_eq!(send(&gateway, "no-key", "GET", &path_of(&response), None).await.0, 401);
}

#[tokio::test]
async fn an_id_can_be_any_text() {
    let gateway = gateway().await;
    let long = "a".repeat(5_000);
    for id in ["", "x", "resp_", "../x", "resp_\u{0}", "é", "{a}", "a:b", &long] {
        let body = json!({"model": MODEL, "input": "x", "previous_response_id": id});
        let (status, error) = post(&gateway, &body).await;
        assert_eq!(
            (status, &error["error"]["code"]),
            (400, &json!("previous_response_not_found")),
            "{error}"
        );
        assert!(error["error"]["message"].as_str().unwrap().len() < 600, "{error}");
    }
    for path in
        ["/v1/responses/%00", "/v1/responses/%7Ba%7D", "/v1/responses/a:b", "/v1/responses/a:b/input_items"]
    {
        assert_eq!(get(&gateway, path).await.0, 404, "{path}");
    }
    for id in [json!(1), json!(true), json!({}), json!(["x"])] {
        let body = json!({"model": MODEL, "input": "x", "previous_response_id": id});
        let (status, error) = post(&gateway, &body).await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!("previous_response_id")), "{error}");
    }
    assert_eq!(gateway.model.requests().len(), 0);
}

#[tokio::test]
async fn a_response_and_a_conversation_cannot_both_be_continued() {
    let gateway = gateway().await;
    let first = create(&gateway, json!("say one"), json!({})).await;
    for conversation in [json!("conv_1"), json!({"id": "conv_1"})] {
        let body = json!({"model": MODEL, "input": "x", "previous_response_id": id(&first), "conversation": conversation});
        let (status, error) = post(&gateway, &body).await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!("previous_response_id")), "{error}");
    }
}

/// Without a store, the API works as far as it can.
#[tokio::test]
async fn without_a_store_nothing_is_found() {
    let gateway = TestGateway::with(GatewaySettings::default()).await;
    let response = create(&gateway, json!("say hi"), json!({"store": true})).await;
    for (method, suffix) in [("GET", ""), ("DELETE", ""), ("GET", "/input_items")] {
        assert_eq!(call(&gateway, method, &format!("{}{suffix}", path_of(&response)), None).await.0, 404);
    }
    let body = json!({"model": MODEL, "input": "x", "previous_response_id": id(&response)});
    let (status, error) = post(&gateway, &body).await;
    assert_eq!((status, &error["error"]["code"]), (400, &json!("previous_response_not_found")));
}
