//! Values in memory that later requests refer to by an id that the client was sent.
//!
//! Every key has its own share of the memory. A key that stores more loses its own oldest values; if all keys
//! together store too much, the key that stores the most loses its oldest one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use memchr::memchr_iter;

use crate::principal::Principal;
use crate::settings::GatewayLimits;

const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// The limits of what is stored, for all keys together and for one key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StateLimits {
    all: Size,
    per_key: Size,
    lifetime: Duration,
}

/// A number of values and their estimated size.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    values: usize,
    bytes: usize,
}

impl Size {
    fn exceeds(self, limit: Size) -> bool {
        self.values > limit.values || self.bytes > limit.bytes
    }
}

impl StateLimits {
    /// Returns the limits of the configuration. A key may store the same part of `values` as of the bytes.
    pub(crate) fn new(limits: &GatewayLimits, has_several_keys: bool, values: usize) -> StateLimits {
        let all = Size { values, bytes: limits.state_bytes };
        let bytes = limits.state_bytes_of_key(has_several_keys).min(all.bytes);
        let part = bytes as f64 / all.bytes.max(1) as f64;
        let values = ((values as f64 * part) as usize).max(1);
        StateLimits { all, per_key: Size { values, bytes }, lifetime: LIFETIME }
    }
}

/// A value that was not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotStored {
    #[error("{bytes} bytes exceed the maximum of {maximum} per key")]
    TooLarge { bytes: usize, maximum: usize },
    #[error("the values of all keys together leave no room for {bytes} bytes")]
    NoRoom { bytes: usize },
}

/// The most recent values, each with its ids. Only the client that caused a value finds it.
pub(crate) struct Recent<T> {
    limits: StateLimits,
    entries: Mutex<Entries<T>>,
}

struct Entries<T> {
    /// The oldest has the lowest number.
    by_number: BTreeMap<u64, StoredValue<T>>,
    by_id: HashMap<String, u64>,
    owners: HashMap<Principal, Owner>,
    bytes: usize,
    next: u64,
}

struct StoredValue<T> {
    principal: Principal,
    ids: Vec<String>,
    value: Arc<T>,
    stored_at: Instant,
    bytes: usize,
}

/// The stored values of one key.
#[derive(Default)]
struct Owner {
    numbers: BTreeSet<u64>,
    bytes: usize,
}

impl<T> Recent<T> {
    pub(crate) fn new(limits: StateLimits) -> Recent<T> {
        let entries = Entries {
            by_number: BTreeMap::new(),
            by_id: HashMap::new(),
            owners: HashMap::new(),
            bytes: 0,
            next: 0,
        };
        Recent { limits, entries: Mutex::new(entries) }
    }

    fn lock(&self) -> MutexGuard<'_, Entries<T>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a value of an estimated size, unless it is larger than the share of a key.
    pub(crate) fn store(
        &self,
        principal: &Principal,
        ids: Vec<String>,
        value: T,
        bytes: usize,
    ) -> Result<(), NotStored> {
        let maximum = self.limits.per_key.bytes;
        if bytes > maximum {
            return Err(NotStored::TooLarge { bytes, maximum });
        }
        let (principal, value, stored_at) = (principal.clone(), Arc::new(value), Instant::now());
        let mut entries = self.lock();
        let number = entries.add(StoredValue { principal: principal.clone(), ids, value, stored_at, bytes });
        entries.remove_older_than(self.limits.lifetime);
        entries.remove_more_than(&self.limits, &principal);
        entries.by_number.contains_key(&number).then_some(()).ok_or(NotStored::NoRoom { bytes })
    }

    pub(crate) fn find(&self, principal: &Principal, id: &str) -> Option<Arc<T>> {
        let entries = self.lock();
        entries
            .find(principal, id, self.limits.lifetime)
            .map(|number| entries.by_number[&number].value.clone())
    }

    /// Removes the value that has one of the ids, unless `check` fails.
    pub(crate) fn take<'i, E>(
        &self,
        principal: &Principal,
        ids: impl IntoIterator<Item = &'i str>,
        check: impl FnOnce(&T) -> Result<(), E>,
    ) -> Result<Option<Arc<T>>, E> {
        let mut entries = self.lock();
        let Some(number) = ids.into_iter().find_map(|id| entries.find(principal, id, self.limits.lifetime))
        else {
            return Ok(None);
        };
        check(&entries.by_number[&number].value)?;
        Ok(entries.remove(number).map(|entry| entry.value))
    }

    /// Whether a JSON text contains one of this client's ids, as a string that starts with one of the
    /// prefixes.
    pub(crate) fn is_mentioned(&self, principal: &Principal, text: &[u8], prefixes: &[&str]) -> bool {
        if !self.lock().owners.contains_key(principal) {
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
                && str::from_utf8(string).is_ok_and(|id| self.find(principal, id).is_some())
        })
    }
}

impl<T> Entries<T> {
    fn find(&self, principal: &Principal, id: &str, lifetime: Duration) -> Option<u64> {
        let number = *self.by_id.get(id)?;
        let entry = self.by_number.get(&number)?;
        (entry.principal == *principal && entry.stored_at.elapsed() < lifetime).then_some(number)
    }

    /// Returns the number of the entry.
    fn add(&mut self, entry: StoredValue<T>) -> u64 {
        let number = self.next;
        self.next += 1;
        for id in &entry.ids {
            self.by_id.insert(id.clone(), number);
        }
        let owner = self.owners.entry(entry.principal.clone()).or_default();
        owner.numbers.insert(number);
        owner.bytes += entry.bytes;
        self.bytes += entry.bytes;
        self.by_number.insert(number, entry);
        number
    }

    fn remove(&mut self, number: u64) -> Option<StoredValue<T>> {
        let entry = self.by_number.remove(&number)?;
        self.bytes -= entry.bytes;
        for id in &entry.ids {
            // A later value may have the same id.
            if self.by_id.get(id) == Some(&number) {
                self.by_id.remove(id);
            }
        }
        if let Some(owner) = self.owners.get_mut(&entry.principal) {
            owner.numbers.remove(&number);
            owner.bytes -= entry.bytes;
            if owner.numbers.is_empty() {
                self.owners.remove(&entry.principal);
            }
        }
        Some(entry)
    }

    fn remove_older_than(&mut self, lifetime: Duration) {
        while let Some((number, oldest)) = self.by_number.first_key_value() {
            if oldest.stored_at.elapsed() < lifetime {
                return;
            }
            let number = *number;
            self.remove(number);
        }
    }

    /// Removes values until the limits hold, after a client has stored one. Its own come first: a client
    /// cannot remove those of others by storing more than its share.
    fn remove_more_than(&mut self, limits: &StateLimits, principal: &Principal) {
        while self.owners.get(principal).is_some_and(|owner| owner.size().exceeds(limits.per_key)) {
            self.remove_oldest_of(&principal.clone());
        }
        let all = |entries: &Entries<T>| Size { values: entries.by_number.len(), bytes: entries.bytes };
        while all(self).exceeds(limits.all) {
            let part = |owner: &Owner| {
                let values = owner.numbers.len() as f64 / limits.all.values.max(1) as f64;
                values.max(owner.bytes as f64 / limits.all.bytes.max(1) as f64)
            };
            let largest = self.owners.iter().max_by(|(_, one), (_, two)| part(one).total_cmp(&part(two)));
            let Some(largest) = largest.map(|(principal, _)| principal.clone()) else { return };
            self.remove_oldest_of(&largest);
        }
    }

    fn remove_oldest_of(&mut self, principal: &Principal) {
        let oldest = self.owners.get(principal).and_then(|owner| owner.numbers.first().copied());
        oldest.and_then(|number| self.remove(number));
    }
}

impl Owner {
    fn size(&self) -> Size {
        Size { values: self.numbers.len(), bytes: self.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::principal::tests::principals;

    fn recent(values: usize, bytes: usize, per_key: usize) -> Recent<u32> {
        let limits = GatewayLimits {
            state_bytes: bytes,
            state_bytes_per_key: Some(per_key),
            ..GatewayLimits::default()
        };
        Recent::new(StateLimits::new(&limits, true, values))
    }

    fn try_store(
        recent: &Recent<u32>,
        principal: &Principal,
        id: &str,
        bytes: usize,
    ) -> Result<(), NotStored> {
        recent.store(principal, vec![id.to_owned()], 0, bytes)
    }

    fn store(recent: &Recent<u32>, principal: &Principal, id: &str, bytes: usize) {
        try_store(recent, principal, id, bytes).expect("it is small enough");
    }

    #[test]
    fn a_key_removes_only_its_own_values_while_it_has_more_than_its_share() {
        let [one, two, three] = principals();
        for (values, size) in [(1_000, 10), (8, 1)] {
            let recent = recent(values, 100, 50);
            store(&recent, &one, "first", size);
            for number in 0..100 {
                store(&recent, &two, &format!("two_{number}"), size);
            }
            assert!(recent.find(&one, "first").is_some(), "another key does not remove it");
            assert!(recent.find(&two, "two_99").is_some() && recent.find(&two, "two_90").is_none());
            for number in 0..100 {
                store(&recent, &three, &format!("three_{number}"), size);
            }
            assert!(recent.find(&one, "first").is_some(), "two other keys do not remove it");
            assert!(recent.find(&two, "two_99").is_some() && recent.find(&three, "three_99").is_some());
            let entries = recent.lock();
            assert!(entries.bytes <= 100 && entries.by_number.len() <= values);
            assert_eq!(entries.by_id.len(), entries.by_number.len());
        }
    }

    #[test]
    fn a_value_larger_than_a_share_is_not_stored() {
        let [one, ..] = principals();
        let recent = recent(10, 100, 50);
        store(&recent, &one, "small", 10);
        let stored = try_store(&recent, &one, "large", 51);
        assert_eq!(stored, Err(NotStored::TooLarge { bytes: 51, maximum: 50 }));
        assert!(recent.find(&one, "small").is_some() && recent.find(&one, "large").is_none());
    }

    /// Security rule 24: an approval of a call that was requested too long ago finds nothing to run.
    #[test]
    fn an_old_value_is_not_found_and_not_kept() {
        let [one, ..] = principals();
        let mut recent = recent(10, 100, 50);
        store(&recent, &one, "mcpr_1", 10);
        let free = |_: &u32| Ok::<_, ()>(());
        recent.limits.lifetime = Duration::ZERO;
        assert!(recent.find(&one, "mcpr_1").is_none());
        assert!(!recent.is_mentioned(&one, br#"{"id":"mcpr_1"}"#, &["mcpr_"]));
        assert_eq!(recent.take(&one, ["mcpr_1"], free), Ok(None));
        assert_eq!(try_store(&recent, &one, "mcpr_2", 10), Err(NotStored::NoRoom { bytes: 10 }));
        assert!(recent.lock().by_number.is_empty() && recent.lock().by_id.is_empty());
    }

    /// The largest key loses its oldest value, which may be the one that it stores.
    #[test]
    fn a_value_without_room_is_reported() {
        let [one, two, three] = principals();
        let recent = recent(10, 100, 50);
        store(&recent, &one, "one", 40);
        store(&recent, &two, "two", 40);
        assert_eq!(try_store(&recent, &three, "three", 50), Err(NotStored::NoRoom { bytes: 50 }));
        assert!(recent.find(&one, "one").is_some() && recent.find(&three, "three").is_none());
    }

    #[test]
    fn only_the_owner_finds_and_mentions_a_value() {
        let [one, two, _] = principals();
        let recent = recent(10, 100, 50);
        store(&recent, &one, "msg_1", 1);
        let text = br#"{"input":[{"id":"msg_1"}]}"#;
        assert!(recent.is_mentioned(&one, text, &["msg_"]) && !recent.is_mentioned(&one, text, &["rs_"]));
        assert!(!recent.is_mentioned(&two, text, &["msg_"]));
        store(&recent, &two, "msg_2", 1);
        assert!(!recent.is_mentioned(&two, text, &["msg_"]) && recent.find(&two, "msg_1").is_none());
        let free = |_: &u32| Ok::<_, ()>(());
        assert_eq!(recent.take(&two, ["msg_1"], free), Ok(None));
        assert_eq!(recent.take(&one, ["msg_1"], |_| Err(())), Err(()));
        assert!(recent.take(&one, ["x", "msg_1"], free).is_ok_and(|found| found.is_some()));
        assert_eq!(recent.take(&one, ["msg_1"], free), Ok(None));
        assert!(!recent.lock().owners.contains_key(&one));
    }
}
