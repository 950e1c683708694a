//! Errors of the provider, before a response and within it. The client may then send its request again.

use serde_json::{Value, json};
use toolwire_testkit::provider::{API_KEY, Api, ModelOutput, Script, ScriptedResponse};

use crate::client::Client;
use crate::served_gateway::{answer, call};
use crate::{Conversation, check, check_second_turn};

/// The type of a temporary error within a stream.
pub(crate) fn error_type(api: Api) -> &'static str {
    match api {
        Api::Gemini => "UNAVAILABLE",
        Api::Bedrock => "serviceUnavailableException",
        Api::Anthropic => "overloaded_error",
        _ => "server_error",
    }
}

/// Sends a message, and returns the status and the error.
pub(crate) async fn fail(client: &mut Client, label: &str) -> (u16, Value) {
    client.history.push(json!({"role": "user", "content": "hi"}));
    let (status, response) = client.post(&client.body()).await;
    // A failed response of the Responses API has no type of error.
    let is_failed = response["status"] == "failed" && response["error"]["code"].is_string();
    let has_type = response["error"]["type"].is_string() || is_failed;
    let message = &response["error"]["message"];
    assert!(has_type && message.is_string(), "{label}: {response}");
    assert!(!message.to_string().contains(API_KEY), "{label}: {response}");
    (status, response)
}

#[tokio::test]
async fn errors_before_a_response() {
    for api in Api::ALL {
        for (status, expected) in [(400, 400), (401, 502), (409, 409), (422, 422), (429, 429), (500, 502)] {
            for first in [None, Some(call("lookup"))] {
                let body =
                    json!({"error": {"message": "no", "type": "invalid_request_error"}, "message": "no"});
                let has_called = first.is_some();
                let responses: Vec<_> = first
                    .map(ScriptedResponse::Output)
                    .into_iter()
                    .chain([
                        ScriptedResponse::error(status, body),
                        ScriptedResponse::Output(answer("Hello.")),
                    ])
                    .collect();
                Conversation::with_script(api, move || Script::new(responses.clone()))
                    .with_every_client(async |client, label| {
                        let (found, error) = fail(client, label).await;
                        // The status of a stream is sent with its first text.
                        let expected = if client.stream && has_called { 200 } else { expected };
                        assert_eq!(found, expected, "{label}: {error}");
                        check(&client.send().await, "Hello.", label);
                    })
                    .await;
            }
        }
    }
}

/// The stream of the provider ends with an error, before or after a call of a server's tool.
#[tokio::test]
async fn errors_within_a_response() {
    let words = answer("Some words.");
    for api in Api::ALL {
        for (first, broken) in [
            (None, &ModelOutput::default()),
            (None, &words),
            (None, &call("get_weather")),
            (Some(call("lookup")), &words),
            (Some(call("lookup")), &call("lookup")),
        ] {
            let has_called = first.is_some();
            let broken = broken.clone().stream_error(error_type(api), "the model is busy");
            let then = [broken.clone(), answer("Hello."), answer("Again.")];
            let outputs: Vec<ModelOutput> = first.into_iter().chain(then).collect();
            Conversation::new(api, &outputs)
                .with_every_client(async |client, label| {
                    let (status, error) = fail(client, label).await;
                    // The status of a stream is sent with its first text.
                    let has_begun = client.stream && (has_called || broken.text.is_some());
                    assert_eq!(has_begun, status == 200, "{label}: {status} {error}");
                    check(&client.send().await, "Hello.", label);
                    check_second_turn(client, label).await;
                })
                .await;
        }
    }
}
