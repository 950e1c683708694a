//! Requests as the coding agents Codex and Claude Code send them, with tools of MCP servers added. The
//! providers reject what the real ones reject.

use serde_json::{Value, json};
use toolwire_testkit::http_client;
use toolwire_testkit::provider::{
    API_KEY, Api, Delivery, FakeProvider, ModelOutput, ReceivedRequest, Script, ScriptedResponse,
};

use crate::{Served, folder, serve};

/// Starts a gateway with the tools of the demo server, and with these fields in the configuration of the
/// model.
fn start(name: &str, provider: &FakeProvider, model: Value) -> Served {
    let mut fields =
        json!({"model": "real-name", "baseUrl": provider.base_url(), "apiKey": API_KEY, "retries": 0});
    for (key, value) in model.as_object().unwrap() {
        fields[key] = value.clone();
    }
    let demo = json!({"command": env!("CARGO_BIN_EXE_toolwire"), "args": ["demo-server"]});
    let config = json!({
        "mcpServers": {"demo": demo},
        "toolwire": {"model": "up", "models": {"up": fields}},
    });
    serve(&folder(&format!("agents-{name}"), Some(&config)), &[])
}

/// Sends a request, and returns the names of the dropped fields and the complete response.
async fn send(served: &Served, path: &str, body: &Value) -> (Option<String>, Value) {
    let request = http_client().post(format!("{}{path}", served.url)).header("accept", "text/event-stream");
    let request = request.header("anthropic-beta", "claude-code-20250219,interleaved-thinking-2025-05-14");
    let response = request.json(body).send().await.unwrap();
    let status = response.status().as_u16();
    let dropped =
        response.headers().get("x-toolwire-dropped").map(|names| names.to_str().unwrap().to_owned());
    let text = response.text().await.unwrap();
    assert_eq!(status, 200, "{text}");
    if body["stream"] != true {
        return (dropped, serde_json::from_str(&text).unwrap());
    }
    let events: Vec<Value> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    (dropped, assembled(&events))
}

/// Assembles the events of a stream as the official clients do.
fn assembled(events: &[Value]) -> Value {
    if let Some(completed) = events.iter().find(|event| event["type"] == "response.completed") {
        let done = events.iter().filter(|event| event["type"] == "response.output_item.done");
        let items: Vec<Value> = done.map(|event| event["item"].clone()).collect();
        assert_eq!(completed["response"]["output"], json!(items), "each item is complete when it ends");
        return completed["response"].clone();
    }
    let mut message = events[0]["message"].clone();
    for event in events {
        let index = event["index"].as_u64().unwrap_or_default() as usize;
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                message["content"].as_array_mut().unwrap().push(event["content_block"].clone());
            }
            "content_block_delta" => {
                let block = &mut message["content"][index];
                if let Some(text) = event["delta"]["text"].as_str() {
                    block["text"] = json!(block["text"].as_str().unwrap().to_owned() + text);
                }
                if let Some(arguments) = event["delta"]["partial_json"].as_str() {
                    block["input"] = serde_json::from_str(arguments).unwrap();
                }
            }
            "message_delta" => message["stop_reason"] = event["delta"]["stop_reason"].clone(),
            _ => {}
        }
    }
    message
}

/// A stream of the Responses API with these items.
fn items(items: &[Value]) -> ScriptedResponse {
    let mut events = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let mut event = |kind: &str, fields: Value| {
            let mut event = json!({"type": format!("response.{kind}"), "output_index": index});
            event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            events.push(event);
        };
        event("output_item.added", json!({"item": item}));
        if let Some(text) = item["content"][0]["text"].as_str() {
            let part = json!({"item_id": item["id"], "content_index": 0, "delta": text});
            event("output_text.delta", part);
        }
        event("output_item.done", json!({"item": item}));
    }
    let usage = json!({"input_tokens": 5, "output_tokens": 2, "total_tokens": 7});
    let response = json!({"id": "resp_1", "status": "completed", "output": items, "usage": usage});
    events.push(json!({"type": "response.completed", "response": response}));
    let line = |event: &Value| format!("data: {event}\n\n").into_bytes();
    ScriptedResponse::Raw {
        status: 200,
        headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
        body: events.iter().map(line).collect(),
        delivery: Delivery::default(),
    }
}

fn codex(stream: bool, tools: Value, history: &[Value]) -> Value {
    let context = json!({"type": "message", "role": "developer",
        "content": [{"type": "input_text", "text": "<environment>linux</environment>"}]});
    let task = json!({"type": "message", "role": "user",
        "content": [{"type": "input_text", "text": "List the files, and tell me the weather."}]});
    let input: Vec<Value> = [context, task].into_iter().chain(history.iter().cloned()).collect();
    json!({
        "model": "up",
        "instructions": "You are a coding agent.",
        "input": input,
        "tools": tools,
        "tool_choice": "auto",
        "parallel_tool_calls": true,
        "reasoning": {"effort": "medium", "summary": "auto"},
        "store": false,
        "stream": stream,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "session-1",
        "text": {"verbosity": "low"},
        "client_metadata": {"installation": "i"},
    })
}

fn function(name: &str) -> Value {
    json!({"type": "function", "name": name, "description": "d", "strict": false, "parameters": {
        "type": "object", "properties": {"plan": {"type": "string"}}, "required": ["plan"], "additionalProperties": false}})
}

fn patch_tool() -> Value {
    json!({"type": "custom", "name": "apply_patch", "description": "Edits files.",
        "format": {"type": "grammar", "syntax": "lark", "definition": "start: \"*** Begin Patch\""}})
}

fn namespace() -> Value {
    json!({"type": "namespace", "name": "mcp__docs", "description": "Documents.", "tools": [function("get_weather")]})
}

/// The model calls a server's tool and the shell in one step. The server's call runs in the gateway, and the
/// shell's at the client.
#[tokio::test]
async fn codex_uses_openai_s_own_tools_beside_those_of_servers() {
    let shell = json!({"type": "local_shell_call", "id": "lsh_1", "call_id": "call_shell", "status": "completed",
        "action": {"type": "exec", "command": ["ls", "-a"], "env": {}, "timeout_ms": 1000}});
    let weather = json!({"type": "function_call", "id": "fc_1", "call_id": "call_weather", "name": "get_weather",
        "arguments": "{\"location\":\"Paris\"}", "status": "completed"});
    let answer = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "Two files, and sun.", "annotations": []}]});
    for (stream, in_item) in [(true, false), (false, false), (true, true)] {
        let first = items(&[weather.clone(), shell.clone()]);
        let script = Script::new([first, items(std::slice::from_ref(&answer))]);
        let provider = FakeProvider::start(Api::Responses, script).await;
        let name = format!("codex-{stream}-{in_item}");
        let served = start(&name, &provider, json!({"provider": "openai", "api": "both"}));
        let own = json!([{"type": "local_shell"}, function("update_plan"), patch_tool(), namespace()]);
        let additional = json!({"type": "additional_tools", "role": "developer", "tools": own});
        let (tools, mut history) = match in_item {
            true => (json!([]), vec![additional]),
            false => (own.clone(), Vec::new()),
        };
        let sent = codex(stream, tools.clone(), &history);
        let (dropped, response) = send(&served, "/v1/responses", &sent).await;
        assert_eq!(dropped, None, "the provider gets everything");
        let output = response["output"].as_array().unwrap();
        let call = output.last().unwrap();
        assert_eq!(
            (&call["type"], &call["action"], output.len()),
            (&shell["type"], &shell["action"], 1),
            "{response}"
        );

        // Codex answers with the output of a function.
        history.push(call.clone());
        history.push(json!({"type": "function_call_output", "call_id": call["call_id"], "output": "a\nb"}));
        let (_, response) = send(&served, "/v1/responses", &codex(stream, tools, &history)).await;
        assert_eq!(response["output"][0]["content"][0]["text"], "Two files, and sun.", "{response}");

        let requests = provider.requests();
        assert_eq!(requests.len(), 2);
        let names = |request: &ReceivedRequest| -> Vec<String> {
            let tools = request.body["tools"].as_array().unwrap();
            let name = |tool: &Value| tool["name"].as_str().unwrap_or("-").to_owned();
            tools.iter().map(name).collect()
        };
        let mut expected = vec!["calculate".to_owned(), "get_weather".to_owned()];
        if !in_item {
            let client = ["-", "update_plan", "apply_patch", "mcp__docs"].map(str::to_owned);
            expected.splice(0..0, client);
        }
        assert_eq!([names(&requests[0]), names(&requests[1])], [expected.clone(), expected]);
        for field in ["instructions", "include", "prompt_cache_key", "text", "client_metadata", "reasoning"] {
            assert_eq!(requests[0].body[field], sent[field], "{field}");
        }
        let input = requests[1].body["input"].as_array().unwrap();
        let kinds: Vec<&str> = input.iter().map(|item| item["type"].as_str().unwrap()).collect();
        let mut expected = vec![
            "message",
            "message",
            "function_call",
            "local_shell_call",
            "function_call_output",
            "local_shell_call_output",
        ];
        // Instructions and definitions come before the conversation.
        expected.splice(1..1, in_item.then_some("additional_tools"));
        assert_eq!(kinds, expected);
        let start = usize::from(in_item) + 2;
        assert_eq!(input[start + 1], shell);
        let result = json!({"type": "local_shell_call_output", "call_id": "call_shell", "output": "a\nb"});
        assert_eq!(input[start + 3], result);
        assert_eq!(
            (&input[start]["call_id"], &input[start + 2]["call_id"]),
            (&json!("call_weather"), &json!("call_weather"))
        );
        assert_eq!(provider.rejections(), []);
    }
}

/// With a model of another provider, free-text tools and namespaces become functions, and their calls come
/// back in Codex's format.
#[tokio::test]
async fn codex_uses_its_tools_with_a_model_of_another_provider() {
    for (api, provider_name, stream) in [
        (Api::Anthropic, "anthropic", true),
        (Api::Anthropic, "anthropic", false),
        (Api::OpenAiChat, "openai", true),
    ] {
        let script = Script::from_fn(|request| {
            let tools = request.body["tools"].as_array().unwrap();
            let mut names =
                tools.iter().map(|tool| tool["name"].as_str().or(tool["function"]["name"].as_str()));
            let in_namespace =
                names.find_map(|name| name.filter(|name| name.starts_with("mcp__docs"))).unwrap();
            if request.body["messages"].to_string().contains("*** Begin Patch") {
                return ScriptedResponse::Output(ModelOutput::text("Done."));
            }
            ScriptedResponse::Output(
                ModelOutput::default()
                    .call("call_1", "apply_patch", r#"{"input":"*** Begin Patch"}"#)
                    .call("call_2", in_namespace, r#"{"plan":"a"}"#)
                    .call("call_3", "get_weather", r#"{"location":"Paris"}"#),
            )
        });
        let provider = FakeProvider::start(api, script).await;
        let name = format!("codex-{provider_name}-{stream}");
        let served = start(&name, &provider, json!({"provider": provider_name}));
        let tools = json!([function("update_plan"), patch_tool(), namespace()]);
        let (dropped, response) = send(&served, "/v1/responses", &codex(stream, tools.clone(), &[])).await;
        assert!(dropped.is_some_and(|names| names.contains("tools.format")));
        let output = response["output"].as_array().unwrap().clone();
        let shown = |item: &Value| {
            ["type", "namespace", "name"].map(|key| item[key].as_str().unwrap_or("").to_owned())
        };
        let shown: Vec<[String; 3]> = output.iter().map(shown).collect();
        let expected =
            [["custom_tool_call", "", "apply_patch"], ["function_call", "mcp__docs", "get_weather"]]
                .map(|item| item.map(str::to_owned));
        assert_eq!(shown, expected);
        assert_eq!(
            (&output[0]["input"], &output[1]["arguments"]),
            (&json!("*** Begin Patch"), &json!("{\"plan\":\"a\"}"))
        );

        let results = output.iter().zip(["custom_tool_call_output", "function_call_output"]);
        let results =
            results.map(|(call, kind)| json!({"type": kind, "call_id": call["call_id"], "output": "ok"}));
        let history: Vec<Value> = output.iter().cloned().chain(results).collect();
        let (_, response) = send(&served, "/v1/responses", &codex(stream, tools, &history)).await;
        assert_eq!(response["output"][0]["content"][0]["text"], "Done.");
        assert_eq!((provider.requests().len(), provider.rejections()), (2, Vec::new()));
    }
}

/// A tool that no other API has is refused before the model is asked.
#[tokio::test]
async fn a_tool_of_openai_is_refused_for_a_model_without_its_api() {
    let provider = FakeProvider::start(Api::Anthropic, Script::default()).await;
    let served = start("codex-refused", &provider, json!({"provider": "anthropic"}));
    let body = codex(false, json!([function("update_plan"), {"type": "local_shell"}]), &[]);
    let request = http_client().post(format!("{}/v1/responses", served.url)).json(&body);
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 400);
    let error = response.json::<Value>().await.unwrap()["error"].clone();
    let message =
        "`tools[1].type` is not supported: only OpenAI's Responses API has tools of the type `local_shell`";
    assert_eq!(
        error,
        json!({"message": message, "type": "invalid_request_error", "param": "tools[1].type", "code": "unsupported_parameter"})
    );
    assert!(provider.requests().is_empty());
}

fn claude_code(stream: bool, history: &[Value]) -> Value {
    let cached = json!({"type": "ephemeral"});
    let tools: Vec<Value> = (0..40)
        .map(|number| {
            let name = if number == 0 { "Bash".to_owned() } else { format!("Tool{number}") };
            json!({"name": name, "description": "d", "input_schema": {"$schema": "http://json-schema.org/draft-07/schema#",
                "type": "object", "properties": {"command": {"type": "string"}, "timeout": {"type": "number"}},
                "required": ["command"], "additionalProperties": false}})
        })
        .collect();
    let reminder = json!({"type": "text", "text": "<system-reminder>today</system-reminder>"});
    let task = json!({"type": "text", "text": "List the files.", "cache_control": cached});
    let messages: Vec<Value> = [json!({"role": "user", "content": [reminder, task]})]
        .into_iter()
        .chain(history.iter().cloned())
        .collect();
    json!({
        "model": "up", "max_tokens": 32000, "stream": stream, "messages": messages, "tools": tools,
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2; cc_entrypoint=cli;"},
            {"type": "text", "text": "You are Claude Code.", "cache_control": cached},
            {"type": "text", "text": "Be concise.", "cache_control": cached},
        ],
        "metadata": {"user_id": "user_1_session_2"},
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "medium"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    })
}

#[tokio::test]
async fn claude_code_uses_its_tools_beside_those_of_servers() {
    for (api, provider_name, stream) in [
        (Api::Anthropic, "anthropic", true),
        (Api::Anthropic, "anthropic", false),
        (Api::OpenAiChat, "openai", true),
        (Api::OpenAiChat, "openai", false),
    ] {
        let calls = ModelOutput::default().call("toolu_1", "Bash", r#"{"command":"ls"}"#).call(
            "toolu_2",
            "get_weather",
            r#"{"location":"Paris"}"#,
        );
        let script = Script::from([calls, ModelOutput::text("Two files.")]);
        let provider = FakeProvider::start(api, script).await;
        let name = format!("claude-{provider_name}-{stream}");
        let served = start(&name, &provider, json!({"provider": provider_name}));
        let path = "/v1/messages?beta=true";
        let (dropped, response) = send(&served, path, &claude_code(stream, &[])).await;
        let expected = (api == Api::OpenAiChat).then_some("cache_control, context_management, thinking");
        let mut names: Vec<&str> = dropped.iter().flat_map(|names| names.split(", ")).collect();
        names.sort_unstable();
        assert_eq!(names.join(", "), expected.unwrap_or_default());
        assert_eq!(response["stop_reason"], "tool_use");
        let blocks = response["content"].as_array().unwrap();
        assert_eq!(
            (blocks.len(), &blocks[0]["name"], &blocks[0]["input"]),
            (1, &json!("Bash"), &json!({"command": "ls"}))
        );

        let result = json!({"type": "tool_result", "tool_use_id": blocks[0]["id"], "content": "a\nb", "is_error": false,
            "cache_control": {"type": "ephemeral"}});
        let history =
            [json!({"role": "assistant", "content": blocks}), json!({"role": "user", "content": [result]})];
        let (_, response) = send(&served, path, &claude_code(stream, &history)).await;
        assert_eq!(
            (&response["content"][0]["text"], &response["stop_reason"]),
            (&json!("Two files."), &json!("end_turn"))
        );

        assert_eq!(provider.rejections(), []);
        let requests = provider.requests();
        assert_eq!(requests.len(), 2);
        for request in &requests {
            let tools = request.body["tools"].as_array().unwrap();
            assert_eq!(tools.len(), 42);
            if api == Api::Anthropic {
                let sent = claude_code(stream, &[]);
                assert_eq!(tools[..40], *sent["tools"].as_array().unwrap());
                for field in
                    ["system", "metadata", "thinking", "output_config", "context_management", "max_tokens"]
                {
                    assert_eq!(request.body[field], sent[field], "{field}");
                }
                let betas = request.headers.get("anthropic-beta").unwrap();
                assert_eq!(betas, "claude-code-20250219,interleaved-thinking-2025-05-14");
            }
        }
    }
}
