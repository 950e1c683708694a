//! The calls of a connection that are in progress, and the questions of the server that belong to them.
//!
//! A server of the older era does not state which call its question belongs to, unless it sends the question
//! in the response to the call. A caller must not get a question about the call of another caller.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;
use toolwire_contract::elicitation::{ElicitHandler, SampleHandler};

use crate::sync::lock;

/// The calls in progress.
#[derive(Default)]
pub(crate) struct CallsInProgress(Mutex<Calls>);

#[derive(Default)]
struct Calls {
    next: u64,
    by_number: BTreeMap<u64, Call>,
}

struct Call {
    elicitation: Option<Arc<ElicitHandler>>,
    sampling: Option<Arc<SampleHandler>>,
    /// Who makes the call, if there are several callers.
    owner: Option<Arc<str>>,
    /// Cancelled when the call ends.
    ended: CancellationToken,
    open_questions: usize,
}

/// A call in progress, until it is dropped.
pub(crate) struct CallInProgress {
    calls: Arc<CallsInProgress>,
    number: u64,
}

/// A question that a call asks the user, until it is dropped.
pub(crate) struct OpenQuestion {
    calls: Arc<CallsInProgress>,
    number: u64,
    pub(crate) elicitation: Option<Arc<ElicitHandler>>,
    pub(crate) sampling: Option<Arc<SampleHandler>>,
    /// Cancelled when the call ends.
    pub(crate) call_ended: CancellationToken,
}

impl CallsInProgress {
    pub(crate) fn begin_call(
        self: &Arc<CallsInProgress>,
        elicitation: Option<Arc<ElicitHandler>>,
        sampling: Option<Arc<SampleHandler>>,
        owner: Option<Arc<str>>,
    ) -> CallInProgress {
        let mut calls = lock(&self.0);
        let number = calls.next;
        calls.next += 1;
        let ended = CancellationToken::new();
        let call = Call { elicitation, sampling, owner, ended, open_questions: 0 };
        calls.by_number.insert(number, call);
        CallInProgress { calls: self.clone(), number }
    }

    /// Assigns a new question to the latest call without an open question. `owner` is the caller of the call
    /// that the server has stated, or `None` if it has stated none. Returns `None` if the question could
    /// belong to a call that does not ask the user, or to the call of another caller, because the users of
    /// other calls must not see it.
    pub(crate) fn begin_question(
        self: &Arc<CallsInProgress>,
        owner: Option<Option<Arc<str>>>,
    ) -> Option<OpenQuestion> {
        let mut calls = lock(&self.0);
        let first = calls.by_number.values().next()?.owner.clone();
        let is_stated = owner.is_some();
        let owner = owner.unwrap_or(first);
        if !is_stated && calls.by_number.values().any(|call| call.owner != owner) {
            return None;
        }
        let is_own = |call: &Call| call.owner == owner;
        let has_free = calls.by_number.values().any(|call| is_own(call) && call.open_questions == 0);
        let is_candidate = |call: &Call| is_own(call) && (!has_free || call.open_questions == 0);
        let mut candidates = calls.by_number.iter_mut().filter(|(_, call)| is_candidate(call)).rev();
        let (number, call) = candidates.next()?;
        if candidates.any(|(_, other)| other.asks_nobody()) {
            return None;
        }
        if call.asks_nobody() {
            return None;
        }
        call.open_questions += 1;
        Some(OpenQuestion {
            calls: self.clone(),
            number: *number,
            elicitation: call.elicitation.clone(),
            sampling: call.sampling.clone(),
            call_ended: call.ended.clone(),
        })
    }
}

impl Call {
    fn asks_nobody(&self) -> bool {
        self.elicitation.is_none() && self.sampling.is_none()
    }
}

impl Drop for CallInProgress {
    fn drop(&mut self) {
        if let Some(call) = lock(&self.calls.0).by_number.remove(&self.number) {
            call.ended.cancel();
        }
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        if let Some(call) = lock(&self.calls.0).by_number.get_mut(&self.number) {
            call.open_questions -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use toolwire_contract::elicitation::{ElicitKind, ElicitReply, ElicitRequest};

    use super::*;

    /// Returns a handler whose reply is its name.
    fn handler(name: &'static str) -> Option<Arc<ElicitHandler>> {
        Some(Arc::new(move |_, _| Box::pin(std::future::ready(ElicitReply::Accept(Some(name.into()))))))
    }

    fn name(question: &OpenQuestion) -> String {
        let request = ElicitRequest::new("", ElicitKind::Form { schema: serde_json::json!({}) });
        let elicit = question.elicitation.as_ref().expect("a handler");
        match elicit("s", request).now_or_never() {
            Some(ElicitReply::Accept(Some(name))) => name.as_str().unwrap_or_default().to_owned(),
            other => panic!("unexpected reply: {other:?}"),
        }
    }

    #[test]
    fn a_question_belongs_to_the_latest_call_that_asks_nothing_yet() {
        let calls = Arc::new(CallsInProgress::default());
        assert!(calls.begin_question(None).is_none());
        let _one = calls.begin_call(handler("one"), None, None);
        let two = calls.begin_call(handler("two"), None, None);
        let first = calls.begin_question(None).expect("a call");
        let second = calls.begin_question(None).expect("a call");
        let third = calls.begin_question(None).expect("a call");
        assert_eq!([&first, &second, &third].map(name), ["two", "one", "two"]);
        assert!(!first.call_ended.is_cancelled());
        drop(two);
        assert!(first.call_ended.is_cancelled());
        drop((first, third));
        assert_eq!(name(&calls.begin_question(None).expect("a call")), "one");
    }

    #[test]
    fn a_question_that_may_be_of_a_call_without_a_user_is_not_shown() {
        let calls = Arc::new(CallsInProgress::default());
        let silent = calls.begin_call(None, None, None);
        let _one = calls.begin_call(handler("one"), None, None);
        assert!(calls.begin_question(None).is_none());
        drop(silent);
        let question = calls.begin_question(None).expect("a call");
        let _silent = calls.begin_call(None, None, None);
        assert!(calls.begin_question(None).is_none());
        drop(question);
    }

    #[test]
    fn a_question_that_may_be_for_another_caller_is_not_shown() {
        let calls = Arc::new(CallsInProgress::default());
        let (one, other): (Arc<str>, Arc<str>) = ("key_one".into(), "key_other".into());
        let _one = calls.begin_call(handler("one"), None, Some(one.clone()));
        assert_eq!(name(&calls.begin_question(None).expect("a call")), "one");
        let others = calls.begin_call(handler("other"), None, Some(other.clone()));
        assert!(calls.begin_question(None).is_none());
        // The server has stated the call.
        assert_eq!(name(&calls.begin_question(Some(Some(one.clone()))).expect("a call")), "one");
        assert_eq!(name(&calls.begin_question(Some(Some(other.clone()))).expect("a call")), "other");
        assert!(calls.begin_question(Some(None)).is_none());
        drop(others);
        assert!(calls.begin_question(Some(Some(other))).is_none(), "its call has ended");
        assert_eq!(name(&calls.begin_question(None).expect("a call")), "one");
    }
}
