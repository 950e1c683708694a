//! Requests that name MCP servers in the formats of OpenAI and Anthropic, and approvals. The numbers are
//! those of `docs/security-tests.md`.

use crate::support::{MODEL, TestGateway};
use serde_json::{Value, json};
use toolwire_gateway::GatewaySettings;
use toolwire_testkit::http_client;

async fn post(gateway: &TestGateway, path: &str, body: &Value) -> (u16, Value) {
    let response = http_client().post(gateway.url(path)).json(body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// Sends a request of the Responses API, and returns its output.
async fn respond(gateway: &TestGateway, input: &[Value], tools: Value) -> Vec<Value> {
    let body = json!({"model": MODEL, "input": input, "tools": tools});
    let (status, response) = post(gateway, "/v1/responses", &body).await;
    assert_eq!(status, 200, "{response}");
    response["output"].as_array().unwrap().clone()
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn types(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| item["type"].as_str().unwrap()).collect()
}

fn server(approval: Value) -> Value {
    json!([{"type": "mcp", "server_label": "demo", "require_approval": approval, "authorization": "secret-token"}])
}

/// The names of the tools in the last request to the model.
fn offered(gateway: &TestGateway) -> String {
    let requests = gateway.model.requests();
    requests.last().unwrap().tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn responses_show_the_calls_and_continue_with_them() {
    let gateway = TestGateway::start().await;
    let mut input = vec![user("parallel")];
    let output = respond(&gateway, &input, server(json!("never"))).await;
    assert_eq!(types(&output), ["mcp_list_tools", "mcp_call", "mcp_call", "message"]);
    assert_eq!(output[0]["server_label"], "demo");
    assert_eq!(output[0]["tools"].as_array().unwrap().len(), 5);
    let [done, failed] = [&output[1], &output[2]];
    assert_eq!(
        (&done["status"], &done["output"], &done["name"]),
        (&json!("completed"), &json!("value of a"), &json!("lookup"))
    );
    assert_eq!(done["arguments"], "{\"key\":\"a\"}");
    assert_eq!((&failed["status"], &failed["output"]), (&json!("failed"), &Value::Null));
    assert!(failed["error"]["content"][0]["text"].as_str().unwrap().contains("it is broken"), "{failed}");

    input.extend(output);
    input.push(user("ours"));
    let output = respond(&gateway, &input, server(json!("never"))).await;
    // The history lists the tools already.
    assert_eq!(types(&output), ["mcp_call", "message"]);
    let requests = gateway.model.requests();
    let results = requests.last().unwrap().messages.iter().flat_map(|message| message.results()).count();
    assert_eq!(results, 3, "the model sees the calls of the history");
}

#[tokio::test]
async fn secrets_of_servers_are_not_repeated() {
    let gateway = TestGateway::start().await;
    let body = json!({"model": MODEL, "input": "say hi", "tools": server(json!("never"))});
    let (_, response) = post(&gateway, "/v1/responses", &body).await;
    assert!(!response.to_string().contains("secret-token"), "{response}");
    assert_eq!(response["tools"][0]["server_label"], "demo");
}

#[tokio::test]
async fn streams_have_the_events_of_server_calls() {
    let gateway = TestGateway::start().await;
    let body = json!({"model": MODEL, "input": "ours", "stream": true, "tools": server(json!("never"))});
    let response = http_client().post(gateway.url("/v1/responses")).json(&body).send().await.unwrap();
    let text = response.text().await.unwrap();
    let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    let position = |name: &str| {
        names.iter().position(|found| *found == name).unwrap_or_else(|| panic!("no {name}: {names:?}"))
    };
    assert!(position("response.created") < position("response.mcp_list_tools.completed"));
    assert!(position("response.mcp_list_tools.completed") < position("response.mcp_call.in_progress"));
    assert!(position("response.mcp_call_arguments.done") < position("response.mcp_call.completed"));
    assert!(position("response.mcp_call.completed") < position("response.output_text.delta"));
    let numbers: Vec<u64> = text
        .lines()
        .filter_map(|line| {
            serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok()?["sequence_number"].as_u64()
        })
        .collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
}

/// Security rules 23 and 24: an approval is valid once, for the caller and the call that it was requested
/// for.
#[tokio::test]
async fn a_call_runs_after_its_approval_and_only_once() {
    let gateway = TestGateway::start().await;
    let input = vec![user("ours")];
    let output = respond(&gateway, &input, server(json!("always"))).await;
    assert_eq!(types(&output), ["mcp_list_tools", "mcp_approval_request"]);
    let calls = || gateway.running.calls.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(calls(), 0, "nothing ran yet");
    let id = output[1]["id"].as_str().unwrap().to_owned();
    // The arguments of the history do not matter: the stored ones run.
    let mut forged = output[1].clone();
    forged["arguments"] = json!("{\"key\":\"other\"}");
    let mut next = input.clone();
    next.extend([output[0].clone(), forged]);
    next.push(json!({"type": "mcp_approval_response", "approval_request_id": id, "approve": true}));
    let approved = respond(&gateway, &next, server(json!("always"))).await;
    assert_eq!(types(&approved), ["mcp_call", "message"]);
    assert_eq!(approved[0]["approval_request_id"], json!(id));
    assert_eq!(approved[0]["arguments"], "{\"key\":\"a\"}");
    assert_eq!(calls(), 1);

    let body = json!({"model": MODEL, "input": next, "tools": server(json!("always"))});
    let (status, error) = post(&gateway, "/v1/responses", &body).await;
    assert_eq!((status, calls()), (400, 1), "{error}");
    let invented = json!([user("ours"), {"type": "mcp_approval_response", "approval_request_id": "mcpr_x", "approve": true}]);
    let body = json!({"model": MODEL, "input": invented, "tools": server(json!("always"))});
    assert_eq!(post(&gateway, "/v1/responses", &body).await.0, 400);
}

/// After an approval, the conversation continues; decisions in the history are not applied again.
#[tokio::test]
async fn a_conversation_continues_after_an_approval() {
    let gateway = TestGateway::start().await;
    let mut input = vec![user("ours")];
    for approve in [true, false] {
        let output = respond(&gateway, &input, server(json!("always"))).await;
        let id = output.last().unwrap()["id"].clone();
        input.extend(output);
        input.push(json!({"type": "mcp_approval_response", "approval_request_id": id, "approve": approve}));
        let output = respond(&gateway, &input, server(json!("always"))).await;
        assert_eq!(output.last().unwrap()["type"], "message", "{output:?}");
        input.extend(output);
        input.push(user("ours"));
    }
    input.push(user("say hi"));
    let output = respond(&gateway, &input, server(json!("always"))).await;
    assert_eq!(output.last().unwrap()["content"][0]["text"], "hi");
}

/// With two entries for one server, the entry that selects a tool decides whether it needs approval.
#[tokio::test]
async fn approval_belongs_to_the_entry_that_selects_the_tool() {
    let gateway = TestGateway::start().await;
    let entry = |label: &str, tool: &str, approval: &str| json!({"type": "mcp", "server_label": label, "server_url": "toolwire://demo", "allowed_tools": [tool], "require_approval": approval});
    let tools = json!([entry("free", "fail", "never"), entry("guarded", "lookup", "always")]);
    let output = respond(&gateway, &[user("ours")], tools).await;
    assert_eq!(output.last().unwrap()["type"], "mcp_approval_request", "{output:?}");
}

/// Messages have no approvals, so a tool that needs one does not run.
#[tokio::test]
async fn servers_in_messages_do_not_lift_approvals() {
    let gateway = TestGateway::start().await;
    let body = json!({
        "model": MODEL, "max_tokens": 100, "messages": [user("delete")],
        "mcp_servers": [{"type": "url", "name": "demo", "url": "toolwire://demo"}],
        "tools": [{"type": "mcp_toolset", "mcp_server_name": "demo"}],
    });
    let (status, response) = post(&gateway, "/v1/messages", &body).await;
    assert_eq!(status, 200, "{response}");
    assert!(response.to_string().contains("`delete` was not run"), "{response}");
}

/// If several requests approve the same call at the same time, exactly one of them succeeds.
#[tokio::test]
async fn approvals_at_the_same_time_run_a_call_once() {
    let gateway = TestGateway::start().await;
    let mut input = vec![user("ours")];
    let output = respond(&gateway, &input, server(json!("always"))).await;
    let id = output[1]["id"].clone();
    input.push(json!({"type": "mcp_approval_response", "approval_request_id": id, "approve": true}));
    let body = json!({"model": MODEL, "input": input, "tools": server(json!("always"))});
    let sent = (0..8).map(|_| post(&gateway, "/v1/responses", &body));
    let statuses: Vec<u16> =
        futures::future::join_all(sent).await.into_iter().map(|(status, _)| status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert_eq!(gateway.running.calls.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_denied_call_does_not_run() {
    let gateway = TestGateway::start().await;
    let mut input = vec![user("ours")];
    let output = respond(&gateway, &input, server(json!({"never": {"tool_names": ["fail"]}}))).await;
    let id = output[1]["id"].clone();
    input.push(json!({"type": "mcp_approval_response", "approval_request_id": id, "approve": false, "reason": "too late"}));
    let output = respond(&gateway, &input, server(json!("always"))).await;
    let text = output.last().unwrap()["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("the user denied it: too late"), "{text}");
    assert_eq!(gateway.running.calls.load(std::sync::atomic::Ordering::SeqCst), 0);
}

/// Security rule 25: `require_approval` is decided for each tool, and the configuration has precedence.
#[tokio::test]
async fn approval_is_decided_for_each_tool() {
    let mut settings = GatewaySettings::default();
    settings.agent.approvals = toolwire_agent::approval::ApprovalPolicy::default().deny("picture");
    let gateway = TestGateway::with(settings).await;
    for (approval, question, expected) in [
        (json!("never"), "ours", "mcp_call"),
        // The configuration requires approval for tools that change something.
        (json!("never"), "delete", "mcp_approval_request"),
        (json!("always"), "ours", "mcp_approval_request"),
        (json!(null), "ours", "mcp_approval_request"),
        (json!({"never": ["lookup"]}), "ours", "mcp_call"),
        (json!({"never": ["lookup"]}), "delete", "mcp_approval_request"),
        (json!({"always": ["lookup"], "never": ["lookup"]}), "ours", "mcp_approval_request"),
        (json!({"never": {"read_only": true}}), "ours", "mcp_call"),
        (json!({"always": {"read_only": true}, "never": ["lookup"]}), "ours", "mcp_approval_request"),
        (json!({"never": {"read_only": true, "tool_names": ["fail"]}}), "ours", "mcp_approval_request"),
        (
            json!({"always": {"tool_names": ["delete"]}, "never": {"tool_names": ["lookup"]}}),
            "ours",
            "mcp_call",
        ),
    ] {
        let output = respond(&gateway, &[user(question)], server(approval.clone())).await;
        assert_eq!(output[1]["type"], expected, "{approval} {question}: {output:?}");
    }
    let output = respond(&gateway, &[user("picture")], server(json!("never"))).await;
    let text = output.last().unwrap()["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("`picture` was not run"), "a denied tool stays denied: {text}");
}

#[tokio::test]
async fn a_request_selects_tools_of_its_servers() {
    let gateway = TestGateway::start().await;
    for (filter, expected) in [
        (json!({"allowed_tools": ["lookup", "wait"]}), "lookup wait"),
        (json!({"allowed_tools": {"tool_names": ["delete", "lookup"], "read_only": true}}), "lookup"),
        (json!({"allowed_tools": {"read_only": true}}), "lookup fail picture wait"),
        (json!({"server_url": "toolwire://demo", "allowed_tools": ["fail"]}), "fail"),
    ] {
        let mut tools = json!([{"type": "mcp", "server_label": "demo", "require_approval": "never"}]);
        for (key, value) in filter.as_object().unwrap() {
            tools[0][key] = value.clone();
        }
        respond(&gateway, &[user("say hi")], tools).await;
        assert_eq!(offered(&gateway), expected);
    }
    for (tool, status) in [
        (json!({"type": "mcp", "server_label": "other"}), 400),
        (json!({"type": "mcp", "server_label": "demo", "server_url": "https://evil.test/mcp"}), 403),
        (json!({"type": "mcp", "server_label": "demo", "connector_id": "x"}), 400),
    ] {
        let body = json!({"model": MODEL, "input": "say hi", "tools": [tool]});
        let (found, error) = post(&gateway, "/v1/responses", &body).await;
        assert_eq!(found, status, "{tool}: {error}");
    }
}

/// Deferred tools are found by a search; each tool has its own setting, or that of its server.
#[tokio::test]
async fn tools_can_be_deferred() {
    let gateway = TestGateway::start().await;
    for (default, configs, expected) in [
        (false, json!({}), "lookup fail picture delete wait"),
        (true, json!({}), "search_tools"),
        (true, json!({"fail": {"defer_loading": false}}), "search_tools fail"),
        (
            false,
            json!({"wait": {"defer_loading": true}, "delete": {"enabled": false}}),
            "search_tools lookup fail picture",
        ),
    ] {
        let body = json!({
            "model": MODEL, "max_tokens": 100, "messages": [user("say hi")],
            "mcp_servers": [{"type": "url", "name": "demo", "url": "toolwire://demo"}],
            "tools": [{"type": "mcp_toolset", "mcp_server_name": "demo", "default_config": {"defer_loading": default}, "configs": configs}],
        });
        let (status, response) = post(&gateway, "/v1/messages", &body).await;
        assert_eq!((status, offered(&gateway).as_str()), (200, expected), "{response}");
    }
}

/// A URL selects the server that is configured with it. Items have the client's label.
#[tokio::test]
async fn a_url_of_a_configured_server_names_it() {
    let mut settings = GatewaySettings::default();
    settings.server_urls.insert("demo".to_owned(), "https://tools.example/mcp".to_owned());
    let gateway = TestGateway::with(settings).await;
    for label in ["demo", "theirs"] {
        let entry = |url: &str| json!([{"type": "mcp", "server_label": label, "server_url": url, "require_approval": "never"}]);
        let output = respond(&gateway, &[user("ours")], entry("https://tools.example/mcp/")).await;
        assert_eq!(types(&output), ["mcp_list_tools", "mcp_call", "message"]);
        assert_eq!((&output[0]["server_label"], &output[1]["server_label"]), (&json!(label), &json!(label)));
        let mut tools = entry("https://tools.example/mcp");
        tools[0]["require_approval"] = json!("always");
        let output = respond(&gateway, &[user("ours")], tools.clone()).await;
        assert_eq!(output[1]["server_label"], label);
        let input = [
            user("ours"),
            output[0].clone(),
            output[1].clone(),
            json!({"type": "mcp_approval_response", "approval_request_id": output[1]["id"], "approve": true}),
        ];
        let output = respond(&gateway, &input, tools).await;
        assert_eq!(
            (types(&output), &output[0]["server_label"]),
            (vec!["mcp_call", "message"], &json!(label))
        );
        let body = json!({"model": MODEL, "input": "ours", "tools": entry("https://tools.example/other")});
        let (status, error) = post(&gateway, "/v1/responses", &body).await;
        assert_eq!(status, 403, "{error}");
    }
}

#[tokio::test]
async fn messages_show_the_calls_and_continue_with_them() {
    let gateway = TestGateway::start().await;
    let mut body = json!({
        "model": MODEL, "max_tokens": 100, "messages": [user("mixed")],
        "mcp_servers": [{"type": "url", "name": "demo", "url": "toolwire://demo"}],
        "tools": [
            {"type": "mcp_toolset", "mcp_server_name": "demo", "configs": {"delete": {"enabled": false}}},
            {"name": "get_weather", "input_schema": {"type": "object"}},
        ],
    });
    let (status, response) = post(&gateway, "/v1/messages", &body).await;
    assert_eq!(status, 200, "{response}");
    let blocks = response["content"].as_array().unwrap();
    let expected = ["mcp_tool_use", "mcp_tool_result", "mcp_tool_use", "mcp_tool_result", "tool_use"];
    assert_eq!(types(blocks), expected);
    assert_eq!(blocks[0]["server_name"], "demo");
    assert_eq!(blocks[1]["content"][0]["text"], "value of a");
    assert_eq!(offered(&gateway), "get_weather lookup fail picture wait");
    let id = blocks[4]["id"].clone();
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": blocks}));
    messages.push(
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "sunny"}]}),
    );
    let (status, response) = post(&gateway, "/v1/messages", &body).await;
    assert_eq!(status, 200, "{response}");
    assert_eq!(response["content"][0]["text"], "Results: value of a | sunny | value of b.", "each call once");
}

#[tokio::test]
async fn chat_shows_the_calls_only_if_it_is_asked_to() {
    let gateway = TestGateway::start().await;
    let body = json!({"model": MODEL, "messages": [user("ours")]});
    let (_, response) = post(&gateway, "/v1/chat/completions", &body).await;
    assert!(response.get("toolwire").is_none(), "{response}");
    let body = json!({"model": MODEL, "messages": [user("ours")], "toolwire": {"show_calls": true}});
    let (_, response) = post(&gateway, "/v1/chat/completions", &body).await;
    let call = &response["toolwire"]["calls"][0];
    assert_eq!(
        (&call["server"], &call["name"], &call["output"]),
        (&json!("demo"), &json!("lookup"), &json!("value of a"))
    );
}

/// Requests that refer to stored conversations, or that run in the background, are rejected.
#[tokio::test]
async fn parameters_that_are_not_supported_are_refused() {
    let gateway = TestGateway::start().await;
    for (key, value) in [("background", json!(true)), ("conversation", json!("x"))] {
        let mut body = json!({"model": MODEL, "input": "say hi"});
        body[key] = value;
        let (status, error) = post(&gateway, "/v1/responses", &body).await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!(key)), "{error}");
    }
}
