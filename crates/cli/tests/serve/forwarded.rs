//! Requests that are forwarded to providers which fail. The numbers are those of `docs/security-tests.md`.

use serde_json::{Value, json};
use toolwire_testkit::http_client;
use toolwire_testkit::provider::{
    API_KEY, Api, Delivery, FakeProvider, Gate, ModelOutput, Script, ScriptedResponse,
};

use crate::{command, folder, serve, serve_with, text_script, with_provider};

/// The API of each client, the name of its provider, its path, and a request.
fn clients() -> [(Api, &'static str, &'static str, Value); 3] {
    let messages = json!([{"role": "user", "content": "hi"}]);
    [
        (Api::OpenAiChat, "openai", "/v1/chat/completions", json!({"model": "up", "messages": messages})),
        (Api::Responses, "responses", "/v1/responses", json!({"model": "up", "input": "hi"})),
        (
            Api::Anthropic,
            "anthropic",
            "/v1/messages",
            json!({"model": "up", "max_tokens": 9, "messages": messages}),
        ),
    ]
}

/// A response that is not in the format of the API.
fn raw(content_type: &str, body: &str) -> ScriptedResponse {
    let headers = vec![("content-type".to_owned(), content_type.to_owned())];
    ScriptedResponse::Raw {
        status: 200,
        headers,
        body: vec![body.as_bytes().to_vec()],
        delivery: Delivery::default(),
    }
}

fn cut(events: usize) -> ScriptedResponse {
    let delivery = Delivery { cut_after_events: Some(events), ..Delivery::default() };
    ScriptedResponse::Delivered(ModelOutput::text("Hello from the provider."), delivery)
}

/// Returns whether a text is an error in the format of the API.
fn is_error(path: &str, text: &str) -> bool {
    let error: Value = serde_json::from_str(text).unwrap_or_default();
    let has_type = (error["type"] == "error") == (path == "/v1/messages");
    has_type && error["error"]["message"].is_string() && error["error"]["type"].is_string()
}

async fn send(url: &str, path: &str, body: &Value, stream: bool) -> (u16, String) {
    let mut body = body.clone();
    body["stream"] = json!(stream);
    let response = http_client().post(format!("{url}{path}")).json(&body).send().await.unwrap();
    (
        response.status().as_u16(),
        response.text().await.unwrap_or_else(|_| "the connection was closed".to_owned()),
    )
}

/// A stream that the provider cuts ends with an error in the format of the API.
#[tokio::test]
async fn a_cut_stream_ends_with_an_error() {
    for (api, name, path, body) in clients() {
        let provider = FakeProvider::start(api, Script::from_fn(|_| cut(2))).await;
        let served = serve(&folder(&format!("cut-{name}"), Some(&with_provider(&provider, name))), &[]);
        let (status, text) = send(&served.url, path, &body, true).await;
        assert_eq!(status, 200, "{name}: {text}");
        let events: Vec<&str> = text.split("\n\n").filter(|event| !event.is_empty()).collect();
        assert_eq!(events.len(), 3, "two events, and the error: {name} {text}");
        let data = events[2].lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
        let error: Value = serde_json::from_str(data).unwrap();
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.contains("interrupted"), "{name}: {message}");
        let has_name = events[2].starts_with("event: error\n");
        assert_eq!(has_name, path != "/v1/chat/completions", "{name}: {}", events[2]);
        assert_eq!(error["type"] == "error", has_name, "{name}: {error}");
        if path == "/v1/messages" {
            assert!(error["request_id"].as_str().unwrap().starts_with("req_"), "{error}");
        }
    }
}

/// A provider that ends a stream properly in the middle of a response has not completed it.
#[tokio::test]
async fn a_stream_without_its_last_event_ends_with_an_error() {
    for (api, name, path, body) in clients() {
        let event = match path {
            "/v1/chat/completions" => json!({"choices": [{"index": 0, "delta": {"content": "Half"}}]}),
            "/v1/responses" => json!({"type": "response.output_text.delta", "delta": "Half"}),
            _ => {
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Half"}})
            }
        };
        let response = raw("text/event-stream", &format!("data: {event}\n\n"));
        let provider = FakeProvider::start(api, Script::from_fn(move |_| response.clone())).await;
        let served = serve(&folder(&format!("ended-{name}"), Some(&with_provider(&provider, name))), &[]);
        let (status, text) = send(&served.url, path, &body, true).await;
        assert_eq!(status, 200, "{name}: {text}");
        let (half, error) = text.split_once("\n\n").unwrap();
        assert_eq!(half, format!("data: {event}"), "{name}");
        let data = error.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or_default();
        let error: Value = serde_json::from_str(data).unwrap_or_default();
        assert!(
            error["error"]["message"].as_str().unwrap_or_default().contains("interrupted"),
            "{name}: {text}"
        );
    }
}

/// An error in the middle of a stream, or in a complete response, does not contain the key of the provider.
#[tokio::test]
async fn errors_in_responses_do_not_contain_keys() {
    for (api, name, path, body) in clients() {
        let output =
            ModelOutput::text("Hello").stream_error("server_error", &format!("the key {API_KEY} failed"));
        let error = json!({"type": "error", "error": {"type": "api_error", "message": format!("the key {API_KEY} failed")}});
        let responses = [ScriptedResponse::Output(output), raw("application/json", &error.to_string())];
        let provider = FakeProvider::start(api, Script::new(responses)).await;
        let served = serve(&folder(&format!("keys-{name}"), Some(&with_provider(&provider, name))), &[]);
        for stream in [true, false] {
            let (status, text) = send(&served.url, path, &body, stream).await;
            assert_eq!(status, 200, "{name}: {text}");
            assert!(text.contains("the key … failed") && !text.contains(API_KEY), "{name}: {text}");
        }
    }
}

/// A server that only follows OpenAI's API may not know its newer name of the output limit.
#[tokio::test]
async fn other_servers_get_the_limit_under_the_name_that_they_know() {
    let provider = FakeProvider::start(Api::OpenAiChat, text_script()).await;
    let served = serve(&folder("limit", Some(&with_provider(&provider, "vllm"))), &[]);
    let body = |limits: &str| {
        format!(
            r#"{{"logprobs":true, {limits}, "model":"up","messages":[{{"role":"user","content":"hi"}}]}}"#
        )
    };
    let send = async |body: String| {
        let request = http_client().post(format!("{}/v1/chat/completions", served.url));
        let response = request.header("content-type", "application/json").body(body).send().await.unwrap();
        response.status().as_u16()
    };
    assert_eq!(send(body(r#""max_completion_tokens" : 50"#)).await, 200);
    let received = provider.requests().pop().unwrap();
    let expected = body(r#""max_tokens" : 50"#).replace("\"up\"", "\"real-name\"");
    assert_eq!(String::from_utf8_lossy(&received.bytes), expected);
    for (sent, expected) in [
        (
            r#""max_completion_tokens":50,"max_tokens":null"#,
            r#""max_tokens":50,"max_completion_tokens":null"#,
        ),
        (
            r#""max_completion_tokens":null,"max_tokens":40"#,
            r#""max_completion_tokens":null,"max_tokens":40"#,
        ),
    ] {
        assert_eq!(send(body(sent)).await, 200, "`null` means absent: {sent}");
        let received = provider.requests().pop().unwrap();
        let expected = body(expected).replace("\"up\"", "\"real-name\"");
        assert_eq!(String::from_utf8_lossy(&received.bytes), expected);
    }
    let both =
        body(r#""max_completion_tokens":50,"max_tokens":40"#).replace("\"logprobs\":true", "\"seed\":1");
    assert_eq!(send(both).await, 200);
    let received = provider.requests().pop().unwrap().body;
    assert_eq!((&received["max_tokens"], received.get("max_completion_tokens")), (&json!(40), None));
}

/// A web page, nothing, or half a response is an error of the provider, in the format of the API.
#[tokio::test]
async fn unusable_responses_are_errors() {
    for (api, name, path, body) in clients() {
        for (number, response) in [
            raw("text/html; charset=utf-8", "<html><h1>Sign in</h1></html>"),
            raw("application/json", "<!doctype html>"),
            raw("text/plain", "OK"),
            raw("application/json", ""),
            raw("text/event-stream", ""),
            ScriptedResponse::CloseBeforeHeaders,
            cut(0),
        ]
        .into_iter()
        .enumerate()
        {
            let provider = FakeProvider::start(api, Script::from_fn(move |_| response.clone())).await;
            let config = with_provider(&provider, name);
            let served = serve(&folder(&format!("unusable-{name}"), Some(&config)), &[]);
            for stream in [false, true] {
                let (status, text) = send(&served.url, path, &body, stream).await;
                assert_eq!(status, 502, "{name} {number} {stream}: {text}");
                assert!(is_error(path, &text), "{name} {number} {stream}: {text}");
            }
        }
    }
}

/// Until the first byte of a response, another endpoint is used instead.
#[tokio::test]
async fn another_endpoint_is_used_until_the_first_byte() {
    for (number, response) in [
        raw("text/html", "<html></html>"),
        raw("text/event-stream", ""),
        ScriptedResponse::CloseBeforeHeaders,
        cut(0),
        ScriptedResponse::error(404, json!({"error": {"message": "no such model"}})),
        ScriptedResponse::error(503, json!({"error": {"message": "busy"}})),
    ]
    .into_iter()
    .enumerate()
    {
        let failing = FakeProvider::start(Api::OpenAiChat, Script::from_fn(move |_| response.clone())).await;
        let working = FakeProvider::start(Api::OpenAiChat, text_script()).await;
        let upstream =
            |provider: &FakeProvider, weight: u32| json!({"baseUrl": provider.base_url(), "weight": weight});
        let config = json!({"mcpServers": {}, "toolwire": {"model": "up", "models": {"up": {
            "provider": "openai", "model": "m", "apiKey": API_KEY, "retries": 0,
            "upstreams": [upstream(&failing, u32::MAX), upstream(&working, 0)],
        }}}});
        let served = serve(&folder("first-byte", Some(&config)), &[]);
        for stream in [false, true] {
            let (status, text) = send(&served.url, "/v1/chat/completions", &clients()[0].3, stream).await;
            assert_eq!(status, 200, "{number} {stream}: {text}");
            assert!(text.contains("Hello") || stream, "{number}: {text}");
        }
        assert_eq!((failing.requests().len(), working.requests().len()), (2, 2), "{number}");
    }
}

/// The duration of a forwarded response is limited too.
#[tokio::test]
async fn a_forwarded_response_takes_a_limited_time() {
    for (api, name, path, body) in clients() {
        let never = Delivery { gates: vec![(2, Gate::new())], ..Delivery::default() };
        let stalled = ScriptedResponse::Delivered(ModelOutput::text("Hello from the provider."), never);
        let script = Script::new([ScriptedResponse::Hang, stalled]);
        let provider = FakeProvider::start(api, script).await;
        let mut config = with_provider(&provider, name);
        config["toolwire"]["gateway"] = json!({"limits": {"runTimeout": "1s"}});
        let served = serve(&folder(&format!("time-{name}"), Some(&config)), &[]);
        let (status, text) = send(&served.url, path, &body, true).await;
        assert_eq!(status, 504, "{name}: {text}");
        assert!(is_error(path, &text), "{name}: {text}");
        let (status, text) = send(&served.url, path, &body, true).await;
        assert_eq!(status, 200, "{name}: {text}");
        assert!(text.contains("the response took too long"), "{name}: {text}");
    }
}

/// Security rule 28: clients with different keys share the account at the provider, so they must not refer to
/// data that it has stored.
#[tokio::test]
async fn clients_with_different_keys_cannot_refer_to_stored_data() {
    let provider = FakeProvider::start(Api::Responses, text_script()).await;
    let mut config = with_provider(&provider, "responses");
    config["toolwire"]["gateway"] = json!({"keys": {"one": "key-1", "two": "key-2"}});
    let served = serve(&folder("state", Some(&config)), &[]);
    let send = async |body: &str| {
        let request = http_client().post(format!("{}/v1/responses", served.url)).header("x-api-key", "key-1");
        let response =
            request.header("content-type", "application/json").body(body.to_owned()).send().await.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    for (body, key) in [
        (
            r#"{"model":"up","input":[{"role":"user","content":[{"type":"input_file","file_id":"file-1"}]}]}"#,
            "file_id",
        ),
        (
            r#"{"model":"up","input":[{"role":"user","content":[{"type":"input_file","\u0066ile_id":"file-1"}]}]}"#,
            "file_id",
        ),
        (
            r#"{"model":"up","input":"hi","tools":[{"type":"file_search","vector_store_ids":["vs_1"]}]}"#,
            "vector_store_ids",
        ),
        (r#"{"model":"up","prompt":{"id":"pmpt_1"}}"#, "prompt"),
        (r#"{"model":"up","input":[{"type":"item_reference","id":"msg_1"}]}"#, "item_reference"),
        (r#"{"model":"up","input":"hi","previous_response_id":"resp_1"}"#, "previous_response_id"),
        (
            r#"{"model":"up","input":"hi","tools":[{"type":"code_interpreter","container":"cntr_1"}]}"#,
            "container",
        ),
        // A second key or a different spelling does not hide a reference.
        (
            r#"{"model":"up","input":[{"type":"image_generation_call","id":"ig_1","Result":"aW1n"}]}"#,
            "image_generation_call",
        ),
        (
            r#"{"model":"up","input":[{"type":"reasoning","id":"rs_1","encrypted_content":null,"encrypted_content":"YQ"}]}"#,
            "reasoning",
        ),
        (
            r#"{"model":"up","input":[{"type":"message","id":"msg_1","role":"user","content":"hi","Type":"item_reference"}]}"#,
            "item_reference",
        ),
        (r#"{"model":"up","input":[{"id":"msg_1","role":null}]}"#, "item_reference"),
    ] {
        let (status, error) = send(body).await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!(key)), "{body}: {error}");
    }
    // Reasoning that only the provider's store contains is not looked up there.
    let (status, response) = send(
        r#"{"model":"up","input":[{"role":"user","content":"hi"},{"type":"reasoning","id":"rs_1","summary":[]},{"role":"user","content":"hi"}]}"#,
    )
    .await;
    assert_eq!(status, 200, "{response}");
    let sent = provider.requests().pop().unwrap();
    assert!(!String::from_utf8_lossy(&sent.bytes).contains("rs_1"));
    // Servers in a request are handled by the gateway, however their type is written.
    let (status, error) = send(r#"{"model":"up","input":"hi","tools":[{"type":"\u006dcp","server_label":"none","server_url":"http://127.0.0.1:9"}]}"#).await;
    assert_eq!(status, 403, "{error}");
    assert_eq!(provider.requests().len(), 1, "nothing else reaches the provider");

    config["toolwire"]["gateway"]["providerState"] = json!(true);
    let served = serve_with(&mut command(&folder("state", Some(&config)), &["--listen", "127.0.0.1:0"]));
    let request = http_client().post(format!("{}/v1/responses", served.url)).header("x-api-key", "key-1");
    let body = json!({"model": "up", "input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}]});
    let _ = request.json(&body).send().await.unwrap();
    assert_eq!(provider.requests().len() + provider.rejections().len(), 2, "the configuration allows it");

    // A key may have the right that the others do not have.
    config["toolwire"]["gateway"] =
        json!({"keys": {"one": "key-1", "two": {"key": "key-2", "providerState": true}}});
    let served = serve_with(&mut command(&folder("state", Some(&config)), &["--listen", "127.0.0.1:0"]));
    for (key, expected) in [("key-1", 2), ("key-2", 3)] {
        let request = http_client().post(format!("{}/v1/responses", served.url)).header("x-api-key", key);
        let _ = request.json(&body).send().await.unwrap();
        assert_eq!(provider.requests().len() + provider.rejections().len(), expected, "{key}");
    }
}

/// Thinking of a model without signatures, and calls of servers, are in responses of the gateway. Anthropic's
/// API rejects them, so such a history is converted.
#[tokio::test]
async fn blocks_of_the_gateway_are_not_forwarded() {
    let provider = FakeProvider::start(Api::Anthropic, text_script()).await;
    let served = serve(&folder("blocks", Some(&with_provider(&provider, "anthropic"))), &[]);
    let call = json!({"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "lookup", "server_name": "demo", "input": {}});
    let result = json!({"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": false, "content": [{"type": "text", "text": "found"}]});
    for blocks in [
        json!([{"type": "thinking", "thinking": "Hm.", "signature": ""}, {"type": "text", "text": "Hello."}]),
        json!([call, result, {"type": "text", "text": "Hello."}]),
    ] {
        let messages = json!([
            {"role": "user", "content": "hi"}, {"role": "assistant", "content": blocks}, {"role": "user", "content": "again"},
        ]);
        let body = json!({"model": "up", "max_tokens": 9, "messages": messages});
        let (status, text) = send(&served.url, "/v1/messages", &body, false).await;
        assert_eq!(status, 200, "{blocks}: {text}");
    }
    assert_eq!(provider.rejections(), []);
}

/// Several endpoints: a request that fails before its response begins is sent to another one.
#[tokio::test]
async fn a_failing_endpoint_is_replaced_by_another() {
    let failing = FakeProvider::start(
        Api::OpenAiChat,
        Script::from_fn(|_| ScriptedResponse::error(503, json!({"error": {"message": "busy"}}))),
    )
    .await;
    let working = FakeProvider::start(Api::OpenAiChat, text_script()).await;
    let upstream = |provider: &FakeProvider| json!({"baseUrl": provider.base_url()});
    let config = json!({"mcpServers": {}, "toolwire": {"model": "up", "models": {"up": {
        "provider": "openai", "model": "m", "apiKey": API_KEY, "upstreams": [upstream(&failing), upstream(&working)],
    }}}});
    let served = serve(&folder("upstreams", Some(&config)), &[]);
    for path in ["/v1/chat/completions", "/v1/messages"] {
        for _ in 0..8 {
            let body =
                json!({"model": "up", "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]});
            let response =
                http_client().post(format!("{}{path}", served.url)).json(&body).send().await.unwrap();
            assert_eq!(response.status(), 200, "{path}: {}", response.text().await.unwrap());
        }
    }
    assert_eq!(working.requests().len(), 16);
    assert!(!failing.requests().is_empty(), "both endpoints were used");
}

/// The error names the model as the client does. The log has the address.
#[tokio::test]
async fn an_error_does_not_contain_the_address_of_the_provider() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    for name in ["openai", "responses", "anthropic"] {
        let model = json!({"provider": name, "model": "real-name", "baseUrl": format!("http://{address}/v1"),
            "apiKey": API_KEY, "retries": 0});
        let config = json!({"mcpServers": {}, "toolwire": {"model": "up", "models": {"up": model}}});
        let served = serve(&folder("address", Some(&config)), &[]);
        let embeddings = (Api::OpenAiChat, name, "/v1/embeddings", json!({"model": "up", "input": "hi"}));
        for (_, _, path, body) in
            clients().into_iter().chain([embeddings].into_iter().filter(|_| name == "openai"))
        {
            for stream in [true, false] {
                let (status, text) = send(&served.url, path, &body, stream).await;
                let label = format!("{name} {path} {stream}: {text}");
                assert!(status == 502 && is_error(path, &text) && text.contains("`up`"), "{label}");
                let (host, port) = (address.ip().to_string(), address.port().to_string());
                assert!(!text.contains(&host) && !text.contains(&port), "{label}");
            }
        }
    }
}
