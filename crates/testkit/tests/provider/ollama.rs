//! What Ollama's chat takes and refuses.

use serde_json::{Value, json};
use toolwire_testkit::provider::{Api, Said, render};

use crate::client::{Asked, PNG};

fn good() -> Asked {
    let said = Said::default().call("", "get", r#"{"q":1}"#).call("", "get", r#"{"q":2}"#);
    let answer: Value = serde_json::from_slice(&render(Api::Ollama, &said, false)[0]).unwrap();
    let body = json!({
        "model": "qwen3",
        "messages": [
            {"role": "user", "content": "hello", "images": [PNG]},
            answer["message"],
            {"role": "tool", "tool_name": "get", "content": "one"},
            {"role": "tool", "tool_name": "get", "content": "two"},
        ],
        "tools": [{"type": "function", "function": {
            "name": "get", "description": "Gets.", "parameters": {"type": "object", "properties": {"q": {"type": "integer"}}},
        }}],
    });
    Asked::new("/api/chat", &[], body)
}

#[track_caller]
fn check(change: impl FnOnce(&mut Value), message: &str) {
    let mut asked = good();
    change(&mut asked.body);
    assert_eq!(asked.judged(Api::Ollama), Some((400, json!({"error": message}))));
}

#[test]
fn a_good_request_is_taken_with_what_ollama_does_not_know() {
    let mut asked = good();
    assert_eq!(asked.judged(Api::Ollama), None);
    asked.body["foo"] = 1.into();
    assert_eq!(asked.judged(Api::Ollama), None);
}

#[test]
fn a_model_is_asked_for() {
    check(|body| body["model"] = "".into(), "model is required");
}

#[test]
fn arguments_are_an_object() {
    check(
        |body| body["messages"][1]["tool_calls"][0]["function"]["arguments"] = "{}".into(),
        "json: cannot unmarshal string into Go struct field ChatRequest.messages.tool_calls.function.arguments of type \
         api.ToolCallFunctionArguments",
    );
}

#[test]
fn content_is_text() {
    check(
        |body| body["messages"][2]["content"] = json!([{"type": "text", "text": "one"}]),
        "json: cannot unmarshal array into Go struct field ChatRequest.messages.content of type string",
    );
    check(
        |body| body["messages"][0]["images"] = json!(["data:image/png;base64,AAAA"]),
        "illegal base64 data at input byte 0",
    );
}

#[test]
fn a_property_is_a_struct() {
    check(
        |body| body["tools"][0]["function"]["parameters"]["properties"]["q"] = true.into(),
        "json: cannot unmarshal bool into Go struct field ChatRequest.tools.function.parameters.properties of type \
         api.ToolProperty",
    );
}
