//! Counts of requests and tokens in the memory of one process.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use toolwire_contract::keys::{LimitReached, Minute, Reservation};

const MINUTE: Duration = Duration::from_secs(60);

/// The number of counted keys above which past minutes are removed.
const MAX_OWNERS: usize = 10_000;

/// The requests and tokens of the current minute of each key. A minute begins with its first request.
#[derive(Debug, Default)]
pub(crate) struct MinuteCounts(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    windows: HashMap<String, Window>,
    /// The number of minutes so far, which identifies them.
    minutes: u64,
}

#[derive(Debug)]
struct Window {
    start: Instant,
    minute: u64,
    requests: u64,
    tokens: u64,
}

impl MinuteCounts {
    /// Counts a request and its tokens, unless a limit of the minute would be exceeded.
    pub(crate) fn reserve(&self, reservation: &Reservation, now: Instant) -> Result<Minute, LimitReached> {
        let limit = reservation.limit;
        if limit.tokens_per_minute.is_some_and(|limit| reservation.tokens > limit) {
            return Err(LimitReached::TooLarge);
        }
        let mut state = self.lock();
        let is_over = |window: &Window| now.saturating_duration_since(window.start) >= MINUTE;
        if state.windows.len() >= MAX_OWNERS {
            state.windows.retain(|_, window| !is_over(window));
        }
        let next = state.minutes + 1;
        let new = || Window { start: now, minute: next, requests: 0, tokens: 0 };
        let window = state.windows.entry(reservation.owner.clone()).or_insert_with(new);
        if is_over(window) {
            *window = new();
        }
        let left = MINUTE.saturating_sub(now.saturating_duration_since(window.start));
        if limit.requests_per_minute.is_some_and(|limit| window.requests >= limit) {
            return Err(LimitReached::Requests(left));
        }
        let tokens = window.tokens.saturating_add(reservation.tokens);
        if limit.tokens_per_minute.is_some_and(|limit| tokens > limit) {
            return Err(LimitReached::Tokens(left));
        }
        window.requests += 1;
        window.tokens = tokens;
        let minute = window.minute;
        state.minutes = state.minutes.max(minute);
        Ok(Minute(minute))
    }

    /// Removes a request that was counted, because it is refused for another reason.
    pub(crate) fn cancel(&self, reservation: &Reservation, minute: Minute) {
        if let Some(window) = self.lock().windows.get_mut(&reservation.owner)
            && window.minute == minute.0
        {
            window.requests = window.requests.saturating_sub(1);
            window.tokens = window.tokens.saturating_sub(reservation.tokens);
        }
    }

    /// Replaces the reserved tokens, unless the minute is over.
    pub(crate) fn settle(&self, reservation: &Reservation, minute: Minute, used: u64) {
        if let Some(window) = self.lock().windows.get_mut(&reservation.owner)
            && window.minute == minute.0
        {
            window.tokens = window.tokens.saturating_sub(reservation.tokens).saturating_add(used);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use toolwire_contract::keys::UsageLimits;

    use super::*;

    fn reservation(owner: &str, tokens: u64) -> Reservation {
        let limit = UsageLimits {
            requests_per_minute: Some(3),
            tokens_per_minute: Some(100),
            tokens_per_month: None,
        };
        let (id, month) = (String::new(), String::new());
        Reservation { owner: owner.to_owned(), id, tokens, limit, month, lifetime: MINUTE }
    }

    #[test]
    fn a_minute_begins_with_its_first_request() {
        let counts = MinuteCounts::default();
        let start = Instant::now();
        let take = |owner: &str, tokens, seconds| {
            counts.reserve(&reservation(owner, tokens), start + Duration::from_secs(seconds))
        };
        let first = take("a", 10, 0).expect("a free minute");
        assert_eq!(take("a", 10, 20), Ok(first));
        assert_eq!(take("a", 81, 30), Err(LimitReached::Tokens(Duration::from_secs(30))));
        assert_eq!(take("a", 101, 30), Err(LimitReached::TooLarge));
        assert_eq!(take("a", 80, 40), Ok(first));
        assert_eq!(take("a", 0, 59), Err(LimitReached::Requests(Duration::from_secs(1))));
        let other = take("b", 100, 59).expect("another key");
        assert_ne!(other, first);
        let second = take("a", 90, 60).expect("a new minute");
        assert_ne!(second, first);
        // The first minute is over, so its tokens do not count for the second one.
        counts.settle(&reservation("a", 10), first, 1_000);
        assert_eq!(take("a", 10, 61), Ok(second));
        counts.settle(&reservation("a", 90), second, 5);
        counts.cancel(&reservation("a", 10), second);
        assert_eq!(take("a", 95, 62), Ok(second));
    }

    #[test]
    fn the_memory_is_bounded() {
        let counts = MinuteCounts::default();
        let start = Instant::now();
        for number in 0..3 * MAX_OWNERS {
            let at = start + MINUTE * u32::try_from(number / MAX_OWNERS).expect("a small number");
            counts.reserve(&reservation(&number.to_string(), 1), at).expect("a free minute");
        }
        assert!(counts.lock().windows.len() <= MAX_OWNERS + 1);
    }
}
