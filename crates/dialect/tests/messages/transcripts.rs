//! Each API's answer with two calls: whole, streamed in pieces of every size, interleaved, and cut short.
//!
//! In the file, `$A` and `$B` stand for the arguments as text, `$A object` for the value, `$PIECE` for a piece of text.
//! Where an API sends whole calls, the events `a` and `b` hold no piece and come once.

use serde_json::Value;
use toolwire_dialect::{CallError, CallStream, Dialect, read_calls};

use crate::outcome;

/// An escaped surrogate pair, characters of two to four bytes, digits no double holds.
const A: &str = r#"{"q":"\ud83d\ude00 ü€😀","n":12345678901234567890,"d":1.10}"#;
const B: &str = r#"{"list":[{"x":null},"\\\""],"e":""}"#;

pub(crate) fn all() -> Vec<(Dialect, Value)> {
    let file: Value = serde_json::from_str(include_str!("transcripts.json")).unwrap();
    let entries = file.as_object().unwrap().iter();
    entries.map(|(name, transcript)| (name.parse().unwrap(), filled(transcript, ""))).collect()
}

fn filled(template: &Value, piece: &str) -> Value {
    match template {
        Value::String(text) => match text.as_str() {
            "$A" => A.into(),
            "$B" => B.into(),
            "$A object" => serde_json::from_str(A).unwrap(),
            "$B object" => serde_json::from_str(B).unwrap(),
            "$PIECE" if !piece.is_empty() => piece.into(),
            other => other.into(),
        },
        Value::Array(items) => items.iter().map(|item| filled(item, piece)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), filled(value, piece))).collect::<Value>()
        }
        other => other.clone(),
    }
}

fn comes_in_pieces(transcript: &Value) -> bool {
    transcript["a"].to_string().contains("$PIECE")
}

/// The whole stream, with the arguments in the given pieces, call by call in turns.
fn events(transcript: &Value, a_pieces: &[&str], b_pieces: &[&str]) -> Vec<Value> {
    let mut events = transcript["before"].as_array().unwrap().clone();
    if comes_in_pieces(transcript) {
        for turn in 0..a_pieces.len().max(b_pieces.len()) {
            events.extend(a_pieces.get(turn).map(|piece| filled(&transcript["a"], piece)));
            events.extend(b_pieces.get(turn).map(|piece| filled(&transcript["b"], piece)));
        }
    } else {
        events.extend([transcript["a"].clone(), transcript["b"].clone()]);
    }
    events.extend(transcript["end"].as_array().unwrap().clone());
    events
}

#[track_caller]
fn check_stream(dialect: Dialect, transcript: &Value, a_pieces: &[&str], b_pieces: &[&str]) {
    let mut stream = CallStream::new(dialect);
    for event in events(transcript, a_pieces, b_pieces) {
        stream.push(&event).unwrap_or_else(|error| panic!("{dialect}: {error} in {event}"));
    }
    assert_eq!(outcome(stream.finish()), transcript["calls"], "{dialect} {a_pieces:?}");
}

fn characters(text: &str) -> Vec<&str> {
    text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]).collect()
}

#[test]
fn whole_answers_give_their_calls() {
    for (dialect, transcript) in all() {
        assert_eq!(outcome(read_calls(dialect, &transcript["whole"])), transcript["calls"], "{dialect}");
    }
}

#[test]
fn the_assistant_message_alone_is_enough() {
    for (dialect, transcript) in all() {
        let whole = &transcript["whole"];
        let places =
            ["/choices/0/message", "/output/message", "/message", "/candidates/0/content", "/output", ""];
        let message = places.iter().find_map(|place| whole.pointer(place)).unwrap();
        assert_eq!(outcome(read_calls(dialect, message)), transcript["calls"], "{dialect}");
    }
}

#[test]
fn streams_give_the_same_however_they_are_split() {
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
fn a_stream_cut_short_never_gives_calls_to_run() {
    for (dialect, transcript) in all() {
        let events = events(&transcript, &characters(A), &characters(B));
        let end = transcript["end"].as_array().unwrap().len();
        // The last events may only report usage; up to there, the answer has not said that it ended.
        let ending_event =
            events.len() - end + transcript["end"].as_array().unwrap().iter().position(ends).unwrap();
        for length in 0..=ending_event {
            let mut stream = CallStream::new(dialect);
            for event in &events[..length] {
                stream.push(event).unwrap();
            }
            match stream.finish() {
                Ok(calls) => assert_eq!(calls, [], "{dialect} after {length} events"),
                Err(CallError::Cut { calls, .. }) => assert!(!calls.is_empty()),
                Err(other) => panic!("{dialect} after {length} events: {other}"),
            }
        }
    }
}

fn ends(event: &Value) -> bool {
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
    .any(|word| text.contains(word))
}
