//! The tool search: with too many tools, the model finds those of the servers by a search that the client
//! does not see.

use crate::client::{CHAT, Client, MESSAGES, RESPONSES, Reply};
use crate::support::TestGateway;
use serde_json::{Value, json};
use toolwire_contract::model::ModelRequest;
use toolwire_gateway::GatewaySettings;
use toolwire_testkit::http_client;

/// For each API of a client, a model whose provider has another API, and one whose provider has the same API.
const CLIENTS: [(&str, &str); 6] = [
    (CHAT, "scripted"),
    (CHAT, "openai"),
    (RESPONSES, "scripted"),
    (RESPONSES, "responses"),
    (MESSAGES, "scripted"),
    (MESSAGES, "anthropic"),
];

async fn start() -> TestGateway {
    let mut settings = GatewaySettings::default();
    settings.agent.search.tools = 3;
    settings.agent.search.hits = 2;
    TestGateway::with(settings).await
}

/// Runs a test with every client, complete and streamed.
async fn with_every_client(test: impl AsyncFn(&TestGateway, Client, &str)) {
    for (path, model) in CLIENTS {
        for stream in [false, true] {
            let gateway = start().await;
            let mut client = Client::new(gateway.url(path), path);
            (client.model, client.stream) = (model, stream);
            client.tools = vec!["get_weather"];
            test(&gateway, client, &format!("{path} {model}, stream: {stream}")).await;
        }
    }
}

/// The names of the tools of each request to the model.
fn offered(gateway: &TestGateway) -> Vec<String> {
    let names = |request: &ModelRequest| {
        request.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>().join(" ")
    };
    gateway.model.requests().iter().map(names).collect()
}

#[track_caller]
fn check_end(reply: &Reply, label: &str) {
    assert!(reply.text.ends_with("value of a."), "{label}: {reply:?}");
    assert_eq!(reply.calls, [], "{label}: the client sees no search");
}

/// The model gets the search instead of the servers' tools, and can call what it finds. Tools are added at
/// the end, so that prompt caches stay valid.
#[tokio::test]
async fn tools_that_were_found_can_be_called() {
    with_every_client(async |gateway, mut client, label| {
        check_end(&client.say("find").await, label);
        let found = "get_weather search_tools lookup fail";
        assert_eq!(offered(gateway), ["get_weather search_tools", found, found], "{label}");
        assert_eq!(client.say("say on").await.text, "on", "{label}");
    })
    .await;
}

/// A client's call ends the response after a search. The next request continues with the tools that were
/// found.
#[tokio::test]
async fn found_tools_stay_available_after_a_call_of_the_client() {
    with_every_client(async |gateway, mut client, label| {
        for scenario in ["find-client", "find-mixed"] {
            let before = offered(gateway).len();
            let reply = client.say(scenario).await;
            let names: Vec<&str> = reply.calls.iter().map(|(_, name)| name.as_str()).collect();
            assert_eq!((reply.text.as_str(), &names[..]), ("", &["get_weather"][..]), "{label}");
            client.return_results(&[(&reply.calls[0].0, "sunny")]);
            check_end(&client.send().await, label);
            let offered = offered(gateway).split_off(before);
            let last = offered.last().unwrap();
            assert_eq!(last, "get_weather search_tools lookup fail", "{label}, {scenario}: {offered:?}");
            assert_eq!(offered[offered.len() - 2], *last, "{label}, {scenario}: {offered:?}");
        }
    })
    .await;
}

/// A client's tool keeps its name; the search gets another one.
#[tokio::test]
async fn the_search_has_another_name_than_the_tools_of_the_client() {
    with_every_client(async |gateway, mut client, label| {
        client.tools = vec!["search_tools"];
        let reply = client.say("call search_tools").await;
        assert_eq!(reply.calls.len(), 1, "{label}: the call is the client's");
        client.return_results(&[(&reply.calls[0].0, "none")]);
        assert_eq!(client.send().await.text, "Results: none.", "{label}");
        assert_eq!(offered(gateway)[1], "search_tools search_all_tools", "{label}");
    })
    .await;
}

/// A request that selects few tools gets them without a search.
#[tokio::test]
async fn a_selection_of_few_tools_needs_no_search() {
    with_every_client(async |gateway, mut client, label| {
        client.headers = vec![("x-toolwire-tools", "lookup, fail")];
        client.say("say hi").await;
        assert_eq!(offered(gateway), ["get_weather lookup fail"], "{label}");
    })
    .await;
}

/// The estimate of a request's tokens has the tools that are sent, which may be only the search.
#[tokio::test]
async fn the_tokens_of_tools_that_are_not_sent_do_not_count() {
    for tools in [0, 40] {
        let mut settings = GatewaySettings::default();
        settings.agent.search.tools = tools;
        let gateway = TestGateway::with(settings).await;
        let mut client = Client::new(gateway.url(MESSAGES), MESSAGES);
        client.history.push(json!({"role": "user", "content": "say hi"}));
        let mut body = client.body();
        body["system"] = json!("Be brief.");
        let url = gateway.url("/v1/messages/count_tokens");
        let counted: Value = http_client().post(url).json(&body).send().await.unwrap().json().await.unwrap();
        assert_eq!(client.post(&body).await.0, 200);
        let request = gateway.model.requests().pop().unwrap();
        let tools: u64 = request.tools.iter().map(|tool| tool.estimated_tokens()).sum();
        let messages: u64 = request.messages.iter().map(|message| message.estimated_tokens()).sum();
        let instructions = toolwire_contract::text::estimate_tokens("Be brief.");
        assert_eq!(counted, json!({"input_tokens": tools + messages + instructions}));
    }
}
