//! Requests of clients that name MCP servers, and decisions about their calls.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use toolwire_dialect::Family;
use toolwire_dialect::client::{
    ApprovalResponse, ClientRequest, HostedApproval, InvalidRequest, ToolFilter, read_client_request,
};

fn try_read(family: Family, body: Value) -> Result<ClientRequest, InvalidRequest> {
    read_client_request(family, body).expect("a served API")
}

#[track_caller]
fn read(family: Family, body: Value) -> ClientRequest {
    try_read(family, body).unwrap()
}

#[track_caller]
fn check_error(family: Family, body: Value, expected: &str) {
    assert_eq!(try_read(family, body).unwrap_err().to_string(), expected);
}

fn responses(tools: Value) -> Value {
    json!({"model": "m", "input": "hi", "tools": tools})
}

fn messages(servers: Value, toolsets: Value) -> Value {
    json!({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}], "mcp_servers": servers, "tools": toolsets})
}

#[test]
fn hosted_servers_are_read_in_both_forms() {
    let entry = |more: Value| {
        let mut entry = json!({"type": "mcp", "server_label": "demo", "server_url": "https://a/mcp"});
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let client = read(Family::OpenAiResponses, json!({"model": "m", "input": "hi", "tools": [entry]}));
        client.hosted_servers[0].clone()
    };
    let server = entry(json!({"authorization": "token", "defer_loading": true}));
    assert_eq!((&*server.label, server.url.as_deref()), ("demo", Some("https://a/mcp")));
    assert_eq!(
        (server.approval, server.allowed_tools, server.defer_loading),
        (HostedApproval::Always, None, true)
    );
    assert_eq!(server.authorization.unwrap().expose(), "token");
    let server = entry(json!({
        "allowed_tools": {"tool_names": ["a"], "read_only": true},
        "require_approval": {"never": {"tool_names": ["a"]}, "always": {"tool_names": ["b"]}}
    }));
    assert_eq!((server.allowed_tools.as_deref(), server.read_only), (Some(&["a".to_owned()][..]), true));
    let names = |name: &str| Some(ToolFilter { names: Some(vec![name.to_owned()]), read_only: false });
    let lists = HostedApproval::Lists { always: names("b"), never: names("a") };
    assert_eq!(server.approval, lists);
    assert_eq!(entry(json!({"require_approval": "never"})).approval, HostedApproval::Never);
    check_error(
        Family::OpenAiResponses,
        json!({"model": "m", "input": "hi", "tools": [{"type": "mcp", "server_label": "a b"}]}),
        "`tools[0].server_label` may contain only letters, digits, `_` and `-`",
    );

    let messages = json!([{"role": "user", "content": "hi"}]);
    let request = |servers: Value, toolsets: Value| json!({"model": "m", "max_tokens": 1, "messages": messages, "mcp_servers": servers, "tools": toolsets});
    let servers = json!([{"type": "url", "name": "demo", "url": "https://a", "authorization_token": "t"}]);
    let toolset = json!({"type": "mcp_toolset", "mcp_server_name": "demo", "default_config": {"enabled": false},
        "configs": {"a": {"enabled": true}, "b": {}}});
    let client = read(Family::Anthropic, request(servers.clone(), json!([toolset])));
    let server = &client.hosted_servers[0];
    assert_eq!(server.allowed_tools.as_deref(), Some(&["a".to_owned()][..]));
    assert_eq!((&server.approval, &*server.denied_tools), (&HostedApproval::Never, &["b".to_owned()][..]));
    check_error(
        Family::Anthropic,
        request(servers.clone(), json!([toolset, toolset])),
        "`tools[1].mcp_server_name` names `demo`, which has a toolset already",
    );
    check_error(
        Family::Anthropic,
        request(json!([]), json!([toolset])),
        "`tools[0].mcp_server_name` names `demo`, which is not in `mcp_servers`",
    );
    let older = json!([{"type": "url", "name": "demo", "url": "https://a", "tool_configuration": {"allowed_tools": ["x"]}}]);
    let client = read(Family::Anthropic, request(older, json!([])));
    assert_eq!(client.hosted_servers[0].allowed_tools.as_deref(), Some(&["x".to_owned()][..]));
    assert_eq!(client.missing_toolset, None);
    // Without a toolset, only the older beta has such a server.
    let missing = read(Family::Anthropic, request(servers, json!([]))).missing_toolset.unwrap();
    let expected = "`mcp_servers[0].name` names `demo`, which no `mcp_toolset` in `tools` uses";
    assert_eq!(missing.to_string(), expected);
}

/// The gateway serves MCP servers itself, so no provider gets these fields.
#[test]
fn what_the_gateway_does_not_use_of_a_server_is_listed() {
    let pinned = json!({"type": "mcp_toolset", "mcp_server_name": "demo", "tools": [{"name": "a"}],
        "cache_control": {"type": "ephemeral"}, "configs": null});
    let client = read(
        Family::Anthropic,
        json!({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}], "tools": [pinned],
            "mcp_servers": [{"type": "url", "name": "demo", "url": "https://a", "later": 1}]}),
    );
    assert_eq!(client.unused, ["mcp_servers.later", "tools.tools", "tools.cache_control"]);
    let entry = json!({"type": "mcp", "server_label": "demo", "server_url": "https://a", "server_description": "d", "later": 1});
    let client = read(Family::OpenAiResponses, json!({"model": "m", "input": "hi", "tools": [entry]}));
    assert_eq!(client.unused, ["tools.later"]);
    assert_eq!(client.hosted_servers[0].description.as_deref(), Some("d"));
}

/// A name stands for one server in the whole request.
#[test]
fn two_servers_cannot_have_the_same_name() {
    let entry = json!({"type": "mcp", "server_label": "demo"});
    check_error(
        Family::OpenAiResponses,
        responses(json!([entry, entry])),
        "`tools[1].server_label` is `demo`, which another entry has already; each label must be unique",
    );
    let server = json!({"type": "url", "name": "demo", "url": "https://a", "tool_configuration": {}});
    check_error(
        Family::Anthropic,
        messages(json!([server, server]), json!([])),
        "`mcp_servers[1].name` is `demo`, which another server has already; each name must be unique",
    );
}

/// Every name of a tool has its place, so that an error can say where a wrong one is.
#[test]
fn the_tools_that_a_request_names_have_their_places() {
    let named = |family: Family, body: Value| {
        let server = read(family, body).hosted_servers.remove(0);
        let tools = server.named_tools.into_iter().map(|tool| (tool.name, tool.parameter, tool.is_required));
        (server.parameter, tools.collect::<Vec<_>>())
    };
    let tool =
        |name: &str, parameter: &str, is_required: bool| (name.to_owned(), parameter.to_owned(), is_required);
    let entry = json!({"type": "mcp", "server_label": "demo", "allowed_tools": ["a", "b"],
        "require_approval": {"always": ["c"], "never": {"tool_names": ["d"]}}});
    let expected = vec![
        tool("a", "tools[0].allowed_tools[0]", true),
        tool("b", "tools[0].allowed_tools[1]", true),
        tool("c", "tools[0].require_approval.always[0]", true),
        tool("d", "tools[0].require_approval.never.tool_names[0]", true),
    ];
    let found = named(Family::OpenAiResponses, responses(json!([entry])));
    assert_eq!(found, ("tools[0].server_label".to_owned(), expected));

    let server = json!([{"type": "url", "name": "demo", "url": "https://a"}]);
    let toolset = json!([{"type": "mcp_toolset", "mcp_server_name": "demo", "configs": {"e": {}}}]);
    let found = named(Family::Anthropic, messages(server, toolset));
    assert_eq!(found, ("mcp_servers[0].url".to_owned(), vec![tool("e", "tools[0].configs.e", false)]));
    let server = json!([{"name": "demo", "tool_configuration": {"allowed_tools": ["f"]}}]);
    let expected = vec![tool("f", "mcp_servers[0].tool_configuration.allowed_tools[0]", true)];
    let found = named(Family::Anthropic, messages(server, json!([])));
    assert_eq!(found, ("mcp_servers[0].name".to_owned(), expected));
}

/// The model calls the tools of servers directly. Programs at the provider cannot.
#[test]
fn the_callers_of_a_servers_tools_are_checked() {
    let entry = |callers: Value| {
        responses(json!([{"type": "mcp", "server_label": "demo", "allowed_callers": callers}]))
    };
    let unused = |callers: Value| read(Family::OpenAiResponses, entry(callers)).unused;
    assert_eq!(unused(json!(["direct"])), [] as [&str; 0]);
    assert_eq!(unused(json!([])), ["tools.allowed_callers"]);
    assert_eq!(unused(json!(["direct", "programmatic"])), ["tools.allowed_callers"]);
    check_error(
        Family::OpenAiResponses,
        entry(json!(["programmatic"])),
        "`tools[0].allowed_callers` is not supported: programs cannot call tools of servers",
    );
    let server = json!([{"type": "url", "name": "demo", "url": "https://a"}]);
    let toolset = |config: Value| {
        let fields = json!({"allowed_callers": ["direct"], "later": 1});
        json!([{"type": "mcp_toolset", "mcp_server_name": "demo", "default_config": fields, "configs": {"a": config}}])
    };
    let client = read(Family::Anthropic, messages(server.clone(), toolset(json!({"x": 1}))));
    assert_eq!(client.unused, ["tools.default_config.later", "tools.configs.x"]);
    check_error(
        Family::Anthropic,
        messages(server, toolset(json!({"allowed_callers": ["code_execution_20250825"]}))),
        "`tools[0].configs.a.allowed_callers` is not supported: programs cannot call tools of servers",
    );
}

/// Other tools have this field too. Its default is no loss.
#[test]
fn the_callers_of_the_clients_tools_are_listed() {
    let lost = |callers: Value| {
        let tool = json!({"name": "f", "input_schema": {"type": "object"}, "allowed_callers": callers});
        let body = json!({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}], "tools": [tool]});
        read(Family::Anthropic, body).lost_fields(toolwire_dialect::Dialect::OpenAi)
    };
    assert_eq!(lost(json!(["direct"])), [] as [&str; 0]);
    assert_eq!(lost(json!(["direct", "code_execution_20250825"])), ["tools.allowed_callers"]);
}

/// Requests for approval need a response until the model has continued after them.
#[test]
fn every_request_for_approval_has_one_response() {
    let user = json!({"role": "user", "content": "hi"});
    let ask = |id: &str| json!({"type": "mcp_approval_request", "id": id, "server_label": "demo", "name": "x", "arguments": "{}"});
    let reply = |id: &str, approve: bool| json!({"type": "mcp_approval_response", "approval_request_id": id, "approve": approve});
    let said = json!({"type": "message", "role": "assistant", "content": "done"});
    let called = |id: &str| json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"});
    let output = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "x"});
    let try_input = |input: Value| try_read(Family::OpenAiResponses, json!({"model": "m", "input": input}));
    let ids = |input: Value| {
        let client = try_input(input).unwrap();
        let id = |approval: &ApprovalResponse| {
            (approval.request_id.clone(), approval.parameter.clone(), approval.has_request)
        };
        let open = client.open_approval.map(|open| (open.request_id, open.parameter));
        (client.approvals.iter().map(id).collect::<Vec<_>>(), open)
    };
    let found = |id: &str, position: usize, has_request: bool| {
        (id.to_owned(), format!("input[{position}]"), has_request)
    };

    assert_eq!(ids(json!([user, ask("a"), reply("a", true)])), (vec![found("a", 2, true)], None));
    assert_eq!(ids(json!([user, reply("a", true)])), (vec![found("a", 1, false)], None));
    // The client's calls of the same response follow the request.
    let calls = json!([user, ask("a"), called("1"), output("1"), reply("a", false)]);
    assert_eq!(ids(calls), (vec![found("a", 4, true)], None));
    // Both were decided before, and the model has continued.
    let later = json!([user, ask("a"), reply("a", false), called("1"), output("1")]);
    assert_eq!(ids(later), (Vec::new(), None));
    assert_eq!(ids(json!([user, ask("a"), user, said, user])), (Vec::new(), None));

    for (input, position, id) in [
        (json!([user, ask("a"), user]), 1, "a"),
        (json!([user, ask("a"), called("1"), output("1")]), 1, "a"),
        (json!([user, ask("a"), ask("b"), reply("a", true)]), 2, "b"),
    ] {
        assert_eq!(ids(input).1, Some((id.to_owned(), format!("input[{position}]"))));
    }
    for second in [reply("a", true), reply("a", false)] {
        let error = try_input(json!([user, ask("a"), reply("a", true), second])).unwrap_err();
        assert_eq!(error.to_string(), "`input[3]` is a second approval response for `a`");
    }
}
