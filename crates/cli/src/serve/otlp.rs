//! Exports spans and metrics to a collector of OpenTelemetry, over OTLP/HTTP with Protocol Buffers.
//!
//! The usual variables of OpenTelemetry configure it. Nothing waits for the collector: if it does not keep
//! up, spans are dropped and counted.

mod convert;
mod variables;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use prost::Message as _;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolwire_gateway::{
    metrics::{Measurement, MetricKind, MetricSource, Metrics},
    spans::{Span, SpanSink, Spans},
};

use crate::command_error::{CommandError, NOTE, print_stderr};
use variables::Target;
pub(super) use variables::Variables;

/// The maximum number of spans that wait to be sent. Further ones are dropped.
const MAX_WAITING: usize = 8_192;

const MAX_BATCH: usize = 512;

/// A batch is sent after this time, even if it is small.
const BATCH_DELAY: Duration = Duration::from_secs(1);

/// The number of attempts to send a batch, and the pauses between them, which double.
const MAX_ATTEMPTS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Sends the spans and the metrics of a gateway.
pub(super) struct Exporter {
    sink: Arc<Sink>,
    stop: CancellationToken,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

/// Takes the spans of a gateway.
struct Sink {
    spans: mpsc::Sender<Span>,
    dropped: AtomicU64,
    failed: AtomicU64,
}

impl Exporter {
    /// Starts the export that the variables configure.
    pub(super) fn start(variables: &Variables, metrics: &Metrics) -> Result<Option<Exporter>, CommandError> {
        if variables.traces.is_none() && variables.metrics.is_none() {
            return Ok(None);
        }
        let client = reqwest::Client::builder()
            .timeout(variables.timeout)
            .redirect(reqwest::redirect::Policy::none())
            .build();
        let client = client.map_err(|error| {
            CommandError::work(format!("cannot export to OpenTelemetry: {error}"))
                .with_hint("check the variables OTEL_EXPORTER_OTLP_…")
        })?;
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        let sink = Arc::new(Sink { spans: sender, dropped: AtomicU64::new(0), failed: AtomicU64::new(0) });
        metrics.add_source(sink.clone());
        let stop = CancellationToken::new();
        let resource = convert::resource(&variables.resource);
        let mut tasks = Vec::new();
        if let Some(target) = &variables.traces {
            let sender = BatchSender { client: client.clone(), target: target.clone(), sink: sink.clone() };
            tasks.push(tokio::spawn(send_spans(receiver, sender, resource.clone(), stop.clone())));
        }
        if let Some(target) = &variables.metrics {
            let sender = BatchSender { client, target: target.clone(), sink: sink.clone() };
            let exported = ExportedMetrics {
                metrics: metrics.clone(),
                interval: variables.metric_interval,
                start: SystemTime::now(),
            };
            tasks.push(tokio::spawn(send_metrics(exported, sender, resource, stop.clone())));
        }
        let places = [&variables.traces, &variables.metrics].into_iter().flatten().map(|target| &target.url);
        let places: Vec<String> = places.map(ToString::to_string).collect();
        print_stderr(&format!("{NOTE}note:{NOTE:#} exporting telemetry to {}\n", places.join(" and ")));
        Ok(Some(Exporter { sink, stop, tasks }))
    }

    /// Returns the destination of the gateway's spans.
    pub(super) fn spans(&self, variables: &Variables) -> Spans {
        match variables.traces {
            Some(_) => Spans::new(self.sink.clone()),
            None => Spans::default(),
        }
    }

    /// Sends the rest, and ends the tasks.
    pub(super) async fn close(self) {
        self.stop.cancel();
        for task in self.tasks {
            let _ = task.await;
        }
    }
}

impl SpanSink for Sink {
    fn record(&self, span: Span) {
        if self.spans.try_send(span).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl MetricSource for Sink {
    fn measure(&self) -> Vec<Measurement> {
        let number = |value: &AtomicU64| vec![(Vec::new(), value.load(Ordering::Relaxed) as f64)];
        vec![
            Measurement::new(
                "toolwire.telemetry.dropped_spans",
                "1",
                "Spans that were dropped because the collector did not keep up.",
                MetricKind::Counter,
                number(&self.dropped),
            ),
            Measurement::new(
                "toolwire.telemetry.failed_exports",
                "1",
                "Batches of spans or metrics that the collector did not accept.",
                MetricKind::Counter,
                number(&self.failed),
            ),
        ]
    }
}

/// Sends batches of spans until the gateway stops and all are sent.
async fn send_spans(
    mut spans: mpsc::Receiver<Span>,
    sender: BatchSender,
    resource: convert::Resource,
    stop: CancellationToken,
) {
    loop {
        let mut batch = Vec::new();
        tokio::select! {
            count = spans.recv_many(&mut batch, MAX_BATCH) => if count == 0 { return },
            () = stop.cancelled() => {
                spans.close();
                while let Ok(span) = spans.try_recv() {
                    batch.push(span);
                }
            }
        }
        let end = Instant::now() + BATCH_DELAY;
        while batch.len() < MAX_BATCH && !stop.is_cancelled() {
            tokio::select! {
                count = spans.recv_many(&mut batch, MAX_BATCH) => if count == 0 { break },
                () = tokio::time::sleep_until(end) => break,
                () = stop.cancelled() => break,
            }
        }
        if !batch.is_empty() {
            let request = convert::trace_request(&resource, batch);
            sender.send(request.encode_to_vec(), &stop).await;
        }
        if stop.is_cancelled() && spans.is_closed() && spans.is_empty() {
            return;
        }
    }
}

/// The metrics to export.
struct ExportedMetrics {
    metrics: Metrics,
    interval: Duration,
    start: SystemTime,
}

/// Sends all metrics at an interval, and once more at the end.
async fn send_metrics(
    exported: ExportedMetrics,
    sender: BatchSender,
    resource: convert::Resource,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(exported.interval) => {}
            () = stop.cancelled() => {}
        }
        let measured = exported.metrics.measure();
        let request = convert::metrics_request(&resource, measured, exported.start, SystemTime::now());
        sender.send(request.encode_to_vec(), &stop).await;
        if stop.is_cancelled() {
            return;
        }
    }
}

/// Sends batches of one kind of data.
struct BatchSender {
    client: reqwest::Client,
    target: Target,
    sink: Arc<Sink>,
}

impl BatchSender {
    /// Sends a batch. If the collector cannot be reached or is busy, it is sent again; when the gateway
    /// stops, only once, and without a pause.
    async fn send(&self, body: Vec<u8>, stop: &CancellationToken) {
        let mut pause = FIRST_PAUSE;
        for attempt in 1..=MAX_ATTEMPTS {
            let request = self.client.post(self.target.url.clone()).headers(self.target.headers.clone());
            let request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
            let (problem, retry_after) = match request.body(body.clone()).send().await {
                Ok(response) if response.status().is_success() => return,
                Ok(response) => {
                    let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
                    let seconds = seconds.and_then(|seconds| seconds.trim().parse().ok());
                    let status = response.status();
                    if !is_temporary(status) {
                        return self.give_up(&format!("the collector returned {status}"));
                    }
                    (format!("the collector returned {status}"), seconds.map(Duration::from_secs))
                }
                Err(error) => (error.without_url().to_string(), None),
            };
            let max_attempts = if stop.is_cancelled() { 2 } else { MAX_ATTEMPTS };
            if attempt >= max_attempts {
                return self.give_up(&problem);
            }
            tokio::select! {
                () = tokio::time::sleep(retry_after.unwrap_or(pause).min(MAX_PAUSE)) => {}
                () = stop.cancelled() => {}
            }
            pause = (2 * pause).min(MAX_PAUSE);
        }
    }

    fn give_up(&self, problem: &str) {
        self.sink.failed.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(target: "toolwire::telemetry", url = %self.target.url, problem, "telemetry was not exported");
    }
}

/// Whether the specification of OTLP/HTTP allows sending the same request again.
fn is_temporary(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502 | 503 | 504)
}
