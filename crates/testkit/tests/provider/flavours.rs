//! Where the kin of Chat Completions differ from it.

use serde_json::{Value, json};
use toolwire_testkit::provider::{Api, KEY};

use crate::chat::good as openai;
use crate::client::{Asked, bearer};

const FAMILY: [Api; 9] = [
    Api::OpenAiChat,
    Api::Azure,
    Api::Dial,
    Api::Mistral,
    Api::Groq,
    Api::DeepSeek,
    Api::Xai,
    Api::Vllm,
    Api::LlamaCpp,
];

/// OpenAI's good request as each of its kin wants it.
fn good(api: Api) -> Asked {
    let mut asked = openai();
    let deployment = "/openai/deployments/gpt/chat/completions";
    match api {
        Api::Azure => {
            asked =
                Asked::new(&format!("{deployment}?api-version=2024-10-21"), &[("api-key", KEY)], asked.body);
        }
        Api::Dial => asked = Asked::new(deployment, &[("api-key", KEY)], asked.body),
        Api::Groq => asked.path = "/openai/v1/chat/completions".to_owned(),
        Api::DeepSeek => asked.path = "/chat/completions".to_owned(),
        Api::Mistral => {
            let body = asked.body.to_string().replace("call_a", "abcdefgh1").replace("call_b", "abcdefgh2");
            asked.body = serde_json::from_str(&body).unwrap();
        }
        Api::Vllm | Api::LlamaCpp => drop(asked.headers.remove("authorization")),
        _ => {}
    }
    asked
}

#[track_caller]
fn check(api: Api, change: impl FnOnce(&mut Asked), status: u16, expected: Value) {
    let mut asked = good(api);
    change(&mut asked);
    assert_eq!(asked.judged(api), Some((status, expected)));
}

#[track_caller]
fn check_taken(api: Api, change: impl FnOnce(&mut Asked)) {
    let mut asked = good(api);
    change(&mut asked);
    assert_eq!(asked.judged(api), None);
}

fn openai_error(message: &str, parameter: Option<&str>, code: Option<&str>) -> Value {
    json!({"error": {"message": message, "type": "invalid_request_error", "param": parameter, "code": code}})
}

#[test]
fn a_good_request_is_taken_by_each() {
    FAMILY.into_iter().for_each(|api| check_taken(api, |_| {}));
}

#[test]
fn azure_wants_its_own_key_and_a_version() {
    let denied = "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key for an \
                  active subscription and use a correct regional API endpoint for your resource.";
    let expected = json!({"error": {"code": "401", "message": denied}});
    check(Api::Azure, |asked| asked.header("api-key", "x"), 401, expected);
    let path = "/openai/deployments/gpt/chat/completions".to_owned();
    let expected = json!({"error": {"code": "404", "message": "Resource not found"}});
    check(Api::Azure, |asked| asked.path = path, 404, expected);
    check_taken(Api::Azure, |asked| asked.path = "/openai/v1/chat/completions".to_owned());
    check_taken(Api::Azure, |asked| drop(asked.body.as_object_mut().unwrap().remove("model")));
}

#[test]
fn dial_wants_its_own_key() {
    let expected = json!({"error": {
        "message": "At least API-KEY or Authorization header must be provided", "code": "401",
    }});
    let wrong_door = |asked: &mut Asked| {
        asked.headers.remove("api-key");
        asked.header("authorization", &bearer());
    };
    check(Api::Dial, wrong_door, 401, expected);
    check(
        Api::Dial,
        |asked| asked.header("api-key", "x"),
        401,
        json!({"error": {"message": "Unknown api key", "code": "401"}}),
    );
}

#[test]
fn dial_takes_attachments_with_data_or_a_url() {
    let attached = |attachment: Value| {
        move |asked: &mut Asked| {
            asked.body["messages"][3]["custom_content"] = json!({"attachments": [attachment]});
        }
    };
    check_taken(Api::Dial, attached(json!({"type": "image/png", "data": "abc"})));
    let message = "Your request contained invalid structure on path messages.3.custom_content.attachments.0. Attachment must \
                   have either 'data' or 'url'";
    let expected = json!({"error": {"message": message, "type": "invalid_request_error", "code": "400"}});
    check(Api::Dial, attached(json!({"type": "image/png", "data": "a", "url": "b"})), 400, expected);
    let message =
        "Your request contained invalid structure on path messages.0.foo. extra fields not permitted";
    let expected = json!({"error": {"message": message, "type": "invalid_request_error", "code": "400"}});
    check(Api::Dial, |asked| asked.body["messages"][0]["foo"] = 1.into(), 400, expected);
}

#[test]
fn mistral_wants_ids_of_nine() {
    let change = |asked: &mut Asked| *asked = openai();
    let expected = json!({
        "object": "error", "message": "Tool call id was call_a but must be a-z, A-Z, 0-9, with a length of 9.",
        "type": "invalid_request_function_call", "param": null, "code": "3280",
    });
    check(Api::Mistral, change, 400, expected);
}

#[test]
fn mistral_wants_as_many_results_as_calls() {
    let expected = json!({
        "object": "error", "message": "Not the same number of function calls and responses",
        "type": "invalid_request_message_order", "param": null, "code": "3230",
    });
    let change = |asked: &mut Asked| drop(asked.body["messages"].as_array_mut().unwrap().pop());
    check(Api::Mistral, change, 400, expected);
}

#[test]
fn mistral_has_its_own_words() {
    check_taken(Api::Mistral, |asked| asked.body["tool_choice"] = "any".into());
    check_taken(Api::Mistral, |asked| {
        asked.body["messages"][2]["tool_calls"][0]["function"]["arguments"] = json!({"q": 1});
    });
    let expected = json!({
        "object": "error",
        "message": {"detail": [{
            "type": "extra_forbidden", "loc": ["body", "messages", 0, "foo"], "msg": "Extra inputs are not permitted",
        }]},
        "type": "invalid_request_error",
    });
    check(Api::Mistral, |asked| asked.body["messages"][0]["foo"] = 1.into(), 422, expected);
    let expected = json!({
        "object": "error",
        "message": "Function name was a.b but must be a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum length \
                    of 64.",
        "type": "invalid_request_function_call", "param": null, "code": "3280",
    });
    check(Api::Mistral, |asked| asked.body["tools"][0]["function"]["name"] = "a.b".into(), 400, expected);
}

#[test]
fn deepseek_wants_its_reasoning_back() {
    let thinking = |asked: &mut Asked| asked.body["model"] = "deepseek-reasoner".into();
    let message = "Missing `reasoning_content` field in the assistant message at message index 2. For more information, please \
                   refer to https://api-docs.deepseek.com/guides/thinking_mode#tool-calls";
    check(Api::DeepSeek, thinking, 400, openai_error(message, None, Some("invalid_request_error")));
    let returned = |asked: &mut Asked| {
        thinking(asked);
        asked.body["messages"][2]["reasoning_content"] = "hm".into();
    };
    check_taken(Api::DeepSeek, returned);
    let forced = |asked: &mut Asked| {
        returned(asked);
        asked.body["tool_choice"] = "required".into();
    };
    let expected = openai_error("Thinking mode does not support this tool_choice", None, None);
    check(Api::DeepSeek, forced, 400, expected);
}

#[test]
fn xai_takes_350_tools_and_no_empty_arguments() {
    let tools = |count: usize| {
        move |asked: &mut Asked| asked.body["tools"] = vec![asked.body["tools"][0].clone(); count].into()
    };
    check_taken(Api::Xai, tools(350));
    let message = "Invalid 'tools': array too long. Expected an array with maximum length 350, but got an array with length 351 \
                   instead.";
    check(Api::Xai, tools(351), 400, openai_error(message, Some("tools"), Some("array_above_max_length")));
    let way = "messages[2].tool_calls[0].function.arguments";
    let expected =
        openai_error("Invalid request content: Invalid arguments for function call.", Some(way), None);
    let change =
        |asked: &mut Asked| asked.body["messages"][2]["tool_calls"][0]["function"]["arguments"] = "".into();
    check(Api::Xai, change, 400, expected);
}

#[test]
fn groq_has_its_own_words_for_what_it_does_not_know() {
    let expected = openai_error("property 'foo' is unsupported", None, None);
    check(Api::Groq, |asked| asked.body["foo"] = 1.into(), 400, expected);
    check_taken(Api::Groq, |asked| asked.body["disable_tool_validation"] = true.into());
}

#[test]
fn local_servers_read_over_what_they_do_not_know() {
    for api in [Api::Vllm, Api::LlamaCpp] {
        check_taken(api, |asked| asked.body["foo"] = 1.into());
        check_taken(api, |asked| asked.body["tools"][0]["function"]["name"] = "a.b".into());
    }
    let message = "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.";
    let expected =
        json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": 400}});
    check(Api::Vllm, |asked| asked.body["tools"] = json!([]), 400, expected);
    check_taken(Api::LlamaCpp, |asked| asked.body["tool_choice"] = json!({"type": "anything"}));
}
