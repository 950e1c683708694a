//! The state of clients in memory, for tests and for gateways without a folder for data.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_core::future::BoxFuture;
use toolwire_contract::conversations::StoreError;
use toolwire_contract::state::{Claim, HeldWrite, StateKey, StateStore};

/// The maximum size of all documents. Above it, the oldest ones are removed.
const MAX_BYTES: usize = 256 * 1024 * 1024;

/// Documents in the memory of one process. If they exceed 256 MB, the oldest ones are removed.
#[derive(Debug, Default)]
pub struct InMemoryState(Mutex<Documents>);

#[derive(Debug, Default)]
struct Documents {
    by_key: HashMap<StateKey, Document>,
    /// The oldest has the lowest number.
    by_number: BTreeMap<u64, StateKey>,
    next: u64,
    bytes: usize,
    /// The holders of claims, and the ends of the claims.
    claims: HashMap<StateKey, (String, Option<Instant>)>,
    /// The keys of unfinished work, and the time at which each is due.
    unfinished: HashMap<StateKey, Option<Instant>>,
}

#[derive(Debug)]
struct Document {
    number: u64,
    content: String,
    /// `None` if the time is too far away to be represented.
    expires: Option<Instant>,
    log: Log,
}

/// The entries that belong to a document.
#[derive(Debug, Default)]
struct Log {
    entries: Vec<String>,
    expires: Option<Instant>,
}

impl Document {
    fn len(&self) -> usize {
        self.content.len() + self.log.entries.iter().map(String::len).sum::<usize>()
    }
}

fn is_past(end: Option<Instant>) -> bool {
    end.is_some_and(|end| end <= Instant::now())
}

impl InMemoryState {
    pub fn new() -> InMemoryState {
        InMemoryState::default()
    }

    fn documents(&self) -> MutexGuard<'_, Documents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Documents {
    fn remove(&mut self, key: &StateKey) -> Option<Document> {
        let document = self.by_key.remove(key)?;
        self.by_number.remove(&document.number);
        self.bytes -= document.len();
        Some(document)
    }

    fn put(&mut self, key: &StateKey, content: String, expires: Option<Instant>) {
        let log = self.remove(key).map(|document| document.log).unwrap_or_default();
        self.insert(key, Document { number: self.next, content, expires, log });
    }

    fn insert(&mut self, key: &StateKey, document: Document) {
        self.next = document.number + 1;
        self.bytes += document.len();
        self.by_number.insert(document.number, key.clone());
        self.by_key.insert(key.clone(), document);
        while let Some((_, oldest)) = self.by_number.first_key_value() {
            let is_expired = self.by_key.get(oldest).is_some_and(|document| is_past(document.expires));
            if !is_expired && self.bytes <= MAX_BYTES {
                break;
            }
            let oldest = oldest.clone();
            self.remove(&oldest);
        }
        self.claims.retain(|_, (_, end)| !is_past(*end));
    }

    /// Whether a claim is free for a holder.
    fn is_free_for(&self, claim: &Claim) -> bool {
        let other = self.claims.get(&claim.key);
        other.is_none_or(|(holder, end)| *holder == claim.holder || is_past(*end))
    }

    fn give(&mut self, claim: &Claim) {
        let end = Instant::now().checked_add(claim.lifetime);
        self.claims.insert(claim.key.clone(), (claim.holder.clone(), end));
    }

    fn write(&mut self, key: &StateKey, write: HeldWrite) {
        let HeldWrite { document, lifetime, position, entries, log_lifetime } = write;
        let earlier = self.remove(key);
        let (content, expires, mut log) = match earlier {
            Some(Document { content, expires, log, .. }) => (content, expires, log),
            None => (String::new(), Some(Instant::now()), Log::default()),
        };
        let (content, expires) = match document {
            Some(content) => (content, Instant::now().checked_add(lifetime)),
            None => (content, expires),
        };
        if !entries.is_empty() {
            log.entries.truncate(usize::try_from(position).unwrap_or(usize::MAX));
            log.entries.extend(entries);
            log.expires = Instant::now().checked_add(log_lifetime);
        }
        self.insert(key, Document { number: self.next, content, expires, log });
    }
}

impl StateStore for InMemoryState {
    fn put<'a>(
        &'a self,
        key: &'a StateKey,
        content: String,
        lifetime: Duration,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.documents().put(key, content, Instant::now().checked_add(lifetime));
        ready(())
    }

    fn get<'a>(&'a self, key: &'a StateKey) -> BoxFuture<'a, Result<Option<String>, StoreError>> {
        let documents = self.documents();
        let found = documents.by_key.get(key).filter(|document| !is_past(document.expires));
        ready(found.map(|document| document.content.clone()))
    }

    fn remove<'a>(&'a self, key: &'a StateKey) -> BoxFuture<'a, Result<bool, StoreError>> {
        ready(self.documents().remove(key).is_some_and(|document| !is_past(document.expires)))
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<bool, StoreError>> {
        let mut documents = self.documents();
        let is_free = documents.is_free_for(claim);
        if is_free {
            documents.give(claim);
        }
        ready(is_free)
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<(), StoreError>> {
        let mut documents = self.documents();
        if documents.claims.get(&claim.key).is_some_and(|(holder, _)| *holder == claim.holder) {
            documents.claims.remove(&claim.key);
        }
        ready(())
    }

    fn seize<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<(), StoreError>> {
        self.documents().give(claim);
        ready(())
    }

    fn write_held<'a>(
        &'a self,
        claim: &'a Claim,
        write: HeldWrite,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        let mut documents = self.documents();
        let held = documents.claims.get(&claim.key);
        let is_held = held.is_some_and(|(holder, end)| *holder == claim.holder && !is_past(*end));
        if is_held {
            documents.give(claim);
            documents.write(&claim.key, write);
        }
        ready(is_held)
    }

    fn log<'a>(
        &'a self,
        key: &'a StateKey,
        position: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        let documents = self.documents();
        let log = documents.by_key.get(key).map(|document| &document.log);
        let log = log.filter(|log| !is_past(log.expires));
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let entries = log.into_iter().flat_map(|log| &log.entries).skip(count(position)).take(count(limit));
        ready(entries.cloned().collect())
    }

    fn schedule<'a>(&'a self, key: &'a StateKey, after: Duration) -> BoxFuture<'a, Result<(), StoreError>> {
        self.documents().unfinished.insert(key.clone(), Instant::now().checked_add(after));
        ready(())
    }

    fn unschedule<'a>(&'a self, key: &'a StateKey) -> BoxFuture<'a, Result<(), StoreError>> {
        self.documents().unfinished.remove(key);
        ready(())
    }

    fn due(&self, limit: u64) -> BoxFuture<'_, Result<Vec<StateKey>, StoreError>> {
        let documents = self.documents();
        let mut due: Vec<_> = documents.unfinished.iter().filter(|(_, time)| is_past(**time)).collect();
        due.sort_by_key(|(_, time)| **time);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        ready(due.into_iter().take(limit).map(|(key, _)| key.clone()).collect())
    }
}

fn ready<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, Result<T, StoreError>> {
    Box::pin(std::future::ready(Ok(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_documents_make_room() {
        let mut documents = Documents::default();
        let key = |number: usize| StateKey::new("a", number.to_string()).expect("a key");
        let half = "x".repeat(MAX_BYTES / 2);
        for number in 0..4 {
            documents.put(&key(number), half.clone(), None);
        }
        let left: Vec<bool> = (0..4).map(|number| documents.by_key.contains_key(&key(number))).collect();
        assert_eq!(left, [false, false, true, true]);
        documents.put(&key(3), "small".to_owned(), None);
        assert_eq!((documents.bytes, documents.by_number.len()), (MAX_BYTES / 2 + 5, 2));
    }
}
