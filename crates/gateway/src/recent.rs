//! Keeps recent values in memory. Later requests refer to them by ids that the client got.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use memchr::memchr_iter;

use crate::keys::Principal;

const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
pub(crate) const MAX_ENTRIES: usize = 20_000;
const MAX_BYTES: usize = 256 * 1024 * 1024;

/// The most recent values, each with its ids. A value is found only with the key of the client that it was stored for.
pub(crate) struct Recent<T>(Mutex<Entries<T>>);

struct Entries<T> {
    by_id: HashMap<String, Arc<Entry<T>>>,
    /// The oldest first.
    order: VecDeque<Arc<Entry<T>>>,
    bytes: usize,
}

struct Entry<T> {
    principal: Principal,
    ids: Vec<String>,
    value: Arc<T>,
    stored_at: Instant,
    bytes: usize,
}

impl<T> Default for Recent<T> {
    fn default() -> Recent<T> {
        Recent(Mutex::new(Entries { by_id: HashMap::new(), order: VecDeque::new(), bytes: 0 }))
    }
}

impl<T> Recent<T> {
    /// Stores a value of an estimated size.
    pub(crate) fn store(&self, principal: &Principal, ids: Vec<String>, value: T, bytes: usize) {
        let (principal, value, stored_at) = (principal.clone(), Arc::new(value), Instant::now());
        let entry = Arc::new(Entry { principal, ids, value, stored_at, bytes });
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.bytes += bytes;
        for id in &entry.ids {
            entries.by_id.insert(id.clone(), entry.clone());
        }
        entries.order.push_back(entry);
        entries.remove_oldest();
    }

    pub(crate) fn find(&self, principal: &Principal, id: &str) -> Option<Arc<T>> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.by_id.get(id)?;
        (entry.principal == *principal && entry.stored_at.elapsed() < LIFETIME).then(|| entry.value.clone())
    }

    /// Whether a JSON text contains one of the ids, as a string that starts with one of the prefixes.
    pub(crate) fn is_mentioned(&self, text: &[u8], prefixes: &[&str]) -> bool {
        let entries = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries().by_id.is_empty() {
            return false;
        }
        let mut start = 0;
        let mut strings = memchr_iter(b'"', text).map(|end| {
            let string = &text[start..end];
            start = end + 1;
            string
        });
        strings.any(|string| {
            prefixes.iter().any(|prefix| string.starts_with(prefix.as_bytes()))
                && str::from_utf8(string).is_ok_and(|id| entries().by_id.contains_key(id))
        })
    }

    #[cfg(test)]
    pub(crate) fn sizes(&self) -> (usize, usize) {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (entries.order.len(), entries.by_id.len())
    }
}

impl<T> Entries<T> {
    fn remove_oldest(&mut self) {
        while let Some(oldest) = self.order.front() {
            let is_over = self.order.len() > MAX_ENTRIES || self.bytes > MAX_BYTES;
            if !is_over && oldest.stored_at.elapsed() < LIFETIME {
                return;
            }
            let Some(oldest) = self.order.pop_front() else { return };
            self.bytes -= oldest.bytes;
            for id in &oldest.ids {
                self.by_id.remove(id);
            }
        }
    }
}
