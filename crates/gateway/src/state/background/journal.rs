//! The log of a response in the background: its events, and what another gateway needs to continue it.
//!
//! Only the gateway with the lease writes. Each write renews the lease, so a gateway that has lost it notices
//! this before its next call of a tool.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::Instant;
use toolwire_contract::conversations::{StoreError, Timestamp};
use toolwire_contract::model::Usage;
use toolwire_contract::state::{Claim, HeldWrite, StateKey};
use toolwire_contract::{Message, Role};
use toolwire_dialect::client::{StreamData, StreamEvent, WrittenResponse};

use crate::principal::now;
use crate::state::ResponseStorage;

/// The time after the end of a response in which clients can read its events again.
const LOG_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// The number of renewals of a lease, and of the entry in the list of unfinished work, in the lifetime of the
/// lease.
pub(super) const RENEWALS: u32 = 3;

/// The pause after the store has failed.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// The number of entries that are read at once.
const PAGE: u64 = 256;

/// The maximum size of a log.
const MAX_LOG_BYTES: usize = 64 * 1024 * 1024;

/// An entry of the log.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Entry {
    /// The data of an event of the stream.
    Event(Box<RawValue>),
    /// A message that the run has added.
    Message(Arc<Message>),
    /// The id of a call that may have taken effect.
    Started(String),
    /// The usage of the response so far.
    Usage(Usage),
}

/// A step of a run.
#[derive(Clone, Debug)]
pub(crate) enum RunRecord {
    Message(Arc<Message>),
    /// The id of a call.
    Started(String),
    /// The usage of the response so far.
    Usage(Usage),
}

impl From<RunRecord> for Entry {
    fn from(record: RunRecord) -> Entry {
        match record {
            RunRecord::Message(message) => Entry::Message(message),
            RunRecord::Started(id) => Entry::Started(id),
            RunRecord::Usage(usage) => Entry::Usage(usage),
        }
    }
}

/// This gateway does not have the lease any more, or cannot renew it.
#[derive(Debug)]
pub(super) struct Lost;

/// The right to write a response, and the entries that are not written yet.
pub(super) struct Journal {
    storage: ResponseStorage,
    claim: Claim,
    /// The time until which no other gateway has the lease.
    held_until: Instant,
    /// The time by which the response must be complete; in the past if it is complete, or has no time left.
    deadline: Timestamp,
    /// When the entry in the list of unfinished work was last written.
    listed: Option<Instant>,
    /// Whether a write has begun whose outcome is not known.
    is_writing: bool,
    /// Whether the end of the response is written.
    has_end: bool,
    /// The number of entries in the store.
    position: u64,
    unwritten: Vec<String>,
    bytes: usize,
    /// Readers on this gateway wait for changes of the position.
    progress: watch::Sender<u64>,
}

impl Journal {
    /// Creates the journal of a response, with its lease. The entries that are already stored are not known
    /// yet.
    pub(super) fn new(storage: ResponseStorage, claim: Claim) -> Journal {
        Journal {
            storage,
            held_until: Instant::now() + claim.lifetime,
            claim,
            deadline: Timestamp(0),
            listed: None,
            is_writing: false,
            has_end: false,
            position: 0,
            unwritten: Vec::new(),
            bytes: 0,
            progress: watch::Sender::new(0),
        }
    }

    /// Sets the number of entries in the store.
    pub(super) fn start_at(&mut self, position: u64) {
        self.position = position;
        self.progress.send_replace(position);
    }

    /// Sets the time by which the response must be complete. Until then, the log and the document are kept.
    pub(super) fn set_deadline(&mut self, deadline: Timestamp) {
        self.deadline = deadline;
    }

    pub(super) fn key(&self) -> &StateKey {
        &self.claim.key
    }

    pub(super) fn progress(&self) -> watch::Receiver<u64> {
        self.progress.subscribe()
    }

    pub(super) fn lease(&self) -> Duration {
        self.claim.lifetime
    }

    /// Adds events; they are written by the next [`Journal::write`].
    pub(super) fn events(&mut self, events: &[StreamEvent]) {
        for event in events {
            if let StreamData::Json(data) = &event.data
                && let Ok(data) = serde_json::value::to_raw_value(data)
            {
                self.add(&Entry::Event(data));
            }
        }
    }

    pub(super) fn records(&mut self, records: Vec<RunRecord>) {
        records.into_iter().for_each(|record| self.add(&record.into()));
    }

    fn add(&mut self, entry: &Entry) {
        match serde_json::to_string(entry) {
            Ok(text) => {
                self.bytes += text.len();
                self.unwritten.push(text);
            }
            Err(error) => tracing::error!(%error, "an event of a response cannot be written"),
        }
    }

    /// Returns the size of the entries that are not written.
    pub(super) fn unwritten_bytes(&self) -> usize {
        self.unwritten.iter().map(String::len).sum()
    }

    /// Whether the log is larger than the maximum.
    pub(super) fn is_full(&self) -> bool {
        self.bytes > MAX_LOG_BYTES
    }

    /// Adds the response to the list of unfinished work, from which another gateway takes it after the lease
    /// has expired. Returns whether this has succeeded.
    pub(super) async fn list(&mut self) -> bool {
        let listed = self.storage.store.schedule(&self.claim.key, self.claim.lifetime);
        match tokio::time::timeout_at(self.held_until, listed).await {
            Ok(Ok(())) => {
                self.listed = Some(Instant::now());
                true
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "a response in the background cannot be listed as unfinished");
                false
            }
            Err(_) => false,
        }
    }

    /// Writes the new entries and the document, and renews the lease. If the store is unavailable, it tries
    /// again until the lease may have expired.
    pub(super) async fn write(&mut self, document: Option<String>) -> Result<(), Lost> {
        self.write_entries(document).await?;
        let is_old = |listed: Instant| listed.elapsed() >= self.claim.lifetime / RENEWALS;
        if self.listed.is_none_or(is_old) {
            // If this fails, another gateway tries to get the lease, and does not get it.
            self.list().await;
        }
        Ok(())
    }

    /// Writes the new entries, of which the last one is the end of the response, and the final document.
    pub(super) async fn write_end(&mut self, document: Option<String>) -> Result<(), Lost> {
        (self.has_end, self.deadline) = (true, Timestamp(0));
        self.write_entries(document).await
    }

    async fn write_entries(&mut self, document: Option<String>) -> Result<(), Lost> {
        // The response may have no entries for a long time, while it waits for a call.
        let left = Duration::from_millis(self.deadline.0.saturating_sub(now().0));
        let retention = self.storage.retention;
        loop {
            let start = Instant::now();
            let write = HeldWrite {
                document: document.clone(),
                lifetime: retention + left,
                position: self.position,
                entries: self.unwritten.clone(),
                log_lifetime: LOG_LIFETIME.min(retention) + left,
            };
            self.is_writing = true;
            let written =
                tokio::time::timeout_at(self.held_until, self.storage.store.write_held(&self.claim, write));
            match written.await {
                Ok(Ok(true)) => {
                    self.is_writing = false;
                    self.held_until = start + self.claim.lifetime;
                    self.position += self.unwritten.len() as u64;
                    self.unwritten.clear();
                    self.progress.send_replace(self.position);
                    return Ok(());
                }
                Ok(Ok(false)) => return Err(Lost),
                Ok(Err(error)) if Instant::now() + RETRY_PAUSE < self.held_until => {
                    tracing::warn!(%error, "a response in the background cannot be stored; trying again");
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                Ok(Err(error)) => {
                    tracing::error!(%error, "a response in the background cannot be stored");
                    return Err(Lost);
                }
                Err(_) => return Err(Lost),
            }
        }
    }

    /// Releases the lease after the end of the response.
    pub(super) async fn finish(self) {
        if let Err(error) = self.storage.store.unschedule(&self.claim.key).await {
            // The gateway that finds the entry removes it.
            tracing::warn!(%error, "a complete response stays in the list of unfinished work");
        }
        self.release().await;
    }

    /// Releases the lease, so that another gateway continues the response after a time. The document is
    /// written first, unless it could replace a newer one.
    pub(super) async fn hand_over(mut self, document: Option<String>, after: Duration) {
        if document.is_some() && !self.is_writing && !self.has_end {
            // What the run has added since its last write is lost, as if the gateway had died.
            self.unwritten.clear();
            if self.write_entries(document).await.is_err() {
                return;
            }
        }
        if let Err(error) = self.storage.store.schedule(&self.claim.key, after).await {
            tracing::warn!(%error, "a response in the background is continued only after its lease has expired");
        }
        self.release().await;
    }

    /// Leaves the response to any gateway, at the time at which it is due.
    pub(super) async fn release(self) {
        if let Err(error) = self.storage.store.release(&self.claim).await {
            tracing::warn!(%error, "the lease of a response in the background is not released");
        }
    }
}

/// What a log says about a response.
#[derive(Debug, Default)]
pub(super) struct SavedProgress {
    /// The number of entries.
    pub(super) length: u64,
    pub(super) written: WrittenResponse,
    pub(super) messages: Vec<Arc<Message>>,
    /// The calls of the last message that may have taken effect.
    pub(super) started: HashSet<String>,
    pub(super) usage: Usage,
}

impl SavedProgress {
    pub(super) async fn read(storage: &ResponseStorage, key: &StateKey) -> Result<SavedProgress, StoreError> {
        let mut progress = SavedProgress::default();
        loop {
            let entries = storage.store.log(key, progress.length, PAGE).await?;
            if entries.is_empty() {
                return Ok(progress);
            }
            progress.length += entries.len() as u64;
            for entry in entries {
                match serde_json::from_str(&entry) {
                    Ok(entry) => progress.add(entry),
                    Err(error) => tracing::error!(%error, "an entry of a log cannot be read"),
                }
            }
        }
    }

    fn add(&mut self, entry: Entry) {
        match entry {
            Entry::Event(data) => match serde_json::from_str(data.get()) {
                Ok(data) => self.written.read(&data),
                Err(error) => tracing::error!(%error, "an event of a log cannot be read"),
            },
            Entry::Message(message) => {
                if message.role == Role::Assistant {
                    // Providers may use the ids of calls again.
                    self.started.clear();
                }
                self.messages.push(message);
            }
            Entry::Started(id) => drop(self.started.insert(id)),
            Entry::Usage(usage) => self.usage = usage,
        }
    }
}

/// Returns the data of the events among the entries from a position on, and the next position.
pub(super) async fn read_events(
    storage: &ResponseStorage,
    key: &StateKey,
    position: u64,
) -> Result<(Vec<Box<RawValue>>, u64), StoreError> {
    let entries = storage.store.log(key, position, PAGE).await?;
    let next = position + entries.len() as u64;
    let events = entries.iter().filter_map(|entry| match serde_json::from_str(entry) {
        Ok(Entry::Event(data)) => Some(data),
        _ => None,
    });
    Ok((events.collect(), next))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolwire_contract::{Block, ToolCall};

    use super::*;

    #[test]
    fn an_entry_is_read_again() {
        let event = serde_json::value::to_raw_value(&json!({"type": "x", "n": 1.50})).expect("JSON");
        let text = serde_json::to_string(&Entry::Event(event)).expect("JSON");
        assert_eq!(text, r#"{"event":{"type":"x","n":1.5}}"#);
        let Ok(Entry::Event(data)) = serde_json::from_str(&text) else { panic!("{text}") };
        assert_eq!(data.get(), r#"{"type":"x","n":1.5}"#);
        for record in [
            RunRecord::Started("1".to_owned()),
            RunRecord::Message(Arc::new(Message::user("hi"))),
            RunRecord::Usage(Usage { input_tokens: 5, ..Usage::default() }),
        ] {
            let entry = Entry::from(record);
            let text = serde_json::to_string(&entry).expect("JSON");
            let read: Entry = serde_json::from_str(&text).expect("an entry");
            assert_eq!(format!("{read:?}"), format!("{entry:?}"));
        }
    }

    #[test]
    fn only_calls_of_the_last_message_are_open() {
        let call =
            |id: &str| Block::Call { id: id.to_owned(), call: ToolCall::new("f", serde_json::Map::new()) };
        let asked = || Entry::Message(Arc::new(Message::new(Role::Assistant, vec![call("1")])));
        let mut progress = SavedProgress::default();
        progress.add(asked());
        progress.add(Entry::Started("1".to_owned()));
        progress.add(Entry::Usage(Usage { input_tokens: 5, ..Usage::default() }));
        progress.add(asked());
        assert_eq!((progress.messages.len(), progress.started.len(), progress.usage.input_tokens), (2, 0, 5));
        progress.add(Entry::Started("1".to_owned()));
        assert_eq!(progress.started.len(), 1);
        let event: Value = json!({"type": "response.created", "sequence_number": 0});
        progress.add(Entry::Event(serde_json::value::to_raw_value(&event).expect("JSON")));
        assert_ne!(progress.written, WrittenResponse::default());
    }
}
