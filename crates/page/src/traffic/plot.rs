//! Plots over time, as SVG with presentation attributes only.

use std::time::Duration;

use maud::{Markup, html};
use toolwire_contract::text::counted;

use super::data::RequestOutcome;
use super::summary::{Bucket, Buckets};
use super::view::Prices;
use crate::time;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 160.0;
const LEFT: f64 = 48.0;
const BOTTOM: f64 = 20.0;
const TOP: f64 = 8.0;

/// A layer of stacked bars: its name, its class, and its height in each bucket.
type Layer<'a> = (&'a str, &'a str, Box<dyn Fn(&Bucket) -> f64>);

/// A line: its name, its class, and its value in each bucket.
type Line<'a> = (&'a str, &'a str, Box<dyn Fn(&Bucket) -> Option<f64>>);

/// The scale of a vertical axis.
struct Scale {
    /// The minimum distance between two ticks.
    least_step: f64,
    format_value: fn(f64) -> String,
}

/// The scale of whole numbers.
const COUNTS: Scale = Scale { least_step: 1.0, format_value: |value| format!("{value:.0}") };

/// Returns the number of requests, by outcome.
pub(super) fn requests(data: &Buckets) -> Markup {
    let classes = ["ok", "client", "upstream", "stopped"];
    let mut layers: Vec<Layer<'_>> = Vec::new();
    for (outcome, class) in RequestOutcome::ALL.into_iter().zip(classes) {
        let height = move |bucket: &Bucket| f64::from(bucket.outcomes[outcome as usize]);
        layers.push((outcome.names().0, class, Box::new(height)));
    }
    layers.push(("running", "running", Box::new(|bucket| f64::from(bucket.running))));
    let total: u32 = data.buckets.iter().map(Bucket::requests).sum();
    let summary = counted(total, "request");
    bars("Requests", &interval(data.length), &summary, data, &layers, &COUNTS)
}

/// Returns the number of tokens.
pub(super) fn tokens(data: &Buckets) -> Markup {
    let layers: Vec<Layer<'_>> = vec![
        ("input", "input", Box::new(|bucket| bucket.input as f64)),
        ("cached input", "cached", Box::new(|bucket| bucket.cached as f64)),
        ("output", "output", Box::new(|bucket| bucket.output as f64)),
    ];
    let sum = |value: fn(&Bucket) -> u64| data.buckets.iter().map(value).sum::<u64>();
    let (input, output) = (sum(|bucket| bucket.input + bucket.cached), sum(|bucket| bucket.output));
    let summary = format!("{input} input tokens, {output} output tokens");
    bars("Tokens", &interval(data.length), &summary, data, &layers, &COUNTS)
}

/// Returns the cost per hour, in US dollars.
pub(super) fn cost(data: &Buckets, prices: &Prices) -> Markup {
    let per_hour = 3_600.0 / data.length.as_secs_f64() / 1e9;
    let layers: Vec<Layer<'_>> =
        vec![("cost", "cost", Box::new(move |bucket| bucket.cost_nanodollars as f64 * per_hour))];
    let total: u64 = data.buckets.iter().map(|bucket| bucket.cost_nanodollars).sum();
    let total = format!("${:.4} in total", total as f64 / 1e9);
    let summary = match prices {
        Prices::AllKnown => total,
        Prices::SomeUnknown(1) => format!("{total}; the price of 1 model is unknown"),
        Prices::SomeUnknown(models) => format!("{total}; the prices of {models} models are unknown"),
        Prices::NoneKnown => "unknown, because no model here has a price".to_owned(),
    };
    let scale = Scale { least_step: 0.0, format_value: |value| format!("{value:.4}") };
    bars("Cost", "US$ per hour", &summary, data, &layers, &scale)
}

/// Returns the duration of requests, on a logarithmic axis.
pub(super) fn latency(data: &Buckets) -> Markup {
    let lines: [Line<'_>; 3] = [
        ("p50", "p50", Box::new(|bucket| bucket.latency(50.0))),
        ("p99", "p99", Box::new(|bucket| bucket.latency(99.0))),
        ("first output, p50", "first", Box::new(Bucket::first_output)),
    ];
    // From 1 ms to 100 s.
    let y = |milliseconds: f64| {
        TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - milliseconds.clamp(1.0, 1e5).log10() / 5.0)
    };
    let worst = data.buckets.iter().filter_map(|bucket| bucket.latency(99.0)).fold(0.0, f64::max);
    let summary = match worst > 0.0 {
        true => format!("worst p99: {worst:.0} ms"),
        false => "no complete request".to_owned(),
    };
    let content = html! {
        @for power in 0..=5 {
            @let value = 10_f64.powi(power);
            (tick(y(value), &short(value)))
        }
        @for (_, class, value) in &lines {
            @for segment in segments(data, value) {
                @let points: Vec<String> = segment.iter().map(|(x, value)| format!("{x:.1},{:.1}", y(*value))).collect();
                @if let [(x, value)] = segment.as_slice() { circle class=(class) cx=(format!("{x:.1}")) cy=(format!("{:.1}", y(*value))) r="2" {} }
                @else { polyline class=(class) points=(points.join(" ")) fill="none" {} }
            }
        }
    };
    let names: Vec<(&str, String)> =
        lines.iter().map(|(name, class, _)| (*name, (*class).to_owned())).collect();
    let rows = html! {
        @for (index, bucket) in data.buckets.iter().enumerate().filter(|(_, bucket)| bucket.requests() > 0) {
            tr {
                th scope="row" { (bucket_time(data, index)) }
                @for (_, _, value) in &lines { td.num { @if let Some(value) = value(bucket) { (format!("{value:.0}")) } } }
            }
        }
    };
    figure("Duration", "ms", &summary, data, &content, &names, &rows)
}

fn bars(
    title: &str,
    unit: &str,
    summary: &str,
    data: &Buckets,
    layers: &[Layer<'_>],
    scale: &Scale,
) -> Markup {
    let sum = |bucket: &Bucket| layers.iter().map(|(_, _, height)| height(bucket)).sum::<f64>();
    let max = data.buckets.iter().map(sum).fold(0.0, f64::max);
    let (step, top) = ticks(max, scale.least_step);
    let y = |value: f64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - value / top);
    let width = bucket_width(data);
    let content = html! {
        @for index in 0..=(top / step).round() as u32 {
            @let value = f64::from(index) * step;
            (tick(y(value), &short(value)))
        }
        @for (index, bucket) in data.buckets.iter().enumerate() {
            @let mut below = 0.0;
            @for (_, class, height) in layers {
                @let height = height(bucket);
                @if height > 0.0 {
                    rect class=(class) x=(format!("{:.1}", LEFT + index as f64 * width))
                        y=(format!("{:.1}", y(below + height))) width=(format!("{:.1}", (width - 1.0).max(1.0)))
                        height=(format!("{:.1}", y(below) - y(below + height))) {}
                }
                ({ below += height; "" })
            }
        }
    };
    let names: Vec<(&str, String)> =
        layers.iter().map(|(name, class, _)| (*name, (*class).to_owned())).collect();
    let rows = html! {
        @for (index, bucket) in data.buckets.iter().enumerate().filter(|(_, bucket)| bucket.requests() > 0) {
            tr {
                th scope="row" { (bucket_time(data, index)) }
                @for (_, _, height) in layers { td.num { ((scale.format_value)(height(bucket))) } }
            }
        }
    };
    figure(title, unit, summary, data, &content, &names, &rows)
}

/// Returns a plot with its name, a summary in words, and a table of its values.
fn figure(
    title: &str,
    unit: &str,
    summary: &str,
    data: &Buckets,
    content: &Markup,
    names: &[(&str, String)],
    rows: &Markup,
) -> Markup {
    let bottom = HEIGHT - BOTTOM;
    html! {
        figure.plot-figure {
            figcaption { b { (title) } " " span.muted { (unit) } " · " (summary) }
            svg.plot viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(format!("{title} {unit}: {summary}")) {
                (content)
                line.zero x1=(LEFT) x2=(WIDTH) y1=(bottom) y2=(bottom) {}
                @for (x, index) in [(LEFT, 0), ((LEFT + WIDTH) / 2.0, data.buckets.len() / 2)] {
                    text x=(x) y=(HEIGHT - 5.0) { (clock(data, index)) }
                }
                text x=(WIDTH) y=(HEIGHT - 5.0) text-anchor="end" { "now" }
            }
            ul.key { @for (name, class) in names { li { svg.plot viewBox="0 0 12 12" aria-hidden="true" { rect class=(class) width="12" height="12" {} } (name) } } }
            details { summary { "values" }
                div.table-wrap tabindex="0" role="group" aria-label=(format!("Values of {title}")) { table {
                    thead { tr { th scope="col" { "from" } @for (name, _) in names { th scope="col" { (name) } } } }
                    tbody { (rows) }
                } }
            }
        }
    }
}

fn tick(y: f64, label: &str) -> Markup {
    html! {
        line.grid x1=(LEFT) x2=(WIDTH) y1=(format!("{y:.1}")) y2=(format!("{y:.1}")) {}
        text x=(LEFT - 6.0) y=(format!("{:.1}", y + 4.0)) text-anchor="end" { (label) }
    }
}

fn bucket_width(data: &Buckets) -> f64 {
    (WIDTH - LEFT) / data.buckets.len().max(1) as f64
}

/// Returns the points of a line. Buckets without a value are gaps.
fn segments(data: &Buckets, value: &dyn Fn(&Bucket) -> Option<f64>) -> Vec<Vec<(f64, f64)>> {
    let width = bucket_width(data);
    let mut segments = vec![Vec::new()];
    for (index, bucket) in data.buckets.iter().enumerate() {
        match (value(bucket), segments.last_mut()) {
            (Some(value), Some(segment)) => segment.push((LEFT + (index as f64 + 0.5) * width, value)),
            (None, Some(segment)) if !segment.is_empty() => segments.push(Vec::new()),
            _ => {}
        }
    }
    segments.retain(|segment| !segment.is_empty());
    segments
}

/// Returns a round distance between ticks, at least `least`, and the end of the axis.
fn ticks(max: f64, least: f64) -> (f64, f64) {
    if max <= 0.0 {
        return (1.0, 4.0);
    }
    let rough = max / 4.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power).max(least);
    (step, (max / step).ceil() * step)
}

/// Returns a number with at most four characters, and its unit.
fn short(value: f64) -> String {
    match value {
        _ if value >= 1e6 => format!("{:.1}M", value / 1e6),
        _ if value >= 1e4 => format!("{:.0}k", value / 1e3),
        _ if value == 0.0 || value >= 10.0 => format!("{value:.0}"),
        _ => format!("{value:.3}").trim_end_matches('0').trim_end_matches('.').to_owned(),
    }
}

/// Returns the length of a bucket: `per minute`, `per 5 minutes`.
fn interval(length: Duration) -> String {
    let seconds = length.as_secs();
    let units = [(86_400, "day"), (3_600, "hour"), (60, "minute")];
    let (unit, name) = units
        .into_iter()
        .find(|(unit, _)| seconds >= *unit && seconds.is_multiple_of(*unit))
        .unwrap_or((1, "second"));
    match seconds / unit {
        1 => format!("per {name}"),
        number => format!("per {}", counted(number, name)),
    }
}

fn bucket_time(data: &Buckets, index: usize) -> Markup {
    let offset = u32::try_from(index).map_or(data.length, |index| data.length * index);
    time::time(data.start + offset, time::Format::Time)
}

/// Returns the time of a bucket, in UTC: an SVG text has no element for a time.
fn clock(data: &Buckets, index: usize) -> String {
    let offset = u32::try_from(index).map_or(data.length, |index| data.length * index);
    let iso = time::iso(data.start + offset);
    format!("{} UTC", iso.get(11..16).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_maximum() {
        for max in [0.0, 0.004, 0.3, 1.0, 7.0, 12.0, 99.0, 1_234.0, 8e7] {
            for least in [0.0, 1.0] {
                let (step, top) = ticks(max, least);
                let count = top / step;
                assert!(top >= max && (1.0..=5.0).contains(&count), "{max}: {step} {top}");
            }
        }
    }

    #[test]
    fn ticks_of_counts_are_whole_numbers() {
        for max in [1.0, 2.0, 3.0, 5.0, 9.0, 11.0, 250.0] {
            let (step, top) = ticks(max, COUNTS.least_step);
            assert_eq!((step.fract(), top.fract()), (0.0, 0.0), "{max}: {step} {top}");
        }
    }

    #[test]
    fn intervals_are_written_in_their_largest_unit() {
        let intervals = [1, 30, 60, 300, 3_600, 86_400].map(|seconds| interval(Duration::from_secs(seconds)));
        assert_eq!(
            intervals,
            ["per second", "per 30 seconds", "per minute", "per 5 minutes", "per hour", "per day"]
        );
    }

    #[test]
    fn labels_are_short() {
        let labels = [0.0, 0.002, 0.25, 2.5, 12.0, 1_500.0, 25_000.0, 3_200_000.0].map(short);
        assert_eq!(labels, ["0", "0.002", "0.25", "2.5", "12", "1500", "25k", "3.2M"]);
    }
}
