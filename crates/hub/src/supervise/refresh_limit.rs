//! Limits how often the tool list of a server is refreshed.

use std::time::{Duration, Instant};

/// The number of refreshes that may follow each other immediately. A server usually announces its changes
/// together.
const BURST: u32 = 10;

/// Limits the refreshes of a tool list, however often the server announces changes: [`BURST`] at once, then
/// one in each interval.
pub(super) struct RefreshLimit {
    interval: Duration,
    /// The time at which the next [`BURST`] refreshes may follow each other immediately again.
    recovered_at: Option<Instant>,
}

impl RefreshLimit {
    pub(super) fn new(interval: Duration) -> RefreshLimit {
        RefreshLimit { interval, recovered_at: None }
    }

    /// Returns the time of the next refresh, which is `now` or later.
    pub(super) fn next(&mut self, now: Instant) -> Instant {
        let recovered_at = self.recovered_at.map_or(now, |at| at.max(now)) + self.interval;
        self.recovered_at = Some(recovered_at);
        recovered_at.checked_sub(self.interval * BURST).map_or(now, |next| next.max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_announces_changes_continuously_is_refreshed_rarely() {
        let interval = Duration::from_secs(5);
        let mut limit = RefreshLimit::new(interval);
        let start = Instant::now();
        let mut now = start;
        // It announces the next change during each refresh.
        let times: Vec<Duration> = (0..100)
            .map(|_| {
                now = limit.next(now);
                now - start
            })
            .collect();
        assert_eq!(times[BURST as usize - 1], Duration::ZERO, "the first changes are read at once");
        assert_eq!(times[BURST as usize], interval);
        assert_eq!(times[99], interval * 90);
        let quiet = now + interval * BURST;
        assert_eq!(limit.next(quiet), quiet, "after a while, a change is read at once again");
    }
}
