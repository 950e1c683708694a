//! Limits how often the tool list of a server is refreshed.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The number of refreshes that may follow each other immediately. A server usually announces its changes together.
const BURST: u32 = 10;

/// Limits the refreshes of a tool list, however often the server announces changes: on average one in each interval.
pub(super) struct RefreshLimit {
    interval: Duration,
    /// The times of the last refreshes, the oldest first.
    recent: VecDeque<Instant>,
}

impl RefreshLimit {
    pub(super) fn new(interval: Duration) -> RefreshLimit {
        RefreshLimit { interval, recent: VecDeque::new() }
    }

    /// Returns the time of the next refresh, which is `now` or later.
    pub(super) fn next(&mut self, now: Instant) -> Instant {
        let is_full = self.recent.len() >= BURST as usize;
        let oldest = if is_full { self.recent.pop_front() } else { None };
        let next = oldest.map_or(now, |oldest| now.max(oldest + self.interval * BURST));
        self.recent.push_back(next);
        next
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
        assert_eq!(times[BURST as usize], interval * BURST);
        assert_eq!(times[99], interval * BURST * 9);
        let quiet = now + interval * BURST;
        assert_eq!(limit.next(quiet), quiet, "after a while, a change is read at once again");
    }
}
