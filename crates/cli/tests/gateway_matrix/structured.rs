//! Structured output, alone and after calls. APIs without it get a call instead.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use toolwire_testkit::provider::{Api, FinishReason, ModelOutput, ReceivedRequest, Script, ScriptedResponse};

use crate::client::{CHAT, Client, RESPONSES, Reply};
use crate::served_gateway::answer;
use crate::{Conversation, return_result};

fn place() -> Value {
    json!({"city": "Paris", "note": "sunny"})
}

/// Responds with JSON as text, or as arguments of a call if the API has no other way.
fn structured_response(request: &ReceivedRequest) -> ModelOutput {
    let place = place().to_string();
    match request.body.to_string().contains("by calling `response` once") {
        true => ModelOutput::default().call("call_0009", "response", &place),
        false => answer(&place),
    }
}

/// A model that first makes a call in each turn.
fn calling(tool: &'static str) -> Script {
    let requests = AtomicUsize::new(0);
    Script::from_fn(move |request| {
        let number = requests.fetch_add(1, Ordering::SeqCst);
        ScriptedResponse::Output(match number.is_multiple_of(2) {
            true => ModelOutput::text("Let me look.").call(&format!("call{number:05}"), tool, "{}"),
            false => structured_response(request),
        })
    })
}

/// Requests the schema.
fn require_schema(client: &mut Client, path: &str) {
    let schema = json!({
        "type": "object", "properties": {"city": {"type": "string"}, "note": {"type": "string"}},
        "required": ["city", "note"], "additionalProperties": false,
    });
    client.extra = match path {
        CHAT => {
            let format = json!({"name": "place", "strict": true, "schema": schema});
            json!({"response_format": {"type": "json_schema", "json_schema": format}})
        }
        RESPONSES => {
            let format = json!({"type": "json_schema", "name": "place", "strict": true, "schema": schema});
            json!({"text": {"format": format}})
        }
        _ => json!({"output_config": {"format": {"type": "json_schema", "schema": schema}}}),
    };
}

fn check_place(reply: &Reply, label: &str) {
    let found: Value = serde_json::from_str(&reply.text).unwrap_or_default();
    assert_eq!((found, &reply.calls[..]), (place(), &[][..]), "{label}: {reply:?}");
}

#[tokio::test]
async fn structured_output() {
    for api in Api::ALL {
        let respond = |request: &ReceivedRequest| ScriptedResponse::Output(structured_response(request));
        Conversation::with_script(api, move || Script::from_fn(respond))
            .with_every_client(async |client, label| {
                client.tools.clear();
                require_schema(client, client.path);
                for question in ["where", "and again"] {
                    check_place(&client.say(question).await, label);
                }
            })
            .await;
    }
}

/// The text before the calls is not shown, because it is not JSON.
#[tokio::test]
async fn structured_output_after_calls_of_servers() {
    for api in Api::ALL {
        Conversation::with_script(api, || calling("lookup"))
            .with_every_client(async |client, label| {
                client.tools.clear();
                require_schema(client, client.path);
                for question in ["where", "and again"] {
                    check_place(&client.say(question).await, label);
                }
            })
            .await;
    }
}

#[tokio::test]
async fn structured_output_after_calls_of_the_client() {
    for api in Api::ALL {
        Conversation::with_script(api, || calling("get_weather"))
            .with_every_client(async |client, label| {
                require_schema(client, client.path);
                for question in ["where", "and again"] {
                    let reply = client.say(question).await;
                    return_result(client, &reply, label);
                    check_place(&client.send().await, label);
                }
            })
            .await;
    }
}

/// A response that is cut off is returned as it is, without a correction by the model.
#[tokio::test]
async fn structured_output_that_is_cut_off() {
    let cut_off = |request: &ReceivedRequest| {
        let mut output = structured_response(request);
        output.text.iter_mut().for_each(|text| text.truncate(12));
        output.calls.iter_mut().for_each(|call| call.arguments.truncate(12));
        ScriptedResponse::Output(output.finish(FinishReason::Length))
    };
    for api in Api::ALL {
        Conversation::with_script(api, move || Script::from_fn(cut_off))
            .with_every_client(async |client, label| {
                client.tools.clear();
                require_schema(client, client.path);
                let reply = client.say("where").await;
                // The part of a call that contains the response is not shown.
                let is_shown = ["", r#"{"city":"Par"#].contains(&reply.text.as_str());
                assert!(is_shown && reply.calls.is_empty(), "{label}: {reply:?}");
                let is_cut_off = matches!(reply.stop.as_str(), "length" | "incomplete" | "max_tokens");
                assert!(is_cut_off, "{label}: {reply:?}");
            })
            .await;
    }
}

/// A refusal is returned as it is. Where an API does not mark it, it is only an invalid response.
#[tokio::test]
async fn structured_output_that_is_refused() {
    let marking = [Api::Responses, Api::Anthropic];
    for api in Api::CHAT_FLAVOURS.iter().copied().chain(marking) {
        let refused =
            |_: &ReceivedRequest| ScriptedResponse::Output(ModelOutput::default().refusal("I cannot help."));
        Conversation::with_script(api, move || Script::from_fn(refused))
            .with_every_client(async |client, label| {
                client.tools.clear();
                require_schema(client, client.path);
                let reply = client.say("where").await;
                assert_eq!((reply.text.as_str(), &reply.calls[..]), ("I cannot help.", &[][..]), "{label}");
            })
            .await;
    }
}
