//! One request as a timeline: the steps of the model, and the calls in lanes.

use std::time::{Duration, SystemTime};

use maud::{Markup, html};
use toolwire_contract::text::counted;

use super::data::{CallOutcome, CallSpan, Request, RequestOutcome};
use crate::link::Link;
use crate::shell::back;
use crate::text::{UntrustedText, WithCode};
use crate::time::{self, Format};

const WIDTH: f64 = 1_000.0;
const LANE: f64 = 26.0;
const TOP: f64 = 22.0;
/// The minimum width of a bar.
const MIN_BAR: f64 = 2.0;

/// A bar of the timeline.
struct Bar<'a> {
    start: Duration,
    end: Duration,
    kind: Kind<'a>,
}

enum Kind<'a> {
    Step { number: usize, first_output: Option<Duration> },
    Wait(&'a str),
    Call(&'a CallSpan),
}

/// Returns a request with its timeline.
pub fn timeline(request: &Request, now: SystemTime) -> Markup {
    let length = request.length(now).max(Duration::from_millis(1));
    let lanes = lanes(request, length);
    let height = TOP + LANE * lanes.len().max(1) as f64 + 4.0;
    html! {
        header.head { (back()) h1 { "Request " code { (UntrustedText(&request.id)) } } }
        (facts(request, now))
        @if let Some(error) = &request.error { (crate::notice::error(error, None)) }
        @if request.is_forwarded { p.note { "forwarded to the provider unchanged, so its steps are not known" } }
        div.table-wrap.full tabindex="0" role="group" aria-label="Timeline" {
            svg.timeline viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label=(summary(request, length)) {
                @for tick in 0..=4 {
                    @let x = WIDTH * f64::from(tick) / 4.0;
                    line.grid x1=(x) x2=(x) y1=(TOP - 4.0) y2=(height) {}
                    text x=(x.clamp(2.0, WIDTH - 2.0)) y="14" text-anchor=(match tick { 0 => "start", 4 => "end", _ => "middle" }) {
                        (time::duration(length * tick / 4))
                    }
                }
                @for (lane, bars) in lanes.iter().enumerate() {
                    g.lane { @for bar in bars { (self::bar(bar, lane, length)) } }
                }
            }
        }
        (table(request))
    }
}

fn facts(request: &Request, now: SystemTime) -> Markup {
    let usage = request.usage.as_ref();
    html! {
        p.row {
            code { (UntrustedText(&request.path)) }
            @if let Some(model) = &request.model { bdi { (UntrustedText(model)) } }
            @if let Some(status) = request.status { span.num { (status) } }
            @match request.outcome {
                Some(outcome) => span { (outcome.names().0) },
                None => span { span.glyph.running aria-hidden="true" { "◐" } " running" },
            }
            span.num { (time::duration(request.length(now))) }
            @if let Some(first) = request.first_output { span.num.muted { "first output " (time::duration(first)) } }
            @if let Some(at) = request.at { (time::time(at, Format::Date)) }
        }
        p.row.muted {
            span { (counted(request.steps.len(), "step")) }
            span { (counted(request.calls.len(), "call")) }
            @if let Some(usage) = usage {
                span.num { (usage.input_tokens) " → " (usage.output_tokens) " tokens" }
                @if usage.cached_tokens > 0 { span.num { (usage.cached_tokens) " cached" } }
                @if let Some(cost) = usage.cost_nanodollars { span.num { (format!("${:.5}", cost as f64 / 1e9)) } }
            }
            span.grow {}
            button.button.quiet type="button" data-copy-from={ (Link::to(&["traffic", &request.id])) ".json" } { "Copy as JSON" }
        }
    }
}

/// Returns the bars in lanes, so that no two bars of a lane overlap: first the steps, then the waits, then
/// the calls.
fn lanes(request: &Request, length: Duration) -> Vec<Vec<Bar<'_>>> {
    let steps = request.steps.iter().enumerate().filter_map(|(index, step)| {
        let kind = Kind::Step { number: index + 1, first_output: step.first_output };
        Some(Bar { start: step.start?, end: step.end.unwrap_or(length), kind })
    });
    let waits = request.steps.iter().flat_map(|step| &step.waits).map(|wait| Bar {
        start: wait.start,
        end: wait.start + wait.length,
        kind: Kind::Wait(&wait.reason),
    });
    let calls = request.calls.iter().map(|call| Bar {
        start: call.start,
        end: call.end.unwrap_or(length),
        kind: Kind::Call(call),
    });
    let mut lanes = Vec::new();
    for bars in [steps.collect::<Vec<_>>(), waits.collect(), calls.collect()] {
        place(bars, length, &mut lanes);
    }
    lanes
}

/// Adds lanes for bars: each bar is in the first of them that is free.
fn place<'a>(mut bars: Vec<Bar<'a>>, length: Duration, lanes: &mut Vec<Vec<Bar<'a>>>) {
    bars.sort_by_key(|bar| bar.start);
    let first = lanes.len();
    for mut bar in bars {
        bar.end = bar.end.max(bar.start);
        // Bars have a minimum width, which also separates short ones.
        let is_free = |lane: &Vec<Bar<'_>>| {
            lane.last().is_none_or(|last| right(last, length) <= left(bar.start, length))
        };
        match lanes.iter_mut().skip(first).find(|lane| is_free(lane)) {
            Some(lane) => lane.push(bar),
            None => lanes.push(vec![bar]),
        }
    }
}

fn left(start: Duration, length: Duration) -> f64 {
    (start.as_secs_f64() / length.as_secs_f64() * WIDTH).min(WIDTH - MIN_BAR)
}

fn right(bar: &Bar<'_>, length: Duration) -> f64 {
    let start = left(bar.start, length);
    (bar.end.as_secs_f64() / length.as_secs_f64() * WIDTH).clamp(start + MIN_BAR, WIDTH)
}

fn bar(bar: &Bar<'_>, lane: usize, length: Duration) -> Markup {
    let (x, end) = (left(bar.start, length), right(bar, length));
    let y = TOP + LANE * lane as f64;
    let elapsed = time::duration(bar.end.saturating_sub(bar.start));
    let (class, label) = match &bar.kind {
        Kind::Step { number, .. } => ("model", format!("step {number}, {elapsed}")),
        Kind::Wait(reason) => ("backoff", format!("waits {elapsed}: {reason}")),
        Kind::Call(call) => {
            let class = match call.outcome {
                Some(CallOutcome::Ok) => "try",
                Some(CallOutcome::Failed) => "failed",
                Some(CallOutcome::NotMade) => "person",
                None => "try running",
            };
            (class, format!("{}, {elapsed}", call.tool))
        }
    };
    let first = match &bar.kind {
        Kind::Step { first_output, .. } => first_output.map(|first| left(first, length)),
        _ => None,
    };
    // The label is beside the bar where there is room, else in it.
    let (anchor, text_x, place) = match (end < WIDTH * 0.7, x > WIDTH * 0.3) {
        (true, _) => ("start", end + 6.0, ""),
        (false, true) => ("end", x - 6.0, ""),
        (false, false) => ("start", x + 6.0, "inside"),
    };
    html! {
        rect class=(class) x=(format!("{x:.1}")) y=(y) width=(format!("{:.1}", end - x)) height=(LANE - 6.0) rx="3" {}
        @if let Some(first) = first { line.tick x1=(format!("{first:.1}")) x2=(format!("{first:.1}")) y1=(y) y2=(y + LANE - 6.0) {} }
        text x=(format!("{text_x:.1}")) y=(y + 14.0) text-anchor=(anchor) class=[(!place.is_empty()).then_some(place)] { (UntrustedText(&label)) }
    }
}

fn summary(request: &Request, length: Duration) -> String {
    format!(
        "{}, {} in {}",
        counted(request.steps.len(), "step"),
        counted(request.calls.len(), "call"),
        time::duration(length)
    )
}

/// Returns the values of the timeline as a table.
fn table(request: &Request) -> Markup {
    html! {
        @if !request.calls.is_empty() {
            div.table-wrap tabindex="0" role="group" aria-label="Calls" { table {
                thead { tr { @for name in ["call", "start", "duration", "outcome"] { th scope="col" { (name) } } } }
                tbody {
                    @for call in &request.calls {
                        tr {
                            th scope="row" { a href=(crate::tools::address(&call.tool)) { bdi { (UntrustedText(&call.tool)) } } }
                            td.num { (time::duration(call.start)) }
                            td.num { @if let Some(end) = call.end { (time::duration(end.saturating_sub(call.start))) } @else { "running" } }
                            td {
                                @match call.outcome {
                                    Some(CallOutcome::Ok) => { span.glyph.exact aria-hidden="true" { "✓" } " ok" }
                                    Some(CallOutcome::Failed) => { span.glyph.refused aria-hidden="true" { "✗" } " failed" }
                                    Some(CallOutcome::NotMade) => { span.glyph.refused aria-hidden="true" { "✗" } " not made" }
                                    None => { span.glyph.running aria-hidden="true" { "◐" } " running" }
                                }
                                @if let Some(error) = &call.error { ": " span dir="auto" { (WithCode(error)) } }
                            }
                        }
                    }
                }
            } }
        }
    }
}

/// Returns a glyph for an outcome, with its class.
pub(super) fn glyph(outcome: Option<RequestOutcome>) -> (&'static str, &'static str) {
    match outcome {
        Some(RequestOutcome::Ok) => ("exact", "✓"),
        Some(RequestOutcome::ClientError) => ("lossy", "!"),
        Some(RequestOutcome::UpstreamError) => ("refused", "✗"),
        Some(RequestOutcome::Stopped) => ("down", "–"),
        None => ("running", "◐"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::data::{StepSpan, Wait};
    use super::*;

    fn milliseconds(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    fn call((start, length): (u64, Option<u64>)) -> CallSpan {
        CallSpan {
            id: String::new(),
            tool: "f".to_owned(),
            start: milliseconds(start),
            end: length.map(|length| milliseconds(start + length)),
            outcome: length.map(|_| CallOutcome::Ok),
            error: None,
        }
    }

    /// Creates a step with a wait.
    fn step((start, length): (u64, Option<u64>)) -> StepSpan {
        StepSpan {
            start: Some(milliseconds(start)),
            end: length.map(|length| milliseconds(start + length)),
            waits: vec![Wait {
                start: milliseconds(start),
                length: milliseconds(length.unwrap_or(9_999)),
                reason: String::new(),
            }],
            ..StepSpan::default()
        }
    }

    fn spans() -> impl Strategy<Value = Vec<(u64, Option<u64>)>> {
        proptest::collection::vec((0_u64..2_000, proptest::option::of(0_u64..500)), 0..40)
    }

    proptest! {
        #[test]
        fn bars_of_a_lane_never_overlap(steps in spans(), calls in spans()) {
            let request = Request {
                steps: steps.into_iter().map(step).collect(),
                calls: calls.into_iter().map(call).collect(),
                ..Request::default()
            };
            let length = Duration::from_millis(2_500);
            let lanes = lanes(&request, length);
            let drawn: usize = lanes.iter().map(Vec::len).sum();
            prop_assert_eq!(drawn, request.calls.len() + 2 * request.steps.len());
            for lane in &lanes {
                for pair in lane.windows(2) {
                    prop_assert!(right(&pair[0], length) <= left(pair[1].start, length));
                }
                prop_assert!(lane.iter().all(|bar| right(bar, length) <= WIDTH));
            }
        }
    }
}
