//! Questions that are asked by ending the call (MCP 2026-07-28).
//!
//! The future of a tool that asks is dropped, the call ends with its questions, and the client repeats the
//! call with the replies. The tool runs again, and each repeated question finds its reply. The client sends
//! only the replies of the last round; those of earlier rounds are in `requestState`, signed and bound to the
//! request.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{RequestStateCodec, SealOptions};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

/// The replies in a request, and the questions that it leads to.
pub(super) struct Rounds {
    answers: BTreeMap<String, Value>,
    asked: Mutex<RoundQuestions>,
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
        let answers = earlier.into_iter().chain(responses.unwrap_or_default()).collect();
        Ok(Rounds { answers, asked: Mutex::default(), open: Notify::new() })
    }

    /// Returns the reply to a question if `read` accepts it; otherwise records the question as open.
    pub(super) fn ask<T>(
        &self,
        key: Option<&str>,
        method: &str,
        params: &Value,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<T> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.count += 1;
        let key = key.map_or_else(|| asked.count.to_string(), str::to_owned);
        let answer = self.answers.get(&key).and_then(read);
        if answer.is_none() {
            asked.open.insert(key, json!({"method": method, "params": params}));
            self.open.notify_one();
        }
        answer
    }

    /// Whether a question has no reply yet.
    pub(super) fn has_questions(&self) -> bool {
        !self.asked.lock().unwrap_or_else(PoisonError::into_inner).open.is_empty()
    }

    /// Returns the result with the open questions.
    pub(super) fn questions(
        &self,
        request: &[u8],
        signature: &RequestStateCodec,
        reply_timeout: Duration,
    ) -> Map<String, Value> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        // An invalid reply is requested again, so it is not retained.
        let answers: BTreeMap<&String, &Value> =
            self.answers.iter().filter(|(key, _)| !asked.open.contains_key(*key)).collect();
        let options = SealOptions::new().associated_data(request).ttl(reply_timeout);
        let state = signature.seal_json_with(&answers, &options).unwrap_or_default();
        let mut result = Map::new();
        result.insert("resultType".to_owned(), json!("input_required"));
        result.insert("inputRequests".to_owned(), Value::Object(asked.open.clone()));
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
        RequestStateCodec::try_new(KEY).expect("the key is long enough")
    }

    fn text(value: &Value) -> Option<String> {
        value.as_str().map(str::to_owned)
    }

    #[test]
    fn later_rounds_know_all_replies() {
        let first = Rounds::new(None, None, b"a", &signature()).expect("there is no state");
        assert_eq!(first.ask(None, "m", &json!({}), text), None);
        let result = first.questions(b"a", &signature(), WEEK);
        assert_eq!(result["inputRequests"], json!({"1": {"method": "m", "params": {}}}));

        let state = result["requestState"].as_str();
        let given = BTreeMap::from([("1".to_owned(), json!("one"))]);
        let second = Rounds::new(Some(given), state, b"a", &signature()).expect("the state is ours");
        assert_eq!(second.ask(None, "m", &json!({}), text), Some("one".to_owned()));
        assert_eq!(second.ask(Some("two"), "m", &json!({}), text), None);
        let result = second.questions(b"a", &signature(), WEEK);

        let state = result["requestState"].as_str();
        let given = BTreeMap::from([("two".to_owned(), json!("2"))]);
        let third = Rounds::new(Some(given), state, b"a", &signature()).expect("the state is ours");
        assert_eq!(third.ask(None, "m", &json!({}), text), Some("one".to_owned()));
        assert_eq!(third.ask(Some("two"), "m", &json!({}), text), Some("2".to_owned()));
    }

    #[test]
    fn an_invalid_reply_is_requested_again() {
        let given = BTreeMap::from([("1".to_owned(), json!(5))]);
        let rounds = Rounds::new(Some(given), None, b"a", &signature()).expect("there is no state");
        assert_eq!(rounds.ask(None, "m", &json!({}), text), None);
        let result = rounds.questions(b"a", &signature(), WEEK);
        assert_eq!(result["inputRequests"], json!({"1": {"method": "m", "params": {}}}));
    }

    #[test]
    fn foreign_state_is_rejected() {
        let rounds = Rounds::new(None, None, b"a", &signature()).expect("there is no state");
        let result = rounds.questions(b"a", &signature(), WEEK);
        let state = result["requestState"].as_str().expect("state is text");
        let is_refused = |state: &str, request: &[u8], key: [u8; 32]| {
            let signature = RequestStateCodec::try_new(key).expect("the key is long enough");
            Rounds::new(None, Some(state), request, &signature).is_err()
        };
        assert!(!is_refused(state, b"a", KEY));
        assert!(is_refused(state, b"b", KEY), "it belongs to another request");
        assert!(is_refused(state, b"a", [8; 32]), "it was signed by another");
        assert!(is_refused(&format!("{state}-"), b"a", KEY), "it was changed");
    }
}
