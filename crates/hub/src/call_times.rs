//! The durations of the calls of a server.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use crate::sync::lock;

/// The number of calls that the percentiles are computed from.
const RECENT_CALLS: usize = 500;

/// The calls that a server has responded to, and how long they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallStatistics {
    /// The number of calls with a response.
    pub completed: u64,
    /// The number of calls without a response.
    pub failed: u64,
    /// The median of the last calls with a response.
    pub p50: Option<Duration>,
    /// The time that 99 % of these calls did not exceed.
    pub p99: Option<Duration>,
}

#[derive(Default)]
pub(crate) struct CallTimes(Mutex<Times>);

#[derive(Default)]
struct Times {
    completed: u64,
    failed: u64,
    recent: VecDeque<Duration>,
}

impl CallTimes {
    pub(crate) fn record_response(&self, duration: Duration) {
        let mut times = lock(&self.0);
        times.completed += 1;
        if times.recent.len() == RECENT_CALLS {
            times.recent.pop_front();
        }
        times.recent.push_back(duration);
    }

    pub(crate) fn record_failure(&self) {
        lock(&self.0).failed += 1;
    }

    pub(crate) fn statistics(&self) -> CallStatistics {
        let times = lock(&self.0);
        let mut recent: Vec<Duration> = times.recent.iter().copied().collect();
        let (completed, failed) = (times.completed, times.failed);
        drop(times);
        recent.sort_unstable();
        // The smallest time that is not exceeded by this percentage of calls.
        let percentile = |percent: usize| {
            let rank = (recent.len() * percent).div_ceil(100);
            recent.get(rank.saturating_sub(1)).copied()
        };
        CallStatistics { completed, failed, p50: percentile(50), p99: percentile(99) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_last_calls() {
        let times = CallTimes::default();
        assert_eq!(times.statistics(), CallStatistics::default());
        times.record_failure();
        times.record_response(Duration::from_secs(9));
        let one = Some(Duration::from_secs(9));
        assert_eq!(times.statistics(), CallStatistics { completed: 1, failed: 1, p50: one, p99: one });
        for milliseconds in (1..=RECENT_CALLS as u64).rev() {
            times.record_response(Duration::from_millis(milliseconds));
        }
        let expected = CallStatistics {
            completed: RECENT_CALLS as u64 + 1,
            failed: 1,
            p50: Some(Duration::from_millis(250)),
            p99: Some(Duration::from_millis(495)),
        };
        assert_eq!(times.statistics(), expected);
    }
}
