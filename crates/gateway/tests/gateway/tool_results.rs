//! Results of the client's tools: in any order, and only for calls that exist.

use crate::client::{CHAT, Client, MESSAGES, RESPONSES, text};
use crate::support::TestGateway;
use serde_json::{Value, json};
use toolwire_testkit::http_client;

/// If a client returns parallel calls as call, result, call, result, the hidden calls are inserted once.
#[tokio::test]
async fn calls_and_results_can_alternate() {
    let gateway = TestGateway::start().await;
    let mut client = Client::new(gateway.url(RESPONSES), RESPONSES);
    let reply = client.say("mixed-clients").await;
    assert_eq!(reply.calls.len(), 2, "{reply:?}");
    let items = client.history.split_off(1);
    for (item, result) in items.into_iter().zip(["sunny", "noon"]) {
        let id = text(&item["call_id"]);
        client.history.push(item);
        client.return_results(&[(&id, result)]);
    }
    assert_eq!(client.send().await.text, "Results: value of a | sunny | noon.");
    let requests = gateway.model.requests();
    let calls: usize = requests.last().unwrap().messages.iter().map(|message| message.calls().count()).sum();
    assert_eq!(calls, 3);
}

/// A result may follow later messages of the user.
#[tokio::test]
async fn a_result_returns_to_its_call() {
    let gateway = TestGateway::start().await;
    for path in [CHAT, RESPONSES, MESSAGES] {
        let mut client = Client::new(gateway.url(path), path);
        let reply = client.say("client").await;
        client.history.push(json!({"role": "user", "content": "say on"}));
        client.return_results(&[(&reply.calls[0].0, "sunny")]);
        assert_eq!(client.send().await.text, "on", "{path}");
        let requests = gateway.model.requests();
        let last = requests.last().unwrap().messages.last().unwrap().clone();
        let errors: Vec<bool> = last.results().map(|(_, result)| result.is_error()).collect();
        assert_eq!((errors, last.content.len()), (vec![false], 2), "{path}: {last:?}");
    }
}

#[tokio::test]
async fn a_result_without_a_call_is_refused() {
    let gateway = TestGateway::start().await;
    for path in [CHAT, RESPONSES, MESSAGES] {
        for (calls, expected) in
            [(false, "`call_x`, which no earlier message has"), (true, "a second result of the call")]
        {
            let mut client = Client::new(gateway.url(path), path);
            let mut id = "call_x".to_owned();
            if calls {
                id = client.say("client").await.calls[0].0.clone();
                client.return_results(&[(&id, "sunny")]);
            } else {
                client.history.push(json!({"role": "user", "content": "say hi"}));
            }
            client.return_results(&[(&id, "sunny")]);
            let before = gateway.model.requests().len();
            let (status, error) = client.post(&client.body()).await;
            let message = text(&error["error"]["message"]);
            assert_eq!(status, 400, "{path}: {error}");
            assert!(message.contains(expected) && message.contains(&id), "{path}: {message}");
            assert_eq!(gateway.model.requests().len(), before, "{path}");
        }
    }
}

/// The deprecated form of tools has no ids, and one call per message.
#[tokio::test]
async fn functions_are_tools() {
    let gateway = TestGateway::start().await;
    let functions = json!([{"name": "get_weather", "parameters": {"type": "object"}}, {"name": "get_time"}]);
    for model in ["scripted", "openai", "anthropic"] {
        let post = async |messages: &Value, choice: &str| {
            let body = json!({"model": model, "messages": messages, "functions": functions, "function_call": choice});
            let request = http_client().post(gateway.url("/v1/chat/completions")).json(&body);
            let response = request.send().await.unwrap();
            let (status, body) = (response.status().as_u16(), response.json::<Value>().await.unwrap());
            assert_eq!(status, 200, "{model}: {body}");
            body["choices"][0].clone()
        };
        // The model calls two functions, and a message can have only one of them.
        let question = json!({"role": "user", "content": "clients"});
        let choice = post(&json!([question]), "auto").await;
        let call = json!({"name": "get_weather", "arguments": "{\"city\":\"Paris\"}"});
        assert_eq!(
            (&choice["finish_reason"], &choice["message"]["function_call"]),
            (&json!("function_call"), &call)
        );
        assert_eq!(choice["message"].get("tool_calls"), None);
        let result = json!({"role": "function", "name": "get_weather", "content": "sunny"});
        // Some clients add an empty list.
        let mut choice = choice;
        choice["message"]["tool_calls"] = json!([]);
        let choice = post(&json!([question, choice["message"], result]), "auto").await;
        assert_eq!(choice["message"]["content"], "Results: sunny.", "{model}: {choice}");
        let request = gateway.model.requests().pop().unwrap();
        assert_eq!(request.tools.iter().filter(|tool| tool.name == "get_time").count(), 1);
        let fields = request.verbatim.iter().flat_map(|verbatim| &verbatim.fields);
        assert!(fields.into_iter().all(|(name, _)| !name.starts_with("function")), "{model}");
    }
}

/// Calls of functions have no ids, so hidden messages could not be found again. They do not replace stored
/// ones.
#[tokio::test]
async fn hidden_messages_are_not_stored_for_functions() {
    let mut settings = toolwire_gateway::GatewaySettings::default();
    // Enough for one response.
    settings.limits.state_bytes = 900;
    let gateway = TestGateway::with(settings).await;
    let mut client = Client::new(gateway.url(CHAT), CHAT);
    let reply = client.say("mixed").await;
    let body = json!({
        "model": "scripted", "messages": [{"role": "user", "content": "late"}],
        "functions": [{"name": "get_weather"}],
    });
    let (status, response) = client.post(&body).await;
    assert_eq!(
        (status, &response["choices"][0]["finish_reason"]),
        (200, &json!("function_call")),
        "{response}"
    );
    client.return_results(&[(&reply.calls[0].0, "sunny")]);
    assert_eq!(client.send().await.text, "Results: value of a | sunny | value of b.");
}
