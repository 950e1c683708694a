//! The export of spans and metrics to a collector of OpenTelemetry. The collector here checks what real ones
//! require.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Metric};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use toolwire_testkit::provider::{Api, FakeProvider, Script};

use crate::traces::{adding, ask, config};
use crate::{command, folder, serve_with};

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A collector that accepts data after it has refused the first request.
#[derive(Clone, Default)]
struct Collector {
    spans: Arc<Mutex<Vec<Span>>>,
    metrics: Arc<Mutex<Vec<Metric>>>,
    /// The number of requests that were refused.
    refused: Arc<Mutex<usize>>,
    resources: Arc<Mutex<BTreeSet<String>>>,
}

impl Collector {
    async fn start() -> (Collector, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let collector = Collector::default();
        let accepting = collector.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let collector = accepting.clone();
                tokio::spawn(async move { collector.serve(stream).await });
            }
        });
        (collector, address)
    }

    async fn serve(&self, mut stream: TcpStream) {
        let mut received = Vec::new();
        loop {
            let head = loop {
                if let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") {
                    break end + 4;
                }
                if stream.read_buf(&mut received).await.unwrap_or(0) == 0 {
                    return;
                }
            };
            let text = String::from_utf8(received[..head].to_vec()).unwrap().to_ascii_lowercase();
            let header = |name: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
                line.map(str::to_owned)
            };
            let length: usize = header("content-length").expect("a length").parse().unwrap();
            while received.len() < head + length {
                if stream.read_buf(&mut received).await.unwrap_or(0) == 0 {
                    return;
                }
            }
            let body: Vec<u8> = received.drain(..head + length).skip(head).collect();
            assert_eq!(header("content-type").as_deref(), Some("application/x-protobuf"));
            assert_eq!(header("authorization").as_deref(), Some("basic abc"));
            let is_first = {
                let mut refused = self.refused.lock().unwrap();
                *refused += 1;
                *refused == 1
            };
            let response: &[u8] = match is_first {
                true => b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n",
                false => {
                    self.read(text.lines().next().unwrap(), &body);
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n"
                }
            };
            stream.write_all(response).await.unwrap();
        }
    }

    fn read(&self, request: &str, body: &[u8]) {
        let mut resources = self.resources.lock().unwrap();
        match request {
            "post /v1/traces http/1.1" => {
                for received in ExportTraceServiceRequest::decode(body).unwrap().resource_spans {
                    resources.insert(text_of(&received.resource.unwrap().attributes, "service.name"));
                    let spans = received.scope_spans.into_iter().flat_map(|scope| scope.spans);
                    self.spans.lock().unwrap().extend(spans);
                }
            }
            "post /v1/metrics http/1.1" => {
                // The values are those since the start, so the last ones are complete.
                self.metrics.lock().unwrap().clear();
                for received in ExportMetricsServiceRequest::decode(body).unwrap().resource_metrics {
                    resources.insert(text_of(&received.resource.unwrap().attributes, "service.name"));
                    let metrics = received.scope_metrics.into_iter().flat_map(|scope| scope.metrics);
                    self.metrics.lock().unwrap().extend(metrics);
                }
            }
            other => panic!("unexpected request: {other}"),
        }
    }
}

fn text_of(attributes: &[KeyValue], name: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == name);
    match found.and_then(|attribute| attribute.value.clone()?.value) {
        Some(AnyValue::StringValue(text)) => text,
        Some(AnyValue::IntValue(number)) => number.to_string(),
        Some(AnyValue::ArrayValue(list)) => format!("{} values", list.values.len()),
        other => format!("{other:?}"),
    }
}

fn check_attributes(attributes: &[KeyValue]) {
    let names: BTreeSet<&str> = attributes.iter().map(|attribute| attribute.key.as_str()).collect();
    assert_eq!(names.len(), attributes.len(), "each name is there once: {attributes:?}");
    assert!(attributes.iter().all(|attribute| !attribute.key.is_empty() && attribute.value.is_some()));
}

fn check_span(span: &Span) {
    assert_eq!((span.trace_id.len(), span.span_id.len()), (16, 8), "{span:?}");
    assert!(span.trace_id.iter().any(|byte| *byte != 0) && span.span_id.iter().any(|byte| *byte != 0));
    assert!([0, 8].contains(&span.parent_span_id.len()), "{span:?}");
    assert!(!span.name.is_empty() && span.start_time_unix_nano > 0, "{span:?}");
    assert!(span.end_time_unix_nano >= span.start_time_unix_nano, "{span:?}");
    check_attributes(&span.attributes);
}

fn check_metric(metric: &Metric) {
    let is_name = |character: char| character.is_ascii_alphanumeric() || "_.-/".contains(character);
    assert!(metric.name.starts_with(|first: char| first.is_ascii_alphabetic()), "{metric:?}");
    assert!(metric.name.chars().all(is_name) && metric.name.len() <= 255, "{metric:?}");
    let cumulative = i32::from(AggregationTemporality::Cumulative);
    match metric.data.as_ref().expect("data") {
        Data::Sum(sum) => {
            assert!(sum.is_monotonic && sum.aggregation_temporality == cumulative, "{metric:?}");
            for point in &sum.data_points {
                assert!(point.time_unix_nano >= point.start_time_unix_nano && point.value.is_some());
                check_attributes(&point.attributes);
            }
        }
        Data::Gauge(gauge) => gauge.data_points.iter().for_each(|point| check_attributes(&point.attributes)),
        Data::Histogram(histogram) => {
            assert_eq!(histogram.aggregation_temporality, cumulative, "{metric:?}");
            for point in &histogram.data_points {
                assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1, "{metric:?}");
                assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count, "{metric:?}");
                assert!(point.explicit_bounds.is_sorted(), "{metric:?}");
                assert!(point.start_time_unix_nano > 0 && point.sum.is_some(), "{metric:?}");
                check_attributes(&point.attributes);
            }
        }
        other => panic!("unexpected data: {other:?}"),
    }
}

/// Returns how often a histogram has recorded something with this attribute.
fn count_of(metrics: &[Metric], name: &str, attribute: (&str, &str)) -> u64 {
    let metric = metrics.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("no {name}"));
    let Some(Data::Histogram(histogram)) = &metric.data else { panic!("{metric:?}") };
    let points = histogram.data_points.iter();
    points
        .filter(|point| text_of(&point.attributes, attribute.0) == attribute.1)
        .map(|point| point.count)
        .sum()
}

/// The spans of a request form a tree below the client's span, with the names and attributes of the
/// conventions for generative AI and MCP. Metrics are those of `/metrics`.
#[tokio::test]
async fn spans_and_metrics_are_exported() {
    let (collector, address) = Collector::start().await;
    let provider = FakeProvider::start(Api::OpenAiChat, Script::from_fn(adding)).await;
    let folder = folder("telemetry", Some(&config(&provider)));
    let mut command = command(&folder, &["--listen", "127.0.0.1:0"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}"));
    command.env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20abc");
    command.env("OTEL_SERVICE_NAME", "gateway-of-the-test");
    let mut served = serve_with(&mut command);
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let not_sampled = "00-00000000000000000000000000000001-00f067aa0ba902b7-00";
    for headers in [
        &[("traceparent", parent)][..],
        &[("traceparent", not_sampled)],
        &[],
        &[("x-toolwire-servers", "none")],
    ] {
        assert_eq!(ask(&served, headers).await.status(), 200, "{headers:?}");
    }
    let id = served.child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let ended = tokio::task::spawn_blocking(move || served.child.wait().map(|status| (status, served)));
    let (status, _served) =
        tokio::time::timeout(TEST_TIMEOUT, ended).await.expect("it ends").unwrap().unwrap();
    assert!(status.success());

    let spans = collector.spans.lock().unwrap().clone();
    spans.iter().for_each(check_span);
    let resources: Vec<String> = collector.resources.lock().unwrap().iter().cloned().collect();
    assert_eq!(resources, ["gateway-of-the-test"]);
    let not_sampled: Vec<u8> = [vec![0; 15], vec![1]].concat();
    assert!(spans.iter().all(|span| span.trace_id != not_sampled), "the client decided against it");
    let traces: BTreeSet<&[u8]> = spans.iter().map(|span| span.trace_id.as_slice()).collect();
    assert_eq!(traces.len(), 3, "{spans:#?}");
    let of_client: Vec<&Span> = spans.iter().filter(|span| span.trace_id[0] == 0x4b).collect();
    let named = |name: &str| {
        let found: Vec<&&Span> = of_client.iter().filter(|span| span.name == name).collect();
        assert!(!found.is_empty(), "no span `{name}` in {of_client:#?}");
        found
    };
    let [request] = named("POST /v1/chat/completions")[..] else { panic!("{of_client:#?}") };
    assert_eq!(request.parent_span_id, [0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]);
    assert_eq!(request.kind, i32::from(SpanKind::Server));
    assert_eq!(text_of(&request.attributes, "http.response.status_code"), "200");
    let steps = named("chat up");
    assert_eq!(steps.len(), 2);
    for step in &steps {
        assert_eq!((step.kind, &step.parent_span_id), (i32::from(SpanKind::Client), &request.span_id));
        for (name, expected) in [("gen_ai.operation.name", "chat"), ("gen_ai.request.model", "up")] {
            assert_eq!(text_of(&step.attributes, name), expected);
        }
        assert_eq!(text_of(&step.attributes, "gen_ai.response.finish_reasons"), "1 values");
        assert!(text_of(&step.attributes, "gen_ai.usage.input_tokens").parse::<u64>().is_ok(), "{step:?}");
    }
    let [call] = named("tools/call calculate")[..] else { panic!("{of_client:#?}") };
    assert_eq!((call.kind, &call.parent_span_id), (i32::from(SpanKind::Client), &request.span_id));
    for (name, expected) in [
        ("mcp.method.name", "tools/call"),
        ("gen_ai.tool.name", "calculate"),
        ("gen_ai.operation.name", "execute_tool"),
        ("toolwire.server", "demo"),
    ] {
        assert_eq!(text_of(&call.attributes, name), expected);
    }

    let metrics = collector.metrics.lock().unwrap().clone();
    metrics.iter().for_each(check_metric);
    assert_eq!(count_of(&metrics, "gen_ai.server.request.duration", ("gen_ai.request.model", "up")), 4);
    assert_eq!(count_of(&metrics, "mcp.client.operation.duration", ("gen_ai.tool.name", "calculate")), 3);
    // Three requests with a call and its answer, and one that was forwarded.
    assert_eq!(count_of(&metrics, "gen_ai.client.operation.duration", ("gen_ai.request.model", "up")), 7);
    assert!(*collector.refused.lock().unwrap() > 1, "what was refused is sent again");
}
