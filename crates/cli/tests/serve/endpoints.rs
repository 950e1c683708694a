//! The API of a provider that gets a request, and what the provider gets of it.

use serde_json::{Value, json};
use toolwire_testkit::http_client;
use toolwire_testkit::provider::{API_KEY, Api, FakeProvider, ModelOutput, Script, ScriptedResponse};

use crate::{Served, folder, serve, text_script};

fn start(name: &str, provider: &FakeProvider, servers: Value, model: Value) -> Served {
    let mut fields =
        json!({"model": "real-name", "baseUrl": provider.base_url(), "apiKey": API_KEY, "retries": 0});
    for (key, value) in model.as_object().unwrap() {
        fields[key] = value.clone();
    }
    let config = json!({"mcpServers": servers, "toolwire": {"model": "up", "models": {"up": fields}}});
    serve(&folder(&format!("endpoints-{name}"), Some(&config)), &[])
}

/// The tools of the demo server.
fn demo() -> Value {
    json!({"demo": {"command": env!("CARGO_BIN_EXE_toolwire"), "args": ["demo-server"]}})
}

/// Returns the status, the names of the dropped fields, and the body.
async fn send(served: &Served, path: &str, body: &str) -> (u16, String, String) {
    let request = http_client().post(format!("{}{path}", served.url));
    let response =
        request.header("content-type", "application/json").body(body.to_owned()).send().await.unwrap();
    let dropped = response.headers().get("x-toolwire-dropped").map_or("", |names| names.to_str().unwrap());
    let (status, mut dropped) = (response.status().as_u16(), dropped.split(", ").collect::<Vec<_>>());
    dropped.sort_unstable();
    let dropped = dropped.join(" ");
    (status, dropped, response.text().await.unwrap())
}

const RESPONSES_BODY: &str =
    r#"{"model":"up", "input":"hi", "max_tool_calls":3,"truncation":"auto","store":false, "top_p": 1.0}"#;

/// A client of the Responses API gets a response of OpenAI's Responses API, and one of Chat Completions a
/// response of that.
#[tokio::test]
async fn a_client_uses_its_own_api_of_a_provider_that_has_both() {
    for (name, servers) in [("unchanged", json!({})), ("with-tools", demo())] {
        let both = json!({"provider": "openai", "api": "both"});
        let provider = FakeProvider::start(Api::Responses, text_script()).await;
        let served = start(&format!("responses-{name}"), &provider, servers.clone(), both.clone());
        for stream in [false, true] {
            let body = match stream {
                true => RESPONSES_BODY.replacen('{', "{\"stream\":true,", 1),
                false => RESPONSES_BODY.to_owned(),
            };
            let (status, dropped, text) = send(&served, "/v1/responses", &body).await;
            assert_eq!((status, dropped.as_str()), (200, ""), "{text}");
            assert!(text.contains("Hello from the provider."), "{text}");
            let received = provider.requests().pop().unwrap();
            assert!(received.path.ends_with("/responses"), "{}", received.path);
            if name == "unchanged" {
                let expected = body.replace("\"up\"", "\"real-name\"");
                assert_eq!(String::from_utf8_lossy(&received.bytes), expected);
            }
            let kept = ["max_tool_calls", "truncation", "top_p"].map(|field| received.body[field].clone());
            // The gateway counts the calls of the servers' tools itself.
            let limit = if name == "unchanged" { json!(3) } else { Value::Null };
            assert_eq!(kept, [limit, json!("auto"), json!(1.0)]);
        }
        assert_eq!(provider.rejections(), []);

        let provider = FakeProvider::start(Api::OpenAiChat, text_script()).await;
        let served = start(&format!("chat-{name}"), &provider, servers, both);
        let body =
            json!({"model": "up", "messages": [{"role": "user", "content": "hi"}], "logit_bias": {"1": 1}});
        let (status, dropped, text) = send(&served, "/v1/chat/completions", &body.to_string()).await;
        assert_eq!((status, dropped.as_str()), (200, ""), "{text}");
        let received = provider.requests().pop().unwrap();
        assert!(received.path.ends_with("/chat/completions"), "{}", received.path);
        assert_eq!(received.body["logit_bias"], json!({"1": 1}));
        let body = json!({"model": "up", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]});
        let (status, _, text) = send(&served, "/v1/messages", &body.to_string()).await;
        assert_eq!(status, 200, "other clients use Chat Completions: {text}");
        assert_eq!(provider.rejections(), []);
    }
}

/// The configuration names one API, or the server is not OpenAI's own.
#[tokio::test]
async fn a_provider_with_one_api_gets_every_request_through_it() {
    for (name, model, lost) in [
        ("other-server", json!({"provider": "openai"}), "truncation"),
        ("chat", json!({"provider": "openai", "api": "chat"}), "truncation"),
        ("vllm", json!({"provider": "vllm"}), "store truncation"),
    ] {
        let provider = FakeProvider::start(Api::OpenAiChat, text_script()).await;
        let served = start(&format!("one-{name}"), &provider, json!({}), model);
        let (status, dropped, text) = send(&served, "/v1/responses", RESPONSES_BODY).await;
        assert_eq!((status, dropped.as_str()), (200, lost), "{name}: {text}");
        assert!(provider.requests().pop().unwrap().path.ends_with("/chat/completions"));
        assert_eq!(provider.rejections(), [], "{name}");
    }
}

/// An endpoint that cannot send the request as it is gets a converted one, and the client learns what is
/// lost.
#[tokio::test]
async fn what_a_converted_request_loses_is_listed_although_the_provider_has_the_client_s_api() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false});
    let body = json!({
        "model": "up", "max_tokens": 9,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]}],
        "output_config": {"format": {"type": "json_schema", "schema": schema}},
    });
    for (name, method, expected) in [("native", "schema", ""), ("tool", "prompt", "cache_control")] {
        let script = Script::from_fn(|_| ScriptedResponse::Output(ModelOutput::text(r#"{"a":"x"}"#)));
        let provider = FakeProvider::start(Api::Anthropic, script).await;
        // Without marks of the gateway itself.
        let model = json!({"provider": "anthropic", "structuredOutput": method, "promptCache": false});
        let served = start(&format!("output-{name}"), &provider, demo(), model);
        let (status, dropped, text) = send(&served, "/v1/messages", &body.to_string()).await;
        assert_eq!((status, dropped.as_str()), (200, expected), "{name}: {text}");
        let sent = provider.requests().remove(0).body;
        let mark = sent["messages"][0]["content"][0].get("cache_control");
        assert_eq!(mark.is_some(), expected.is_empty(), "{sent}");
    }
}
