//! Each API's answers, whole and streamed: both give the same, and a cut stream never passes for a whole one.

use std::sync::Arc;

use serde_json::{Value, json};
use toolwire_contract::{Block, Content, ModelEvent, ModelResponse, ToolCall};
use toolwire_dialect::{AnswerError, AnswerStream, Dialect, read_answer};

use crate::{check_file, filled, outcome, read, toolset};

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

/// Every transcript: the dialect, the case, the whole answer, the events.
fn transcripts() -> Vec<(Dialect, String, Value, Vec<Value>)> {
    let mut transcripts = Vec::new();
    for name in DIALECTS {
        let dialect: Dialect = name.parse().unwrap();
        let file = filled(&read(&format!("answers/{name}.json")), &toolset(dialect));
        for (case, transcript) in file.as_object().unwrap() {
            let events = transcript["events"].as_array().unwrap().clone();
            transcripts.push((dialect, case.clone(), transcript["whole"].clone(), events));
        }
    }
    transcripts
}

/// What a stream shows on its way, and what it gives in the end.
fn stream(dialect: Dialect, events: &[Value]) -> (Vec<ModelEvent>, Result<ModelResponse, AnswerError>) {
    let mut stream = AnswerStream::new(dialect, Arc::new(toolset(dialect)));
    let mut shown = Vec::new();
    for event in events {
        match stream.push(event) {
            Ok(pieces) => shown.extend(pieces),
            Err(error) => {
                assert_eq!(stream.push(event), Err(error.clone()), "the first error is final");
                assert_eq!(stream.finish(), Err(error.clone()));
                return (shown, Err(error));
            }
        }
    }
    (shown, stream.finish())
}

#[test]
fn whole_answers_come_out_as_written() {
    for name in DIALECTS {
        let outcomes = transcripts().into_iter().filter(|(dialect, ..)| dialect.name() == name);
        let outcomes: Value = outcomes
            .map(|(dialect, case, whole, _)| {
                (case, outcome(&read_answer(dialect, &whole, &toolset(dialect), "")))
            })
            .collect();
        check_file(&format!("answers/expected/{name}.json"), &outcomes);
    }
}

#[test]
fn streams_give_what_whole_answers_give() {
    for (dialect, case, whole, events) in transcripts() {
        let whole = read_answer(dialect, &whole, &toolset(dialect), "");
        assert_eq!(outcome(&stream(dialect, &events).1), outcome(&whole), "{dialect}: {case}");
    }
}

#[test]
fn what_is_shown_is_what_is_said() {
    for (dialect, case, _, events) in transcripts() {
        let (shown, Ok(answer)) = stream(dialect, &events) else { continue };
        let (mut text, mut thinking, mut calls) = (String::new(), String::new(), Vec::new());
        for event in shown {
            match event {
                ModelEvent::Text(piece) => text.push_str(&piece),
                ModelEvent::Thinking(piece) => thinking.push_str(&piece),
                ModelEvent::CallAnnounced { id, name } => calls.push((id, name)),
                ModelEvent::Response(_) => panic!("{dialect}: {case}: an answer before the end"),
            }
        }
        let blocks = &answer.message.content;
        let said = blocks.iter().filter_map(|block| match block {
            Block::Content(Content::Text { text, .. }) => Some(text.as_str()),
            _ => None,
        });
        let thought = blocks.iter().filter_map(|block| match block {
            Block::Content(Content::Other(value)) if value["type"] == "thinking" => value["text"].as_str(),
            _ => None,
        });
        let called = |(id, call): (&str, &ToolCall)| (id.to_owned(), call.name.clone());
        assert_eq!(text, said.collect::<String>(), "{dialect}: {case}");
        assert_eq!(thinking, thought.collect::<String>(), "{dialect}: {case}");
        assert_eq!(calls, answer.message.calls().map(called).collect::<Vec<_>>(), "{dialect}: {case}");
    }
}

#[test]
fn a_cut_stream_never_passes_for_a_whole_one() {
    let mut cuts = 0;
    for (dialect, case, _, events) in transcripts() {
        let whole = stream(dialect, &events).1;
        for length in 0..events.len() {
            match stream(dialect, &events[..length]).1 {
                // Only the usage may still be on its way.
                Ok(answer) => {
                    let whole = whole.clone().unwrap_or_else(|error| panic!("{dialect}: {case}: {error}"));
                    assert_eq!(
                        ModelResponse { usage: whole.usage, ..answer },
                        whole,
                        "{dialect}: {case} after {length}"
                    );
                }
                Err(AnswerError::Cut { answer }) => {
                    cuts += 1;
                    let calls: Vec<&str> = answer.message.calls().map(|(id, _)| id).collect();
                    let unusable: Vec<&str> = answer.unusable.iter().map(|call| call.id.as_str()).collect();
                    assert_eq!(calls, unusable, "{dialect}: {case} after {length}");
                }
                Err(error) => assert_eq!(Err(error), whole, "{dialect}: {case} after {length}"),
            }
        }
    }
    assert!(cuts > 300, "{cuts}");
}

#[test]
fn the_provider_s_error_is_kept_whole() {
    for (dialect, case, whole, events) in transcripts() {
        if case != "error" {
            continue;
        }
        let Err(AnswerError::Provider { message, body }) =
            read_answer(dialect, &whole, &toolset(dialect), "")
        else {
            panic!("{dialect}");
        };
        assert_eq!((message.as_str(), &body), ("Overloaded", &whole));
        let Err(AnswerError::Provider { body, .. }) = stream(dialect, &events).1 else { panic!("{dialect}") };
        assert_eq!(Some(&body), events.last());
    }
}

#[test]
fn made_up_ids_differ_between_answers_and_stay_the_same() {
    let ids = |response: &str, seed: &str| -> Vec<String> {
        let mut stream =
            AnswerStream::new(Dialect::Gemini, Arc::new(toolset(Dialect::Gemini))).with_seed(seed);
        let call = serde_json::json!({"functionCall": {"name": "get_weather", "args": {"city": "Bern"}}});
        let event = serde_json::json!({"responseId": response, "candidates": [
            {"content": {"parts": [call, call]}, "finishReason": "STOP"}]});
        stream.push(&event).unwrap();
        stream.finish().unwrap().message.calls().map(|(id, _)| id.to_owned()).collect()
    };
    assert_eq!(ids("a", "1"), ids("a", "1"));
    let all = [ids("a", "1"), ids("b", "1"), ids("a", "2")].concat();
    assert_eq!(all.iter().collect::<std::collections::HashSet<_>>().len(), 6, "{all:?}");
}

#[test]
fn arguments_that_are_nested_too_deeply_are_told_and_kept_as_text() {
    let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    for (levels, is_taken) in [(99, true), (100, false)] {
        // The object itself is one more.
        let arguments = format!(r#"{{"city":"Bern","extra":{}}}"#, deep(levels));
        let answer = json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant",
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}]}}]});
        let dialect = Dialect::OpenAi;
        let read = read_answer(dialect, &answer, &toolset(dialect), "").unwrap();
        let (_, call) = read.message.calls().next().unwrap();
        assert_eq!(call.arguments.is_some(), is_taken, "{levels}");
        if !is_taken {
            assert!(read.unusable[0].problem.contains("nested 101 levels deep"), "{:?}", read.unusable);
            assert_eq!(call.extra["_meta"]["toolwire/arguments"], arguments);
        }
    }
}
