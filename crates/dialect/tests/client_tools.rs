//! Tools of OpenAI's clients that are not plain functions: namespaces, free-text tools, tools that OpenAI
//! defines, and tools that an item of the conversation defines.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use toolwire_contract::model::ModelRequest;
use toolwire_contract::{Block, Message, Role, Tool, ToolCall, ToolResult};
use toolwire_dialect::client::{
    ClientEvent, ClientRequest, ResponseHead, ResponseWriter, StreamData, ToolForm, read_client_request,
};
use toolwire_dialect::request::{RequestOptions, write_request, write_request_text};
use toolwire_dialect::response::{ResponseStream, read_response};
use toolwire_dialect::{Dialect, Family, Options, Toolset};

const PLAIN: Family = Family::OpenAiResponses;

fn read(body: &Value) -> ClientRequest {
    read_client_request(PLAIN, body.clone()).unwrap().unwrap()
}

fn with_tools(tools: Value) -> Value {
    json!({"model": "m", "input": [{"role": "user", "content": "hi"}], "tools": tools})
}

fn names(client: &ClientRequest) -> Vec<&str> {
    client.request.tools.iter().map(|tool| tool.name.as_str()).collect()
}

/// Writes a request to the client's own API, with a tool of a server.
fn sent(body: &Value, change: impl FnOnce(&mut ModelRequest)) -> Value {
    let client = read(body);
    let verbatim = client.verbatim(PLAIN, &body.to_string()).unwrap();
    let own = Tool::new("lookup", json!({"type": "object", "properties": {}}));
    let tools = client.request.tools.iter().cloned().chain([own.clone()]).collect();
    let mut request = ModelRequest { verbatim: Some(Arc::new(verbatim)), tools, ..client.request };
    change(&mut request);
    let toolset = Toolset::new(&[own], Dialect::Responses, &Options::default());
    let text = write_request_text(Dialect::Responses, &request, &toolset, &RequestOptions::default());
    serde_json::from_str(&text.unwrap()).unwrap()
}

/// Writes a request to another API, with all tools converted.
fn converted(dialect: Dialect, client: &ClientRequest) -> Value {
    let toolset = Toolset::new(&client.request.tools, dialect, &Options::default());
    write_request(dialect, &client.request, &toolset, &RequestOptions::default()).unwrap()
}

/// The tools that OpenAI defines and the client runs, each with a call and its result.
fn native() -> [(Value, Value, Value, &'static str); 5] {
    [
        (
            json!({"type": "local_shell"}),
            json!({"type": "local_shell_call", "id": "lsh_1", "call_id": "call_1", "status": "completed",
                "action": {"type": "exec", "command": ["ls"], "env": {}}}),
            json!({"type": "local_shell_call_output", "call_id": "call_1", "output": "a.txt"}),
            "local_shell",
        ),
        (
            json!({"type": "shell", "environment": {"type": "local"}}),
            json!({"type": "shell_call", "id": "sh_1", "call_id": "call_1", "status": "completed",
                "action": {"commands": ["ls"], "timeout_ms": 1000}}),
            json!({"type": "shell_call_output", "call_id": "call_1",
                "output": [{"stdout": "a.txt", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]}),
            "shell",
        ),
        (
            json!({"type": "apply_patch"}),
            json!({"type": "apply_patch_call", "id": "apc_1", "call_id": "call_1", "status": "completed",
                "operation": {"type": "delete_file", "path": "a.txt"}}),
            json!({"type": "apply_patch_call_output", "call_id": "call_1", "status": "completed"}),
            "apply_patch",
        ),
        (
            json!({"type": "computer_use_preview", "display_width": 10, "display_height": 10, "environment": "browser"}),
            json!({"type": "computer_call", "id": "cu_1", "call_id": "call_1", "status": "completed",
                "action": {"type": "screenshot"}, "pending_safety_checks": []}),
            json!({"type": "computer_call_output", "call_id": "call_1",
                "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,iVBORw0KGgo="}}),
            "computer",
        ),
        (
            json!({"type": "tool_search", "execution": "client", "description": "d", "parameters": {"type": "object"}}),
            json!({"type": "tool_search_call", "id": "tsc_1", "call_id": "call_1", "status": "completed",
                "execution": "client", "arguments": {"query": "mail"}}),
            json!({"type": "tool_search_output", "call_id": "call_1", "status": "completed", "execution": "client",
                "tools": [{"type": "function", "name": "send_mail", "parameters": {"type": "object"}}]}),
            "tool_search",
        ),
    ]
}

#[test]
fn a_tool_that_openai_defines_and_the_client_runs_is_sent_as_the_client_defined_it() {
    for (tool, call, output, name) in native() {
        let mut body = with_tools(json!([tool]));
        body["input"] = json!([{"role": "user", "content": "hi"}, call, output]);
        let client = read(&body);
        assert_eq!(names(&client)[0], name);
        assert_eq!(client.tool_forms[name], ToolForm::Native);
        let error = client.native_tool.unwrap().to_string();
        let kind = tool["type"].as_str().unwrap();
        let expected = format!(
            "`tools[0].type` is not supported: only OpenAI's Responses API has tools of the type `{kind}`"
        );
        assert_eq!(error, expected);
        let sent = sent(&body, |_| {});
        assert_eq!((&sent["input"], &sent["tools"][0]), (&body["input"], &tool));
        assert_eq!(sent["tools"][1]["name"], "lookup");
    }
}

#[test]
fn a_call_of_such_a_tool_is_returned_and_comes_back() {
    for (tool, call, output, name) in native() {
        let client = read(&with_tools(json!([tool])));
        // The provider's response, whole and streamed.
        let no_tools = Arc::new(Toolset::new(&[], Dialect::Responses, &Options::default()));
        let body = json!({"id": "resp_1", "object": "response", "status": "completed", "output": [call]});
        let whole = read_response(Dialect::Responses, &body, &no_tools, "").unwrap();
        let mut stream = ResponseStream::new(Dialect::Responses, no_tools.clone());
        let mut added = call.clone();
        added["status"] = json!("in_progress");
        for event in [
            json!({"type": "response.output_item.added", "output_index": 0, "item": added}),
            json!({"type": "response.output_item.done", "output_index": 0, "item": call}),
            json!({"type": "response.completed", "response": body}),
        ] {
            stream.push(&event).unwrap();
        }
        assert_eq!(stream.finish().unwrap(), whole, "{name}");
        let (id, received) = whole.message.calls().next().unwrap();
        assert_eq!((id, received.name.as_str()), ("call_1", name));

        // The response to the client has the same item, with an id of its own.
        let mut head = ResponseHead::default();
        head.id = "resp_x".to_owned();
        head.tool_forms = client.tool_forms.clone();
        let mut writer = ResponseWriter::new(PLAIN, head).unwrap();
        let event = ClientEvent::Call {
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: received.arguments.clone().unwrap(),
        };
        let events = writer.event(&event);
        let done = match &events.last().unwrap().data {
            StreamData::Json(done) => done["item"].clone(),
            StreamData::EndMarker => Value::Null,
        };
        assert_eq!(writer.body()["output"], json!([done]));
        let mut expected = call.clone();
        let prefix = call["id"].as_str().unwrap().split_once('_').unwrap().0;
        expected["id"] = json!(format!("{prefix}_x0"));
        assert_eq!(done, expected);

        // A message that is written again has the provider's item and the client's result.
        let mut with_result = with_tools(json!([tool]));
        with_result["input"] = json!([{"role": "user", "content": "hi"}, call, output]);
        let again = sent(&with_result, |request| {
            for message in &mut request.messages {
                *message = Arc::new((**message).clone());
            }
        });
        assert_eq!((&again["input"][1], &again["input"][2]), (&call, &output), "{name}");

        // A result that the gateway makes has the format of the tool.
        let missing = sent(&with_tools(json!([tool])), |request| {
            let call = Block::Call { id: id.to_owned(), call: received.clone() };
            let error = Block::Result { id: id.to_owned(), result: ToolResult::error("no") };
            request.messages.push(Message::new(Role::Assistant, vec![call]).into());
            request.messages.push(Message::new(Role::User, vec![error]).into());
        });
        let keys = |item: &Value| -> BTreeSet<String> { item.as_object().unwrap().keys().cloned().collect() };
        assert_eq!(missing["input"][2]["type"], output["type"]);
        let expected = keys(&output).into_iter().chain((name == "apply_patch").then(|| "output".to_owned()));
        assert_eq!(keys(&missing["input"][2]), expected.collect(), "{name}");

        // Another API gets the call and the result as those of a function.
        let chat = converted(Dialect::OpenAi, &read(&with_result));
        assert_eq!(chat["messages"][1]["tool_calls"][0]["function"]["name"], name);
        assert_eq!(chat["messages"][2]["tool_call_id"], "call_1");
    }
}

/// The provider runs these, so they are neither tools nor calls of the client.
#[test]
fn what_the_provider_runs_is_not_the_client_s() {
    let item = json!({"type": "shell_call", "id": "sh_1", "call_id": "call_1", "status": "completed",
        "action": {"commands": ["ls"]}, "environment": {"type": "container_reference", "container_id": "c"}});
    let output = json!({"type": "shell_call_output", "call_id": "call_1", "output": []});
    let body = json!({"model": "m", "input": [{"role": "user", "content": "hi"}, item, output]});
    assert_eq!(read(&body).request.messages.len(), 1);
    let tools = Arc::new(Toolset::new(&[], Dialect::Responses, &Options::default()));
    let response = json!({"status": "completed", "output": [item, output]});
    let response = read_response(Dialect::Responses, &response, &tools, "").unwrap();
    assert_eq!(response.message.calls().count(), 0);
    for tool in [
        json!({"type": "shell", "environment": {"type": "container_auto"}}),
        json!({"type": "tool_search"}),
        json!({"type": "tool_search", "execution": "server"}),
    ] {
        assert!(
            !read_client_request(PLAIN, with_tools(json!([tool])))
                .unwrap()
                .is_ok_and(|client| { client.tool_forms.values().any(|form| *form == ToolForm::Native) })
        );
    }
}

fn namespace() -> Value {
    let schema = json!({"type": "object", "properties": {"key": {"type": "string"}}});
    json!({"type": "namespace", "name": "mcp__mail", "description": "Mail of the user.", "tools": [
        {"type": "function", "name": "lookup", "description": "Finds mail.", "parameters": schema, "strict": false},
        {"type": "custom", "name": "query"},
    ]})
}

/// A function in a namespace is another tool than a server's tool with the same name.
#[test]
fn a_namespace_is_sent_as_it_is_and_its_functions_are_the_client_s() {
    let client = read(&with_tools(json!([namespace()])));
    assert_eq!(names(&client), ["mcp__mail.lookup", "mcp__mail.query"]);
    let sent = sent(&with_tools(json!([namespace()])), |_| {});
    assert_eq!(sent["tools"].as_array().unwrap().len(), 2, "{sent}");
    assert_eq!((&sent["tools"][0], &sent["tools"][1]["name"]), (&namespace(), &json!("lookup")));

    let own = Tool::new("lookup", json!({"type": "object", "properties": {}, "additionalProperties": false}));
    let tools = Toolset::new(&[own], Dialect::Responses, &Options::default());
    let call = json!({"type": "function_call", "call_id": "call_1", "namespace": "mcp__mail", "name": "lookup",
        "arguments": "{\"key\":\"a\"}"});
    let response = json!({"status": "completed", "output": [call]});
    let response = read_response(Dialect::Responses, &response, &tools, "").unwrap();
    let (_, received) = response.message.calls().next().unwrap();
    let expected = ToolCall::new("mcp__mail.lookup", json!({"key": "a"}).as_object().unwrap().clone());
    assert_eq!((&received.name, &received.arguments), (&expected.name, &expected.arguments));
    assert_eq!(response.unusable, []);

    let mut head = ResponseHead::default();
    head.tool_forms = client.tool_forms.clone();
    let mut writer = ResponseWriter::new(PLAIN, head).unwrap();
    writer.event(&ClientEvent::Call {
        id: "call_9".to_owned(),
        name: expected.name,
        arguments: expected.arguments.unwrap(),
    });
    let input = json!({"input": "SELECT 1"}).as_object().unwrap().clone();
    writer.event(&ClientEvent::Call {
        id: "call_8".to_owned(),
        name: "mcp__mail.query".to_owned(),
        arguments: input,
    });
    let shown = |item: &Value| {
        ["type", "namespace", "name", "call_id", "arguments", "input"].map(|key| item[key].clone())
    };
    let output = writer.body()["output"].clone();
    assert_eq!(
        shown(&output[0]),
        [
            json!("function_call"),
            json!("mcp__mail"),
            json!("lookup"),
            json!("call_9"),
            json!("{\"key\":\"a\"}"),
            Value::Null
        ]
    );
    assert_eq!(
        shown(&output[1]),
        [
            json!("custom_tool_call"),
            json!("mcp__mail"),
            json!("query"),
            json!("call_8"),
            Value::Null,
            json!("SELECT 1")
        ]
    );
}

#[test]
fn other_apis_get_functions_with_the_namespace_in_their_names() {
    let mut body = with_tools(json!([namespace()]));
    body["input"] = json!([
        {"role": "user", "content": "hi"},
        {"type": "function_call", "call_id": "call_1", "namespace": "mcp__mail", "name": "lookup", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "none"},
    ]);
    let client = read(&body);
    assert_eq!(client.native_tool, None);
    for dialect in [Dialect::OpenAi, Dialect::Responses, Dialect::Anthropic] {
        let written = converted(dialect, &client);
        let function = |tool: &Value| tool.get("function").unwrap_or(tool).clone();
        let tool = function(&written["tools"][0]);
        let name = tool["name"].as_str().unwrap();
        assert!(name.starts_with("mcp__mail_lookup"), "{name}");
        assert_eq!(tool["description"], "Mail of the user.\n\nFinds mail.");
        let call = match dialect {
            Dialect::OpenAi => written["messages"][1]["tool_calls"][0]["function"].clone(),
            Dialect::Responses => written["input"][1].clone(),
            _ => written["messages"][1]["content"][0].clone(),
        };
        assert_eq!((call["name"].as_str(), call.get("namespace")), (Some(name), None));
    }
}

#[test]
fn a_restricted_namespace_has_only_the_allowed_tools() {
    let mut body = with_tools(json!([namespace()]));
    body["tool_choice"] = json!({"type": "allowed_tools", "mode": "auto", "tools": [
        {"type": "function", "name": "lookup", "namespace": "mcp__mail"}]});
    assert_eq!(names(&read(&body)), ["mcp__mail.lookup"]);
    let sent = sent(&body, |_| {});
    let mut expected = namespace();
    expected["tools"].as_array_mut().unwrap().pop();
    assert_eq!(sent["tools"][0], expected);
}

#[test]
fn other_apis_get_a_free_text_tool_as_a_function_with_one_text() {
    let grammar = json!({"type": "grammar", "syntax": "lark", "definition": "start: /.+/"});
    let nested = json!({"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /.+/"}});
    let responses =
        with_tools(json!([{"type": "custom", "name": "patch", "description": "d", "format": grammar}]));
    let chat = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"type": "custom", "custom": {"name": "patch", "description": "d", "format": nested}}]});
    for (family, body) in [(PLAIN, responses), (Family::OpenAiChat, chat)] {
        let client = read_client_request(family, body).unwrap().unwrap();
        assert_eq!(
            (client.native_tool.clone(), client.ignored.clone()),
            (None, vec!["tools.format".to_owned()])
        );
        let written = converted(Dialect::Anthropic, &client);
        let tool = &written["tools"][0];
        assert_eq!(tool["name"], "patch");
        assert_eq!(tool["input_schema"]["properties"], json!({"input": {"type": "string"}}));
        let description = "d\n\nThe input must match this grammar (lark):\nstart: /.+/";
        assert_eq!(tool["description"], description);

        let mut head = ResponseHead::default();
        head.tool_forms = client.tool_forms;
        let mut writer = ResponseWriter::new(family, head).unwrap();
        let arguments = json!({"input": "*** Begin"}).as_object().unwrap().clone();
        writer.event(&ClientEvent::Call { id: "call_1".to_owned(), name: "patch".to_owned(), arguments });
        let body = writer.body();
        let (kind, input) = match family {
            Family::OpenAiChat => {
                let call = &body["choices"][0]["message"]["tool_calls"][0];
                (&call["type"], &call["custom"]["input"])
            }
            _ => (&body["output"][0]["type"], &body["output"][0]["input"]),
        };
        let expected = if family == PLAIN { "custom_tool_call" } else { "custom" };
        assert_eq!((kind, input), (&json!(expected), &json!("*** Begin")));
    }
}

/// Clients with many tools define them in the conversation, before the messages or after a search.
#[test]
fn tools_in_items_of_the_conversation_can_be_called() {
    let function = |name: &str| json!({"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}});
    let additional = json!({"type": "additional_tools", "role": "developer",
        "tools": [function("exec"), {"type": "local_shell"}, namespace()]});
    let [.., (search, call, found, _)] = native();
    let body = json!({"model": "m", "tools": [search], "tool_choice": "auto", "input": [
        additional,
        {"type": "message", "role": "developer", "content": "Be brief."},
        {"role": "user", "content": "hi"}, call, found,
    ]});
    let client = read(&body);
    let expected = ["tool_search", "exec", "local_shell", "mcp__mail.lookup", "mcp__mail.query", "send_mail"];
    assert_eq!(names(&client), expected);
    let sent = sent(&body, |_| {});
    assert_eq!(sent["input"], body["input"], "the definitions stay where they are");
    let tools = sent["tools"].as_array().unwrap();
    assert_eq!((tools.len(), &tools[0], &sent["tool_choice"]), (2, &search, &json!("auto")));

    // All of them become functions of another API, if it has no tools that only OpenAI has.
    let body = json!({"model": "m", "input": [
        {"role": "user", "content": "hi"},
        {"type": "additional_tools", "role": "developer", "tools": [function("exec"), function("exec")]},
    ]});
    let client = read(&body);
    let written = converted(Dialect::OpenAi, &client);
    assert_eq!(written["tools"].as_array().unwrap().len(), 1);
    assert_eq!(written["tools"][0]["function"]["name"], "exec");
    // The parameters for tools are kept although `tools` is absent.
    let verbatim = client.verbatim(PLAIN, &body.to_string()).unwrap();
    let request = ModelRequest { verbatim: Some(Arc::new(verbatim)), ..client.request };
    let none = Toolset::new(&[], Dialect::Responses, &Options::default());
    let text = write_request_text(Dialect::Responses, &request, &none, &RequestOptions::default()).unwrap();
    let sent: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((sent["input"].as_array().unwrap().len(), sent.get("tools")), (2, None));
}

#[test]
fn a_choice_can_name_any_of_these_tools() {
    use toolwire_contract::model::ToolChoice;
    let tools = json!([{"type": "shell"}, namespace()]);
    for (choice, expected) in [
        (json!({"type": "shell"}), "shell"),
        (json!({"type": "function", "name": "lookup", "namespace": "mcp__mail"}), "mcp__mail.lookup"),
    ] {
        let mut body = with_tools(tools.clone());
        body["tool_choice"] = choice.clone();
        assert_eq!(read(&body).request.tool_choice, ToolChoice::Tool(expected.to_owned()));
        assert_eq!(sent(&body, |_| {})["tool_choice"], choice);
    }
}
