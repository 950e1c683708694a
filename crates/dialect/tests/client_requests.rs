//! Requests of clients: reading what was written gives the same request, and invalid requests are explained.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolwire_contract::model::{Effort, FamilyFields, Generation, ModelRequest, OutputFormat, ToolChoice};
use toolwire_contract::{Block, Content, Message, Role, Tool, ToolCall, ToolResult};
use toolwire_dialect::client::{ClientRequest, read_client_request};
use toolwire_dialect::request::{RequestError, RequestOptions, write_request, write_request_text};
use toolwire_dialect::{Dialect, Family, Options, Toolset};

const SERVED: [(Dialect, Family); 3] = [
    (Dialect::OpenAi, Family::OpenAiChat),
    (Dialect::Responses, Family::OpenAiResponses),
    (Dialect::Anthropic, Family::Anthropic),
];

/// A tiny image.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn text() -> impl Strategy<Value = String> {
    "[a-zäß🌍\"\\\\{}<>]([ a-zäß🌍\"\\\\{}<>\n]{0,20}[a-zß}])?"
}

fn arguments() -> impl Strategy<Value = Map<String, Value>> {
    let value = prop_oneof![
        text().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        Just(json!([1, {"a": null}]))
    ];
    prop::collection::btree_map("[a-z]{1,4}", value, 0..3).prop_map(|fields| fields.into_iter().collect())
}

/// One exchange: the user's text and perhaps an image, then the assistant's text or calls, with their
/// results.
#[derive(Clone, Debug)]
struct Exchange {
    question: String,
    has_image: bool,
    reply: String,
    calls: Vec<(Map<String, Value>, String, bool)>,
}

fn exchange() -> impl Strategy<Value = Exchange> {
    let calls = prop::collection::vec((arguments(), text(), any::<bool>()), 0..3);
    (text(), any::<bool>(), text(), calls).prop_map(|(question, has_image, reply, calls)| Exchange {
        question,
        has_image,
        reply,
        calls,
    })
}

/// Returns the messages in the form that a request has after it was read. Only one API marks errors.
fn messages(exchanges: &[Exchange], has_error_flag: bool) -> Vec<Arc<Message>> {
    let mut messages = Vec::new();
    let mut number = 0;
    for exchange in exchanges {
        let mut content = vec![Block::Content(Content::text(&*exchange.question))];
        if exchange.has_image {
            let mut image = Content::image(PNG, "image/png");
            if let (Content::Image { extra, .. }, false) = (&mut image, has_error_flag) {
                // Only OpenAI's APIs have it, and they have no flag for errors.
                *extra = json!({"_meta": {"toolwire/detail": "low"}}).as_object().unwrap().clone();
            }
            content.push(Block::Content(image));
        }
        messages.push(Message::new(Role::User, content));
        let mut reply = vec![Block::Content(Content::text(&*exchange.reply))];
        let mut results = Vec::new();
        for (arguments, result, is_error) in &exchange.calls {
            number += 1;
            let id = format!("call_{number}");
            reply.push(Block::Call { id: id.clone(), call: ToolCall::new("get", arguments.clone()) });
            let result = match is_error & has_error_flag {
                true => ToolResult::error(&**result),
                false => ToolResult::text(&**result),
            };
            results.push(Block::Result { id, result });
        }
        messages.push(Message::new(Role::Assistant, reply));
        if !results.is_empty() {
            messages.push(Message::new(Role::User, results));
            messages.push(Message::assistant("Done."));
        }
    }
    messages.push(Message::user("And now?"));
    messages.into_iter().map(Arc::new).collect()
}

fn tools() -> Arc<[Tool]> {
    let tool = |name: &str| {
        let schema = json!({"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]});
        Tool { description: Some("Gets it.".to_owned()), ..Tool::new(name, schema) }
    };
    let mut strict = tool("strict");
    strict.input_schema.as_mut().unwrap()["additionalProperties"] = json!(false);
    strict.extra = json!({"_meta": {"toolwire/strict": true}}).as_object().unwrap().clone();
    Arc::new([tool("get"), tool("put"), strict])
}

fn body(dialect: Dialect, request: &ModelRequest, stream: bool) -> Value {
    let toolset = Toolset::new(&request.tools, dialect, &Options::default());
    let mut options = RequestOptions::default();
    options.model = "m/x".to_owned();
    options.stream = stream;
    write_request(dialect, request, &toolset, &options).unwrap()
}

/// Writes a request that was read, for the client's own API.
fn rewritten(dialect: Dialect, client: &ClientRequest, sent: &Value) -> Value {
    let verbatim = client.verbatim(dialect.family(), &sent.to_string()).unwrap();
    let request = ModelRequest { verbatim: Some(Arc::new(verbatim)), ..client.request.clone() };
    let toolset = Toolset::new(&[], dialect, &Options::default());
    let mut options = RequestOptions::default();
    options.model = client.model.clone();
    options.stream = client.stream;
    serde_json::from_str(&write_request_text(dialect, &request, &toolset, &options).unwrap()).unwrap()
}

fn generation(family: Family, seed: i64) -> Generation {
    let mut generation = Generation::default();
    generation.top_p = Some(0.5);
    generation.parallel_calls = Some(false);
    generation.effort = Some(Effort::High);
    generation.user = Some("u".to_owned());
    if family != Family::OpenAiResponses {
        generation.stop = vec!["END".to_owned(), "\n".to_owned()];
    }
    if family == Family::OpenAiChat {
        generation.seed = Some(seed);
        generation.presence_penalty = Some(0.25);
        generation.frequency_penalty = Some(-0.5);
    }
    if family == Family::Anthropic {
        generation.top_k = Some(7);
    }
    generation
}

/// Fields that no type represents. OpenAI's Chat Completions accepts labels only for responses that it
/// stores.
fn family_fields(family: Family, labels: Option<&BTreeMap<String, String>>) -> FamilyFields {
    let fields = match family {
        Family::Anthropic => json!({"service_tier": "standard_only"}),
        _ => {
            let mut fields = json!({
                "service_tier": "flex", "prompt_cache_key": "k", "prompt_cache_retention": "24h",
                "safety_identifier": "s", "logit_bias": {"1": 2},
            });
            match family {
                Family::OpenAiChat => fields["verbosity"] = json!("low"),
                _ => fields["text"] = json!({"verbosity": "low"}),
            }
            if let Some(labels) = labels {
                (fields["metadata"], fields["store"]) = (json!(labels), json!(true));
            }
            fields
        }
    };
    FamilyFields { family: family.meta_key().to_owned(), fields: fields.as_object().unwrap().clone() }
}

/// A format whose schema has the same form in every API.
fn output() -> impl Strategy<Value = OutputFormat> {
    let schema = json!({
        "type": "object",
        "properties": {"city": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}},
        "required": ["city", "tags"],
        "additionalProperties": false,
    });
    let schema = (any::<bool>(), prop::option::of(text())).prop_map(move |(strict, description)| {
        OutputFormat::Schema { name: "weather".to_owned(), description, schema: schema.clone(), strict }
    });
    prop_oneof![Just(OutputFormat::Text), Just(OutputFormat::Json), schema]
}

proptest! {
    #[test]
    fn reading_a_written_request_gives_the_same_request(
        exchanges in prop::collection::vec(exchange(), 0..4),
        instructions in prop::option::of(text()),
        choice in prop_oneof![
            Just(ToolChoice::Auto), Just(ToolChoice::Required), Just(ToolChoice::None), Just(ToolChoice::Tool("put".to_owned()))
        ],
        stream in any::<bool>(),
        seed in any::<i32>(),
        output in output(),
        labels in prop::option::of(prop::collection::btree_map("[a-z]{1,4}", text(), 1..3)),
    ) {
        for (dialect, family) in SERVED {
            let mut generation = generation(family, seed.into());
            generation.family_fields = Some(family_fields(family, labels.as_ref()));
            if (family, &choice) == (Family::Anthropic, &ToolChoice::None) {
                // This API has the parameter only where calls are possible.
                generation.parallel_calls = None;
            }
            if family == Family::Anthropic {
                generation.thinking_tokens = Some(2_000 + u64::from(seed.unsigned_abs()));
            }
            let output = match (family, &output) {
                // This API has no mode for any JSON.
                (Family::Anthropic, OutputFormat::Json) => OutputFormat::Text,
                // It has only the schema itself.
                (Family::Anthropic, OutputFormat::Schema { schema, .. }) => OutputFormat::schema(schema.clone()),
                (_, output) => output.clone(),
            };
            // OpenAI's mode for any JSON requires that the conversation mentions it.
            let instructions = match output {
                OutputFormat::Json => Some("Respond in JSON.".to_owned()),
                _ => instructions.clone(),
            };
            let request = ModelRequest {
                output,
                instructions,
                messages: messages(&exchanges, family == Family::Anthropic),
                tools: tools(),
                tool_choice: choice.clone(),
                max_output_tokens: Some(100),
                temperature: Some(0.25),
                generation,
                ..ModelRequest::default()
            };
            let sent = body(dialect, &request, stream);
            let client = read_client_request(family, sent.clone()).unwrap().unwrap();
            prop_assert_eq!(rewritten(dialect, &client, &sent), sent, "{:?}", family);
            prop_assert_eq!((&*client.model, client.stream), ("m/x", stream));
            let mut request = request;
            if let (Family::OpenAiResponses, Some(own)) = (family, &mut request.generation.family_fields) {
                // The writer adds these.
                own.fields.entry("store").or_insert(json!(false));
                own.fields.insert("include".to_owned(), json!(["reasoning.encrypted_content"]));
            }
            prop_assert_eq!(client.request, request, "{:?}", family);
        }
    }
}

#[track_caller]
fn read(family: Family, body: Value) -> toolwire_dialect::client::ClientRequest {
    read_client_request(family, body).expect("a served API").unwrap()
}

#[track_caller]
fn check_error(family: Family, body: Value, expected: &str) {
    let error = read_client_request(family, body).expect("a served API").unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn an_invalid_request_is_explained() {
    use Family::{Anthropic, OpenAiChat, OpenAiResponses};
    let hi = json!([{"role": "user", "content": "hi"}]);
    check_error(OpenAiChat, json!([]), "`` must be an object, not an array");
    check_error(OpenAiChat, json!({"messages": hi}), "`model` is required");
    check_error(OpenAiChat, json!({"model": 1, "messages": hi}), "`model` must be a string, not a number");
    check_error(OpenAiChat, json!({"model": "m"}), "`messages` is required");
    check_error(
        OpenAiChat,
        json!({"model": "m", "messages": [{"role": "robot", "content": ""}]}),
        "`messages[0].role` must be `system`, `developer`, `user`, `assistant` or `tool`, not `robot`",
    );
    check_error(
        OpenAiChat,
        json!({"model": "m", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}),
        "`messages[0].content[0].image_url.url` is required",
    );
    check_error(
        OpenAiChat,
        json!({"model": "m", "messages": [{"role": "tool", "content": "x"}]}),
        "`messages[0].tool_call_id` is required",
    );
    check_error(
        OpenAiChat,
        json!({"model": "m", "messages": hi, "n": 2}),
        "`n` is not supported: only one response per request is possible",
    );
    check_error(
        OpenAiChat,
        json!({"model": "m", "messages": hi, "max_tokens": 0}),
        "`max_tokens` must be at least 1",
    );
    check_error(
        OpenAiResponses,
        json!({"model": "m", "input": "hi", "max_output_tokens": 0}),
        "`max_output_tokens` must be at least 1",
    );
    let tool = json!({"type": "function", "function": {"name": "a"}});
    check_error(
        OpenAiChat,
        json!({"model": "m", "messages": hi, "tools": [tool, tool]}),
        "`tools[1]` has a second tool named `a`",
    );
    check_error(
        OpenAiChat,
        json!({"model": "m", "messages": hi, "tool_choice": "any"}),
        "`tool_choice` must be `auto`, `required` or `none`, not `any`",
    );
    check_error(
        OpenAiResponses,
        json!({"model": "m", "input": "hi", "tools": [{"type": "programmatic_tool_calling"}]}),
        "`tools[0].type` is not supported: tools of the type `programmatic_tool_calling` run only at OpenAI",
    );
    let code = json!({"type": "code_execution_20250825", "name": "code_execution"});
    let called = json!({"name": "a", "input_schema": {}, "allowed_callers": ["code_execution_20250825"]});
    check_error(
        Anthropic,
        json!({"model": "m", "messages": hi, "tools": [code, called]}),
        "`tools[0].type` is not supported: tools of the type `code_execution_20250825` run only at Anthropic",
    );
    check_error(
        OpenAiChat,
        json!({"model": "m", "messages": hi, "tools": [{"type": "web_search"}]}),
        "`tools[0].type` is not supported: tools of the type `web_search` run only at OpenAI",
    );
    check_error(
        OpenAiResponses,
        json!({"model": "m", "input": [{"type": "function_call_output", "output": "x"}]}),
        "`input[0].call_id` is required",
    );
    check_error(
        Anthropic,
        json!({"model": "m", "messages": hi, "mcp_servers": [{"type": "stdio", "name": "a"}]}),
        "`mcp_servers[0].type` must be `url`, not `stdio`",
    );
    check_error(
        Anthropic,
        json!({"model": "m", "messages": hi, "tool_choice": {"type": "required"}}),
        "`tool_choice.type` must be `auto`, `any`, `none` or `tool`, not `required`",
    );
    check_error(
        Anthropic,
        json!({"model": "m", "messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}),
        "`messages[0].content[0].tool_use_id` is required",
    );
    assert!(read_client_request(Family::Gemini, json!({})).is_none());
}

#[test]
fn unknown_fields_are_preserved_for_the_same_family() {
    for (dialect, family) in SERVED {
        let input = match family {
            Family::OpenAiResponses => "input",
            _ => "messages",
        };
        let messages = json!([{"role": "user", "content": "hi"}]);
        let sent = json!({"model": "m/x", input: messages, "service_tier": "flex", "x_new": {"a": [1]}});
        let client = read(family, sent);
        let written = body(dialect, &client.request, false);
        assert_eq!((&written["service_tier"], &written["x_new"]), (&json!("flex"), &json!({"a": [1]})));
    }
}

/// The gateway fetches nothing: a URL is sent to the APIs whose provider fetches it, and to no other.
#[test]
fn a_url_of_an_image_or_a_document_reaches_the_providers_that_fetch_it() {
    let url = "https://example.com/a.png";
    let chat = json!({"type": "image_url", "image_url": {"url": url, "detail": "low"}});
    let responses = json!({"type": "input_image", "image_url": url, "detail": "low"});
    let anthropic = json!({"type": "image", "source": {"type": "url", "url": url}});
    let (file, document) = (
        json!({"type": "input_file", "file_url": url}),
        json!({"type": "document", "title": "A", "source": {"type": "url", "url": url}}),
    );
    let without = |mut part: Value, name: &str| {
        part.as_object_mut().unwrap().remove(name);
        part.get_mut("image_url").and_then(Value::as_object_mut).map(|image| image.remove(name));
        part
    };
    let plain = json!({"type": "document", "source": {"type": "url", "url": url}});
    let cases = [
        (Family::OpenAiChat, &chat, [Some(chat.clone()), Some(responses.clone()), Some(anthropic.clone())]),
        (
            Family::OpenAiResponses,
            &responses,
            [Some(chat.clone()), Some(responses.clone()), Some(anthropic.clone())],
        ),
        (
            Family::Anthropic,
            &anthropic,
            [
                Some(without(chat.clone(), "detail")),
                Some(without(responses.clone(), "detail")),
                Some(anthropic.clone()),
            ],
        ),
        (Family::OpenAiResponses, &file, [None, Some(file.clone()), Some(plain)]),
        (Family::Anthropic, &document, [None, Some(file.clone()), Some(document.clone())]),
    ];
    for (family, part, expected) in cases {
        let key = if family == Family::OpenAiResponses { "input" } else { "messages" };
        let client = read(family, json!({"model": "m", key: [{"role": "user", "content": [part]}]}));
        let apis =
            [(Dialect::OpenAi, "messages"), (Dialect::Responses, "input"), (Dialect::Anthropic, "messages")];
        let apis = apis
            .into_iter()
            .zip(expected)
            .chain([((Dialect::Gemini, ""), None), ((Dialect::Bedrock, ""), None)]);
        for ((dialect, key), expected) in apis {
            let toolset = Toolset::new(&[], dialect, &Options::default());
            let written = write_request(dialect, &client.request, &toolset, &RequestOptions::default());
            match expected {
                Some(expected) => {
                    assert_eq!(written.unwrap()[key][0]["content"][0], expected, "{dialect:?}: {part}")
                }
                None => {
                    let type_name = part["type"].as_str().unwrap().to_owned();
                    assert_eq!(written, Err(RequestError::ForeignContent { dialect, type_name }), "{part}");
                }
            }
        }
    }
}

/// The same holds for the results of the client's tools. Where the API has no images in results, they follow
/// in a message of the user.
#[test]
fn a_url_in_a_result_reaches_the_providers_that_fetch_it() {
    let url = "https://example.com/a.png";
    let image = json!({"type": "image", "source": {"type": "url", "url": url}});
    let document = json!({"type": "document", "source": {"type": "url", "url": url}});
    let result = |part: &Value| {
        json!({"model": "m", "max_tokens": 9, "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "look", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "see"}, part]}]}]})
    };
    let item = json!({"model": "m", "input": [
        {"role": "user", "content": "hi"},
        {"type": "function_call", "call_id": "t1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "t1", "output": [
            {"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": url, "detail": "low"}]}]});
    let written = |family: Family, sent: &Value, dialect: Dialect| {
        let request = read(family, sent.clone()).request;
        let toolset = Toolset::new(&[], dialect, &Options::default());
        write_request(dialect, &request, &toolset, &RequestOptions::default())
    };
    let text = |text: &str| json!({"type": "text", "text": text});
    let block = |part: &Value| {
        let content = json!([{"type": "tool_result", "tool_use_id": "t1", "content": [text("see"), part]}]);
        json!({"role": "user", "content": content})
    };
    let output = |part: Value| {
        let parts = json!([{"type": "input_text", "text": "see"}, part]);
        json!({"type": "function_call_output", "call_id": "t1", "output": parts})
    };
    let shown = |part: Value| {
        let label = "Image returned by `look` (call t1):";
        (
            json!({"role": "tool", "tool_call_id": "t1", "content": format!("see\n[image, {url}, in the next user message]")}),
            json!({"role": "user", "content": [text(label), part]}),
        )
    };
    let (anthropic, responses) = (Family::Anthropic, Family::OpenAiResponses);
    let last = |body: Value, key: &str| body[key].as_array().unwrap().last().unwrap().clone();

    for part in [&image, &document] {
        let body = written(anthropic, &result(part), Dialect::Anthropic).unwrap();
        assert_eq!(last(body, "messages"), block(part));
    }
    let body = written(responses, &item, Dialect::Anthropic).unwrap();
    assert_eq!(last(body, "messages"), block(&image));
    let body = written(anthropic, &result(&image), Dialect::Responses).unwrap();
    assert_eq!(last(body, "input"), output(json!({"type": "input_image", "image_url": url})));
    let body = written(anthropic, &result(&document), Dialect::Responses).unwrap();
    assert_eq!(last(body, "input"), output(json!({"type": "input_file", "file_url": url})));
    let body = written(responses, &item, Dialect::Responses).unwrap();
    assert_eq!(
        last(body, "input"),
        output(json!({"type": "input_image", "image_url": url, "detail": "low"}))
    );

    for (family, sent, detail) in [(anthropic, result(&image), None), (responses, item.clone(), Some("low"))]
    {
        let mut part = json!({"type": "image_url", "image_url": {"url": url}});
        if let Some(detail) = detail {
            part["image_url"]["detail"] = json!(detail);
        }
        let messages = written(family, &sent, Dialect::OpenAi).unwrap()["messages"].clone();
        let (tool, user) = shown(part);
        assert_eq!((&messages[2], &messages[3]), (&tool, &user));
        // This API has no images at all.
        let messages = written(family, &sent, Dialect::DeepSeek).unwrap()["messages"].clone();
        assert_eq!(messages[2]["content"], format!("see\n[image, {url}, omitted]"));
    }
    for (family, sent, dialect, type_name) in [
        (anthropic, result(&image), Dialect::Gemini, "image"),
        (anthropic, result(&document), Dialect::OpenAi, "document"),
        (responses, item, Dialect::Bedrock, "input_image"),
    ] {
        let type_name = type_name.to_owned();
        let expected = Err(RequestError::ForeignContent { dialect, type_name });
        assert_eq!(written(family, &sent, dialect), expected);
    }
    // An error can contain only text, so its images follow after it.
    let mut failed = result(&image);
    failed["messages"][2]["content"][0]["is_error"] = json!(true);
    let content =
        last(written(anthropic, &failed, Dialect::Anthropic).unwrap(), "messages")["content"].clone();
    assert_eq!(content[0]["content"][1], text(&format!("[image, {url}, after the results]")));
    assert_eq!((&content[1], &content[2]), (&text("Image returned by `look` (call t1):"), &image));
    // Other blocks that only one API has become text.
    let found = json!({"type": "search_result", "source": "s", "title": "t", "content": [text("found")]});
    let content =
        last(written(anthropic, &result(&found), Dialect::OpenAi).unwrap(), "messages")["content"].clone();
    assert_eq!(content, format!("see\n{found}"));
}

/// Other forms of content are sent only to APIs of the same family.
#[test]
fn a_stored_file_reaches_only_the_same_family() {
    let part = json!({"type": "file", "file": {"file_id": "file-1"}});
    let message = json!({"role": "user", "content": [{"type": "text", "text": "What is it?"}, part]});
    let client = read(Family::OpenAiChat, json!({"model": "m", "messages": [message]}));
    let written = body(Dialect::Azure, &client.request, false);
    assert_eq!(written["messages"][0]["content"][1], part);
    for (dialect, url) in [(Dialect::Anthropic, None), (Dialect::Responses, Some("ftp://example.com/a.png"))]
    {
        let client = match url {
            Some(url) => {
                let part = json!({"type": "image_url", "image_url": {"url": url}});
                let message = json!({"role": "user", "content": [part]});
                read(Family::OpenAiChat, json!({"model": "m", "messages": [message]}))
            }
            None => client.clone(),
        };
        let toolset = Toolset::new(&[], dialect, &Options::default());
        let error = write_request(dialect, &client.request, &toolset, &RequestOptions::default());
        assert!(matches!(error, Err(RequestError::ForeignContent { .. })), "{dialect:?}");
    }
}

#[test]
fn only_leading_instructions_move() {
    let client = read(
        Family::OpenAiChat,
        json!({"model": "m", "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "Hello"},
            {"role": "system", "content": "It is noon."},
            {"role": "user", "content": "Well?"}
        ]}),
    );
    assert_eq!(client.request.instructions.as_deref(), Some("Be brief.\n\nBe kind."));
    let last = client.request.messages.last().unwrap();
    let texts = ["<system>\nIt is noon.\n</system>", "Well?"].map(|text| Block::Content(Content::text(text)));
    assert_eq!(last.content, texts);
}

#[test]
fn clients_write_the_history_in_several_forms() {
    let items = json!([
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Let me look."},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "get", "arguments": "{\"q\":1}"},
        {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "demo", "tools": []},
        {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "42"}]}
    ]);
    let client = read(Family::OpenAiResponses, json!({"model": "m", "input": items}));
    let messages = &client.request.messages;
    assert_eq!(messages.len(), 3);
    assert_eq!(
        messages[1].calls().map(|(id, call)| (id, &*call.name)).collect::<Vec<_>>(),
        [("call_1", "get")]
    );
    assert_eq!(messages[2].results().next(), Some(("call_1", &ToolResult::text("42"))));
    let client = read(
        Family::Anthropic,
        json!({"model": "m", "max_tokens": 9, "system": [{"type": "text", "text": "a", "cache_control": {}}], "messages": [
            {"role": "user", "content": [{"type": "text", "text": ""}, {"type": "text", "text": "hi"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "tool_use", "id": "toolu_1", "name": "get", "input": {"q": 1}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": true, "content": "no"},
                {"type": "text", "text": "go on"}]}
        ]}),
    );
    assert_eq!(client.request.instructions.as_deref(), Some("a"));
    // The thinking returns to Claude exactly as it was.
    let written = body(Dialect::Anthropic, &client.request, false);
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    assert_eq!(written["messages"][1]["content"][0], thinking);
    assert_eq!(written["messages"][2]["content"][0]["is_error"], json!(true));
}

/// A result without the id of its call has the name of the tool.
#[test]
fn a_result_without_an_id_needs_one_open_call_of_its_tool() {
    let call = |id: &str, name: &str| json!({"type": "function_call", "call_id": id, "name": name, "arguments": "{}"});
    let named = |name: &str, output: &str| json!({"type": "function_call_output", "call_id": null, "name": name, "output": output});
    let body = |items: &[Value]| json!({"model": "m", "input": items});
    let mut in_namespace = call("call_3", "get");
    in_namespace["namespace"] = json!("files");
    let mut of_namespace = named("get", "3");
    of_namespace["namespace"] = json!("files");
    let with_id = json!({"type": "function_call_output", "call_id": "call_1", "output": "1"});
    let items = [
        call("call_0", "get"),
        json!({"type": "function_call_output", "call_id": "call_0", "output": "0"}),
        call("call_1", "get"),
        call("call_2", "get"),
        in_namespace,
        with_id,
        of_namespace,
        named("get", "2"),
    ];
    let client = read(Family::OpenAiResponses, body(&items));
    let results = client.request.messages[3].results().map(|(id, result)| (id, result.clone()));
    let expected = ["1", "3", "2"].map(|number| (format!("call_{number}"), ToolResult::text(number)));
    assert_eq!(results.map(|(id, result)| (id.to_owned(), result)).collect::<Vec<_>>(), expected);

    let unclear = "is required unless exactly one call of `get` in the last response has no result";
    for items in [
        vec![named("get", "x")],
        vec![call("call_1", "put"), named("get", "x")],
        vec![call("call_1", "get"), call("call_2", "get"), named("get", "x")],
        vec![call("call_1", "get"), named("get", "x"), named("get", "y")],
        vec![
            call("call_1", "get"),
            json!({"role": "user", "content": "hi"}),
            call("call_2", "put"),
            named("get", "x"),
        ],
    ] {
        let last = items.len() - 1;
        check_error(Family::OpenAiResponses, body(&items), &format!("`input[{last}].call_id` {unclear}"));
    }
}

#[test]
fn the_output_schema_is_read_in_every_form() {
    let schema = json!({"type": "object", "properties": {}});
    let messages = json!([{"role": "user", "content": "hi"}]);
    let format =
        json!({"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": true}});
    let chat =
        read(Family::OpenAiChat, json!({"model": "m", "messages": messages, "response_format": format}));
    let format = json!({"type": "json_schema", "name": "n", "schema": schema, "strict": true});
    let responses =
        read(Family::OpenAiResponses, json!({"model": "m", "input": "hi", "text": {"format": format}}));
    let expected = OutputFormat::Schema {
        name: "n".to_owned(),
        description: None,
        schema: schema.clone(),
        strict: true,
    };
    assert_eq!([chat.request.output, responses.request.output], [expected.clone(), expected]);
    let format = json!({"type": "json_schema", "schema": schema});
    let request =
        json!({"model": "m", "max_tokens": 1, "messages": messages, "output_config": {"format": format}});
    let output = read(Family::Anthropic, request.clone()).request.output;
    assert!(matches!(&output, OutputFormat::Schema { name, .. } if name == "response"));
    // The name of the field in the beta of this API, which older SDKs use.
    let mut older = request.clone();
    older["output_config"] = json!({"effort": "low"});
    older["output_format"] = format.clone();
    assert_eq!(read(Family::Anthropic, older).request.output, output);
    let mut both = request;
    both["output_format"] = format;
    let error = read_client_request(Family::Anthropic, both).unwrap().unwrap_err();
    assert_eq!(error.parameter, "output_format");
}

/// Returns the names of the fields that an API does not get.
fn lost(family: Family, body: &Value, dialect: Dialect) -> Vec<String> {
    let mut names = read(family, body.clone()).lost_fields(dialect);
    names.sort();
    names
}

#[test]
fn fields_of_messages_and_tools_that_are_lost_are_listed() {
    let schema = json!({"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"], "additionalProperties": false});
    let image = format!("data:image/png;base64,{PNG}");
    let chat = json!({"model": "m", "messages": [
        {"role": "user", "name": "ann", "content": [
            {"type": "text", "text": "hi", "later": 1},
            {"type": "image_url", "image_url": {"url": image, "detail": "low"}}]},
        {"role": "assistant", "content": "a", "refusal": null, "annotations": []},
        {"role": "user", "content": "b"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": schema, "strict": true, "cache_control": {}, "defer": 1}}]});
    let common = ["cache_control", "messages.content.later", "messages.name", "tools.defer"];
    let with = |more: &[&str]| {
        let mut names: Vec<String> = common.iter().chain(more).map(|name| (*name).to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(lost(Family::OpenAiChat, &chat, Dialect::Responses), with(&[]));
    assert_eq!(
        lost(Family::OpenAiChat, &chat, Dialect::Anthropic),
        with(&["messages.content.image_url.detail"])
    );
    assert_eq!(lost(Family::OpenAiChat, &chat, Dialect::Groq), with(&["tools.strict"]));
    assert_eq!(
        lost(Family::OpenAiChat, &chat, Dialect::Gemini),
        with(&["messages.content.image_url.detail", "tools.strict"])
    );

    let responses = json!({"model": "m", "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "hi", "later": true}]},
        {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "phase": "final_answer", "content": [
            {"type": "output_text", "text": "a", "logprobs": [], "annotations": [{"type": "url_citation", "url": "u"}]}]},
        {"type": "later_item", "x": 1},
        {"role": "user", "content": "b", "metadata": {"a": 1}}],
        "tools": [{"type": "function", "name": "f", "parameters": schema, "strict": false, "defer_loading": true}]});
    let expected =
        ["input.content.annotations", "input.content.later", "input.metadata", "tools.defer_loading"];
    assert_eq!(lost(Family::OpenAiResponses, &responses, Dialect::Gemini), expected);

    let messages = json!({"model": "m", "max_tokens": 9, "system": [{"type": "text", "text": "a", "later": 1}], "messages": [
        {"role": "user", "clear_at": 1, "content": [
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}, "context": "c"},
            {"type": "text", "text": "hi", "citations": null}]}],
        "tools": [{"name": "f", "input_schema": schema, "strict": true, "input_examples": [{"q": "a"}]}]});
    let expected = ["messages.clear_at", "messages.content.context", "system.later", "tools.input_examples"];
    assert_eq!(lost(Family::Anthropic, &messages, Dialect::OpenAi), expected);
}

/// The API enforces the schema of a strict tool, whichever API the client uses.
#[test]
fn a_strict_tool_stays_strict_and_an_image_keeps_its_resolution() {
    let schema = json!({"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"], "additionalProperties": false});
    let image = format!("data:image/png;base64,{PNG}");
    let tool = |name: &str, strict: bool| json!({"type": "function", "name": name, "description": "d", "parameters": schema, "strict": strict});
    let sent = json!({"model": "m", "tools": [tool("a", true), tool("b", false)], "input": [
        {"role": "user", "content": [{"type": "input_image", "image_url": image, "detail": "high"}]}]});
    let request = read(Family::OpenAiResponses, sent).request;
    for (dialect, expected) in [
        (Dialect::OpenAi, [Some(true), None]),
        (Dialect::Responses, [Some(true), Some(false)]),
        (Dialect::Anthropic, [Some(true), None]),
        (Dialect::Mistral, [None, None]),
    ] {
        let written = body(dialect, &request, false);
        let strict = |index: usize| {
            let tool = &written["tools"][index];
            let function = tool.get("function").unwrap_or(tool);
            function.get("strict").and_then(Value::as_bool)
        };
        assert_eq!([strict(0), strict(1)], expected, "{dialect}");
    }
    let chat = body(Dialect::OpenAi, &request, false);
    assert_eq!(chat["messages"][0]["content"][0]["image_url"], json!({"url": image, "detail": "high"}));
    let back = read(Family::OpenAiChat, chat).request;
    assert_eq!((&back.messages, &back.tools), (&request.messages, &request.tools));
    assert_eq!(body(Dialect::Responses, &back, false)["input"][0]["content"][0]["detail"], "high");
}

/// OpenAI accepts an empty message, and the model responds to it.
#[test]
fn an_empty_message_of_the_user_is_a_turn() {
    let history = json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": ""}]);
    for (family, key) in [(Family::OpenAiChat, "messages"), (Family::OpenAiResponses, "input")] {
        let mut sent = json!({"model": "m"});
        sent[key] = history.clone();
        let client = read(family, sent);
        assert_eq!(client.request.messages.last().unwrap().role, Role::User);
        let written = body(Dialect::Anthropic, &client.request, false);
        let last = written["messages"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(last, json!({"role": "user", "content": [{"type": "text", "text": "(empty message)"}]}));
    }
}

#[test]
fn a_tool_that_is_not_supported_is_an_unsupported_parameter() {
    use toolwire_dialect::client::ClientError;
    let hi = json!([{"role": "user", "content": "hi"}]);
    for (family, sent) in [
        (Family::OpenAiResponses, json!({"model": "m", "input": "hi", "tools": [{"type": "file_search"}]})),
        (Family::OpenAiChat, json!({"model": "m", "messages": hi, "tools": [{"type": "file_search"}]})),
    ] {
        // With the Responses API, only a provider of another API refuses the tool.
        let error = match read_client_request(family, sent).unwrap() {
            Ok(client) => client.native_tool.unwrap(),
            Err(error) => error,
        };
        let body = ClientError::from(&error).body(family, "");
        assert_eq!(body["error"]["code"], "unsupported_parameter", "{body}");
    }
}

/// Parameters that only one family has reach an API of this family exactly as they were sent.
#[test]
fn the_rest_of_an_object_is_preserved_for_the_same_family() {
    let hi = json!([{"role": "user", "content": "hi"}]);
    let sent = json!({
        "model": "m/x", "max_tokens": 9000, "messages": hi,
        "thinking": {"type": "enabled", "budget_tokens": 4321, "display": "omitted"},
        "output_config": {"effort": "medium", "task_budget": {"total": 5}},
    });
    let client = read(Family::Anthropic, sent.clone());
    assert_eq!(client.request.generation.thinking_tokens, Some(4321));
    let written = body(Dialect::Anthropic, &client.request, false);
    assert_eq!(
        (&written["thinking"], &written["output_config"]),
        (&sent["thinking"], &sent["output_config"])
    );
    // Other APIs have levels, or a number.
    let mut request = client.request;
    request.generation.effort = None;
    assert_eq!(body(Dialect::OpenAi, &request, false)["reasoning_effort"], "medium");
    let thinking = body(Dialect::Gemini, &request, false)["generationConfig"]["thinkingConfig"].clone();
    assert_eq!(thinking, json!({"thinkingBudget": 4321}));

    let adaptive = json!({"model": "m/x", "max_tokens": 9, "messages": hi, "thinking": {"type": "adaptive"}});
    let written = body(Dialect::Anthropic, &read(Family::Anthropic, adaptive).request, false);
    assert_eq!(written["thinking"], json!({"type": "adaptive"}));

    let sent = json!({
        "model": "m/x", "input": "hi", "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"verbosity": "low", "format": {"type": "text"}},
    });
    let written = body(Dialect::Responses, &read(Family::OpenAiResponses, sent).request, false);
    assert_eq!(written["reasoning"], json!({"effort": "low", "summary": "auto"}));
    assert_eq!(written["text"], json!({"verbosity": "low"}));
}
