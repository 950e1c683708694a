//! The required format of a response in every dialect: the request has it, and the response is converted
//! back.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use serde_json::{Value, json};
use toolwire_contract::model::{
    ModelEvent, ModelRequest, ModelResponse, OutputFormat, StopReason, ToolChoice,
};
use toolwire_contract::{Block, Content, Message, Role, Tool, ToolCall};
use toolwire_dialect::request::{
    BoundOutput, OutputMethod, RequestError, RequestOptions, separates_output, write_request,
};
use toolwire_dialect::response::ResponseStream;
use toolwire_dialect::{Dialect, Options, Toolset};

fn weather() -> Value {
    json!({
        "type": "object",
        "properties": {"city": {"type": "string"}, "degrees": {"type": "number", "minimum": -90}},
        "required": ["city"],
    })
}

fn request(schema: Value) -> ModelRequest {
    ModelRequest {
        messages: vec![Arc::new(Message::user("What is the weather?"))],
        output: OutputFormat::schema(schema),
        ..ModelRequest::default()
    }
}

fn toolset(dialect: Dialect, tools: &[Tool]) -> Toolset {
    Toolset::new(tools, dialect, &Options::default())
}

fn bind(dialect: Dialect, request: &ModelRequest, options: &RequestOptions) -> BoundOutput {
    BoundOutput::new(request, &toolset(dialect, &request.tools), options).unwrap().unwrap()
}

fn write(dialect: Dialect, request: &ModelRequest, options: &RequestOptions) -> Value {
    write_request(dialect, request, &toolset(dialect, &request.tools), options).unwrap()
}

fn text_response(text: &str) -> ModelResponse {
    let (message, stop) = (Message::assistant(text), StopReason::End);
    ModelResponse { message, stop, usage: None, unusable: Vec::new() }
}

#[track_caller]
fn decoded_text(output: &BoundOutput, response: ModelResponse) -> String {
    let response = output.decode(response);
    assert_eq!(response.stop, StopReason::End);
    match response.message.content.as_slice() {
        [Block::Content(Content::Text { text, .. })] => text.clone(),
        other => panic!("{other:?}"),
    }
}

/// The place of the schema in a request; `None`: a tool whose arguments are the response.
fn schema_pointer(dialect: Dialect) -> Option<&'static str> {
    match dialect {
        Dialect::Responses | Dialect::ResponsesStrict => Some("/text/format/schema"),
        Dialect::Anthropic | Dialect::AnthropicStrict => Some("/output_config/format/schema"),
        Dialect::Gemini => Some("/generationConfig/responseJsonSchema"),
        Dialect::GeminiOpenApi => Some("/generationConfig/responseSchema"),
        Dialect::Cohere => Some("/response_format/json_schema"),
        Dialect::Ollama => Some("/format"),
        Dialect::Bedrock | Dialect::DeepSeek | Dialect::Mcp => None,
        _ => Some("/response_format/json_schema/schema"),
    }
}

#[test]
fn the_schema_is_expressed_in_every_dialect() {
    for dialect in Dialect::all() {
        let body = write(dialect, &request(weather()), &RequestOptions::default());
        match schema_pointer(dialect) {
            Some(pointer) => {
                let schema = body.pointer(pointer).unwrap_or_else(|| panic!("{dialect}: {body}"));
                let kind = schema["type"].as_str().unwrap().to_ascii_lowercase();
                assert_eq!((&*kind, schema["properties"]["city"].is_object()), ("object", true), "{dialect}");
                assert!(body.get("tools").is_none(), "{dialect}");
            }
            None => assert!(body.to_string().contains("`response`"), "{dialect}: {body}"),
        }
    }
}

#[test]
fn the_strict_form_of_openai_is_converted_back() {
    let request = request(weather());
    let body = write(Dialect::OpenAi, &request, &RequestOptions::default());
    let format = &body["response_format"]["json_schema"];
    assert_eq!((&format["strict"], &format["name"]), (&json!(true), &json!("response")));
    assert_eq!(format["schema"]["required"], json!(["city", "degrees"]));
    assert_eq!(format["schema"]["additionalProperties"], json!(false));
    let output = bind(Dialect::OpenAi, &request, &RequestOptions::default());
    let text = decoded_text(&output, text_response(r#"{"city":"Paris","degrees":null}"#));
    assert_eq!(text, r#"{"city":"Paris"}"#);
    // A text that needs no conversion stays as it is.
    let pretty = "{\n  \"city\": \"Paris\",\n  \"degrees\": 12.50\n}";
    assert_eq!(decoded_text(&output, text_response(pretty)), pretty);
    // A client that did not ask for it gets no strict mode.
    let OutputFormat::Schema { name, description, schema, .. } = request.output.clone() else { panic!() };
    let output = OutputFormat::Schema { name, description, schema, strict: false };
    let body = write(Dialect::OpenAi, &ModelRequest { output, ..request }, &RequestOptions::default());
    assert_eq!(body["response_format"]["json_schema"]["strict"], json!(false));
    assert_eq!(body["response_format"]["json_schema"]["schema"]["required"], json!(["city"]));
}

/// Responses that are not objects are the only property of one in the request.
#[test]
fn a_schema_can_have_any_root() {
    let tree = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": "#/$defs/node",
        "$defs": {"node": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            "required": ["name", "children"],
            "additionalProperties": false,
        }},
    });
    let either = json!({"anyOf": [{"type": "string"}, {"type": "integer"}]});
    let cases = [
        (json!({"type": "array", "items": {"type": "string"}}), json!(["a", "b"])),
        (either, json!(7)),
        (json!({"type": "string", "enum": ["$ref", "#"]}), json!("#")),
        (tree, json!({"name": "a", "children": [{"name": "b", "children": []}]})),
    ];
    for (schema, value) in cases {
        for dialect in Dialect::all() {
            let request = request(schema.clone());
            let output = match BoundOutput::new(&request, &toolset(dialect, &[]), &RequestOptions::default())
            {
                Ok(output) => output.unwrap(),
                // Some APIs have no recursion.
                Err(RequestError::OutputSchema { .. }) => continue,
                Err(error) => panic!("{dialect}: {error}"),
            };
            write(dialect, &request, &RequestOptions::default());
            let wrapped = json!({ "answer": value });
            let unread = wrapped.to_string();
            let response = match schema_pointer(dialect) {
                Some(_) => text_response(&wrapped.to_string()),
                None => called(&wrapped),
            };
            let response = match output.decode(response.clone()).message.content.as_slice() {
                // The API could not enforce this schema, so a tool is used.
                [Block::Content(Content::Text { text, .. })] if *text == unread => called(&wrapped),
                _ => response,
            };
            assert_eq!(decoded_text(&output, response), value.to_string(), "{dialect}");
        }
    }
}

/// A response that calls the tool whose arguments are the response.
fn called(arguments: &Value) -> ModelResponse {
    let call = ToolCall::new("response", arguments.as_object().unwrap().clone());
    let message = Message::new(Role::Assistant, vec![Block::Call { id: "1".to_owned(), call }]);
    ModelResponse { message, stop: StopReason::Calls, usage: None, unusable: Vec::new() }
}

#[test]
fn a_tool_replaces_the_schema_where_the_api_has_none() {
    let tool = |name: &str| Tool::new(name, json!({"type": "object", "properties": {}}));
    let tools: Arc<[Tool]> = Arc::new([tool("get"), tool("response")]);
    let mut request = ModelRequest { tools, ..request(weather()) };
    let options = RequestOptions::default();
    // The model chooses between the tools and the response. Its name is not that of a tool.
    let body = write(Dialect::Bedrock, &request, &options);
    let names: Vec<&Value> = body["toolConfig"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| &tool["toolSpec"]["name"])
        .collect();
    assert_eq!(names, ["get", "response", "response_"]);
    assert_eq!(body["toolConfig"]["toolChoice"], json!({"any": {}}));
    request.tool_choice = ToolChoice::None;
    let body = write(Dialect::Bedrock, &request, &options);
    assert_eq!(body["toolConfig"]["toolChoice"], json!({"tool": {"name": "response_"}}));
    assert_eq!(body["toolConfig"]["tools"].as_array().map(Vec::len), Some(1));
    // Models that think reject a forced call.
    let mut unforced = RequestOptions::default();
    unforced.forced_choice = false;
    let body = write(Dialect::DeepSeek, &request, &unforced);
    assert_eq!(body["response_format"], json!({"type": "json_object"}));
    assert!(body["messages"][0]["content"].as_str().unwrap().contains("\"degrees\""));

    let output = bind(Dialect::Bedrock, &request, &options);
    let mut response = called(&json!({"city": "Paris"}));
    let call = |name: &str| Block::Call {
        id: name.to_owned(),
        call: ToolCall::new(name, json!({"city": "Rome"}).as_object().unwrap().clone()),
    };
    response.message.content = vec![Block::Content(Content::text("Let me see.")), call("response_")];
    assert_eq!(decoded_text(&output, response.clone()), r#"{"city":"Rome"}"#);
    // Calls of other tools come first.
    response.message.content.push(call("get"));
    let response = output.decode(response);
    assert_eq!(response.stop, StopReason::Calls);
    assert_eq!(response.message.calls().map(|(id, _)| id).collect::<Vec<_>>(), ["get"]);
}

#[test]
fn tools_and_schema_are_separate_where_the_api_requires_it() {
    let tools: Arc<[Tool]> = Arc::new([Tool::new("get", json!({"type": "object", "properties": {}}))]);
    let options = RequestOptions::default();
    for dialect in Dialect::all() {
        let mut request = ModelRequest { tools: tools.clone(), ..request(weather()) };
        let separate = [
            Dialect::Gemini,
            Dialect::GeminiOpenApi,
            Dialect::Mistral,
            Dialect::Cohere,
            Dialect::Ollama,
            Dialect::Groq,
            Dialect::Dial,
        ];
        let is_separate = separates_output(dialect, &options);
        assert_eq!(is_separate, separate.contains(&dialect), "{dialect}");
        let written = write_request(dialect, &request, &toolset(dialect, &tools), &options);
        assert_eq!(written.err(), is_separate.then_some(RequestError::OutputWithTools), "{dialect}");
        request.tool_choice = ToolChoice::None;
        let body = write(dialect, &request, &options);
        assert!(!is_separate || body.get("tools").is_none(), "{dialect}");
    }
    let mut vllm = RequestOptions::default();
    vllm.output_with_tools = Some(false);
    assert!(separates_output(Dialect::OpenAi, &vllm));
    let mut tool = vllm;
    tool.output = Some(OutputMethod::Tool);
    assert!(!separates_output(Dialect::OpenAi, &tool));
}

#[test]
fn text_of_a_stream_is_withheld_until_it_is_decoded() {
    let request = request(weather());
    let output = bind(Dialect::OpenAi, &request, &RequestOptions::default());
    let mut stream = ResponseStream::new(Dialect::OpenAi, Arc::new(toolset(Dialect::OpenAi, &[])))
        .with_output(Some(Arc::new(output)));
    let mut events: Vec<ModelEvent> = Vec::new();
    for piece in ["{\"city\":", "\"Paris\",\"degrees\"", ":null}"] {
        let delta = json!({"choices": [{"index": 0, "delta": {"content": piece}}]});
        events.extend(stream.push(&delta).unwrap());
    }
    stream.push(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})).unwrap();
    assert_eq!(events, []);
    let message = stream.finish().unwrap().message;
    assert_eq!(message.content, [Block::Content(Content::text(r#"{"city":"Paris"}"#))]);
}

#[test]
fn any_json_is_required_or_requested() {
    let mut request = ModelRequest { output: OutputFormat::Json, ..request(weather()) };
    let options = RequestOptions::default();
    let body = write(Dialect::OpenAi, &request, &options);
    assert_eq!(body["response_format"], json!({"type": "json_object"}));
    assert!(body["messages"][0]["content"].as_str().unwrap().contains("JSON"), "{body}");
    request.instructions = Some("Write json.".to_owned());
    let body = write(Dialect::OpenAi, &request, &options);
    assert_eq!(body["messages"][0]["content"], "Write json.");
    assert_eq!(write(Dialect::Ollama, &request, &options)["format"], "json");
    let gemini = &write(Dialect::Gemini, &request, &options)["generationConfig"];
    assert_eq!(*gemini, json!({"responseMimeType": "application/json"}));
    let system = write(Dialect::Anthropic, &request, &options)["system"].clone();
    assert!(system.as_str().unwrap().contains("must be a JSON object"));
    let output = bind(Dialect::Anthropic, &request, &options);
    assert_eq!(decoded_text(&output, text_response("```json\n{\"a\": 1}\n```")), r#"{"a":1}"#);
    assert_eq!(decoded_text(&output, text_response("No.")), "No.");
}
