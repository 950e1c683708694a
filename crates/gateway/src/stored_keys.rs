//! The keys of the key table, cached for a short time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use toolwire_contract::conversations::StoreError;
use toolwire_contract::keys::{KeyId, KeyRecord, KeyTable, UsageCounter};

use crate::principal::{Identity, now};

/// A record is read again after this time, so that a revoked key is refused soon in every gateway.
const LIFETIME: Duration = Duration::from_secs(2);

/// The maximum number of cached records. Above it, the cache is emptied.
const MAX_RECORDS: usize = 10_000;

/// The key table, and the counters of its keys. Cheap to clone.
#[derive(Clone)]
pub(crate) struct StoredKeys(Arc<Inner>);

struct Inner {
    table: Arc<dyn KeyTable>,
    usage: Arc<dyn UsageCounter>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    keys: HashMap<KeyId, (Instant, StoredKey)>,
    count: Option<(Instant, u64)>,
    /// Whether the table had keys when it was last read, or could not be read.
    may_have_keys: bool,
}

/// A key as it was read from the table.
#[derive(Clone)]
pub(crate) struct StoredKey {
    pub(crate) record: Arc<KeyRecord>,
    pub(crate) identity: Arc<Identity>,
}

impl StoredKeys {
    pub(crate) fn new(table: Arc<dyn KeyTable>, usage: Arc<dyn UsageCounter>) -> StoredKeys {
        StoredKeys(Arc::new(Inner { table, usage, state: Mutex::default() }))
    }

    pub(crate) fn usage(&self) -> &Arc<dyn UsageCounter> {
        &self.0.usage
    }

    /// Finds a key, which may be revoked or have expired.
    pub(crate) async fn find(&self, id: &KeyId) -> Result<Option<StoredKey>, StoreError> {
        if let Some((read, key)) = self.lock().keys.get(id)
            && read.elapsed() < LIFETIME
        {
            return Ok(Some(key.clone()));
        }
        let start = Instant::now();
        let found = self.0.table.find(id).await?;
        let key = found.map(|record| StoredKey {
            identity: Arc::new(Identity::stored(&record)),
            record: Arc::new(record),
        });
        let mut state = self.lock();
        if state.keys.len() >= MAX_RECORDS {
            state.keys.clear();
        }
        match &key {
            Some(key) => state.keys.insert(id.clone(), (start, key.clone())),
            None => state.keys.remove(id),
        };
        Ok(key)
    }

    /// Whether a key is valid now.
    pub(crate) async fn is_valid(&self, id: &KeyId) -> Result<bool, StoreError> {
        Ok(self.find(id).await?.is_some_and(|key| key.record.is_valid_at(now())))
    }

    /// Whether the table has a key. Revoked keys count too: revoking the last one must not make the gateway
    /// public.
    pub(crate) async fn has_keys(&self) -> Result<bool, StoreError> {
        if let Some((read, count)) = self.lock().count
            && (count > 0 || read.elapsed() < LIFETIME)
        {
            return Ok(count > 0);
        }
        let start = Instant::now();
        let count = self.0.table.count().await;
        let mut state = self.lock();
        state.may_have_keys = count.as_ref().map_or(true, |count| *count > 0);
        let count = count?;
        state.count = Some((start, count));
        Ok(count > 0)
    }

    /// Whether the table had keys when it was last read, or could not be read.
    pub(crate) fn may_have_keys(&self) -> bool {
        self.lock().may_have_keys
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
