//! Reasoning, shown and hidden, alone and together with calls.

use toolwire_testkit::provider::{Api, ModelOutput};

use crate::client::{Client, Reply};
use crate::served_gateway::answer;
use crate::{Conversation, Missing, check, check_second_turn, return_result};

const THOUGHT: &str = "Let me think.";

/// Runs the test with clients that see the reasoning.
async fn with_every_client(api: Api, outputs: &[ModelOutput], test: impl AsyncFn(&mut Client, &str, &str)) {
    let thinking = if Missing::Reasoning.is_missing(api) { "" } else { THOUGHT };
    Conversation::new(api, outputs)
        .showing_thinking()
        .with_every_client(async |client, label| test(client, thinking, label).await)
        .await;
}

/// A call after reasoning.
fn call(tool: &str) -> ModelOutput {
    ModelOutput::default().call("call00001", tool, r#"{"key":"a"}"#).thinking(THOUGHT)
}

fn check_thinking(reply: &Reply, thinking: &str, label: &str) {
    assert_eq!(reply.thinking, thinking, "{label}: {reply:?}");
}

#[tokio::test]
async fn reasoning() {
    for api in Api::ALL {
        let outputs = [answer("Done.").thinking(THOUGHT), answer("Again.")];
        with_every_client(api, &outputs, async |client, thinking, label| {
            let reply = client.say("think").await;
            check(&reply, "Done.", label);
            check_thinking(&reply, thinking, label);
            check_second_turn(client, label).await;
        })
        .await;
    }
}

/// Clients that do not ask for it get no reasoning.
#[tokio::test]
async fn hidden_reasoning() {
    for api in Api::ALL {
        let outputs = [call("get_weather"), answer("It is sunny.").thinking(THOUGHT), answer("Again.")];
        Conversation::new(api, &outputs)
            .with_every_client(async |client, label| {
                let reply = client.say("weather").await;
                check_thinking(&reply, "", label);
                return_result(client, &reply, label);
                let reply = client.send().await;
                check(&reply, "It is sunny.", label);
                check_thinking(&reply, "", label);
                check_second_turn(client, label).await;
            })
            .await;
    }
}

#[tokio::test]
async fn reasoning_before_calls_of_servers() {
    for api in Api::ALL {
        let outputs = [call("lookup"), answer("It is found."), answer("Again.")];
        with_every_client(api, &outputs, async |client, thinking, label| {
            let reply = client.say("look").await;
            check(&reply, "It is found.", label);
            check_thinking(&reply, thinking, label);
            check_second_turn(client, label).await;
        })
        .await;
    }
}

#[tokio::test]
async fn reasoning_before_calls_of_the_client() {
    for api in Api::ALL {
        let outputs = [call("get_weather"), answer("It is sunny."), answer("Again.")];
        with_every_client(api, &outputs, async |client, thinking, label| {
            let reply = client.say("weather").await;
            check_thinking(&reply, thinking, label);
            return_result(client, &reply, label);
            check(&client.send().await, "It is sunny.", label);
            check_second_turn(client, label).await;
        })
        .await;
    }
}

#[tokio::test]
async fn reasoning_before_calls_of_both() {
    for api in Api::ALL {
        let both = call("lookup").call("call00002", "get_weather", "{}");
        let outputs = [both, answer("Both.").thinking(THOUGHT), answer("Again.")];
        with_every_client(api, &outputs, async |client, thinking, label| {
            let reply = client.say("both").await;
            check_thinking(&reply, thinking, label);
            return_result(client, &reply, label);
            let reply = client.send().await;
            check(&reply, "Both.", label);
            check_thinking(&reply, thinking, label);
            check_second_turn(client, label).await;
        })
        .await;
    }
}
