//! Decodes AWS event-stream frames, as Bedrock sends them.

use bytes::{Buf, Bytes, BytesMut};
use serde_json::{Map, Value};

use super::{FrameError, MAX_FRAME_BYTES};

/// The length of the frame, the length of its headers, and the checksum of both.
const PRELUDE_BYTES: usize = 12;
const CHECKSUM_BYTES: usize = 4;

/// Decodes frames from chunks of any size.
///
/// A header of the frame names the event. The event becomes `{"name": payload}`, as in the service model.
#[derive(Debug, Default)]
pub(crate) struct AwsDecoder {
    buffer: BytesMut,
}

impl AwsDecoder {
    pub(crate) fn push(&mut self, bytes: &[u8], events: &mut Vec<Value>) -> Result<(), FrameError> {
        if self.buffer.len() + bytes.len() > MAX_FRAME_BYTES {
            return Err(FrameError::FrameTooLong);
        }
        self.buffer.extend_from_slice(bytes);
        while let Some(frame) = self.next_frame()? {
            events.push(frame.into_event()?);
        }
        Ok(())
    }

    /// Whether the stream may end here.
    pub(crate) fn is_between_frames(&self) -> bool {
        !self.buffer.has_remaining()
    }

    /// Removes a complete frame from the buffer.
    fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(mut prelude) = self.buffer.get(..PRELUDE_BYTES) else { return Ok(None) };
        check_sum(prelude)?;
        let (frame_bytes, header_bytes) = (prelude.get_u32() as usize, prelude.get_u32() as usize);
        let Some(payload_bytes) =
            frame_bytes.checked_sub(header_bytes.saturating_add(PRELUDE_BYTES + CHECKSUM_BYTES))
        else {
            return Err(damaged("the lengths in a frame contradict each other"));
        };
        if frame_bytes > MAX_FRAME_BYTES {
            return Err(FrameError::FrameTooLong);
        }
        if self.buffer.len() < frame_bytes {
            return Ok(None);
        }
        let mut bytes = self.buffer.split_to(frame_bytes).freeze();
        check_sum(&bytes)?;
        bytes.advance(PRELUDE_BYTES);
        let headers = bytes.split_to(header_bytes);
        let headers = read_headers(headers).ok_or_else(|| damaged("the headers of a frame are malformed"))?;
        Ok(Some(Frame { headers, payload: bytes.split_to(payload_bytes) }))
    }
}

struct Frame {
    /// The headers with text; events have no other headers that matter.
    headers: Vec<(Bytes, Bytes)>,
    payload: Bytes,
}

impl Frame {
    fn header(&self, name: &str) -> Option<String> {
        let (_, value) = self.headers.iter().find(|(key, _)| key == name)?;
        Some(std::str::from_utf8(value).ok()?.to_owned())
    }

    fn into_event(self) -> Result<Value, FrameError> {
        let name = self
            .header(":event-type")
            .or_else(|| self.header(":exception-type"))
            .or_else(|| self.header(":error-code"))
            .ok_or_else(|| damaged("a frame has no event name"))?;
        let payload = match self.header(":error-message") {
            Some(message) => Value::Object(Map::from_iter([("message".to_owned(), message.into())])),
            None if self.payload.is_empty() => Value::Object(Map::new()),
            None => serde_json::from_slice(&self.payload)
                .map_err(|error| FrameError::NotJson(error.to_string()))?,
        };
        Ok(Value::Object(Map::from_iter([(name, payload)])))
    }
}

/// Checks the CRC-32 in the last bytes.
fn check_sum(bytes: &[u8]) -> Result<(), FrameError> {
    let (content, mut checksum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
    let is_equal = crc32fast::hash(content) == checksum.get_u32();
    if is_equal { Ok(()) } else { Err(damaged("the checksum of a frame is wrong")) }
}

/// Returns the headers with text, or `None` if the bytes are malformed.
fn read_headers(mut bytes: Bytes) -> Option<Vec<(Bytes, Bytes)>> {
    let mut headers = Vec::new();
    while bytes.has_remaining() {
        let name_bytes = bytes.try_get_u8().ok()?;
        let name = split_to(&mut bytes, name_bytes.into())?;
        let kind = bytes.try_get_u8().ok()?;
        let value_bytes = match kind {
            0 | 1 => 0,
            2 => 1,
            3 => 2,
            4 => 4,
            5 | 8 => 8,
            6 | 7 => bytes.try_get_u16().ok()?.into(),
            9 => 16,
            _ => return None,
        };
        let value = split_to(&mut bytes, value_bytes)?;
        if kind == 7 {
            headers.push((name, value));
        }
    }
    Some(headers)
}

fn split_to(bytes: &mut Bytes, length: usize) -> Option<Bytes> {
    (length <= bytes.len()).then(|| bytes.split_to(length))
}

fn damaged(problem: &str) -> FrameError {
    FrameError::Damaged(problem.to_owned())
}

#[cfg(test)]
mod tests {
    use aws_smithy_eventstream::frame::write_message_to;
    use aws_smithy_types::{
        DateTime,
        event_stream::{Header, HeaderValue, Message},
    };
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
    fn headers_of_every_type_are_skipped() {
        let values = [
            HeaderValue::Bool(true),
            HeaderValue::Bool(false),
            HeaderValue::Byte(1),
            HeaderValue::Int16(2),
            HeaderValue::Int32(3),
            HeaderValue::Int64(4),
            HeaderValue::ByteArray(vec![1, 2, 3].into()),
            HeaderValue::String(":event-type".into()),
            HeaderValue::Timestamp(DateTime::from_secs(5)),
            HeaderValue::Uuid(6),
        ];
        let mut message = Message::new(b"{}".to_vec());
        for (index, value) in values.into_iter().enumerate() {
            message = message.add_header(Header::new(format!("header-{index}"), value));
        }
        message = message.add_header(Header::new(":event-type", HeaderValue::String("last".into())));
        let mut bytes = Vec::new();
        write_message_to(&message, &mut bytes).expect("a valid frame");
        let mut events = Vec::new();
        AwsDecoder::default().push(&bytes, &mut events).expect("a well-formed frame");
        assert_eq!(events, [json!({"last": {}})]);
    }

    #[test]
    fn a_damaged_frame_is_an_error() {
        let bytes = frame(&[(":event-type", "messageStart")], r#"{"role":"assistant"}"#);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bytes = bytes.clone();
                bytes[at] ^= 1 << bit;
                let outcome = AwsDecoder::default().push(&bytes, &mut Vec::new());
                assert!(
                    matches!(outcome, Err(FrameError::Damaged(_))),
                    "bit {bit} of byte {at}: {outcome:?}"
                );
            }
        }
    }

    #[test]
    fn lengths_with_a_valid_checksum_are_checked() {
        let prelude = |frame_bytes: u32, header_bytes: u32| {
            let mut prelude = [frame_bytes.to_be_bytes(), header_bytes.to_be_bytes()].concat();
            prelude.extend(crc32fast::hash(&prelude).to_be_bytes());
            AwsDecoder::default().push(&prelude, &mut Vec::new())
        };
        assert!(matches!(prelude(15, 0), Err(FrameError::Damaged(_))));
        assert!(matches!(prelude(0, u32::MAX), Err(FrameError::Damaged(_))));
        assert!(matches!(prelude(100, 85), Err(FrameError::Damaged(_))));
        assert!(matches!(prelude(u32::MAX, 0), Err(FrameError::FrameTooLong)));
        assert!(prelude(100, 84).is_ok());
    }
}
