//! Counts the requests and tokens of keys that have limits.
//!
//! Before a request, its tokens are estimated and reserved. At its end, the provider's count replaces the
//! estimate. If a response does not contain its usage, the estimate counts.

mod estimate;
mod reported;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use tokio_util::task::TaskTracker;
use toolwire_agent::AgentEvent;
use toolwire_contract::keys::{LimitReached, Minute, Reservation, UsageCounter};
use toolwire_contract::model::Usage;
use toolwire_dialect::client::ErrorKind;

use crate::keys::Keys;
use crate::principal::{Principal, now};
use crate::response::{Failure, HttpResponse, ResponseBody};
pub(crate) use estimate::Estimate;
use reported::Reported;

/// The time for which a reservation is kept after the maximum duration of its request.
const RESERVATION_MARGIN: Duration = Duration::from_secs(60);

/// Counts the requests of all keys.
#[derive(Default)]
pub(crate) struct Meters {
    /// The tasks that store the usage of requests that have ended.
    tasks: TaskTracker,
}

/// Counts one request. Its usage is stored when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct Meter(Arc<Measured>);

struct Measured {
    usage: Arc<dyn UsageCounter>,
    reservation: Reservation,
    minute: Minute,
    estimate: Estimate,
    state: Mutex<State>,
    tasks: TaskTracker,
}

#[derive(Default)]
struct State {
    /// The tokens so far, as the provider has counted them.
    tokens: Option<u64>,
    /// Whether a run reports its usage itself.
    is_run: bool,
    /// Whether the request failed before the provider got it.
    has_failed: bool,
    /// The number of events of a stream that does not contain its usage.
    events: u64,
}

impl Meters {
    /// Counts a request against the limits of its key. Returns `None` if it has none.
    pub(crate) async fn begin(
        &self,
        keys: &Keys,
        principal: &Principal,
        request_id: &str,
        run_timeout: Duration,
        estimate: impl FnOnce() -> Estimate,
    ) -> Result<Option<Meter>, Failure> {
        let Some((rights, id)) = principal.rights().zip(principal.key_id()) else { return Ok(None) };
        let limit = rights.limit();
        if limit.is_none() {
            return Ok(None);
        }
        let usage = keys.usage().ok_or_else(|| {
            Failure::new(ErrorKind::Internal, "this gateway cannot count the usage of keys")
        })?;
        let estimate = if limit.counts_tokens() { estimate() } else { Estimate::default() };
        let reservation = Reservation {
            owner: id.to_owned(),
            id: request_id.to_owned(),
            tokens: estimate.total(),
            limit,
            month: now().month(),
            lifetime: run_timeout + RESERVATION_MARGIN,
        };
        let minute = match usage.reserve(&reservation).await {
            Ok(Ok(minute)) => minute,
            Ok(Err(reached)) => return Err(refused(reached, &reservation)),
            Err(error) => {
                tracing::warn!(%error, "the usage of a key cannot be counted");
                let message = "the usage of this key cannot be counted at the moment; try again later";
                return Err(Failure::new(ErrorKind::Overloaded, message));
            }
        };
        let (usage, tasks) = (usage.clone(), self.tasks.clone());
        let state = Mutex::default();
        Ok(Some(Meter(Arc::new(Measured { usage, reservation, minute, estimate, state, tasks }))))
    }

    /// Waits until the usage of all requests is stored.
    pub(crate) async fn close(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Creates the error for a request that exceeds a limit.
fn refused(reached: LimitReached, reservation: &Reservation) -> Failure {
    let limit = reservation.limit;
    let number = |limit: Option<u64>| limit.unwrap_or_default();
    let (kind, message, retry_after) = match reached {
        LimitReached::Requests(left) => {
            let message =
                format!("this key may make {} requests per minute", number(limit.requests_per_minute));
            (ErrorKind::RateLimited, message, Some(left))
        }
        LimitReached::Tokens(left) => {
            let message = format!(
                "this key may use {} tokens per minute; this request needs about {}",
                number(limit.tokens_per_minute),
                reservation.tokens
            );
            (ErrorKind::RateLimited, message, Some(left))
        }
        LimitReached::TooLarge => {
            let message = format!(
                "the request needs about {} tokens, and this key may use {} per minute: send less text, or set a \
                 smaller output limit",
                reservation.tokens,
                number(limit.tokens_per_minute)
            );
            (ErrorKind::RateLimited, message, None)
        }
        LimitReached::Budget => {
            let now = now();
            let left = Duration::from_millis(now.next_month().0.saturating_sub(now.0));
            let message = format!(
                "this key has used its budget of {} tokens for {}",
                number(limit.tokens_per_month),
                reservation.month
            );
            (ErrorKind::QuotaExceeded, message, Some(left))
        }
    };
    let mut failure = Failure::new(kind, message).with_status(http::StatusCode::TOO_MANY_REQUESTS);
    failure.error.retry_after = retry_after;
    if !matches!(reached, LimitReached::Requests(_) | LimitReached::Tokens(_)) {
        failure.should_retry = Some(false);
    }
    failure
}

impl Meter {
    /// Records that a run reports the usage, so that the response need not be read for it.
    pub(crate) fn begin_run(&self) {
        self.lock().is_run = true;
    }

    /// Records the complete usage so far.
    pub(crate) fn record(&self, usage: &Usage) {
        self.lock().tokens = Some(usage.input_tokens.saturating_add(usage.output_tokens));
    }

    /// Reads the usage of a response, unless a run reports it.
    pub(crate) fn measure(self, response: Result<HttpResponse, Failure>) -> Result<HttpResponse, Failure> {
        let response = match response {
            Ok(response) => response,
            Err(failure) => {
                self.lock().has_failed = true;
                return Err(failure);
            }
        };
        if !response.status().is_success() {
            self.lock().has_failed = true;
            return Ok(response);
        }
        let is_run = self.lock().is_run;
        Ok(response.map(|body| match body {
            ResponseBody::Stream(stream) if !is_run => {
                let mut reported = Reported::default();
                ResponseBody::stream(stream.inspect(move |part| {
                    if let Ok(bytes) = part {
                        reported.read(bytes);
                        self.update(&reported);
                    }
                }))
            }
            stream @ ResponseBody::Stream(_) => stream.holding(self),
            whole => {
                if let (ResponseBody::Whole(bytes) | ResponseBody::Confirmed(bytes, _), false) =
                    (&whole, is_run)
                {
                    self.read_whole(bytes);
                }
                whole
            }
        }))
    }

    fn read_whole(&self, body: &Bytes) {
        if let Some(usage) = reported::usage_of(body) {
            self.lock().tokens = Some(usage);
        }
    }

    fn update(&self, reported: &Reported) {
        let mut state = self.lock();
        state.tokens = reported.tokens();
        state.events = reported.events();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts the usage of a run that continues a conversation.
pub(crate) struct RunMeter {
    meter: Meter,
    /// The usage of the conversation before the run.
    earlier: Usage,
}

impl RunMeter {
    pub(crate) fn new(meter: Meter, earlier: Usage) -> RunMeter {
        meter.begin_run();
        RunMeter { meter, earlier }
    }

    pub(crate) fn observe(&self, event: &AgentEvent) {
        if let AgentEvent::Usage { total, .. } = event {
            self.meter.record(&total.since(&self.earlier));
        }
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let used = match state {
            State { tokens: Some(tokens), .. } => *tokens,
            State { has_failed: true, .. } => 0,
            // An event has about one token.
            State { events: 1.., .. } => self.estimate.input.saturating_add(state.events),
            _ => self.estimate.total(),
        };
        let (usage, reservation, minute) = (self.usage.clone(), self.reservation.clone(), self.minute);
        // There is no runtime if the process is ending. Then, the reservation expires.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let settle = async move {
            if let Err(error) = usage.settle(&reservation, minute, used).await {
                tracing::warn!(%error, key = reservation.owner, tokens = used, "the usage of a request was not stored");
            }
        };
        self.tasks.spawn_on(settle, &runtime);
    }
}
