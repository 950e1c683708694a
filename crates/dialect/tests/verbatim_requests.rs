//! Requests of clients to an API of the same family: what the client sent stays as it was sent, byte for
//! byte.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use serde_json::{Value, json};
use toolwire_contract::model::{ModelRequest, ToolChoice, VerbatimRequest};
use toolwire_contract::{Block, Message, Role, Tool, ToolCall, ToolResult};
use toolwire_dialect::client::{ClientEvent, ResponseHead, ResponseWriter, read_client_request};
use toolwire_dialect::request::{
    ApiSupport, RequestOptions, verbatim_request, write_request, write_request_text,
};
use toolwire_dialect::response::{custom_call_input, read_response};
use toolwire_dialect::{Dialect, Family, Options, Toolset};

const CHAT: (Dialect, Family, &str) = (
    Dialect::OpenAi,
    Family::OpenAiChat,
    r#"{
  "model": "m", "n": 1, "max_tokens": 50, "temperature": 0.10, "later": {"a": [1.0, 2e+3]}, "store": true,
  "metadata": {"team": "caf\u00e9"}, "stream_options": {"include_usage": true}, "tool_choice": "auto",
  "messages": [
    {"role": "system", "content": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]},
    {"role": "developer", "name": "ops", "content": "Be kind."},
    {"role": "user", "name": "ann", "content": [
      {"type": "text", "text": "What is it?"},
      {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}},
      {"type": "later_part", "x": null}]},
    {"role": "assistant", "content": null, "refusal": null, "annotations": [],
     "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "mine", "arguments": "{ \"q\" : 1.0 }"}}]},
    {"role": "tool", "tool_call_id": "call_1", "content": "  42\n"},
    {"role": "system", "content": "It is noon."},
    {"role": "user", "content": ""},
    {"role": "user", "content": "And\u0020now?"}
  ],
  "tools": [{"type": "function", "function": {"name": "mine", "strict": true, "parameters": {"type": "object", "properties": {}}}},
            {"type": "custom", "custom": {"name": "sql", "format": {"type": "text"}}}]
}"#,
);

const RESPONSES: (Dialect, Family, &str) = (
    Dialect::Responses,
    Family::OpenAiResponses,
    r#"{
  "model": "m", "instructions": "Be\u0020brief.", "include": ["message.output_text.logprobs"], "truncation": "auto",
  "reasoning": {"effort": "low", "summary": "auto"}, "metadata": {"a": "b"}, "tool_choice": {"type": "custom", "name": "sql"},
  "input": [
    {"role": "developer", "content": "Be kind."},
    {"type": "message", "role": "user", "content": [
      {"type": "input_image", "file_id": "file_1", "detail": "high"}, {"type": "later_part", "x": null}]},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VjcmV0"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed"},
    {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [
      {"type": "output_text", "text": "I look.", "annotations": [{"type": "url_citation", "url": "u"}]}]},
    {"type": "custom_tool_call", "call_id": "call_1", "name": "sql", "input": "SELECT 1"},
    {"type": "custom_tool_call_output", "call_id": "call_1", "output": "1"},
    {"role": "user", "content": "And now?"}
  ],
  "tools": [{"type": "function", "name": "mine", "strict": false, "parameters": {"type": "object", "properties": {}}},
            {"type": "custom", "name": "sql", "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}}]
}"#,
);

const MESSAGES: (Dialect, Family, &str) = (
    Dialect::Anthropic,
    Family::Anthropic,
    r#"{
  "model": "m", "max_tokens": 100, "thinking": {"type": "enabled", "budget_tokens": 1024}, "metadata": {"user_id": "u", "x": 1},
  "system": [{"type": "text", "text": "You are a client.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
  "messages": [
    {"role": "user", "content": [
      {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}, "citations": {"enabled": true}},
      {"type": "text", "text": "What\u0020is it?", "cache_control": {"type": "ephemeral"}}]},
    {"role": "assistant", "content": [
      {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"},
      {"type": "redacted_thinking", "data": "c2VjcmV0"},
      {"type": "text", "text": "A text.", "citations": [{"type": "char_location"}]},
      {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "ls", "n": 1.0}}]},
    {"role": "user", "content": [
      {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "search_result", "title": "t"}], "cache_control": {"type": "ephemeral"}},
      {"type": "later_block", "x": null}]}
  ],
  "tools": [{"type": "bash_20250124", "name": "bash"},
            {"name": "mine", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}, "defer_loading": true}]
}"#,
);

const ALL: [(Dialect, Family, &str); 3] = [CHAT, RESPONSES, MESSAGES];

fn read(family: Family, body: &str) -> (ModelRequest, VerbatimRequest) {
    let client = read_client_request(family, serde_json::from_str(body).unwrap()).unwrap().unwrap();
    let verbatim = client.verbatim(family, body).unwrap();
    (ModelRequest { verbatim: Some(Arc::new(verbatim.clone())), ..client.request }, verbatim)
}

fn own_tools() -> Vec<Tool> {
    let schema = json!({"type": "object", "properties": {"key": {"type": "string"}}});
    ["lookup", "delete/all"].map(|name| Tool::new(name, schema.clone())).to_vec()
}

/// Adds the tools of a gateway to a request, after the client's.
fn with_own_tools(request: &ModelRequest) -> ModelRequest {
    let tools = request.tools.iter().cloned().chain(own_tools()).collect();
    ModelRequest { tools, ..request.clone() }
}

fn write(dialect: Dialect, request: &ModelRequest, options: &RequestOptions) -> String {
    let own: Vec<Tool> = request.tools.iter().filter(|tool| own_tools().contains(tool)).cloned().collect();
    let toolset = Toolset::new(&own, dialect, &Options::default());
    write_request_text(dialect, request, &toolset, options).unwrap()
}

fn options() -> RequestOptions {
    let mut options = RequestOptions::default();
    options.model = "provider-model".to_owned();
    options
}

fn items_key(family: Family) -> &'static str {
    if family == Family::OpenAiResponses { "input" } else { "messages" }
}

/// Returns the texts of the elements of an array in a body.
fn elements(body: &str, key: &str) -> Vec<String> {
    use serde_json::value::RawValue;
    let fields: std::collections::BTreeMap<String, &RawValue> = serde_json::from_str(body).unwrap();
    let elements: Vec<&RawValue> = serde_json::from_str(fields[key].get()).unwrap();
    elements.into_iter().map(|element| element.get().to_owned()).collect()
}

#[test]
fn only_the_model_is_replaced_where_nothing_is_added() {
    for (dialect, family, sent) in ALL {
        let (request, _) = read(family, sent);
        let written = write(dialect, &request, &options());
        let mut expected: Value = serde_json::from_str(sent).unwrap();
        expected["model"] = json!("provider-model");
        expected.as_object_mut().unwrap().shift_remove("stream_options");
        if family == Family::OpenAiResponses {
            // The provider stores nothing, so the reasoning of the next step is requested in its encrypted
            // form.
            expected["include"] = json!(["message.output_text.logprobs", "reasoning.encrypted_content"]);
            expected["store"] = json!(false);
        }
        assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), expected, "{family:?}");
        for key in [items_key(family), "tools"] {
            assert_eq!(elements(&written, key), elements(sent, key), "{family:?}: the bytes of `{key}`");
        }
    }
}

#[test]
fn tools_and_messages_are_added_after_the_client_s() {
    for (dialect, family, sent) in ALL {
        let (request, _) = read(family, sent);
        let mut request = with_own_tools(&request);
        let first = write(dialect, &request, &options());
        assert_eq!(first, write(dialect, &request, &options()), "the same bytes in every request");
        let key = items_key(family);
        assert_eq!(elements(&first, key), elements(sent, key));
        let tools = elements(&first, "tools");
        assert_eq!(tools[..2], elements(sent, "tools"));
        assert!(tools[2].contains("\"lookup\"") && tools[3].contains("\"delete_all_"), "{tools:?}");

        let call = Block::Call { id: "call_9".to_owned(), call: ToolCall::new("lookup", Default::default()) };
        let result = Block::Result { id: "call_9".to_owned(), result: ToolResult::text("found") };
        request.messages.push(Message::new(Role::Assistant, vec![call]).into());
        request.messages.push(Message::new(Role::User, vec![result]).into());
        let second = write(dialect, &request, &options());
        assert_eq!(elements(&second, "tools"), tools);
        let items = elements(&second, key);
        let sent = elements(sent, key);
        assert_eq!(items[..sent.len()], sent, "{family:?}: the second request has the same prefix");
        assert_eq!(items.len(), sent.len() + 2);
        assert!(items[sent.len()].contains("call_9") && items[sent.len() + 1].contains("found"), "{items:?}");
    }
}

#[test]
fn a_message_that_changed_is_written_again_with_its_call() {
    for (dialect, family, sent) in ALL {
        let (mut request, _) = read(family, sent);
        let position =
            request.messages.iter().position(|message| message.results().next().is_some()).unwrap();
        let mut changed = (*request.messages[position]).clone();
        for block in &mut changed.content {
            if let Block::Result { result, .. } = block {
                *result = ToolResult::text("shortened");
            }
        }
        changed.content.retain(|block| matches!(block, Block::Result { .. }));
        request.messages[position] = changed.into();
        let items = elements(&write(dialect, &request, &options()), items_key(family)).join("\n");
        assert!(items.contains("shortened"), "{family:?}: {items}");
        let first = &elements(sent, items_key(family))[0];
        assert!(items.starts_with(first), "{family:?}: the others stay");
        if family == Family::Anthropic {
            assert!(
                items.contains("c2lnbmVk") && items.contains("c2VjcmV0"),
                "thinking stays signed: {items}"
            );
        }
        if family == Family::OpenAiResponses {
            assert!(
                items.contains("\"custom_tool_call\"") && items.contains("\"input\":\"SELECT 1\""),
                "{items}"
            );
        }
    }
}

#[test]
fn instructions_are_added_after_the_client_s() {
    let added = |(dialect, family, sent): (Dialect, Family, &str)| -> Value {
        let (mut request, mut verbatim) = read(family, sent);
        let client = verbatim.instructions.clone().unwrap();
        request.instructions = Some(format!("Of the operator.\n\n{client}\n\nA note."));
        verbatim.preceding_instructions = Some("Of the operator.".to_owned());
        request.verbatim = Some(Arc::new(verbatim));
        serde_json::from_str(&write(dialect, &request, &options())).unwrap()
    };
    let text = "Of the operator.\n\nA note.";
    let chat = added(CHAT);
    assert_eq!(chat["messages"][2], json!({"role": "system", "content": text}));
    assert_eq!(chat["messages"][1]["name"], "ops");
    assert_eq!(added(RESPONSES)["instructions"], format!("Be brief.\n\n{text}"));
    let messages = added(MESSAGES);
    assert_eq!(messages["system"][0]["cache_control"], json!({"type": "ephemeral", "ttl": "1h"}));
    assert_eq!(messages["system"][1], json!({"type": "text", "text": text}));
}

#[test]
fn fields_of_the_configuration_have_precedence() {
    let mut options = options();
    options.extra =
        json!({"temperature": 1, "metadata": {"team": "t", "more": 1}}).as_object().unwrap().clone();
    let (request, _) = read(CHAT.1, CHAT.2);
    let written: Value = serde_json::from_str(&write(CHAT.0, &request, &options)).unwrap();
    assert_eq!(
        (&written["temperature"], &written["metadata"]),
        (&json!(1), &json!({"team": "t", "more": 1}))
    );
    assert_eq!(written.get("max_completion_tokens"), None, "the client has another name for it");
}

#[test]
fn cache_marks_are_those_of_the_client_if_it_has_any() {
    let mut cached = options();
    cached.prompt_cache = true;
    let (request, _) = read(MESSAGES.1, MESSAGES.2);
    let request = with_own_tools(&request);
    assert_eq!(write(MESSAGES.0, &request, &cached), write(MESSAGES.0, &request, &options()));

    let plain = r#"{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}"#;
    let (request, _) = read(Family::Anthropic, plain);
    let written = write(Dialect::Anthropic, &with_own_tools(&request), &cached);
    assert_eq!(elements(&written, "messages"), elements(plain, "messages"));
    let tools = elements(&written, "tools");
    assert!(tools[1].ends_with(r#","cache_control":{"type":"ephemeral"}}"#), "{tools:?}");
}

#[test]
fn other_apis_get_the_same_request_as_before() {
    for (_, family, sent) in ALL {
        let (mut request, _) = read(family, sent);
        request.messages.retain(|message| message.role == Role::Assistant || message.content.len() == 1);
        for dialect in Dialect::all().filter(|dialect| !dialect.has_api_of(family)) {
            assert_eq!(verbatim_request(dialect, &request, &options()), None, "{dialect}");
            let toolset = Toolset::new(&request.tools, dialect, &Options::default());
            let plain = ModelRequest { verbatim: None, ..request.clone() };
            let expected = write_request(dialect, &plain, &toolset, &options()).map(|body| body.to_string());
            assert_eq!(write_request_text(dialect, &request, &toolset, &options()), expected, "{dialect}");
        }
    }
}

/// A call of a free-text tool reaches the client in the form in which the provider sent it.
#[test]
fn calls_of_free_text_tools_are_passed_on() {
    let item = json!({"type": "custom_tool_call", "call_id": "call_1", "name": "sql", "input": "SELECT 1"});
    let call = json!({"id": "call_1", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}});
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    for (dialect, family, response, pointer) in [
        (
            Dialect::Responses,
            Family::OpenAiResponses,
            json!({"status": "completed", "output": [item]}),
            "/output/0",
        ),
        (
            Dialect::OpenAi,
            Family::OpenAiChat,
            json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}),
            "/choices/0/message/tool_calls/0",
        ),
    ] {
        let toolset = Toolset::new(&[], dialect, &Options::default());
        let read = read_response(dialect, &response, &toolset, "").unwrap();
        assert_eq!(read.unusable, []);
        let (id, call) = read.message.calls().next().unwrap();
        let input = custom_call_input(call).unwrap();
        let event =
            ClientEvent::CustomCall { id: id.to_owned(), name: call.name.clone(), input: input.to_owned() };
        let mut writer = ResponseWriter::new(family, ResponseHead::default()).unwrap();
        let events = writer.event(&event);
        assert!(!events.is_empty());
        let mut shown = writer.body().pointer(pointer).unwrap().clone();
        if family == Family::OpenAiResponses {
            assert_eq!(shown["status"], "completed");
            shown.as_object_mut().unwrap().retain(|key, _| !matches!(key.as_str(), "id" | "status"));
        }
        assert_eq!(shown, *response.pointer(pointer).unwrap());
    }
}

#[test]
fn results_of_parallel_calls_stay_with_their_message() {
    let chat = r#"{"model":"m","messages":[{"role":"user","content":"q"},
        {"role":"assistant","content":null,"tool_calls":[
            {"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},
            {"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}]},
        {"role":"tool","tool_call_id":"a","content":"1"},{"role":"tool","tool_call_id":"b","content":"2"},
        {"role":"assistant","content":"Done."},{"role":"user","content":"Again."}]}"#;
    let responses = r#"{"model":"m","input":[{"role":"user","content":"q"},
        {"type":"function_call","call_id":"a","name":"f","arguments":"{}"},
        {"type":"function_call","call_id":"b","name":"f","arguments":"{}"},
        {"type":"function_call_output","call_id":"a","output":"1"},{"type":"function_call_output","call_id":"b","output":"2"},
        {"role":"assistant","content":"Done."},{"role":"user","content":"Again."}]}"#;
    for (family, body, calls) in [(Family::OpenAiChat, chat, 1), (Family::OpenAiResponses, responses, 2)] {
        let (request, verbatim) = read(family, body);
        assert_eq!(request.messages.len(), 5);
        let items: Vec<usize> = verbatim.messages.iter().map(|(_, items)| items.len()).collect();
        assert_eq!(items, [1, calls, 2, 1, 1], "{family:?}");
        assert!(verbatim.messages[2].1[1].contains('2'), "{family:?}");
    }
}

#[test]
fn tools_that_a_choice_removes_are_not_sent() {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"q"}],
        "tools":[{"type":"function","function":{"name":"one"}},{"type":"function","function":{"name":"two"}}],
        "tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"two"}}]}}}"#;
    let (request, verbatim) = read(Family::OpenAiChat, body);
    let names: Vec<&str> = verbatim.tools.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((request.tools.len(), names), (1, vec!["two"]));
    assert_eq!(verbatim.field("tool_choice"), None);
    let body = r#"{"model":"m","input":"q","tool_choice":{"type":"mcp","server_label":"demo"}}"#;
    assert_eq!(read(Family::OpenAiResponses, body).1.field("tool_choice"), None);
}

/// What a client writes cannot remove a part of the instructions before its own.
#[test]
fn instructions_of_others_stay_complete() {
    let (dialect, family, _) = MESSAGES;
    let body = r#"{"model":"m","max_tokens":9,"system":"never","messages":[{"role":"user","content":"q"}]}"#;
    let (mut request, mut verbatim) = read(family, body);
    request.instructions = Some("You must never tell it.\n\nnever\n\nA note.".to_owned());
    verbatim.preceding_instructions = Some("You must never tell it.".to_owned());
    request.verbatim = Some(Arc::new(verbatim));
    let tools = Toolset::new(&[], dialect, &Options::default());
    let text = write_request_text(dialect, &request, &tools, &options()).unwrap();
    let sent: Value = serde_json::from_str(&text).unwrap();
    let texts: Vec<&str> =
        sent["system"].as_array().unwrap().iter().map(|block| block["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["never", "You must never tell it.\n\nA note."]);
}

fn written(dialect: Dialect, request: &ModelRequest, options: &RequestOptions) -> Value {
    serde_json::from_str(&write(dialect, request, options)).unwrap()
}

/// OpenAI rejects a request with both keys of the output limit.
#[test]
fn a_limit_of_the_configuration_replaces_the_client_s_under_any_key() {
    let mut options = options();
    options.extra = json!({"max_tokens": 100}).as_object().unwrap().clone();
    let body = r#"{"model":"m","max_completion_tokens":50,"messages":[{"role":"user","content":"q"}]}"#;
    let (request, _) = read(Family::OpenAiChat, body);
    let plain = ModelRequest { verbatim: None, ..request.clone() };
    for request in [request, plain] {
        let sent = written(Dialect::OpenAi, &request, &options);
        assert_eq!((&sent["max_tokens"], sent.get("max_completion_tokens")), (&json!(100), None), "{sent}");
    }
}

#[test]
fn null_means_absent() {
    let body = r#"{"model":"m","input":"q","max_output_tokens":null,"temperature": null,"store":null,"tool_choice":null}"#;
    let (mut request, verbatim) = read(Family::OpenAiResponses, body);
    assert_eq!(verbatim.fields, []);
    // The defaults of the operator.
    (request.max_output_tokens, request.temperature) = (Some(70), Some(0.5));
    let sent = written(Dialect::Responses, &request, &options());
    assert_eq!((&sent["max_output_tokens"], &sent["temperature"]), (&json!(70), &json!(0.5)), "{sent}");
    assert_eq!((&sent["store"], sent.get("tool_choice")), (&json!(false), None), "{sent}");
}

#[test]
fn a_server_with_a_part_of_the_api_gets_a_converted_request() {
    let mut options = options();
    options.api_support = ApiSupport::Partial;
    for (dialect, family, sent) in ALL {
        assert_eq!(verbatim_request(dialect, &read(family, sent).0, &options), None);
    }
}

/// Only the type of an item makes it a reference, not its text.
#[test]
fn texts_about_references_stay_as_they_were_sent() {
    for (family, body) in [
        (
            Family::OpenAiChat,
            r#"{"model":"m","messages":[{"role":"user","content":"What is an item_reference?"}]}"#,
        ),
        (
            Family::Anthropic,
            r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"\"type\":\"item_reference\""}]}"#,
        ),
        (
            Family::OpenAiResponses,
            r#"{"model":"m","input":[{"role":"user","content":"What is an item_reference?"}]}"#,
        ),
    ] {
        let (_, verbatim) = read(family, body);
        assert_eq!(verbatim.messages.len(), 1, "{family:?}");
    }
    // The gateway has replaced the references in what it read, but not in the text.
    let read_from = json!({"model": "m", "input": [{"role": "user", "content": "q"}]});
    let client = read_client_request(Family::OpenAiResponses, read_from).unwrap().unwrap();
    for reference in [
        r#"{"type":"item_reference","id":"msg_1"}"#,
        r#"{"type":"item\u005freference","id":"msg_1"}"#,
        r#"{"id":"msg_1"}"#,
        r#"{"id":"\"type\": \"role\"","type":null}"#,
    ] {
        let body = format!(r#"{{"model":"m","input":[{reference}]}}"#);
        let verbatim = client.verbatim(Family::OpenAiResponses, &body).unwrap();
        assert_eq!(verbatim.messages, [], "{reference}");
    }
}

/// OpenAI rejects these fields in a request without tools.
#[test]
fn choices_are_not_sent_without_tools() {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"q"}],"tool_choice":"auto","parallel_tool_calls":true,
        "tools":[{"type":"function","function":{"name":"f"}}]}"#;
    let (request, _) = read(Family::OpenAiChat, body);
    let sent = written(Dialect::OpenAi, &request, &options());
    assert_eq!((&sent["tool_choice"], &sent["parallel_tool_calls"]), (&json!("auto"), &json!(true)));
    let without = ModelRequest { tools: Arc::default(), ..request };
    let sent = written(Dialect::OpenAi, &without, &options());
    for key in ["tools", "tool_choice", "parallel_tool_calls"] {
        assert_eq!(sent.get(key), None, "{sent}");
    }
}

/// A model that cannot be forced to call a tool decides itself, and the client's own tools stay.
#[test]
fn a_choice_that_the_model_does_not_accept_is_left_to_it() {
    let mut options = options();
    options.forced_choice = false;
    let body = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"q"}],
        "tools":[{"type":"bash_20250124","name":"bash"}],"tool_choice":{"type":"tool","name":"bash"}}"#;
    let (request, verbatim) = read(Family::Anthropic, body);
    assert_eq!(request.tool_choice, ToolChoice::Tool("bash".to_owned()));
    assert_eq!(verbatim.native_tools, ["bash"]);
    let sent = written(Dialect::Anthropic, &request, &options);
    assert_eq!(sent["tools"], json!([{"type": "bash_20250124", "name": "bash"}]));
    assert!(matches!(sent.get("tool_choice"), None | Some(Value::Object(_))), "{sent}");
    assert_ne!(sent["tool_choice"]["type"], "tool", "{sent}");
}
