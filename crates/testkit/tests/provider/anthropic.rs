//! Requests that Anthropic's Messages accepts and rejects.

use serde_json::{Value, json};
use toolwire_testkit::provider::{API_KEY, Api, ModelOutput};

use crate::client::{JPEG, PNG, TestRequest, rendered};

/// Returns a turn with thinking, two calls and their results, as the fake provider renders it.
fn valid_request() -> TestRequest {
    let output = ModelOutput::text("Let me see.")
        .thinking("hm")
        .call("toolu_a", "get", "{}")
        .call("toolu_b", "get", "{}");
    let image =
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}});
    let body = json!({
        "model": "claude", "max_tokens": 4096, "system": "Be brief.",
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "messages": [
            {"role": "user", "content": "hello"},
            {"role": "user", "content": [{"type": "text", "text": "again"}]},
            {"role": "assistant", "content": rendered(Api::Anthropic, &output)["content"]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_b", "content": [image]},
                {"type": "tool_result", "tool_use_id": "toolu_a", "is_error": true, "content": [
                    {"type": "text", "text": "no"},
                ]},
                {"type": "text", "text": "and then?"},
            ]},
        ],
        "tools": [{"name": "get", "description": "Gets.", "input_schema": {"type": "object"}}],
    });
    TestRequest::new("/v1/messages", &[("x-api-key", API_KEY), ("anthropic-version", "2023-06-01")], body)
}

// The indexes of the blocks in the assistant message.
const THINKING: usize = 0;
const CALL: usize = 2;

fn error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
}

#[track_caller]
fn check_rejected(change: impl FnOnce(&mut TestRequest), status: u16, expected: Value) {
    valid_request().check_rejected(Api::Anthropic, change, status, expected);
}

#[track_caller]
fn check(change: impl FnOnce(&mut Value), message: &str) {
    check_rejected(|request| change(&mut request.body), 400, error("invalid_request_error", message));
}

#[track_caller]
fn check_accepted(change: impl FnOnce(&mut Value)) {
    valid_request().check_accepted(Api::Anthropic, |request| change(&mut request.body));
}

fn results(body: &mut Value) -> &mut Vec<Value> {
    body["messages"][3]["content"].as_array_mut().unwrap()
}

fn without_thinking(body: &mut Value) {
    body.as_object_mut().unwrap().remove("thinking");
}

#[test]
fn a_valid_request_is_accepted() {
    check_accepted(|_| {});
    check_accepted(without_thinking);
}

#[test]
fn key_and_version_are_required() {
    let failed = |message| error("authentication_error", message);
    let missing = failed("x-api-key header is required");
    check_rejected(|request| drop(request.headers.remove("x-api-key")), 401, missing);
    check_rejected(|request| request.set_header("x-api-key", "x"), 401, failed("invalid x-api-key"));
    let missing = error("invalid_request_error", "anthropic-version: header is required");
    check_rejected(|request| drop(request.headers.remove("anthropic-version")), 400, missing);
    check_rejected(
        |request| request.path = "/messages".to_owned(),
        404,
        error("not_found_error", "Not found"),
    );
}

#[test]
fn unknown_fields_are_rejected_at_every_level() {
    for (pointer, path) in [
        ("", "foo"),
        ("/messages/0", "messages.0.foo"),
        ("/messages/1/content/0", "messages.1.content.0.text.foo"),
        ("/messages/2/content/2", "messages.2.content.2.tool_use.foo"),
        ("/messages/3/content/0", "messages.3.content.0.tool_result.foo"),
        (
            "/messages/3/content/0/content/0/source",
            "messages.3.content.0.tool_result.content.0.image.source.base64.foo",
        ),
        ("/tools/0", "tools.0.custom.foo"),
    ] {
        let change = |body: &mut Value| body.pointer_mut(pointer).unwrap()["foo"] = 1.into();
        check(change, &format!("{path}: Extra inputs are not permitted"));
    }
}

#[test]
fn required_fields_are_required() {
    for key in ["model", "max_tokens", "messages"] {
        let change = |body: &mut Value| drop(body.as_object_mut().unwrap().remove(key));
        check(change, &format!("{key}: Field required"));
    }
    check(|body| body["max_tokens"] = 0.into(), "max_tokens: Input should be greater than or equal to 1");
}

#[test]
fn the_roles_are_user_and_assistant() {
    check(
        |body| body["messages"][0]["role"] = "system".into(),
        "messages: Unexpected role \"system\". The Messages API accepts a top-level `system` parameter, not \"system\" as an \
         input message role.",
    );
    let change = |body: &mut Value| body["messages"][0]["role"] = "tool".into();
    check(change, "messages.0.role: Input should be 'user' or 'assistant'");
}

#[test]
fn a_call_without_a_result_is_rejected() {
    let message = |ids: &str| {
        format!(
            "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: {ids}. Each `tool_use` block \
             must have a corresponding `tool_result` block in the next message."
        )
    };
    check(|body| drop(results(body).remove(0)), &message("toolu_b"));
    // Results after other blocks do not count.
    check(|body| results(body).rotate_right(1), &message("toolu_a, toolu_b"));
    // All results must be in the next message.
    check(
        |body| {
            let second = results(body).remove(1);
            body["messages"].as_array_mut().unwrap().push(json!({"role": "user", "content": [second]}));
        },
        &message("toolu_a"),
    );
}

#[test]
fn a_result_without_a_call_is_rejected() {
    check(
        |body| {
            let other = json!({"type": "tool_result", "tool_use_id": "toolu_z", "content": "three"});
            results(body).insert(2, other);
        },
        "messages.3.content.2: unexpected `tool_use_id` found in `tool_result` blocks: toolu_z. Each `tool_result` block must \
         have a corresponding `tool_use` block in the previous message.",
    );
    check(
        |body| {
            let again = results(body)[0].clone();
            results(body).insert(1, again);
        },
        "messages.3.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id: toolu_b",
    );
}

#[test]
fn ids_are_unique_and_match_the_pattern() {
    let change = |body: &mut Value| body["messages"][2]["content"][CALL + 1]["id"] = "toolu_a".into();
    check(change, "messages: `tool_use` ids must be unique");
    let change = |body: &mut Value| body["messages"][2]["content"][CALL]["id"] = "functions.get:0".into();
    check(change, "messages.2.content.2.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'");
}

#[test]
fn calls_and_results_need_the_right_role() {
    let change = |body: &mut Value| body["messages"][2]["role"] = "user".into();
    // The thinking block before the call is accepted in any role.
    check(change, "messages.2: `tool_use` blocks can only be in `assistant` messages");
    let change = |body: &mut Value| body["messages"][3]["role"] = "assistant".into();
    check(change, "messages.3: `tool_result` blocks can only be in `user` messages");
}

#[test]
fn empty_content_is_rejected() {
    let empty = "messages: text content blocks must be non-empty";
    check(|body| body["messages"][1]["content"][0]["text"] = "".into(), empty);
    check(|body| results(body)[1]["content"][0]["text"] = "".into(), empty);
    let message = "messages.0: all messages must have non-empty content except for the optional final assistant message";
    check(|body| body["messages"][0]["content"] = "".into(), message);
    check(|body| body["messages"][0]["content"] = json!([]), message);
}

#[test]
fn an_error_result_contains_only_text() {
    let message = "messages.3.content.0.tool_result: all content must be type 'text' if 'is_error' is true";
    check(|body| results(body)[0]["is_error"] = true.into(), message);
}

#[test]
fn an_image_matches_its_media_type() {
    let path = "messages.3.content.0.tool_result.content.0.image.source.base64";
    let message = format!("{path}.data: Image does not match the provided media type image/png");
    check(|body| results(body)[0]["content"][0]["source"]["data"] = JPEG.into(), &message);
    let message =
        format!("{path}.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'");
    check(|body| results(body)[0]["content"][0]["source"]["media_type"] = "image/svg+xml".into(), &message);
}

#[test]
fn input_must_be_an_object() {
    let change = |body: &mut Value| body["messages"][2]["content"][CALL]["input"] = "{}".into();
    check(change, "messages.2.content.2.tool_use.input: Input should be a valid dictionary");
}

#[test]
fn thinking_must_be_unaltered() {
    let invalid = "messages.2.content.0: Invalid `signature` in `thinking` block";
    check(|body| body["messages"][2]["content"][THINKING]["thinking"] = "hm!".into(), invalid);
    check(|body| body["messages"][2]["content"][THINKING]["signature"] = "abcd".into(), invalid);
    let change = |body: &mut Value| {
        body["messages"][2]["content"][THINKING] = json!({"type": "redacted_thinking", "data": "abcd"});
    };
    check(change, "messages.2.content.0: Invalid `data` in `redacted_thinking` block");
}

#[test]
fn with_thinking_on_a_turn_begins_with_a_thinking_block() {
    let dropped =
        |body: &mut Value| drop(body["messages"][2]["content"].as_array_mut().unwrap().remove(THINKING));
    check(
        dropped,
        "messages.2.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`. When `thinking` is enabled, a \
         final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` \
         blocks). We recommend you include thinking blocks from previous turns. To avoid this requirement, disable `thinking`. \
         Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking",
    );
    // Earlier turns, and requests without thinking, do not need the block.
    check_accepted(|body| {
        dropped(body);
        let messages = body["messages"].as_array_mut().unwrap();
        messages.push(json!({"role": "assistant", "content": "Done."}));
        messages.push(json!({"role": "user", "content": "Thanks."}));
    });
    check_accepted(|body| {
        dropped(body);
        without_thinking(body);
    });
}

#[test]
fn thinking_requires_a_budget_temperature_1_and_a_free_choice() {
    let budget = |count: u64| move |body: &mut Value| body["thinking"]["budget_tokens"] = count.into();
    check(budget(5), "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024");
    check(budget(4096), "`max_tokens` must be greater than `thinking.budget_tokens`.");
    let change = |body: &mut Value| body["temperature"] = 0.5.into();
    check(change, "`temperature` may only be set to 1 when thinking is enabled.");
    let change = |body: &mut Value| body["tool_choice"] = json!({"type": "any"});
    check(change, "Thinking may not be enabled when tool_choice forces tool use.");
}

#[test]
fn tools_are_checked() {
    let tool = |tool: Value| move |body: &mut Value| body["tools"] = json!([tool]);
    let with = |schema: Value| tool(json!({"name": "get", "input_schema": schema}));
    check(
        tool(json!({"name": "a.b", "input_schema": {"type": "object"}})),
        "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
    );
    let duplicate = |body: &mut Value| body["tools"] = json!([body["tools"][0], body["tools"][0]]);
    check(duplicate, "tools: Tool names must be unique.");
    check(with(json!({"properties": {}})), "tools.0.custom.input_schema.type: Field required");
    check(
        with(json!({"type": "object", "oneOf": [{}]})),
        "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
    );
    check(
        with(json!({"type": "object", "properties": {"a": {"exclusiveMinimum": true}}})),
        "tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12",
    );
    check(
        with(json!({"type": "object", "properties": {"$filter": {}}})),
        "tools.0.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'",
    );
    check(
        tool(json!({"name": "get", "strict": true, "input_schema": {"type": "object"}})),
        "tools.0.custom: For 'object' type, 'additionalProperties' must be explicitly set to false",
    );
    check_accepted(with(json!({"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}})));
}

#[test]
fn tool_choice_is_checked() {
    let choice = |choice: Value| {
        move |body: &mut Value| {
            without_thinking(body);
            body["tool_choice"] = choice;
        }
    };
    check_accepted(choice(json!({"type": "any", "disable_parallel_tool_use": true})));
    check(
        choice(json!({"type": "required"})),
        "tool_choice: Input tag 'required' found using 'type' does not match any of the expected tags: 'any', 'auto', 'none', \
         'tool'",
    );
    check(
        choice(json!({"type": "tool", "name": "put"})),
        "tool_choice: Tool 'put' not found in provided tools",
    );
    let without_tools = |body: &mut Value| {
        body.as_object_mut().unwrap().remove("tools");
        body["tool_choice"] = json!({"type": "auto"});
    };
    check(without_tools, "tool_choice: tool_choice may only be specified while providing tools");
}

#[test]
fn the_schema_of_a_response_has_closed_objects() {
    let format = |schema: Value| json!({"format": {"type": "json_schema", "schema": schema}});
    let closed = json!({"type": "object", "properties": {}, "additionalProperties": false});
    check_accepted(|body| body["output_config"] = format(closed));
    check(
        |body| body["output_config"] = format(json!({"type": "object"})),
        "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false",
    );
    check(
        |body| body["output_config"] = json!({"format": {"type": "json_object"}}),
        "output_config.format.type: Input should be 'json_schema'",
    );
}

/// Adds a response with a search of the provider, and the next question.
fn add_search(body: &mut Value, change: impl FnOnce(&mut Value)) {
    let output = ModelOutput::text("It is so.").search("q");
    let mut content = rendered(Api::Anthropic, &output)["content"].clone();
    change(&mut content);
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": content}));
    messages.push(json!({"role": "user", "content": "and?"}));
}

fn remove(content: &mut Value, index: usize) {
    content.as_array_mut().unwrap().remove(index);
}

#[test]
fn a_search_of_the_provider_comes_back_with_its_result() {
    check_accepted(|body| add_search(body, |_| {}));
    let output = ModelOutput::text("It is so.").search("q");
    let id = rendered(Api::Anthropic, &output)["content"][0]["id"].as_str().unwrap().to_owned();
    check(
        |body| add_search(body, |content| remove(content, 0)),
        &format!(
            "messages.4.content.0: unexpected `tool_use_id` found in `web_search_tool_result` blocks: {id}. Each \
             `web_search_tool_result` block must have a corresponding `server_tool_use` block before it."
        ),
    );
    check(
        |body| add_search(body, |content| remove(content, 1)),
        &format!(
            "`web_search` tool use with id `{id}` was found without a corresponding `web_search_tool_result` block"
        ),
    );
    // Only the last message may end with a call of the provider, which then continues.
    check_accepted(|body| {
        add_search(body, |content| remove(content, 1));
        body["messages"].as_array_mut().unwrap().pop();
        without_thinking(body);
    });
}

#[test]
fn the_result_of_a_search_is_unaltered() {
    let page = "messages.4.content.1.web_search_tool_result.content.0";
    let citation = "messages.4.content.2.text.citations.0.web_search_result_location";
    check(
        |body| add_search(body, |content| drop(content[1]["content"][0]["encrypted_content"].take())),
        &format!("{page}.encrypted_content: Field required"),
    );
    check(
        |body| add_search(body, |content| content[1]["content"][0]["encrypted_content"] = json!("YQ==")),
        &format!("{page}: Invalid `encrypted_content`"),
    );
    check(
        |body| add_search(body, |content| drop(content[2]["citations"][0]["encrypted_index"].take())),
        &format!("{citation}.encrypted_index: Field required"),
    );
}
