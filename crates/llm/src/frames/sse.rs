//! Decodes server-sent events.

use super::{FrameError, MAX_FRAME_BYTES};

/// An event with its data and its optional name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) name: Option<String>,
    pub(crate) data: String,
}

/// Decodes events from chunks of any size.
///
/// Follows the standard: lines end with LF, CR or CR LF; an empty line ends an event; events without data and
/// an incomplete event at the end of the stream are ignored. `id` and `retry` are ignored too, since a
/// response cannot be resumed.
#[derive(Debug, Default)]
pub(crate) struct SseDecoder {
    line: Vec<u8>,
    /// The last byte was a CR that ended a line. An LF that follows belongs to the same line end.
    after_return: bool,
    /// The first line was read. A byte order mark is only allowed before it.
    started: bool,
    name: Option<String>,
    data: Option<Vec<u8>>,
}

impl SseDecoder {
    pub(crate) fn push(&mut self, bytes: &[u8], events: &mut Vec<Event>) -> Result<(), FrameError> {
        let mut rest = bytes;
        if self.after_return
            && let Some(after) = rest.strip_prefix(b"\n")
        {
            rest = after;
        }
        if !bytes.is_empty() {
            self.after_return = false;
        }
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (line, ended) = rest.split_at(end);
            self.append(line)?;
            self.end_line(events)?;
            rest = &ended[1..];
            if ended[0] == b'\r' {
                match rest.strip_prefix(b"\n") {
                    Some(after) => rest = after,
                    None => self.after_return = rest.is_empty(),
                }
            }
        }
        self.append(rest)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), FrameError> {
        let buffered = self.line.len() + self.data.as_ref().map_or(0, Vec::len);
        if buffered + bytes.len() > MAX_FRAME_BYTES {
            return Err(FrameError::FrameTooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<Event>) -> Result<(), FrameError> {
        let line = std::mem::take(&mut self.line);
        let mut field = line.as_slice();
        if !self.started {
            self.started = true;
            field = field.strip_prefix("\u{feff}".as_bytes()).unwrap_or(field);
        }
        if field.is_empty() {
            let name = self.name.take();
            if let Some(data) = self.data.take() {
                let data = String::from_utf8(data).map_err(|_| FrameError::NotUtf8)?;
                events.push(Event { name, data });
            }
            return Ok(());
        }
        let colon = field.iter().position(|byte| *byte == b':').unwrap_or(field.len());
        let (key, value) = field.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match key {
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            },
            b"event" => self.name = Some(String::from_utf8_lossy(value).into_owned()),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes the text in one chunk, split at every byte, and byte by byte.
    #[track_caller]
    fn check(text: &str, expected: &[(Option<&str>, &str)]) {
        let expected: Vec<Event> = expected
            .iter()
            .map(|(name, data)| Event { name: name.map(str::to_owned), data: (*data).to_owned() })
            .collect();
        let bytes = text.as_bytes();
        let decode = |chunks: &mut dyn Iterator<Item = &[u8]>| {
            let (mut decoder, mut events) = (SseDecoder::default(), Vec::new());
            for chunk in chunks {
                decoder.push(chunk, &mut events).expect("well-formed events");
            }
            events
        };
        assert_eq!(decode(&mut [bytes].into_iter()), expected, "one chunk: {text:?}");
        for at in 0..=bytes.len() {
            let (first, second) = bytes.split_at(at);
            assert_eq!(decode(&mut [first, second].into_iter()), expected, "split at {at}: {text:?}");
        }
        assert_eq!(decode(&mut bytes.chunks(1)), expected, "single bytes: {text:?}");
    }

    #[test]
    fn all_line_endings_are_accepted() {
        for end in ["\n", "\r", "\r\n"] {
            let text = "data: a\n\nevent: b\ndata: c\n\n".replace('\n', end);
            check(&text, &[(None, "a"), (Some("b"), "c")]);
        }
        check("data: a\r\n\ndata: b\n\r\n", &[(None, "a"), (None, "b")]);
    }

    #[test]
    fn several_data_lines_are_joined() {
        check("data: a\ndata:\ndata: b\n\n", &[(None, "a\n\nb")]);
    }

    #[test]
    fn one_space_after_the_colon_is_ignored() {
        check("data:a\n\ndata:  b\n\ndata\n\n", &[(None, "a"), (None, " b"), (None, "")]);
    }

    #[test]
    fn comments_and_other_fields_are_ignored() {
        check(": ping\n\nid: 1\nretry: 5\nother: x\ndata: a\n: c\n\n", &[(None, "a")]);
    }

    #[test]
    fn an_event_without_data_is_ignored_with_its_name() {
        check("event: ping\n\ndata: a\n\n", &[(None, "a")]);
    }

    #[test]
    fn an_incomplete_event_is_ignored() {
        check("data: a\n\ndata: b\n", &[(None, "a")]);
        check("data: a", &[]);
    }

    #[test]
    fn characters_may_be_split_between_chunks() {
        check("\u{feff}data: 😀 käse\n\n", &[(None, "😀 käse")]);
    }

    #[test]
    fn an_endless_line_is_an_error() {
        let (mut decoder, mut events) = (SseDecoder::default(), Vec::new());
        let chunk = vec![b'a'; 1 << 20];
        let error = (0..=MAX_FRAME_BYTES >> 20).find_map(|_| decoder.push(&chunk, &mut events).err());
        assert_eq!(error, Some(FrameError::FrameTooLong));
    }

    #[test]
    fn an_endless_event_is_an_error() {
        let (mut decoder, mut events) = (SseDecoder::default(), Vec::new());
        let chunk = [b"data: ".as_slice(), &vec![b'a'; 1 << 20], b"\n"].concat();
        let error = (0..=MAX_FRAME_BYTES >> 20).find_map(|_| decoder.push(&chunk, &mut events).err());
        assert_eq!(error, Some(FrameError::FrameTooLong));
    }

    #[test]
    fn invalid_utf8_is_an_error() {
        let mut events = Vec::new();
        assert_eq!(SseDecoder::default().push(b"data: \xff\n\n", &mut events), Err(FrameError::NotUtf8));
    }
}
