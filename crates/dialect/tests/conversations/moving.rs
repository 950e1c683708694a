//! A conversation begun on one provider goes on on each of the others: five by five, bodies compared whole.

use std::sync::Arc;

use serde_json::{Value, json};
use toolwire_contract::{Block, Content, Message, ModelRequest, Role, ToolResult};
use toolwire_dialect::{Dialect, RequestOptions, read_answer, write_request};

use crate::{check_file, filled, read, rules, tools, toolset};

const FIVE: [Dialect; 5] =
    [Dialect::OpenAi, Dialect::Responses, Dialect::Anthropic, Dialect::Gemini, Dialect::Bedrock];
const CASE: &str = "thinking and parallel calls";
const PNG: &str = "iVBORw0KGgo=";
/// What only its own provider may see again: thinking, signatures, encrypted reasoning.
const SECRETS: [&str; 4] = ["then data.", "EqQBCg==", "gAAAA==", "c2ln"];

fn whole(source: Dialect) -> Value {
    filled(&read(&format!("answers/{source}.json"))[CASE]["whole"], &toolset(source))
}

/// A conversation whose calls `source` made: one gave an image, the other failed.
fn history(source: Dialect) -> Vec<Arc<Message>> {
    let answer = read_answer(source, &whole(source), &toolset(source), "").unwrap();
    let ids: Vec<String> = answer.message.calls().map(|(id, _)| id.to_owned()).collect();
    let picture = ToolResult {
        content: Some(vec![Content::text("12 °C"), Content::image(PNG, "image/png")]),
        ..ToolResult::default()
    };
    let results = [picture, ToolResult::error("no such table")].into_iter().zip(&ids);
    let results = results.map(|(result, id)| Block::Result { id: id.clone(), result }).collect();
    let messages = [
        Message::new(
            Role::User,
            vec![
                Block::Content(Content::text("What is this, and the weather?")),
                Block::Content(Content::image(PNG, "image/png")),
            ],
        ),
        answer.message,
        Message::new(Role::User, results),
        Message::assistant("It is cold, and there is no table."),
        Message::user("Thanks. And tomorrow?"),
    ];
    messages.map(Arc::new).into()
}

fn written(source: Dialect, target: Dialect) -> Value {
    let request = ModelRequest {
        instructions: Some("Be brief.".to_owned()),
        messages: history(source),
        tools: tools().into(),
        ..ModelRequest::default()
    };
    let options = RequestOptions { model: "m".to_owned(), stream: true, ..RequestOptions::default() };
    write_request(target, &request, &toolset(target), &options).unwrap()
}

#[test]
fn every_conversation_goes_on_everywhere() {
    for source in FIVE {
        let bodies: Value = FIVE.iter().map(|&target| (target.name(), written(source, target))).collect();
        check_file(&format!("moving/from-{source}.json"), &bodies);
    }
}

#[test]
fn every_body_keeps_the_rules_of_its_api() {
    for source in Dialect::all().filter(|source| FIVE.contains(source)) {
        for target in Dialect::all() {
            assert_eq!(rules::check(target, &written(source, target)), 2, "{source} to {target}");
        }
    }
}

#[test]
fn no_provider_sees_what_another_keeps_to_itself() {
    for source in FIVE {
        for target in Dialect::all().filter(|target| target.family() != source.family()) {
            let body = written(source, target).to_string();
            for secret in SECRETS {
                assert!(!body.contains(secret), "{source} to {target}: {secret}");
            }
        }
    }
}

#[test]
fn its_own_provider_gets_the_message_back_as_it_came() {
    let anthropic = written(Dialect::Anthropic, Dialect::Anthropic);
    assert_eq!(anthropic["messages"][1]["content"], whole(Dialect::Anthropic)["content"]);
    let bedrock = written(Dialect::Bedrock, Dialect::Bedrock);
    assert_eq!(bedrock["messages"][1], whole(Dialect::Bedrock)["output"]["message"]);
    let gemini = written(Dialect::Gemini, Dialect::Gemini);
    assert_eq!(gemini["contents"][1], whole(Dialect::Gemini)["candidates"][0]["content"]);
    let responses = written(Dialect::Responses, Dialect::Responses);
    let items: Vec<Value> =
        whole(Dialect::Responses)["output"].as_array().unwrap().iter().map(without_call_ids).collect();
    assert_eq!(responses["input"].as_array().unwrap()[1..4], items);
}

/// The ids of call items belong to another response and are not sent.
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
fn a_message_that_went_round_has_its_thinking_again() {
    // What another provider was sent does not change the message that is kept.
    let history = history(Dialect::Anthropic);
    let stored = serde_json::to_string(&history).unwrap();
    let loaded: Vec<Message> = serde_json::from_str(&stored).unwrap();
    assert_eq!(history, loaded);
    assert!(written(Dialect::Anthropic, Dialect::Anthropic).to_string().contains("EqQBCg=="));
}

#[test]
fn reasoning_goes_back_to_the_chat_servers_that_want_it() {
    let body = |target: Dialect, reasoning: Option<bool>| {
        let request = ModelRequest {
            messages: history(Dialect::OpenAi),
            tools: tools().into(),
            ..ModelRequest::default()
        };
        let options = RequestOptions { reasoning, ..RequestOptions::default() };
        let body = write_request(target, &request, &toolset(target), &options).unwrap();
        body["messages"][1].get("reasoning_content").cloned()
    };
    assert_eq!(body(Dialect::DeepSeek, None), Some(json!("Weather, then data.")));
    assert_eq!(body(Dialect::DeepSeek, Some(false)), None);
    assert_eq!(body(Dialect::OpenAi, None), None);
    assert_eq!(body(Dialect::OpenAi, Some(true)), Some(json!("Weather, then data.")));
}
