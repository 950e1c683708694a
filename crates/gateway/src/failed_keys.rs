//! Limits the number of requests with a wrong key.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use toolwire_dialect::client::ErrorKind;

use crate::admission::client_network;
use crate::response::Failure;

/// The number of wrong keys in one period after which further wrong keys get status 429 until the period
/// ends.
const MAX_FAILURES: u32 = 20;
const PERIOD: Duration = Duration::from_secs(60);

/// The maximum number of clients that are counted. Above it, periods that have ended are removed.
const MAX_CLIENTS: usize = 10_000;

/// The wrong keys of each client: the start of the period, and their number.
#[derive(Default)]
pub(crate) struct FailedKeys(Mutex<HashMap<IpAddr, (Instant, u32)>>);

impl FailedKeys {
    /// Counts a wrong key, and returns an error if the client sent too many. Valid keys are never rejected,
    /// because many clients may share one address, and a key is too long to be guessed. Loopback addresses
    /// are not counted, because a proxy on this machine may serve many clients.
    pub(crate) fn record(&self, client: IpAddr, now: Instant) -> Option<Failure> {
        if client.to_canonical().is_loopback() {
            return None;
        }
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |start: Instant| now.saturating_duration_since(start) >= PERIOD;
        if failures.len() >= MAX_CLIENTS {
            failures.retain(|_, (start, _)| !is_over(*start));
        }
        if failures.len() >= MAX_CLIENTS {
            // Limits the memory if very many clients are active at once.
            failures.clear();
        }
        let (start, count) = failures.entry(client_network(client)).or_insert((now, 0));
        if is_over(*start) {
            (*start, *count) = (now, 0);
        }
        *count = count.saturating_add(1);
        (*count > MAX_FAILURES).then(|| {
            let mut failure = Failure::new(ErrorKind::RateLimited, "too many requests with a wrong key");
            failure.error.retry_after = Some(PERIOD.saturating_sub(now.saturating_duration_since(*start)));
            failure
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_wrong_keys_are_refused_until_the_end_of_the_period() {
        let failed = FailedKeys::default();
        let (client, other): (IpAddr, IpAddr) = ([192, 0, 2, 7].into(), [192, 0, 2, 8].into());
        let start = Instant::now();
        for _ in 0..MAX_FAILURES {
            assert!(failed.record(client, start).is_none());
        }
        let refused = failed.record(client, start + PERIOD / 2).expect("too many wrong keys");
        assert_eq!(refused.error.retry_after, Some(PERIOD / 2));
        assert!(failed.record(other, start).is_none(), "another client is not affected");
        assert!(failed.record(client, start + PERIOD).is_none(), "a new period begins");
    }

    #[test]
    fn the_memory_is_bounded() {
        let failed = FailedKeys::default();
        let start = Instant::now();
        for number in 0..3 * u32::try_from(MAX_CLIENTS).expect("a small number") {
            failed.record(IpAddr::from(number.to_be_bytes()), start);
        }
        assert!(failed.0.lock().expect("the counts").len() <= MAX_CLIENTS);
        failed.record([127, 0, 0, 1].into(), start);
        assert!(!failed.0.lock().expect("the counts").contains_key(&IpAddr::from([127, 0, 0, 1])));
    }
}
