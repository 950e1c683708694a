//! What the limits need to know about the messages in a body.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Messages {
    /// The number of messages. One revision of MCP has batches.
    pub(crate) count: usize,
    /// The number of messages that wait for a response. Notifications and replies do not, and a client must
    /// be able to cancel its calls and to answer their questions when it may not begin another one.
    pub(crate) requests: usize,
    /// Whether the response is a stream that only waits for changes.
    pub(crate) listens: bool,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    id: Option<IgnoredAny>,
}

impl Message<'_> {
    fn is_request(&self) -> bool {
        self.method.is_some() && self.id.is_some()
    }
}

impl Messages {
    /// Reads the messages of a body. Invalid ones count as requests: the endpoint rejects them.
    pub(crate) fn of(body: &[u8]) -> Messages {
        if body.trim_ascii_start().starts_with(b"[") {
            if let Ok(messages) = serde_json::from_slice::<Vec<Message<'_>>>(body) {
                let requests = messages.iter().filter(|message| message.is_request()).count();
                return Messages { count: messages.len().max(1), requests, listens: false };
            }
            let count = serde_json::from_slice::<Vec<IgnoredAny>>(body).map_or(1, |messages| messages.len());
            return Messages { count: count.max(1), requests: count.max(1), listens: false };
        }
        let message = serde_json::from_slice::<Message<'_>>(body);
        let is_request = message.as_ref().map_or(true, Message::is_request);
        let method = message.ok().and_then(|message| message.method);
        let listens = is_request && method.as_deref() == Some("subscriptions/listen");
        Messages { count: 1, requests: usize::from(is_request), listens }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, count: usize, requests: usize, listens: bool) {
        assert_eq!(Messages::of(body.as_bytes()), Messages { count, requests, listens }, "{body}");
    }

    #[test]
    fn each_message_of_a_batch_counts() {
        let (call, progress) =
            (r#"{"id": 1, "method": "tools/call"}"#, r#"{"method": "notifications/cancelled", "id": null}"#);
        let reply = r#"{"id": 1, "result": {}}"#;
        check(call, 1, 1, false);
        check(progress, 1, 0, false);
        check(reply, 1, 0, false);
        check(&format!(" [{call}, {progress}, {reply}, {call}]"), 4, 2, false);
        check(&format!("[{call}, 5]"), 2, 2, false);
        for invalid in ["", "{", "5", "[", "[]", r#"{"method": 5}"#] {
            check(invalid, 1, usize::from(invalid != "[]"), false);
        }
    }

    #[test]
    fn only_a_single_request_can_listen() {
        let listen = r#"{"id": 1, "method": "subscriptions/listen"}"#;
        check(listen, 1, 1, true);
        check(&format!("[{listen}]"), 1, 1, false);
        check(r#"{"method": "subscriptions/listen"}"#, 1, 0, false);
        check(r#"{"id": 1, "method": "subscriptions/listen", "method": "tools/call"}"#, 1, 1, false);
    }
}
