//! A conversation that starts on one provider continues on each of the others. Complete bodies are compared.

use std::sync::Arc;

use serde_json::{Value, json};
use toolwire_contract::model::ModelRequest;
use toolwire_contract::{Block, Content, Message, Role, ToolResult};
use toolwire_dialect::Dialect;
use toolwire_dialect::request::{RequestOptions, write_request};
use toolwire_dialect::response::read_response;

use crate::{check_file, fill_template, read, rules, tools, toolset};

const PROVIDERS: [Dialect; 5] =
    [Dialect::OpenAi, Dialect::Responses, Dialect::Anthropic, Dialect::Gemini, Dialect::Bedrock];
const CASE: &str = "thinking and parallel calls";
const PNG: &str = "iVBORw0KGgo=";
/// Text that may only be sent back to its own provider: thinking, signatures, encrypted reasoning.
const SECRETS: [&str; 4] = ["then data.", "EqQBCg==", "gAAAA==", "c2ln"];

fn body(source: Dialect) -> Value {
    fill_template(&read(&format!("responses/{source}.json"))[CASE]["body"], &toolset(source))
}

/// Returns a conversation with two calls by `source`: one returned an image, the other failed.
fn history(source: Dialect) -> Vec<Arc<Message>> {
    let response = read_response(source, &body(source), &toolset(source), "").unwrap();
    let ids: Vec<String> = response.message.calls().map(|(id, _)| id.to_owned()).collect();
    let image_result = ToolResult {
        content: Some(vec![Content::text("12 °C"), Content::image(PNG, "image/png")]),
        ..ToolResult::default()
    };
    let results = [image_result, ToolResult::error("no such table")].into_iter().zip(&ids);
    let results = results.map(|(result, id)| Block::Result { id: id.clone(), result }).collect();
    let messages = [
        Message::new(
            Role::User,
            vec![
                Block::Content(Content::text("What is this, and the weather?")),
                Block::Content(Content::image(PNG, "image/png")),
            ],
        ),
        response.message,
        Message::new(Role::User, results),
        Message::assistant("It is cold, and there is no table."),
        Message::user("Thanks. And tomorrow?"),
    ];
    messages.map(Arc::new).into()
}

fn write_body(source: Dialect, target: Dialect) -> Value {
    let request = ModelRequest {
        instructions: Some("Be brief.".to_owned()),
        messages: history(source),
        tools: tools().into(),
        ..ModelRequest::default()
    };
    let mut options = RequestOptions::default();
    options.model = "m".to_owned();
    options.stream = true;
    write_request(target, &request, &toolset(target), &options).unwrap()
}

#[test]
fn every_conversation_continues_on_every_provider() {
    for source in PROVIDERS {
        let bodies: Value =
            PROVIDERS.iter().map(|&target| (target.name(), write_body(source, target))).collect();
        check_file(&format!("switching/from-{source}.json"), &bodies);
    }
}

#[test]
fn every_body_follows_the_rules_of_its_api() {
    for source in Dialect::all().filter(|source| PROVIDERS.contains(source)) {
        for target in Dialect::all() {
            assert_eq!(rules::check(target, &write_body(source, target)), 2, "{source} to {target}");
        }
    }
}

#[test]
fn data_of_a_provider_is_sent_only_to_that_provider() {
    for source in PROVIDERS {
        for target in Dialect::all().filter(|target| target.family() != source.family()) {
            let body = write_body(source, target).to_string();
            for secret in SECRETS {
                assert!(!body.contains(secret), "{source} to {target}: {secret}");
            }
        }
    }
}

#[test]
fn the_same_provider_receives_its_message_unchanged() {
    let anthropic = write_body(Dialect::Anthropic, Dialect::Anthropic);
    assert_eq!(anthropic["messages"][1]["content"], body(Dialect::Anthropic)["content"]);
    let bedrock = write_body(Dialect::Bedrock, Dialect::Bedrock);
    assert_eq!(bedrock["messages"][1], body(Dialect::Bedrock)["output"]["message"]);
    let gemini = write_body(Dialect::Gemini, Dialect::Gemini);
    assert_eq!(gemini["contents"][1], body(Dialect::Gemini)["candidates"][0]["content"]);
    let responses = write_body(Dialect::Responses, Dialect::Responses);
    let items: Vec<Value> =
        body(Dialect::Responses)["output"].as_array().unwrap().iter().map(without_call_ids).collect();
    assert_eq!(responses["input"].as_array().unwrap()[1..4], items);
}

/// Removes the ids of call items, which belong to another response and are not sent.
fn without_call_ids(item: &Value) -> Value {
    let mut item = item.clone();
    let fields = item.as_object_mut().unwrap();
    if fields["type"] == "function_call" {
        fields.shift_remove("id");
    }
    fields.shift_remove("status");
    item
}

#[test]
fn a_stored_message_contains_its_thinking() {
    let history = history(Dialect::Anthropic);
    let stored = serde_json::to_string(&history).unwrap();
    let loaded: Vec<Message> = serde_json::from_str(&stored).unwrap();
    assert_eq!(history, loaded);
    assert!(write_body(Dialect::Anthropic, Dialect::Anthropic).to_string().contains("EqQBCg=="));
}

#[test]
fn reasoning_is_sent_back_to_chat_servers_that_require_it() {
    let body = |target: Dialect, reasoning: Option<bool>| {
        let request = ModelRequest {
            messages: history(Dialect::OpenAi),
            tools: tools().into(),
            ..ModelRequest::default()
        };
        let mut options = RequestOptions::default();
        options.reasoning = reasoning;
        let body = write_request(target, &request, &toolset(target), &options).unwrap();
        body["messages"][1].get("reasoning_content").cloned()
    };
    assert_eq!(body(Dialect::DeepSeek, None), Some(json!("Weather, then data.")));
    assert_eq!(body(Dialect::DeepSeek, Some(false)), None);
    assert_eq!(body(Dialect::OpenAi, None), None);
    assert_eq!(body(Dialect::OpenAi, Some(true)), Some(json!("Weather, then data.")));
}
