//! Questions that are asked by ending the call (MCP 2026-07-28).
//!
//! The future of a tool that asks is dropped, the call ends with its questions, and the client repeats the
//! call with the replies. The tool runs again, and each repeated question finds its reply. The client sends
//! only the replies of the last round; those of earlier rounds are in `requestState`, signed and bound to the
//! request.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{RequestStateCodec, SealOptions};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

/// The replies in a request, and the questions that it leads to.
pub(super) struct Rounds {
    replies: BTreeMap<String, Value>,
    questions: Mutex<RoundQuestions>,
    /// Notified when a question has no reply yet.
    pub(super) open: Notify,
}

#[derive(Default)]
struct RoundQuestions {
    count: usize,
    open: Map<String, Value>,
}

/// The `requestState` was not issued for this request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InvalidState;

impl Rounds {
    /// `request` identifies the request that the state is bound to, including its arguments.
    pub(super) fn new(
        responses: Option<BTreeMap<String, Value>>,
        state: Option<&str>,
        request: &[u8],
        signature: &RequestStateCodec,
    ) -> Result<Rounds, InvalidState> {
        let earlier: BTreeMap<String, Value> = match state {
            Some(state) => signature.open_json_with(state, request).map_err(|_| InvalidState)?,
            None => BTreeMap::new(),
        };
        let replies = earlier.into_iter().chain(responses.unwrap_or_default()).collect();
        Ok(Rounds { replies, questions: Mutex::default(), open: Notify::new() })
    }

    /// Returns the reply to a question if `read` accepts it; otherwise records the question as open.
    pub(super) fn ask<T>(
        &self,
        key: Option<&str>,
        method: &str,
        params: &Value,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<T> {
        let mut questions = self.lock();
        questions.count += 1;
        let key = key.map_or_else(|| questions.count.to_string(), str::to_owned);
        let reply = self.replies.get(&key).and_then(read);
        if reply.is_none() {
            questions.open.insert(key, json!({"method": method, "params": params}));
            self.open.notify_one();
        }
        reply
    }

    /// Whether a question has no reply yet.
    pub(super) fn has_questions(&self) -> bool {
        !self.lock().open.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, RoundQuestions> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the result with the open questions.
    pub(super) fn questions(
        &self,
        request: &[u8],
        signature: &RequestStateCodec,
        reply_timeout: Duration,
    ) -> Map<String, Value> {
        let questions = self.lock();
        // An invalid reply is requested again, so it is not retained.
        let replies: BTreeMap<&String, &Value> =
            self.replies.iter().filter(|(key, _)| !questions.open.contains_key(*key)).collect();
        let options = SealOptions::new().associated_data(request).ttl(reply_timeout);
        let state = signature.seal_json_with(&replies, &options).unwrap_or_default();
        let mut result = Map::new();
        result.insert("resultType".to_owned(), json!("input_required"));
        result.insert("inputRequests".to_owned(), Value::Object(questions.open.clone()));
        result.insert("requestState".to_owned(), json!(state));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 32] = [7; 32];
    const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

    fn signature() -> RequestStateCodec {
        RequestStateCodec::try_new(KEY).expect("a long enough key")
    }

    fn text(value: &Value) -> Option<String> {
        value.as_str().map(str::to_owned)
    }

    #[test]
    fn later_rounds_have_all_replies() {
        let first = Rounds::new(None, None, b"a", &signature()).expect("no state");
        assert_eq!(first.ask(None, "m", &json!({}), text), None);
        let result = first.questions(b"a", &signature(), WEEK);
        assert_eq!(result["inputRequests"], json!({"1": {"method": "m", "params": {}}}));

        let state = result["requestState"].as_str();
        let replies = BTreeMap::from([("1".to_owned(), json!("one"))]);
        let second = Rounds::new(Some(replies), state, b"a", &signature()).expect("valid state");
        assert_eq!(second.ask(None, "m", &json!({}), text), Some("one".to_owned()));
        assert_eq!(second.ask(Some("two"), "m", &json!({}), text), None);
        let result = second.questions(b"a", &signature(), WEEK);

        let state = result["requestState"].as_str();
        let replies = BTreeMap::from([("two".to_owned(), json!("2"))]);
        let third = Rounds::new(Some(replies), state, b"a", &signature()).expect("valid state");
        assert_eq!(third.ask(None, "m", &json!({}), text), Some("one".to_owned()));
        assert_eq!(third.ask(Some("two"), "m", &json!({}), text), Some("2".to_owned()));
    }

    #[test]
    fn an_invalid_reply_is_requested_again() {
        let replies = BTreeMap::from([("1".to_owned(), json!(5))]);
        let rounds = Rounds::new(Some(replies), None, b"a", &signature()).expect("no state");
        assert_eq!(rounds.ask(None, "m", &json!({}), text), None);
        let result = rounds.questions(b"a", &signature(), WEEK);
        assert_eq!(result["inputRequests"], json!({"1": {"method": "m", "params": {}}}));
    }

    #[test]
    fn foreign_state_is_rejected() {
        let rounds = Rounds::new(None, None, b"a", &signature()).expect("no state");
        let result = rounds.questions(b"a", &signature(), WEEK);
        let state = result["requestState"].as_str().expect("state is text");
        let is_rejected = |state: &str, request: &[u8], key: [u8; 32]| {
            let signature = RequestStateCodec::try_new(key).expect("a long enough key");
            Rounds::new(None, Some(state), request, &signature).is_err()
        };
        assert!(!is_rejected(state, b"a", KEY));
        assert!(is_rejected(state, b"b", KEY), "it belongs to another request");
        assert!(is_rejected(state, b"a", [8; 32]), "it was signed with another key");
        assert!(is_rejected(&format!("{state}-"), b"a", KEY), "it was changed");
    }
}
