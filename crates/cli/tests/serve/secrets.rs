//! The gateway does not reveal secrets, and fetches no URL in a request. The numbers are those in
//! `docs/security-tests.md`.

use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::net::TcpListener;
use toolwire_testkit::http_client;
use toolwire_testkit::provider::{API_KEY, Api, FakeProvider, ReceivedRequest, Script, ScriptedResponse};

use crate::{command, folder, fs, serve, serve_with, text_script, with_provider};

const PASSWORD: &str = "planted-password-7e1";
const HEADER: &str = "planted-header-7e2";
const GATEWAY_KEY: &str = "planted-gateway-key-0123456789abcdef";
const SERVER_VARIABLE: &str = "planted-variable-7e4";
const SECRETS: [&str; 5] = [API_KEY, PASSWORD, HEADER, GATEWAY_KEY, SERVER_VARIABLE];

#[track_caller]
fn check(text: &str, place: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{place}: `{secret}` in {text}");
    }
}

/// A provider that repeats everything it received in its errors.
fn telling(request: &ReceivedRequest) -> ScriptedResponse {
    let echoed = format!("you sent {:?} {API_KEY} {HEADER} {PASSWORD}", request.headers);
    let text = String::from_utf8_lossy(&request.bytes).into_owned();
    let words = text.split("fail ").nth(1).unwrap_or("400 json").split('"').next().unwrap_or_default();
    let (status, kind) = words.split_once(' ').unwrap_or(("400", "json"));
    let headers = vec![
        ("content-type".to_owned(), "text/plain".to_owned()),
        ("location".to_owned(), "http://127.0.0.1:1/".to_owned()),
    ];
    let status = status.parse().unwrap();
    let body = match kind {
        "json" => {
            json!({"type": "error", "error": {"message": echoed, "type": echoed, "code": echoed, "param": echoed, "extra": [echoed]}})
        }
        "detail" => json!({"detail": echoed}),
        _ => json!(echoed),
    };
    ScriptedResponse::Error { status, headers, body }
}

/// Security rule 13: secrets of the gateway appear in no response and in no log, whatever fails.
#[tokio::test]
async fn secrets_appear_in_no_error() {
    let mut count = 0;
    for api in [Api::OpenAiChat, Api::Responses, Api::Anthropic, Api::Gemini] {
        let name = api.provider_name();
        let provider = FakeProvider::start(api, Script::from_fn(telling)).await;
        let mut config = with_provider(&provider, name);
        let base_url = provider.base_url().replace("http://", &format!("http://user:{PASSWORD}@"));
        config["toolwire"]["models"]["up"]["baseUrl"] = json!(base_url);
        config["toolwire"]["models"]["up"]["headers"] = json!({"x-team": HEADER});
        let gone = json!({"provider": name, "model": "m", "baseUrl": format!("http://user:{PASSWORD}@127.0.0.1:1"), "apiKey": API_KEY, "retries": 0});
        config["toolwire"]["models"]["gone"] = gone;
        config["toolwire"]["gateway"] = json!({"keys": {"test": GATEWAY_KEY}});
        config["mcpServers"]["failing"] =
            json!({"command": "/bin/sh", "args": ["-c", "exit 3"], "env": {"TOKEN": SERVER_VARIABLE}});
        let folder = folder(&format!("secrets-{name}"), Some(&config));
        let mut served =
            serve_with(command(&folder, &["--listen", "127.0.0.1:0"]).env("TOOLWIRE_LOG", "trace"));
        let mut log = served.stderr.take().unwrap();
        let log = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = log.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        for path in [
            "/v1/chat/completions",
            "/v1/responses",
            "/v1/messages",
            "/v1/messages/count_tokens",
            "/v1/embeddings",
        ] {
            for status in [400, 401, 403, 404, 307, 413, 422, 429, 500, 503, 529] {
                for (kind, stream) in [("json", false), ("json", true), ("detail", false), ("text", true)] {
                    let text = format!("fail {status} {kind}");
                    let mut body = json!({"model": "up", "max_tokens": 9, "stream": stream, "messages": [{"role": "user", "content": text}]});
                    if path == "/v1/responses" || path == "/v1/embeddings" {
                        body = json!({"model": "up", "input": text, "stream": stream});
                    }
                    let request =
                        http_client().post(format!("{}{path}", served.url)).header("x-api-key", GATEWAY_KEY);
                    let response = request.json(&body).send().await.unwrap();
                    let place = format!("{name} {path} {text} {stream}");
                    check(&format!("{:?}", response.headers()), &place);
                    check(&response.text().await.unwrap(), &place);
                    count += 1;
                }
            }
            for (model, key, body) in [
                ("gone", GATEWAY_KEY, json!({"messages": [{"role": "user", "content": "hi"}]})),
                ("gone", GATEWAY_KEY, json!({"input": "hi"})),
                (
                    "unknown",
                    GATEWAY_KEY,
                    json!({"messages": [{"role": "user", "content": "hi"}], "input": "hi"}),
                ),
                ("up", GATEWAY_KEY, json!({"messages": 5, "input": 5})),
                ("up", "another-key", json!({})),
            ] {
                let mut body = body;
                body["model"] = json!(model);
                body["max_tokens"] = json!(9);
                let request = http_client().post(format!("{}{path}", served.url)).header("x-api-key", key);
                let response = request.json(&body).send().await.unwrap();
                assert!(response.status().as_u16() >= 400 || path.ends_with("count_tokens"), "{path} {body}");
                check(&response.text().await.unwrap(), &format!("{name} {path} {body}"));
                count += 1;
            }
        }
        for path in ["/readyz", "/healthz", "/v1/models", "/v1/models/up", "/v1/files"] {
            let request = http_client().get(format!("{}{path}", served.url)).header("x-api-key", GATEWAY_KEY);
            check(&request.send().await.unwrap().text().await.unwrap(), path);
        }
        check(&served.lines.join("\n"), "the start");
        drop(served);
        check(&log.join().unwrap(), "the log");
    }
    assert!(count >= 200, "{count}");
    let config = json!({"mcpServers": {}, "toolwire": {"model": "up", "models": {"up": {
        "provider": "openai", "model": "m", "apiKey": API_KEY, "baseUrl": format!("nonsense//user:{PASSWORD}@x"),
    }}}});
    let output =
        command(&folder("secrets-start", Some(&config)), &["--listen", "127.0.0.1:0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    check(&String::from_utf8_lossy(&output.stderr), "a start that fails");
}

/// Security rule 9: no URL in a request is fetched.
#[tokio::test]
async fn no_url_of_a_request_is_fetched() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/canary.png", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let counter = connections.clone();
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counter.fetch_add(1, Ordering::SeqCst);
        }
    });
    let schema = json!({"type": "object", "$schema": url, "$id": url, "properties": {"a": {"$ref": url}, "b": {"$dynamicRef": url}}});
    let user = |content: Value| json!([{"role": "user", "content": content}]);
    let function = |parameters: &Value| json!({"name": "f", "description": url, "parameters": parameters});
    let chat = [
        json!({"messages": user(json!([{"type": "image_url", "image_url": {"url": url}}]))}),
        json!({"messages": user(json!([{"type": "image_url", "image_url": url}]))}),
        json!({"messages": user(json!([{"type": "file", "file": {"file_data": url, "filename": url}}]))}),
        json!({"messages": user(json!([{"type": "input_audio", "input_audio": {"data": url, "format": "wav"}}]))}),
        json!({"messages": user(json!(format!("![a]({url}) [b][1]\n\n[1]: {url} <img src=\"{url}\">")))}),
        json!({"messages": user(json!("hi")), "tools": [{"type": "function", "function": function(&schema)}]}),
        json!({"messages": user(json!("hi")), "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}}),
        json!({"messages": user(json!("hi")), "metadata": {"url": url}, "user": url, "store": true}),
        json!({"messages": user(json!("hi")), "tools": [{"type": "mcp", "server_label": "x", "server_url": url}]}),
        json!({"messages": user(json!("hi")), "webhook": url, "callback_url": url, "base_url": url, "api_base": url}),
        json!({"messages": [{"role": "user", "content": "hi", "name": url}]}),
    ];
    let responses = [
        json!({"input": user(json!([{"type": "input_image", "image_url": url}]))}),
        json!({"input": user(json!([{"type": "input_file", "file_url": url}]))}),
        json!({"input": user(json!([{"type": "input_file", "file_data": url, "filename": url}]))}),
        json!({"input": url, "tools": [{"type": "function", "name": "f", "parameters": schema}]}),
        json!({"input": url, "text": {"format": {"type": "json_schema", "name": "a", "schema": schema}}}),
        json!({"input": url, "tools": [{"type": "mcp", "server_label": "x", "server_url": url, "require_approval": "never"}]}),
        json!({"input": url, "tools": [{"type": "mcp", "server_label": "failing", "server_url": url, "headers": {"a": url}}]}),
        json!({"input": url, "tools": [{"type": "mcp", "server_label": "x", "connector_id": url}]}),
        json!({"input": url, "instructions": url, "metadata": {"url": url}, "prompt_cache_key": url}),
        json!({"input": [{"type": "function_call", "call_id": "1", "name": "f", "arguments": format!("{{\"u\":\"{url}\"}}")},
            {"type": "function_call_output", "call_id": "1", "output": [{"type": "input_image", "image_url": url}]}]}),
    ];
    let messages = [
        json!({"messages": user(json!([{"type": "image", "source": {"type": "url", "url": url}}]))}),
        json!({"messages": user(json!([{"type": "document", "source": {"type": "url", "url": url}}]))}),
        json!({"messages": user(json!([{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": url}, "title": url, "context": url}]))}),
        json!({"messages": user(json!(url)), "tools": [{"name": "f", "input_schema": schema}]}),
        json!({"messages": user(json!(url)), "mcp_servers": [{"type": "url", "name": "x", "url": url}]}),
        json!({"messages": user(json!(url)), "mcp_servers": [{"type": "url", "name": "x", "url": url}], "tools": [{"type": "mcp_toolset", "mcp_server_name": "x"}]}),
        json!({"messages": user(json!(url)), "output_config": {"format": {"type": "json_schema", "schema": schema}}}),
        json!({"messages": user(json!(url)), "tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]}),
        json!({"messages": user(json!(url)), "system": [{"type": "text", "text": url}], "metadata": {"user_id": url}}),
        json!({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {"u": url}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "image", "source": {"type": "url", "url": url}}]}]}]}),
    ];
    let mut sent = 0;
    for api in [Api::OpenAiChat, Api::Responses, Api::Anthropic, Api::Gemini, Api::Ollama, Api::Bedrock] {
        let name = api.provider_name();
        let provider = FakeProvider::start(api, text_script()).await;
        let mut config = with_provider(&provider, name);
        config["toolwire"]["models"]["up"]["region"] = json!("us-east-1");
        let served = serve(&folder(&format!("canary-{name}"), Some(&config)), &[]);
        for (path, bodies) in [
            ("/v1/chat/completions", &chat[..]),
            ("/v1/responses", &responses[..]),
            ("/v1/messages", &messages[..]),
        ] {
            for body in bodies {
                let mut body = body.clone();
                body["model"] = json!("up");
                if path == "/v1/messages" {
                    body["max_tokens"] = json!(9);
                }
                let request = http_client().post(format!("{}{path}?url={url}", served.url)).json(&body);
                let request = request.header("referer", &url).header("x-url", &url);
                let response = request.send().await.unwrap();
                assert!(response.status().as_u16() < 600);
                let _ = response.text().await;
                sent += 1;
            }
        }
    }
    assert!(sent >= 180, "{sent}");
    assert_eq!(connections.load(Ordering::SeqCst), 0);
}

/// A configured key may have the name of the variable: the two keys are different clients.
#[tokio::test]
async fn keys_with_the_same_name_are_different_clients() {
    const KEYS: [&str; 2] = ["tw_0123456789abcdef0123456789abcdef", "tw_other456789abcdef0123456789abcdef"];
    let gateway = json!({"keys": {"TOOLWIRE_KEY": KEYS[0]}});
    let config = json!({"mcpServers": {}, "toolwire": {"model": "demo", "gateway": gateway}});
    let folder = folder("same-name", Some(&config));
    let served = serve_with(command(&folder, &["--listen", "127.0.0.1:0"]).env("TOOLWIRE_KEY", KEYS[1]));
    let post = async |key: &str, input: Value| {
        let body = json!({"model": "demo", "input": input});
        let request = http_client().post(format!("{}/v1/responses", served.url)).header("x-api-key", key);
        let response = request.json(&body).send().await.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    let (status, response) = post(KEYS[0], json!("What is 25 + 17?")).await;
    assert_eq!(status, 200, "{response}");
    let id = &response["output"][0]["id"];
    let input = json!([{"type": "item_reference", "id": id}, {"role": "user", "content": "Thanks."}]);
    assert_eq!(post(KEYS[0], input.clone()).await.0, 200, "its own item");
    let (status, error) = post(KEYS[1], input).await;
    assert_eq!(status, 400, "an item of another key: {error}");
}

/// Security rule 55: other processes of the same user, such as MCP servers, cannot read the memory and the
/// environment of the gateway, and there are no core dumps.
#[cfg(target_os = "linux")]
#[test]
fn the_memory_of_the_gateway_is_protected() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    const KEY: &str = "tw_0123456789abcdef0123456789abcdef";
    // Root may read everything, so the gateway then runs as another user.
    let is_root = rustix::process::geteuid().is_root();
    let as_user = |command: &mut Command| {
        if is_root {
            command.uid(65_534).gid(65_534);
        }
    };
    let folder = folder("memory", None);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = command(&folder, &["--listen", "127.0.0.1:0"]);
    as_user(&mut command);
    let served = serve_with(command.env("TOOLWIRE_KEY", KEY));
    let process = format!("/proc/{}", served.child.id());
    let read = |path: &str| {
        let mut command = Command::new("cat");
        as_user(&mut command);
        command.arg(path).output().unwrap().status.success()
    };
    assert!(read("/proc/self/environ") && read(&format!("{process}/stat")), "the test can read at all");
    for file in ["environ", "maps", "mem", "auxv"] {
        assert!(!read(&format!("{process}/{file}")), "{file}");
    }
    let limits = fs::read_to_string(format!("{process}/limits")).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).unwrap();
    assert_eq!(line.split_whitespace().take(2).collect::<Vec<_>>(), ["0", "0"], "{limits}");
}
