//! Decodes the bytes of a streamed response into JSON values, for every framing.
//!
//! The decoders are state machines: they accept chunks of any size and never wait.

mod aws;
mod lines;
mod sse;

use serde_json::Value;

/// The maximum size of one frame, and of a response that is not streamed.
pub(crate) const MAX_FRAME_BYTES: usize = 64 << 20;
/// The maximum size of a stream, well above the longest responses of current models.
pub(crate) const MAX_STREAM_BYTES: usize = 256 << 20;

/// The format in which an API separates the parts of a streamed response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Events,
    /// One JSON value per line.
    Lines,
    /// AWS event-stream frames.
    Aws,
}

/// The bytes do not follow the framing of the API.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("one event is longer than {MAX_FRAME_BYTES} bytes")]
    FrameTooLong,
    #[error("the stream is longer than {MAX_STREAM_BYTES} bytes")]
    StreamTooLong,
    #[error("an event is not valid UTF-8")]
    NotUtf8,
    #[error("an event is not valid JSON: {0}")]
    NotJson(String),
    #[error("{0}")]
    Damaged(String),
}

/// Decodes one streamed response.
#[derive(Debug)]
pub(crate) enum Frames {
    Events(sse::SseDecoder),
    Lines(lines::LineDecoder),
    Aws(aws::AwsDecoder),
}

impl Frames {
    pub(crate) fn new(framing: Framing) -> Frames {
        match framing {
            Framing::Events => Frames::Events(sse::SseDecoder::default()),
            Framing::Lines => Frames::Lines(lines::LineDecoder::default()),
            Framing::Aws => Frames::Aws(aws::AwsDecoder::default()),
        }
    }

    /// Appends the values that these bytes complete. On an error, the values before it are appended too.
    pub(crate) fn push(&mut self, bytes: &[u8], values: &mut Vec<Value>) -> Result<(), FrameError> {
        match self {
            Frames::Events(decoder) => {
                let mut events = Vec::new();
                let outcome = decoder.push(bytes, &mut events);
                for value in events.into_iter().filter_map(event_value) {
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

    /// Ends the stream. Returns values that were still buffered, or an error if the stream must not end here.
    pub(crate) fn finish(&mut self) -> Result<Vec<Value>, FrameError> {
        match self {
            // An event without a final empty line is ignored. The caller checks whether the response is
            // complete.
            Frames::Events(_) => Ok(Vec::new()),
            Frames::Lines(decoder) => {
                let mut lines = Vec::new();
                decoder.finish(&mut lines)?;
                lines.iter().map(|line| parse(line)).collect()
            }
            Frames::Aws(decoder) if decoder.is_between_frames() => Ok(Vec::new()),
            Frames::Aws(_) => Err(FrameError::Damaged("the last frame is incomplete".to_owned())),
        }
    }
}

/// Whether this is the last value of a response.
pub(crate) fn is_last(value: &Value) -> bool {
    const LAST_TYPES: [&str; 6] = [
        "message_stop",
        "message-end",
        "response.completed",
        "response.incomplete",
        "response.failed",
        "error",
    ];
    let event_type = value.get("type").and_then(Value::as_str);
    is_done(value)
        || event_type.is_some_and(|event_type| LAST_TYPES.contains(&event_type))
        || value.get("done") == Some(&Value::Bool(true))
}

/// The end marker of OpenAI streams, which is not JSON.
const DONE: &str = "[DONE]";

/// Whether this is the end marker of a stream.
pub(crate) fn is_done(value: &Value) -> bool {
    value.as_str() == Some(DONE)
}

/// Parses the JSON of an event. The end marker becomes a string.
fn event_value(event: sse::Event) -> Option<Result<Value, FrameError>> {
    let data = event.data.trim();
    if data.is_empty() {
        return None;
    }
    if data == DONE {
        return Some(Ok(Value::from(DONE)));
    }
    let value = parse(data).map(|mut value| {
        // Anthropic and OpenAI name the event in the JSON too, but some gateways drop that. Mark such errors.
        if let (Some(name), Value::Object(fields)) = (event.name, &mut value)
            && name == "error"
            && !fields.contains_key("type")
            && !fields.contains_key("error")
        {
            let error = Value::Object(std::mem::take(fields));
            fields.insert("error".to_owned(), error);
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
            let (first, second) = text.as_bytes().split_at(at);
            let mut frames = Frames::new(framing);
            let mut values = Vec::new();
            frames.push(first, &mut values).expect("well-formed frames");
            frames.push(second, &mut values).expect("well-formed frames");
            values.extend(frames.finish().expect("complete frames"));
            assert_eq!(values, expected, "split at {at}: {text:?}");
        }
    }

    #[test]
    fn events_are_parsed_and_the_end_marker_is_a_string() {
        check(
            Framing::Events,
            ": hello\n\ndata: {\"n\":12345678901234567890}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\ndata: [DONE]\n\n",
            &[
                serde_json::from_str(r#"{"n":12345678901234567890}"#).expect("valid JSON"),
                json!({"type": "ping"}),
                json!("[DONE]"),
            ],
        );
    }

    #[test]
    fn an_error_marked_only_by_the_event_name_is_recognized() {
        check(
            Framing::Events,
            "event: error\ndata: {\"message\":\"no\"}\n\n",
            &[json!({"error": {"message": "no"}})],
        );
    }

    #[test]
    fn the_last_line_may_lack_its_newline() {
        check(Framing::Lines, "{\"a\":1}\n{\"b\":2}", &[json!({"a": 1}), json!({"b": 2})]);
    }

    #[test]
    fn invalid_json_is_an_error() {
        let mut values = Vec::new();
        let outcome = Frames::new(Framing::Events).push(b"data: {}\n\ndata: <html>\n\n", &mut values);
        assert!(matches!(outcome, Err(FrameError::NotJson(_))), "{outcome:?}");
        assert_eq!(values, [json!({})]);
        let mut frames = Frames::new(Framing::Lines);
        values.clear();
        assert_eq!(frames.push(b"{\"a\":", &mut values), Ok(()));
        assert!(values.is_empty());
        assert!(matches!(frames.finish(), Err(FrameError::NotJson(_))));
    }
}
