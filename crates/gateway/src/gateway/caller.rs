//! The client of a request.

use http::HeaderMap;
use tokio::time::{Duration, Instant};

use super::hold::Hold;
use crate::meter::Meter;
use crate::principal::Principal;
use crate::spans::OpenSpan;
use crate::traffic::RequestRecorder;

/// The client of a request, and the deadlines of the request.
pub(crate) struct Caller {
    pub(crate) principal: Principal,
    pub(crate) request_id: String,
    /// The end of the gateway's `runTimeout` for the request.
    pub(crate) deadline: Instant,
    /// The end of the client's timeout, if the request states one.
    pub(crate) client_deadline: Option<Instant>,
    /// Counts the request, if its key has limits.
    pub(crate) meter: Option<Meter>,
    /// The record of the request, if it is for a model.
    pub(crate) recorder: Option<RequestRecorder>,
    /// The span of the request in a distributed trace.
    pub(crate) span: Option<OpenSpan>,
    /// What the request uses until its response is complete.
    pub(crate) hold: Hold,
}

impl Caller {
    /// Returns the time after which the response is no longer needed.
    pub(crate) fn end(&self) -> Instant {
        self.client_deadline.map_or(self.deadline, |end| end.min(self.deadline))
    }
}

/// Returns the client's timeout. The SDKs of OpenAI and Anthropic send it, in seconds.
pub(super) fn client_timeout(headers: &HeaderMap) -> Option<Duration> {
    let seconds = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse().ok();
    let seconds = seconds("x-stainless-timeout").or_else(|| seconds("x-stainless-read-timeout"))?;
    Duration::try_from_secs_f64(seconds).ok()
}
