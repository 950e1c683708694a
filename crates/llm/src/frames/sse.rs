//! Server-sent events, pushed in as bytes.

use super::{FrameError, LONGEST_FRAME};

/// One event: its name, if it has one, and its data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) name: Option<String>,
    pub(crate) data: String,
}

/// Reads events out of bytes that come in pieces of any size.
///
/// As the standard has it: lines end with LF, CR or CR LF; an empty line ends an event; an event without data is none; and one
/// that the stream ends in never was. `id` and `retry` are for reconnecting, which an answer does not allow.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    line: Vec<u8>,
    /// The last byte ended a line and was a CR, so a LF that follows belongs to it.
    after_return: bool,
    /// A byte order mark may still come.
    begun: bool,
    name: Option<String>,
    data: Option<Vec<u8>>,
}

impl Decoder {
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
            self.take(line)?;
            self.end_line(events)?;
            rest = &ended[1..];
            if ended[0] == b'\r' {
                match rest.strip_prefix(b"\n") {
                    Some(after) => rest = after,
                    None => self.after_return = rest.is_empty(),
                }
            }
        }
        self.take(rest)
    }

    fn take(&mut self, piece: &[u8]) -> Result<(), FrameError> {
        let held = self.line.len() + self.data.as_ref().map_or(0, Vec::len);
        if held + piece.len() > LONGEST_FRAME {
            return Err(FrameError::TooLong);
        }
        self.line.extend_from_slice(piece);
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<Event>) -> Result<(), FrameError> {
        let line = std::mem::take(&mut self.line);
        let mut field = line.as_slice();
        if !self.begun {
            self.begun = true;
            field = field.strip_prefix("\u{feff}".as_bytes()).unwrap_or(field);
        }
        if field.is_empty() {
            let name = self.name.take();
            if let Some(data) = self.data.take() {
                let data = String::from_utf8(data).map_err(|_| FrameError::NotText)?;
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

    /// Whole, and split at every byte, and one byte at a time.
    #[track_caller]
    fn check(text: &str, expected: &[(Option<&str>, &str)]) {
        let expected: Vec<Event> = expected
            .iter()
            .map(|(name, data)| Event { name: name.map(str::to_owned), data: (*data).to_owned() })
            .collect();
        let bytes = text.as_bytes();
        let read = |pieces: &mut dyn Iterator<Item = &[u8]>| {
            let (mut decoder, mut events) = (Decoder::default(), Vec::new());
            for piece in pieces {
                decoder.push(piece, &mut events).expect("the case is well-formed");
            }
            events
        };
        assert_eq!(read(&mut [bytes].into_iter()), expected, "whole: {text:?}");
        for at in 0..=bytes.len() {
            let (one, other) = bytes.split_at(at);
            assert_eq!(read(&mut [one, other].into_iter()), expected, "split at {at}: {text:?}");
        }
        assert_eq!(read(&mut bytes.chunks(1)), expected, "in single bytes: {text:?}");
    }

    #[test]
    fn events_are_read_however_their_lines_end() {
        for end in ["\n", "\r", "\r\n"] {
            let text = "data: a\n\nevent: b\ndata: c\n\n".replace('\n', end);
            check(&text, &[(None, "a"), (Some("b"), "c")]);
        }
        check("data: a\r\n\ndata: b\n\r\n", &[(None, "a"), (None, "b")]);
    }

    #[test]
    fn data_of_several_lines_is_one_text() {
        check("data: a\ndata:\ndata: b\n\n", &[(None, "a\n\nb")]);
    }

    #[test]
    fn one_space_after_the_colon_is_no_data() {
        check("data:a\n\ndata:  b\n\ndata\n\n", &[(None, "a"), (None, " b"), (None, "")]);
    }

    #[test]
    fn comments_and_other_fields_are_passed_over() {
        check(": ping\n\nid: 1\nretry: 5\nother: x\ndata: a\n: c\n\n", &[(None, "a")]);
    }

    #[test]
    fn an_event_without_data_is_none_and_leaves_no_name_behind() {
        check("event: ping\n\ndata: a\n\n", &[(None, "a")]);
    }

    #[test]
    fn an_event_that_is_not_ended_never_was() {
        check("data: a\n\ndata: b\n", &[(None, "a")]);
        check("data: a", &[]);
    }

    #[test]
    fn letters_may_be_split_between_pieces() {
        check("\u{feff}data: 😀 käse\n\n", &[(None, "😀 käse")]);
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let (mut decoder, mut events) = (Decoder::default(), Vec::new());
        let piece = vec![b'a'; 1 << 20];
        let refused = (0..=LONGEST_FRAME >> 20).find_map(|_| decoder.push(&piece, &mut events).err());
        assert_eq!(refused, Some(FrameError::TooLong));
    }

    #[test]
    fn many_lines_without_end_are_refused_too() {
        let (mut decoder, mut events) = (Decoder::default(), Vec::new());
        let piece = [b"data: ".as_slice(), &vec![b'a'; 1 << 20], b"\n"].concat();
        let refused = (0..=LONGEST_FRAME >> 20).find_map(|_| decoder.push(&piece, &mut events).err());
        assert_eq!(refused, Some(FrameError::TooLong));
    }

    #[test]
    fn what_is_no_text_is_told() {
        let mut events = Vec::new();
        assert_eq!(Decoder::default().push(b"data: \xff\n\n", &mut events), Err(FrameError::NotText));
    }
}
