//! Bytes of a streamed answer → the JSON values they carry, whichever way the API frames them.
//!
//! State machines: bytes go in as they come, in pieces of any size, and nothing is awaited.

mod aws;
mod lines;
mod sse;

use serde_json::Value;

/// Longer is no part of an answer.
pub(crate) const LONGEST_FRAME: usize = 64 << 20;
/// All events of a stream together; the longest answers of today, with all that is written around each token, take a
/// fraction of it.
pub(crate) const LONGEST_STREAM: usize = 256 << 20;

/// How an API puts the parts of an answer one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events.
    Events,
    /// One JSON value a line.
    Lines,
    /// AWS event-stream frames.
    Aws,
}

/// The bytes are not framed as the API frames them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("one event is longer than {LONGEST_FRAME} bytes")]
    TooLong,
    #[error("the whole stream is longer than {LONGEST_STREAM} bytes")]
    Endless,
    #[error("an event is not UTF-8")]
    NotText,
    #[error("an event is no JSON: {0}")]
    NotJson(String),
    #[error("{0}")]
    Damaged(String),
}

/// Reads one streamed answer.
#[derive(Debug)]
pub(crate) enum Frames {
    Events(sse::Decoder),
    Lines(lines::Decoder),
    Aws(aws::Decoder),
}

impl Frames {
    pub(crate) fn new(framing: Framing) -> Frames {
        match framing {
            Framing::Events => Frames::Events(sse::Decoder::default()),
            Framing::Lines => Frames::Lines(lines::Decoder::default()),
            Framing::Aws => Frames::Aws(aws::Decoder::default()),
        }
    }

    /// Adds the values that are whole with these bytes; also those that come before what cannot be read.
    pub(crate) fn push(&mut self, bytes: &[u8], values: &mut Vec<Value>) -> Result<(), FrameError> {
        match self {
            Frames::Events(decoder) => {
                let mut events = Vec::new();
                let outcome = decoder.push(bytes, &mut events);
                for value in events.into_iter().filter_map(value_of_event) {
                    values.push(value?);
                }
                outcome
            }
            Frames::Lines(decoder) => {
                let mut lines = Vec::new();
                let outcome = decoder.push(bytes, &mut lines);
                for line in lines {
                    values.push(parse(&line)?);
                }
                outcome
            }
            Frames::Aws(decoder) => decoder.push(bytes, values),
        }
    }

    /// The bytes are over: what was still held back, or why they cannot be over.
    pub(crate) fn finish(&mut self) -> Result<Vec<Value>, FrameError> {
        match self {
            // What is not ended by an empty line never was; whether the answer is whole is for its reader to say.
            Frames::Events(_) => Ok(Vec::new()),
            Frames::Lines(decoder) => {
                let mut lines = Vec::new();
                decoder.finish(&mut lines)?;
                lines.iter().map(|line| parse(line)).collect()
            }
            Frames::Aws(decoder) if decoder.is_between_frames() => Ok(Vec::new()),
            Frames::Aws(_) => Err(FrameError::Damaged("the last frame is not whole".to_owned())),
        }
    }
}

/// Whether an answer has nothing more to say after this.
pub(crate) fn is_last(value: &Value) -> bool {
    const WORDS: [&str; 6] = [
        "message_stop",
        "message-end",
        "response.completed",
        "response.incomplete",
        "response.failed",
        "error",
    ];
    let word = value.get("type").and_then(Value::as_str);
    is_done(value)
        || word.is_some_and(|word| WORDS.contains(&word))
        || value.get("done") == Some(&Value::Bool(true))
}

/// OpenAI's closing word, which is no JSON.
const DONE: &str = "[DONE]";

/// Whether this is the word that closes a stream.
pub(crate) fn is_done(value: &Value) -> bool {
    value.as_str() == Some(DONE)
}

/// The JSON of an event; the closing word as a text.
fn value_of_event(event: sse::Event) -> Option<Result<Value, FrameError>> {
    let data = event.data.trim();
    if data.is_empty() {
        return None;
    }
    if data == DONE {
        return Some(Ok(Value::from(DONE)));
    }
    let value = parse(data).map(|mut value| {
        // Anthropic and OpenAI name their events twice; a gateway that drops one of them is understood all the same.
        if let (Some(name), Value::Object(fields)) = (event.name, &mut value)
            && name == "error"
            && !fields.contains_key("type")
            && !fields.contains_key("error")
        {
            let whole = Value::Object(std::mem::take(fields));
            fields.insert("error".to_owned(), whole);
        }
        value
    });
    Some(value)
}

fn parse(text: &str) -> Result<Value, FrameError> {
    serde_json::from_str(text).map_err(|error| FrameError::NotJson(error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(framing: Framing, text: &str, expected: &[Value]) {
        for at in 0..=text.len() {
            let (one, other) = text.as_bytes().split_at(at);
            let mut frames = Frames::new(framing);
            let mut values = Vec::new();
            frames.push(one, &mut values).expect("the case is well-formed");
            frames.push(other, &mut values).expect("the case is well-formed");
            values.extend(frames.finish().expect("the case is whole"));
            assert_eq!(values, expected, "split at {at}: {text:?}");
        }
    }

    #[test]
    fn events_become_their_json_and_the_closing_word_a_text() {
        check(
            Framing::Events,
            ": hello\n\ndata: {\"n\":12345678901234567890}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\ndata: [DONE]\n\n",
            &[
                serde_json::from_str(r#"{"n":12345678901234567890}"#).expect("JSON"),
                json!({"type": "ping"}),
                json!("[DONE]"),
            ],
        );
    }

    #[test]
    fn an_error_that_only_the_name_of_the_event_tells_is_one() {
        check(
            Framing::Events,
            "event: error\ndata: {\"message\":\"no\"}\n\n",
            &[json!({"error": {"message": "no"}})],
        );
    }

    #[test]
    fn the_last_line_may_lack_its_end() {
        check(Framing::Lines, "{\"a\":1}\n{\"b\":2}", &[json!({"a": 1}), json!({"b": 2})]);
    }

    #[test]
    fn what_is_no_json_is_told() {
        let mut values = Vec::new();
        let refused = Frames::new(Framing::Events).push(b"data: {}\n\ndata: <html>\n\n", &mut values);
        assert!(matches!(refused, Err(FrameError::NotJson(_))), "{refused:?}");
        assert_eq!(values, [json!({})]);
        let mut frames = Frames::new(Framing::Lines);
        values.clear();
        assert_eq!(frames.push(b"{\"a\":", &mut values), Ok(()));
        assert!(values.is_empty());
        assert!(matches!(frames.finish(), Err(FrameError::NotJson(_))));
    }
}
