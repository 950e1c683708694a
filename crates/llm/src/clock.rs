//! Time and random numbers for retries, replaceable in tests.

use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;

/// The source of time and random numbers for retries. Tests use their own.
pub trait Clock: Send + Sync {
    /// Returns the current time, used for `retry-after` dates and request signatures.
    fn now(&self) -> SystemTime;

    /// Returns a random number from 0 to 1 that varies the delay before a retry.
    fn jitter(&self) -> f64;

    /// Waits before the next attempt.
    fn sleep(&self, delay: Duration) -> BoxFuture<'static, ()>;
}

/// The system clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn jitter(&self) -> f64 {
        fastrand::f64()
    }

    fn sleep(&self, delay: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(delay))
    }
}
