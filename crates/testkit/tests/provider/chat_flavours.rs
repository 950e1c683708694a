//! The differences between the APIs that follow Chat Completions.

use serde_json::{Value, json};
use toolwire_testkit::provider::{API_KEY, Api};

use crate::chat::valid_request as openai;
use crate::client::{TestRequest, bearer, openai_error};

/// Returns the valid request for OpenAI, adapted to an API.
fn valid_request(api: Api) -> TestRequest {
    let mut request = openai();
    let deployment = "/openai/deployments/gpt/chat/completions";
    match api {
        Api::Azure => {
            request = TestRequest::new(
                &format!("{deployment}?api-version=2024-10-21"),
                &[("api-key", API_KEY)],
                request.body,
            );
        }
        Api::Dial => request = TestRequest::new(deployment, &[("api-key", API_KEY)], request.body),
        Api::Groq => request.path = "/openai/v1/chat/completions".to_owned(),
        Api::DeepSeek => request.path = "/chat/completions".to_owned(),
        Api::Mistral => {
            let body = request.body.to_string().replace("call_a", "abcdefgh1").replace("call_b", "abcdefgh2");
            request.body = serde_json::from_str(&body).unwrap();
        }
        Api::Vllm | Api::LlamaCpp => drop(request.headers.remove("authorization")),
        _ => {}
    }
    request
}

#[track_caller]
fn check(api: Api, change: impl FnOnce(&mut TestRequest), status: u16, expected: Value) {
    valid_request(api).check_rejected(api, change, status, expected);
}

#[track_caller]
fn check_accepted(api: Api, change: impl FnOnce(&mut TestRequest)) {
    valid_request(api).check_accepted(api, change);
}

#[test]
fn every_api_accepts_a_valid_request() {
    Api::CHAT_FLAVOURS.iter().for_each(|api| check_accepted(*api, |_| {}));
}

#[test]
fn azure_requires_its_key_header_and_a_version() {
    let message = "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key for an \
                  active subscription and use a correct regional API endpoint for your resource.";
    let expected = json!({"error": {"code": "401", "message": message}});
    check(Api::Azure, |request| request.set_header("api-key", "x"), 401, expected);
    let path = "/openai/deployments/gpt/chat/completions".to_owned();
    let expected = json!({"error": {"code": "404", "message": "Resource not found"}});
    check(Api::Azure, |request| request.path = path, 404, expected);
    check_accepted(Api::Azure, |request| request.path = "/openai/v1/chat/completions".to_owned());
    check_accepted(Api::Azure, |request| drop(request.body.as_object_mut().unwrap().remove("model")));
}

#[test]
fn dial_requires_its_key_header() {
    let expected = json!({"error": {
        "message": "At least API-KEY or Authorization header must be provided", "code": "401",
    }});
    let wrong_header = |request: &mut TestRequest| {
        request.headers.remove("api-key");
        request.set_header("authorization", &bearer());
    };
    check(Api::Dial, wrong_header, 401, expected);
    check(
        Api::Dial,
        |request| request.set_header("api-key", "x"),
        401,
        json!({"error": {"message": "Unknown api key", "code": "401"}}),
    );
}

#[test]
fn dial_accepts_attachments_with_data_or_a_url() {
    let with_attachment = |attachment: Value| {
        move |request: &mut TestRequest| {
            request.body["messages"][3]["custom_content"] = json!({"attachments": [attachment]});
        }
    };
    check_accepted(Api::Dial, with_attachment(json!({"type": "image/png", "data": "abc"})));
    let message = "Your request contained invalid structure on path messages.3.custom_content.attachments.0. Attachment must \
                   have either 'data' or 'url'";
    let expected = json!({"error": {"message": message, "type": "invalid_request_error", "code": "400"}});
    check(Api::Dial, with_attachment(json!({"type": "image/png", "data": "a", "url": "b"})), 400, expected);
    let message =
        "Your request contained invalid structure on path messages.0.foo. extra fields not permitted";
    let expected = json!({"error": {"message": message, "type": "invalid_request_error", "code": "400"}});
    check(Api::Dial, |request| request.body["messages"][0]["foo"] = 1.into(), 400, expected);
}

#[test]
fn mistral_requires_ids_of_nine_characters() {
    let change = |request: &mut TestRequest| *request = openai();
    let expected = json!({
        "object": "error", "message": "Tool call id was call_a but must be a-z, A-Z, 0-9, with a length of 9.",
        "type": "invalid_request_function_call", "param": null, "code": "3280",
    });
    check(Api::Mistral, change, 400, expected);
}

#[test]
fn mistral_requires_as_many_results_as_calls() {
    let expected = json!({
        "object": "error", "message": "Not the same number of function calls and responses",
        "type": "invalid_request_message_order", "param": null, "code": "3230",
    });
    let change = |request: &mut TestRequest| drop(request.body["messages"].as_array_mut().unwrap().pop());
    check(Api::Mistral, change, 400, expected);
}

#[test]
fn mistral_has_its_own_choices_arguments_and_errors() {
    check_accepted(Api::Mistral, |request| request.body["tool_choice"] = "any".into());
    check_accepted(Api::Mistral, |request| {
        request.body["messages"][2]["tool_calls"][0]["function"]["arguments"] = json!({"q": 1});
    });
    let expected = json!({
        "object": "error",
        "message": {"detail": [{
            "type": "extra_forbidden", "loc": ["body", "messages", 0, "foo"], "msg": "Extra inputs are not permitted",
        }]},
        "type": "invalid_request_error",
    });
    check(Api::Mistral, |request| request.body["messages"][0]["foo"] = 1.into(), 422, expected);
    let expected = json!({
        "object": "error",
        "message": "Function name was a.b but must be a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum length \
                    of 64.",
        "type": "invalid_request_function_call", "param": null, "code": "3280",
    });
    check(Api::Mistral, |request| request.body["tools"][0]["function"]["name"] = "a.b".into(), 400, expected);
}

#[test]
fn deepseek_requires_its_reasoning_content() {
    let use_thinking_model = |request: &mut TestRequest| request.body["model"] = "deepseek-reasoner".into();
    let message = "Missing `reasoning_content` field in the assistant message at message index 2. For more information, please \
                   refer to https://api-docs.deepseek.com/guides/thinking_mode#tool-calls";
    check(Api::DeepSeek, use_thinking_model, 400, openai_error(message, None, Some("invalid_request_error")));
    let with_reasoning = |request: &mut TestRequest| {
        use_thinking_model(request);
        request.body["messages"][2]["reasoning_content"] = "hm".into();
    };
    check_accepted(Api::DeepSeek, with_reasoning);
    let forced = |request: &mut TestRequest| {
        with_reasoning(request);
        request.body["tool_choice"] = "required".into();
    };
    let expected = openai_error("Thinking mode does not support this tool_choice", None, None);
    check(Api::DeepSeek, forced, 400, expected);
}

#[test]
fn xai_accepts_350_tools_and_no_empty_arguments() {
    let tools = |count: usize| {
        move |request: &mut TestRequest| {
            request.body["tools"] = vec![request.body["tools"][0].clone(); count].into()
        }
    };
    check_accepted(Api::Xai, tools(350));
    let message = "Invalid 'tools': array too long. Expected an array with maximum length 350, but got an array with length 351 \
                   instead.";
    check(Api::Xai, tools(351), 400, openai_error(message, Some("tools"), Some("array_above_max_length")));
    let path = "messages[2].tool_calls[0].function.arguments";
    let expected =
        openai_error("Invalid request content: Invalid arguments for function call.", Some(path), None);
    let change = |request: &mut TestRequest| {
        request.body["messages"][2]["tool_calls"][0]["function"]["arguments"] = "".into()
    };
    check(Api::Xai, change, 400, expected);
}

#[test]
fn groq_has_its_own_error_for_unknown_fields() {
    let expected = openai_error("property 'foo' is unsupported", None, None);
    check(Api::Groq, |request| request.body["foo"] = 1.into(), 400, expected);
    check_accepted(Api::Groq, |request| request.body["disable_tool_validation"] = true.into());
}

#[test]
fn local_servers_ignore_unknown_fields() {
    for api in [Api::Vllm, Api::LlamaCpp] {
        check_accepted(api, |request| request.body["foo"] = 1.into());
        check_accepted(api, |request| request.body["tools"][0]["function"]["name"] = "a.b".into());
    }
    let message = "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.";
    let expected =
        json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": 400}});
    check(Api::Vllm, |request| request.body["tools"] = json!([]), 400, expected);
    check_accepted(Api::LlamaCpp, |request| request.body["tool_choice"] = json!({"type": "anything"}));
}

/// Adds a format of the response, and removes the tools unless they are wanted.
fn require_form(format: Value, has_tools: bool) -> impl FnOnce(&mut TestRequest) {
    move |request| {
        let body = request.body.as_object_mut().unwrap();
        if !has_tools {
            body.remove("tools");
            body.remove("tool_choice");
        }
        body.insert("response_format".to_owned(), format);
    }
}

fn closed_schema() -> Value {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false});
    json!({"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": true}})
}

#[test]
fn each_api_has_its_own_response_formats() {
    for api in Api::CHAT_FLAVOURS {
        if *api != Api::DeepSeek {
            check_accepted(*api, require_form(closed_schema(), false));
        }
        check_accepted(*api, require_form(json!({"type": "text"}), true));
    }
    for api in [Api::OpenAiChat, Api::Azure, Api::Xai] {
        check_accepted(api, require_form(closed_schema(), true));
    }
    let message = "This response_format type is unavailable now";
    check(Api::DeepSeek, require_form(closed_schema(), false), 400, openai_error(message, None, None));
    let message = "json mode cannot be combined with tool/function calling";
    check(Api::Groq, require_form(closed_schema(), true), 400, openai_error(message, None, None));
    let stream = |request: &mut TestRequest| {
        require_form(closed_schema(), false)(request);
        request.body["stream"] = json!(true);
    };
    let message = "response_format json_schema does not support streaming";
    check(Api::Groq, stream, 400, openai_error(message, None, None));
    for (api, message) in [
        (Api::Vllm, "You can only use one kind of constraint for guided decoding."),
        (Api::LlamaCpp, "Cannot use custom grammar constraints with tools."),
    ] {
        let error = json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": 400}});
        check(api, require_form(closed_schema(), true), 400, error);
    }
}

#[test]
fn openai_checks_the_schema_of_a_response_and_the_word_json() {
    let mut open = closed_schema();
    open["json_schema"]["schema"]["additionalProperties"] = json!(true);
    let message = "Invalid schema for response_format 'n': In context=(), 'additionalProperties' is required to be \
                   supplied and to be false.";
    let path = "response_format.json_schema";
    let error = openai_error(message, Some(path), Some("invalid_json_schema"));
    check(Api::OpenAiChat, require_form(open.clone(), true), 400, error);
    open["json_schema"]["strict"] = json!(false);
    check_accepted(Api::OpenAiChat, require_form(open, true));
    let message = "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.";
    let format = json!({"type": "json_object"});
    check(
        Api::OpenAiChat,
        require_form(format.clone(), true),
        400,
        openai_error(message, Some("messages"), None),
    );
    check_accepted(Api::OpenAiChat, |request| {
        require_form(format, true)(request);
        request.body["messages"][0]["content"] = json!("Write JSON.");
    });
}
