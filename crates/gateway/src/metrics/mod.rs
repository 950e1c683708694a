//! Counts and measures the work of the gateway, for `/metrics`.
//!
//! Names and labels follow the conventions of OpenTelemetry for HTTP, generative AI and MCP, in the spelling
//! of Prometheus. Labels are names of the configuration, of listed tools, or fixed texts; anything else
//! counts as `other`, so that clients and servers cannot add metrics without limit.

mod requests;
mod series;
mod text;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

pub(crate) use requests::{EndedRequest, ToolOutcome};
pub use series::Distribution;
pub(crate) use series::OTHER;
use series::{Histogram, Metric};
pub(crate) use text::MEDIA_TYPE;

/// The upper limits of the ranges of durations, in seconds.
static SECONDS: [f64; 15] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// The upper limits of the ranges of numbers of tokens.
static TOKENS: [f64; 12] =
    [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262_144.0, 1_048_576.0, 4_194_304.0];

/// The metrics of the gateways of one process. Cheap to clone; clones share the values.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    http_requests: Metric<Histogram>,
    requests: Metric<Histogram>,
    first_tokens: Metric<Histogram>,
    model_requests: Metric<Histogram>,
    tokens: Metric<Histogram>,
    tool_durations: Metric<Histogram>,
    tool_calls: Metric<u64>,
    attempts: Metric<u64>,
    failovers: Metric<u64>,
    store_operations: Metric<Histogram>,
    store_errors: Metric<u64>,
    reloads: Metric<u64>,
    active_requests: AtomicU64,
    open_streams: AtomicU64,
    last_reload_succeeded: AtomicBool,
    sources: RwLock<Vec<Arc<dyn MetricSource>>>,
}

/// Measures something when the metrics are read, such as the states of servers.
pub trait MetricSource: Send + Sync {
    fn measure(&self) -> Vec<Measurement>;
}

/// The names and values of labels. An empty value is the same as no label.
pub type MetricLabels = Vec<(&'static str, String)>;

/// The values of one metric by labels, at the time of the measurement.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Measurement {
    /// The name in the conventions of OpenTelemetry, such as `toolwire.server.state`.
    pub name: &'static str,
    /// The unit: `s`, `By`, or `1`.
    pub unit: &'static str,
    pub help: &'static str,
    pub kind: MetricKind,
    pub data: MetricData,
}

/// The values of a metric.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum MetricData {
    Numbers(Vec<(MetricLabels, f64)>),
    Distributions(Vec<(MetricLabels, Distribution)>),
}

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricKind {
    /// A number that only grows.
    Counter,
    /// A number.
    Gauge,
    /// A distribution that only grows.
    Histogram,
}

impl Measurement {
    /// Creates the measurement of numbers.
    pub fn new(
        name: &'static str,
        unit: &'static str,
        help: &'static str,
        kind: MetricKind,
        values: Vec<(MetricLabels, f64)>,
    ) -> Measurement {
        Measurement { name, unit, help, kind, data: MetricData::Numbers(values) }
    }

    /// Returns the name as Prometheus spells it, with its unit.
    fn prometheus_name(&self) -> String {
        let mut name = self.name.replace('.', "_");
        let unit = match self.unit {
            "s" => "_seconds",
            "By" => "_bytes",
            _ => "",
        };
        name.push_str(unit);
        if self.kind == MetricKind::Counter {
            name.push_str("_total");
        }
        name
    }
}

impl Metrics {
    /// Adds a source that is measured when the metrics are read.
    pub fn add_source(&self, source: Arc<dyn MetricSource>) {
        self.0.sources.write().unwrap_or_else(PoisonError::into_inner).push(source);
    }

    /// Records an attempt to send a request to an endpoint of a model. `failure` is the code of its error.
    /// `model` must be a configured name.
    pub fn record_attempt(&self, model: &str, failure: Option<&str>) {
        self.0.attempts.add(&[model, failure.unwrap_or_default()], 1);
    }

    /// Records that a request is sent to another endpoint of a model, because one failed or is busy.
    pub fn record_failover(&self, model: &str) {
        self.0.failovers.add(&[model], 1);
    }

    /// Records an operation of the store. `failure` is the code of its error.
    pub fn record_store_operation(&self, operation: &str, elapsed: Duration, failure: Option<&str>) {
        self.0.store_operations.record(&[operation], &SECONDS, elapsed.as_secs_f64());
        if let Some(failure) = failure {
            self.0.store_errors.add(&[operation, failure], 1);
        }
    }

    /// Records that the configuration was read again.
    pub fn record_reload(&self, is_success: bool) {
        self.0.last_reload_succeeded.store(is_success, Ordering::Relaxed);
        self.0.reloads.add(&[if is_success { "ok" } else { "failed" }], 1);
    }

    /// Returns all metrics.
    pub fn measure(&self) -> Vec<Measurement> {
        let inner = &self.0;
        let durations = [
            &inner.http_requests,
            &inner.requests,
            &inner.first_tokens,
            &inner.model_requests,
            &inner.tool_durations,
            &inner.store_operations,
        ];
        let counters =
            [&inner.tool_calls, &inner.attempts, &inner.failovers, &inner.store_errors, &inner.reloads];
        let sources = inner.sources.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut measured: Vec<Measurement> =
            durations.into_iter().map(|metric| metric.measure(&SECONDS)).collect();
        measured.push(inner.tokens.measure(&TOKENS));
        measured.extend(counters.into_iter().map(|metric| metric.measure()));
        measured.extend(self.own_measurements());
        measured.extend(sources.iter().flat_map(|source| source.measure()));
        measured
    }

    /// Returns all metrics as Prometheus reads them.
    pub fn to_prometheus(&self) -> String {
        let mut target = String::new();
        for measurement in self.measure() {
            text::write(&mut target, &measurement);
        }
        target
    }

    fn own_measurements(&self) -> Vec<Measurement> {
        let plain = |value: f64| vec![(Vec::new(), value)];
        let read = |value: &AtomicU64| plain(value.load(Ordering::Relaxed) as f64);
        let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
        let has_reloaded = self.0.last_reload_succeeded.load(Ordering::Relaxed);
        vec![
            Measurement::new(
                "http.server.active_requests",
                "1",
                "Requests whose response is not complete.",
                MetricKind::Gauge,
                read(&self.0.active_requests),
            ),
            Measurement::new(
                "toolwire.open_streams",
                "1",
                "Streamed responses that are not complete.",
                MetricKind::Gauge,
                read(&self.0.open_streams),
            ),
            Measurement::new(
                "toolwire.config.last_reload_successful",
                "1",
                "Whether the configuration in use is the one that was read last.",
                MetricKind::Gauge,
                plain(f64::from(u8::from(has_reloaded))),
            ),
            Measurement::new(
                "toolwire.build_info",
                "1",
                "The version of the gateway.",
                MetricKind::Gauge,
                vec![(version, 1.0)],
            ),
        ]
    }
}

impl Default for Inner {
    fn default() -> Inner {
        Inner {
            http_requests: Metric::new(
                ("http.server.request.duration", "s"),
                "The time from the head of a request to the end of its response.",
                &["http.request.method", "http.route", "http.response.status_code"],
                &[],
            ),
            requests: Metric::new(
                ("gen_ai.server.request.duration", "s"),
                "The duration of requests to models, with all steps and calls.",
                &["gen_ai.operation.name", "gen_ai.request.model", "error.type"],
                &[1],
            ),
            first_tokens: Metric::new(
                ("gen_ai.server.time_to_first_token", "s"),
                "The time until the first part of the response, for streams and runs.",
                &["gen_ai.operation.name", "gen_ai.request.model"],
                &[1],
            ),
            model_requests: Metric::new(
                ("gen_ai.client.operation.duration", "s"),
                "The duration of each request to a provider: of the steps of runs, and of forwarded requests.",
                &["gen_ai.operation.name", "gen_ai.request.model"],
                &[1],
            ),
            tokens: Metric::new(
                ("gen_ai.client.token.usage", "{token}"),
                "The tokens of requests, as far as the provider reports them.",
                &["gen_ai.operation.name", "gen_ai.request.model", "gen_ai.token.type"],
                &[1],
            ),
            tool_durations: Metric::new(
                ("mcp.client.operation.duration", "s"),
                "The duration of requests to MCP servers.",
                &["mcp.method.name", "toolwire.server", "gen_ai.tool.name", "error.type"],
                &[1, 2],
            ),
            tool_calls: Metric::new(
                ("toolwire.tool.calls", "1"),
                "Calls of tools that models or clients requested, by outcome: ok, failed, not_made.",
                &["toolwire.server", "gen_ai.tool.name", "outcome"],
                &[0, 1],
            ),
            attempts: Metric::new(
                ("toolwire.upstream.attempts", "1"),
                "Attempts to send a request to an endpoint of a provider.",
                &["gen_ai.request.model", "error.type"],
                &[0],
            ),
            failovers: Metric::new(
                ("toolwire.upstream.failovers", "1"),
                "Requests that were sent to another endpoint because one failed or was busy.",
                &["gen_ai.request.model"],
                &[0],
            ),
            store_operations: Metric::new(
                ("toolwire.store.operation.duration", "s"),
                "The duration of operations of the store.",
                &["operation"],
                &[],
            ),
            store_errors: Metric::new(
                ("toolwire.store.errors", "1"),
                "Operations of the store that failed.",
                &["operation", "error.type"],
                &[],
            ),
            reloads: Metric::new(
                ("toolwire.config.reloads", "1"),
                "How often the configuration was read again, by outcome: ok, failed.",
                &["outcome"],
                &[],
            ),
            active_requests: AtomicU64::new(0),
            open_streams: AtomicU64::new(0),
            last_reload_succeeded: AtomicBool::new(true),
            sources: RwLock::default(),
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Metrics").finish_non_exhaustive()
    }
}
