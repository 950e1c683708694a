//! Marks responses that could not be stored.
//!
//! The client gets such a response nevertheless, because it has already been paid for. Its field `store` is
//! then `false`, as if the client had requested this: the response cannot be read or continued.

use bytes::Bytes;
use serde_json::Value;

use crate::forwarded_events::{events, read_event};

/// The parts of a response that could not be stored, or whose storing has an unknown outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unstored {
    pub(super) response: bool,
    /// The items of the response in its conversation.
    pub(super) conversation: bool,
}

impl Unstored {
    pub(crate) const ALL: Unstored = Unstored { response: true, conversation: true };

    fn is_none(self) -> bool {
        self == Unstored::default()
    }

    /// Changes the fields of a response.
    pub(crate) fn mark(self, response: &mut Value) {
        // A provider can send anything.
        let Some(fields) = response.as_object_mut() else { return };
        if self.response {
            fields.insert("store".to_owned(), false.into());
        }
        if self.conversation && fields.contains_key("conversation") {
            fields.insert("conversation".to_owned(), Value::Null);
        }
    }

    /// Changes the response that a text contains; `None` if nothing changes.
    pub(super) fn mark_text(self, text: &[u8]) -> Option<Bytes> {
        if self.is_none() {
            return None;
        }
        let mut response: Value = serde_json::from_slice(text).ok()?;
        self.mark(&mut response);
        Some(response.to_string().into())
    }

    /// Changes the response in the data of an event; `None` if nothing changes.
    pub(super) fn mark_data(self, data: &[u8]) -> Option<Bytes> {
        if self.is_none() {
            return None;
        }
        let mut value: Value = serde_json::from_slice(data).ok()?;
        self.mark(value.get_mut("response")?);
        Some(value.to_string().into())
    }

    /// Changes the responses in events.
    pub(crate) fn mark_events(self, written: Vec<u8>) -> Vec<u8> {
        if self.is_none() {
            return written;
        }
        let mut marked = Vec::with_capacity(written.len());
        for event in events(&written) {
            let (name, data) = read_event(event);
            match (name, self.mark_data(&data)) {
                (Some(name), Some(data)) => {
                    marked.extend_from_slice(format!("event: {name}\ndata: ").as_bytes());
                    marked.extend_from_slice(&data);
                    marked.extend_from_slice(b"\n\n");
                }
                _ => marked.extend_from_slice(event),
            }
        }
        marked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_an_object_is_not_changed() {
        for text in ["[]", "\"x\"", "7", "true", "null"] {
            assert_eq!(Unstored::ALL.mark_text(text.as_bytes()).as_deref(), Some(text.as_bytes()));
            let data = format!("{{\"response\":{text}}}");
            assert_eq!(Unstored::ALL.mark_data(data.as_bytes()).as_deref(), Some(data.as_bytes()));
        }
    }
}
