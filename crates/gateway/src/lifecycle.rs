//! Whether the gateway is starting, ready, or stopping, and the reasons why it is not ready.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::Instant;
use toolwire_contract::toolbox::Toolbox;

/// The time for which the result of the checks is reused. Any client may request it, so not every request
/// must cause new checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// Something that the gateway needs, such as a store.
pub trait ReadinessCheck: Send + Sync {
    /// Returns a name such as `store`.
    fn name(&self) -> &'static str;

    /// Returns the reason why it cannot be used now.
    fn check(&self) -> BoxFuture<'_, Result<(), String>>;
}

/// The checks that must succeed before the gateway is ready. Cheap to clone.
#[derive(Clone, Default)]
pub struct ReadinessChecks(Arc<Checks>);

#[derive(Default)]
struct Checks {
    checks: Vec<Arc<dyn ReadinessCheck>>,
    last: tokio::sync::Mutex<Option<(Instant, Vec<Reason>)>>,
}

/// A part that does not work.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reason {
    part: &'static str,
    reason: String,
}

impl ReadinessChecks {
    pub fn new(checks: Vec<Arc<dyn ReadinessCheck>>) -> ReadinessChecks {
        ReadinessChecks(Arc::new(Checks { checks, last: tokio::sync::Mutex::default() }))
    }

    async fn failed(&self) -> Vec<Reason> {
        if self.0.checks.is_empty() {
            return Vec::new();
        }
        // Others wait for a running check, so that many requests cause only one.
        let mut last = self.0.last.lock().await;
        if let Some((at, failed)) = &*last
            && at.elapsed() < CHECK_INTERVAL
        {
            return failed.clone();
        }
        let checks = self.0.checks.iter().map(|check| async move {
            let result = tokio::time::timeout(CHECK_TIMEOUT, check.check()).await;
            let result = result.unwrap_or_else(|_| Err(format!("no response within {CHECK_TIMEOUT:?}")));
            result.err().map(|reason| Reason { part: check.name(), reason })
        });
        let failed: Vec<Reason> = join_all(checks).await.into_iter().flatten().collect();
        *last = Some((Instant::now(), failed.clone()));
        failed
    }
}

impl fmt::Debug for ReadinessChecks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.0.checks.iter().map(|check| check.name())).finish()
    }
}

/// The phase of a gateway. All configurations of the gateway share it.
#[derive(Default)]
pub(crate) struct Lifecycle {
    phase: AtomicU8,
    /// The reason why the latest configuration is not used.
    invalid_configuration: Mutex<Option<String>>,
}

const SERVING: u8 = 0;
const DRAINING: u8 = 1;
const REFUSING: u8 = 2;

impl Lifecycle {
    /// Reports in `/readyz` that the gateway is stopping, so that load balancers send no more requests.
    pub(crate) fn drain(&self) {
        self.phase.fetch_max(DRAINING, Ordering::SeqCst);
    }

    /// Refuses new requests.
    pub(crate) fn refuse(&self) {
        self.phase.fetch_max(REFUSING, Ordering::SeqCst);
    }

    pub(crate) fn refuses(&self) -> bool {
        self.phase.load(Ordering::SeqCst) == REFUSING
    }

    pub(crate) fn set_invalid_configuration(&self, reason: Option<String>) {
        *self.invalid_configuration.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }

    /// Returns the status and the body of `/readyz`. Names and reasons are included only if
    /// `may_see_reasons` is set.
    pub(crate) async fn readiness(
        &self,
        tools: &dyn Toolbox,
        checks: &ReadinessChecks,
        may_see_reasons: bool,
    ) -> (StatusCode, Value) {
        let missing = tools.missing_servers();
        let failed = checks.failed().await;
        let status = if self.phase.load(Ordering::SeqCst) != SERVING {
            "draining"
        } else if !failed.is_empty() {
            "unavailable"
        } else if missing.iter().any(|server| server.is_starting) {
            "starting"
        } else {
            // Even if a server failed, because the gateway serves the others.
            "ready"
        };
        let mut body = json!({"status": status, "unavailableServers": missing.len()});
        if may_see_reasons {
            let invalid = self.invalid_configuration.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let parts = failed.iter().map(|failed| (failed.part, &failed.reason));
            let parts = parts.chain(invalid.as_ref().map(|reason| ("configuration", reason)));
            let mut reasons: Vec<Value> =
                parts.map(|(part, reason)| json!({"part": part, "reason": reason})).collect();
            if status == "draining" {
                reasons.push(json!({"part": "gateway", "reason": "it is stopping"}));
            }
            reasons.extend(missing.iter().map(|server| {
                json!({
                    "part": "server",
                    "name": server.server,
                    "reason": server.reason,
                    "isStarting": server.is_starting,
                })
            }));
            body["reasons"] = Value::Array(reasons);
        }
        (if status == "ready" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, body)
    }
}
