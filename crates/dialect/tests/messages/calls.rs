//! Calls in complete and streamed responses. The file contains responses of each API and the expected calls.

use serde_json::{Value, json};
use toolwire_dialect::Dialect;
use toolwire_dialect::request::{wire_id, write_calls};
use toolwire_dialect::response::{CallStream, ResponseError, read_calls};

use crate::{outcome, transcripts};

#[test]
fn every_case_has_the_expected_outcome() {
    let cases: Value = serde_json::from_str(include_str!("calls.json")).unwrap();
    for case in cases.as_array().unwrap() {
        for name in case["dialects"].as_array().unwrap() {
            let dialect: Dialect = name.as_str().unwrap().parse().unwrap();
            if let Some(body) = case.get("body") {
                assert_eq!(
                    outcome(read_calls(dialect, body)),
                    case["expected"],
                    "{dialect}: {}",
                    case["case"]
                );
            }
            if let Some(events) = case.get("events") {
                let mut stream = CallStream::new(dialect);
                for event in events.as_array().unwrap() {
                    let _ = stream.push(event); // `finish` returns the first error again
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
fn written_calls_are_read_as_the_same_calls() {
    for (from, transcript) in transcripts::all() {
        let calls = read_calls(from, &transcript["body"]).unwrap();
        for to in Dialect::all() {
            let messages = write_calls(to, &calls);
            let turn = if messages.len() == 1 { messages[0].clone() } else { Value::Array(messages) };
            let read_back = read_calls(to, &turn).unwrap();
            assert_eq!(read_back.len(), calls.len(), "{from} to {to}");
            for (call, read_back) in calls.iter().zip(&read_back) {
                assert_eq!(read_back.name, call.name);
                if let Some(id) = read_back.id.given() {
                    assert_eq!(id, wire_id(to, call.id.as_str()), "{from} to {to}");
                }
                let value = |arguments: &Value| match arguments {
                    Value::String(text) => serde_json::from_str(text).unwrap(),
                    other => other.clone(),
                };
                assert_eq!(value(&read_back.arguments), value(&call.arguments), "{from} to {to}");
            }
        }
    }
}

#[test]
fn written_calls_have_the_fields_that_each_api_requires() {
    let body = json!({"choices": [{"message": {"tool_calls": [
        {"id": "functions.get:0", "function": {"name": "get", "arguments": ""}},
        {"id": "functions.get:1", "function": {"name": "get", "arguments": "{\"a\":"}}]}, "finish_reason": "stop"}]});
    let calls = read_calls(Dialect::OpenAi, &body).unwrap();
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
    let event = json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}});
    let error = stream.push(&event);
    assert_eq!(error, Err(ResponseError::Provider { message: "busy".to_owned(), body: event }));
    assert_eq!(stream.push(&json!({"type": "ping"})), error);
    assert_eq!(stream.finish().map(|_| ()), error);
}

#[test]
fn errors_contain_the_position_and_a_hint() {
    let error =
        read_calls(Dialect::OpenAi, &json!({"choices": [{"message": {"tool_calls": 5}}]})).unwrap_err();
    assert_eq!(error.to_string(), "expected an array at `/choices/0/message/tool_calls`, found a number");
    assert_eq!(error.hint(), "check that the endpoint implements the dialect it is configured with");
    let body = json!({"content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}], "stop_reason": "max_tokens"});
    let error = read_calls(Dialect::Anthropic, &body).unwrap_err();
    assert_eq!(error.to_string(), "the response was cut off (max_tokens) with 1 call unfinished");
}
