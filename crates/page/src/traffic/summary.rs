//! Requests grouped by time and by tool.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::data::{CallOutcome, Request, RequestOutcome};
use crate::link::Link;

/// The period of the requests that the view displays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    Minutes15,
    Hour,
    Hours6,
    Day,
    All,
}

impl Period {
    pub(super) const ALL: [(Period, &'static str); 5] = [
        (Period::Minutes15, "15m"),
        (Period::Hour, "1h"),
        (Period::Hours6, "6h"),
        (Period::Day, "24h"),
        (Period::All, "all"),
    ];

    pub(super) fn name(self) -> &'static str {
        Period::ALL.iter().find(|(period, _)| *period == self).map_or("", |(_, name)| name)
    }

    fn length(self) -> Option<Duration> {
        let minutes = match self {
            Period::Minutes15 => 15,
            Period::Hour => 60,
            Period::Hours6 => 6 * 60,
            Period::Day => 24 * 60,
            Period::All => return None,
        };
        Some(Duration::from_secs(60 * minutes))
    }
}

/// Which requests the view displays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    pub period: Period,
    pub model: Option<String>,
    pub key: Option<String>,
    pub tool: Option<String>,
    pub outcome: Option<RequestOutcome>,
}

impl Filter {
    /// Creates a filter from the parameters of an address. Unknown values select everything.
    pub fn new(parameter: impl Fn(&str) -> Option<String>) -> Filter {
        let text = |name: &str| parameter(name).filter(|value| !value.is_empty());
        let period =
            text("since").and_then(|name| Period::ALL.iter().find(|(_, known)| *known == name).copied());
        Filter {
            period: period.map_or(Period::Hour, |(period, _)| period),
            model: text("model"),
            key: text("key"),
            tool: text("tool"),
            outcome: text("outcome").and_then(|name| RequestOutcome::from_name(&name)),
        }
    }

    /// Returns the address of the view with this filter.
    pub fn address(&self) -> Link {
        let mut link = Link::to(&["traffic"]).with("since", self.period.name());
        let outcome = self.outcome.map(|outcome| outcome.names().1);
        let values = [
            ("model", self.model.as_deref()),
            ("key", self.key.as_deref()),
            ("tool", self.tool.as_deref()),
            ("outcome", outcome),
        ];
        for (name, value) in values {
            if let Some(value) = value {
                link = link.with(name, value);
            }
        }
        link
    }

    /// Whether a request is displayed.
    pub fn selects(&self, request: &Request, now: SystemTime) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        let age = request.at.and_then(|at| now.duration_since(at).ok()).unwrap_or_default();
        self.period.length().is_none_or(|length| age <= length)
            && is(&self.model, request.model.as_deref())
            && is(&self.key, request.key.as_deref())
            && self.tool.as_ref().is_none_or(|tool| request.calls.iter().any(|call| call.tool == *tool))
            && self.outcome.is_none_or(|outcome| request.outcome == Some(outcome))
    }
}

/// The maximum number of groups of a plot.
const MAX_BUCKETS: u64 = 120;
/// The lengths of groups, in seconds.
const LENGTHS: [u64; 10] = [1, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 86_400];

/// Requests that began within one interval.
#[derive(Clone, Debug, Default)]
pub(super) struct Bucket {
    pub(super) outcomes: [u32; 4],
    pub(super) running: u32,
    /// Sorted.
    latencies: Vec<f64>,
    first_outputs: Vec<f64>,
    pub(super) input: u64,
    pub(super) cached: u64,
    pub(super) output: u64,
    pub(super) cost_nanodollars: u64,
}

/// Groups of equal length, the oldest first.
#[derive(Clone, Debug)]
pub(super) struct Buckets {
    pub(super) start: SystemTime,
    pub(super) length: Duration,
    pub(super) buckets: Vec<Bucket>,
}

impl Bucket {
    pub(super) fn requests(&self) -> u32 {
        self.outcomes.iter().sum::<u32>() + self.running
    }

    /// Returns a percentile of the durations, in milliseconds.
    pub(super) fn latency(&self, percent: f64) -> Option<f64> {
        percentile(&self.latencies, percent)
    }

    pub(super) fn first_output(&self) -> Option<f64> {
        percentile(&self.first_outputs, 50.0)
    }
}

/// Groups requests by their start.
pub(super) fn buckets(requests: &[Arc<Request>], period: Period, now: SystemTime) -> Buckets {
    let oldest = requests.iter().filter_map(|request| request.at).min().unwrap_or(now);
    let start = period.length().and_then(|length| now.checked_sub(length)).unwrap_or(oldest).min(now);
    let span = now.duration_since(start).unwrap_or_default().as_secs() + 1;
    let length = LENGTHS.into_iter().find(|length| span.div_ceil(*length) <= MAX_BUCKETS);
    let length = length.unwrap_or_else(|| span.div_ceil(MAX_BUCKETS));
    let mut buckets = vec![Bucket::default(); usize::try_from(span.div_ceil(length)).unwrap_or(1)];
    for request in requests {
        let offset = request.at.and_then(|at| at.duration_since(start).ok()).unwrap_or_default().as_secs();
        let Some(bucket) = usize::try_from(offset / length).ok().and_then(|index| buckets.get_mut(index))
        else {
            continue;
        };
        match request.outcome {
            Some(outcome) => bucket.outcomes[outcome as usize] += 1,
            None => bucket.running += 1,
        }
        bucket.latencies.extend(request.elapsed.map(super::data::milliseconds));
        bucket.first_outputs.extend(request.first_output.map(super::data::milliseconds));
        if let Some(usage) = &request.usage {
            bucket.cached += usage.cached_tokens;
            bucket.input += usage.input_tokens.saturating_sub(usage.cached_tokens);
            bucket.output += usage.output_tokens;
            bucket.cost_nanodollars += usage.cost_nanodollars.unwrap_or(0);
        }
    }
    for bucket in &mut buckets {
        bucket.latencies.sort_by(f64::total_cmp);
        bucket.first_outputs.sort_by(f64::total_cmp);
    }
    Buckets { start, length: Duration::from_secs(length), buckets }
}

/// Returns a percentile of sorted values: the smallest value that at least this share of them does not
/// exceed.
pub(super) fn percentile(sorted: &[f64], percent: f64) -> Option<f64> {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

/// The calls of one tool.
#[derive(Clone, Debug, Default)]
pub(super) struct ToolSummary {
    pub(super) ok: u32,
    pub(super) failed: u32,
    pub(super) not_made: u32,
    /// Sorted.
    durations: Vec<f64>,
    pub(super) last_error: Option<String>,
}

impl ToolSummary {
    pub(super) fn calls(&self) -> u32 {
        self.ok + self.failed + self.not_made
    }

    pub(super) fn duration(&self, percent: f64) -> Option<f64> {
        percentile(&self.durations, percent)
    }
}

/// Groups calls by tool, the most frequent first.
pub(super) fn tools(requests: &[Arc<Request>]) -> Vec<(String, ToolSummary)> {
    let mut tools: BTreeMap<&str, ToolSummary> = BTreeMap::new();
    // The newest request comes first, so the first error found is the last one.
    for call in requests.iter().flat_map(|request| &request.calls) {
        let summary = tools.entry(&call.tool).or_default();
        match call.outcome {
            Some(CallOutcome::Ok) => summary.ok += 1,
            Some(CallOutcome::Failed) => summary.failed += 1,
            Some(CallOutcome::NotMade) => summary.not_made += 1,
            None => continue,
        }
        if let Some(end) = call.end.filter(|_| call.outcome != Some(CallOutcome::NotMade)) {
            summary.durations.push(super::data::milliseconds(end.saturating_sub(call.start)));
        }
        if summary.last_error.is_none() {
            summary.last_error.clone_from(&call.error);
        }
    }
    let mut tools: Vec<(String, ToolSummary)> =
        tools.into_iter().map(|(name, summary)| (name.to_owned(), summary)).collect();
    for (_, summary) in &mut tools {
        summary.durations.sort_by(f64::total_cmp);
    }
    tools.sort_by_key(|(_, summary)| std::cmp::Reverse(summary.calls()));
    tools
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(age: u64, now: SystemTime, elapsed: u64) -> Arc<Request> {
        Arc::new(Request {
            at: Some(now - Duration::from_secs(age)),
            outcome: Some(RequestOutcome::Ok),
            elapsed: Some(Duration::from_millis(elapsed)),
            model: Some("m".to_owned()),
            ..Request::default()
        })
    }

    #[test]
    fn every_request_of_the_period_is_in_one_bucket() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let requests: Vec<_> = [0, 1, 59, 600, 3_599, 3_600].map(|age| request(age, now, 10)).into();
        for (period, expected) in [(Period::Minutes15, 4), (Period::Hour, 6), (Period::All, 6)] {
            let filter = Filter { period, ..Filter::new(|_| None) };
            let selected: Vec<_> =
                requests.iter().filter(|request| filter.selects(request, now)).cloned().collect();
            let grouped = buckets(&selected, period, now);
            assert_eq!(grouped.buckets.iter().map(Bucket::requests).sum::<u32>(), expected, "{period:?}");
            assert!(grouped.buckets.len() <= 120);
        }
        assert_eq!(buckets(&[], Period::All, now).buckets.len(), 1);
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&values, 50.0), Some(50.0));
        assert_eq!(percentile(&values, 99.0), Some(99.0));
        assert_eq!(percentile(&[7.0], 99.0), Some(7.0));
        assert_eq!(percentile(&[], 50.0), None);
    }

    #[test]
    fn an_address_contains_the_filter() {
        let filter = Filter::new(|name| match name {
            "since" => Some("6h".to_owned()),
            "model" => Some("a b".to_owned()),
            "outcome" => Some("stopped".to_owned()),
            _ => None,
        });
        assert_eq!(filter.address().as_str(), "/traffic?since=6h&model=a%20b&outcome=stopped");
        assert_eq!(filter.outcome, Some(RequestOutcome::Stopped));
    }
}
