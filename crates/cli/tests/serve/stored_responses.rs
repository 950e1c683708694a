//! Responses that continue after a restart, and at another gateway.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use toolwire_testkit::provider::{Api, FakeProvider, ModelOutput, ReceivedRequest, Script, ScriptedResponse};
use toolwire_testkit::{RedisServer, http_client};

use crate::{Served, command, folder, fs, serve_with, with_provider};

/// A model that calls the tool of the client if it is offered, and repeats its result.
fn script() -> Script {
    Script::from_fn(|request: &ReceivedRequest| {
        let text = request.body.to_string();
        ScriptedResponse::Output(match (text.contains("get_weather"), text.contains("sunny")) {
            (_, true) => ModelOutput::text("It is sunny."),
            (true, false) => ModelOutput::text("Let me look.").call("call00001", "get_weather", "{}"),
            (false, false) => ModelOutput::text("Hello from the provider."),
        })
    })
}

/// Starts a gateway with the data of a folder.
fn start(folder: &PathBuf) -> Served {
    serve_with(&mut command(folder, &["--listen", "127.0.0.1:0"]))
}

async fn create(served: &Served, mut body: Value, fields: Value) -> Value {
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let request = http_client().post(format!("{}/v1/responses", served.url)).json(&body);
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    assert_eq!(status, 200, "{text}");
    if body["stream"] != true {
        return serde_json::from_str(&text).unwrap();
    }
    let data = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap();
    serde_json::from_str::<Value>(data).unwrap()["response"].clone()
}

async fn get(served: &Served, path: &str) -> (u16, Value) {
    let response = http_client().get(format!("{}/v1/responses/{path}", served.url)).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// The text of the last item, and the conversation that the provider got.
fn text(response: &Value) -> &str {
    response["output"].as_array().unwrap().last().unwrap()["content"][0]["text"].as_str().unwrap()
}

/// A conversation with a call of the client's tool, in which each request goes to the next gateway.
async fn converse(provider: &FakeProvider, next: &mut dyn FnMut() -> Served, stream: bool) {
    let parameters = json!({"type": "object", "properties": {}});
    let tool = json!({"type": "function", "name": "get_weather", "strict": false, "parameters": parameters});
    let body = |input: Value| json!({"model": "up", "input": input, "tools": [tool], "stream": stream});
    let served = next();
    let first =
        create(&served, body(json!("How is the weather?")), json!({"instructions": "Be brief."})).await;
    let call =
        first["output"].as_array().unwrap().iter().find(|item| item["type"] == "function_call").unwrap();
    let result = json!([{"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}]);
    drop(served);
    let served = next();
    let second = create(&served, body(result), json!({"previous_response_id": first["id"]})).await;
    assert_eq!(text(&second), "It is sunny.");
    assert_eq!(second["previous_response_id"], first["id"]);
    drop(served);
    let served = next();
    let third = create(&served, body(json!("And now?")), json!({"previous_response_id": second["id"]})).await;
    assert_eq!(text(&third), "It is sunny.");
    let sent = provider.requests().pop().unwrap().body.to_string();
    for part in ["How is the weather?", "Let me look.", "call00001", "sunny", "It is sunny.", "And now?"] {
        assert!(sent.contains(part), "no {part}: {sent}");
    }
    assert!(!sent.contains("previous_response_id") && !sent.contains("Be brief."), "{sent}");
    assert_eq!(provider.rejections(), []);
    let id = third["id"].as_str().unwrap();
    assert_eq!(get(&served, id).await, (200, third.clone()));
    let (_, items) = get(&served, &format!("{id}/input_items?order=asc")).await;
    let types: Vec<&str> =
        items["data"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["message", "message", "function_call", "function_call_output", "message", "message"]);
}

/// The processes are killed, so only what was stored is left. With the Responses API at the provider, the
/// requests are forwarded.
#[tokio::test]
async fn a_conversation_continues_after_each_restart() {
    for (api, name) in
        [(Api::OpenAiChat, "openai"), (Api::Anthropic, "anthropic"), (Api::Responses, "responses")]
    {
        for stream in [false, true] {
            let provider = FakeProvider::start(api, script()).await;
            let folder = folder(&format!("restart-{name}-{stream}"), Some(&with_provider(&provider, name)));
            converse(&provider, &mut || start(&folder), stream).await;
            assert!(folder.join("data/toolwire/conversations.state.db").exists());
        }
    }
}

#[tokio::test]
async fn gateways_with_one_redis_continue_each_others_responses() {
    let redis = RedisServer::start();
    for (api, name) in [(Api::OpenAiChat, "openai"), (Api::Responses, "responses")] {
        let provider = FakeProvider::start(api, script()).await;
        let mut config = with_provider(&provider, name);
        config["toolwire"]["store"] = json!(redis.url());
        let folders = ["a", "b"].map(|gateway| folder(&format!("redis-{name}-{gateway}"), Some(&config)));
        let gateways = [start(&folders[0]), start(&folders[1])];
        let body = |input: &str| json!({"model": "up", "input": input});
        let mut previous = create(&gateways[0], body("Question 0."), json!({})).await;
        for number in 1..6 {
            let fields = json!({"previous_response_id": previous["id"], "stream": number % 2 == 0});
            previous = create(&gateways[number % 2], body(&format!("Question {number}.")), fields).await;
            let sent = provider.requests().pop().unwrap().body.to_string();
            assert!((0..=number).all(|number| sent.contains(&format!("Question {number}."))), "{sent}");
        }
        let id = previous["id"].as_str().unwrap();
        assert_eq!(get(&gateways[0], id).await, get(&gateways[1], id).await);
        let url = format!("{}/v1/responses/{id}", gateways[0].url);
        assert_eq!(http_client().delete(url).send().await.unwrap().status(), 200);
        assert_eq!(get(&gateways[1], id).await.0, 404);
    }
    // Each response has an expiry.
    let keys = redis.command(&["KEYS", "toolwire:*:state"]);
    let lifetimes: Vec<String> = keys
        .lines()
        .filter(|key| key.starts_with("toolwire:"))
        .map(|key| redis.command(&["TTL", key]))
        .collect();
    assert!(
        !lifetimes.is_empty() && lifetimes.iter().all(|lifetime| lifetime.trim().parse::<u64>().is_ok()),
        "{lifetimes:?}"
    );
}

#[tokio::test]
async fn responses_are_not_stored_if_the_configuration_says_so() {
    let provider = FakeProvider::start(Api::OpenAiChat, script()).await;
    let mut config = with_provider(&provider, "openai");
    config["toolwire"]["gateway"] = json!({"responseRetention": 0});
    let folder = folder("no-retention", Some(&config));
    let served = start(&folder);
    let response = create(&served, json!({"model": "up", "input": "hi"}), json!({})).await;
    assert_eq!(get(&served, response["id"].as_str().unwrap()).await.0, 404);
    assert!(!folder.join("data/toolwire/conversations.state.db").exists());
    drop(served);
    config["toolwire"]["gateway"] = json!({"responseRetention": "soon"});
    fs::write(folder.join("mcp.json"), config.to_string()).unwrap();
    let output = command(&folder, &["--listen", "127.0.0.1:0"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("`toolwire.gateway.responseRetention`: `soon` is not a duration"), "{stderr}");
}

#[tokio::test]
async fn gateways_with_one_redis_share_conversations() {
    let redis = RedisServer::start();
    let provider = FakeProvider::start(Api::OpenAiChat, script()).await;
    let mut config = with_provider(&provider, "openai");
    config["toolwire"]["store"] = json!(redis.url());
    let folders = ["a", "b"].map(|gateway| folder(&format!("conversation-{gateway}"), Some(&config)));
    let gateways = [start(&folders[0]), start(&folders[1])];
    let request = http_client().post(format!("{}/v1/conversations", gateways[0].url)).json(&json!({}));
    let conversation: Value = request.send().await.unwrap().json().await.unwrap();
    for number in 0..5 {
        let body = json!({"model": "up", "input": format!("Question {number}.")});
        let fields = json!({"conversation": conversation["id"], "stream": number % 2 == 0});
        create(&gateways[number % 2], body, fields).await;
        let sent = provider.requests().pop().unwrap().body.to_string();
        assert!((0..=number).all(|number| sent.contains(&format!("Question {number}."))), "{sent}");
        assert!(!sent.contains("conv_"), "{sent}");
    }
    let url = format!("{}/v1/conversations/{}/items", gateways[0].url, conversation["id"].as_str().unwrap());
    let list: Value = http_client().get(url).send().await.unwrap().json().await.unwrap();
    assert_eq!(list["data"].as_array().unwrap().len(), 10);
}

/// A gateway is killed while it writes a response. Another one, or the same one after its restart, continues
/// it although no client asks for it.
#[tokio::test]
async fn a_response_in_the_background_outlives_its_gateway() {
    let redis = RedisServer::start();
    for store in [Some(redis.url()), None] {
        let has_hung = AtomicBool::new(false);
        let script = Script::from_fn(move |_| match has_hung.swap(true, Ordering::SeqCst) {
            false => ScriptedResponse::Hang,
            true => ScriptedResponse::Output(ModelOutput::text("Here I am.")),
        });
        let provider = FakeProvider::start(Api::OpenAiChat, script).await;
        let mut config = with_provider(&provider, "openai");
        config["toolwire"]["gateway"] = json!({"limits": {"backgroundLease": "2s"}});
        if let Some(url) = &store {
            config["toolwire"]["store"] = json!(url);
        }
        let folders = ["background-a", "background-b"].map(|name| folder(name, Some(&config)));
        let first = start(&folders[0]);
        let body = json!({"model": "up", "input": "hi", "background": true});
        let response = create(&first, body, json!({})).await;
        let requests = async |count: usize| {
            let received = async {
                while provider.requests().len() < count {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(120), received).await.expect("a request");
        };
        requests(1).await;
        drop(first);
        let second = start(&folders[usize::from(store.is_some())]);
        requests(2).await;
        let response = loop {
            let (status, response) = get(&second, response["id"].as_str().unwrap()).await;
            assert_eq!(status, 200, "{response}");
            if response["status"] != "in_progress" {
                break response;
            }
        };
        assert_eq!((&response["status"], text(&response)), (&json!("completed"), "Here I am."));
    }
}
