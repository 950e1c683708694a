//! The record of a request.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use toolwire_contract::model::Usage;

/// A request to a model, complete or in progress. All offsets are from its start.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Request {
    pub id: String,
    #[serde(serialize_with = "write_time")]
    pub at: Option<SystemTime>,
    pub path: String,
    /// The name of the client's key.
    pub key: Option<String>,
    pub model: Option<String>,
    pub is_stream: bool,
    /// Whether the request was forwarded to the provider, so that its steps are unknown.
    pub is_forwarded: bool,
    pub status: Option<u16>,
    /// `None` while it runs.
    pub outcome: Option<RequestOutcome>,
    pub error: Option<String>,
    #[serde(serialize_with = "write_duration")]
    pub elapsed: Option<Duration>,
    /// The time until the first part of the response was sent.
    #[serde(serialize_with = "write_duration")]
    pub first_output: Option<Duration>,
    pub usage: Option<Usage>,
    pub steps: Vec<StepSpan>,
    pub calls: Vec<CallSpan>,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RequestOutcome {
    Ok,
    /// The request was wrong.
    ClientError,
    /// The provider or the gateway failed.
    UpstreamError,
    /// The client disconnected.
    Stopped,
}

impl RequestOutcome {
    pub(super) const ALL: [RequestOutcome; 4] = [
        RequestOutcome::Ok,
        RequestOutcome::ClientError,
        RequestOutcome::UpstreamError,
        RequestOutcome::Stopped,
    ];

    /// Returns the text of an outcome for people, and its name in an address.
    pub(super) fn names(self) -> (&'static str, &'static str) {
        match self {
            RequestOutcome::Ok => ("ok", "ok"),
            RequestOutcome::ClientError => ("client error", "client-error"),
            RequestOutcome::UpstreamError => ("upstream error", "upstream-error"),
            RequestOutcome::Stopped => ("stopped by the client", "stopped"),
        }
    }

    pub(super) fn from_name(name: &str) -> Option<RequestOutcome> {
        RequestOutcome::ALL.into_iter().find(|outcome| outcome.names().1 == name)
    }
}

/// A request to the model.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct StepSpan {
    #[serde(serialize_with = "write_duration")]
    pub start: Option<Duration>,
    #[serde(serialize_with = "write_duration")]
    pub first_output: Option<Duration>,
    #[serde(serialize_with = "write_duration")]
    pub end: Option<Duration>,
    /// The waits before a failed request was sent again.
    pub waits: Vec<Wait>,
}

/// A wait before a request was sent again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    #[serde(serialize_with = "write_plain_duration")]
    pub start: Duration,
    #[serde(serialize_with = "write_plain_duration")]
    pub length: Duration,
    pub reason: String,
}

/// A call of a tool.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallSpan {
    pub id: String,
    pub tool: String,
    #[serde(serialize_with = "write_plain_duration")]
    pub start: Duration,
    #[serde(serialize_with = "write_duration")]
    pub end: Option<Duration>,
    pub outcome: Option<CallOutcome>,
    /// The first line of the error.
    pub error: Option<String>,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum CallOutcome {
    Ok,
    Failed,
    /// The call did not run.
    NotMade,
}

impl Request {
    /// Returns the time from the start to the end, or to now.
    pub(super) fn length(&self, now: SystemTime) -> Duration {
        let so_far = || self.at.and_then(|at| now.duration_since(at).ok()).unwrap_or_default();
        self.elapsed.unwrap_or_else(so_far)
    }
}

fn write_time<S: serde::Serializer>(time: &Option<SystemTime>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(crate::time::iso).serialize(serializer)
}

fn write_duration<S: serde::Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    duration.map(milliseconds).serialize(serializer)
}

fn write_plain_duration<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    milliseconds(*duration).serialize(serializer)
}

/// Returns milliseconds, with three digits after the point.
pub(super) fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
