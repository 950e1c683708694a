//! Responses for clients: complete and streamed ones have the same content, can be read again, and follow the rules
//! that official clients depend on.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolwire_contract::{Block, Content, ModelResponse, StopReason, Usage};
use toolwire_dialect::{
    ClientError, ClientEvent, Dialect, ErrorKind, Family, Options, ResponseHead, ResponseStream,
    ResponseWriter, StreamData, StreamEvent, ToolForm, Toolset, read_client_request, read_response,
};

const SERVED: [(Dialect, Family); 3] = [
    (Dialect::OpenAi, Family::OpenAiChat),
    (Dialect::Responses, Family::OpenAiResponses),
    (Dialect::Anthropic, Family::Anthropic),
];

fn head(shows_thinking: bool, stream_usage: bool) -> ResponseHead {
    let mut head = ResponseHead::default();
    head.id = "resp_1".to_owned();
    head.model = "m".to_owned();
    head.created = 7;
    head.shows_thinking = shows_thinking;
    head.stream_usage = stream_usage;
    let forms = [("sql", custom()), ("mail.get", in_namespace()), ("shell", ToolForm::Native)];
    head.tool_forms = forms.map(|(name, form)| (name.to_owned(), form)).into();
    head
}

fn custom() -> ToolForm {
    forms(json!([{"type": "custom", "name": "sql"}]))
}

fn in_namespace() -> ToolForm {
    forms(json!([{"type": "namespace", "name": "mail", "tools": [{"type": "function", "name": "get"}]}]))
}

/// Returns the form of the only tool of a client.
fn forms(tools: Value) -> ToolForm {
    let body = json!({"model": "m", "input": "hi", "tools": tools});
    let client = read_client_request(Family::OpenAiResponses, body).unwrap().unwrap();
    client.tool_forms.into_values().next().unwrap()
}

fn fragment() -> impl Strategy<Value = String> {
    "[a-z🌍\"\\\\\n ]{0,6}[a-z\"}]"
}

fn event() -> impl Strategy<Value = ClientEvent> {
    let arguments = prop_oneof![
        Just(json!({})),
        Just(json!({"q": "a\nb\"", "n": 1.5})),
        Just(json!({"deep": {"x": [null]}}))
    ];
    let call = |name: &str, arguments: Value| ClientEvent::Call {
        id: String::new(),
        name: name.to_owned(),
        arguments: arguments.as_object().unwrap().clone(),
    };
    prop_oneof![
        1 => fragment().prop_map(move |input| call("sql", json!({"input": input}))),
        1 => fragment().prop_map(move |text| call("mail.get", json!({"q": text}))),
        1 => fragment().prop_map(move |text| call("shell", json!({"action": {"commands": [text]}}))),
        4 => fragment().prop_map(ClientEvent::Text),
        2 => fragment().prop_map(ClientEvent::Thinking),
        1 => Just(ClientEvent::RoundFinished),
        1 => arguments.prop_map(|arguments| ClientEvent::Call {
            id: String::new(), name: "get".to_owned(), arguments: arguments.as_object().unwrap().clone(),
        }),
    ]
}

/// Numbers the calls, which come last: a response with calls of the client ends with them.
fn ordered(events: Vec<ClientEvent>) -> Vec<ClientEvent> {
    let is_call = |event: &ClientEvent| matches!(event, ClientEvent::Call { .. });
    let (calls, mut ordered): (Vec<ClientEvent>, Vec<ClientEvent>) = events.into_iter().partition(is_call);
    for (number, mut call) in calls.into_iter().enumerate() {
        if let ClientEvent::Call { id, .. } = &mut call {
            *id = format!("call_{number}");
        }
        ordered.push(call);
    }
    ordered
}

/// The text, the calls (id and arguments) and the end of a response.
#[derive(Clone, Debug, PartialEq)]
struct Facts {
    text: String,
    calls: Vec<(String, Map<String, Value>)>,
    stop: StopReason,
    usage: Option<Usage>,
}

fn facts(response: &ModelResponse) -> Facts {
    let texts = response.message.content.iter().filter_map(|block| match block {
        Block::Content(Content::Text { text, .. }) => Some(text.as_str()),
        _ => None,
    });
    let calls = response.message.calls();
    let calls = calls.map(|(id, call)| (id.to_owned(), call.arguments.clone().unwrap_or_default())).collect();
    let text = texts.collect::<Vec<_>>().join("\n\n");
    Facts { text, calls, stop: response.stop.clone(), usage: response.usage }
}

fn write(family: Family, head: ResponseHead, events: &[ClientEvent]) -> (Vec<StreamEvent>, Value) {
    let mut writer = ResponseWriter::new(family, head).unwrap();
    let mut written = writer.start();
    for event in events {
        written.extend(writer.event(event));
    }
    (written, writer.body())
}

proptest! {
    #[test]
    fn a_response_can_be_read_again(
        events in prop::collection::vec(event(), 0..12),
        shows_thinking: bool,
        is_cut_off: bool,
        tokens in 0..1000u64,
    ) {
        let mut events = ordered(events);
        let has_calls = events.iter().any(|event| matches!(event, ClientEvent::Call { .. }));
        let stop = if is_cut_off && !has_calls { StopReason::Length } else { StopReason::End };
        let usage = Usage { input_tokens: 2 * tokens, output_tokens: tokens, cached_tokens: tokens / 2, ..Usage::default() };
        events.push(ClientEvent::Done { stop: stop.clone(), usage: Some(usage) });
        let mut expected_text = String::new();
        let mut is_new_round = false;
        let mut expected_calls = Vec::new();
        for event in &events {
            match event {
                ClientEvent::Text(fragment) => {
                    if std::mem::take(&mut is_new_round) && !expected_text.is_empty() {
                        expected_text.push_str("\n\n");
                    }
                    expected_text.push_str(fragment);
                }
                ClientEvent::RoundFinished => is_new_round = true,
                ClientEvent::Call { id, arguments, .. } => expected_calls.push((id.clone(), arguments.clone())),
                _ => {}
            }
        }
        let stop = if has_calls { StopReason::Calls } else { stop };
        for (dialect, family) in SERVED {
            // Thinking in the middle of a text starts a new block, except in Chat Completions.
            let splits = shows_thinking && family != Family::OpenAiChat;
            let normal = |text: &str| if splits { text.replace("\n\n", "") } else { text.to_owned() };
            let expected = Facts {
                text: normal(&expected_text), calls: expected_calls.clone(), stop: stop.clone(), usage: Some(usage),
            };
            let (written, body) = write(family, head(shows_thinking, true), &events);
            check_stream(family, &written);
            let tools = Arc::new(Toolset::new(&[], dialect, &Options::default()));
            let whole = read_response(dialect, &body, &tools, "").unwrap();
            let mut whole = facts(&whole);
            whole.text = normal(&whole.text);
            prop_assert_eq!(&whole, &expected, "{:?}", family);
            let mut stream = ResponseStream::new(dialect, tools);
            for event in &written {
                if let StreamData::Json(value) = &event.data {
                    stream.push(value).unwrap();
                }
            }
            let mut streamed = facts(&stream.finish().unwrap());
            streamed.text = normal(&streamed.text);
            prop_assert_eq!(streamed, expected, "{:?}", family);
        }
    }
}

/// Checks the rules that official clients depend on.
fn check_stream(family: Family, events: &[StreamEvent]) {
    for event in events {
        let text = event.to_string();
        assert!(text.ends_with("\n\n") && text.trim_end().lines().count() <= 2, "{text}");
    }
    let json: Vec<&Value> = events
        .iter()
        .filter_map(|event| match &event.data {
            StreamData::Json(value) => Some(value),
            StreamData::EndMarker => None,
        })
        .collect();
    match family {
        Family::OpenAiChat => check_chunks(events, &json),
        Family::OpenAiResponses => check_items(events, &json),
        _ => check_blocks(events, &json),
    }
}

fn check_chunks(events: &[StreamEvent], chunks: &[&Value]) {
    assert_eq!(events.last().map(|event| &event.data), Some(&StreamData::EndMarker));
    let (mut roles, mut finish_reasons, mut calls) = (0, 0, 0);
    for (number, chunk) in chunks.iter().enumerate() {
        assert_eq!((&chunk["object"], &chunk["id"]), (&json!("chat.completion.chunk"), &json!("resp_1")));
        let Some(choice) = chunk["choices"].get(0) else {
            assert_eq!(number, chunks.len() - 1, "the usage is the last chunk");
            assert!(chunk.get("usage").is_some());
            continue;
        };
        assert_eq!(finish_reasons, 0, "nothing follows the finish reason");
        assert!(choice.as_object().unwrap().contains_key("finish_reason"));
        roles += usize::from(choice["delta"].get("role").is_some());
        finish_reasons += usize::from(!choice["finish_reason"].is_null());
        for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            assert_eq!(call["index"], json!(calls), "the indexes are dense");
            assert!(["id", "type"].iter().all(|key| call[*key].is_string()));
            assert!(call["function"]["arguments"].is_string() || call["custom"]["input"].is_string());
            calls += 1;
        }
    }
    assert_eq!((roles, finish_reasons), (1, 1));
}

fn check_items(events: &[StreamEvent], data: &[&Value]) {
    let mut open: Option<(usize, Value)> = None;
    let mut items = 0;
    for (number, (event, data)) in events.iter().zip(data).enumerate() {
        let name = data["type"].as_str().unwrap();
        assert_eq!((event.name, &data["sequence_number"]), (Some(name), &json!(number)));
        match name {
            "response.created" => assert_eq!(number, 0),
            "response.in_progress" => assert_eq!(number, 1),
            "response.output_item.added" => {
                assert_eq!((data["output_index"].as_u64(), &open), (Some(items as u64), &None));
                open = Some((items, data["item"]["id"].clone()));
                items += 1;
            }
            "response.output_item.done" => {
                let (index, id) = open.take().expect("an open item");
                assert_eq!((&data["output_index"], &data["item"]["id"]), (&json!(index), &id));
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                assert_eq!((number, &open), (events.len() - 1, &None));
                assert_eq!(data["response"]["output"].as_array().unwrap().len(), items);
            }
            _ => {
                let (index, id) = open.as_ref().expect("an open item");
                assert_eq!((&data["output_index"], &data["item_id"]), (&json!(index), id));
            }
        }
    }
    let last = data.last().expect("at least one event")["type"].as_str().unwrap();
    assert!(["response.completed", "response.incomplete", "response.failed"].contains(&last), "{last}");
}

fn check_blocks(events: &[StreamEvent], data: &[&Value]) {
    let mut open: Option<&str> = None;
    let mut blocks = 0;
    for (number, (event, data)) in events.iter().zip(data).enumerate() {
        let name = data["type"].as_str().unwrap();
        assert_eq!(event.name, Some(name));
        match name {
            "message_start" => {
                assert_eq!((number, &data["message"]["content"]), (0, &json!([])));
                assert!(data["message"]["usage"]["input_tokens"].is_u64());
            }
            "content_block_start" => {
                assert_eq!((&data["index"], open), (&json!(blocks), None));
                open = data["content_block"]["type"].as_str();
            }
            "content_block_delta" => {
                assert_eq!(data["index"], json!(blocks));
                let delta = match open.expect("an open block") {
                    "text" => "text_delta",
                    "thinking" => "thinking_delta",
                    _ => "input_json_delta",
                };
                assert_eq!(data["delta"]["type"], json!(delta));
            }
            "content_block_stop" => {
                assert_eq!(data["index"], json!(blocks));
                assert!(open.take().is_some());
                blocks += 1;
            }
            "message_delta" => {
                assert_eq!((number, open), (events.len() - 2, None));
                assert!(data["usage"]["output_tokens"].is_u64() && data["delta"]["stop_reason"].is_string());
            }
            "message_stop" => assert_eq!(number, events.len() - 1),
            other => panic!("unknown event {other}"),
        }
    }
    assert_eq!(events.last().and_then(|event| event.name), Some("message_stop"));
}

#[test]
fn a_refusal_and_a_filter_have_the_form_of_each_api() {
    let refusal = [
        ClientEvent::Refusal("I cannot.".to_owned()),
        ClientEvent::Done { stop: StopReason::Refusal, usage: None },
    ];
    let filtered = [ClientEvent::Done { stop: StopReason::Refusal, usage: None }];
    let body = |family, events: &[ClientEvent]| write(family, head(false, false), events).1;
    let chat = body(Family::OpenAiChat, &refusal);
    assert_eq!(chat["choices"][0]["message"]["refusal"], json!("I cannot."));
    assert_eq!(chat["choices"][0]["finish_reason"], json!("stop"));
    assert_eq!(body(Family::OpenAiChat, &filtered)["choices"][0]["finish_reason"], json!("content_filter"));
    let responses = body(Family::OpenAiResponses, &refusal);
    assert_eq!(responses["output"][0]["content"][0], json!({"type": "refusal", "refusal": "I cannot."}));
    assert_eq!(
        body(Family::OpenAiResponses, &filtered)["incomplete_details"]["reason"],
        json!("content_filter")
    );
    assert_eq!(responses["status"], json!("completed"));
    assert_eq!(body(Family::Anthropic, &refusal)["stop_reason"], json!("refusal"));
    let cut =
        [ClientEvent::Text("I".to_owned()), ClientEvent::Done { stop: StopReason::Refusal, usage: None }];
    assert_eq!(body(Family::OpenAiResponses, &cut)["incomplete_details"]["reason"], json!("content_filter"));
}

#[test]
fn an_error_in_a_stream_has_the_form_of_each_api() {
    let error = ClientError::new(ErrorKind::Overloaded, "try later");
    let events = [ClientEvent::Text("Hal".to_owned()), ClientEvent::Failed(error)];
    let last = |family| {
        let (events, _) = write(family, head(false, false), &events);
        let event = events.last().unwrap().clone();
        let StreamData::Json(data) = event.data else { panic!("no data") };
        (event.name, data)
    };
    let (name, data) = last(Family::OpenAiChat);
    assert_eq!((name, &data["error"]["message"]), (None, &json!("try later")));
    let (name, data) = last(Family::OpenAiResponses);
    assert_eq!((name, &data["response"]["status"]), (Some("response.failed"), &json!("failed")));
    assert_eq!(data["response"]["error"], json!({"code": "server_error", "message": "try later"}));
    let (name, data) = last(Family::Anthropic);
    assert_eq!((name, &data["error"]["type"]), (Some("error"), &json!("overloaded_error")));
}

#[test]
fn errors_have_the_status_and_the_type_of_each_api() {
    let invalid = toolwire_dialect::read_client_request(Family::OpenAiChat, json!({"model": "m"})).unwrap();
    let error = ClientError::from(&invalid.unwrap_err());
    let body = error.body(Family::OpenAiChat, "req_1");
    assert_eq!(
        body,
        json!({"error": {
            "message": "`messages` is required", "type": "invalid_request_error", "param": "messages", "code": "invalid_value"
        }})
    );
    assert_eq!(error.kind.status(Family::OpenAiChat), 400);
    let body = ClientError::new(ErrorKind::Unauthenticated, "no key").body(Family::Anthropic, "req_1");
    let expected = json!({"type": "error", "error": {"type": "authentication_error", "message": "no key"}, "request_id": "req_1"});
    assert_eq!(body, expected);
    assert_eq!(ErrorKind::Overloaded.status(Family::Anthropic), 529);
    assert_eq!(ErrorKind::Overloaded.status(Family::OpenAiResponses), 503);
}
