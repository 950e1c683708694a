//! The limits of a run: steps, tokens and time, and how each ends in each API.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::client::{CHAT, Client, MESSAGES, RESPONSES, text};
use crate::support::TestGateway;
use serde_json::{Value, json};
use toolwire_gateway::GatewaySettings;
use toolwire_testkit::http_client;

const PATHS: [&str; 3] = [CHAT, RESPONSES, MESSAGES];

/// The maximum wait for something that happens in any case.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The stop reason of a complete response.
fn complete(path: &str) -> &'static str {
    match path {
        CHAT => "stop",
        RESPONSES => "completed",
        _ => "end_turn",
    }
}

/// The type of an error and its code, in the format of the API.
fn error_kind(error: &Value) -> (&Value, &Value) {
    (&error["error"]["type"], &error["error"]["code"])
}

/// The limit is the smallest of those in the configuration and in the request. A header has precedence over
/// the body.
#[tokio::test]
async fn steps_are_limited_by_the_header_and_by_the_body() {
    let mut settings = GatewaySettings::default();
    settings.agent.max_steps = 4;
    let gateway = TestGateway::with(settings).await;
    for path in PATHS {
        for (header, extra, steps) in [
            (Some("2"), json!({}), 2),
            (None, json!({"toolwire": {"max_steps": 3}}), 3),
            (None, json!({"toolwire": {"maxSteps": "1"}}), 1),
            (None, json!({"metadata": {"toolwire": "{\"max_steps\": 2}"}}), 2),
            (Some("1"), json!({"toolwire": {"max_steps": 3}}), 1),
            (Some("9"), json!({"toolwire": {"max_steps": 1}}), 4),
            (None, json!({}), 4),
        ] {
            for stream in [false, true] {
                let mut client = Client::new(gateway.url(path), path);
                (client.stream, client.extra) = (stream, extra.clone());
                client.headers = header.map(|steps| ("x-toolwire-max-steps", steps)).into_iter().collect();
                let before = gateway.model.requests().len();
                let reply = client.say("loop").await;
                let label = format!("{path} {header:?} {extra}, stream: {stream}");
                // One more request asks for the final response.
                let requests = gateway.model.requests().len() - before;
                assert_eq!((requests, reply.input_tokens), (steps + 1, 10 * (steps as u64 + 1)), "{label}");
                assert_eq!((&*reply.stop, reply.calls.len()), (complete(path), 0), "{label}");
                // All calls but those at the limit ran.
                assert_eq!(
                    reply.text.matches("value of again").count(),
                    steps - 1,
                    "{label}: {}",
                    reply.text
                );
                assert!(reply.text.ends_with("`lookup` was not run: the step limit was reached."), "{label}");
                // The conversation continues.
                assert_eq!(client.say("say on").await.text, "on", "{label}");
            }
        }
    }
}

#[tokio::test]
async fn a_limit_that_is_not_a_positive_integer_is_refused() {
    let gateway = TestGateway::start().await;
    for path in PATHS {
        let send = async |header: Option<&str>, value: Value| {
            let mut client = Client::new(gateway.url(path), path);
            client.history.push(json!({"role": "user", "content": "say hi"}));
            let mut body = client.body();
            body["toolwire"] = json!({"max_steps": value});
            let request = http_client().post(gateway.url(path)).json(&body);
            let request = header
                .into_iter()
                .fold(request, |request, steps| request.header("x-toolwire-max-steps", steps));
            let response = request.send().await.unwrap();
            (response.status().as_u16(), response.json::<Value>().await.unwrap())
        };
        for value in [json!(0), json!(-1), json!(1.5), json!("many"), json!(null)] {
            let (status, error) = send(None, value.clone()).await;
            let message = "`toolwire.max_steps` must be a positive integer";
            assert_eq!((status, text(&error["error"]["message"]).as_str()), (400, message), "{path} {value}");
            assert_eq!(error["type"] == "error", path == MESSAGES, "{error}");
            if path != MESSAGES {
                assert_eq!(error["error"]["param"], "toolwire.max_steps");
            }
        }
        for header in ["0", "-1", "", "two"] {
            let (status, error) = send(Some(header), json!(1)).await;
            assert_eq!(status, 400, "{path} {header}: {error}");
        }
    }
    assert_eq!(gateway.model.requests().len(), 0);
}

/// The response that uses up the budget keeps its place in the history; then, the model is asked once more
/// without tools.
#[tokio::test]
async fn the_token_budget_ends_with_a_final_response() {
    let mut settings = GatewaySettings::default();
    // Each response of the model needs 15 tokens.
    settings.agent.token_budget = Some(25);
    let gateway = TestGateway::with(settings).await;
    for path in PATHS {
        for stream in [false, true] {
            let mut client = Client::new(gateway.url(path), path);
            client.stream = stream;
            let before = gateway.model.requests().len();
            let reply = client.say("loop").await;
            let label = format!("{path}, stream: {stream}");
            assert_eq!(gateway.model.requests().len() - before, 3, "{label}");
            assert_eq!((&*reply.stop, reply.input_tokens), (complete(path), 30), "{label}");
            let expected = "Results: value of again | `lookup` was not run: the token budget is used up.";
            assert!(reply.text.ends_with(expected), "{label}: {}", reply.text);
            // The budget is for one request; calls of the client's tools are returned in any case.
            let reply = client.say("clients").await;
            assert_eq!(reply.calls.len(), 2, "{label}");
            client.return_results(&[(&reply.calls[0].0, "rain"), (&reply.calls[1].0, "noon")]);
            assert_eq!(client.send().await.text, "Results: rain | noon.", "{label}");
        }
    }
}

/// If the run takes too long, the request fails and everything ends. A client must not repeat a request whose
/// tools ran.
#[tokio::test]
async fn the_time_of_a_run_is_limited() {
    let mut settings = GatewaySettings::default();
    settings.limits.run_timeout = Duration::from_millis(1_500);
    settings.limits.heartbeat = Duration::from_millis(20);
    let gateway = TestGateway::with(settings).await;
    let check = async |path: &'static str, question: &str, stream: bool| {
        let mut client = Client::new(gateway.url(path), path);
        client.stream = stream;
        client.history.push(json!({"role": "user", "content": question}));
        let response = http_client().post(gateway.url(path)).json(&client.body()).send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = response.text().await.unwrap();
        let label = format!("{path} {question}, stream: {stream}: {body}");
        let id = headers["x-request-id"].to_str().unwrap();
        let error: Value = if stream {
            // The stream has begun, so the error is its last event.
            assert_eq!(status, 200, "{label}");
            assert!(body.contains("Half a") == (question == "hang"), "{label}");
            let last = body.trim_end().rsplit("\n\n").find(|event| !event.starts_with(':')).unwrap();
            let data = last.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
            serde_json::from_str(data).unwrap()
        } else {
            assert_eq!(status, 504, "{label}");
            let should_retry = headers.get("x-should-retry").map(|value| value.to_str().unwrap());
            assert_eq!(should_retry, (question == "wait").then_some("false"), "{label}");
            serde_json::from_str(&body).unwrap()
        };
        match path {
            MESSAGES => {
                let expected = json!({"type": "error", "error": {"type": "timeout_error", "message": "the response took too long"}, "request_id": id});
                assert_eq!(error, expected, "{label}");
            }
            RESPONSES if stream => {
                assert_eq!(error["type"], "response.failed", "{label}");
                let error = &error["response"]["error"];
                assert_eq!(error["message"], "the response took too long", "{label}");
            }
            _ => {
                assert_eq!(error["error"]["message"], "the response took too long", "{label}");
                assert_eq!(error_kind(&error), (&json!("server_error"), &json!("timeout")), "{label}");
            }
        }
    };
    let checks = PATHS.into_iter().flat_map(|path| {
        ["hang", "wait"]
            .into_iter()
            .flat_map(move |question| [(path, question, false), (path, question, true)])
    });
    futures::future::join_all(checks.map(|(path, question, stream)| check(path, question, stream))).await;
    let ended = async {
        while gateway.running.now.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, ended).await.expect("the calls end with the run");
    assert_eq!(gateway.running.calls.load(Ordering::SeqCst), 6, "each call ran once");
}
