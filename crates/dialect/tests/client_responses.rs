//! Responses for clients: complete and streamed ones have the same content, can be read again, and follow the
//! rules that official clients depend on.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolwire_contract::model::{Citation, ModelEvent, ModelResponse, ResponseDetails, StopReason, Usage};
use toolwire_contract::{Block, Content};
use toolwire_dialect::client::{
    ClientError, ClientEvent, ErrorKind, ResponseHead, ResponseWriter, StreamData, StreamEvent, ToolForm,
    WrittenResponse, read_client_request,
};
use toolwire_dialect::response::{ResponseStream, read_response};
use toolwire_dialect::{Dialect, Family, Options, Toolset};

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

/// A citation of each family, with a URL and without one.
fn citation() -> impl Strategy<Value = Citation> {
    let citation = |family: &str, value: Value| Citation { family: family.to_owned(), value };
    prop_oneof![
        Just(citation("toolwire/anthropic", json!({"type": "char_location", "cited_text": "a"}))),
        Just(citation(
            "toolwire/anthropic",
            json!({"type": "search_result_location", "cited_text": "a", "source": "https://example.com", "title": "A"})
        )),
        Just(citation(
            "toolwire/responses",
            json!({"type": "url_citation", "start_index": 0, "end_index": 1, "url": "https://example.com", "title": "A"})
        )),
    ]
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
        1 => Just(ClientEvent::TextPart),
        1 => citation().prop_map(ClientEvent::Citation),
        1 => Just(ClientEvent::Details(ResponseDetails::default())),
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
            let has_parts = events.iter().any(|event| matches!(event, ClientEvent::TextPart | ClientEvent::Citation(_)));
            let splits = (shows_thinking || has_parts) && family != Family::OpenAiChat;
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

/// Returns the name of an event.
fn event_name(events: &[StreamEvent], index: usize) -> Option<&'static str> {
    events.get(index).and_then(|event| event.name)
}

fn check_items(events: &[StreamEvent], data: &[&Value]) {
    let mut open: Option<(usize, Value)> = None;
    let mut items = 0;
    for (number, (event, data)) in events.iter().zip(data).enumerate() {
        let name = data["type"].as_str().unwrap();
        assert_eq!((event.name, &data["sequence_number"]), (Some(name), &json!(number)));
        match name {
            "response.created" => assert_eq!(number, 0),
            "response.queued" => assert_eq!(number, 1),
            "response.in_progress" => {
                assert_eq!(number, 1 + usize::from(event_name(events, 1) == Some("response.queued")))
            }
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
                let deltas: &[&str] = match open.expect("an open block") {
                    "text" => &["text_delta", "citations_delta"],
                    "thinking" => &["thinking_delta"],
                    _ => &["input_json_delta"],
                };
                let delta = &data["delta"]["type"];
                assert!(deltas.iter().any(|expected| delta == expected), "{delta} is not one of {deltas:?}");
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

/// SDKs with strict types reject other codes than those of OpenAI. Its own codes are preserved.
#[test]
fn a_failed_response_has_a_code_of_openai() {
    let with_code = |code: &str| {
        let mut error = ClientError::new(ErrorKind::InvalidRequest, "no");
        error.code = Some(code.to_owned());
        error
    };
    for (error, code) in [
        (ClientError::new(ErrorKind::RateLimited, "no"), "rate_limit_exceeded"),
        (ClientError::new(ErrorKind::QuotaExceeded, "no"), "rate_limit_exceeded"),
        (ClientError::new(ErrorKind::ContextExceeded, "no"), "invalid_prompt"),
        (ClientError::new(ErrorKind::Unreachable, "no"), "server_error"),
        (ClientError::new(ErrorKind::ProviderKey, "no"), "server_error"),
        (with_code("image_too_large"), "image_too_large"),
        (with_code("unsupported_value"), "invalid_prompt"),
    ] {
        let (_, body) = write(Family::OpenAiResponses, head(false, false), &[ClientEvent::Failed(error)]);
        assert_eq!(body["error"], json!({"code": code, "message": "no"}));
    }
}

#[test]
fn errors_have_the_status_and_the_type_of_each_api() {
    let invalid =
        toolwire_dialect::client::read_client_request(Family::OpenAiChat, json!({"model": "m"})).unwrap();
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

/// Reads the events of a provider, and writes them for a client of a family.
fn convert(dialect: Dialect, events: &[Value], family: Family) -> Value {
    let tools = Arc::new(Toolset::new(&[], dialect, &Options::default()));
    let mut stream = ResponseStream::new(dialect, tools);
    let mut writer = ResponseWriter::new(family, head(false, false)).unwrap();
    writer.start();
    for event in events {
        for event in stream.push(event).unwrap() {
            let event = match event {
                ModelEvent::Text(text) => ClientEvent::Text(text),
                ModelEvent::TextPart => ClientEvent::TextPart,
                ModelEvent::Citation(citation) => ClientEvent::Citation(citation),
                ModelEvent::Media(content) => ClientEvent::Media(content),
                ModelEvent::Details(details) => ClientEvent::Details(details),
                other => panic!("unexpected event {other:?}"),
            };
            writer.event(&event);
        }
    }
    let ModelResponse { stop, usage, .. } = stream.finish().unwrap();
    writer.event(&ClientEvent::Done { stop, usage });
    writer.body()
}

#[test]
fn citations_of_a_stream_of_anthropic_arrive_unchanged() {
    let citation = json!({"type": "char_location", "cited_text": "two", "document_index": 0, "document_title": "A",
        "start_char_index": 0, "end_char_index": 3});
    let block = |index: u64| json!({"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}});
    let delta =
        |index: u64, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let text = |index: u64, text: &str| delta(index, json!({"type": "text_delta", "text": text}));
    let events = [
        json!({"type": "message_start", "message": {"id": "msg_1", "usage": {
            "input_tokens": 1, "output_tokens": 1, "service_tier": "priority"}}}),
        block(0),
        text(0, "One "),
        block(1),
        delta(1, json!({"type": "citations_delta", "citation": citation})),
        text(1, "two"),
        text(1, " and"),
        block(2),
        text(2, "."),
        json!({"type": "message_delta", "delta": {"stop_reason": "model_context_window_exceeded"}, "usage": {"output_tokens": 5}}),
    ];
    let body = convert(Dialect::Anthropic, &events, Family::Anthropic);
    let expected = json!([
        {"type": "text", "text": "One "},
        {"type": "text", "text": "two and", "citations": [citation]},
        {"type": "text", "text": "."},
    ]);
    assert_eq!(body["content"], expected);
    assert_eq!(body["stop_reason"], "model_context_window_exceeded");
    assert_eq!(body["usage"]["service_tier"], "priority");
}

#[test]
fn annotations_are_passed_on_between_the_apis_of_openai() {
    let fields = json!({"start_index": 0, "end_index": 3, "url": "https://example.com", "title": "A"});
    let mut flat = fields.clone();
    flat["type"] = json!("url_citation");
    let nested = json!({"type": "url_citation", "url_citation": fields});
    let chunk = |delta: Value, reason: Value| {
        json!({
            "id": "c", "service_tier": "flex", "system_fingerprint": "fp", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        })
    };
    let chat = [
        chunk(json!({"role": "assistant", "content": "One"}), Value::Null),
        chunk(json!({"annotations": [nested]}), Value::Null),
        chunk(json!({}), json!("stop")),
    ];
    let item = json!({"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [
        {"type": "output_text", "text": "One", "annotations": [flat]}]});
    let completed = json!({"type": "response.completed", "response": {
        "id": "r", "status": "completed", "service_tier": "flex", "output": [item]}});
    let position = json!({"item_id": "msg_1", "output_index": 0, "content_index": 0});
    let mut text = position.clone();
    (text["type"], text["delta"]) = (json!("response.output_text.delta"), json!("One"));
    let mut added = position;
    (added["type"], added["annotation"]) = (json!("response.output_text.annotation.added"), flat.clone());
    let done = json!({"type": "response.output_item.done", "output_index": 0, "item": item});
    // A citation is in its own event, in the item, or only in the complete response.
    let streams: [(Dialect, Vec<Value>); 4] = [
        (Dialect::OpenAi, chat.to_vec()),
        (Dialect::Responses, vec![text.clone(), added, done.clone(), completed.clone()]),
        (Dialect::Responses, vec![text, done, completed.clone()]),
        (Dialect::Responses, vec![completed]),
    ];
    for (dialect, events) in streams {
        let body = convert(dialect, &events, Family::OpenAiChat);
        assert_eq!(body["choices"][0]["message"]["content"], "One", "{events:?}");
        assert_eq!(body["choices"][0]["message"]["annotations"], json!([nested]), "{events:?}");
        assert_eq!(body["service_tier"], "flex");
        let body = convert(dialect, &events, Family::OpenAiResponses);
        assert_eq!(body["output"][0]["content"][0]["annotations"], json!([flat]), "{events:?}");
        assert_eq!(body["service_tier"], "flex");
    }
}

/// The positions of a citation refer to the text of its own round.
#[test]
fn annotations_of_a_later_round_are_moved() {
    let citation = |start: u64| {
        let value = json!({"type": "url_citation", "start_index": start, "end_index": start + 2, "url": "https://a.example", "title": "A"});
        ClientEvent::Citation(Citation { family: "toolwire/responses".to_owned(), value })
    };
    let events = [
        ClientEvent::Text("Où?".to_owned()),
        citation(0),
        ClientEvent::RoundFinished,
        ClientEvent::Text("Là.".to_owned()),
        citation(1),
        ClientEvent::Done { stop: StopReason::End, usage: None },
    ];
    let (_, body) = write(Family::OpenAiChat, head(false, false), &events);
    let message = &body["choices"][0]["message"];
    assert_eq!(message["content"], "Où?\n\nLà.");
    let starts: Vec<&Value> = message["annotations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["url_citation"]["start_index"])
        .collect();
    assert_eq!(starts, [&json!(0), &json!(6)]);
}

/// Anthropic's citations precede their text.
#[test]
fn a_citation_before_the_text_of_a_round_belongs_to_this_text() {
    let page = json!({"type": "search_result_location", "source": "https://a.example", "title": "A"});
    let citation = ClientEvent::Citation(Citation { family: "toolwire/anthropic".to_owned(), value: page });
    let done = ClientEvent::Done { stop: StopReason::End, usage: None };
    let text = |text: &str| ClientEvent::Text(text.to_owned());
    for (later, content, [start, end]) in
        [(vec![text("Là"), text(".")], "Où?\n\nLà.", [5, 8]), (Vec::new(), "Où?", [3, 3])]
    {
        let events = [text("Où?"), ClientEvent::RoundFinished, citation.clone()];
        let events = [&events[..], &later, std::slice::from_ref(&done)].concat();
        let (_, body) = write(Family::OpenAiChat, head(false, false), &events);
        let message = &body["choices"][0]["message"];
        let expected = json!([{"type": "url_citation", "url_citation": {
            "start_index": start, "end_index": end, "url": "https://a.example", "title": "A"}}]);
        assert_eq!((&message["content"], &message["annotations"]), (&json!(content), &expected));
    }
}

#[test]
fn an_image_of_gemini_is_returned() {
    let part = json!({"inlineData": {"mimeType": "image/jpeg", "data": "AAAA"}});
    let chunk =
        json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]});
    let body = convert(Dialect::Gemini, std::slice::from_ref(&chunk), Family::OpenAiResponses);
    let expected = json!([{
        "id": "ig_10", "type": "image_generation_call", "status": "completed", "result": "AAAA", "output_format": "jpeg",
    }]);
    assert_eq!(body["output"], expected);
    let body = convert(Dialect::Gemini, &[chunk], Family::OpenAiChat);
    let url = "data:image/jpeg;base64,AAAA";
    assert_eq!(
        body["choices"][0]["message"]["images"],
        json!([{"type": "image_url", "image_url": {"url": url}}])
    );
}

/// The Responses API has no stop sequences.
#[test]
fn a_text_ends_before_a_stop_sequence_of_an_api_that_has_none() {
    let message = |text: &str| {
        json!({"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [
        {"type": "output_text", "text": text, "annotations": []}]})
    };
    let delta = |text: &str| json!({"type": "response.output_text.delta", "output_index": 0, "item_id": "m", "delta": text});
    let completed = |text: &str| {
        json!({"type": "response.completed", "response": {
        "id": "r", "status": "completed", "output": [message(text)], "usage": {"input_tokens": 1, "output_tokens": 2}}})
    };
    let read = |dialect: Dialect, events: &[Value]| {
        let tools = Arc::new(Toolset::new(&[], dialect, &Options::default()));
        let mut stream = ResponseStream::new(dialect, tools).with_stop(&["END".to_owned()]);
        let mut texts = Vec::new();
        for event in events {
            texts.extend(stream.push(event).unwrap().into_iter().filter_map(|event| match event {
                ModelEvent::Text(text) => Some(text),
                _ => None,
            }));
        }
        let is_stopped = stream.is_stopped();
        let Facts { text, stop, .. } = facts(&stream.finish().unwrap());
        (texts, is_stopped, text, stop)
    };
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let sequence = StopReason::Sequence("END".to_owned());
    let events = [delta("one E"), delta("N"), delta("D two"), completed("one END two")];
    let expected = (texts(&["one "]), true, "one ".to_owned(), sequence.clone());
    assert_eq!(read(Dialect::Responses, &events[..3]), expected);
    assert_eq!(read(Dialect::Responses, &events), expected);
    assert_eq!(read(Dialect::Responses, &events[3..]), expected);
    // What was held back is not lost.
    let events = [delta("one E"), delta("N"), completed("one EN")];
    let expected = (texts(&["one ", "EN"]), false, "one EN".to_owned(), StopReason::End);
    assert_eq!(read(Dialect::Responses, &events), expected);
    // Another API ends the text itself.
    let chunk =
        json!({"id": "c", "choices": [{"index": 0, "delta": {"content": "END"}, "finish_reason": "stop"}]});
    let expected = (texts(&["END"]), false, "END".to_owned(), StopReason::End);
    assert_eq!(read(Dialect::OpenAi, &[chunk]), expected);
}

/// A writer that continues after another one has the same items, and goes on counting.
#[test]
fn a_response_is_continued_by_another_writer() {
    let mut head = head(true, false);
    head.is_background = true;
    let events = [
        ClientEvent::Thinking("Let me ".to_owned()),
        ClientEvent::Thinking("think.".to_owned()),
        ClientEvent::Text("Half a ".to_owned()),
        ClientEvent::Text("sentence".to_owned()),
    ];
    for count in 0..=events.len() {
        let mut first = ResponseWriter::new(Family::OpenAiResponses, head.clone()).unwrap();
        assert_eq!(first.body()["status"], "queued");
        let mut sent = first.start();
        sent.extend(events[..count].iter().flat_map(|event| first.event(event)));
        let mut written = WrittenResponse::default();
        let json = |event: &StreamEvent| match &event.data {
            StreamData::Json(value) => value.clone(),
            StreamData::EndMarker => panic!("no event of the Responses API"),
        };
        sent.iter().for_each(|event| written.read(&json(event)));
        let mut continued = head.clone();
        continued.written = Some(written);
        let mut second = ResponseWriter::new(Family::OpenAiResponses, continued).unwrap();
        let mut all = sent.clone();
        all.extend(second.start());
        all.extend(second.event(&ClientEvent::Text("A sentence.".to_owned())));
        all.extend(second.event(&ClientEvent::Done { stop: StopReason::End, usage: None }));
        let data: Vec<Value> = all.iter().map(json).collect();
        check_items(&all, &data.iter().collect::<Vec<_>>());
        let names: Vec<&str> = all[..3].iter().filter_map(|event| event.name).collect();
        assert_eq!(names, ["response.created", "response.queued", "response.in_progress"]);
        let response = &data.last().unwrap()["response"];
        assert_eq!((&response["status"], &response["background"]), (&json!("completed"), &json!(true)));
        let items = response["output"].as_array().unwrap();
        let states: Vec<(&str, &str)> = items
            .iter()
            .map(|item| (item["type"].as_str().unwrap(), item["status"].as_str().unwrap_or_default()))
            .collect();
        let expected = [
            vec![("message", "completed")],
            vec![("reasoning", ""), ("message", "completed")],
            vec![("reasoning", ""), ("message", "completed")],
            vec![("reasoning", ""), ("message", "incomplete"), ("message", "completed")],
            vec![("reasoning", ""), ("message", "incomplete"), ("message", "completed")],
        ];
        assert_eq!(states, expected[count]);
        if count == 4 {
            assert_eq!(items[0]["summary"][0]["text"], "Let me think.");
            assert_eq!(items[1]["content"][0]["text"], "Half a sentence");
        }
    }
}

#[test]
fn a_response_is_cancelled() {
    let mut writer = ResponseWriter::new(Family::OpenAiResponses, head(false, false)).unwrap();
    writer.start();
    writer.event(&ClientEvent::Text("Half a".to_owned()));
    let events = writer.event(&ClientEvent::Cancelled);
    assert_eq!(events.last().unwrap().name, Some("response.incomplete"));
    let body = writer.body();
    assert_eq!((&body["status"], &body["output"][0]["status"]), (&json!("cancelled"), &json!("incomplete")));
    assert_eq!((&body["error"], &body["incomplete_details"]), (&Value::Null, &Value::Null));
}
