//! Requests that OpenAI's Chat Completions accepts and rejects.

use serde_json::{Value, json};
use toolwire_testkit::provider::Api;

use crate::client::{PNG, TestRequest, bearer, openai_error};

/// Returns a conversation with two calls and an image.
pub(crate) fn valid_request() -> TestRequest {
    let call =
        |id: &str| json!({"id": id, "type": "function", "function": {"name": "get", "arguments": "{}"}});
    let body = json!({
        "model": "gpt-5.2",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [
                {"type": "text", "text": "hello"},
                {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PNG}")}},
            ]},
            {"role": "assistant", "content": null, "tool_calls": [call("call_a"), call("call_b")]},
            {"role": "tool", "tool_call_id": "call_b", "content": "two"},
            {"role": "tool", "tool_call_id": "call_a", "content": [{"type": "text", "text": "one"}]},
        ],
        "tools": [{"type": "function", "function": {
            "name": "get", "description": "Gets.", "strict": false,
            "parameters": {"type": "object", "properties": {"q": {"type": "array", "items": {}}}},
        }}],
        "tool_choice": "auto",
    });
    TestRequest::new("/v1/chat/completions", &[("authorization", &bearer())], body)
}

#[track_caller]
fn check_rejected(change: impl FnOnce(&mut TestRequest), status: u16, expected: Value) {
    valid_request().check_rejected(Api::OpenAiChat, change, status, expected);
}

#[track_caller]
fn check(change: impl FnOnce(&mut Value), message: &str, parameter: Option<&str>, code: Option<&str>) {
    check_rejected(|request| change(&mut request.body), 400, openai_error(message, parameter, code));
}

#[track_caller]
fn check_schema(schema: Value, strict: bool, problem: &str) {
    let change = |body: &mut Value| {
        body["tools"][0]["function"]["parameters"] = schema;
        body["tools"][0]["function"]["strict"] = strict.into();
    };
    let message = format!("Invalid schema for function 'get': {problem}");
    check(change, &message, Some("tools[0].function.parameters"), Some("invalid_function_parameters"));
}

#[test]
fn a_valid_request_is_accepted() {
    valid_request().check_accepted(Api::OpenAiChat, |_| {});
}

#[test]
fn a_key_is_required() {
    let missing = "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth \
                   (i.e. Authorization: Bearer YOUR_KEY).";
    check_rejected(
        |request| drop(request.headers.remove("authorization")),
        401,
        openai_error(missing, None, None),
    );
    let incorrect = "Incorrect API key provided: sk-1. You can find your API key at https://platform.openai.com/account/api-keys.";
    check_rejected(
        |request| request.set_header("authorization", "Bearer sk-1"),
        401,
        openai_error(incorrect, None, Some("invalid_api_key")),
    );
}

#[test]
fn another_path_is_not_found() {
    let expected = openai_error("Invalid URL (POST /v1/chat)", None, None);
    check_rejected(|request| request.path = "/v1/chat".to_owned(), 404, expected);
}

#[test]
fn unknown_fields_are_rejected_at_every_level() {
    check(|body| body["foo"] = 1.into(), "Unrecognized request argument supplied: foo", None, None);
    let at = |path: &str| (format!("Unknown parameter: '{path}'."), path.to_owned());
    for (pointer, path) in [
        ("/messages/0", "messages[0].foo"),
        ("/messages/1/content/0", "messages[1].content[0].foo"),
        ("/messages/2", "messages[2].foo"),
        ("/messages/2/tool_calls/1", "messages[2].tool_calls[1].foo"),
        ("/messages/2/tool_calls/1/function", "messages[2].tool_calls[1].function.foo"),
        ("/messages/3", "messages[3].foo"),
        ("/tools/0", "tools[0].foo"),
        ("/tools/0/function", "tools[0].function.foo"),
    ] {
        let (message, path) = at(path);
        let change = |body: &mut Value| body.pointer_mut(pointer).unwrap()["foo"] = 1.into();
        check(change, &message, Some(&path), Some("unknown_parameter"));
    }
}

#[test]
fn required_fields_are_required() {
    check(
        |body| drop(body.as_object_mut().unwrap().remove("model")),
        "you must provide a model parameter",
        None,
        None,
    );
    let missing = |path: &str| format!("Missing required parameter: '{path}'.");
    let code = Some("missing_required_parameter");
    check(|body| body["messages"] = Value::Null, &missing("messages"), Some("messages"), code);
    let id = "messages[3].tool_call_id";
    check(|body| body["messages"][3]["tool_call_id"] = Value::Null, &missing(id), Some(id), code);
}

#[test]
fn an_unknown_role_is_rejected() {
    check(
        |body| body["messages"][0]["role"] = "model".into(),
        "Invalid value: 'model'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.",
        Some("messages[0].role"),
        Some("invalid_value"),
    );
}

#[test]
fn a_call_without_a_result_is_rejected() {
    let message = "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. \
                   The following tool_call_ids did not have response messages: call_a";
    check(
        |body| drop(body["messages"].as_array_mut().unwrap().pop()),
        message,
        Some("messages.[4].role"),
        None,
    );
    // A result that does not directly follow the calls does not count.
    check(
        |body| body["messages"].as_array_mut().unwrap().insert(4, json!({"role": "user", "content": "and?"})),
        message,
        Some("messages.[4].role"),
        None,
    );
}

#[test]
fn a_result_without_a_call_is_rejected() {
    let message = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.";
    check(
        |body| body["messages"][3]["tool_call_id"] = "call_z".into(),
        message,
        Some("messages.[3].role"),
        None,
    );
    // A second result for the same call.
    check(
        |body| body["messages"][4]["tool_call_id"] = "call_b".into(),
        message,
        Some("messages.[4].role"),
        None,
    );
}

#[test]
fn an_id_has_at_most_64_characters() {
    let long = "x".repeat(65);
    let message = "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 64, but got a \
                   string with length 65 instead.";
    let path = "messages[2].tool_calls[0].id";
    let change = |body: &mut Value| body["messages"][2]["tool_calls"][0]["id"] = long.into();
    check(change, message, Some(path), Some("string_above_max_length"));
}

#[test]
fn only_user_messages_contain_images() {
    let image = json!([{"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PNG}")}}]);
    for (index, role) in [(3, "tool"), (0, "system")] {
        let message = format!(
            "Invalid 'messages[{index}]'. Image URLs are only allowed for messages with role 'user', but this message with role \
             '{role}' contains an image URL."
        );
        let path = format!("messages[{index}]");
        let image = image.clone();
        check(
            |body| body["messages"][index]["content"] = image,
            &message,
            Some(&path),
            Some("invalid_value"),
        );
    }
}

#[test]
fn image_data_must_be_an_image() {
    let set_url =
        |body: &mut Value, url: &str| body["messages"][1]["content"][1]["image_url"]["url"] = url.into();
    let message = "You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', \
                   'jpeg', 'gif', 'webp'].";
    check(
        |body| set_url(body, "data:image/png;base64,aGVsbG8="),
        message,
        None,
        Some("invalid_image_format"),
    );
    let message = "Invalid MIME type. Only image types are supported.";
    check(
        |body| set_url(body, "data:text/plain;base64,aGVsbG8="),
        message,
        None,
        Some("invalid_image_format"),
    );
}

#[test]
fn arguments_must_be_a_string() {
    let path = "messages[2].tool_calls[0].function.arguments";
    let message = format!("Invalid type for '{path}': expected a string, but got an object instead.");
    let change = |body: &mut Value| body["messages"][2]["tool_calls"][0]["function"]["arguments"] = json!({});
    check(change, &message, Some(path), Some("invalid_type"));
}

#[test]
fn an_assistant_message_must_not_be_empty() {
    let change = |body: &mut Value| body["messages"] = json!([{"role": "assistant", "content": null}]);
    let message = "Invalid value for 'content': expected a string, got null.";
    check(change, message, Some("messages[0].content"), None);
}

#[test]
fn there_are_1_to_128_tools() {
    let message = "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.";
    check(|body| body["tools"] = json!([]), message, Some("tools"), Some("empty_array"));
    let message = "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 129 \
                   instead.";
    let too_many_tools = |body: &mut Value| body["tools"] = vec![body["tools"][0].clone(); 129].into();
    check(too_many_tools, message, Some("tools"), Some("array_above_max_length"));
}

#[test]
fn tool_names_are_checked() {
    let path = "tools[0].function.name";
    let message = "Invalid 'tools[0].function.name': string does not match pattern. Expected a string that matches the pattern \
                   '^[a-zA-Z0-9_-]+$'.";
    let with_name = |name: String| move |body: &mut Value| body["tools"][0]["function"]["name"] = name.into();
    check(with_name("a.b".to_owned()), message, Some(path), Some("invalid_value"));
    let message = "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64, but got a string \
                   with length 65 instead.";
    check(with_name("x".repeat(65)), message, Some(path), Some("string_above_max_length"));
}

#[test]
fn tool_schemas_are_checked() {
    check_schema(json!({"type": "object"}), false, "In context=(), object schema missing properties.");
    check_schema(
        json!({"properties": {}}),
        false,
        "schema must be a JSON Schema of 'type: \"object\"', got 'type: \"None\"'.",
    );
    check_schema(
        json!({"type": "object", "properties": {}, "anyOf": [{"required": ["a"]}]}),
        false,
        "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.",
    );
    check_schema(
        json!({"type": "object", "properties": {"targets": {"type": "array"}}}),
        false,
        "In context=('properties', 'targets'), array schema missing items.",
    );
    check_schema(
        json!({"type": "object", "properties": {"v": {"anyOf": [{"type": "string"}, {"type": ["array", "null"]}]}}}),
        false,
        "In context=('properties', 'v', 'anyOf', '1'), array schema missing items.",
    );
    check_schema(
        json!({"type": "object", "properties": {"u": {"type": "string", "pattern": "^\\p{L}+$"}}}),
        false,
        "'^\\\\p{L}+$' is not a 'regex'",
    );
}

#[test]
fn a_strict_schema_is_closed_and_requires_all_properties() {
    check_schema(
        json!({"type": "object", "properties": {}}),
        true,
        "In context=(), 'additionalProperties' is required to be supplied and to be false.",
    );
    check_schema(
        json!({"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": false}),
        true,
        "In context=(), 'required' is required to be supplied and to be an array including every key in properties. Missing 'x'.",
    );
    let with_property = |schema: Value| json!({"type": "object", "properties": {"x": schema}, "required": ["x"], "additionalProperties": false});
    check_schema(
        with_property(json!({"type": "string", "default": "a"})),
        true,
        "In context=('properties', 'x'), 'default' is not permitted.",
    );
    check_schema(
        with_property(json!({"type": "string", "format": "uri"})),
        true,
        "In context=('properties', 'x'), 'uri' is not a valid format.",
    );
    check_schema(
        with_property(json!({"$ref": "#/properties/y"})),
        true,
        "In context=('properties', 'x'), reference can only point to definitions defined at the top level of the schema.",
    );
    valid_request().check_accepted(Api::OpenAiChat, |request| {
        let function = &mut request.body["tools"][0]["function"];
        function["parameters"] = with_property(json!({"type": ["string", "null"], "enum": ["a", null]}));
        function["strict"] = true.into();
    });
}

#[test]
fn tool_choice_is_checked() {
    let message = "Invalid value: 'any'. Supported values are: 'none', 'auto', and 'required'.";
    check(|body| body["tool_choice"] = "any".into(), message, Some("tool_choice"), Some("invalid_value"));
    let unknown = json!({"type": "function", "function": {"name": "put"}});
    let message = "Tool choice 'function' not found in 'tools' parameter.";
    check(|body| body["tool_choice"] = unknown, message, Some("tool_choice"), None);
    let flat = json!({"type": "function", "name": "get"});
    let message = "Unknown parameter: 'tool_choice.name'.";
    check(|body| body["tool_choice"] = flat, message, Some("tool_choice.name"), Some("unknown_parameter"));
    for key in ["tool_choice", "parallel_tool_calls"] {
        let message =
            format!("Invalid value for '{key}': '{key}' is only allowed when 'tools' are specified.");
        let change = |body: &mut Value| {
            *body = json!({"model": "m", "messages": [{"role": "user", "content": "hello"}], key: true});
        };
        check(change, &message, Some(key), None);
    }
}

#[test]
fn stream_options_require_a_stream() {
    let change = |body: &mut Value| body["stream_options"] = json!({"include_usage": true});
    let message = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
    check(change, message, Some("stream_options"), None);
}
