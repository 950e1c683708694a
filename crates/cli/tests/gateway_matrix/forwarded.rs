//! Requests that go straight to a provider with the client's API.

use serde_json::json;
use toolwire_testkit::provider::{Api, FinishReason, ModelOutput, Script, ScriptedResponse};

use crate::client::{CHAT, Client, MESSAGES, RESPONSES};
use crate::errors::{error_type, fail};
use crate::served_gateway::{answer, call};
use crate::{Conversation, check, check_second_turn, return_result};

const CLIENTS: [(Api, &str); 5] = [
    (Api::OpenAiChat, CHAT),
    (Api::Vllm, CHAT),
    (Api::LlamaCpp, CHAT),
    (Api::Responses, RESPONSES),
    (Api::Anthropic, MESSAGES),
];

async fn with_every_client(
    outputs: impl Fn(Api) -> Vec<ScriptedResponse>,
    test: impl AsyncFn(&mut Client, &str),
) {
    for (api, path) in CLIENTS {
        let responses = outputs(api);
        let forwarded = async |client: &mut Client, label: &str| {
            client.headers = vec![("x-toolwire-servers", "none"), ("anthropic-version", "2023-06-01")];
            test(client, label).await;
        };
        Conversation::with_script(api, move || Script::new(responses.clone()))
            .with_clients_of(path, &forwarded)
            .await;
    }
}

fn played(outputs: &[ModelOutput]) -> impl Fn(Api) -> Vec<ScriptedResponse> {
    move |_| outputs.iter().cloned().map(ScriptedResponse::Output).collect()
}

#[tokio::test]
async fn texts() {
    with_every_client(played(&[answer("Hello."), answer("Again.")]), async |client, label| {
        check(&client.say("hi").await, "Hello.", label);
        check_second_turn(client, label).await;
    })
    .await;
}

#[tokio::test]
async fn reasoning_and_tools_of_the_client() {
    let thinking = |output: ModelOutput| output.thinking("Let me think.");
    let outputs = [thinking(call("get_weather")), thinking(answer("It is sunny.")), answer("Again.")];
    with_every_client(played(&outputs), async |client, label| {
        let reply = client.say("weather").await;
        return_result(client, &reply, label);
        check(&client.send().await, "It is sunny.", label);
        check_second_turn(client, label).await;
    })
    .await;
}

#[tokio::test]
async fn responses_that_are_cut_off_or_filtered() {
    for reason in [FinishReason::Length, FinishReason::Refusal] {
        let ended = ModelOutput::text("Some words.").finish(reason);
        with_every_client(played(&[ended, answer("Again.")]), async |client, label| {
            check(&client.say("hi").await, "Some words.", label);
            check_second_turn(client, label).await;
        })
        .await;
    }
}

#[tokio::test]
async fn errors() {
    for status in [400, 404, 408, 409, 413, 422, 424, 425, 429] {
        let responses = |api| {
            let mut body = json!({"error": {"message": "no", "type": "invalid_request_error"}});
            if api == Api::Anthropic {
                body["type"] = json!("error");
            }
            vec![ScriptedResponse::error(status, body), ScriptedResponse::Output(answer("Hello."))]
        };
        with_every_client(responses, async |client, label| {
            assert_eq!(fail(client, label).await.0, status, "{label}");
            check(&client.send().await, "Hello.", label);
        })
        .await;
    }
}

#[tokio::test]
async fn errors_within_a_stream() {
    let broken = |api| answer("Some words.").stream_error(error_type(api), "the model is busy");
    let responses = |api| [broken(api), answer("Hello.")].map(ScriptedResponse::Output).to_vec();
    with_every_client(responses, async |client, label| {
        match client.stream {
            true => assert_eq!(fail(client, label).await.0, 200, "{label}"),
            // Only a stream of the provider can contain an error.
            false => check(&client.say("hi").await, "Some words.", label),
        }
        check(&client.say("and again").await, "Hello.", label);
    })
    .await;
}
