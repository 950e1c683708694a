//! `toolwire serve`, as a process: the demo, the start, and requests that are forwarded to providers.

#![allow(clippy::unwrap_used)]

mod account_server;
mod behind_haproxy;
mod client_keys;
mod coding_agents;
mod endpoints;
mod forms;
mod forwarded;
#[path = "../gateway_process/mod.rs"]
mod gateway_process;
mod hostile_requests;
mod idle_connections;
mod issuer;
mod mcp_client;
mod mcp_limits;
mod mcp_log;
mod mcp_official_clients;
mod mcp_server;
mod mcp_servers;
mod mcp_stdio;
mod mcp_tasks;
mod operations;
mod pass_through;
mod provider_choice;
#[path = "../replaced_gateways/mod.rs"]
mod replaced_gateways;
mod request_servers;
mod secrets;
mod sentinels;
mod shared_logins;
mod start;
mod stored_responses;
#[cfg(feature = "otlp")]
mod telemetry;
mod tenants;
mod traces;
mod upstreams;
mod user_logins;
mod user_servers;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};

use serde_json::{Value, json};
use toolwire_testkit::http_client;
use toolwire_testkit::provider::{API_KEY, Api, FakeProvider, ModelOutput, Script, ScriptedResponse};

struct Served {
    child: Child,
    url: String,
    /// The lines until the gateway was ready.
    lines: Vec<String>,
    /// The rest of the log.
    stderr: Option<BufReader<ChildStderr>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn folder(name: &str, config: Option<&Value>) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("serve").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    if let Some(config) = config {
        fs::write(folder.join("mcp.json"), config.to_string()).unwrap();
    }
    folder
}

fn command(folder: &PathBuf, arguments: &[&str]) -> Command {
    let mut command = gateway_process::command(folder);
    command.args(arguments);
    command
}

fn serve(folder: &PathBuf, arguments: &[&str]) -> Served {
    serve_with(command(folder, &["--listen", "127.0.0.1:0"]).args(arguments))
}

fn serve_with(command: &mut Command) -> Served {
    serve_until(command, "ready")
}

/// Starts a gateway, and waits until it has printed a line that begins with this text.
fn serve_until(command: &mut Command, start: &str) -> Served {
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut lines = Vec::new();
    let url = loop {
        let mut line = String::new();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "it ended: {lines:?}");
        lines.push(line.trim_end().to_owned());
        if line.starts_with(start) {
            let listening = lines.iter().find_map(|line| line.strip_prefix("listening on "));
            break listening.unwrap().to_owned();
        }
    };
    Served { child, url, lines, stderr: Some(stderr) }
}

/// A configuration with a fake provider as the model `up`, and no servers.
fn with_provider(provider: &FakeProvider, name: &str) -> Value {
    let model = json!({"provider": name, "model": "real-name", "baseUrl": provider.base_url(), "apiKey": API_KEY, "retries": 0});
    json!({"mcpServers": {}, "toolwire": {"model": "up", "models": {"up": model}}})
}

fn text_script() -> Script {
    Script::from_fn(|_| ScriptedResponse::Output(ModelOutput::text("Hello from the provider.")))
}

/// A request that needs nothing from the gateway is sent to the provider unchanged except for the name of the
/// model.
#[tokio::test]
async fn bytes_are_forwarded_unchanged() {
    for (api, name, path, body) in [
        (
            Api::OpenAiChat,
            "openai",
            "/v1/chat/completions",
            "{ \"model\" :\"up\",\n\"messages\":[{\"role\":\"user\",\"content\":\"h\\u00e9 \"}], \"temperature\": 0.50, \"seed\":7}",
        ),
        (
            Api::Responses,
            "responses",
            "/v1/responses",
            // `null` means absent, so that the gateway is not needed.
            "{\"input\":\"hi\" ,\"model\":\"up\",\"store\":null, \"include\":[\"reasoning.encrypted_content\"],\"previous_response_id\":null,\"conversation\": null,\"background\":false}",
        ),
        (
            Api::Anthropic,
            "anthropic",
            "/v1/messages",
            "{\"max_tokens\":10,\"model\":\"up\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"hi\",\"cache_control\":{\"type\":\"ephemeral\"}}]}]}",
        ),
    ] {
        let provider = FakeProvider::start(api, text_script()).await;
        let served = serve(&folder(name, Some(&with_provider(&provider, name))), &[]);
        for stream in [false, true] {
            let body = match stream {
                true => body.replacen('{', "{\"stream\":true,", 1),
                false => body.to_owned(),
            };
            let request = http_client()
                .post(format!("{}{path}", served.url))
                .header("content-type", "application/json");
            let request = request.header("authorization", "Bearer key-of-the-client").header("cookie", "a=b");
            let response =
                request.header("openai-organization", "org").body(body.clone()).send().await.unwrap();
            assert_eq!(response.status(), 200, "{name}");
            let text = response.text().await.unwrap();
            assert!(text.contains("Hello"), "{name}: {text}");
            let received = provider.requests().pop().unwrap();
            let expected = body.replace("\"up\"", "\"real-name\"");
            assert_eq!(String::from_utf8_lossy(&received.bytes), expected, "{name}");
            let headers = format!("{:?}", received.headers);
            assert!(!headers.contains("key-of-the-client") && !headers.contains("cookie"), "{headers}");
            assert!(!headers.contains("openai-organization"), "{headers}");
        }
        assert_eq!(provider.rejections(), [], "{name}");
    }
}

/// Security rules 7 and 8: a request cannot choose the URL that it is sent to, and the key is not sent to the
/// target of a redirect.
#[tokio::test]
async fn a_request_cannot_choose_its_provider() {
    let other = FakeProvider::start(Api::OpenAiChat, text_script()).await;
    let location = format!("{}/chat/completions", other.base_url());
    let redirect = move |_: &_| ScriptedResponse::Error {
        status: 307,
        headers: vec![("location".to_owned(), location.clone())],
        body: Value::Null,
    };
    let redirecting = FakeProvider::start(Api::OpenAiChat, Script::from_fn(redirect)).await;
    let served = serve(&folder("redirect", Some(&with_provider(&redirecting, "openai"))), &[]);
    let plain = json!({"model": "up", "messages": [{"role": "user", "content": "hi"}]});
    let url = format!("{}/v1/chat/completions?api_base={}", served.url, other.base_url());
    let send = async |body: &Value| {
        let request = http_client().post(&url).json(body).header("x-api-base", other.base_url());
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(send(&plain).await, 502, "the redirect is not followed");
    for key in ["api_base", "base_url", "api_key", "extra_headers", "custom_llm_provider"] {
        let mut body = plain.clone();
        body[key] = json!(other.base_url());
        body["metadata"] = json!({key: other.base_url()});
        let status = send(&body).await;
        assert!(status == 400 || status == 502, "{key}: {status}");
    }
    assert_eq!(other.requests(), [], "nothing reaches another provider");
}

/// Every API of a client works with every API of a provider, complete and streamed, with a second turn.
#[tokio::test]
async fn every_client_works_with_every_provider() {
    for api in Api::ALL {
        let provider = FakeProvider::start(api, text_script()).await;
        let name = api.provider_name();
        let mut config = with_provider(&provider, name);
        config["toolwire"]["models"]["up"]["region"] = json!("us-east-1");
        let served = serve(&folder(&format!("every-{name}"), Some(&config)), &[]);
        let history = json!([
            {"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "again"},
        ]);
        for (path, key) in
            [("/v1/chat/completions", "messages"), ("/v1/responses", "input"), ("/v1/messages", "messages")]
        {
            for stream in [false, true] {
                let mut body = json!({"model": "up", "max_tokens": 50, "stream": stream});
                if path == "/v1/responses" {
                    body = json!({"model": "up", "stream": stream});
                }
                body[key] = history.clone();
                let response =
                    http_client().post(format!("{}{path}", served.url)).json(&body).send().await.unwrap();
                let status = response.status().as_u16();
                let text = response.text().await.unwrap();
                assert_eq!(status, 200, "{name} {path} {stream}: {text}");
                assert!(text.contains("Hello"), "{name} {path} {stream}: {text}");
            }
        }
        assert_eq!(provider.rejections(), [], "{name}");
    }
}
