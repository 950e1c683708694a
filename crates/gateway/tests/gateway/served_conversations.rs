//! Conversations in each API: the servers' tools run here, the client's tools run at the client.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::client::{CHAT, Client, MESSAGES, RESPONSES, Reply, text};
use crate::support::TestGateway;
use futures::StreamExt as _;
use serde_json::{Value, json};
use toolwire_contract::{Block, Role};
use toolwire_gateway::GatewaySettings;
use toolwire_testkit::http_client;

/// The timeout for events that are expected to happen.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

fn names(reply: &Reply) -> Vec<&str> {
    reply.calls.iter().map(|(_, name)| name.as_str()).collect()
}

#[tokio::test]
async fn the_servers_tools_run_here() {
    let gateway = TestGateway::start().await;
    for path in [CHAT, RESPONSES, MESSAGES] {
        let mut client = Client::new(gateway.url(path), path);
        let reply = client.say("ours").await;
        assert_eq!((reply.text.as_str(), reply.calls.len()), ("Results: value of a.", 0), "{path}");
        assert_eq!(reply.input_tokens, 20, "the usage is that of both rounds");
        let reply = client.say("rounds").await;
        let expected = if path == RESPONSES {
            "First.Second.Results: value of a | value of b."
        } else {
            "First.\n\nSecond.\n\nResults: value of a | value of b."
        };
        assert_eq!(reply.text, expected, "{path}");
        let reply = client.say("parallel").await;
        assert!(reply.text.starts_with("Results: value of a | it is broken"), "{}", reply.text);
        let reply = client.say("say again").await;
        assert_eq!(reply.text, "again");
        assert_eq!(
            reply.stop,
            match path {
                CHAT => "stop",
                RESPONSES => "completed",
                _ => "end_turn",
            }
        );
    }
}

#[tokio::test]
async fn the_clients_tools_run_at_the_client() {
    let gateway = TestGateway::start().await;
    for path in [CHAT, RESPONSES, MESSAGES] {
        let mut client = Client::new(gateway.url(path), path);
        let reply = client.say("client").await;
        assert_eq!((reply.text.as_str(), names(&reply)), ("I look.", vec!["get_weather"]), "{path}");
        assert_eq!(
            reply.stop,
            match path {
                CHAT => "tool_calls",
                RESPONSES => "completed",
                _ => "tool_use",
            }
        );
        client.return_results(&[(&reply.calls[0].0, "sunny")]);
        assert_eq!(client.send().await.text, "Results: sunny.", "{path}");
        let reply = client.say("clients").await;
        assert_eq!(names(&reply), ["get_weather", "get_time"]);
        // In another order, as some clients return them.
        client.return_results(&[(&reply.calls[1].0, "noon"), (&reply.calls[0].0, "rain")]);
        assert_eq!(client.send().await.text, "Results: rain | noon.", "{path}");
    }
}

/// In a step with both kinds of calls, the model sees one message with all calls and all results, in their
/// order.
#[tokio::test]
async fn calls_of_both_kinds_in_one_step_are_completed_together() {
    let gateway = TestGateway::start().await;
    for path in [CHAT, RESPONSES, MESSAGES] {
        let mut client = Client::new(gateway.url(path), path);
        let reply = client.say("mixed").await;
        assert_eq!(names(&reply), ["get_weather"], "{path}");
        client.return_results(&[(&reply.calls[0].0, "sunny")]);
        assert_eq!(client.send().await.text, "Results: value of a | sunny | value of b.", "{path}");
        let requests = gateway.model.requests();
        let request = requests.last().unwrap();
        let calls = request.messages.iter().rev().find(|message| message.role == Role::Assistant).unwrap();
        let ids: Vec<&str> = calls.calls().map(|(id, _)| id).collect();
        assert_eq!(ids, ["1", "2", "3"], "the model's own ids");

        let reply = client.say("late").await;
        assert_eq!(names(&reply), ["get_weather"]);
        client.return_results(&[(&reply.calls[0].0, "cold")]);
        assert_eq!(client.send().await.text, "Results: value of a | cold | value of b.", "{path}");
        let reply = client.say("say on").await;
        assert_eq!(reply.text, "on");
    }
}

#[tokio::test]
async fn a_call_that_the_client_does_not_complete_gets_an_error_result() {
    let gateway = TestGateway::start().await;
    for path in [CHAT, RESPONSES, MESSAGES] {
        let mut client = Client::new(gateway.url(path), path);
        client.say("clients").await;
        let reply = client.say("say never mind").await;
        assert_eq!(reply.text, "never mind", "{path}");
        let requests = gateway.model.requests();
        let results: Vec<bool> = requests
            .last()
            .unwrap()
            .messages
            .iter()
            .flat_map(|message| message.results())
            .map(|(_, result)| result.is_error())
            .collect();
        assert_eq!(results, [true, true]);
    }
}

/// A call of the client's tool that is cut off ends the response, because a retry would be cut off too.
#[tokio::test]
async fn a_call_that_is_cut_off_is_not_requested_again() {
    for path in [CHAT, RESPONSES, MESSAGES] {
        let gateway = TestGateway::start().await;
        let reply = Client::new(gateway.url(path), path).say("cut").await;
        assert_eq!((reply.text.as_str(), reply.calls.len()), ("I look.", 0), "{path}");
        assert!(matches!(reply.stop.as_str(), "length" | "incomplete" | "max_tokens"), "{path}: {reply:?}");
        assert_eq!(gateway.model.requests().len(), 1, "{path}");
    }
}

/// The limit of steps does not apply to the client's tools.
#[tokio::test]
async fn the_last_step_can_call_the_clients_tools() {
    let gateway = TestGateway::start().await;
    for path in [CHAT, RESPONSES, MESSAGES] {
        let mut client = Client::new(gateway.url(path), path);
        client.headers = vec![("x-toolwire-max-steps", "1")];
        let reply = client.say("client").await;
        assert_eq!(names(&reply), ["get_weather"], "{path}");
    }
}

/// Calls in a history that a client invented are never run.
#[tokio::test]
async fn an_invented_history_runs_nothing() {
    let gateway = TestGateway::start().await;
    for (path, call) in [
        (
            CHAT,
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": "call_x", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}]}),
        ),
        (
            RESPONSES,
            json!({"type": "function_call", "call_id": "call_x", "name": "lookup", "arguments": "{}"}),
        ),
        (
            MESSAGES,
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_x", "name": "lookup", "input": {}}]}),
        ),
    ] {
        let mut client = Client::new(gateway.url(path), path);
        client.history = vec![json!({"role": "user", "content": "say hi"}), call];
        let (status, _) = client.post(&client.body()).await;
        assert!(status == 200 || status == 400, "{path}");
        assert_eq!(gateway.running.calls.load(Ordering::SeqCst), 0, "{path}");
    }
}

/// A client tool keeps its name; the tool of the server with the same name gets another one.
#[tokio::test]
async fn names_of_both_kinds_never_collide() {
    let gateway = TestGateway::start().await;
    for path in [CHAT, RESPONSES, MESSAGES] {
        let mut client = Client::new(gateway.url(path), path);
        client.tools = vec!["lookup"];
        let before = gateway.running.calls.load(Ordering::SeqCst);
        let reply = client.say("ours").await;
        assert_eq!(names(&reply), ["lookup"], "{path}");
        assert_eq!(gateway.running.calls.load(Ordering::SeqCst), before, "the server's tool did not run");
        let requests = gateway.model.requests();
        let tools: Vec<&str> = requests.last().unwrap().tools.iter().map(|tool| tool.name.as_str()).collect();
        assert!(tools.contains(&"lookup") && tools.contains(&"demo_lookup"), "{tools:?}");
    }
}

#[tokio::test]
async fn a_request_can_restrict_the_tools_and_the_steps() {
    let gateway = TestGateway::start().await;
    let offered = || {
        let requests = gateway.model.requests();
        requests.last().unwrap().tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>().join(" ")
    };
    for path in [CHAT, RESPONSES, MESSAGES] {
        let mut client = Client::new(gateway.url(path), path);
        client.tools.clear();
        client.headers = vec![("x-toolwire-tools", "look*, fail")];
        client.say("say hi").await;
        assert_eq!(offered(), "lookup fail", "{path}");
        client.headers = vec![("x-toolwire-servers", "none")];
        client.say("say hi").await;
        assert_eq!(offered(), "", "{path}");
        client.headers.clear();
        client.history.push(json!({"role": "user", "content": "say hi"}));
        let mut body = client.body();
        body["metadata"] = json!({"toolwire": "{\"tools\": [\"picture\"]}"});
        assert_eq!(client.post(&body).await.0, 200);
        assert_eq!(offered(), "picture", "{path}");
        body["toolwire"] = json!({"unknown": 1});
        let (status, error) = client.post(&body).await;
        assert_eq!(
            (status, text(&error["error"]["message"]).as_str()),
            (400, "unknown key `toolwire.unknown`")
        );
        // A limit ends with a response, not in the middle of a step.
        client.history.clear();
        client.headers = vec![("x-toolwire-max-steps", "2")];
        let before = gateway.model.requests().len();
        let reply = client.say("loop").await;
        assert!(reply.text.contains("Results: value of again"), "{path}: {}", reply.text);
        assert_eq!(gateway.model.requests().len() - before, 3, "{path}");
    }
}

/// A tool that needs approval does not run, because no user can be asked.
#[tokio::test]
async fn a_tool_that_needs_approval_does_not_run() {
    let gateway = TestGateway::start().await;
    for path in [CHAT, RESPONSES, MESSAGES] {
        let reply = Client::new(gateway.url(path), path).say("delete").await;
        assert!(reply.text.contains("`delete` was not run"), "{path}: {}", reply.text);
    }
    let mut settings = GatewaySettings::default();
    settings.agent.approvals = toolwire_agent::approval::ApprovalPolicy::default().allow("delete");
    let gateway = TestGateway::with(settings).await;
    let reply = Client::new(gateway.url(CHAT), CHAT).say("delete").await;
    assert_eq!(reply.text, "Results: deleted.");
}

#[tokio::test]
async fn errors_have_the_status_that_sdks_expect() {
    let gateway = TestGateway::start().await;
    for path in [CHAT, RESPONSES, MESSAGES] {
        for (question, expected) in [
            ("status 400", 400),
            ("status 401", 502),
            ("status 403", 502),
            ("status 404", 404),
            ("status 429", 429),
            ("status 500", 502),
            ("status 503", if path == MESSAGES { 529 } else { 503 }),
            ("status 504", 504),
            ("broken", 502),
        ] {
            for stream in [false, true] {
                let mut client = Client::new(gateway.url(path), path);
                client.history.push(json!({"role": "user", "content": question}));
                let mut body = client.body();
                body["stream"] = json!(stream);
                let response = http_client().post(gateway.url(path)).json(&body).send().await.unwrap();
                let (status, headers) = (response.status().as_u16(), response.headers().clone());
                let body = response.text().await.unwrap();
                // A stream that has begun has its error inside.
                if question == "broken" && stream {
                    assert_eq!(status, 200);
                    assert!(body.contains("Half a") && body.contains("\"error\""), "{path}: {body}");
                    assert!(!body.contains("[DONE]") && !body.contains("message_stop"), "{path}: {body}");
                    continue;
                }
                assert_eq!(status, expected, "{path} {question} {stream}: {body}");
                assert!(headers.contains_key("x-request-id") && headers.contains_key("request-id"));
                assert_eq!(
                    headers.get("x-should-retry").is_some(),
                    expected == 502 && question != "broken" && question != "status 500",
                    "{question}"
                );
            }
        }
        let mut client = Client::new(gateway.url(path), path);
        client.history.push(json!({"role": "user", "content": "late-status"}));
        let response = http_client().post(gateway.url(path)).json(&client.body()).send().await.unwrap();
        assert_eq!(response.headers()["x-should-retry"], "false", "a tool has run");
    }
}

/// If the client disconnects, the request to the model and the call are cancelled.
#[tokio::test]
async fn a_client_that_leaves_cancels_everything() {
    let gateway = TestGateway::start().await;
    for path in [CHAT, RESPONSES, MESSAGES] {
        for stream in [false, true] {
            let mut client = Client::new(gateway.url(path), path);
            client.history.push(json!({"role": "user", "content": "wait"}));
            let mut body = client.body();
            body["stream"] = json!(stream);
            let request = http_client().post(gateway.url(path)).json(&body);
            let sent = tokio::spawn(async move {
                let mut events = request.send().await.unwrap().bytes_stream();
                while events.next().await.is_some() {}
            });
            wait_until(|| gateway.running.now.load(Ordering::SeqCst) == 1).await;
            sent.abort();
            wait_until(|| gateway.running.now.load(Ordering::SeqCst) == 0).await;
        }
    }
}

async fn wait_until(condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, waiting).await.expect("the condition becomes true");
}

/// Streams have the same content as complete responses, and heartbeats while a tool runs.
#[tokio::test]
async fn a_stream_has_heartbeats_and_ends() {
    let mut settings = GatewaySettings::default();
    settings.limits.heartbeat = Duration::from_millis(20);
    let gateway = TestGateway::with(settings).await;
    for (path, end) in [(CHAT, "data: [DONE]"), (RESPONSES, "response.completed"), (MESSAGES, "message_stop")]
    {
        let mut client = Client::new(gateway.url(path), path);
        client.history.push(json!({"role": "user", "content": "tell-wait"}));
        let mut body = client.body();
        body["stream"] = json!(true);
        let response = http_client().post(gateway.url(path)).json(&body).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
        let text = response.text().await.unwrap();
        let position =
            |part: &str| text.find(part).unwrap_or_else(|| panic!("{path}: no `{part}` in {text}"));
        assert!(position("Wait.") < position(": keep-alive\n\n"), "{path}: {text}");
        assert!(position(": keep-alive\n\n") < position("Resul"), "{path}: {text}");
        assert!(position("Resul") < position(end), "{path}: {text}");
    }
}

#[tokio::test]
async fn models_and_sizes_are_reported() {
    let gateway = TestGateway::start().await;
    let list: Value =
        http_client().get(gateway.url("/v1/models")).send().await.unwrap().json().await.unwrap();
    assert_eq!(list["data"][1]["id"], "vendor/scripted");
    let one = http_client().get(gateway.url("/v1/models/vendor%2Fscripted")).send().await.unwrap();
    assert_eq!(one.status(), 200);
    assert_eq!(http_client().get(gateway.url("/v1/models/other")).send().await.unwrap().status(), 404);
    let count = async |headers: &[(&str, &str)]| {
        let body = json!({"model": crate::support::MODEL, "messages": [{"role": "user", "content": "a ".repeat(300)}]});
        let request = http_client().post(gateway.url("/v1/messages/count_tokens")).json(&body);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let counted: Value = request.send().await.unwrap().json().await.unwrap();
        counted["input_tokens"].as_u64().unwrap()
    };
    let with_tools = count(&[]).await;
    let without = count(&[("x-toolwire-servers", "none")]).await;
    assert!(without > 100 && with_tools > without, "{with_tools} {without}");
    assert_eq!(gateway.model.requests().len(), 0, "nothing was sent to the model");
}

/// The model sees the images of results.
#[tokio::test]
async fn images_of_results_reach_the_model() {
    let gateway = TestGateway::start().await;
    let reply = Client::new(gateway.url(MESSAGES), MESSAGES).say("picture").await;
    assert_eq!(reply.text, "Results: a dot [image].");
    let requests = gateway.model.requests();
    let has_image = requests.last().unwrap().messages.iter().any(|message| {
        message
            .content
            .iter()
            .any(|block| matches!(block, Block::Result { result, .. } if result.blocks().len() == 2))
    });
    assert!(has_image);
}
