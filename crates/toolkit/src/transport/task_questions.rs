//! Questions of a task. They stay open until the client replies, while the tool waits.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

/// The questions of one task.
#[derive(Default)]
pub(super) struct Questions(Mutex<QuestionState>);

#[derive(Default)]
struct QuestionState {
    count: usize,
    /// All keys so far; a key is unique within a task.
    used_keys: HashSet<String>,
    open: BTreeMap<String, (Value, oneshot::Sender<Value>)>,
}

impl Questions {
    /// Returns the open questions as MCP's `inputRequests`.
    pub(super) fn open(&self) -> Map<String, Value> {
        self.state().open.iter().map(|(key, (question, _))| (key.clone(), question.clone())).collect()
    }

    /// Passes replies to the waiting tool. Replies without an open question are ignored.
    pub(super) fn reply(&self, replies: impl IntoIterator<Item = (String, Value)>) {
        let mut state = self.state();
        for (key, reply) in replies {
            if let Some((_, sender)) = state.open.remove(&key) {
                // The receiver may be gone if the tool no longer waits; ignore the send error.
                let _ = sender.send(reply);
            }
        }
    }

    /// Asks a question and waits for a reply that `read` accepts; other replies leave it open.
    pub(super) async fn ask<T>(
        &self,
        key: Option<&str>,
        method: &str,
        params: &Value,
        read: impl Fn(&Value) -> Option<T>,
        on_asked: impl FnOnce(),
    ) -> T {
        let open = OpenQuestion { questions: self, key: self.new_key(key) };
        let mut on_asked = Some(on_asked);
        loop {
            let (sender, receiver) = oneshot::channel();
            let question = json!({"method": method, "params": params});
            self.state().open.insert(open.key.clone(), (question, sender));
            if let Some(on_asked) = on_asked.take() {
                on_asked();
            }
            match receiver.await.ok().as_ref().and_then(&read) {
                Some(reply) => return reply,
                None => tracing::debug!(key = %open.key, "invalid response"),
            }
        }
    }

    fn new_key(&self, name: Option<&str>) -> String {
        let mut state = self.state();
        if let Some(name) = name
            && state.used_keys.insert(name.to_owned())
        {
            return name.to_owned();
        }
        loop {
            state.count += 1;
            let key = match name {
                Some(name) => format!("{name}-{}", state.count),
                None => state.count.to_string(),
            };
            if state.used_keys.insert(key.clone()) {
                return key;
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, QuestionState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a question when the tool stops waiting for the reply.
struct OpenQuestion<'a> {
    questions: &'a Questions,
    key: String,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.questions.state().open.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unique_within_a_task() {
        let questions = Questions::default();
        let keys =
            [Some("colour"), Some("colour"), None, Some("colour-1")].map(|name| questions.new_key(name));
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), 4, "{keys:?}");
        assert_eq!(keys[..2], ["colour", "colour-1"]);
    }
}
