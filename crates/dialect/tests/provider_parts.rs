//! Calls that the provider has made itself, and its results: they are passed to clients of the same API, and
//! come back to the provider unchanged.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use toolwire_contract::model::{ModelEvent, ModelRequest, ModelResponse, ProviderPart, StopReason, Usage};
use toolwire_contract::{Message, Role};
use toolwire_dialect::client::{ClientEvent, ResponseHead, ResponseWriter, StreamData, read_client_request};
use toolwire_dialect::request::{RequestOptions, write_request};
use toolwire_dialect::response::{ResponseStream, read_response};
use toolwire_dialect::{Dialect, Family, Options, Toolset};

const APIS: [(Dialect, Family, &str); 2] = [
    (Dialect::Anthropic, Family::Anthropic, "toolwire/anthropic"),
    (Dialect::Responses, Family::OpenAiResponses, "toolwire/responses"),
];

/// Returns the parts of a call that the provider has made.
fn parts(family: Family, kind: usize, number: usize) -> Vec<Value> {
    if family == Family::Anthropic {
        let id = format!("srvtoolu_{number}");
        let call = |name: &str, input: Value| json!({"type": "server_tool_use", "id": id, "name": name, "input": input});
        return match kind {
            0 => vec![
                call("web_search", json!({"query": "a\n\"b\" 🌍"})),
                json!({"type": "web_search_tool_result", "tool_use_id": id, "content": [
                    {"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "c2VjcmV0", "page_age": null}]}),
            ],
            1 => vec![
                call("code_execution", json!({})),
                json!({"type": "code_execution_tool_result", "tool_use_id": id, "content": {"type": "code_execution_result", "stdout": "1\n"}}),
            ],
            2 => vec![call("web_fetch", json!({"url": "u", "n": 1.0, "deep": {"input": [null]}}))],
            _ => vec![json!({"type": "later_block", "id": id, "x": [1.0, null]})],
        };
    }
    vec![match kind {
        0 => {
            json!({"id": format!("ws_{number}"), "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "q"}})
        }
        1 => {
            json!({"id": format!("ci_{number}"), "type": "code_interpreter_call", "status": "completed", "code": "print(\"1\")\n", "container_id": "cntr_1", "outputs": [{"type": "logs", "logs": "1"}]})
        }
        2 => {
            json!({"id": format!("fs_{number}"), "type": "file_search_call", "status": "failed", "queries": ["q"], "results": null})
        }
        _ => json!({"id": format!("lt_{number}"), "type": "later_call", "x": [1.0, null]}),
    }]
}

/// What a model does in a response: the next parts of a kind, or a text.
#[derive(Clone, Debug)]
enum Move {
    Parts(usize),
    Text(String),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let step = prop_oneof![(0..4usize).prop_map(Move::Parts), "[a-z🌍\"\\\\]{1,6}".prop_map(Move::Text)];
    prop::collection::vec(step, 0..6)
}

/// Returns the events of a response, and its parts.
fn events(family: Family, moves: &[Move]) -> (Vec<ClientEvent>, Vec<Value>) {
    let (mut events, mut all) = (Vec::new(), Vec::new());
    for (number, step) in moves.iter().enumerate() {
        match step {
            Move::Text(text) => events.push(ClientEvent::Text(text.clone())),
            Move::Parts(kind) => {
                for value in parts(family, *kind, number) {
                    all.push(value.clone());
                    events.push(ClientEvent::ProviderPart(part(family, value)));
                }
            }
        }
    }
    (events, all)
}

fn part(family: Family, value: Value) -> ProviderPart {
    let (.., key) = APIS.into_iter().find(|(_, known, _)| *known == family).unwrap();
    ProviderPart { family: key.to_owned(), value }
}

fn parts_of(events: &[ModelEvent]) -> Vec<Value> {
    let part = |event: &ModelEvent| match event {
        ModelEvent::ProviderPart(part) => Some(part.value.clone()),
        _ => None,
    };
    events.iter().filter_map(part).collect()
}

fn no_tools(dialect: Dialect) -> Toolset {
    Toolset::new(&[], dialect, &Options::default())
}

/// Returns the blocks or items of a response in a request to a dialect, after a question.
fn sent_back(dialect: Dialect, response: Message) -> Vec<Value> {
    let messages = [Message::user("q"), response, Message::user("and?")];
    let request = ModelRequest { messages: messages.map(Arc::new).into(), ..ModelRequest::default() };
    let written = write_request(dialect, &request, &no_tools(dialect), &RequestOptions::default()).unwrap();
    let items = written.get("messages").or(written.get("input")).unwrap().as_array().unwrap().clone();
    match dialect {
        // Without a response, the two messages of the user are one.
        _ if items.len() < 3 => Vec::new(),
        Dialect::Responses => items[1..items.len() - 1].to_vec(),
        _ => items[1]["content"].as_array().unwrap().clone(),
    }
}

/// Returns what the API sends of a text, without fields that requests do not have.
fn comparable(mut item: Value) -> Value {
    if item["type"] == "message" {
        item = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": item["content"][0]["text"]}]});
    }
    item
}

proptest! {
    /// A response that is written for a client, complete or streamed, is read as the same response, and goes
    /// back to the provider as it was.
    #[test]
    fn parts_are_the_same_after_writing_and_reading(moves in moves(), is_paused: bool) {
        for (dialect, family, _) in APIS {
            let (mut events, expected) = events(family, &moves);
            let is_paused = is_paused && family == Family::Anthropic;
            let stop = if is_paused { StopReason::Paused } else { StopReason::End };
            events.push(ClientEvent::Done { stop: stop.clone(), usage: Some(Usage::default()) });
            let mut head = ResponseHead::default();
            head.id = "resp_1".to_owned();
            let mut writer = ResponseWriter::new(family, head).unwrap();
            let mut written = writer.start();
            events.iter().for_each(|event| written.extend(writer.event(event)));
            let body = writer.body();

            let tools = Arc::new(no_tools(dialect));
            let mut stream = ResponseStream::new(dialect, tools.clone());
            let mut read = Vec::new();
            for event in &written {
                if let StreamData::Json(value) = &event.data {
                    read.extend(stream.push(value).unwrap());
                }
            }
            prop_assert_eq!(parts_of(&read), expected.clone());
            let streamed = stream.finish().unwrap();
            let mut whole = ResponseStream::new(dialect, tools.clone());
            prop_assert_eq!(parts_of(&whole.push_body(&body).unwrap()), expected);
            let complete: ModelResponse = read_response(dialect, &body, &tools, "").unwrap();
            prop_assert_eq!(&streamed, &complete);
            prop_assert_eq!(&streamed.stop, &stop);

            let key = if family == Family::Anthropic { "content" } else { "output" };
            let sent: Vec<Value> = body[key].as_array().unwrap().iter().cloned().map(comparable).collect();
            prop_assert_eq!(sent_back(dialect, complete.message.clone()), sent);
            // Other providers do not get them.
            for (other, ..) in [(Dialect::OpenAi, ()), (Dialect::Gemini, ())] {
                let messages = [Message::user("q"), complete.message.clone(), Message::user("and?")];
                let request = ModelRequest { messages: messages.map(Arc::new).into(), ..ModelRequest::default() };
                let written = write_request(other, &request, &no_tools(other), &RequestOptions::default()).unwrap();
                let text = written.to_string();
                prop_assert!(!["srvtoolu_", "ws_", "ci_", "fs_", "lt_"].iter().any(|id| text.contains(id)), "{}", text);
            }
        }
    }

    /// The parts in a client's history are read as those of a response.
    #[test]
    fn parts_in_a_history_are_read(moves in moves()) {
        for (dialect, family, _) in APIS {
            let (mut events, _) = events(family, &moves);
            // Of later versions, only blocks can be recognized as parts of the model's message.
            let is_known = |event: &ClientEvent| {
                !matches!(event, ClientEvent::ProviderPart(part) if part.value["type"] == "later_call")
            };
            events.retain(is_known);
            events.push(ClientEvent::Done { stop: StopReason::End, usage: None });
            let mut writer = ResponseWriter::new(family, ResponseHead::default()).unwrap();
            events.iter().for_each(|event| drop(writer.event(event)));
            let body = writer.body();
            let response = read_response(dialect, &body, &no_tools(dialect), "").unwrap();
            let question = json!({"role": "user", "content": "q"});
            let client = match family {
                Family::Anthropic if body["content"] == json!([]) => continue,
                Family::Anthropic => json!({"model": "m", "messages": [question, {"role": "assistant", "content": body["content"]}, question]}),
                _ => {
                    let output = body["output"].as_array().unwrap().clone();
                    let input: Vec<Value> = [question.clone()].into_iter().chain(output).chain([question]).collect();
                    json!({"model": "m", "input": input})
                }
            };
            let read = read_client_request(family, client).unwrap().unwrap();
            let answers = read.request.messages.iter().filter(|message| message.role == Role::Assistant);
            let blocks: Vec<_> = answers.flat_map(|message| message.content.clone()).collect();
            prop_assert_eq!(blocks, response.message.content);
        }
    }
}

/// A client of another API does not get the parts, and a pause is the end of its response.
#[test]
fn a_client_of_another_api_gets_only_the_text() {
    for (_, family, _) in APIS {
        let other = APIS.into_iter().map(|(_, other, _)| other).find(|other| *other != family).unwrap();
        for client in [other, Family::OpenAiChat] {
            let mut writer = ResponseWriter::new(client, ResponseHead::default()).unwrap();
            let events = [
                ClientEvent::ProviderPart(part(family, parts(family, 0, 0).remove(0))),
                ClientEvent::Text("Hi.".to_owned()),
                ClientEvent::Done { stop: StopReason::Paused, usage: None },
            ];
            events.iter().for_each(|event| drop(writer.event(event)));
            let body = writer.body().to_string();
            assert!(body.contains("Hi.") && !body.contains("srvtoolu_") && !body.contains("ws_"), "{body}");
            let stop = match client {
                Family::OpenAiChat => r#""finish_reason":"length""#,
                Family::OpenAiResponses => r#""incomplete_details":{"reason":"max_output_tokens"}"#,
                _ => r#""stop_reason":"pause_turn""#,
            };
            assert!(body.contains(stop), "{body}");
        }
    }
}

/// Citations of a search come back with their text.
#[test]
fn a_text_keeps_its_citations() {
    let citation = json!({"type": "web_search_result_location", "url": "u", "encrypted_index": "aW5kZXg="});
    let content =
        json!([{"type": "text", "text": "So."}, {"type": "text", "text": "It is.", "citations": [citation]}]);
    let body = json!({"role": "assistant", "content": content, "stop_reason": "end_turn"});
    let response = read_response(Dialect::Anthropic, &body, &no_tools(Dialect::Anthropic), "").unwrap();
    assert_eq!(json!(sent_back(Dialect::Anthropic, response.message)), content);
}

/// A generated image is an item of this API, and an image for all others.
#[test]
fn a_generated_image_keeps_its_item() {
    let item = json!({
        "id": "ig_1", "type": "image_generation_call", "status": "completed", "result": "iVBORw0KGgo=",
        "output_format": "webp", "revised_prompt": "a dot",
    });
    let body = json!({"id": "resp_1", "status": "completed", "output": [item]});
    let mut stream = ResponseStream::new(Dialect::Responses, Arc::new(no_tools(Dialect::Responses)));
    let events = stream.push_body(&body).unwrap();
    let [ModelEvent::Media(content)] = &events[..] else { panic!("{events:?}") };
    let mut writer = ResponseWriter::new(Family::OpenAiResponses, ResponseHead::default()).unwrap();
    writer.event(&ClientEvent::Media(content.clone()));
    assert_eq!(writer.body()["output"], json!([item]));
    let mut writer = ResponseWriter::new(Family::OpenAiChat, ResponseHead::default()).unwrap();
    writer.event(&ClientEvent::Media(content.clone()));
    let image = &writer.body()["choices"][0]["message"]["images"][0]["image_url"]["url"];
    assert_eq!(*image, "data:image/webp;base64,iVBORw0KGgo=");
}
