//! Each API's responses, complete and streamed: both have the same outcome, and a stream that ends early is
//! never accepted as complete.

use std::sync::Arc;

use serde_json::{Value, json};
use toolwire_contract::model::{ModelEvent, ModelResponse, StopReason};
use toolwire_contract::{Block, Content, ToolCall};
use toolwire_dialect::Dialect;
use toolwire_dialect::response::{ResponseError, ResponseStream, read_response};

use crate::{check_file, fill_template, outcome, read, toolset};

const DIALECTS: [&str; 12] = [
    "openai",
    "responses",
    "anthropic",
    "gemini",
    "bedrock",
    "cohere",
    "ollama",
    "mcp",
    "deepseek",
    "xai",
    "mistral",
    "dial",
];

/// Returns every transcript: the dialect, the case, the complete body, the events.
fn transcripts() -> Vec<(Dialect, String, Value, Vec<Value>)> {
    let mut transcripts = Vec::new();
    for name in DIALECTS {
        let dialect: Dialect = name.parse().unwrap();
        let file = fill_template(&read(&format!("responses/{name}.json")), &toolset(dialect));
        for (case, transcript) in file.as_object().unwrap() {
            let events = transcript["events"].as_array().unwrap().clone();
            transcripts.push((dialect, case.clone(), transcript["body"].clone(), events));
        }
    }
    transcripts
}

/// Returns the events and the outcome of a stream.
fn stream(dialect: Dialect, events: &[Value]) -> (Vec<ModelEvent>, Result<ModelResponse, ResponseError>) {
    let mut stream = ResponseStream::new(dialect, Arc::new(toolset(dialect)));
    let mut emitted = Vec::new();
    for event in events {
        match stream.push(event) {
            Ok(more) => emitted.extend(more),
            Err(error) => {
                assert_eq!(stream.push(event), Err(error.clone()), "the first error is final");
                assert_eq!(stream.finish(), Err(error.clone()));
                return (emitted, Err(error));
            }
        }
    }
    (emitted, stream.finish())
}

#[test]
fn complete_responses_have_the_expected_outcome() {
    for name in DIALECTS {
        let outcomes = transcripts().into_iter().filter(|(dialect, ..)| dialect.name() == name);
        let outcomes: Value = outcomes
            .map(|(dialect, case, body, _)| {
                (case, outcome(&read_response(dialect, &body, &toolset(dialect), "")))
            })
            .collect();
        check_file(&format!("responses/expected/{name}.json"), &outcomes);
    }
}

#[test]
fn streams_have_the_same_outcome_as_complete_responses() {
    for (dialect, case, body, events) in transcripts() {
        let complete = read_response(dialect, &body, &toolset(dialect), "");
        assert_eq!(outcome(&stream(dialect, &events).1), outcome(&complete), "{dialect}: {case}");
    }
}

#[test]
fn text_of_items_without_index_and_id_is_not_duplicated() {
    for (dialect, case, _, mut events) in transcripts() {
        if dialect != Dialect::Responses || !["text", "text in two phases", "refusal"].contains(&&*case) {
            continue;
        }
        let expected = stream(dialect, &events);
        for event in &mut events {
            event.as_object_mut().unwrap().retain(|key, _| !["output_index", "item_id"].contains(&&**key));
            if let Some(item) = event.get_mut("item") {
                item.as_object_mut().unwrap().remove("id");
            }
        }
        assert_eq!(stream(dialect, &events), expected, "{case}");
    }
}

#[test]
fn events_contain_the_text_the_media_and_the_calls_of_the_response() {
    for (dialect, case, _, events) in transcripts() {
        let (emitted, Ok(response)) = stream(dialect, &events) else { continue };
        let (mut text, mut thinking) = (String::new(), String::new());
        let (mut calls, mut media, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        for event in emitted {
            match event {
                ModelEvent::Text(fragment) | ModelEvent::Refusal(fragment) => text.push_str(&fragment),
                ModelEvent::Thinking(fragment) => thinking.push_str(&fragment),
                ModelEvent::CallAnnounced { id, name } => calls.push((id, name)),
                ModelEvent::Media(content) => media.push(content),
                ModelEvent::ProviderPart(part) => parts.push(part.value),
                other => panic!("{dialect}: {case}: an unexpected event: {other:?}"),
            }
        }
        let blocks = &response.message.content;
        let expected_text = blocks.iter().filter_map(|block| match block {
            Block::Content(Content::Text { text, .. }) => Some(text.as_str()),
            _ => None,
        });
        let expected_thinking = blocks.iter().filter_map(|block| match block {
            Block::Content(Content::Other(value)) if value["type"] == "thinking" => value["text"].as_str(),
            _ => None,
        });
        // The block also has data of the provider.
        let expected_media = blocks.iter().filter_map(|block| match block {
            Block::Content(Content::Image { data, mime_type, .. }) => Some(Content::image(data, mime_type)),
            Block::Content(Content::Audio { data, mime_type, .. }) => Some(Content::audio(data, mime_type)),
            _ => None,
        });
        // The gateway serves only these two APIs with parts of their own.
        let expected_parts = blocks.iter().filter_map(|block| match block {
            Block::Content(Content::Other(value)) if value["type"] != "thinking" => {
                let meta = value.get("_meta")?;
                meta.get("toolwire/anthropic").or(meta.get("toolwire/responses")).cloned()
            }
            _ => None,
        });
        assert_eq!(parts, expected_parts.collect::<Vec<_>>(), "{dialect}: {case}");
        let announced = |(id, call): (&str, &ToolCall)| (id.to_owned(), call.name.clone());
        assert_eq!(text, expected_text.collect::<String>(), "{dialect}: {case}");
        assert_eq!(thinking, expected_thinking.collect::<String>(), "{dialect}: {case}");
        assert_eq!(media, expected_media.collect::<Vec<_>>(), "{dialect}: {case}");
        assert_eq!(calls, response.message.calls().map(announced).collect::<Vec<_>>(), "{dialect}: {case}");
    }
}

#[test]
fn a_stream_that_ends_early_is_never_complete() {
    let mut incomplete = 0;
    for (dialect, case, _, events) in transcripts() {
        let complete = stream(dialect, &events).1;
        for length in 0..events.len() {
            match stream(dialect, &events[..length]).1 {
                // Only the usage may be missing.
                Ok(response) => {
                    let complete =
                        complete.clone().unwrap_or_else(|error| panic!("{dialect}: {case}: {error}"));
                    assert_eq!(
                        ModelResponse { usage: complete.usage, ..response },
                        complete,
                        "{dialect}: {case} after {length}"
                    );
                }
                Err(ResponseError::Incomplete { response }) => {
                    incomplete += 1;
                    let calls: Vec<&str> = response.message.calls().map(|(id, _)| id).collect();
                    let unusable: Vec<&str> = response.unusable.iter().map(|call| call.id.as_str()).collect();
                    assert_eq!(calls, unusable, "{dialect}: {case} after {length}");
                }
                Err(error) => assert_eq!(Err(error), complete, "{dialect}: {case} after {length}"),
            }
        }
    }
    assert!(incomplete > 300, "{incomplete}");
}

#[test]
fn a_provider_error_contains_the_complete_body() {
    for (dialect, case, complete, events) in transcripts() {
        if case != "error" {
            continue;
        }
        let Err(ResponseError::Provider { message, body }) =
            read_response(dialect, &complete, &toolset(dialect), "")
        else {
            panic!("{dialect}");
        };
        assert_eq!((message.as_str(), &body), ("Overloaded", &complete));
        let Err(ResponseError::Provider { body, .. }) = stream(dialect, &events).1 else {
            panic!("{dialect}")
        };
        assert_eq!(Some(&body), events.last());
    }
}

#[test]
fn synthetic_ids_differ_between_responses_and_are_stable() {
    let ids = |response: &str, seed: &str| -> Vec<String> {
        let mut stream =
            ResponseStream::new(Dialect::Gemini, Arc::new(toolset(Dialect::Gemini))).with_seed(seed);
        let call = serde_json::json!({"functionCall": {"name": "get_weather", "args": {"city": "Bern"}}});
        let event = serde_json::json!({"responseId": response, "candidates": [
            {"content": {"parts": [call, call]}, "finishReason": "STOP"}]});
        stream.push(&event).unwrap();
        stream.finish().unwrap().message.calls().map(|(id, _)| id.to_owned()).collect()
    };
    assert_eq!(ids("a", "1"), ids("a", "1"));
    let ids = [ids("a", "1"), ids("b", "1"), ids("a", "2")].concat();
    assert_eq!(ids.iter().collect::<std::collections::HashSet<_>>().len(), 6, "{ids:?}");
}

#[test]
fn arguments_that_are_nested_too_deeply_are_unusable_and_stored_as_text() {
    let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    for (levels, is_accepted) in [(99, true), (100, false)] {
        // The object that contains the array is one more level.
        let arguments = format!(r#"{{"city":"Bern","extra":{}}}"#, deep(levels));
        let body = json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant",
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}]}}]});
        let dialect = Dialect::OpenAi;
        let response = read_response(dialect, &body, &toolset(dialect), "").unwrap();
        let (_, call) = response.message.calls().next().unwrap();
        assert_eq!(call.arguments.is_some(), is_accepted, "{levels}");
        if !is_accepted {
            assert!(
                response.unusable[0].problem.contains("nested 101 levels deep"),
                "{:?}",
                response.unusable
            );
            assert_eq!(call.extra["_meta"]["toolwire/arguments"], arguments);
        }
    }
}

/// Anthropic names the stop sequence that ended a response.
#[test]
fn a_stop_sequence_is_named() {
    let toolset = toolset(Dialect::Anthropic);
    for (sequence, expected) in
        [(json!("END"), StopReason::Sequence("END".to_owned())), (Value::Null, StopReason::End)]
    {
        let body = json!({
            "type": "message", "role": "assistant", "content": [{"type": "text", "text": "one"}],
            "stop_reason": "stop_sequence", "stop_sequence": sequence,
        });
        let response = read_response(Dialect::Anthropic, &body, &toolset, "seed").unwrap();
        assert_eq!(response.stop, expected);
    }
}
