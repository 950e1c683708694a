//! Items of the Responses API that a request only refers to, and refusals in each API.

#![allow(clippy::unwrap_used)]

mod client;
mod support;

use client::{CHAT, Client, MESSAGES, RESPONSES, text};
use serde_json::{Value, json};
use support::{MODEL, TestGateway};
use toolwire_testkit::http_client;

async fn post(gateway: &TestGateway, body: &Value) -> (u16, Value) {
    let response = http_client().post(gateway.url(RESPONSES)).json(body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// A client that believes its responses stored sends references. A reference may lack its type.
#[tokio::test]
async fn references_to_items_are_resolved() {
    let gateway = TestGateway::start().await;
    let tools = json!([
        {"type": "mcp", "server_label": "demo", "require_approval": "never"},
        {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}},
    ]);
    let question = json!({"role": "user", "content": "mixed"});
    let (_, response) = post(&gateway, &json!({"model": MODEL, "input": [question], "tools": tools})).await;
    let output = response["output"].as_array().unwrap();
    let mut input = vec![question];
    for item in output {
        input.push(match item["type"].as_str().unwrap() {
            "function_call" => json!({"id": item["id"]}),
            _ => json!({"type": "item_reference", "id": item["id"]}),
        });
    }
    let call = output.iter().find(|item| item["type"] == "function_call").unwrap();
    input.push(json!({"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}));
    let (status, response) = post(&gateway, &json!({"model": MODEL, "input": input, "tools": tools})).await;
    assert_eq!(status, 200, "{response}");
    let last = response["output"].as_array().unwrap().last().unwrap();
    assert_eq!(last["content"][0]["text"], "Results: value of a | sunny | value of b.");
}

#[tokio::test]
async fn an_unknown_reference_is_refused() {
    let gateway = TestGateway::start().await;
    let question = json!({"role": "user", "content": "say hi"});
    let not_stored = json!({"model": MODEL, "input": [question], "store": false});
    let (_, response) = post(&gateway, &not_stored).await;
    for id in [response["output"][0]["id"].as_str().unwrap(), "msg_unknown"] {
        let input = json!([question, {"type": "item_reference", "id": id}, question]);
        let (status, error) = post(&gateway, &json!({"model": MODEL, "input": input})).await;
        let message = text(&error["error"]["message"]);
        assert_eq!((status, &error["error"]["param"]), (400, &json!("input[1].id")), "{error}");
        assert!(message.contains(id) && message.contains("store: false"), "{message}");
    }
}

/// A refusal has its own place in each API, also with a required form of the response.
#[tokio::test]
async fn refusals_have_the_form_of_each_api() {
    let gateway = TestGateway::start().await;
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    for has_form in [false, true] {
        let post = async |path: &'static str, stream: bool| {
            let mut client = Client::new(gateway.url(path), path);
            client.history.push(json!({"role": "user", "content": "refuse"}));
            let mut body = client.body();
            body["stream"] = json!(stream);
            if has_form && path == CHAT {
                body["response_format"] =
                    json!({"type": "json_schema", "json_schema": {"name": "f", "schema": schema}});
            }
            if has_form && path == RESPONSES {
                body["text"] = json!({"format": {"type": "json_schema", "name": "f", "schema": schema}});
            }
            let response = http_client().post(gateway.url(path)).json(&body).send().await.unwrap();
            assert_eq!(response.status(), 200);
            response.text().await.unwrap()
        };
        let whole = async |path| serde_json::from_str::<Value>(&post(path, false).await).unwrap();
        let chat = whole(CHAT).await;
        let choice = &chat["choices"][0];
        assert_eq!(
            (&choice["message"]["refusal"], &choice["message"]["content"], &choice["finish_reason"]),
            (&json!("I cannot help."), &Value::Null, &json!("stop")),
            "{chat}"
        );
        let response = whole(RESPONSES).await;
        let part = &response["output"][0]["content"][0];
        assert_eq!(
            (&part["type"], &part["refusal"]),
            (&json!("refusal"), &json!("I cannot help.")),
            "{response}"
        );
        assert_eq!(response["status"], "completed");
        let message = whole(MESSAGES).await;
        assert_eq!(message["stop_reason"], "refusal", "{message}");
        let stream = post(CHAT, true).await;
        assert!(stream.contains(r#""delta":{"refusal":"I cannot "}"#), "{stream}");
        let stream = post(RESPONSES, true).await;
        assert!(
            stream.contains("response.refusal.delta") && stream.contains("response.refusal.done"),
            "{stream}"
        );
    }
}
