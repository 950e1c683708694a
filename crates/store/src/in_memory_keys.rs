//! Keys in memory, for tests and for programs that do not persist keys.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use futures_core::future::BoxFuture;
use toolwire_contract::conversations::{StoreError, Timestamp};
use toolwire_contract::keys::{KeyId, KeyRecord, KeyTable, LimitReached, Minute, Reservation, UsageCounter};

use crate::usage::MinuteCounts;

/// Keys and their usage in the memory of one process.
#[derive(Debug, Default)]
pub struct InMemoryKeys {
    keys: Mutex<BTreeMap<KeyId, KeyRecord>>,
    minutes: MinuteCounts,
    /// By the owner and the month.
    budgets: Mutex<HashMap<(String, String), Budget>>,
}

/// The tokens of one key in one month.
#[derive(Debug, Default)]
struct Budget {
    used: u64,
    /// The reserved tokens by the id of the request, and when they are free again.
    reserved: HashMap<String, (u64, Instant)>,
}

impl InMemoryKeys {
    pub fn new() -> InMemoryKeys {
        InMemoryKeys::default()
    }

    fn keys(&self) -> MutexGuard<'_, BTreeMap<KeyId, KeyRecord>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn budgets(&self) -> MutexGuard<'_, HashMap<(String, String), Budget>> {
        self.budgets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reserve_now(&self, reservation: &Reservation) -> Result<Minute, LimitReached> {
        let now = Instant::now();
        let minute = self.minutes.reserve(reservation, now)?;
        let Some(limit) = reservation.limit.tokens_per_month else { return Ok(minute) };
        let mut budgets = self.budgets();
        let budget = budgets.entry((reservation.owner.clone(), reservation.month.clone())).or_default();
        budget.reserved.retain(|_, (_, end)| *end > now);
        let reserved: u64 = budget.reserved.values().map(|(tokens, _)| tokens).sum();
        if budget.used.saturating_add(reserved).saturating_add(reservation.tokens) > limit {
            drop(budgets);
            self.minutes.cancel(reservation, minute);
            return Err(LimitReached::Budget);
        }
        budget.reserved.insert(reservation.id.clone(), (reservation.tokens, now + reservation.lifetime));
        Ok(minute)
    }
}

impl KeyTable for InMemoryKeys {
    fn add(&self, key: KeyRecord) -> BoxFuture<'_, Result<bool, StoreError>> {
        let mut keys = self.keys();
        let is_new = !keys.contains_key(&key.id);
        if is_new {
            keys.insert(key.id.clone(), key);
        }
        ready(is_new)
    }

    fn find<'a>(&'a self, id: &'a KeyId) -> BoxFuture<'a, Result<Option<KeyRecord>, StoreError>> {
        ready(self.keys().get(id).cloned())
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<KeyRecord>, StoreError>> {
        let mut keys: Vec<KeyRecord> = self.keys().values().cloned().collect();
        keys.sort_by(|one, other| (one.created, &one.id).cmp(&(other.created, &other.id)));
        ready(keys)
    }

    fn revoke<'a>(
        &'a self,
        id: &'a KeyId,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<Option<KeyRecord>, StoreError>> {
        let mut keys = self.keys();
        let key = keys.get_mut(id);
        ready(key.map(|key| {
            key.revoked.get_or_insert(at);
            key.clone()
        }))
    }

    fn count(&self) -> BoxFuture<'_, Result<u64, StoreError>> {
        ready(self.keys().len() as u64)
    }
}

impl UsageCounter for InMemoryKeys {
    fn reserve<'a>(
        &'a self,
        reservation: &'a Reservation,
    ) -> BoxFuture<'a, Result<Result<Minute, LimitReached>, StoreError>> {
        ready(self.reserve_now(reservation))
    }

    fn settle<'a>(
        &'a self,
        reservation: &'a Reservation,
        minute: Minute,
        used: u64,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.minutes.settle(reservation, minute, used);
        if reservation.limit.tokens_per_month.is_some() {
            let mut budgets = self.budgets();
            let owner_and_month = (reservation.owner.clone(), reservation.month.clone());
            let budget = budgets.entry(owner_and_month).or_default();
            budget.reserved.remove(&reservation.id);
            budget.used = budget.used.saturating_add(used);
        }
        ready(())
    }

    fn used<'a>(&'a self, owner: &'a str, month: &'a str) -> BoxFuture<'a, Result<u64, StoreError>> {
        let budgets = self.budgets();
        ready(budgets.get(&(owner.to_owned(), month.to_owned())).map_or(0, |budget| budget.used))
    }
}

fn ready<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, Result<T, StoreError>> {
    Box::pin(std::future::ready(Ok(value)))
}
