//! A connection to a store that can break.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use toolwire_contract::conversations::StoreError;
use toolwire_contract::state::{Claim, HeldWrite, StateKey};

use super::*;

/// A gateway's connection to the store, which can break.
pub(super) struct Link {
    store: Arc<dyn StateStore>,
    pub(super) is_down: AtomicBool,
    /// Whether entries about calls are not stored.
    pub(super) refuses_calls: AtomicBool,
    /// The lifetimes with which the log and the documents were written, in this order.
    pub(super) lifetimes: Mutex<Vec<(Duration, Option<Duration>)>>,
}

impl Link {
    pub(super) fn new(store: &Arc<dyn StateStore>) -> Arc<Link> {
        let (is_down, refuses_calls) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Link { store: store.clone(), is_down, refuses_calls, lifetimes: Mutex::default() })
    }

    fn check(&self) -> Result<(), StoreError> {
        match self.is_down.load(Ordering::SeqCst) {
            true => Err(StoreError::Unavailable { place: "store".to_owned(), problem: "down".to_owned() }),
            false => Ok(()),
        }
    }
}

impl StateStore for Link {
    fn put<'a>(
        &'a self,
        key: &'a StateKey,
        content: String,
        lifetime: Duration,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.check()?;
            self.store.put(key, content, lifetime).await
        })
    }

    fn get<'a>(&'a self, key: &'a StateKey) -> BoxFuture<'a, Result<Option<String>, StoreError>> {
        Box::pin(async move {
            self.check()?;
            self.store.get(key).await
        })
    }

    fn remove<'a>(&'a self, key: &'a StateKey) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move {
            self.check()?;
            self.store.remove(key).await
        })
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move {
            self.check()?;
            self.store.claim(claim).await
        })
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.check()?;
            self.store.release(claim).await
        })
    }

    fn seize<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.check()?;
            self.store.seize(claim).await
        })
    }

    fn write_held<'a>(
        &'a self,
        claim: &'a Claim,
        write: HeldWrite,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move {
            let has_call = write.entries.iter().any(|entry| entry.starts_with("{\"started\""));
            if has_call && self.refuses_calls.load(Ordering::SeqCst) {
                self.is_down.store(true, Ordering::SeqCst);
            }
            self.check()?;
            let of_document = write.document.is_some().then_some(write.lifetime);
            self.lifetimes.lock().unwrap().push((write.log_lifetime, of_document));
            self.store.write_held(claim, write).await
        })
    }

    fn log<'a>(
        &'a self,
        key: &'a StateKey,
        position: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        Box::pin(async move {
            self.check()?;
            self.store.log(key, position, limit).await
        })
    }

    fn schedule<'a>(&'a self, key: &'a StateKey, after: Duration) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.check()?;
            self.store.schedule(key, after).await
        })
    }

    fn unschedule<'a>(&'a self, key: &'a StateKey) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.check()?;
            self.store.unschedule(key).await
        })
    }

    fn due(&self, limit: u64) -> BoxFuture<'_, Result<Vec<StateKey>, StoreError>> {
        Box::pin(async move {
            self.check()?;
            self.store.due(limit).await
        })
    }
}
