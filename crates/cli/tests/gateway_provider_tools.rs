//! Tools that the provider runs itself, together with the tools of servers, in one loop. The fake providers
//! reject what the real ones reject.

#![allow(clippy::unwrap_used)]

#[path = "../../gateway/tests/client/mod.rs"]
mod client;
mod served_gateway;

use client::{CHAT, Client, MESSAGES, RESPONSES};
use serde_json::{Value, json};
use served_gateway::{Served, answer, call, serve_with};
use toolwire_gateway::GatewaySettings;
use toolwire_testkit::provider::{
    Api, BodySplit, Delivery, FinishReason, ModelOutput, Script, ScriptedResponse,
};

/// The providers with a web search, the path of their API, and the client's definition of the search.
const SEARCHING: [(Api, &str, &str); 2] = [
    (
        Api::Anthropic,
        MESSAGES,
        r#"{"type": "web_search_20250305",  "name": "web_search", "max_uses": 8, "later": 1.0}"#,
    ),
    (Api::Responses, RESPONSES, r#"{"type": "web_search",  "search_context_size": "low", "later": 1.0}"#),
];

/// The names of the servers' tools.
const SERVERS: [&str; 3] = ["lookup", "picture", "wait"];

/// Starts a gateway in front of a provider that sends each byte of its streams separately.
async fn start(api: Api, outputs: &[ModelOutput]) -> Served {
    let delivery = Delivery { split: BodySplit::EveryByte, ..Delivery::default() };
    let outputs = outputs.iter().map(|output| ScriptedResponse::Delivered(output.clone(), delivery.clone()));
    serve_with(api, Script::new(outputs), json!({}), GatewaySettings::default()).await
}

/// Creates a client with a tool of its own between the search and the tools of servers.
fn client_at(served: &Served, path: &'static str, search: &str, stream: bool) -> Client {
    let mut client = Client::new(format!("{}{path}", served.url), path);
    client.stream = stream;
    let own = match path {
        MESSAGES => json!({"name": "get_weather", "description": "d", "input_schema": {"type": "object"}}),
        _ => {
            json!({"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}, "strict": false})
        }
    };
    let search: Value = serde_json::from_str(search).unwrap();
    client.extra = json!({"tools": [search, own]});
    client
}

/// Runs a test with every provider that has a search, complete and streamed.
async fn with_search(outputs: &[ModelOutput], test: impl AsyncFn(&Served, Client, &str)) {
    for (api, path, search) in SEARCHING {
        for stream in [false, true] {
            let served = start(api, outputs).await;
            let label = format!("{}, stream: {stream}", api.provider_name());
            test(&served, client_at(&served, path, search, stream), &label).await;
            assert_eq!(served.provider.rejections(), [], "{label}");
            assert_eq!(served.provider.responses_left(), 0, "{label}");
        }
    }
}

/// Returns the types of the parts of the model's messages in a request, in their order.
fn sent_types(served: &Served, request: usize) -> Vec<String> {
    let body = &served.provider.requests()[request].body;
    let messages = body.get("messages").or(body.get("input")).unwrap().as_array().unwrap().clone();
    let blocks = messages.into_iter().flat_map(|message| match message["content"].clone() {
        Value::Array(blocks) if body.get("messages").is_some() => blocks,
        _ => vec![message],
    });
    blocks.map(|block| block["type"].as_str().unwrap_or("message").to_owned()).collect()
}

/// The names or types of the offered tools.
fn offered(served: &Served, request: usize) -> Vec<String> {
    let tools = served.provider.requests()[request].body["tools"].as_array().unwrap().clone();
    let name = |tool: &Value| tool.get("name").or(tool.get("type")).unwrap().as_str().unwrap().to_owned();
    tools.iter().map(name).collect()
}

/// The search, a call of a server's tool and the second turn: the provider gets everything back unchanged,
/// and the client gets the provider's own parts.
#[tokio::test]
async fn the_provider_s_own_calls_and_those_of_servers_are_in_one_loop() {
    let outputs =
        [call("lookup").search("first").thinking("Hm."), answer("Here.").search("second"), answer("Again.")];
    with_search(&outputs, async |served, mut client, label| {
        let is_anthropic = client.path == MESSAGES;
        let reply = client.say("search").await;
        let parts: &[&str] = match is_anthropic {
            true => {
                &["server_tool_use", "web_search_tool_result", "server_tool_use", "web_search_tool_result"]
            }
            false => &["web_search_call", "web_search_call"],
        };
        assert_eq!(reply.parts, parts, "{label}");
        assert!(reply.calls.is_empty() && reply.text.ends_with("Here."), "{label}: {reply:?}");
        assert_eq!(served.calls.started(), 1, "{label}");
        let mut tools = vec!["web_search", "get_weather"];
        tools.extend(SERVERS);
        let shown = serde_json::to_string(&client.history).unwrap();
        if is_anthropic {
            assert!(
                shown.contains("encrypted_content") && shown.contains("encrypted_index"),
                "{label}: {shown}"
            );
        }

        assert_eq!(client.say("and again").await.text, "Again.", "{label}");
        for request in 0..3 {
            assert_eq!(offered(served, request), tools, "{label}");
            let sent = String::from_utf8_lossy(&served.provider.requests()[request].bytes).into_owned();
            assert!(
                sent.contains(r#""later":1.0"#),
                "{label}: the definition is sent as the client wrote it"
            );
        }
        let types = [0, 1, 2].map(|request| sent_types(served, request));
        let first: &[&str] = match is_anthropic {
            true => {
                &["thinking", "server_tool_use", "web_search_tool_result", "text", "tool_use", "tool_result"]
            }
            false => &["reasoning", "web_search_call", "message", "function_call", "function_call_output"],
        };
        assert_eq!(types[1][1..], *first, "{label}");
        let later: &[&str] = match is_anthropic {
            true => &["server_tool_use", "web_search_tool_result", "text"],
            false => &["web_search_call", "message"],
        };
        let end = types[2].len() - 1;
        assert_eq!(types[2][1..end], [first, later].concat(), "{label}: nothing of the first turn is lost");
    })
    .await;
}

/// A response has a search, a call of a server's tool and one of the client's.
#[tokio::test]
async fn results_of_the_client_continue_a_response_with_a_search() {
    let mixed = call("lookup").search("first").call("call00002", "get_weather", "{}");
    let outputs = [mixed, answer("Sunny."), answer("Again.")];
    with_search(&outputs, async |served, mut client, label| {
        let reply = client.say("search").await;
        assert_eq!(reply.calls.len(), 1, "{label}: {reply:?}");
        client.return_results(&[(&reply.calls[0].0, "sunny")]);
        assert_eq!(client.send().await.text, "Sunny.", "{label}");
        assert_eq!(client.say("and again").await.text, "Again.", "{label}");
        let expected: &[&str] = match client.path {
            MESSAGES => &[
                "server_tool_use",
                "web_search_tool_result",
                "text",
                "tool_use",
                "tool_use",
                "tool_result",
                "tool_result",
            ],
            _ => &[
                "web_search_call",
                "message",
                "function_call",
                "function_call",
                "function_call_output",
                "function_call_output",
            ],
        };
        for request in [1, 2] {
            assert_eq!(sent_types(served, request)[1..=expected.len()], *expected, "{label}");
        }
    })
    .await;
}

/// Returns the containers in the requests to the provider.
fn containers(served: &Served) -> Vec<Value> {
    let requests = served.provider.requests();
    requests.iter().map(|request| request.body.get("container").cloned().unwrap_or_default()).collect()
}

/// Code runs in the same container in all steps of a turn, and the client gets it, as well as the number of
/// searches.
#[tokio::test]
async fn a_turn_has_one_container_and_the_sum_of_the_searches() {
    for stream in [false, true] {
        let outputs = [
            call("lookup").search("first").container("container_1"),
            ModelOutput::text("Then.").search("second").search("third").call(
                "call00002",
                "get_weather",
                "{}",
            ),
            answer("Sunny."),
            answer("Again."),
        ];
        let served = start(Api::Anthropic, &outputs).await;
        let mut client = client_at(&served, MESSAGES, SEARCHING[0].2, stream);
        let reply = client.say("search").await;
        assert_eq!(reply.container.as_deref(), Some("container_1"), "{reply:?}");
        assert_eq!(reply.searches, 3, "{reply:?}");
        client.return_results(&[(&reply.calls[0].0, "sunny")]);
        let reply = client.send().await;
        assert_eq!((reply.text.as_str(), reply.searches), ("Sunny.", 0), "{reply:?}");
        client.say("and again").await;
        let first = json!("container_1");
        // In the next turn, the client decides.
        assert_eq!(containers(&served), [Value::Null, first.clone(), first, Value::Null]);
        assert_eq!((served.provider.rejections(), served.provider.responses_left()), (vec![], 0));
    }
}

/// The container joins the skills that the client loads into it. A container that the client names stays, and
/// one in its history is not used.
#[tokio::test]
async fn a_container_of_the_client_has_precedence() {
    let skills = json!([{"type": "anthropic", "skill_id": "pdf"}]);
    let with_id = |id: &str| json!({"skills": skills, "id": id});
    for (sent, expected) in [
        (json!({"skills": skills}), with_id("container_1")),
        (with_id("container_2"), with_id("container_2")),
        (json!("container_2"), json!("container_2")),
        (Value::Null, json!("container_1")),
    ] {
        let outputs = [call("lookup").search("first").container("container_1"), answer("Done.")];
        let served = start(Api::Anthropic, &outputs).await;
        let mut client = client_at(&served, MESSAGES, SEARCHING[0].2, false);
        client.extra["container"] = sent.clone();
        client.say("search").await;
        assert_eq!(containers(&served), [sent, expected]);
    }
    let served = start(Api::Anthropic, &[answer("Done.")]).await;
    let mut client = client_at(&served, MESSAGES, SEARCHING[0].2, false);
    client.history = vec![
        json!({"role": "user", "content": "go"}),
        json!({"role": "assistant", "container": {"id": "container_3"}, "content": [
            {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}}]}),
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"}]}),
    ];
    // The provider gets the client's own messages unchanged, and refuses this one.
    assert_eq!(client.post(&client.body()).await.0, 400);
    assert_eq!(containers(&served), [Value::Null]);
}

fn paused(query: &str) -> ModelOutput {
    ModelOutput::text("I search.").search(query).finish(FinishReason::Other("pause_turn".to_owned()))
}

/// Anthropic pauses a long turn; the gateway sends the response back, and the client gets one response.
#[tokio::test]
async fn a_paused_turn_continues() {
    let outputs = [paused("first"), paused("second"), call("lookup"), answer("Done."), answer("Again.")];
    for stream in [false, true] {
        let served = start(Api::Anthropic, &outputs).await;
        let mut client = client_at(&served, MESSAGES, SEARCHING[0].2, stream);
        let reply = client.say("search").await;
        assert_eq!((reply.stop.as_str(), reply.parts.len()), ("end_turn", 4), "{reply:?}");
        assert!(reply.text.ends_with("Done."), "{reply:?}");
        assert_eq!(client.say("and again").await.text, "Again.");
        let messages = served.provider.requests()[2].body["messages"].clone();
        assert_eq!(messages.as_array().unwrap().last().unwrap()["role"], "assistant", "{messages:#}");
        assert_eq!((served.provider.rejections(), served.provider.responses_left()), (vec![], 0));
    }
}

/// A pause counts as a step. At the limit the client gets it, and can continue the response.
#[tokio::test]
async fn a_pause_at_the_limit_reaches_the_client() {
    for stream in [false, true] {
        let served = start(Api::Anthropic, &[paused("first"), paused("second"), answer("Done.")]).await;
        let mut client = client_at(&served, MESSAGES, SEARCHING[0].2, stream);
        client.headers = vec![("x-toolwire-max-steps", "2")];
        let reply = client.say("search").await;
        assert_eq!((reply.stop.as_str(), reply.parts.len()), ("pause_turn", 4), "{reply:?}");
        let reply = client.send().await;
        assert_eq!((reply.stop.as_str(), reply.text.as_str()), ("end_turn", "Done."), "{reply:?}");
        assert_eq!((served.provider.rejections(), served.provider.responses_left()), (vec![], 0));
    }
}

/// A choice can name the search, or allow only some tools.
#[tokio::test]
async fn a_choice_can_name_a_tool_of_the_provider() {
    for (api, path, search) in SEARCHING {
        let named = match path {
            MESSAGES => json!({"type": "tool", "name": "web_search"}),
            _ => json!({"type": "web_search"}),
        };
        let served = start(api, &[call("lookup"), answer("Done.")]).await;
        let mut client = client_at(&served, path, search, false);
        client.extra["tool_choice"] = named.clone();
        client.say("search").await;
        let choices: Vec<Value> =
            served.provider.requests().iter().map(|request| request.body["tool_choice"].clone()).collect();
        assert_eq!(choices, [named, Value::Null], "{path}: the choice applies to the first request");
    }
    let (api, path, search) = SEARCHING[1];
    for (allowed, expected) in [
        (
            json!([{"type": "web_search"}, {"type": "function", "name": "lookup"}]),
            &["web_search", "lookup"][..],
        ),
        (json!([{"type": "function", "name": "get_weather"}]), &["get_weather"]),
    ] {
        let served = start(api, &[answer("Done.")]).await;
        let mut client = client_at(&served, path, search, false);
        client.extra["tool_choice"] = json!({"type": "allowed_tools", "mode": "auto", "tools": allowed});
        client.say("search").await;
        assert_eq!(offered(&served, 0), expected);
    }
}

/// Other APIs do not have the tools, and their providers get no request.
#[tokio::test]
async fn other_providers_refuse_the_tools_by_name() {
    for (own, path, search) in SEARCHING {
        for api in [Api::Anthropic, Api::Responses, Api::OpenAiChat, Api::Gemini, Api::Bedrock] {
            let served = start(api, &[answer("Done.")]).await;
            let mut client = client_at(&served, path, search, false);
            client.history.push(json!({"role": "user", "content": "search"}));
            let (status, body) = client.post(&client.body()).await;
            if api == own {
                assert_eq!(status, 200, "{body}");
                continue;
            }
            let message = body["error"]["message"].as_str().unwrap();
            assert_eq!(status, 400, "{message}");
            let type_name = client.extra["tools"][0]["type"].as_str().unwrap();
            assert!(message.contains(&format!("`{type_name}`")), "{message}");
            assert_eq!(served.provider.requests(), []);
        }
    }
    // The search of a Chat Completions client belongs to no API of tools.
    let served = start(Api::Anthropic, &[answer("Done.")]).await;
    let mut client = Client::new(format!("{}{CHAT}", served.url), CHAT);
    client.history.push(json!({"role": "user", "content": "search"}));
    client.extra = json!({"tools": [{"type": "web_search"}]});
    assert_eq!(client.post(&client.body()).await.0, 400);
}
