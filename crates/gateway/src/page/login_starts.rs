//! Limits the number of logins that each user starts.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The maximum number of logins that one user starts in one period. A login is stored until it is completed
/// or expires, and starting it sends requests to the authorization server.
pub(super) const MAX_STARTS: u32 = 20;

/// The period in which logins are counted, which is also the time to complete one.
const PERIOD: Duration = Duration::from_secs(10 * 60);

/// The maximum number of users that are counted. Above it, periods that have ended are removed.
const MAX_USERS: usize = 10_000;

/// The logins of each user: the start of the period, and their number.
#[derive(Default)]
pub(super) struct LoginStarts(Mutex<HashMap<String, (Instant, u32)>>);

impl LoginStarts {
    /// Counts a login. Returns false if the user has started too many.
    pub(super) fn record(&self, user: &str, now: Instant) -> bool {
        let mut starts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |start: Instant| now.saturating_duration_since(start) >= PERIOD;
        if starts.len() >= MAX_USERS {
            starts.retain(|_, (start, _)| !is_over(*start));
        }
        if starts.len() >= MAX_USERS {
            // Limits the memory if very many users are active at once.
            starts.clear();
        }
        let (start, count) = starts.entry(user.to_owned()).or_insert((now, 0));
        if is_over(*start) {
            (*start, *count) = (now, 0);
        }
        *count = count.saturating_add(1);
        *count <= MAX_STARTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_starts_a_limited_number_of_logins() {
        let (starts, start) = (LoginStarts::default(), Instant::now());
        assert!((0..MAX_STARTS).all(|_| starts.record("key_a", start)));
        assert!(!starts.record("key_a", start + PERIOD / 2));
        assert!(starts.record("key_b", start), "another user has its own number");
        assert!(starts.record("key_a", start + PERIOD), "a new period begins");
        for number in 0..2 * MAX_USERS {
            starts.record(&number.to_string(), start);
        }
        assert!(starts.0.lock().expect("the counts").len() <= MAX_USERS);
    }
}
