//! MCP servers that misbehave behind the gateway. The numbers are those of `docs/security-tests.md`.

use std::time::Duration;

use serde_json::{Value, json};
use toolwire_testkit::provider::{
    API_KEY, Api, FakeProvider, ModelOutput, ReceivedRequest, Script, ScriptedResponse,
};
use toolwire_testkit::{http_client, misbehaving_server};

use crate::{Served, command, folder, fs, serve_until, serve_with, with_provider};

const GATEWAY_KEY: &str = "planted-gateway-key-0123456789abcdef";

/// A model that calls a tool that the user names, and then repeats its result.
fn calling(request: &ReceivedRequest) -> ScriptedResponse {
    let messages = request.body["messages"].as_array().cloned().unwrap_or_default();
    let last = messages.last().cloned().unwrap_or_default();
    if last["role"] == "tool" {
        let result: String = last["content"].to_string().chars().take(20_000).collect();
        return ScriptedResponse::Output(ModelOutput::text(&format!("result: {result}")));
    }
    let tool = last["content"].as_str().unwrap_or_default().to_owned();
    let is_offered = request.body["tools"].to_string().contains(&format!("\"{tool}\""));
    ScriptedResponse::Output(match is_offered {
        true => ModelOutput::default().call("c1", &tool, r#"{"text":"hi"}"#),
        false => ModelOutput::text("no such tool"),
    })
}

/// A gateway with a server that misbehaves, and one that does not.
async fn start(behaviour: &str, arguments: &[&str]) -> (FakeProvider, Served) {
    let provider = FakeProvider::start(Api::OpenAiChat, Script::from_fn(calling)).await;
    let mut config = with_provider(&provider, "openai");
    let program = misbehaving_server().display().to_string();
    let bad: Vec<&str> = ["--behaviour", behaviour].into_iter().chain(arguments.iter().copied()).collect();
    config["mcpServers"] = json!({
        "bad": {"command": program, "args": bad, "timeout": "2m"},
        "good": {"command": program, "args": []},
    });
    config["toolwire"]["agent"] = json!({"approvals": {"allow": ["*"]}});
    config["toolwire"]["gateway"] = json!({"keys": {"test": GATEWAY_KEY}});
    let folder = folder(&format!("server-{behaviour}"), Some(&config));
    let mut command = command(&folder, &["--listen", "127.0.0.1:0"]);
    let served = serve_with(command.env("OTHER_PROVIDER_KEY", "planted-other-key"));
    (provider, served)
}

async fn ask(served: &Served, tool: &str) -> (u16, Value) {
    let body = json!({"model": "up", "messages": [{"role": "user", "content": tool}]});
    let request =
        http_client().post(format!("{}/v1/chat/completions", served.url)).header("x-api-key", GATEWAY_KEY);
    let response = request.json(&body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

fn text(body: &Value) -> &str {
    body["choices"][0]["message"]["content"].as_str().unwrap_or_default()
}

/// Security rule 54: if a server crashes, floods its output, or sends garbage or a huge result, the model
/// gets a result, and other requests are served.
#[tokio::test]
async fn servers_that_misbehave_do_not_affect_others() {
    for (behaviour, arguments) in [
        ("exits-mid-call", &[][..]),
        ("exits-mid-response", &[]),
        ("floods-notifications", &["--count", "20000"]),
        ("huge-result", &["--size", "20000000"]),
        ("unreadable-result", &[]),
        ("garbage", &[]),
        ("cursor-loop", &[]),
        ("writes-stderr", &["--count", "2000"]),
    ] {
        let (provider, served) = start(behaviour, arguments).await;
        let (status, body) = ask(&served, "bad_echo").await;
        assert_eq!(status, 200, "{behaviour}: {body}");
        let (status, body) = ask(&served, "good_echo").await;
        assert_eq!(status, 200, "{behaviour}: {body}");
        assert!(text(&body).starts_with("result: "), "{behaviour}: {body}");
        assert_eq!(provider.rejections(), [], "{behaviour}");
    }
}

/// Security rule 54: a call that never ends does not delay others, and is cancelled when its client
/// disconnects.
#[tokio::test]
async fn a_server_that_hangs_does_not_delay_others() {
    let log = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("serve-never-responds.log");
    let _ = fs::remove_file(&log);
    let (_provider, served) = start("never-responds", &["--file", log.to_str().unwrap()]).await;
    let url = format!("{}/v1/chat/completions", served.url);
    let body = json!({"model": "up", "messages": [{"role": "user", "content": "never"}]});
    let hanging: Vec<_> = (0..4)
        .map(|_| {
            let request = http_client().post(&url).header("x-api-key", GATEWAY_KEY).json(&body);
            tokio::spawn(request.send())
        })
        .collect();
    let lines = async |count: usize| {
        let waiting = async {
            while fs::read_to_string(&log).unwrap_or_default().lines().count() < count {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(120), waiting).await
    };
    lines(4).await.expect("four calls");
    let (status, body) = ask(&served, "echo").await;
    assert_eq!(status, 200, "{body}");
    assert!(text(&body).starts_with("result: "), "{body}");
    for request in hanging {
        request.abort();
    }
    lines(8).await.expect("each call is cancelled when its client is gone");
}

/// A request that arrives before a server has started gets its tools, even if the gateway could forward it.
#[tokio::test]
async fn a_request_waits_for_a_server_that_is_starting() {
    let provider = FakeProvider::start(Api::OpenAiChat, Script::from_fn(calling)).await;
    let mut config = with_provider(&provider, "openai");
    let program = misbehaving_server().display().to_string();
    // The shell command delays the start of the server.
    let start = format!("while [ ! -e go ]; do sleep 0.01; done; exec '{program}'");
    config["mcpServers"] = json!({"slow": {"command": "sh", "args": ["-c", start], "timeout": "2m"}});
    config["toolwire"]["gateway"] =
        json!({"keys": {"test": GATEWAY_KEY}, "limits": {"serverStartTimeout": "10m"}});
    let folder = folder("server-starting", Some(&config));
    let served = serve_until(&mut command(&folder, &["--listen", "127.0.0.1:0"]), "listening on ");
    let started = async { fs::write(folder.join("go"), "").unwrap() };
    let ((status, body), ()) = tokio::join!(ask(&served, "echo"), started);
    assert_eq!(status, 200, "{body}");
    assert!(text(&body).starts_with("result: "), "{body}");
    assert_eq!(provider.requests().len(), 2, "the tool was called");
}

/// If the only server has failed, the model still responds, and the client is told.
#[tokio::test]
async fn a_server_that_failed_is_reported() {
    let provider = FakeProvider::start(Api::OpenAiChat, Script::from_fn(calling)).await;
    let mut config = with_provider(&provider, "openai");
    config["mcpServers"] = json!({"broken": {"command": "sh", "args": ["-c", "exit 3"]}});
    let folder = folder("server-failed", Some(&config));
    let served = serve_with(&mut command(&folder, &["--listen", "127.0.0.1:0"]));
    let body = json!({"model": "up", "messages": [{"role": "user", "content": "echo"}]});
    let request = http_client().post(format!("{}/v1/chat/completions", served.url)).json(&body);
    let response = request.send().await.unwrap();
    assert_eq!(response.headers()["x-toolwire-unavailable"], "broken");
    assert_eq!(text(&response.json().await.unwrap()), "no such tool");
    let sent = provider.requests().pop().unwrap().body["messages"][0]["content"].to_string();
    assert!(sent.contains("`broken`"), "the model is told: {sent}");
}

/// Security rule 55: the environment of a server process contains no keys of the gateway or of providers.
#[tokio::test]
async fn server_processes_get_no_keys() {
    let (_provider, served) = start("prints-environment", &[]).await;
    let (status, body) = ask(&served, "environment").await;
    assert_eq!(status, 200, "{body}");
    let text = text(&body);
    assert!(text.contains("PATH"), "the tool was called: {body}");
    for secret in [API_KEY, GATEWAY_KEY, "planted-other-key", "TOOLWIRE_KEY"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}
