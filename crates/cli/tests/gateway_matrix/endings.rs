//! Responses that are cut off or refused. The conversation continues after each of them.

use toolwire_testkit::provider::{Api, FinishReason, ModelOutput};

use crate::client::Reply;
use crate::served_gateway::{answer, call};
use crate::{Conversation, Missing, check, check_second_turn};

fn check_cut_off(reply: &Reply, label: &str) {
    let is_cut_off = matches!(reply.stop.as_str(), "length" | "incomplete" | "max_tokens");
    assert!(is_cut_off, "{label}: {reply:?}");
}

#[tokio::test]
async fn responses_that_are_cut_off() {
    for api in Api::ALL {
        let cut_off = ModelOutput::text("This is too").finish(FinishReason::Length);
        Conversation::new(api, &[cut_off, answer("Again.")])
            .with_every_client(async |client, label| {
                let reply = client.say("long").await;
                check(&reply, "This is too", label);
                check_cut_off(&reply, label);
                check_second_turn(client, label).await;
            })
            .await;
    }
}

/// The APIs with calls that may be incomplete.
fn with_partial_arguments() -> impl Iterator<Item = Api> {
    Api::ALL.into_iter().filter(|api| !Missing::PartialArguments.is_missing(*api))
}

fn cut_off_call(tool: &str) -> ModelOutput {
    let text = ModelOutput::text("Let me look.");
    text.call("call00001", tool, r#"{"key":"a"#).finish(FinishReason::Length)
}

/// The client does not get an incomplete call.
#[tokio::test]
async fn calls_of_the_client_that_are_cut_off() {
    for api in with_partial_arguments() {
        Conversation::new(api, &[cut_off_call("get_weather"), answer("Again.")])
            .with_every_client(async |client, label| {
                let reply = client.say("long").await;
                check(&reply, "", label);
                check_cut_off(&reply, label);
                check_second_turn(client, label).await;
            })
            .await;
    }
}

/// The model gets an error result for the incomplete call.
#[tokio::test]
async fn calls_of_servers_that_are_cut_off() {
    for api in with_partial_arguments() {
        Conversation::new(api, &[cut_off_call("lookup"), answer("It is short now."), answer("Again.")])
            .with_every_client(async |client, label| {
                check(&client.say("long").await, "It is short now.", label);
                check_second_turn(client, label).await;
            })
            .await;
    }
}

/// A call of a response that was cut off may be incomplete although its arguments are valid, so it is not
/// made, whatever the API is.
#[tokio::test]
async fn calls_in_responses_that_are_cut_off_are_not_made() {
    for api in Api::ALL {
        let cut_off = |output: ModelOutput| output.finish(FinishReason::Length);
        let client_call = ModelOutput::text("Let me look.").call("call00002", "get_weather", "{}");
        let outputs =
            [cut_off(call("lookup")), answer("It is short now."), cut_off(client_call), answer("Again.")];
        Conversation::new(api, &outputs)
            .with_every_client(async |client, label| {
                check(&client.say("look").await, "It is short now.", label);
                let reply = client.say("weather").await;
                check(&reply, "", label);
                check_cut_off(&reply, label);
                check_second_turn(client, label).await;
            })
            .await;
    }
}

/// The provider ends the response, and there is nothing but reasoning in it.
#[tokio::test]
async fn reasoning_that_is_cut_off() {
    for api in Api::ALL {
        let cut_off = ModelOutput::default().thinking("Let me").finish(FinishReason::Length);
        let conversation = Conversation::new(api, &[cut_off, answer("Again.")]);
        conversation
            .showing_thinking()
            .with_every_client(async |client, label| {
                let reply = client.say("long").await;
                check(&reply, "", label);
                check_cut_off(&reply, label);
                check_second_turn(client, label).await;
            })
            .await;
    }
}

#[tokio::test]
async fn refusals() {
    let filtered = ModelOutput::text("I cannot help.").finish(FinishReason::Refusal);
    // The APIs of OpenAI and Anthropic mark such a text as a refusal.
    let refused = ModelOutput::default().refusal("I cannot help.");
    for api in Api::ALL {
        for refusal in [&filtered, &refused] {
            Conversation::new(api, &[refusal.clone(), answer("Again.")])
                .with_every_client(async |client, label| {
                    check(&client.say("help").await, "I cannot help.", label);
                    check_second_turn(client, label).await;
                })
                .await;
        }
    }
}

#[tokio::test]
async fn refusals_after_calls() {
    for api in Api::ALL {
        let refused = ModelOutput::default().refusal("I cannot help.");
        Conversation::new(api, &[call("lookup"), refused, answer("Again.")])
            .with_every_client(async |client, label| {
                check(&client.say("help").await, "I cannot help.", label);
                check_second_turn(client, label).await;
            })
            .await;
    }
}

/// A filter of the provider removes the whole response, whether its API states this or not.
#[tokio::test]
async fn responses_that_are_filtered() {
    for api in Api::ALL {
        let filtered = ModelOutput::default().finish(FinishReason::Refusal);
        Conversation::new(api, &[filtered, answer("Again.")])
            .with_every_client(async |client, label| {
                check(&client.say("help").await, "", label);
                check_second_turn(client, label).await;
            })
            .await;
    }
}
