//! Each API's response with two calls: complete, streamed in fragments of every size, interleaved, and cut
//! off.
//!
//! In the file, `$A` and `$B` are the arguments as text, `$A object` is the value, and `$FRAGMENT` is a
//! fragment of text. If an API sends complete calls, the events `a` and `b` contain no fragment and are sent
//! once.

use serde_json::Value;
use toolwire_dialect::Dialect;
use toolwire_dialect::response::{CallStream, ResponseError, read_calls};

use crate::outcome;

/// An escaped surrogate pair, characters of two to four bytes, and a number that a double cannot represent.
const A: &str = r#"{"q":"\ud83d\ude00 ü€😀","n":12345678901234567890,"d":1.10}"#;
const B: &str = r#"{"list":[{"x":null},"\\\""],"e":""}"#;

pub(crate) fn all() -> Vec<(Dialect, Value)> {
    let file: Value = serde_json::from_str(include_str!("transcripts.json")).unwrap();
    let entries = file.as_object().unwrap().iter();
    entries.map(|(name, transcript)| (name.parse().unwrap(), fill_template(transcript, ""))).collect()
}

fn fill_template(template: &Value, fragment: &str) -> Value {
    match template {
        Value::String(text) => match text.as_str() {
            "$A" => A.into(),
            "$B" => B.into(),
            "$A object" => serde_json::from_str(A).unwrap(),
            "$B object" => serde_json::from_str(B).unwrap(),
            "$FRAGMENT" if !fragment.is_empty() => fragment.into(),
            other => other.into(),
        },
        Value::Array(items) => items.iter().map(|item| fill_template(item, fragment)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), fill_template(value, fragment))).collect::<Value>()
        }
        other => other.clone(),
    }
}

fn has_fragments(transcript: &Value) -> bool {
    transcript["a"].to_string().contains("$FRAGMENT")
}

/// Returns the complete stream, with the arguments in these fragments, alternating between the calls.
fn events(transcript: &Value, a_fragments: &[&str], b_fragments: &[&str]) -> Vec<Value> {
    let mut events = transcript["before"].as_array().unwrap().clone();
    if has_fragments(transcript) {
        for turn in 0..a_fragments.len().max(b_fragments.len()) {
            events.extend(a_fragments.get(turn).map(|fragment| fill_template(&transcript["a"], fragment)));
            events.extend(b_fragments.get(turn).map(|fragment| fill_template(&transcript["b"], fragment)));
        }
    } else {
        events.extend([transcript["a"].clone(), transcript["b"].clone()]);
    }
    events.extend(transcript["end"].as_array().unwrap().clone());
    events
}

#[track_caller]
fn check_stream(dialect: Dialect, transcript: &Value, a_fragments: &[&str], b_fragments: &[&str]) {
    let mut stream = CallStream::new(dialect);
    for event in events(transcript, a_fragments, b_fragments) {
        stream.push(&event).unwrap_or_else(|error| panic!("{dialect}: {error} in {event}"));
    }
    assert_eq!(outcome(stream.finish()), transcript["calls"], "{dialect} {a_fragments:?}");
}

fn characters(text: &str) -> Vec<&str> {
    text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]).collect()
}

#[test]
fn complete_responses_return_their_calls() {
    for (dialect, transcript) in all() {
        assert_eq!(outcome(read_calls(dialect, &transcript["body"])), transcript["calls"], "{dialect}");
    }
}

#[test]
fn calls_are_read_from_the_assistant_message_alone() {
    for (dialect, transcript) in all() {
        let body = &transcript["body"];
        let pointers =
            ["/choices/0/message", "/output/message", "/message", "/candidates/0/content", "/output", ""];
        let message = pointers.iter().find_map(|pointer| body.pointer(pointer)).unwrap();
        assert_eq!(outcome(read_calls(dialect, message)), transcript["calls"], "{dialect}");
    }
}

#[test]
fn streams_return_the_same_calls_wherever_they_are_split() {
    for (dialect, transcript) in all() {
        check_stream(dialect, &transcript, &[A], &[B]);
        check_stream(dialect, &transcript, &characters(A), &characters(B));
        for (at, _) in A.char_indices().skip(1) {
            check_stream(dialect, &transcript, &[&A[..at], &A[at..]], &[B]);
        }
        for (at, _) in B.char_indices().skip(1) {
            check_stream(dialect, &transcript, &[A], &[&B[..at], &B[at..]]);
        }
    }
}

#[test]
fn a_stream_that_ends_early_never_returns_calls_to_run() {
    for (dialect, transcript) in all() {
        let events = events(&transcript, &characters(A), &characters(B));
        let end = transcript["end"].as_array().unwrap().len();
        // The last events may only contain the usage. Before them, the end of the response was not reported.
        let ending_event =
            events.len() - end + transcript["end"].as_array().unwrap().iter().position(reports_end).unwrap();
        for length in 0..=ending_event {
            let mut stream = CallStream::new(dialect);
            for event in &events[..length] {
                stream.push(event).unwrap();
            }
            match stream.finish() {
                Ok(calls) => assert_eq!(calls, [], "{dialect} after {length} events"),
                Err(ResponseError::CutOff { calls, .. }) => assert!(!calls.is_empty()),
                Err(other) => panic!("{dialect} after {length} events: {other}"),
            }
        }
    }
}

fn reports_end(event: &Value) -> bool {
    let text = event.to_string();
    [
        "finish_reason\":\"",
        "stop_reason\":\"",
        "finishReason",
        "stopReason",
        "response.completed",
        "done_reason",
    ]
    .iter()
    .any(|token| text.contains(token))
}
