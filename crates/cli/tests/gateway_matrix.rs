//! Every API of a client with every API of a provider. The fake providers reject what the real ones reject.

#![allow(clippy::unwrap_used)]

#[path = "../../gateway/tests/client/mod.rs"]
mod client;
mod served_gateway;

use client::{CHAT, Client, MESSAGES, RESPONSES, Reply};
use serde_json::{Value, json};
use served_gateway::{answer, call, serve, serve_script};
use toolwire_testkit::provider::{
    API_KEY, Api, FinishReason, ModelOutput, ReceivedRequest, Script, ScriptedResponse,
};

/// Runs a test with every API of a client, complete and streamed.
async fn with_every_client(api: Api, outputs: &[ModelOutput], test: impl AsyncFn(&mut Client, &str)) {
    for path in [CHAT, RESPONSES, MESSAGES] {
        for stream in [false, true] {
            let outputs = outputs.iter().map(|output| ScriptedResponse::Output(output.clone())).collect();
            let served = serve(api, outputs).await;
            let mut client = Client::new(format!("{}{path}", served.url), path);
            client.stream = stream;
            let label = format!("{} behind {path}, stream: {stream}", api.provider_name());
            test(&mut client, &label).await;
            assert_eq!(served.provider.rejections(), [], "{label}");
            assert_eq!(served.provider.responses_left(), 0, "{label}");
        }
    }
}

fn check(reply: &Reply, text: &str, label: &str) {
    assert!(reply.text.ends_with(text), "{label}: {reply:?}");
    assert_eq!(reply.calls, [], "{label}");
}

#[tokio::test]
async fn texts_and_a_second_turn() {
    for api in Api::ALL {
        with_every_client(api, &[answer("Hello."), answer("Again.")], async |client, label| {
            check(&client.say("hi").await, "Hello.", label);
            check(&client.say("and again").await, "Again.", label);
        })
        .await;
    }
}

#[tokio::test]
async fn tools_of_servers() {
    for api in Api::ALL {
        let outputs = [call("lookup"), answer("It is found."), answer("Again.")];
        with_every_client(api, &outputs, async |client, label| {
            check(&client.say("look").await, "It is found.", label);
            check(&client.say("and again").await, "Again.", label);
        })
        .await;
    }
}

#[tokio::test]
async fn tools_of_the_client() {
    for api in Api::ALL {
        let outputs = [call("get_weather"), answer("It is sunny."), answer("Again.")];
        with_every_client(api, &outputs, async |client, label| {
            let reply = client.say("weather").await;
            assert_eq!(reply.calls.len(), 1, "{label}: {reply:?}");
            client.return_results(&[(&reply.calls[0].0, "sunny")]);
            check(&client.send().await, "It is sunny.", label);
            check(&client.say("and again").await, "Again.", label);
        })
        .await;
    }
}

#[tokio::test]
async fn tools_of_both_in_one_step() {
    for api in Api::ALL {
        let both = call("lookup").call("call00002", "get_weather", "{}").call("call00003", "lookup", "{}");
        let outputs = [both, answer("Both."), answer("Again.")];
        with_every_client(api, &outputs, async |client, label| {
            let reply = client.say("both").await;
            assert_eq!(reply.calls.len(), 1, "{label}: {reply:?}");
            client.return_results(&[(&reply.calls[0].0, "sunny")]);
            check(&client.send().await, "Both.", label);
            check(&client.say("and again").await, "Again.", label);
        })
        .await;
    }
}

#[tokio::test]
async fn images_of_results() {
    for api in Api::ALL {
        let outputs = [call("picture"), answer("A dot.")];
        with_every_client(api, &outputs, async |client, label| {
            check(&client.say("picture").await, "A dot.", label);
        })
        .await;
    }
}

#[tokio::test]
async fn responses_that_are_cut_off() {
    for api in Api::ALL {
        let outputs = [ModelOutput::text("This is too").finish(FinishReason::Length)];
        with_every_client(api, &outputs, async |client, label| {
            let reply = client.say("long").await;
            assert!(
                matches!(reply.stop.as_str(), "length" | "incomplete" | "max_tokens"),
                "{label}: {reply:?}"
            );
        })
        .await;
    }
}

#[tokio::test]
async fn refusals() {
    for api in Api::ALL {
        let refusal = ModelOutput::text("I cannot help.").finish(FinishReason::Refusal);
        with_every_client(api, &[refusal, answer("Again.")], async |client, label| {
            let reply = client.say("help").await;
            assert_eq!((reply.text.as_str(), &reply.calls[..]), ("I cannot help.", &[][..]), "{label}");
            check(&client.say("and again").await, "Again.", label);
        })
        .await;
    }
}

#[tokio::test]
async fn reasoning() {
    for api in Api::ALL {
        let outputs = [answer("Done.").thinking("Let me think."), answer("Again.")];
        with_every_client(api, &outputs, async |client, label| {
            check(&client.say("think").await, "Done.", label);
            check(&client.say("and again").await, "Again.", label);
        })
        .await;
    }
}

#[tokio::test]
async fn errors_of_the_provider() {
    for api in Api::ALL {
        for (status, expected) in [(400, 400), (401, 502), (429, 429), (500, 502)] {
            for path in [CHAT, RESPONSES, MESSAGES] {
                let body =
                    json!({"error": {"message": "no", "type": "invalid_request_error"}, "message": "no"});
                let served = serve(api, vec![ScriptedResponse::error(status, body)]).await;
                let mut client = Client::new(format!("{}{path}", served.url), path);
                client.history.push(json!({"role": "user", "content": "hi"}));
                let (found, error) = client.post(&client.body()).await;
                assert_eq!(found, expected, "{} {path} {status}: {error}", api.provider_name());
                let message: &Value = &error["error"]["message"];
                assert!(message.is_string() && !message.to_string().contains(API_KEY), "{error}");
            }
        }
    }
}

/// A provider with the client's API gets the client's fields unchanged, also in the second request of the loop.
#[tokio::test]
async fn a_provider_with_the_client_s_api_gets_the_client_s_own_request() {
    let outputs = [call("lookup"), answer("It is found.")].map(ScriptedResponse::Output).to_vec();
    let served = serve(Api::Anthropic, outputs).await;
    let mut client = Client::new(format!("{}{MESSAGES}", served.url), MESSAGES);
    client.headers = vec![("anthropic-beta", "context-1m-2025-08-07"), ("anthropic-version", "2023-06-01")];
    let mark = json!({"type": "ephemeral"});
    let messages =
        json!([{"role": "user", "content": [{"type": "text", "text": "look", "cache_control": mark}]}]);
    let system = json!([{"type": "text", "text": "Be brief.", "cache_control": mark}]);
    let mine = json!({"name": "mine", "input_schema": {"type": "object"}, "cache_control": mark});
    let body = json!({
        "model": "m", "max_tokens": 100, "metadata": {"user_id": "u"}, "system": system, "messages": messages,
        "tools": [mine], "stop_sequences": ["END"],
    });
    let (status, response) = client.post(&body).await;
    assert_eq!(status, 200, "{response}");
    assert!(response["content"][0]["text"].as_str().unwrap().ends_with("It is found."), "{response}");
    let requests = served.provider.requests();
    assert_eq!((requests.len(), served.provider.rejections()), (2, Vec::new()));
    for request in &requests {
        assert_eq!(request.headers["anthropic-beta"], "context-1m-2025-08-07");
        for key in ["system", "metadata", "stop_sequences", "max_tokens"] {
            assert_eq!(request.body[key], body[key], "{key}");
        }
        assert_eq!(request.body["messages"][0], messages[0]);
        assert_eq!(request.body["tools"], requests[0].body["tools"]);
        assert_eq!(request.body["tools"][0], mine);
        assert_eq!(request.body["tools"][1]["name"], "lookup");
    }
}

/// Responds with JSON as text, or as arguments of a call if the API has no other way.
fn structured_response(request: &ReceivedRequest) -> ScriptedResponse {
    let body = request.body.to_string();
    let value = json!({"city": "Paris", "note": "sunny"});
    ScriptedResponse::Output(match body.contains("by calling `response` once") {
        true => ModelOutput::default().call("call_0009", "response", &value.to_string()),
        false => ModelOutput::text(&value.to_string()),
    })
}

#[tokio::test]
async fn structured_output() {
    let schema = json!({
        "type": "object", "properties": {"city": {"type": "string"}, "note": {"type": "string"}},
        "required": ["city", "note"], "additionalProperties": false,
    });
    for api in Api::ALL {
        for path in [CHAT, RESPONSES, MESSAGES] {
            for stream in [false, true] {
                let served = serve_script(api, Script::from_fn(structured_response)).await;
                let mut client = Client::new(format!("{}{path}", served.url), path);
                client.stream = stream;
                client.tools.clear();
                let format =
                    json!({"type": "json_schema", "name": "place", "strict": true, "schema": schema});
                client.extra = match path {
                    CHAT => {
                        let format = json!({"name": "place", "strict": true, "schema": schema});
                        json!({"response_format": {"type": "json_schema", "json_schema": format}})
                    }
                    RESPONSES => json!({"text": {"format": format}}),
                    _ => json!({"output_config": {"format": {"type": "json_schema", "schema": schema}}}),
                };
                let label = format!("{} behind {path}, stream: {stream}", api.provider_name());
                for question in ["where", "and again"] {
                    let reply = client.say(question).await;
                    let parsed: Value = serde_json::from_str(&reply.text).unwrap_or_default();
                    assert_eq!(parsed, json!({"city": "Paris", "note": "sunny"}), "{label}: {reply:?}");
                }
                assert_eq!(served.provider.rejections(), [], "{label}");
            }
        }
    }
}
