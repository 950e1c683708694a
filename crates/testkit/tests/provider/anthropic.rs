//! What Anthropic's Messages takes and refuses.

use serde_json::{Value, json};
use toolwire_testkit::provider::{Api, KEY, Said, render};

use crate::client::{Asked, JPEG, PNG};

/// A turn with thinking, two calls and their results, as the server itself wrote it.
fn good() -> Asked {
    let said =
        Said::text("Let me see.").thinking("hm").call("toolu_a", "get", "{}").call("toolu_b", "get", "{}");
    let answer: Value = serde_json::from_slice(&render(Api::Anthropic, &said, false)[0]).unwrap();
    let image =
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}});
    let body = json!({
        "model": "claude", "max_tokens": 4096, "system": "Be brief.",
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "messages": [
            {"role": "user", "content": "hello"},
            {"role": "user", "content": [{"type": "text", "text": "again"}]},
            {"role": "assistant", "content": answer["content"]},
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
    Asked::new("/v1/messages", &[("x-api-key", KEY), ("anthropic-version", "2023-06-01")], body)
}

// Where the blocks of the answer are.
const THINKING: usize = 0;
const CALL: usize = 2;

fn error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
}

#[track_caller]
fn check_refused(change: impl FnOnce(&mut Asked), status: u16, expected: Value) {
    let mut asked = good();
    change(&mut asked);
    assert_eq!(asked.judged(Api::Anthropic), Some((status, expected)));
}

#[track_caller]
fn check(change: impl FnOnce(&mut Value), message: &str) {
    check_refused(|asked| change(&mut asked.body), 400, error("invalid_request_error", message));
}

#[track_caller]
fn check_taken(change: impl FnOnce(&mut Value)) {
    let mut asked = good();
    change(&mut asked.body);
    assert_eq!(asked.judged(Api::Anthropic), None);
}

fn results(body: &mut Value) -> &mut Vec<Value> {
    body["messages"][3]["content"].as_array_mut().unwrap()
}

fn without_thinking(body: &mut Value) {
    body.as_object_mut().unwrap().remove("thinking");
}

#[test]
fn a_good_request_is_taken() {
    check_taken(|_| {});
    check_taken(without_thinking);
}

#[test]
fn key_and_version_are_asked_for() {
    let failed = |message| error("authentication_error", message);
    let missing = failed("x-api-key header is required");
    check_refused(|asked| drop(asked.headers.remove("x-api-key")), 401, missing);
    check_refused(|asked| asked.header("x-api-key", "x"), 401, failed("invalid x-api-key"));
    let missing = error("invalid_request_error", "anthropic-version: header is required");
    check_refused(|asked| drop(asked.headers.remove("anthropic-version")), 400, missing);
    check_refused(|asked| asked.path = "/messages".to_owned(), 404, error("not_found_error", "Not found"));
}

#[test]
fn unknown_fields_are_refused_at_every_level() {
    for (pointer, way) in [
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
        check(change, &format!("{way}: Extra inputs are not permitted"));
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
fn a_role_is_a_users_or_an_assistants() {
    check(
        |body| body["messages"][0]["role"] = "system".into(),
        "messages: Unexpected role \"system\". The Messages API accepts a top-level `system` parameter, not \"system\" as an \
         input message role.",
    );
    let change = |body: &mut Value| body["messages"][0]["role"] = "tool".into();
    check(change, "messages.0.role: Input should be 'user' or 'assistant'");
}

#[test]
fn a_call_without_a_result_is_refused() {
    let message = |ids: &str| {
        format!(
            "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: {ids}. Each `tool_use` block \
             must have a corresponding `tool_result` block in the next message."
        )
    };
    check(|body| drop(results(body).remove(0)), &message("toolu_b"));
    // What stands before the results hides them.
    check(|body| results(body).rotate_right(1), &message("toolu_a, toolu_b"));
    // All of them in the one next message.
    check(
        |body| {
            let second = results(body).remove(1);
            body["messages"].as_array_mut().unwrap().push(json!({"role": "user", "content": [second]}));
        },
        &message("toolu_a"),
    );
}

#[test]
fn a_result_without_a_call_is_refused() {
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
fn ids_are_unique_and_fit() {
    let change = |body: &mut Value| body["messages"][2]["content"][CALL + 1]["id"] = "toolu_a".into();
    check(change, "messages: `tool_use` ids must be unique");
    let change = |body: &mut Value| body["messages"][2]["content"][CALL]["id"] = "functions.get:0".into();
    check(change, "messages.2.content.2.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'");
}

#[test]
fn calls_and_results_are_on_their_sides() {
    let change = |body: &mut Value| body["messages"][2]["role"] = "user".into();
    // The thinking block comes first, and is taken anywhere; the call is not.
    check(change, "messages.2: `tool_use` blocks can only be in `assistant` messages");
    let change = |body: &mut Value| body["messages"][3]["role"] = "assistant".into();
    check(change, "messages.3: `tool_result` blocks can only be in `user` messages");
}

#[test]
fn nothing_is_empty() {
    let empty = "messages: text content blocks must be non-empty";
    check(|body| body["messages"][1]["content"][0]["text"] = "".into(), empty);
    check(|body| results(body)[1]["content"][0]["text"] = "".into(), empty);
    let message = "messages.0: all messages must have non-empty content except for the optional final assistant message";
    check(|body| body["messages"][0]["content"] = "".into(), message);
    check(|body| body["messages"][0]["content"] = json!([]), message);
}

#[test]
fn an_error_holds_text_only() {
    let message = "messages.3.content.0.tool_result: all content must be type 'text' if 'is_error' is true";
    check(|body| results(body)[0]["is_error"] = true.into(), message);
}

#[test]
fn an_image_is_what_it_says() {
    let way = "messages.3.content.0.tool_result.content.0.image.source.base64";
    let message = format!("{way}.data: Image does not match the provided media type image/png");
    check(|body| results(body)[0]["content"][0]["source"]["data"] = JPEG.into(), &message);
    let message =
        format!("{way}.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'");
    check(|body| results(body)[0]["content"][0]["source"]["media_type"] = "image/svg+xml".into(), &message);
}

#[test]
fn input_is_an_object() {
    let change = |body: &mut Value| body["messages"][2]["content"][CALL]["input"] = "{}".into();
    check(change, "messages.2.content.2.tool_use.input: Input should be a valid dictionary");
}

#[test]
fn thinking_comes_back_unaltered() {
    let invalid = "messages.2.content.0: Invalid `signature` in `thinking` block";
    check(|body| body["messages"][2]["content"][THINKING]["thinking"] = "hm!".into(), invalid);
    check(|body| body["messages"][2]["content"][THINKING]["signature"] = "abcd".into(), invalid);
    let change = |body: &mut Value| {
        body["messages"][2]["content"][THINKING] = json!({"type": "redacted_thinking", "data": "abcd"});
    };
    check(change, "messages.2.content.0: Invalid `data` in `redacted_thinking` block");
}

#[test]
fn with_thinking_on_a_turn_of_calls_begins_with_it() {
    let dropped =
        |body: &mut Value| drop(body["messages"][2]["content"].as_array_mut().unwrap().remove(THINKING));
    check(
        dropped,
        "messages.2.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`. When `thinking` is enabled, a \
         final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` \
         blocks). We recommend you include thinking blocks from previous turns. To avoid this requirement, disable `thinking`. \
         Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking",
    );
    // An earlier turn may have lost it, and without thinking nobody asks.
    check_taken(|body| {
        dropped(body);
        let messages = body["messages"].as_array_mut().unwrap();
        messages.push(json!({"role": "assistant", "content": "Done."}));
        messages.push(json!({"role": "user", "content": "Thanks."}));
    });
    check_taken(|body| {
        dropped(body);
        without_thinking(body);
    });
}

#[test]
fn thinking_has_its_conditions() {
    let budget = |count: u64| move |body: &mut Value| body["thinking"]["budget_tokens"] = count.into();
    check(budget(5), "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024");
    check(budget(4096), "`max_tokens` must be greater than `thinking.budget_tokens`.");
    let change = |body: &mut Value| body["temperature"] = 0.5.into();
    check(change, "`temperature` may only be set to 1 when thinking is enabled.");
    let change = |body: &mut Value| body["tool_choice"] = json!({"type": "any"});
    check(change, "Thinking may not be enabled when tool_choice forces tool use.");
}

#[test]
fn tools_fit() {
    let tool = |tool: Value| move |body: &mut Value| body["tools"] = json!([tool]);
    let with = |schema: Value| tool(json!({"name": "get", "input_schema": schema}));
    check(
        tool(json!({"name": "a.b", "input_schema": {"type": "object"}})),
        "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
    );
    let twice = |body: &mut Value| body["tools"] = json!([body["tools"][0], body["tools"][0]]);
    check(twice, "tools: Tool names must be unique.");
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
    check_taken(with(json!({"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}})));
}

#[test]
fn a_choice_has_one_of_its_forms() {
    let choice = |choice: Value| {
        move |body: &mut Value| {
            without_thinking(body);
            body["tool_choice"] = choice;
        }
    };
    check_taken(choice(json!({"type": "any", "disable_parallel_tool_use": true})));
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
