//! Requests that OpenAI's Responses accepts and rejects.

use serde_json::{Value, json};
use toolwire_testkit::provider::{Api, ModelOutput};

use crate::client::{PNG, TestRequest, bearer, openai_error, rendered};

/// Returns a conversation with the model's output after thinking, as the fake provider renders it.
fn valid_request() -> TestRequest {
    let output = ModelOutput::text("Let me see.")
        .thinking("hm")
        .call("call_a", "get", "{}")
        .call("call_b", "get", "{}");
    let image =
        json!({"type": "input_image", "image_url": format!("data:image/png;base64,{PNG}"), "detail": "auto"});
    let mut input =
        vec![json!({"role": "user", "content": [{"type": "input_text", "text": "hello"}, image]})];
    input.extend(rendered(Api::Responses, &output)["output"].as_array().unwrap().iter().cloned());
    input.push(json!({"type": "function_call_output", "call_id": "call_a", "output": "one"}));
    input.push(json!({"type": "function_call_output", "call_id": "call_b", "output": [image]}));
    let body = json!({
        "model": "gpt-5.2", "instructions": "Be brief.", "store": false, "input": input,
        "include": ["reasoning.encrypted_content"],
        "tools": [{
            "type": "function", "name": "get", "description": "Gets.", "strict": false,
            "parameters": {"type": "object", "properties": {}},
        }],
    });
    TestRequest::new("/v1/responses", &[("authorization", &bearer())], body)
}

// The indexes of the items in the valid request.
const REASONING: usize = 1;
const MESSAGE: usize = 2;
const CALL: usize = 3;
const OUTPUT: usize = 5;

#[track_caller]
fn check_rejected(change: impl FnOnce(&mut TestRequest), status: u16, expected: Value) {
    valid_request().check_rejected(Api::Responses, change, status, expected);
}

#[track_caller]
fn check(change: impl FnOnce(&mut Value), message: &str, parameter: Option<&str>, code: Option<&str>) {
    check_rejected(|request| change(&mut request.body), 400, openai_error(message, parameter, code));
}

fn remove(index: usize) -> impl FnOnce(&mut Value) {
    move |body| drop(body["input"].as_array_mut().unwrap().remove(index))
}

fn id_of(index: usize) -> String {
    valid_request().body["input"][index]["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_valid_request_is_accepted() {
    valid_request().check_accepted(Api::Responses, |_| {});
    valid_request().check_accepted(Api::Responses, |request| request.body["input"] = "hello".into());
}

#[test]
fn key_path_and_content_type_are_required() {
    let missing = openai_error("Missing bearer or basic authentication in header", None, None);
    check_rejected(|request| drop(request.headers.remove("authorization")), 401, missing);
    let expected = openai_error("Invalid URL (POST /v1/response)", None, None);
    check_rejected(|request| request.path = "/v1/response".to_owned(), 404, expected);
    let message =
        "Unsupported content type: 'text/plain'. This API method only accepts 'application/json' requests.";
    let expected = openai_error(message, None, Some("unsupported_content_type"));
    check_rejected(|request| request.set_header("content-type", "text/plain"), 400, expected);
}

#[test]
fn unknown_fields_are_rejected_at_every_level() {
    for (pointer, path) in [
        ("", "foo"),
        ("/input/0", "input[0].foo"),
        ("/input/0/content/0", "input[0].content[0].foo"),
        ("/input/1", "input[1].foo"),
        ("/input/3", "input[3].foo"),
        ("/input/5", "input[5].foo"),
        ("/input/6/output/0", "input[6].output[0].foo"),
        ("/tools/0", "tools[0].foo"),
    ] {
        let message = format!("Unknown parameter: '{path}'.");
        let change = |body: &mut Value| body.pointer_mut(pointer).unwrap()["foo"] = 1.into();
        check(change, &message, Some(path), Some("unknown_parameter"));
    }
}

#[test]
fn the_format_of_chat_completions_is_rejected() {
    let change = |body: &mut Value| body["messages"] = json!([]);
    check(change, "Unknown parameter: 'messages'.", Some("messages"), Some("unknown_parameter"));
    let nested = json!({"type": "function", "function": {"name": "get"}});
    let message = "Unknown parameter: 'tools[0].function'.";
    check(|body| body["tools"][0] = nested, message, Some("tools[0].function"), Some("unknown_parameter"));
}

#[test]
fn strict_and_parameters_are_required() {
    for key in ["strict", "parameters"] {
        let path = format!("tools[0].{key}");
        let message = format!("Missing required parameter: '{path}'.");
        let change = |body: &mut Value| drop(body["tools"][0].as_object_mut().unwrap().remove(key));
        check(change, &message, Some(&path), Some("missing_required_parameter"));
    }
}

#[test]
fn an_output_without_a_call_is_rejected() {
    let message = "No tool call found for function call output with call_id call_z.";
    check(|body| body["input"][OUTPUT]["call_id"] = "call_z".into(), message, Some("input"), None);
    let message = "No tool call found for function call output with call_id call_b.";
    check(|body| body["input"][OUTPUT]["call_id"] = "call_b".into(), message, Some("input"), None);
}

#[test]
fn a_call_without_an_output_is_rejected() {
    let message = "No tool output found for function call call_a.";
    check(remove(OUTPUT), message, Some("input"), None);
}

#[test]
fn reasoning_and_the_item_after_it_stay_together() {
    let reasoning = id_of(REASONING);
    let message =
        format!("Item '{reasoning}' of type 'reasoning' was provided without its required following item.");
    let change = |body: &mut Value| {
        let items = body["input"].as_array().unwrap();
        body["input"] = json!([items[0], items[REASONING]]);
    };
    check(change, &message, Some("input"), None);
    let id = id_of(MESSAGE);
    let message = format!(
        "Item '{id}' of type 'message' was provided without its required 'reasoning' item: '{reasoning}'."
    );
    check(remove(REASONING), &message, Some("input"), None);
    // Items without ids cannot be checked.
    valid_request().check_accepted(Api::Responses, |request| {
        for item in request.body["input"].as_array_mut().unwrap() {
            item.as_object_mut().unwrap().remove("id");
        }
    });
}

#[test]
fn unstored_reasoning_needs_its_unaltered_content() {
    let reasoning = id_of(REASONING);
    let message = format!(
        "Item with id '{reasoning}' not found. Items are not persisted when `store` is set to false. Try again with `store` set \
         to true, or remove this item from your input."
    );
    let change = |request: &mut TestRequest| {
        drop(request.body["input"][REASONING].as_object_mut().unwrap().remove("encrypted_content"))
    };
    check_rejected(change, 404, openai_error(&message, Some("input"), None));
    let message = "The encrypted content gAAA... could not be verified. Reason: Encrypted content could not be decrypted or \
                   parsed.";
    let change = |body: &mut Value| body["input"][REASONING]["encrypted_content"] = "gAAAABx".into();
    check(change, message, None, Some("invalid_encrypted_content"));
}

#[test]
fn ids_are_checked() {
    let message = "Invalid 'input[3].id': 'call_a'. Expected an ID that begins with 'fc'.";
    let change = |body: &mut Value| body["input"][CALL]["id"] = "call_a".into();
    check(change, message, Some("input[3].id"), Some("invalid_value"));
    let message = "Invalid 'input[3].call_id': string too long. Expected a string with maximum length 64, but got a string with \
                   length 65 instead.";
    let change = |body: &mut Value| body["input"][CALL]["call_id"] = "x".repeat(65).into();
    check(change, message, Some("input[3].call_id"), Some("string_above_max_length"));
}

#[test]
fn the_parts_of_a_message_match_its_role() {
    let message = "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'.";
    let change =
        |body: &mut Value| body["input"][MESSAGE]["content"][0] = json!({"type": "input_text", "text": "a"});
    check(change, message, Some("input[2].content[0]"), Some("invalid_value"));
    let message =
        "Invalid value: 'tool'. Supported values are: 'assistant', 'system', 'developer', and 'user'.";
    check(
        |body| body["input"][0]["role"] = "tool".into(),
        message,
        Some("input[0].role"),
        Some("invalid_value"),
    );
}

#[test]
fn image_data_must_be_an_image() {
    let message = "The image data you provided does not represent a valid image. Please check your input and try again with one \
                   of the supported image formats: ['image/jpeg', 'image/png', 'image/gif', 'image/webp'].";
    let change = |body: &mut Value| {
        body["input"][6]["output"][0]["image_url"] = "data:image/png;base64,aGVsbG8=".into()
    };
    check(change, message, Some("input"), Some("invalid_value"));
}

#[test]
fn names_and_schemas_are_checked() {
    let message = "Invalid 'tools[0].name': string too long. Expected a string with maximum length 128, but got a string with \
                   length 129 instead.";
    let change = |body: &mut Value| body["tools"][0]["name"] = "x".repeat(129).into();
    check(change, message, Some("tools[0].name"), Some("string_above_max_length"));
    let message = "Invalid schema for function 'get': In context=(), object schema missing properties.";
    let change = |body: &mut Value| body["tools"][0]["parameters"] = json!({"type": "object"});
    check(change, message, Some("tools[0].parameters"), Some("invalid_function_parameters"));
}

#[test]
fn tool_choice_is_checked() {
    let nested = json!({"type": "function", "function": {"name": "get"}});
    let message = "Unknown parameter: 'tool_choice.function'.";
    check(
        |body| body["tool_choice"] = nested,
        message,
        Some("tool_choice.function"),
        Some("unknown_parameter"),
    );
    let unknown = json!({"type": "function", "name": "put"});
    let message = "Tool choice 'function' not found in 'tools' parameter.";
    check(|body| body["tool_choice"] = unknown, message, Some("tool_choice"), None);
    let message = "Tool choice 'required' must be specified with 'tools' parameter.";
    let change = |body: &mut Value| {
        body["tool_choice"] = "required".into();
        body["tools"] = json!([]);
    };
    check(change, message, Some("tool_choice"), None);
}

#[test]
fn the_schema_of_a_response_is_checked() {
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let format = json!({"type": "json_schema", "name": "n", "schema": schema, "strict": true});
    valid_request().check_accepted(Api::Responses, |request| {
        request.body["text"] = json!({"format": format, "verbosity": "low"})
    });
    let mut open = format;
    open["schema"]["additionalProperties"] = json!(true);
    let message = "Invalid schema for response_format 'n': In context=(), 'additionalProperties' is required to be \
                   supplied and to be false.";
    let code = Some("invalid_json_schema");
    check(|body| body["text"] = json!({"format": open}), message, Some("text.format"), code);
}
