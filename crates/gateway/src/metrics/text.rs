//! The text format of Prometheus.

use std::fmt::Write as _;

use super::series::Distribution;
use super::{Measurement, MetricData, MetricKind};

/// The media type of the format.
pub(crate) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Writes a metric.
pub(super) fn write(target: &mut String, measurement: &Measurement) {
    let name = measurement.prometheus_name();
    let kind = match measurement.kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram => "histogram",
    };
    let _ = writeln!(target, "# HELP {name} {}\n# TYPE {name} {kind}", measurement.help);
    match &measurement.data {
        MetricData::Numbers(series) => {
            for (labels, value) in series {
                write_sample(target, &name, "", labels, None, *value);
            }
        }
        MetricData::Distributions(series) => {
            for (labels, distribution) in series {
                write_distribution(target, &name, labels, distribution);
            }
        }
    }
}

fn write_distribution(
    target: &mut String,
    name: &str,
    labels: &[(&'static str, String)],
    distribution: &Distribution,
) {
    let mut total = 0;
    for (position, count) in distribution.counts.iter().enumerate() {
        total += count;
        let limit = distribution.limits.get(position).map_or("+Inf".to_owned(), f64::to_string);
        write_sample(target, name, "_bucket", labels, Some(&limit), total as f64);
    }
    write_sample(target, name, "_sum", labels, None, distribution.sum);
    write_sample(target, name, "_count", labels, None, total as f64);
}

fn write_sample(
    target: &mut String,
    name: &str,
    suffix: &str,
    labels: &[(&'static str, String)],
    limit: Option<&str>,
    value: f64,
) {
    target.push_str(name);
    target.push_str(suffix);
    // An empty label is the same as none.
    let labels =
        labels.iter().map(|(name, value)| (*name, value.as_str())).chain(limit.map(|limit| ("le", limit)));
    let mut has_labels = false;
    for (name, value) in labels.filter(|(_, value)| !value.is_empty()) {
        target.push(if has_labels { ',' } else { '{' });
        has_labels = true;
        target.extend(name.chars().map(|character| if character == '.' { '_' } else { character }));
        target.push_str("=\"");
        for character in value.chars() {
            match character {
                '\\' => target.push_str("\\\\"),
                '"' => target.push_str("\\\""),
                character if character.is_control() => target.push(' '),
                character => target.push(character),
            }
        }
        target.push('"');
    }
    if has_labels {
        target.push('}');
    }
    let _ = writeln!(target, " {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_written_in_the_format_of_prometheus() {
        let labels = vec![("gen_ai.model", "a\"\\\n".to_owned()), ("empty", String::new())];
        let distribution = Distribution { limits: &[0.1, 1.0], counts: vec![1, 1, 1], sum: 3.6 };
        let data = MetricData::Distributions(vec![(labels.clone(), distribution)]);
        let histogram = Measurement { name: "a.t", unit: "s", help: "T", kind: MetricKind::Histogram, data };
        let counter = Measurement::new("calls", "1", "C", MetricKind::Counter, vec![(Vec::new(), 2.0)]);
        let mut text = String::new();
        write(&mut text, &histogram);
        write(&mut text, &counter);
        let model = "gen_ai_model=\"a\\\"\\\\ \"";
        let expected = format!(
            "# HELP a_t_seconds T\n# TYPE a_t_seconds histogram\n\
             a_t_seconds_bucket{{{model},le=\"0.1\"}} 1\na_t_seconds_bucket{{{model},le=\"1\"}} 2\n\
             a_t_seconds_bucket{{{model},le=\"+Inf\"}} 3\na_t_seconds_sum{{{model}}} 3.6\n\
             a_t_seconds_count{{{model}}} 3\n\
             # HELP calls_total C\n# TYPE calls_total counter\ncalls_total 2\n"
        );
        assert_eq!(text, expected);
    }
}
