//! Cases of calls, whole and streamed; the file says what each API sent and what must come of it.

use serde_json::{Value, json};
use toolwire_dialect::{CallError, CallStream, Dialect, read_calls, wire_id, write_calls};

use crate::{outcome, transcripts};

#[test]
fn every_case_comes_out_as_written() {
    let cases: Value = serde_json::from_str(include_str!("calls.json")).unwrap();
    for case in cases.as_array().unwrap() {
        for name in case["dialects"].as_array().unwrap() {
            let dialect: Dialect = name.as_str().unwrap().parse().unwrap();
            if let Some(answer) = case.get("answer") {
                assert_eq!(
                    outcome(read_calls(dialect, answer)),
                    case["expected"],
                    "{dialect}: {}",
                    case["case"]
                );
            }
            if let Some(events) = case.get("events") {
                let mut stream = CallStream::new(dialect);
                for event in events.as_array().unwrap() {
                    let _ = stream.push(event); // the first error is kept and `finish` repeats it
                }
                assert_eq!(
                    outcome(stream.finish()),
                    case["expected"],
                    "{dialect}: {} (events)",
                    case["case"]
                );
            }
        }
    }
}

#[test]
fn calls_written_back_are_read_as_the_same_calls() {
    for (from, transcript) in transcripts::all() {
        let calls = read_calls(from, &transcript["whole"]).unwrap();
        for to in Dialect::all() {
            let messages = write_calls(to, &calls);
            let turn = if messages.len() == 1 { messages[0].clone() } else { Value::Array(messages) };
            let again = read_calls(to, &turn).unwrap();
            assert_eq!(again.len(), calls.len(), "{from} to {to}");
            for (call, again) in calls.iter().zip(&again) {
                assert_eq!(again.name, call.name);
                if let Some(given) = again.id.given() {
                    assert_eq!(given, wire_id(to, call.id.as_str()), "{from} to {to}");
                }
                let value = |arguments: &Value| match arguments {
                    Value::String(text) => serde_json::from_str(text).unwrap(),
                    other => other.clone(),
                };
                assert_eq!(value(&again.arguments), value(&call.arguments), "{from} to {to}");
            }
        }
    }
}

#[test]
fn history_keeps_what_each_api_asks_for() {
    let bare = json!({"choices": [{"message": {"tool_calls": [
        {"id": "functions.get:0", "function": {"name": "get", "arguments": ""}},
        {"id": "functions.get:1", "function": {"name": "get", "arguments": "{\"a\":"}}]}, "finish_reason": "stop"}]});
    let calls = read_calls(Dialect::OpenAi, &bare).unwrap();
    assert_eq!(
        write_calls(Dialect::Xai, &calls[..1]),
        [json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "functions.get:0", "type": "function", "function": {"name": "get", "arguments": "{}"}}]})],
    );
    assert_eq!(
        write_calls(Dialect::Gemini, &calls),
        [json!({"role": "model", "parts": [
            {"functionCall": {"id": "functions.get:0", "name": "get", "args": {}},
             "thoughtSignature": "skip_thought_signature_validator"},
            {"functionCall": {"id": "functions.get:1", "name": "get", "args": {"arguments": "{\"a\":"}}}]})],
    );
    assert_eq!(write_calls(Dialect::OpenAi, &[]), Vec::<Value>::new());
}

#[test]
fn the_first_error_is_final() {
    let mut stream = CallStream::new(Dialect::Anthropic);
    let error =
        stream.push(&json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}));
    assert_eq!(error, Err(CallError::ErrorAnswer { message: "busy".to_owned() }));
    assert_eq!(stream.push(&json!({"type": "ping"})), error);
    assert_eq!(stream.finish().map(|_| ()), error);
}

#[test]
fn errors_say_where_and_what_next() {
    let error =
        read_calls(Dialect::OpenAi, &json!({"choices": [{"message": {"tool_calls": 5}}]})).unwrap_err();
    assert_eq!(error.to_string(), "expected an array at `/choices/0/message/tool_calls`, found a number");
    assert_eq!(error.hint(), "check that the endpoint speaks the dialect it was configured with");
    let cut = json!({"content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}], "stop_reason": "max_tokens"});
    let error = read_calls(Dialect::Anthropic, &cut).unwrap_err();
    assert_eq!(error.to_string(), "the answer was cut off (max_tokens) with 1 call unfinished");
}
