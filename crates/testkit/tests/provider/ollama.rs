//! Requests that Ollama's chat accepts and rejects.

use serde_json::{Value, json};
use toolwire_testkit::provider::{Api, ModelOutput};

use crate::client::{PNG, TestRequest, rendered};

fn valid_request() -> TestRequest {
    let output = ModelOutput::default().call("", "get", r#"{"q":1}"#).call("", "get", r#"{"q":2}"#);
    let body = json!({
        "model": "qwen3",
        "messages": [
            {"role": "user", "content": "hello", "images": [PNG]},
            rendered(Api::Ollama, &output)["message"],
            {"role": "tool", "tool_name": "get", "content": "one"},
            {"role": "tool", "tool_name": "get", "content": "two"},
        ],
        "tools": [{"type": "function", "function": {
            "name": "get", "description": "Gets.", "parameters": {"type": "object", "properties": {"q": {"type": "integer"}}},
        }}],
    });
    TestRequest::new("/api/chat", &[], body)
}

#[track_caller]
fn check(change: impl FnOnce(&mut Value), message: &str) {
    valid_request().check_rejected(
        Api::Ollama,
        |request| change(&mut request.body),
        400,
        json!({"error": message}),
    );
}

#[test]
fn a_valid_request_is_accepted_and_unknown_fields_are_ignored() {
    valid_request().check_accepted(Api::Ollama, |_| {});
    valid_request().check_accepted(Api::Ollama, |request| request.body["foo"] = 1.into());
}

#[test]
fn a_model_is_required() {
    check(|body| body["model"] = "".into(), "model is required");
}

#[test]
fn arguments_must_be_an_object() {
    check(
        |body| body["messages"][1]["tool_calls"][0]["function"]["arguments"] = "{}".into(),
        "json: cannot unmarshal string into Go struct field ChatRequest.messages.tool_calls.function.arguments of type \
         api.ToolCallFunctionArguments",
    );
}

#[test]
fn content_must_be_a_string() {
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
fn a_property_must_be_an_object() {
    check(
        |body| body["tools"][0]["function"]["parameters"]["properties"]["q"] = true.into(),
        "json: cannot unmarshal bool into Go struct field ChatRequest.tools.function.parameters.properties of type \
         api.ToolProperty",
    );
}

#[test]
fn the_format_is_json_or_a_schema() {
    let message = "invalid format: \"xml\"; expected \"json\" or a valid JSON Schema object";
    check(|body| body["format"] = json!("xml"), message);
    for format in [json!("json"), json!({"type": "object"})] {
        valid_request().check_accepted(Api::Ollama, |request| request.body["format"] = format);
    }
}
