//! Tools of servers, tools of the client, and both in one step.

use serde_json::json;
use toolwire_testkit::provider::{Api, ScriptedResponse};

use crate::client::{Client, MESSAGES};
use crate::served_gateway::{answer, call, serve};
use crate::{Conversation, check, check_second_turn, return_result};

#[tokio::test]
async fn tools_of_servers() {
    for api in Api::ALL {
        let outputs = [call("lookup"), answer("It is found."), answer("Again.")];
        Conversation::new(api, &outputs)
            .with_every_client(async |client, label| {
                check(&client.say("look").await, "It is found.", label);
                check_second_turn(client, label).await;
            })
            .await;
    }
}

#[tokio::test]
async fn tools_of_the_client() {
    for api in Api::ALL {
        let outputs = [call("get_weather"), answer("It is sunny."), answer("Again.")];
        Conversation::new(api, &outputs)
            .with_every_client(async |client, label| {
                let reply = client.say("weather").await;
                return_result(client, &reply, label);
                check(&client.send().await, "It is sunny.", label);
                check_second_turn(client, label).await;
            })
            .await;
    }
}

#[tokio::test]
async fn tools_of_both_in_one_step() {
    for api in Api::ALL {
        let both = call("lookup").call("call00002", "get_weather", "{}").call("call00003", "lookup", "{}");
        Conversation::new(api, &[both, answer("Both."), answer("Again.")])
            .with_every_client(async |client, label| {
                let reply = client.say("both").await;
                return_result(client, &reply, label);
                check(&client.send().await, "Both.", label);
                check_second_turn(client, label).await;
            })
            .await;
    }
}

#[tokio::test]
async fn images_of_results() {
    for api in Api::ALL {
        let outputs = [call("picture"), answer("A dot."), answer("Again.")];
        Conversation::new(api, &outputs)
            .with_every_client(async |client, label| {
                check(&client.say("picture").await, "A dot.", label);
                check_second_turn(client, label).await;
            })
            .await;
    }
}

/// A provider with the client's API gets the client's fields unchanged, also in the second request of the
/// loop.
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
