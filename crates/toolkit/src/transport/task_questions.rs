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
    /// Names that were used as keys; a key is unique within a task.
    used_keys: HashSet<String>,
    open: BTreeMap<String, (Value, oneshot::Sender<Value>)>,
}

impl Questions {
    /// Returns the open questions as MCP's `inputRequests`.
    pub(super) fn open(&self) -> Map<String, Value> {
        self.asked().open.iter().map(|(key, (question, _))| (key.clone(), question.clone())).collect()
    }

    pub(super) fn answer(&self, answers: impl IntoIterator<Item = (String, Value)>) {
        let mut asked = self.asked();
        for (key, answer) in answers {
            if let Some((_, waiting)) = asked.open.remove(&key) {
                // The receiver may be gone if the tool no longer waits; ignore the send error.
                let _ = waiting.send(answer);
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
            let (waiting, answer) = oneshot::channel();
            let question = json!({"method": method, "params": params});
            self.asked().open.insert(open.key.clone(), (question, waiting));
            if let Some(on_asked) = on_asked.take() {
                on_asked();
            }
            match answer.await.ok().as_ref().and_then(&read) {
                Some(answer) => return answer,
                None => tracing::debug!(key = %open.key, "invalid response"),
            }
        }
    }

    fn new_key(&self, name: Option<&str>) -> String {
        let mut asked = self.asked();
        if let Some(name) = name
            && !asked.open.contains_key(name)
            && asked.used_keys.insert(name.to_owned())
        {
            return name.to_owned();
        }
        loop {
            asked.count += 1;
            let key = match name {
                Some(name) => format!("{name}-{}", asked.count),
                None => asked.count.to_string(),
            };
            if !asked.used_keys.contains(&key) && !asked.open.contains_key(&key) {
                return key;
            }
        }
    }

    fn asked(&self) -> MutexGuard<'_, QuestionState> {
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
        self.questions.asked().open.remove(&self.key);
    }
}
