//! Decides whether and when to retry a request. The waiting happens in `stream`.

use std::time::{Duration, SystemTime};

use serde_json::Value;

/// The maximum number of retries and the delays before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetryPolicy {
    pub(crate) max_retries: u32,
    /// The delay before the first retry; it doubles with each further retry.
    pub(crate) initial_delay: Duration,
    /// The upper limit of the delay. If the provider requests a longer one, the request is not retried.
    pub(crate) max_delay: Duration,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            max_retries: 3,
            initial_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(60),
        }
    }
}

/// The reason that an attempt failed. Only failures before the first event of a response are considered: once
/// a response has begun, it is not requested again, since the user may have read it and its calls may be
/// running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptFailure {
    /// There was no connection, so that nothing was sent.
    Connection,
    /// The connection was interrupted before the response. The provider may have processed the request.
    Interrupted,
    /// The provider returned an error.
    Status {
        status: u16,
        /// A retry would fail the same way, for example because the account has no credit.
        permanent: bool,
        /// The delay that the provider requests.
        retry_after: Option<Duration>,
        /// The provider's `x-should-retry` header.
        should_retry: Option<bool>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryDecision {
    RetryAfter(Duration),
    GiveUp,
}

/// The attempts of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempts {
    policy: RetryPolicy,
    retries: u32,
}

impl Attempts {
    pub(crate) fn new(policy: RetryPolicy) -> Attempts {
        Attempts { policy, retries: 0 }
    }

    /// Returns the number of retries so far, and the maximum.
    pub(crate) fn count(&self) -> (u32, u32) {
        (self.retries, self.policy.max_retries)
    }

    /// Decides what to do after a failure. `jitter` is a random number from 0 to 1. It spreads the retries of
    /// clients that failed at the same time.
    pub(crate) fn after_failure(&mut self, failure: AttemptFailure, jitter: f64) -> RetryDecision {
        let requested = match failure {
            AttemptFailure::Connection | AttemptFailure::Interrupted => None,
            AttemptFailure::Status { permanent: true, .. }
            | AttemptFailure::Status { should_retry: Some(false), .. } => {
                return RetryDecision::GiveUp;
            }
            AttemptFailure::Status { status, should_retry, .. }
                if should_retry.is_none() && !is_transient_status(status) =>
            {
                return RetryDecision::GiveUp;
            }
            AttemptFailure::Status { retry_after, .. } => retry_after,
        };
        if self.retries >= self.policy.max_retries {
            return RetryDecision::GiveUp;
        }
        let backoff = self.policy.initial_delay.saturating_mul(2u32.saturating_pow(self.retries));
        self.retries += 1;
        let jitter = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 0.0 };
        match requested {
            Some(requested) if requested > self.policy.max_delay => RetryDecision::GiveUp,
            // Never shorter than requested.
            Some(requested) => RetryDecision::RetryAfter(requested + (requested / 10).mul_f64(jitter)),
            None => RetryDecision::RetryAfter(backoff.min(self.policy.max_delay).mul_f64(0.5 + jitter / 2.0)),
        }
    }
}

/// Whether the same request may succeed later.
fn is_transient_status(status: u16) -> bool {
    matches!(status, 408 | 409 | 429 | 500 | 502 | 503 | 504 | 520..=524 | 529)
}

/// Returns the delay that a provider requests: `retry-after-ms`, `retry-after` (seconds or a date), or
/// Gemini's `RetryInfo`.
pub(crate) fn retry_after<'h>(
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
    let standard = || header("retry-after").and_then(|text| seconds(text).or_else(|| date(text)));
    let retry_info = || {
        let details = error_object(body)?.get("details")?.as_array()?;
        let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
        seconds(delay.strip_suffix('s')?)
    };
    header("retry-after-ms").and_then(milliseconds).or_else(standard).or_else(retry_info)
}

/// Whether a retry cannot succeed: the account has no credit, or a daily limit is reached.
pub(crate) fn is_permanent(body: &Value) -> bool {
    const PERMANENT_CODES: [&str; 4] =
        ["insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "account_deactivated"];
    let Some(error) = error_object(body) else { return false };
    let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    let is_daily = || {
        let details = error.get("details").and_then(Value::as_array).into_iter().flatten();
        let mut violations = details.filter_map(|detail| detail.get("violations")?.as_array()).flatten();
        violations.any(|violation| {
            violation.get("quotaId").and_then(Value::as_str).is_some_and(|id| id.contains("PerDay"))
        })
    };
    PERMANENT_CODES.contains(&text("code")) || PERMANENT_CODES.contains(&text("type")) || is_daily()
}

/// Returns the object that describes the error: the `error` field, or the body itself. Gemini may wrap the
/// body in an array.
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

    const POLICY: RetryPolicy = RetryPolicy {
        max_retries: 3,
        initial_delay: Duration::from_millis(500),
        max_delay: Duration::from_secs(60),
    };

    fn status(status: u16) -> AttemptFailure {
        AttemptFailure::Status { status, permanent: false, retry_after: None, should_retry: None }
    }

    fn requesting_delay(seconds: u64) -> AttemptFailure {
        AttemptFailure::Status {
            status: 429,
            permanent: false,
            retry_after: Some(Duration::from_secs(seconds)),
            should_retry: None,
        }
    }

    /// Checks the delay in milliseconds after each failure; `None` means giving up.
    #[track_caller]
    fn check(policy: RetryPolicy, jitter: f64, failures: &[AttemptFailure], expected: &[Option<u64>]) {
        let mut attempts = Attempts::new(policy);
        let decisions: Vec<Option<u64>> = failures
            .iter()
            .map(|failure| match attempts.after_failure(*failure, jitter) {
                RetryDecision::RetryAfter(delay) => Some(delay.as_millis() as u64),
                RetryDecision::GiveUp => None,
            })
            .collect();
        assert_eq!(decisions, expected);
    }

    #[test]
    fn delays_double_until_the_last_retry() {
        let failures = [AttemptFailure::Connection, status(503), status(529), status(500)];
        check(POLICY, 1.0, &failures, &[Some(500), Some(1000), Some(2000), None]);
        check(POLICY, 0.0, &failures, &[Some(250), Some(500), Some(1000), None]);
    }

    #[test]
    fn delays_do_not_exceed_the_maximum() {
        let policy = RetryPolicy { max_retries: 40, max_delay: Duration::from_secs(2), ..POLICY };
        let expected: Vec<Option<u64>> =
            [500, 1000].into_iter().chain([2000; 38]).map(Some).chain([None]).collect();
        check(policy, 1.0, &[status(500); 41], &expected);
    }

    #[test]
    fn a_requested_delay_is_never_shortened() {
        check(POLICY, 0.0, &[requesting_delay(7)], &[Some(7000)]);
        check(POLICY, 1.0, &[requesting_delay(7)], &[Some(7700)]);
        check(POLICY, 0.0, &[requesting_delay(0)], &[Some(0)]);
        check(POLICY, 0.0, &[requesting_delay(61)], &[None]);
    }

    #[test]
    fn permanent_errors_are_not_retried() {
        for code in [400, 401, 403, 404, 413, 422, 501] {
            check(POLICY, 0.5, &[status(code)], &[None]);
        }
        let no_credit =
            AttemptFailure::Status { status: 429, permanent: true, retry_after: None, should_retry: None };
        check(POLICY, 0.5, &[no_credit], &[None]);
    }

    #[test]
    fn should_retry_overrides_the_status() {
        let not_retryable = AttemptFailure::Status {
            status: 503,
            permanent: false,
            retry_after: None,
            should_retry: Some(false),
        };
        let retryable = AttemptFailure::Status {
            status: 400,
            permanent: false,
            retry_after: None,
            should_retry: Some(true),
        };
        check(POLICY, 1.0, &[not_retryable], &[None]);
        check(POLICY, 1.0, &[retryable], &[Some(500)]);
    }

    #[test]
    fn zero_retries_means_no_retry() {
        check(RetryPolicy { max_retries: 0, ..POLICY }, 1.0, &[AttemptFailure::Connection], &[None]);
    }

    #[track_caller]
    fn check_retry_after(headers: &[(&str, &str)], body: Value, expected: Option<u64>) {
        let now = httpdate::parse_http_date("Mon, 16 Nov 2026 12:00:00 GMT").expect("a date");
        let header = |name: &str| headers.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        assert_eq!(retry_after(header, &body, now), expected.map(Duration::from_millis));
    }

    #[test]
    fn retry_after_is_read_in_every_form() {
        check_retry_after(&[("retry-after", "20")], json!(null), Some(20_000));
        check_retry_after(&[("retry-after", " 1.5 ")], json!(null), Some(1500));
        check_retry_after(&[("retry-after", "20"), ("retry-after-ms", "120")], json!(null), Some(120));
        check_retry_after(&[("retry-after", "Mon, 16 Nov 2026 12:00:30 GMT")], json!(null), Some(30_000));
        check_retry_after(&[("retry-after", "Mon, 16 Nov 2026 11:00:00 GMT")], json!(null), Some(0));
        let retry_info = json!({"error": {"code": 429, "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure"},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"},
        ]}});
        check_retry_after(&[], retry_info, Some(34_500));
        for invalid in ["soon", "-1", "NaN", "1e400", ""] {
            check_retry_after(&[("retry-after", invalid)], json!(null), None);
        }
        check_retry_after(&[], json!({"error": "no"}), None);
    }

    #[test]
    fn an_account_without_credit_and_a_daily_limit_are_permanent() {
        let quota = json!({"error": {"type": "insufficient_quota", "code": "insufficient_quota"}});
        let daily = json!([{"error": {"details": [
            {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},
        ]}}]);
        let limit = json!({"error": {"type": "requests", "code": "rate_limit_exceeded"}});
        let minute = json!({"error": {"details": [{"violations": [{"quotaId": "TokensPerMinute"}]}]}});
        for (body, permanent) in
            [(quota, true), (daily, true), (limit, false), (minute, false), (json!("no"), false)]
        {
            assert_eq!(is_permanent(&body), permanent, "{body}");
        }
    }
}
