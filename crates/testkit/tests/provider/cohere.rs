//! Requests that Cohere's chat accepts and rejects.

use serde_json::{Value, json};
use toolwire_testkit::provider::{Api, ModelOutput};

use crate::client::{PNG, TestRequest, bearer, rendered};

fn valid_request() -> TestRequest {
    let output = ModelOutput::text("I will look.").call("call_a", "get", "{}").call("call_b", "get", "{}");
    let body = json!({
        "model": "command-a",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hello"},
            rendered(Api::Cohere, &output)["message"],
            {"role": "tool", "tool_call_id": "call_a", "content": "one"},
            {"role": "tool", "tool_call_id": "call_b", "content": [{"type": "document", "document": {"data": "two"}}]},
        ],
        "tools": [{"type": "function", "function": {
            "name": "get", "description": "Gets.", "parameters": {"type": "object", "properties": {}},
        }}],
        "tool_choice": "REQUIRED",
    });
    TestRequest::new("/v2/chat", &[("authorization", &bearer())], body)
}

#[track_caller]
fn check_rejected(change: impl FnOnce(&mut TestRequest), status: u16, message: &str) {
    valid_request().check_rejected(Api::Cohere, change, status, json!({"id": "1", "message": message}));
}

#[track_caller]
fn check(change: impl FnOnce(&mut Value), message: &str) {
    check_rejected(|request| change(&mut request.body), 400, &format!("invalid request: {message}"));
}

#[test]
fn a_valid_request_is_accepted() {
    valid_request().check_accepted(Api::Cohere, |_| {});
}

#[test]
fn a_key_is_required() {
    check_rejected(|request| drop(request.headers.remove("authorization")), 401, "no api key supplied");
    check_rejected(|request| request.set_header("authorization", "Bearer x"), 401, "invalid api token");
}

#[test]
fn unknown_fields_are_rejected_at_every_level() {
    for (pointer, key) in
        [("", "max_completion_tokens"), ("/messages/3", "name"), ("/tools/0/function", "strict")]
    {
        let change = |request: &mut TestRequest| request.body.pointer_mut(pointer).unwrap()[key] = 1.into();
        let message = format!(
            "unknown field: parameter '{key}' is not a valid field. For proper usage, please refer to \
             https://docs.cohere.com/reference/chat"
        );
        check_rejected(change, 422, &message);
    }
}

#[test]
fn calls_and_results_are_paired() {
    let change = |body: &mut Value| drop(body["messages"].as_array_mut().unwrap().pop());
    check(change, "tool calls without a tool message: call_b");
    let change = |body: &mut Value| body["messages"][3]["tool_call_id"] = "call_z".into();
    check(change, "messages[3].tool_call_id `call_z` has no preceding tool call");
}

#[test]
fn results_contain_no_images_and_arguments_are_strings() {
    let image = json!([{"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PNG}")}}]);
    let change = |body: &mut Value| body["messages"][3]["content"] = image;
    check(change, "messages[3].content type `image_url` must be one of text, document");
    let change = |body: &mut Value| body["messages"][2]["tool_calls"][0]["function"]["arguments"] = json!({});
    check(
        change,
        "messages[2].tool_calls need an id, the type `function`, a name, and arguments as a string",
    );
}

#[test]
fn tool_choice_is_checked() {
    let change = |body: &mut Value| body["tool_choice"] = "required".into();
    check(change, "tool_choice \"required\" must be REQUIRED or NONE");
    check(|body| body["tools"] = json!([]), "tool_choice needs tools");
    let change = |body: &mut Value| body["strict_tools"] = true.into();
    check(change, "tools[0] must have at least one required parameter with strict_tools");
}

#[test]
fn a_response_format_excludes_tools() {
    let format = json!({"type": "json_object", "json_schema": {"type": "object"}});
    check(
        |body| body["response_format"] = format.clone(),
        "response_format cannot be used with tools or documents",
    );
    let without_tools = |body: &mut Value| {
        let fields = body.as_object_mut().unwrap();
        fields.remove("tools");
        fields.remove("tool_choice");
    };
    valid_request().check_accepted(Api::Cohere, |request| {
        without_tools(&mut request.body);
        request.body["response_format"] = format.clone();
    });
    check(
        |body| {
            without_tools(body);
            body["response_format"] = json!({"type": "json_object", "json_schema": {"type": "array"}});
        },
        "response_format.json_schema must be of type object",
    );
}
