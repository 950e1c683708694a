//! References to items of the Responses API, and the stop reasons of each API.

use crate::client::{CHAT, Client, MESSAGES, RESPONSES, text};
use crate::support::{MODEL, TestGateway};
use serde_json::{Value, json};
use toolwire_gateway::{GatewaySettings, Keys};
use toolwire_testkit::http_client;

async fn post(gateway: &TestGateway, body: &Value) -> (u16, Value) {
    let response = http_client().post(gateway.url(RESPONSES)).json(body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// A client that assumes that its responses are stored sends references. A reference may have no `type`.
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

/// A refusal is written in the format of each API, with and without structured output.
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

/// The stop sequence that ended a response is named where the API has a place for it.
#[tokio::test]
async fn a_stop_sequence_is_named() {
    let gateway = TestGateway::start().await;
    for stream in [false, true] {
        let mut client = Client::new(gateway.url(MESSAGES), MESSAGES);
        client.stream = stream;
        assert_eq!(client.say("sequence").await.stop, "stop_sequence");
        let mut client = Client::new(gateway.url(CHAT), CHAT);
        client.stream = stream;
        assert_eq!(client.say("sequence").await.stop, "stop");
    }
    let body =
        json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "sequence"}]});
    let response = http_client().post(gateway.url(MESSAGES)).json(&body).send().await.unwrap();
    let message: Value = response.json().await.unwrap();
    assert_eq!(message["stop_sequence"], "two", "{message}");
}

/// An assistant message at the end of a request can be continued only by a provider that gets the request
/// unchanged.
#[tokio::test]
async fn a_message_of_the_assistant_at_the_end_is_refused() {
    let gateway = TestGateway::start().await;
    for path in [CHAT, RESPONSES, MESSAGES] {
        let mut client = Client::new(gateway.url(path), path);
        client.history =
            vec![json!({"role": "user", "content": "say hi"}), json!({"role": "assistant", "content": "h"})];
        let (status, error) = client.post(&client.body()).await;
        let message = text(&error["error"]["message"]);
        assert_eq!(status, 400, "{path}: {error}");
        assert!(message.contains("the last message must be a user message; hint: "), "{path}: {message}");
    }
}

/// Anthropic's API requires the signed thinking before calls. If it is lost, the conversation continues
/// without thinking.
#[tokio::test]
async fn a_conversation_continues_without_its_thinking() {
    let gateway = TestGateway::start().await;
    let question = json!({"role": "user", "content": "client"});
    let call = json!({"type": "tool_use", "id": "toolu_gone", "name": "get_weather", "input": {}});
    let calls = |blocks: Vec<Value>| {
        let result = json!({"type": "tool_result", "tool_use_id": "toolu_gone", "content": "sunny"});
        json!([question, {"role": "assistant", "content": blocks}, {"role": "user", "content": [result]}])
    };
    let unsigned = json!({"type": "thinking", "thinking": "hm", "signature": ""});
    let signed = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    for (messages, expected) in [
        (json!([question]), Some(2_000)),
        (calls(vec![call.clone()]), None),
        (calls(vec![unsigned, call.clone()]), None),
        (calls(vec![signed, call]), Some(2_000)),
    ] {
        let tool = json!({"name": "get_weather", "input_schema": {"type": "object"}});
        let thinking = json!({"type": "enabled", "budget_tokens": 2_000});
        let body = json!({
            "model": "anthropic/scripted", "max_tokens": 4_000, "messages": messages, "thinking": thinking, "tools": [tool],
        });
        let response = http_client().post(gateway.url(MESSAGES)).json(&body).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let requests = gateway.model.requests();
        assert_eq!(requests.last().unwrap().generation.thinking_tokens, expected, "{messages}");
    }
}

/// What one key stores does not remove what another key has stored: items, hidden messages and paused runs.
#[tokio::test]
async fn one_key_does_not_remove_the_state_of_another() {
    const KEYS: [&str; 2] = ["tw_0123456789abcdef0123456789abcdef", "tw_other456789abcdef0123456789abcdef"];
    let mut settings = GatewaySettings::default();
    settings.keys = Keys::default().with("one", KEYS[0]).with("two", KEYS[1]);
    settings.limits.state_bytes = 60_000;
    let gateway = TestGateway::with(settings).await;
    let post = async |key: &str, input: &[Value], approval: &str| {
        let tools = json!([
            {"type": "mcp", "server_label": "demo", "require_approval": approval},
            {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}},
        ]);
        let body = json!({"model": MODEL, "input": input, "tools": tools});
        let request = http_client().post(gateway.url(RESPONSES)).header("x-api-key", key).json(&body);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    let user = |text: &str| json!({"role": "user", "content": text});
    let filler = "x".repeat(1_000);
    // The client sends back only references to its items.
    let references = |response: &Value| -> Vec<Value> {
        let output = response["output"].as_array().unwrap().iter();
        output.map(|item| json!({"type": "item_reference", "id": item["id"]})).collect()
    };
    let of_type = |response: &Value, name: &str| {
        response["output"].as_array().unwrap().iter().find(|item| item["type"] == name).unwrap().clone()
    };
    let (_, mixed) = post(KEYS[0], &[user("mixed")], "never").await;
    let (_, paused) = post(KEYS[0], &[user("ours")], "always").await;
    for _ in 0..40 {
        for (scenario, approval) in [("mixed", "never"), ("ours", "always")] {
            let (status, response) =
                post(KEYS[1], &[user(&filler), user(&filler), user(scenario)], approval).await;
            assert_eq!(status, 200, "{response}");
        }
    }
    let mut input = vec![user("mixed")];
    input.extend(references(&mixed));
    let call = of_type(&mixed, "function_call")["call_id"].clone();
    input.push(json!({"type": "function_call_output", "call_id": call, "output": "sunny"}));
    let (status, response) = post(KEYS[0], &input, "never").await;
    assert_eq!(status, 200, "the items are still there: {response}");
    let text = &of_type(&response, "message")["content"][0]["text"];
    assert_eq!(text, "Results: value of a | sunny | value of b.");
    let id = of_type(&paused, "mcp_approval_request")["id"].clone();
    let approval = json!({"type": "mcp_approval_response", "approval_request_id": id, "approve": true});
    let (status, response) = post(KEYS[0], &[user("ours"), approval], "always").await;
    assert_eq!(status, 200, "the run is still there: {response}");
}
