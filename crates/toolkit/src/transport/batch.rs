//! Batches: several messages in one array, and one array of their responses. MCP had them in one revision.

use std::collections::HashSet;

use rmcp::model::RequestId;
use serde_json::Value;

/// The one revision that has them.
pub(super) const REVISION: &str = "2025-03-26";

pub(super) const NO_INITIALIZE: &str = "`initialize` cannot be part of a batch";

/// Longer ones are refused: each of their requests is answered at the same time.
const MAX_BATCH_MESSAGES: usize = 256;

/// Whether the text can only be a batch.
pub(super) fn is_batch(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(b"[")
}

/// The messages of a batch, each as its text; or why they cannot be taken.
pub(super) fn pieces(text: &[u8]) -> Result<Vec<String>, String> {
    let pieces: Vec<Value> =
        serde_json::from_slice(text).map_err(|error| format!("invalid batch: {error}"))?;
    match pieces.len() {
        0 => Err("the batch is empty".to_owned()),
        1..=MAX_BATCH_MESSAGES => Ok(pieces.iter().map(Value::to_string).collect()),
        length => Err(format!("the batch has {length} messages; the limit is {MAX_BATCH_MESSAGES}")),
    }
}

/// The batches of one connection that are not answered yet.
#[derive(Default)]
pub(super) struct Batches(Vec<Batch>);

/// One batch: the requests that wait for their responses, and those responses that are there.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) waiting: HashSet<RequestId>,
    pub(super) responses: Vec<Value>,
}

impl Batches {
    /// Keeps a batch until it is answered; gives its answer if that is so already and there is any.
    pub(super) fn open(&mut self, batch: Batch) -> Option<Value> {
        self.0.push(batch);
        self.finished(self.0.len() - 1)
    }

    pub(super) fn has(&self, id: &RequestId) -> bool {
        self.0.iter().any(|batch| batch.waiting.contains(id))
    }

    /// Takes the answer to a request of a batch, or that there will be none; gives the answer to the whole batch when it was
    /// the last one.
    pub(super) fn resolve(&mut self, id: &RequestId, answer: Option<Value>) -> Option<Value> {
        let place = self.0.iter_mut().position(|batch| batch.waiting.remove(id))?;
        self.0[place].responses.extend(answer);
        self.finished(place)
    }

    fn finished(&mut self, place: usize) -> Option<Value> {
        if !self.0[place].waiting.is_empty() {
            return None;
        }
        let responses = self.0.swap_remove(place).responses;
        (!responses.is_empty()).then_some(Value::Array(responses))
    }
}
