//! Whether to ask again, and when: decided here, awaited in `stream`.

use std::time::{Duration, SystemTime};

use serde_json::Value;

/// How often and how soon an endpoint is asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// How many times it is asked again; 0 is never.
    pub most: u32,
    /// Before the second attempt; each later wait is twice the one before.
    pub first_wait: Duration,
    /// No wait grows longer. A provider that asks for a longer one is not asked again.
    pub longest_wait: Duration,
}

impl Default for Retries {
    fn default() -> Retries {
        Retries { most: 3, first_wait: Duration::from_millis(500), longest_wait: Duration::from_secs(60) }
    }
}

/// Why there was no answer. Only failures before the first event of an answer come here: what has begun is not asked
/// for again, since a person has read it and a call in it may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No connection, or one that broke.
    Connection,
    /// The provider said no.
    Status {
        status: u16,
        /// It will say the same again: an empty account, a key that is not known.
        lasting: bool,
        /// How long it asks to wait.
        wait: Option<Duration>,
        /// What it says itself of asking again (`x-should-retry`).
        again: Option<bool>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    AskAfter(Duration),
    GiveUp,
}

/// The attempts of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempts {
    retries: Retries,
    made: u32,
}

impl Attempts {
    pub(crate) fn new(retries: Retries) -> Attempts {
        Attempts { retries, made: 0 }
    }

    /// What to do after a failure. `chance` is a random number from 0 to 1, so that many clients that failed together
    /// do not come back together.
    pub(crate) fn after(&mut self, failure: Failure, chance: f64) -> Next {
        let wanted = match failure {
            Failure::Connection => None,
            Failure::Status { lasting: true, .. } | Failure::Status { again: Some(false), .. } => {
                return Next::GiveUp;
            }
            Failure::Status { status, again, .. } if again.is_none() && !is_passing(status) => {
                return Next::GiveUp;
            }
            Failure::Status { wait, .. } => wait,
        };
        if self.made >= self.retries.most {
            return Next::GiveUp;
        }
        let doubled = self.retries.first_wait.saturating_mul(2u32.saturating_pow(self.made));
        self.made += 1;
        let chance = if chance.is_finite() { chance.clamp(0.0, 1.0) } else { 0.0 };
        match wanted {
            Some(wanted) if wanted > self.retries.longest_wait => Next::GiveUp,
            // Not before the time that was asked for.
            Some(wanted) => Next::AskAfter(wanted + (wanted / 10).mul_f64(chance)),
            None => Next::AskAfter(doubled.min(self.retries.longest_wait).mul_f64(0.5 + chance / 2.0)),
        }
    }
}

/// Whether the same request may find the provider in a better mood.
fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 409 | 429 | 500 | 502 | 503 | 504 | 520..=524 | 529)
}

/// How long a provider asks to wait: `retry-after-ms`, `retry-after` (seconds or a date), or Gemini's `RetryInfo`.
pub(crate) fn asked_wait<'h>(
    header: impl Fn(&str) -> Option<&'h str>,
    body: &Value,
    now: SystemTime,
) -> Option<Duration> {
    let seconds = |text: &str| Duration::try_from_secs_f64(text.trim().parse().ok()?).ok();
    let milliseconds = |text: &str| {
        let number: f64 = text.trim().parse().ok()?;
        Duration::try_from_secs_f64(number / 1000.0).ok()
    };
    let date = |text: &str| {
        let date = httpdate::parse_http_date(text.trim()).ok()?;
        Some(date.duration_since(now).unwrap_or_default())
    };
    let named = || header("retry-after").and_then(|text| seconds(text).or_else(|| date(text)));
    let retry_info = || {
        let details = error_object(body)?.get("details")?.as_array()?;
        let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
        seconds(delay.strip_suffix('s')?)
    };
    header("retry-after-ms").and_then(milliseconds).or_else(named).or_else(retry_info)
}

/// Whether an error never heals by waiting: the account is empty, or the limit is a day's.
pub(crate) fn is_lasting(body: &Value) -> bool {
    const LASTING: [&str; 4] =
        ["insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "account_deactivated"];
    let Some(error) = error_object(body) else { return false };
    let says = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    let is_daily = || {
        let details = error.get("details").and_then(Value::as_array).into_iter().flatten();
        let mut violations = details.filter_map(|detail| detail.get("violations")?.as_array()).flatten();
        violations.any(|violation| {
            violation.get("quotaId").and_then(Value::as_str).is_some_and(|id| id.contains("PerDay"))
        })
    };
    LASTING.contains(&says("code")) || LASTING.contains(&says("type")) || is_daily()
}

/// The object that says what went wrong, wherever the API keeps it; Gemini may wrap the whole in a list.
pub(crate) fn error_object(body: &Value) -> Option<&Value> {
    let body = match body {
        Value::Array(items) => items.first()?,
        other => other,
    };
    match body.get("error") {
        Some(error) if error.is_object() => Some(error),
        _ => body.is_object().then_some(body),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const RETRIES: Retries =
        Retries { most: 3, first_wait: Duration::from_millis(500), longest_wait: Duration::from_secs(60) };

    fn status(status: u16) -> Failure {
        Failure::Status { status, lasting: false, wait: None, again: None }
    }

    fn asking_for(seconds: u64) -> Failure {
        Failure::Status { status: 429, lasting: false, wait: Some(Duration::from_secs(seconds)), again: None }
    }

    /// What is done after each of the failures, in milliseconds to wait.
    #[track_caller]
    fn check(retries: Retries, chance: f64, failures: &[Failure], expected: &[Option<u64>]) {
        let mut attempts = Attempts::new(retries);
        let decided: Vec<Option<u64>> = failures
            .iter()
            .map(|failure| match attempts.after(*failure, chance) {
                Next::AskAfter(wait) => Some(wait.as_millis() as u64),
                Next::GiveUp => None,
            })
            .collect();
        assert_eq!(decided, expected);
    }

    #[test]
    fn waits_double_until_the_attempts_are_used_up() {
        let failures = [Failure::Connection, status(503), status(529), status(500)];
        check(RETRIES, 1.0, &failures, &[Some(500), Some(1000), Some(2000), None]);
        check(RETRIES, 0.0, &failures, &[Some(250), Some(500), Some(1000), None]);
    }

    #[test]
    fn no_wait_grows_longer_than_the_longest() {
        let retries = Retries { most: 40, longest_wait: Duration::from_secs(2), ..RETRIES };
        let expected: Vec<Option<u64>> =
            [500, 1000].into_iter().chain([2000; 38]).map(Some).chain([None]).collect();
        check(retries, 1.0, &[status(500); 41], &expected);
    }

    #[test]
    fn a_wait_that_is_asked_for_is_kept_and_never_cut_short() {
        check(RETRIES, 0.0, &[asking_for(7)], &[Some(7000)]);
        check(RETRIES, 1.0, &[asking_for(7)], &[Some(7700)]);
        check(RETRIES, 0.0, &[asking_for(0)], &[Some(0)]);
        check(RETRIES, 0.0, &[asking_for(61)], &[None]);
    }

    #[test]
    fn what_stays_wrong_is_not_asked_again() {
        for refused in [400, 401, 403, 404, 413, 422, 501] {
            check(RETRIES, 0.5, &[status(refused)], &[None]);
        }
        let empty = Failure::Status { status: 429, lasting: true, wait: None, again: None };
        check(RETRIES, 0.5, &[empty], &[None]);
    }

    #[test]
    fn the_word_of_the_provider_counts() {
        let no = Failure::Status { status: 503, lasting: false, wait: None, again: Some(false) };
        let yes = Failure::Status { status: 400, lasting: false, wait: None, again: Some(true) };
        check(RETRIES, 1.0, &[no], &[None]);
        check(RETRIES, 1.0, &[yes], &[Some(500)]);
    }

    #[test]
    fn never_is_never() {
        check(Retries { most: 0, ..RETRIES }, 1.0, &[Failure::Connection], &[None]);
    }

    #[track_caller]
    fn check_asked(headers: &[(&str, &str)], body: Value, expected: Option<u64>) {
        let now = httpdate::parse_http_date("Mon, 16 Nov 2026 12:00:00 GMT").expect("a date");
        let header = |name: &str| headers.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        assert_eq!(asked_wait(header, &body, now), expected.map(Duration::from_millis));
    }

    #[test]
    fn the_asked_wait_is_read_in_every_form() {
        check_asked(&[("retry-after", "20")], json!(null), Some(20_000));
        check_asked(&[("retry-after", " 1.5 ")], json!(null), Some(1500));
        check_asked(&[("retry-after", "20"), ("retry-after-ms", "120")], json!(null), Some(120));
        check_asked(&[("retry-after", "Mon, 16 Nov 2026 12:00:30 GMT")], json!(null), Some(30_000));
        check_asked(&[("retry-after", "Mon, 16 Nov 2026 11:00:00 GMT")], json!(null), Some(0));
        let retry_info = json!({"error": {"code": 429, "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure"},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"},
        ]}});
        check_asked(&[], retry_info, Some(34_500));
        for nonsense in ["soon", "-1", "NaN", "1e400", ""] {
            check_asked(&[("retry-after", nonsense)], json!(null), None);
        }
        check_asked(&[], json!({"error": "no"}), None);
    }

    #[test]
    fn an_empty_account_and_a_limit_of_a_day_are_lasting() {
        let quota = json!({"error": {"type": "insufficient_quota", "code": "insufficient_quota"}});
        let daily = json!([{"error": {"details": [
            {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},
        ]}}]);
        let limit = json!({"error": {"type": "requests", "code": "rate_limit_exceeded"}});
        let minute = json!({"error": {"details": [{"violations": [{"quotaId": "TokensPerMinute"}]}]}});
        for (body, lasting) in
            [(quota, true), (daily, true), (limit, false), (minute, false), (json!("no"), false)]
        {
            assert_eq!(is_lasting(&body), lasting, "{body}");
        }
    }
}
