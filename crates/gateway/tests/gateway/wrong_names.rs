//! Requests that name servers, tools, keys or approvals that do not exist, or that contradict themselves: an
//! error says what is wrong and where, and suggests only what the caller may use.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::client::{CHAT, MESSAGES, RESPONSES};
use crate::support::{MODEL, TestGateway};
use serde_json::{Value, json};
use toolwire_contract::keys::KeyRights;
use toolwire_gateway::{GatewaySettings, IssuedKey, Keys};
use toolwire_store::InMemoryKeys;
use toolwire_testkit::http_client;

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn question(path: &str) -> Value {
    match path {
        RESPONSES => json!({"model": MODEL, "input": [user("say hi")]}),
        CHAT => json!({"model": MODEL, "messages": [user("say hi")]}),
        _ => json!({"model": MODEL, "max_tokens": 100, "messages": [user("say hi")]}),
    }
}

fn with(path: &str, fields: &Value) -> Value {
    let mut body = question(path);
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    body
}

/// Sends a request. Returns the status, the body, and the header with the dropped parameters.
async fn post(
    gateway: &TestGateway,
    path: &str,
    body: &Value,
    headers: &[(&str, &str)],
) -> (u16, Value, String) {
    let request = http_client().post(gateway.url(path)).json(body);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let response = request.send().await.unwrap();
    let dropped = response.headers().get("x-toolwire-dropped");
    let dropped = dropped.map_or(String::new(), |names| names.to_str().unwrap().to_owned());
    (response.status().as_u16(), response.json().await.unwrap(), dropped)
}

fn message(error: &Value) -> &str {
    error["error"]["message"].as_str().unwrap()
}

fn entry(fields: Value) -> Value {
    let mut entry = json!({"type": "mcp", "server_label": "demo", "require_approval": "never"});
    entry.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"tools": [entry]})
}

#[tokio::test]
async fn a_wrong_name_of_a_server_or_a_tool_is_refused_with_its_place() {
    let gateway = TestGateway::start().await;
    let hint = "hint: did you mean";
    for (fields, parameter, expected) in [
        (
            entry(json!({"server_label": "deom"})),
            "tools[0].server_label",
            format!("no server named `deom` is configured; {hint} `demo`?"),
        ),
        (
            entry(json!({"server_label": "mine", "server_url": "toolwire://dmeo"})),
            "tools[0].server_url",
            format!("no server named `dmeo` is configured; {hint} `demo`?"),
        ),
        (
            entry(json!({"allowed_tools": ["fail", "lokup"]})),
            "tools[0].allowed_tools[1]",
            format!(
                "`tools[0].allowed_tools[1]` names the tool `lokup`, which the server `demo` does not have; {hint} `lookup`?"
            ),
        ),
        (
            entry(json!({"allowed_tools": {"tool_names": ["xyz"]}})),
            "tools[0].allowed_tools.tool_names[0]",
            "`tools[0].allowed_tools.tool_names[0]` names the tool `xyz`, which the server `demo` does not have".to_owned(),
        ),
        // With the wrong name, the call would need no approval.
        (
            entry(json!({"require_approval": {"always": {"tool_names": ["delte"]}}})),
            "tools[0].require_approval.always.tool_names[0]",
            format!(
                "`tools[0].require_approval.always.tool_names[0]` names the tool `delte`, which the server `demo` does not \
                 have; {hint} `delete`?"
            ),
        ),
    ] {
        let (status, error, _) = post(&gateway, RESPONSES, &with(RESPONSES, &fields), &[]).await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!(parameter)), "{error}");
        assert_eq!(message(&error), expected);
    }
    for (fields, expected) in [
        (
            json!({"mcp_servers": [{"type": "url", "name": "d", "url": "toolwire://demos"}],
                "tools": [{"type": "mcp_toolset", "mcp_server_name": "d"}]}),
            "no server named `demos` is configured; hint: did you mean `demo`?",
        ),
        (
            json!({"mcp_servers": [{"name": "demo", "tool_configuration": {"allowed_tools": ["wiat"]}}]}),
            "`mcp_servers[0].tool_configuration.allowed_tools[0]` names the tool `wiat`, which the server `demo` does not \
             have; hint: did you mean `wait`?",
        ),
    ] {
        let (status, error, _) = post(&gateway, MESSAGES, &with(MESSAGES, &fields), &[]).await;
        assert_eq!((status, message(&error)), (400, expected));
    }
    assert_eq!(gateway.model.requests().len(), 0);
}

/// Anthropic's API ignores settings of unknown tools, so they are only listed.
#[tokio::test]
async fn settings_of_an_unknown_tool_are_listed() {
    let gateway = TestGateway::start().await;
    let fields = json!({
        "mcp_servers": [{"type": "url", "name": "demo", "url": "toolwire://demo"}],
        "tools": [{"type": "mcp_toolset", "mcp_server_name": "demo", "configs": {"lokup": {"enabled": false}, "wait": {}}}],
    });
    let (status, response, dropped) = post(&gateway, MESSAGES, &with(MESSAGES, &fields), &[]).await;
    assert_eq!((status, dropped.as_str()), (200, "tools.configs.lokup"), "{response}");
}

#[tokio::test]
async fn headers_and_options_with_wrong_names_are_refused() {
    let gateway = TestGateway::start().await;
    let hint = "which does not exist; hint: did you mean";
    for path in [CHAT, RESPONSES, MESSAGES] {
        for (header, value, expected) in [
            (
                "x-toolwire-servers",
                "deom",
                format!("`x-toolwire-servers` names the server `deom`, {hint} `demo`?"),
            ),
            (
                "x-toolwire-tools",
                "fail, lokup",
                format!("`x-toolwire-tools` names the tool `lokup`, {hint} `lookup`?"),
            ),
        ] {
            let (status, error, _) = post(&gateway, path, &question(path), &[(header, value)]).await;
            assert_eq!((status, message(&error)), (400, expected.as_str()), "{path}");
            if path != MESSAGES {
                assert_eq!(error["error"]["param"], header, "{path}");
            }
        }
        let body = with(path, &json!({"toolwire": {"tools": ["loo*", "pictrue"]}}));
        let (status, error, _) = post(&gateway, path, &body, &[]).await;
        let expected = format!("`toolwire.tools` names the tool `pictrue`, {hint} `picture`?");
        assert_eq!((status, message(&error)), (400, expected.as_str()), "{path}");
        let (status, error, _) =
            post(&gateway, path, &question(path), &[("x-toolwire-server", "none")]).await;
        let expected = "unknown header `x-toolwire-server`; hint: did you mean `x-toolwire-servers`?";
        assert_eq!((status, message(&error)), (400, expected), "{path}");
        // A pattern may match nothing, and `none` is a word.
        for (header, value) in
            [("x-toolwire-tools", "x*"), ("x-toolwire-servers", "none"), ("x-toolwire-servers", "demo")]
        {
            let (status, response, _) = post(&gateway, path, &question(path), &[(header, value)]).await;
            assert_eq!(status, 200, "{path} {value}: {response}");
        }
    }
    let body = question(MESSAGES);
    let path = "/v1/messages/count_tokens";
    let (status, error, _) = post(&gateway, path, &body, &[("x-toolwire-servers", "deom")]).await;
    assert_eq!(status, 400, "{error}");
}

/// A name that exists, but that the key may not use, is the same as one that does not exist: it is neither
/// accepted nor suggested.
#[tokio::test]
async fn names_that_a_key_may_not_use_are_not_suggested() {
    let table = Arc::new(InMemoryKeys::new());
    let mut settings = GatewaySettings::default();
    let rights = KeyRights { tools: Some(vec!["fail".to_owned()]), ..KeyRights::default() };
    let none = KeyRights { servers: Some(vec!["other".to_owned()]), ..KeyRights::default() };
    let [tools, servers] = [(); 2].map(|()| IssuedKey::generate().unwrap().secret.expose().to_owned());
    settings.keys = Keys::default()
        .with_rights("tools", &tools, rights)
        .with_rights("servers", &servers, none)
        .with_table(table.clone(), table);
    settings.server_urls.insert("demo".to_owned(), "https://tools.example/mcp".to_owned());
    let gateway = TestGateway::with(settings).await;
    let send = async |key: &str, fields: &Value, header: Option<(&str, &str)>| {
        let bearer = format!("Bearer {key}");
        let headers: Vec<(&str, &str)> =
            [("authorization", bearer.as_str())].into_iter().chain(header).collect();
        let (status, error, _) = post(&gateway, RESPONSES, &with(RESPONSES, fields), &headers).await;
        assert_eq!(status, 400, "{error}");
        message(&error).to_owned()
    };
    // The exact name of a forbidden tool gets the same error as an unknown one.
    for name in ["lookup", "lokup"] {
        let found = send(&tools, &entry(json!({"allowed_tools": [name]})), None).await;
        let place = "`tools[0].allowed_tools[0]`";
        assert_eq!(found, format!("{place} names the tool `{name}`, which the server `demo` does not have"));
        let found = send(&tools, &json!({}), Some(("x-toolwire-tools", name))).await;
        assert_eq!(found, format!("`x-toolwire-tools` names the tool `{name}`, which does not exist"));
        let choice = json!({"tool_choice": {"type": "function", "name": name}});
        assert_eq!(send(&tools, &choice, None).await, format!("there is no tool named `{name}`"));
    }
    for name in ["demo", "deom"] {
        let found = send(&servers, &entry(json!({"server_label": name})), None).await;
        assert_eq!(found, format!("no server named `{name}` is configured"));
        let found = send(&servers, &json!({}), Some(("x-toolwire-servers", name))).await;
        assert_eq!(found, format!("`x-toolwire-servers` names the server `{name}`, which does not exist"));
    }
}

/// Security rule 15: of two different keys, none is used, whichever of them is valid.
#[tokio::test]
async fn two_different_keys_are_refused() {
    let [one, two] = [(); 2].map(|()| IssuedKey::generate().unwrap().secret.expose().to_owned());
    let mut settings = GatewaySettings::default();
    settings.keys = Keys::default().with("one", &one).with("two", &two);
    let gateway = TestGateway::with(settings).await;
    let expected = "the headers `Authorization` and `x-api-key` have different keys; hint: send only one of them, or the same \
                    key in both";
    for path in [CHAT, RESPONSES, MESSAGES] {
        for (bearer, api_key) in
            [(&one, &two), (&two, &one), (&one, &"wrong".to_owned()), (&"wrong".to_owned(), &one)]
        {
            let bearer = format!("Bearer {bearer}");
            let headers = [("authorization", bearer.as_str()), ("x-api-key", api_key.as_str())];
            let (status, error, _) = post(&gateway, path, &question(path), &headers).await;
            assert_eq!((status, message(&error)), (401, expected), "{path}");
        }
        let bearer = format!("Bearer {one}");
        let headers = [("authorization", bearer.as_str()), ("x-api-key", one.as_str())];
        assert_eq!(post(&gateway, path, &question(path), &headers).await.0, 200, "{path}");
    }
}

/// The description of a server reaches the model.
#[tokio::test]
async fn the_model_gets_the_description_of_a_server() {
    let gateway = TestGateway::start().await;
    let mut body = with(RESPONSES, &entry(json!({"server_description": " Looks up values. "})));
    body["instructions"] = json!("Be brief.");
    let (status, response, dropped) = post(&gateway, RESPONSES, &body, &[]).await;
    assert_eq!((status, dropped.as_str()), (200, ""), "{response}");
    let request = gateway.model.requests().pop().unwrap();
    let expected = "Be brief.\n\nThe MCP server `demo`: Looks up values.";
    assert_eq!(request.instructions.as_deref(), Some(expected));
}

/// Decisions about calls: each request for approval needs exactly one, and none may be about anything else.
#[tokio::test]
async fn wrong_approvals_are_refused_and_nothing_runs() {
    let gateway = TestGateway::start().await;
    let tools = json!([{"type": "mcp", "server_label": "demo", "require_approval": "always"}]);
    let send = async |input: &[Value]| {
        let body = json!({"model": MODEL, "input": input, "tools": tools});
        let (status, response, _) = post(&gateway, RESPONSES, &body, &[]).await;
        (status, response)
    };
    let (_, response) = send(&[user("parallel")]).await;
    let mut history = vec![user("parallel")];
    history.extend(response["output"].as_array().unwrap().clone());
    let requests: Vec<usize> =
        (0..history.len()).filter(|at| history[*at]["type"] == "mcp_approval_request").collect();
    let [first, second] = requests[..] else { panic!("{history:?}") };
    let ids = [first, second].map(|at| history[at]["id"].as_str().unwrap().to_owned());
    let reply = |id: &str, approve: bool| json!({"type": "mcp_approval_response", "approval_request_id": id, "approve": approve});
    let (yes, no) = (reply(&ids[0], true), reply(&ids[1], false));
    let at = |position: usize| format!("input[{}]", history.len() + position);
    for (added, parameter, expected) in [
        (
            vec![user("say hi")],
            format!("input[{first}]"),
            format!("there is no approval response for `{}`", ids[0]),
        ),
        (
            vec![yes.clone()],
            format!("input[{second}]"),
            format!("there is no approval response for `{}`", ids[1]),
        ),
        (
            vec![yes.clone(), no.clone(), reply(&ids[0], false)],
            at(2),
            format!("is a second approval response for `{}`", ids[0]),
        ),
        (
            vec![yes.clone(), no.clone(), reply("mcpr_x", true)],
            at(2),
            "responds to `mcpr_x`, and no open request for approval of this response has this id".to_owned(),
        ),
    ] {
        let (status, error) = send(&[history.clone(), added].concat()).await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!(parameter)), "{error}");
        assert!(message(&error).contains(&expected), "{error}");
    }
    // Without the history, the gateway knows which requests are open.
    let (status, error) = send(&[user("parallel"), yes.clone()]).await;
    assert_eq!(status, 400, "{error}");
    assert!(
        message(&error).starts_with(&format!("there is no approval response for `{}`;", ids[1])),
        "{error}"
    );
    assert_eq!(gateway.running.calls.load(Ordering::SeqCst), 0);
    // None of these requests used the approvals.
    let (status, response) = send(&[history.clone(), vec![yes, no]].concat()).await;
    assert_eq!((status, gateway.running.calls.load(Ordering::SeqCst)), (200, 1), "{response}");
}

/// Results of the client's tools with images by URL. The gateway does not fetch them: a provider that can
/// does, and for any other, the request is refused.
#[tokio::test]
async fn an_image_by_url_in_a_result_is_not_lost() {
    let gateway = TestGateway::start().await;
    let url = "https://example.com/a.png";
    let body = |model: &str| {
        json!({"model": model, "max_tokens": 100, "tools": [{"name": "get_weather", "input_schema": {"type": "object"}}], "messages": [
            user("say hi"),
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "get_weather", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "image", "source": {"type": "url", "url": url}}]},
                {"type": "text", "text": "say hi"}]}]})
    };
    for (model, status) in [("openai", 200), ("responses", 200), ("anthropic", 200)] {
        let (found, response, dropped) = post(&gateway, MESSAGES, &body(model), &[]).await;
        assert_eq!((found, dropped.as_str()), (status, ""), "{model}: {response}");
        let request = gateway.model.requests().pop().unwrap();
        assert!(serde_json::to_string(&request.messages).unwrap().contains(url), "{model}");
    }
}
