//! Thinking and long conversations through the gateway. The fake providers reject what the real ones reject.

#![allow(clippy::unwrap_used)]

#[path = "../../gateway/tests/client/mod.rs"]
mod client;
mod served_gateway;

use client::{CHAT, Client, MESSAGES, RESPONSES};
use serde_json::{Value, json};
use served_gateway::{Served, answer, call, serve_with};
use toolwire_gateway::GatewaySettings;
use toolwire_testkit::provider::{Api, ModelOutput, Script, ScriptedResponse};

const PATHS: [&str; 3] = [CHAT, RESPONSES, MESSAGES];

/// The size of the context window of the provider, in tokens.
const WINDOW: u64 = 16_000;

/// Providers that sign the model's thinking, and the field of the signature.
const SIGNING: [(Api, &str); 4] = [
    (Api::Anthropic, "signature"),
    (Api::Bedrock, "signature"),
    (Api::Gemini, "thoughtSignature"),
    (Api::Responses, "encrypted_content"),
];

/// A client that asks for thinking in the way of its API.
fn thinking_client(served: &Served, path: &'static str, stream: bool) -> Client {
    let mut client = Client::new(format!("{}{path}", served.url), path);
    client.stream = stream;
    client.extra = match path {
        CHAT => json!({"reasoning_effort": "medium"}),
        RESPONSES => json!({"reasoning": {"effort": "medium", "summary": "auto"}}),
        _ => json!({"thinking": {"type": "enabled", "budget_tokens": 2_000}, "max_tokens": 4_000}),
    };
    client
}

/// Runs a test with every API of a client and every provider that signs thinking, complete and streamed.
async fn with_signing(outputs: &[ModelOutput], test: impl AsyncFn(&Served, Client, &str, &str)) {
    for (api, signature) in SIGNING {
        for path in PATHS {
            for stream in [false, true] {
                let outputs = outputs.iter().cloned().map(ScriptedResponse::Output);
                let mut settings = GatewaySettings::default();
                settings.show_reasoning = true;
                let served = serve_with(api, Script::new(outputs), model(api), settings).await;
                let label = format!("{} behind {path}, stream: {stream}", api.provider_name());
                test(&served, thinking_client(&served, path, stream), signature, &label).await;
                assert_eq!(served.provider.rejections(), [], "{label}");
                assert_eq!(served.provider.responses_left(), 0, "{label}");
            }
        }
    }
}

/// Only models of this generation of Gemini return signatures.
fn model(api: Api) -> Value {
    if api == Api::Gemini { json!({"model": "gemini-3-pro"}) } else { json!({}) }
}

/// LangChain adds an empty text before calls, which Anthropic rejects.
#[tokio::test]
async fn empty_text_before_calls_is_left_out() {
    let outputs = [ScriptedResponse::Output(answer("Done."))];
    let served =
        serve_with(Api::Anthropic, Script::new(outputs), json!({}), GatewaySettings::default()).await;
    let mut client = Client::new(format!("{}{MESSAGES}", served.url), MESSAGES);
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}});
    client.history = vec![
        json!({"role": "user", "content": "go"}),
        json!({"role": "assistant", "content": [{"type": "text", "text": ""}, call]}),
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"}]}),
    ];
    assert_eq!(client.send().await.text, "Done.");
    let sent = served.provider.requests()[0].body["messages"][1]["content"].clone();
    assert_eq!((sent.as_array().unwrap().len(), &sent[0]["type"]), (1, &json!("tool_use")), "{sent}");
    assert_eq!(served.provider.rejections(), []);
}

/// The client gets the thinking in the form of its API, and sends it back in the next turn.
#[tokio::test]
async fn thinking_is_passed_in_the_form_of_each_api() {
    let outputs = [answer("Done.").thinking("Let me think."), answer("Again.")];
    with_signing(&outputs, async |_, mut client, _, label| {
        let reply = client.say("think").await;
        assert_eq!((&*reply.thinking, &*reply.text), ("Let me think.", "Done."), "{label}");
        let sent = client.history.last().unwrap().to_string();
        assert!(!sent.contains("thinking\":\"\""), "{label}: {sent}");
        assert_eq!(client.say("and again").await.text, "Again.", "{label}");
    })
    .await;
}

/// The signed thinking before calls returns to the provider, whatever the API of the client can carry.
#[tokio::test]
async fn signed_thinking_returns_with_the_results_of_calls() {
    let outputs = [
        call("lookup").thinking("First thought."),
        call("get_weather").thinking("Second thought."),
        answer("It is sunny."),
        answer("Again."),
    ];
    with_signing(&outputs, async |served, mut client, signature, label| {
        let reply = client.say("weather").await;
        assert_eq!(reply.calls.len(), 1, "{label}: {reply:?}");
        assert!(reply.thinking.ends_with("Second thought."), "{label}: {reply:?}");
        client.return_results(&[(&reply.calls[0].0, "sunny")]);
        assert!(client.send().await.text.ends_with("It is sunny."), "{label}");
        let requests = served.provider.requests();
        let signatures = |index: usize| {
            let body = requests[index].body.to_string();
            let (field, empty) = (format!("\"{signature}\":\""), format!("\"{signature}\":\"\""));
            (body.matches(&field).count(), body.matches(&empty).count())
        };
        assert_eq!([0, 1, 2].map(signatures), [(0, 0), (1, 0), (2, 0)], "{label}: {:#}", requests[2].body);
        assert!(client.say("and again").await.text.ends_with("Again."), "{label}");
    })
    .await;
}

/// A turn with two calls of the client's tools and their long results.
fn turn(path: &str, number: usize) -> Vec<Value> {
    let record = r#"{"id": 4711, "state": "open", "changed": "2026-11-17"},"#.repeat(30);
    let ids = [format!("call_{number:05}a"), format!("call_{number:05}b")];
    let question = json!({"role": "user", "content": format!("Question {number}.")});
    let answer = json!({"role": "assistant", "content": format!("Answer {number}.")});
    let mut messages = vec![question];
    match path {
        CHAT => {
            let calls: Vec<Value> = ids.iter().map(|id| json!({"id": id, "type": "function", "function": {"name": "get_weather", "arguments": "{}"}})).collect();
            messages.push(json!({"role": "assistant", "content": null, "tool_calls": calls}));
            messages
                .extend(ids.iter().map(|id| json!({"role": "tool", "tool_call_id": id, "content": record})));
        }
        RESPONSES => {
            messages.extend(ids.iter().map(|id| json!({"type": "function_call", "call_id": id, "name": "get_weather", "arguments": "{}"})));
            messages.extend(
                ids.iter().map(|id| json!({"type": "function_call_output", "call_id": id, "output": record})),
            );
        }
        _ => {
            let calls: Vec<Value> = ids
                .iter()
                .map(|id| json!({"type": "tool_use", "id": id, "name": "get_weather", "input": {}}))
                .collect();
            let results: Vec<Value> = ids
                .iter()
                .map(|id| json!({"type": "tool_result", "tool_use_id": id, "content": record}))
                .collect();
            messages.push(json!({"role": "assistant", "content": calls}));
            messages.push(json!({"role": "user", "content": results}));
        }
    }
    messages.push(answer);
    messages
}

fn long_client(served: &Served, path: &'static str) -> Client {
    let mut client = Client::new(format!("{}{path}", served.url), path);
    client.history = (0..25).flat_map(|number| turn(path, number)).collect();
    client
}

/// A history that is longer than the window is shortened, and the request is not refused. If the window is
/// unknown, only the first request is, whether the provider states the window or not: what was learned holds
/// for all clients. Calls stay with their results, which the provider checks.
#[tokio::test]
async fn a_long_history_is_shortened() {
    for api in Api::ALL {
        for path in PATHS {
            for is_known in [true, false] {
                let outputs = [call("lookup"), answer("It is found."), answer("Again."), answer("Hello.")];
                let script = Script::new(outputs.map(ScriptedResponse::Output)).with_window(WINDOW, false);
                let window = if is_known { json!(WINDOW) } else { Value::Null };
                let config = json!({"contextTokens": window});
                let served = serve_with(api, script, config, GatewaySettings::default()).await;
                let mut client = long_client(&served, path);
                let label = format!("{} behind {path}, known: {is_known}", api.provider_name());
                let reply = client.say("The last question.").await;
                assert!(reply.text.ends_with("It is found."), "{label}: {reply:?}");
                let refused = served.provider.rejections().len();
                let expected = if is_known { 0..=0 } else { 1..=5 };
                assert!(expected.contains(&refused), "{label}: {refused} requests were refused");
                assert!(client.say("And another one.").await.text.ends_with("Again."), "{label}");
                let mut another = long_client(&served, path);
                assert!(another.say("The last question.").await.text.ends_with("Hello."), "{label}");
                assert_eq!(served.provider.rejections().len(), refused, "{label}");
                assert_eq!(served.provider.responses_left(), 0, "{label}");
                let requests = served.provider.requests();
                let accepted = requests.iter().filter(|request| request.rejection.is_none());
                for request in accepted {
                    let text = String::from_utf8_lossy(&request.bytes);
                    assert!(text.contains("The last question."), "{label}: {text}");
                    assert!(!text.contains("Question 0."), "{label}: {text}");
                }
            }
        }
    }
}

/// A single message that is longer than the window cannot be shortened. The error is that of the client's
/// API.
#[tokio::test]
async fn a_message_that_is_longer_than_the_window_is_an_error() {
    for api in [Api::OpenAiChat, Api::Responses, Api::Anthropic, Api::Gemini] {
        for path in PATHS {
            let script = Script::new([]).with_window(WINDOW, false);
            let config = json!({"contextTokens": WINDOW});
            let served = serve_with(api, script, config, GatewaySettings::default()).await;
            let mut client = Client::new(format!("{}{path}", served.url), path);
            client.history.push(json!({"role": "user", "content": "many words ".repeat(8_000)}));
            let (status, error) = client.post(&client.body()).await;
            let label = format!("{} behind {path}: {error}", api.provider_name());
            assert_eq!((status, &error["error"]["type"]), (400, &json!("invalid_request_error")), "{label}");
            if path == MESSAGES {
                assert_eq!(error["type"], "error", "{label}");
            } else {
                assert_eq!(error["error"]["code"], "context_length_exceeded", "{label}");
            }
        }
    }
}
