//! Decodes AWS event-stream frames, as Bedrock sends them.

use aws_smithy_eventstream::frame::{DecodedFrame, MessageFrameDecoder};
use bytes::{Buf, BytesMut};
use serde_json::{Map, Value};

use super::{FrameError, MAX_FRAME_BYTES};

/// Decodes frames from chunks of any size.
///
/// A header of the frame names the event. The event becomes `{"name": payload}`, as in the service model.
#[derive(Debug, Default)]
pub(crate) struct AwsDecoder {
    decoder: MessageFrameDecoder,
    buffer: BytesMut,
}

impl AwsDecoder {
    pub(crate) fn push(&mut self, bytes: &[u8], events: &mut Vec<Value>) -> Result<(), FrameError> {
        if self.buffer.len() + bytes.len() > MAX_FRAME_BYTES {
            return Err(FrameError::FrameTooLong);
        }
        self.buffer.extend_from_slice(bytes);
        loop {
            match self.decoder.decode_frame(&mut self.buffer) {
                Ok(DecodedFrame::Incomplete) => return Ok(()),
                Ok(DecodedFrame::Complete(message)) => {
                    let header = |name: &str| {
                        let header =
                            message.headers().iter().find(|header| header.name().as_str() == name)?;
                        Some(header.value().as_string().ok()?.as_str().to_owned())
                    };
                    let name = header(":event-type")
                        .or_else(|| header(":exception-type"))
                        .or_else(|| header(":error-code"))
                        .ok_or_else(|| FrameError::Damaged("a frame has no event name".to_owned()))?;
                    let payload = match header(":error-message") {
                        Some(message) => {
                            Value::Object(Map::from_iter([("message".to_owned(), message.into())]))
                        }
                        None if message.payload().is_empty() => Value::Object(Map::new()),
                        None => serde_json::from_slice(message.payload())
                            .map_err(|error| FrameError::NotJson(error.to_string()))?,
                    };
                    events.push(Value::Object(Map::from_iter([(name, payload)])));
                }
                Err(error) => return Err(FrameError::Damaged(error.to_string())),
            }
        }
    }

    /// Whether the stream may end here.
    pub(crate) fn is_between_frames(&self) -> bool {
        !self.buffer.has_remaining()
    }
}

#[cfg(test)]
mod tests {
    use aws_smithy_eventstream::frame::write_message_to;
    use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
    use serde_json::json;

    use super::*;

    fn frame(headers: &[(&str, &str)], payload: &str) -> Vec<u8> {
        let mut message = Message::new(payload.as_bytes().to_vec());
        for (name, value) in headers {
            let value = HeaderValue::String((*value).to_owned().into());
            message = message.add_header(Header::new((*name).to_owned(), value));
        }
        let mut bytes = Vec::new();
        write_message_to(&message, &mut bytes).expect("a valid frame");
        bytes
    }

    #[test]
    fn frames_may_be_split_between_chunks() {
        let event = [(":event-type", "messageStart"), (":message-type", "event")];
        let exception = [(":exception-type", "throttlingException"), (":message-type", "exception")];
        let error = [(":error-code", "InternalError"), (":error-message", "oh"), (":message-type", "error")];
        let bytes = [
            frame(&event, r#"{"role":"assistant"}"#),
            frame(&exception, r#"{"message":"slow down"}"#),
            frame(&error, ""),
            frame(&[(":event-type", "empty")], ""),
        ]
        .concat();
        let expected = [
            json!({"messageStart": {"role": "assistant"}}),
            json!({"throttlingException": {"message": "slow down"}}),
            json!({"InternalError": {"message": "oh"}}),
            json!({"empty": {}}),
        ];
        for at in 0..=bytes.len() {
            let (first, second) = bytes.split_at(at);
            let (mut decoder, mut events) = (AwsDecoder::default(), Vec::new());
            decoder.push(first, &mut events).expect("well-formed frames");
            decoder.push(second, &mut events).expect("well-formed frames");
            assert_eq!(events, expected, "split at {at}");
            assert!(decoder.is_between_frames());
        }
    }

    #[test]
    fn a_damaged_frame_is_an_error() {
        let mut bytes = frame(&[(":event-type", "messageStart")], "{}");
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        let outcome = AwsDecoder::default().push(&bytes, &mut Vec::new());
        assert!(matches!(outcome, Err(FrameError::Damaged(_))), "{outcome:?}");
    }
}
