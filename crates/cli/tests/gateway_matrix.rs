//! Every API of a client with every API of a provider: the stand-ins of the providers refuse what the real ones refuse.

#![allow(clippy::unwrap_used)]

#[path = "../../gateway/tests/client/mod.rs"]
mod client;

use std::sync::Arc;

use client::{CHAT, Client, MESSAGES, RESPONSES, Reply};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use toolwire_agent::Functions;
use toolwire_contract::{Content, Tool, ToolResult};
use toolwire_gateway::{Gateway, GatewaySettings, ModelCatalog, ServedModel, UnknownModel};
use toolwire_llm::{Endpoint, EndpointConfig};
use toolwire_testkit::provider::{
    API_KEY, Api, FakeProvider, FinishReason, ModelOutput, Script, ScriptedResponse, TokenCounts,
};

const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";

struct OneModel(Endpoint);

impl ModelCatalog for OneModel {
    fn names(&self) -> Vec<String> {
        vec!["m".to_owned()]
    }

    fn find(&self, _name: &str) -> Result<ServedModel, UnknownModel> {
        let mut served = ServedModel::new(Arc::new(self.0.clone()));
        served.dialect = Some(self.0.dialect());
        Ok(served)
    }
}

fn tools() -> Functions {
    let tool = |name: &str| {
        let mut tool = Tool::new(name, json!({"type": "object", "properties": {"key": {"type": "string"}}}));
        tool.description = Some(format!("The tool {name}"));
        tool.annotations = json!({"readOnlyHint": true}).as_object().cloned();
        tool
    };
    let image = Content::image(PNG.to_owned(), "image/png");
    let picture = ToolResult { content: Some(vec![Content::text("a dot"), image]), ..ToolResult::default() };
    Functions::new().with(tool("lookup"), |_| async { Ok::<_, String>("found") }).with(
        tool("picture"),
        move |_| {
            let picture = picture.clone();
            async move { Ok::<_, String>(picture) }
        },
    )
}

/// A gateway in front of the stand-in of a provider that plays these outputs.
struct Served {
    provider: FakeProvider,
    url: String,
    stop: CancellationToken,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn serve(api: Api, outputs: Vec<ScriptedResponse>) -> Served {
    let provider = FakeProvider::start(api, Script::new(outputs)).await;
    let config = json!({
        "baseUrl": provider.base_url(), "apiKey": API_KEY, "region": "us-east-1", "retries": 0, "contextTokens": 100_000,
    });
    let config: EndpointConfig = serde_json::from_value(config).unwrap();
    let endpoint = Endpoint::new(&format!("{}/m", api.provider_name()), &config, |_| None).unwrap();
    let gateway = Gateway::new(Arc::new(OneModel(endpoint)), Arc::new(tools()), GatewaySettings::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move { gateway.serve(listener, stopped).await.unwrap() });
    Served { provider, url, stop }
}

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

fn call(name: &str) -> ModelOutput {
    ModelOutput::text("Let me look.").call("call00001", name, r#"{"key":"a"}"#)
}

fn answer(text: &str) -> ModelOutput {
    ModelOutput::text(text).usage(TokenCounts { input: 50, cached: 0, written: 0, output: 5, thinking: 0 })
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

/// What the client sends reaches a provider with the same API unchanged, also in the second request of the loop.
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
