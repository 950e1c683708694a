//! Distributed traces and logs of `toolwire serve`.

use std::io::Read as _;

use serde_json::{Value, json};
use toolwire_testkit::http_client;
use toolwire_testkit::provider::{
    API_KEY, Api, FakeProvider, ModelOutput, ReceivedRequest, Script, ScriptedResponse,
};

use crate::{Served, command, folder, fs, serve_with, with_provider};

const TRACE_ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CLIENT_SPAN: &str = "00f067aa0ba902b7";
const KEY: &str = "tw_0123456789abcdef0123456789abcdef";

/// Calls a tool, and responds when it has the result.
pub(crate) fn adding(request: &ReceivedRequest) -> ScriptedResponse {
    let messages = request.body["messages"].as_array().cloned().unwrap_or_default();
    if request.body.get("tools").is_none() || messages.iter().any(|message| message["role"] == "tool") {
        return ScriptedResponse::Output(ModelOutput::text("42"));
    }
    let arguments = r#"{"operator": "add", "argument1": 25, "argument2": 17}"#;
    ScriptedResponse::Output(ModelOutput::text("").call("call_1", "calculate", arguments))
}

/// A configuration with a provider, and the demo server, whose messages are written to `messages`.
pub(crate) fn config(provider: &FakeProvider) -> Value {
    let mut config = with_provider(provider, "openai");
    let script = format!("tee messages | exec '{}' demo-server", env!("CARGO_BIN_EXE_toolwire"));
    config["mcpServers"] = json!({"demo": {"command": "/bin/sh", "args": ["-c", script]}});
    config["toolwire"]["gateway"] = json!({"keys": {"client": KEY}});
    config
}

pub(crate) async fn ask(served: &Served, headers: &[(&str, &str)]) -> reqwest::Response {
    let body = json!({"model": "up", "messages": [{"role": "user", "content": "What is 25 + 17?"}]});
    let request = http_client().post(format!("{}/v1/chat/completions", served.url)).json(&body);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.header("x-api-key", KEY).send().await.unwrap()
}

/// The trace of a client goes on at providers and in MCP servers, each below a span of the gateway.
#[tokio::test]
async fn the_trace_of_a_client_is_passed_on() {
    let provider = FakeProvider::start(Api::OpenAiChat, Script::from_fn(adding)).await;
    let folder = folder("trace", Some(&config(&provider)));
    let served = serve_with(command(&folder, &["--listen", "127.0.0.1:0"]).env("OPENAI_API_KEY", "unused"));
    let parent = format!("00-{TRACE_ID}-{CLIENT_SPAN}-01");
    let headers = [("traceparent", parent.as_str()), ("tracestate", "vendor=1"), ("baggage", "user=secret")];
    assert_eq!(ask(&served, &headers).await.status(), 200);
    let forwarded = [headers.as_slice(), &[("x-toolwire-servers", "none")]].concat();
    assert_eq!(ask(&served, &forwarded).await.status(), 200);

    let mut spans = Vec::new();
    let mut check = |found: &str, state: Option<&str>| {
        let parts: Vec<&str> = found.split('-').collect();
        assert_eq!((parts[0], parts[1], parts[3], state), ("00", TRACE_ID, "01", Some("vendor=1")));
        assert_ne!(parts[2], CLIENT_SPAN);
        assert!(!spans.contains(&parts[2].to_owned()), "each request has its own span");
        spans.push(parts[2].to_owned());
    };
    let requests = provider.requests();
    assert_eq!(requests.len(), 3);
    for request in &requests {
        let header = |name: &str| request.headers.get(name).map(|value| value.to_str().unwrap());
        check(header("traceparent").expect("a trace"), header("tracestate"));
        assert_eq!(header("baggage"), None);
    }
    let messages = fs::read_to_string(folder.join("messages")).unwrap();
    let messages = messages.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let calls: Vec<Value> = messages.filter(|message| message["method"] == "tools/call").collect();
    assert_eq!(calls.len(), 1);
    let metadata = &calls[0]["params"]["_meta"];
    check(metadata["traceparent"].as_str().expect("a trace"), metadata["tracestate"].as_str());

    // A request without a trace begins none, unless spans are exported.
    let before = provider.requests().len();
    assert_eq!(ask(&served, &[("traceparent", "invalid")]).await.status(), 200);
    for request in &provider.requests()[before..] {
        assert!(!request.headers.contains_key("traceparent"));
    }
}

/// Each line is JSON with the id of its request, and has no secrets.
#[tokio::test]
async fn logs_are_json_with_request_ids_and_without_secrets() {
    let provider = FakeProvider::start(Api::OpenAiChat, Script::from_fn(adding)).await;
    let folder = folder("logs", Some(&config(&provider)));
    let mut command = command(&folder, &["--listen", "127.0.0.1:0"]);
    command.env("TOOLWIRE_LOG", "trace,rmcp=trace").env("TOOLWIRE_LOG_FORMAT", "json");
    let mut served = serve_with(&mut command);
    let response = ask(&served, &[]).await;
    let id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
    assert_eq!(response.status(), 200);
    served.child.kill().unwrap();
    let mut text = served.lines.join("\n");
    served.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    let events: Vec<Value> = text
        .lines()
        .filter(|line| line.starts_with('{'))
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    assert!(events.len() > 10, "{text}");
    for event in &events {
        assert!(["time", "level", "target"].iter().all(|key| event[*key].is_string()), "{event}");
    }
    let access: Vec<&Value> = events
        .iter()
        .filter(|event| event["target"] == "toolwire::access" && event["request_id"] == *id)
        .collect();
    assert_eq!(access.len(), 1, "{text}");
    let expected = json!({"method": "POST", "route": "/v1/chat/completions", "status": "200"});
    for key in ["method", "route", "status"] {
        assert_eq!(access[0][key], expected[key], "{}", access[0]);
    }
    // Events of other crates during the request have its id too.
    let of_request = events.iter().filter(|event| event["request"]["id"] == *id);
    assert!(of_request.clone().any(|event| event["target"] != "toolwire::access"), "{text}");
    for secret in [KEY, API_KEY] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
}
