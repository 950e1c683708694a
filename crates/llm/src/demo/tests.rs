use std::sync::Arc;

use serde_json::{Value, json};
use toolwire_contract::model::ToolChoice;
use toolwire_contract::{Tool, ToolResult};

use super::*;
use crate::collect;

/// The tools of the demo server.
fn demo_tools() -> Vec<Tool> {
    let tool = |value: Value| Tool::try_from(value).expect("a valid tool");
    vec![
        tool(json!({
            "name": "calculate",
            "description": "Calculate the sum, difference, product or quotient of two numbers.\n\nArguments:\n\
                - `operator`: string, required, one of `add`, `subtract`, `multiply`, `divide`\n\
                - `argument1`: number, required\n- `argument2`: number, required",
            "inputSchema": {"type": "object", "properties": {
                "operator": {"type": "string", "enum": ["add", "subtract", "multiply", "divide"],
                    "description": "The operation"},
                "argument1": {"type": "number", "description": "The first number"},
                "argument2": {"type": "number", "description": "The second number"},
            }, "required": ["operator", "argument1", "argument2"], "additionalProperties": false},
        })),
        tool(json!({
            "name": "get_weather",
            "description": "Get the weather at a place. The data is generated, and always the same for a place.\n\n\
                Arguments:\n- `location`: string, required\n\
                - `units`: string, default `celsius`, one of `celsius`, `fahrenheit`",
            "inputSchema": {"type": "object", "properties": {
                "location": {"type": "string", "description": "City or address"},
                "units": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius",
                    "description": "The unit of the temperature"},
            }, "required": ["location"], "additionalProperties": false},
        })),
    ]
}

fn request(tools: Vec<Tool>, messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: tools.into(),
        ..ModelRequest::default()
    }
}

/// Checks the calls for a question.
#[track_caller]
fn check(tools: Vec<Tool>, question: &str, expected: &[(&str, Value)]) {
    let response = respond(&request(tools, vec![Message::user(question)]));
    let calls: Vec<(&str, Value)> = response
        .message
        .calls()
        .map(|(_, call)| (call.name.as_str(), Value::Object(call.arguments.clone().unwrap_or_default())))
        .collect();
    assert_eq!(calls, expected, "{question}");
}

#[test]
fn both_calls_of_the_example_question_are_made_at_once() {
    let weather = |location: &str| ("get_weather", json!({"location": location}));
    let sum = ("calculate", json!({"operator": "add", "argument1": 25, "argument2": 17}));
    for question in [
        "What is the weather in Paris, and what is 25 + 17?",
        "what's the weather in paris and what is 25+17",
        "Weather in Paris? 25 plus 17?",
        "Please tell me the weather at Paris; and add 25 and 17.",
    ] {
        let place = if question.contains("Paris") { "Paris" } else { "paris" };
        check(demo_tools(), question, &[weather(place), sum.clone()]);
    }
}

#[test]
fn one_tool_may_be_called_for_two_places() {
    check(
        demo_tools(),
        "What is the weather in New York in fahrenheit? And the weather in Oslo?",
        &[
            ("get_weather", json!({"units": "fahrenheit", "location": "New York"})),
            ("get_weather", json!({"location": "Oslo"})),
        ],
    );
    check(
        demo_tools(),
        "Divide 84 by 2.",
        &[("calculate", json!({"operator": "divide", "argument1": 84, "argument2": 2}))],
    );
}

#[test]
fn tools_are_selected_by_their_terms() {
    let tools = || {
        vec![
            Tool::new(
                "read_file",
                json!({"type": "object", "required": ["path"], "properties": {"path": {"type": "string"}}}),
            ),
            Tool::new(
                "search_issues",
                json!({"type": "object", "required": ["query"], "properties": {
                "query": {"type": "string"}, "limit": {"type": "integer"}}}),
            ),
            Tool::new("ping", json!({"type": "object"})),
        ]
    };
    check(tools(), "Please read the file src/main.rs", &[("read_file", json!({"path": "src/main.rs"}))]);
    check(
        tools(),
        "search issues about \"memory leak\" limit=5",
        &[("search_issues", json!({"limit": 5, "query": "memory leak"}))],
    );
    check(tools(), "ping!", &[("ping", json!({}))]);
    check(tools(), "Good morning", &[]);
}

/// Checks the text response to the last of these messages.
#[track_caller]
fn check_text(tools: Vec<Tool>, messages: Vec<Message>, expected: &str) {
    let response = respond(&request(tools, messages));
    let label = "(`demo` is a built-in stand-in, not a language model. It selects tools by matching words.)";
    let expected = Message::assistant(format!("{expected}\n\n{label}"));
    assert_eq!((response.message, response.stop), (expected, StopReason::End));
}

#[test]
fn the_response_explains_why_no_tool_was_called() {
    check_text(
        demo_tools(),
        vec![Message::user("How is the weather?")],
        "`get_weather` matches, but the question does not contain `location`.",
    );
    check_text(
        demo_tools(),
        vec![Message::user("Good morning")],
        "No tool matches the question. Available tools: `calculate`, `get_weather`.",
    );
    check_text(vec![], vec![Message::user("Good morning")], "No tools are available.");
}

#[test]
fn results_and_errors_are_described() {
    let first = respond(&request(demo_tools(), vec![Message::user("Weather in Paris, and what is 1 / 0?")]));
    let ids: Vec<String> = first.message.calls().map(|(id, _)| id.to_owned()).collect();
    assert_eq!(ids, ["demo_1_1", "demo_1_2"]);
    let weather = ToolResult::structured(
        json!({"success": true, "value": {"location": "Paris", "temperature": 12, "units": "celsius"}}),
    );
    let failure = ToolResult::error("1 cannot be divided by zero");
    let results = ids.into_iter().zip([weather, failure]).map(|(id, result)| Block::Result { id, result });
    let messages = vec![Message::user("…"), first.message, Message::new(Role::User, results.collect())];
    check_text(
        demo_tools(),
        messages,
        "`get_weather` returned: location Paris, temperature 12, units celsius\n\n`calculate` failed: 1 cannot be divided by zero",
    );
}

#[test]
fn the_tool_choice_of_the_request_is_respected() {
    let ask = |tool_choice: ToolChoice| {
        let request =
            ModelRequest { tool_choice, ..request(demo_tools(), vec![Message::user("Weather in Paris?")]) };
        let response = respond(&request);
        response.message.calls().map(|(_, call)| call.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(ask(ToolChoice::None), [""; 0]);
    assert_eq!(ask(ToolChoice::Required), ["get_weather"]);
    assert_eq!(ask(ToolChoice::Tool("calculate".to_owned())), ["calculate"]);
}

#[tokio::test]
async fn the_text_is_streamed_before_the_complete_response() {
    let request = request(vec![], vec![Message::user("hi")]);
    let events: Vec<ModelEvent> =
        Demo.ask(request.clone()).map(|event| event.expect("a response")).collect().await;
    let fragments: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            ModelEvent::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let response = collect(Demo.ask(request)).await.expect("a response");
    assert!(fragments.len() > 10);
    assert_eq!(response.message, Message::assistant(fragments.concat()));
    assert_eq!(events.last(), Some(&ModelEvent::Response(response)));
}

#[test]
fn unusual_tools_and_questions_get_a_response() {
    let unusual = [
        json!({"name": ""}),
        json!({"name": "x", "inputSchema": null}),
        json!({"name": "x", "inputSchema": {"properties": [], "required": {}}}),
        json!({"name": "loop", "inputSchema": {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/properties/a"}}}}),
    ];
    let tools: Vec<Tool> =
        unusual.into_iter().map(|tool| Tool::try_from(tool).expect("a valid tool")).collect();
    let tools: Arc<[Tool]> = tools.into();
    for text in
        ["", "?", "x loop a", "\"", "'", "-", "1,", "...", "a=", "loop a: 5", "é\u{301}🦀 «»", "+ + +"]
    {
        let request = ModelRequest {
            messages: vec![Message::user(text).into()],
            tools: tools.clone(),
            ..ModelRequest::default()
        };
        let response = respond(&request);
        assert!(!response.message.content.is_empty(), "{text}");
    }
}
