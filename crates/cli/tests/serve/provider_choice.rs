//! A request cannot choose its provider, or what the provider gets besides the body. The numbers are those of
//! `docs/security-tests.md`.

use std::io::ErrorKind;
use std::net::TcpListener;

use serde_json::{Value, json};
use toolwire_testkit::http_client;
use toolwire_testkit::provider::{API_KEY, Api, FakeProvider, Script, ScriptedResponse};

use crate::pass_through::{Provider, response};
use crate::{Served, folder, serve, text_script, with_provider};

const CANARY_KEY: &str = "sk-canary-5e1";

/// Settings of clients and of other gateways that would choose the provider, its key, or headers.
fn settings(url: &str) -> Vec<(&'static str, Value)> {
    let headers = json!({"authorization": format!("Bearer {CANARY_KEY}"), "x-canary": CANARY_KEY});
    let urls = ["api_base", "base_url", "baseUrl", "endpoint", "proxy", "azure_endpoint"];
    let keys = ["api_key", "apiKey", "organization", "aws_access_key_id", "vertex_credentials"];
    let others =
        [("extra_headers", headers.clone()), ("headers", headers), ("custom_llm_provider", json!("openai"))];
    let urls = urls.map(|name| (name, json!(url)));
    let keys = keys.map(|name| (name, json!(CANARY_KEY)));
    urls.into_iter().chain(keys).chain(others).collect()
}

/// Security rule 7: in the body, the metadata, a header, the query and the options of the gateway, whether
/// the request is forwarded or converted.
#[tokio::test]
async fn settings_of_a_request_do_not_change_the_provider() {
    let canary = FakeProvider::start(Api::OpenAiChat, text_script()).await;
    let url = canary.base_url();
    let messages = json!([{"role": "user", "content": "hi"}]);
    for api in [Api::OpenAiChat, Api::Anthropic] {
        let provider = FakeProvider::start(api, text_script()).await;
        let name = api.provider_name();
        let served = serve(&folder(&format!("choice-{name}"), Some(&with_provider(&provider, name))), &[]);
        let mut answered = 0;
        for (path, body) in [
            ("/v1/chat/completions", json!({"model": "up", "messages": messages})),
            ("/v1/responses", json!({"model": "up", "input": "hi"})),
            ("/v1/messages", json!({"model": "up", "max_tokens": 9, "messages": messages})),
            ("/v1/embeddings", json!({"model": "up", "input": "hi"})),
        ] {
            for (key, value) in settings(&url) {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                for place in [
                    "body",
                    "metadata",
                    "extra_body",
                    "litellm_params",
                    "toolwire",
                    "header",
                    "option",
                    "query",
                ] {
                    let (mut body, mut target) = (body.clone(), format!("{}{path}", served.url));
                    let mut headers = vec![];
                    match place {
                        "body" => body[key] = value.clone(),
                        "header" => {
                            headers = vec![format!("x-{key}"), key.to_owned()];
                        }
                        "option" => headers = vec![format!("x-toolwire-{key}")],
                        "query" => target = format!("{target}?{key}={text}&extra_headers={text}"),
                        _ => body[place] = json!({key: value}),
                    }
                    let request = http_client().post(target).json(&body);
                    let request = headers
                        .iter()
                        .filter(|name| *name != "headers")
                        .fold(request, |request, name| request.header(name, &text));
                    let response = request.send().await.unwrap();
                    let status = response.status().as_u16();
                    let text = response.text().await.unwrap();
                    assert!(
                        [200, 400, 404].contains(&status),
                        "{name} {path} {place} {key}: {status} {text}"
                    );
                    answered += usize::from(status == 200);
                }
            }
        }
        assert!(answered > 100, "{name}: only {answered} requests reached the provider");
        assert_eq!(provider.requests().len() - provider.rejections().len(), answered, "{name}");
        for request in provider.requests() {
            let headers = format!("{:?}", request.headers);
            assert!(headers.contains(API_KEY) && !headers.contains("canary"), "{name}: {headers}");
            assert_eq!(request.query, "", "{name}");
        }
    }
    assert_eq!(canary.requests(), [], "nothing reaches another provider");
}

/// Security rule 16: what the gateway decides about a body holds for the body that the provider reads.
#[tokio::test]
async fn the_provider_reads_the_body_that_the_gateway_has_checked() {
    let script =
        Script::from_fn(|_| ScriptedResponse::error(400, json!({"error": {"message": "seen", "type": "t"}})));
    let provider = FakeProvider::start(Api::OpenAiChat, script).await;
    let served = serve(&folder("same-body", Some(&with_provider(&provider, "openai"))), &[]);
    let messages = r#""messages":[{"role":"user","content":"hi"}]"#;
    for (sent, expected) in [
        // The name of the model is replaced, however it is written.
        (r#""\u0075p""#, Some(r#""real-name""#)),
        (r#""up","seed":1"#, Some(r#""real-name","seed":1"#)),
        // Two parsers could find different values.
        (r#""up","model":"other""#, None),
        (r#""up","Model":"other""#, None),
        (r#""up","MODEL":"other""#, None),
        (r#""up","mode\u006c":"other""#, None),
        (r#""up","stream":true,"stream":false"#, None),
        (r#""up","\u0073tream":true"#, None),
        (r#""up","Tools":[]"#, None),
        (
            r#""up","tools":[],"tools":[{"type":"mcp","server_label":"x","server_url":"http://127.0.0.1:9"}]"#,
            None,
        ),
        // The gateway handles servers in a request itself, however they are written.
        (
            r#""up","tools":[{"type":"function","type":"mcp","server_label":"x","server_url":"http://127.0.0.1:9"}]"#,
            None,
        ),
        (
            r#""up","tools":[{"type":"mcp","type":"function","server_label":"x","server_url":"http://127.0.0.1:9"}]"#,
            None,
        ),
        (
            r#""up","tools":[{"t\u0079pe":"m\u0063p","server_label":"x","server_url":"http://127.0.0.1:9"}]"#,
            None,
        ),
        (r#""up","metadata":{"toolwire":"{\"max_steps\":0}"}"#, None),
        (r#""up","metadata":{"toolw\u0069re":"{\"max_steps\":0}"}"#, None),
    ] {
        let body = format!(r#"{{"model" : {sent},{messages}}}"#);
        let before = provider.requests().len();
        let request = http_client().post(format!("{}/v1/chat/completions", served.url)).body(body.clone());
        let response = request.header("content-type", "application/json").send().await.unwrap();
        let (status, text) = (response.status().as_u16(), response.text().await.unwrap());
        assert!([400, 403].contains(&status), "{body}: {status} {text}");
        let received = provider.requests().split_off(before);
        let received = received.first().map(|request| String::from_utf8_lossy(&request.bytes).into_owned());
        let expected = expected.map(|fields| format!(r#"{{"model" : {fields},{messages}}}"#));
        assert_eq!(received, expected, "{body}: {text}");
    }
}

/// Security rule 8: keys in any header, and the rest of a request, are never sent to the target of a
/// redirect.
#[tokio::test]
async fn redirects_of_providers_are_not_followed() {
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    target.set_nonblocking(true).unwrap();
    let location = format!("http://{}/v1/chat/completions", target.local_addr().unwrap());
    let messages = json!([{"role": "user", "content": "hi"}]);
    let form = "--b\r\ncontent-disposition: form-data; name=model\r\n\r\nup\r\n--b--\r\n";
    for name in ["openai", "responses", "anthropic", "gemini", "azure", "bedrock", "cohere", "ollama"] {
        for status in [301, 302, 303, 307, 308] {
            let headers = format!("location: {location}\r\ncontent-type: application/json");
            let provider = Provider::start(response(status, &headers, b"{}")).await;
            let served = redirected_gateway(name, &provider.url);
            for (path, content_type, body) in [
                ("chat/completions", JSON, json!({"model": "up", "messages": messages}).to_string()),
                ("responses", JSON, json!({"model": "up", "input": "hi"}).to_string()),
                ("messages", JSON, json!({"model": "up", "max_tokens": 9, "messages": messages}).to_string()),
                ("embeddings", JSON, json!({"model": "up", "input": "hi"}).to_string()),
                ("audio/transcriptions", "multipart/form-data; boundary=b", form.to_owned()),
            ] {
                let request = http_client().post(format!("{}/v1/{path}", served.url)).body(body);
                let received = request.header("content-type", content_type).send().await.unwrap();
                let label = format!("{name} {status} {path}");
                assert!([404, 502].contains(&received.status().as_u16()), "{label}: {}", received.status());
                assert!(!received.headers().contains_key("location"), "{label}");
            }
            assert!(provider.requests() >= 3, "{name} {status}: the provider was asked");
        }
    }
    let connection = target.accept().map(|_| "a redirect was followed");
    assert_eq!(connection.unwrap_err().kind(), ErrorKind::WouldBlock);
}

const JSON: &str = "application/json";

/// A gateway whose model has a key, and another secret in a header of its own.
fn redirected_gateway(name: &str, base_url: &str) -> Served {
    let model = json!({
        "provider": name, "model": "real-name", "baseUrl": base_url, "apiKey": API_KEY, "region": "us-east-1",
        "headers": {"x-team": "secret"}, "retries": 0,
    });
    let config = json!({"mcpServers": {}, "toolwire": {"model": "up", "models": {"up": model}}});
    serve(&folder(&format!("redirects-{name}"), Some(&config)), &[])
}
