//! The tools that the model is offered: choices, limits, and tools that an API cannot express.

use crate::client::{CHAT, Client, MESSAGES, RESPONSES, text};
use crate::support::TestGateway;
use serde_json::{Value, json};
use toolwire_contract::model::ToolChoice;

/// The tools and the choice of the last request to the model.
fn offered(gateway: &TestGateway) -> (String, ToolChoice) {
    let requests = gateway.model.requests();
    let request = requests.last().unwrap();
    let names: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
    (names.join(" "), request.tool_choice.clone())
}

/// Sends `say hi` with additional parameters.
async fn send(gateway: &TestGateway, path: &'static str, parameters: &Value) -> (u16, Value) {
    let mut client = Client::new(gateway.url(path), path);
    client.history.push(json!({"role": "user", "content": "say hi"}));
    let mut body = client.body();
    for (key, value) in parameters.as_object().unwrap() {
        body[key] = value.clone();
    }
    client.post(&body).await
}

/// `allowed_tools` restricts both the client's tools and the servers' tools.
#[tokio::test]
async fn a_choice_restricts_the_tools_of_both_kinds() {
    let gateway = TestGateway::start().await;
    for (names, expected) in [
        (vec!["get_time"], "get_time"),
        (vec!["get_time", "lookup"], "get_time lookup"),
        (vec!["fail"], "fail"),
    ] {
        let responses: Vec<Value> =
            names.iter().map(|name| json!({"type": "function", "name": name})).collect();
        let choice = json!({"type": "allowed_tools", "mode": "required", "tools": responses});
        let (status, error) = send(&gateway, RESPONSES, &json!({"tool_choice": choice})).await;
        assert_eq!(status, 200, "{error}");
        assert_eq!(offered(&gateway), (expected.to_owned(), ToolChoice::Required));
        let nested: Vec<Value> =
            names.iter().map(|name| json!({"type": "function", "function": {"name": name}})).collect();
        let choice = json!({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": nested}});
        let (status, error) = send(&gateway, CHAT, &json!({"tool_choice": choice})).await;
        assert_eq!(status, 200, "{error}");
        assert_eq!(offered(&gateway), (expected.to_owned(), ToolChoice::Auto));
    }
    let choice =
        json!({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp", "server_label": "demo"}]});
    assert_eq!(send(&gateway, RESPONSES, &json!({"tool_choice": choice})).await.0, 200);
    assert_eq!(offered(&gateway).0, "lookup fail picture delete wait");
    let choice =
        json!({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "other"}]});
    let (status, error) = send(&gateway, RESPONSES, &json!({"tool_choice": choice})).await;
    assert_eq!((status, text(&error["error"]["message"]).as_str()), (400, "there is no tool named `other`"));
}

#[tokio::test]
async fn a_choice_can_require_a_tool_of_a_server() {
    let gateway = TestGateway::start().await;
    let choice = |fields: Value| json!({"tool_choice": fields});
    let named = choice(json!({"type": "mcp", "server_label": "demo", "name": "lookup"}));
    assert_eq!(send(&gateway, RESPONSES, &named).await.0, 200);
    assert_eq!(offered(&gateway).1, ToolChoice::Tool("lookup".to_owned()));
    let any = choice(json!({"type": "mcp", "server_label": "demo"}));
    assert_eq!(send(&gateway, RESPONSES, &any).await.0, 200);
    assert_eq!(offered(&gateway), ("lookup fail picture delete wait".to_owned(), ToolChoice::Required));
    for (fields, expected) in [
        (
            json!({"type": "mcp", "server_label": "demo", "name": "x"}),
            "the server `demo` has no tool named `x`",
        ),
        (
            json!({"type": "mcp", "server_label": "demo", "name": "lokup"}),
            "the server `demo` has no tool named `lokup`; hint: did you mean `lookup`?",
        ),
        (
            json!({"type": "mcp", "server_label": "deom"}),
            "there is no server `deom` with tools; hint: did you mean `demo`?",
        ),
        (
            json!({"type": "function", "name": "get_wether"}),
            "there is no tool named `get_wether`; hint: did you mean `get_weather` or `get_time`?",
        ),
        (json!({"type": "mcp", "server_label": "other"}), "there is no server `other` with tools"),
    ] {
        let (status, error) = send(&gateway, RESPONSES, &choice(fields)).await;
        assert_eq!((status, text(&error["error"]["message"]).as_str()), (400, expected));
    }
}

/// A tool of the client that the API cannot express is an error, because the model would respond without it.
#[tokio::test]
async fn client_tools_that_a_provider_does_not_take_are_refused() {
    let gateway = TestGateway::start().await;
    let schema = json!({"type": "object", "properties": {"a": false}, "required": ["a"]});
    let bad = json!([{"name": "bad", "input_schema": schema}]);
    let (status, error) = send(&gateway, MESSAGES, &json!({"model": "openai/scripted", "tools": bad})).await;
    let message = text(&error["error"]["message"]);
    assert_eq!(status, 400, "{error}");
    assert!(message.contains("the tool `bad`") && error["type"] == "error", "{error}");

    let many = |count: usize| -> Vec<Value> {
        let tool = |number| json!({"name": format!("tool_{number}"), "input_schema": {"type": "object"}});
        (0..count).map(tool).collect()
    };
    let (status, error) = send(&gateway, MESSAGES, &json!({"tools": many(65)})).await;
    assert_eq!(
        (status, text(&error["error"]["message"]).as_str()),
        (400, "`scripted` accepts at most 64 tools, and the request has 65")
    );
    // If the sum is too large, the servers' tools are offered through a search.
    let (status, error) = send(&gateway, MESSAGES, &json!({"tools": many(62)})).await;
    assert_eq!(status, 200, "{error}");
    let (names, _) = offered(&gateway);
    assert!(names.contains("tool_61") && !names.contains("lookup"), "{names}");
    assert_eq!(names.split(' ').count(), 63, "{names}");
}

/// OpenAI's deprecated parameters for tools are converted, so the current ones cannot be sent too.
#[tokio::test]
async fn functions_and_tools_are_refused_together() {
    let gateway = TestGateway::start().await;
    let tools = json!([{"type": "function", "function": {"name": "g"}}]);
    for (parameter, body) in [
        ("functions", json!({"functions": [{"name": "f"}], "tools": tools})),
        ("functions", json!({"functions": "f", "tools": null})),
        ("function_call", json!({"function_call": "auto", "tool_choice": "none"})),
    ] {
        let (status, error) = send(&gateway, CHAT, &body).await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!(parameter)), "{error}");
    }
}

#[tokio::test]
async fn the_number_of_tools_in_a_choice_is_limited() {
    let mut settings = toolwire_gateway::GatewaySettings::default();
    settings.limits.tools = 3;
    let gateway = TestGateway::with(settings).await;
    for (count, status) in [(3, 200), (4, 400)] {
        let tools = vec![json!({"type": "function", "name": "get_time"}); count];
        let choice = json!({"type": "allowed_tools", "mode": "auto", "tools": tools});
        let (found, error) = send(&gateway, RESPONSES, &json!({"tool_choice": choice})).await;
        assert_eq!(found, status, "{error}");
        assert!(status == 200 || error["error"]["param"] == "tool_choice", "{error}");
    }
}

/// Each name is compared with each tool of the servers.
#[tokio::test]
async fn the_names_in_lists_of_servers_are_limited() {
    let mut settings = toolwire_gateway::GatewaySettings::default();
    settings.limits.tools = 3;
    let gateway = TestGateway::with(settings).await;
    let names = |count: usize| vec!["echo"; count];
    for fields in [
        json!({"allowed_tools": names(4)}),
        json!({"allowed_tools": {"tool_names": names(2)}, "require_approval": {"never": {"tool_names": names(2)}}}),
        json!({"require_approval": {"always": {"tool_names": names(4)}}}),
    ] {
        let mut server = json!({"type": "mcp", "server_label": "demo"});
        server.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let (status, error) = send(&gateway, RESPONSES, &json!({"tools": [server]})).await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!("tools")), "{error}");
    }
    let servers = vec![json!({"type": "url", "name": "demo", "url": "toolwire://demo"}); 4];
    let body = json!({"model": crate::support::MODEL, "messages": [], "mcp_servers": servers});
    for path in ["/v1/messages", "/v1/messages/count_tokens"] {
        let response =
            toolwire_testkit::http_client().post(gateway.url(path)).json(&body).send().await.unwrap();
        let status = response.status().as_u16();
        let error: Value = response.json().await.unwrap();
        assert_eq!(status, 400, "{path}: {error}");
        assert!(error.to_string().contains("4 mcp_servers"), "{path}: {error}");
    }
}

/// Errors name what the client sent, and not what it is converted to.
#[tokio::test]
async fn errors_in_functions_name_the_deprecated_parameters() {
    let gateway = TestGateway::start().await;
    let schema = json!({"type": "object", "properties": {"a": false}, "required": ["a"]});
    let many: Vec<Value> = (0..65).map(|number| json!({"name": format!("f_{number}")})).collect();
    let call = json!({"role": "assistant", "content": null, "function_call": {"name": 1, "arguments": "{}"}});
    let result = json!({"role": "function", "name": "f", "content": "x"});
    for (parameter, body) in [
        ("functions[0].name", json!({"functions": [{"description": "d"}]})),
        ("functions[1]", json!({"functions": [{"name": "f"}, {"name": "f"}]})),
        ("functions", json!({"functions": many})),
        // The definitions are converted even if the provider supports the client's API.
        ("functions", json!({"model": "openai", "functions": [{"name": "bad", "parameters": schema}]})),
        (
            "functions",
            json!({"model": "openai/scripted", "functions": [{"name": "bad", "parameters": schema}]}),
        ),
        ("function_call", json!({"functions": [{"name": "f"}], "function_call": {"name": "other"}})),
        ("function_call.name", json!({"functions": [{"name": "f"}], "function_call": {}})),
        ("function_call", json!({"functions": [{"name": "f"}], "function_call": "later"})),
        ("messages[0]", json!({"messages": [result]})),
        ("messages[0]", json!({"messages": [call]})),
    ] {
        let mut body = body;
        body["tools"] = json!(null);
        let (status, error) = send(&gateway, CHAT, &body).await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!(parameter)), "{body}: {error}");
    }
}

/// The header with the names of dropped parameters has a limit.
#[tokio::test]
async fn the_list_of_dropped_parameters_is_bounded() {
    let gateway = TestGateway::start().await;
    let mut body = json!({"model": "openai/scripted", "max_tokens": 10, "messages": [{"role": "user", "content": "say hi"}]});
    for number in 0..2_000 {
        body[format!("unknown_parameter_{number}")] = json!(1);
    }
    let response =
        toolwire_testkit::http_client().post(gateway.url(MESSAGES)).json(&body).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let dropped = response.headers()["x-toolwire-dropped"].to_str().unwrap().to_owned();
    assert!(dropped.len() < 1_200 && dropped.ends_with(" more"), "{dropped}");
}
