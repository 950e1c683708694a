//! When to try again: the pure part of supervision.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The first pause; each further one is twice as long.
const FIRST: Duration = Duration::from_secs(1);
/// The longest pause while there is hope.
const LONGEST: Duration = Duration::from_secs(60);
/// A server that died this often within [`WINDOW`] is left alone for a while.
const MOST_DEATHS: usize = 5;
const WINDOW: Duration = Duration::from_secs(120);
/// How long a server that keeps dying is left alone before one more try.
const REST: Duration = Duration::from_secs(300);
/// A server that lived this long has recovered.
const RECOVERED: Duration = Duration::from_secs(60);

/// How one server's failures are taken.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Failures in a row.
    failures: u32,
    deaths: VecDeque<Instant>,
    since: Option<Instant>,
}

/// What to do after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Try again after a pause.
    Retry { after: Duration },
    /// It keeps failing: leave it alone for this long.
    Rest { after: Duration },
    /// Trying again is of no use.
    GiveUp,
}

impl Pace {
    pub(crate) fn connected(&mut self, now: Instant) {
        self.since = Some(now);
    }

    /// Somebody changed something, or asks for it: as if nothing had happened.
    pub(crate) fn forgive(&mut self) {
        *self = Pace::default();
    }

    /// `luck` is between 0 and 1, so that servers that died together do not come back together.
    pub(crate) fn failed(&mut self, now: Instant, permanent: bool, luck: f64) -> Next {
        if permanent {
            return Next::GiveUp;
        }
        if self.since.take().is_some_and(|since| now.duration_since(since) >= RECOVERED) {
            self.failures = 0;
        }
        self.failures += 1;
        self.deaths.push_back(now);
        while self.deaths.front().is_some_and(|death| now.duration_since(*death) > WINDOW) {
            self.deaths.pop_front();
        }
        if self.deaths.len() > MOST_DEATHS {
            self.deaths.clear();
            return Next::Rest { after: REST };
        }
        let doubled = FIRST.saturating_mul(1 << (self.failures - 1).min(10)).min(LONGEST);
        // Half of the pause is certain, the other half is luck.
        Next::Retry { after: doubled.mul_f64(0.5 + 0.5 * luck.clamp(0.0, 1.0)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_minute_and_then_the_server_rests() {
        let mut pace = Pace::default();
        let mut now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..6 {
            match pace.failed(now, false, 1.0) {
                Next::Retry { after } => {
                    pauses.push(after.as_secs());
                    now += after;
                }
                next => {
                    assert_eq!(next, Next::Rest { after: REST });
                    pauses.push(0);
                }
            }
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 0]);
    }

    #[test]
    fn a_server_that_lived_begins_anew() {
        let mut pace = Pace::default();
        let now = Instant::now();
        for _ in 0..3 {
            pace.failed(now, false, 1.0);
        }
        pace.connected(now);
        assert_eq!(pace.failed(now + RECOVERED * 3, false, 1.0), Next::Retry { after: FIRST });
    }

    #[test]
    fn what_cannot_work_is_not_tried_again() {
        assert_eq!(Pace::default().failed(Instant::now(), true, 0.5), Next::GiveUp);
    }
}
