//! The calls of a connection that are in progress: one of them caused a question of the server.
//!
//! A server of the older era does not say to which call its question belongs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;
use toolwire_contract::elicitation::ElicitHandler;

use crate::sync::lock;

/// The calls in progress.
#[derive(Default)]
pub(crate) struct Callers(Mutex<Calls>);

#[derive(Default)]
struct Calls {
    next: u64,
    by_number: BTreeMap<u64, Call>,
}

struct Call {
    elicitation: Option<Arc<ElicitHandler>>,
    /// Cancelled when the call ends.
    ended: CancellationToken,
    open_questions: usize,
}

/// A call in progress, until it is dropped.
pub(crate) struct CallInProgress {
    callers: Arc<Callers>,
    number: u64,
}

/// A question that a call asks the user, until it is dropped.
pub(crate) struct Asking {
    callers: Arc<Callers>,
    number: u64,
    pub(crate) elicitation: Arc<ElicitHandler>,
    /// Cancelled when the call ends.
    pub(crate) ended: CancellationToken,
}

impl Callers {
    pub(crate) fn enter(self: &Arc<Callers>, elicitation: Option<Arc<ElicitHandler>>) -> CallInProgress {
        let mut calls = lock(&self.0);
        let number = calls.next;
        calls.next += 1;
        let call = Call { elicitation, ended: CancellationToken::new(), open_questions: 0 };
        calls.by_number.insert(number, call);
        CallInProgress { callers: self.clone(), number }
    }

    /// Returns the call that a new question belongs to: the latest one without an open question. Returns `None` if it
    /// could be a call that does not ask the user, because no other user may see its question.
    pub(crate) fn asked(self: &Arc<Callers>) -> Option<Asking> {
        let mut calls = lock(&self.0);
        let has_free = calls.by_number.values().any(|call| call.open_questions == 0);
        let is_candidate = |call: &Call| !has_free || call.open_questions == 0;
        let mut candidates = calls.by_number.iter_mut().filter(|(_, call)| is_candidate(call)).rev();
        let (number, call) = candidates.next()?;
        if candidates.any(|(_, other)| other.elicitation.is_none()) {
            return None;
        }
        let elicitation = call.elicitation.clone()?;
        call.open_questions += 1;
        Some(Asking { callers: self.clone(), number: *number, elicitation, ended: call.ended.clone() })
    }
}

impl Drop for CallInProgress {
    fn drop(&mut self) {
        if let Some(call) = lock(&self.callers.0).by_number.remove(&self.number) {
            call.ended.cancel();
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if let Some(call) = lock(&self.callers.0).by_number.get_mut(&self.number) {
            call.open_questions -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use toolwire_contract::elicitation::{ElicitKind, ElicitReply, ElicitRequest};

    use super::*;

    /// Returns a handler whose reply tells which one it is.
    fn handler(name: &'static str) -> Option<Arc<ElicitHandler>> {
        Some(Arc::new(move |_, _| Box::pin(std::future::ready(ElicitReply::Accept(Some(name.into()))))))
    }

    fn name(asking: &Asking) -> String {
        let request = ElicitRequest::new("", ElicitKind::Form { schema: serde_json::json!({}) });
        match (asking.elicitation)("s", request).now_or_never() {
            Some(ElicitReply::Accept(Some(name))) => name.as_str().unwrap_or_default().to_owned(),
            other => panic!("unexpected reply: {other:?}"),
        }
    }

    #[test]
    fn a_question_belongs_to_the_latest_call_that_asks_nothing_yet() {
        let callers = Arc::new(Callers::default());
        assert!(callers.asked().is_none());
        let _one = callers.enter(handler("one"));
        let two = callers.enter(handler("two"));
        let first = callers.asked().expect("a call");
        let second = callers.asked().expect("a call");
        let third = callers.asked().expect("a call");
        assert_eq!([&first, &second, &third].map(name), ["two", "one", "two"]);
        assert!(!first.ended.is_cancelled());
        drop(two);
        assert!(first.ended.is_cancelled());
        drop((first, third));
        assert_eq!(name(&callers.asked().expect("a call")), "one");
    }

    #[test]
    fn a_question_that_may_be_of_a_call_without_a_user_is_not_shown() {
        let callers = Arc::new(Callers::default());
        let silent = callers.enter(None);
        let _one = callers.enter(handler("one"));
        assert!(callers.asked().is_none());
        drop(silent);
        let asking = callers.asked().expect("a call");
        let _silent = callers.enter(None);
        assert!(callers.asked().is_none());
        drop(asking);
    }
}
