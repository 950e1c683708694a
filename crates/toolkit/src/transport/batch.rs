//! Batches: several messages in one array, with one array of responses. Only one MCP revision has them.

use std::collections::HashSet;

use rmcp::model::RequestId;
use serde_json::Value;

/// The only revision with batches.
pub(super) const REVISION: &str = "2025-03-26";

pub(super) const NO_INITIALIZE: &str = "`initialize` cannot be part of a batch";

/// Longer batches are rejected, because all requests of a batch run at the same time.
const MAX_BATCH_MESSAGES: usize = 256;

/// Whether the text is a JSON array.
pub(super) fn is_batch(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(b"[")
}

/// Returns the JSON text of each message, or why the batch is rejected.
pub(super) fn pieces(text: &[u8]) -> Result<Vec<String>, String> {
    let pieces: Vec<Value> =
        serde_json::from_slice(text).map_err(|error| format!("invalid batch: {error}"))?;
    match pieces.len() {
        0 => Err("the batch is empty".to_owned()),
        1..=MAX_BATCH_MESSAGES => match repeated_id(&pieces) {
            Some(id) => Err(format!("two requests of the batch have the id {id}")),
            None => Ok(pieces.iter().map(Value::to_string).collect()),
        },
        length => Err(format!("the batch has {length} messages; the limit is {MAX_BATCH_MESSAGES}")),
    }
}

/// Returns the id of a request that another request has too.
fn repeated_id(messages: &[Value]) -> Option<&Value> {
    let mut ids = HashSet::new();
    let requests = messages.iter().filter(|message| message.get("method").is_some());
    requests.filter_map(|request| request.get("id")).find(|id| !ids.insert(id.to_string()))
}

/// The unfinished batches of one connection.
#[derive(Default)]
pub(super) struct Batches(Vec<Batch>);

/// A batch: the ids of pending requests, and the responses so far.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) waiting: HashSet<RequestId>,
    pub(super) responses: Vec<Value>,
}

impl Batches {
    /// Adds a batch. Returns its responses if it is already finished and has any.
    pub(super) fn open(&mut self, batch: Batch) -> Option<Value> {
        self.0.push(batch);
        self.finished(self.0.len() - 1)
    }

    pub(super) fn has(&self, id: &RequestId) -> bool {
        self.0.iter().any(|batch| batch.waiting.contains(id))
    }

    /// Records the response to a request of a batch, or that there is none. Returns the responses of the
    /// batch if this was the last.
    pub(super) fn resolve(&mut self, id: &RequestId, response: Option<Value>) -> Option<Value> {
        let position = self.0.iter_mut().position(|batch| batch.waiting.remove(id))?;
        self.0[position].responses.extend(response);
        self.finished(position)
    }

    fn finished(&mut self, position: usize) -> Option<Value> {
        if !self.0[position].waiting.is_empty() {
            return None;
        }
        let responses = self.0.swap_remove(position).responses;
        (!responses.is_empty()).then_some(Value::Array(responses))
    }
}
