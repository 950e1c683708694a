//! One endpoint of several, with its limit and its failures.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::Endpoint;

/// The number of consecutive failures after which an endpoint is paused: for some time, it is tried last.
pub(super) const MAX_FAILURES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const MAX_PAUSE: Duration = Duration::from_secs(300);

pub(super) struct Member {
    pub(super) endpoint: Endpoint,
    pub(super) weight: u32,
    /// Limits the concurrent requests; `None` if the configuration has no limit.
    pub(super) requests: Option<Arc<Semaphore>>,
    pub(super) health: Arc<Mutex<Health>>,
}

#[derive(Default)]
pub(super) struct Health {
    failures: u32,
    paused_until: Option<Instant>,
}

impl Member {
    pub(super) fn is_paused(&self, now: Instant) -> bool {
        let health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        health.paused_until.is_some_and(|until| until > now)
    }

    /// Returns a permit for one request. At the maximum number of concurrent requests, it waits if `waits` is
    /// set, and otherwise returns `None`.
    pub(super) async fn enter(&self, waits: bool) -> Option<Option<OwnedSemaphorePermit>> {
        let Some(requests) = &self.requests else { return Some(None) };
        match waits {
            true => requests.clone().acquire_owned().await.ok().map(Some),
            false => requests.clone().try_acquire_owned().ok().map(Some),
        }
    }

    pub(super) fn record(&self, is_success: bool) {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        if is_success {
            *health = Health::default();
            return;
        }
        health.failures = health.failures.saturating_add(1);
        if let Some(doublings) = health.failures.checked_sub(MAX_FAILURES) {
            let pause = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(doublings)).min(MAX_PAUSE);
            health.paused_until = Some(Instant::now() + pause);
        }
    }
}
