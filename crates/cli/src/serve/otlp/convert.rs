//! Converts spans and metrics to the messages of OTLP.

use std::time::SystemTime;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum, metric, number_data_point,
};
pub(super) use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind as ProtoKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span as ProtoSpan, Status};
use toolwire_gateway::{
    metrics::{Distribution, Measurement, MetricData, MetricKind, MetricLabels},
    spans::{Span, SpanKind, SpanValue},
};

/// Returns the description of this service.
pub(super) fn resource(attributes: &[(String, String)]) -> Resource {
    let attributes = attributes.iter().map(|(name, value)| text(name, value)).collect();
    Resource { attributes, ..Resource::default() }
}

pub(super) fn trace_request(resource: &Resource, spans: Vec<Span>) -> ExportTraceServiceRequest {
    let scope_spans = ScopeSpans {
        scope: Some(scope()),
        spans: spans.into_iter().map(span).collect(),
        ..ScopeSpans::default()
    };
    let spans = ResourceSpans {
        resource: Some(resource.clone()),
        scope_spans: vec![scope_spans],
        ..ResourceSpans::default()
    };
    ExportTraceServiceRequest { resource_spans: vec![spans] }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "toolwire".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}

fn span(span: Span) -> ProtoSpan {
    let kind = match span.kind {
        SpanKind::Server => ProtoKind::Server,
        _ => ProtoKind::Client,
    };
    let status = span.error.map(|message| Status { message, code: StatusCode::Error.into() });
    ProtoSpan {
        trace_id: span.context.trace_id().to_vec(),
        span_id: span.context.span_id().to_vec(),
        trace_state: span.context.state().unwrap_or_default().to_owned(),
        parent_span_id: span.parent.map(Vec::from).unwrap_or_default(),
        flags: u32::from(span.context.is_sampled()),
        name: span.name,
        kind: kind.into(),
        start_time_unix_nano: nanoseconds(span.start),
        end_time_unix_nano: nanoseconds(span.end).max(nanoseconds(span.start)),
        attributes: span.attributes.into_iter().map(|(name, value)| attribute(name, value)).collect(),
        status,
        ..ProtoSpan::default()
    }
}

fn attribute(name: &str, value: SpanValue) -> KeyValue {
    let value = match value {
        SpanValue::Text(text) => Value::StringValue(text),
        SpanValue::Integer(number) => Value::IntValue(number),
        SpanValue::Number(number) => Value::DoubleValue(number),
        SpanValue::Texts(texts) => {
            let value = |text| AnyValue { value: Some(Value::StringValue(text)) };
            Value::ArrayValue(ArrayValue { values: texts.into_iter().map(value).collect() })
        }
        other => Value::StringValue(format!("{other:?}")),
    };
    key_value(name, value)
}

fn text(name: &str, value: &str) -> KeyValue {
    key_value(name, Value::StringValue(value.to_owned()))
}

fn key_value(name: &str, value: Value) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

/// Converts the values of metrics since `start`.
pub(super) fn metrics_request(
    resource: &Resource,
    measured: Vec<Measurement>,
    start: SystemTime,
    now: SystemTime,
) -> ExportMetricsServiceRequest {
    let times = (nanoseconds(start), nanoseconds(now));
    let metrics = measured.into_iter().filter_map(|measurement| metric(measurement, times)).collect();
    let scope_metrics = ScopeMetrics { scope: Some(scope()), metrics, ..ScopeMetrics::default() };
    let metrics = ResourceMetrics {
        resource: Some(resource.clone()),
        scope_metrics: vec![scope_metrics],
        ..ResourceMetrics::default()
    };
    ExportMetricsServiceRequest { resource_metrics: vec![metrics] }
}

/// Returns a metric, unless it has no values.
fn metric(measurement: Measurement, times: (u64, u64)) -> Option<Metric> {
    let cumulative = AggregationTemporality::Cumulative.into();
    let data = match measurement.data {
        MetricData::Numbers(series) if !series.is_empty() => {
            let points = series.into_iter().map(|series| number_point(series, times)).collect();
            match measurement.kind {
                MetricKind::Counter => metric::Data::Sum(Sum {
                    data_points: points,
                    aggregation_temporality: cumulative,
                    is_monotonic: true,
                }),
                _ => metric::Data::Gauge(Gauge { data_points: points }),
            }
        }
        MetricData::Distributions(series) if !series.is_empty() => metric::Data::Histogram(Histogram {
            data_points: series.into_iter().map(|series| distribution_point(series, times)).collect(),
            aggregation_temporality: cumulative,
        }),
        _ => return None,
    };
    Some(Metric {
        name: measurement.name.to_owned(),
        description: measurement.help.to_owned(),
        unit: measurement.unit.to_owned(),
        data: Some(data),
        ..Metric::default()
    })
}

fn number_point((labels, value): (MetricLabels, f64), (start, now): (u64, u64)) -> NumberDataPoint {
    NumberDataPoint {
        attributes: attributes(&labels),
        start_time_unix_nano: start,
        time_unix_nano: now,
        value: Some(number_data_point::Value::AsDouble(value)),
        ..NumberDataPoint::default()
    }
}

fn distribution_point(
    (labels, distribution): (MetricLabels, Distribution),
    (start, now): (u64, u64),
) -> HistogramDataPoint {
    HistogramDataPoint {
        attributes: attributes(&labels),
        start_time_unix_nano: start,
        time_unix_nano: now,
        count: distribution.counts.iter().sum(),
        sum: Some(distribution.sum),
        bucket_counts: distribution.counts,
        explicit_bounds: distribution.limits.to_vec(),
        ..HistogramDataPoint::default()
    }
}

fn attributes(labels: &MetricLabels) -> Vec<KeyValue> {
    labels.iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| text(name, value)).collect()
}

fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
