//! Counters and histograms by labels, with a bounded number of label combinations.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Measurement, MetricData, MetricKind, MetricLabels};

/// The maximum number of label combinations of one metric. Beyond it, new combinations count as `other`.
const MAX_SERIES: usize = 512;

/// The value of a label for everything that has no value of its own.
pub(crate) const OTHER: &str = "other";

/// Separates the values of a key. Label values contain no control characters.
const SEPARATOR: char = '\u{1f}';

/// A metric with its labels. `open` are the positions of the labels whose values come from configurations and
/// servers; the values of the others are fixed in the code.
pub(super) struct Metric<V> {
    name: &'static str,
    unit: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    open: &'static [usize],
    series: Mutex<HashMap<String, V>>,
}

/// The distribution of a value.
pub(super) struct Histogram {
    /// How many values are in each bucket; the last one has no upper limit.
    counts: Vec<u64>,
    sum: f64,
}

impl<V> Metric<V> {
    /// The name, the unit and the labels are those of OpenTelemetry.
    pub(super) fn new(
        (name, unit): (&'static str, &'static str),
        help: &'static str,
        labels: &'static [&'static str],
        open: &'static [usize],
    ) -> Metric<V> {
        Metric { name, unit, help, labels, open, series: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, V>> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the value of a label combination.
    fn change(&self, values: &[&str], new: impl FnOnce() -> V, change: impl FnOnce(&mut V)) {
        let mut series = self.lock();
        let mut found = key(values);
        if series.len() >= MAX_SERIES && !series.contains_key(&found) {
            let mut values = values.to_vec();
            for position in self.open {
                if let Some(value) = values.get_mut(*position)
                    && !value.is_empty()
                {
                    *value = OTHER;
                }
            }
            found = key(&values);
        }
        change(series.entry(found).or_insert_with(new));
    }

    fn measurement(&self, kind: MetricKind, data: MetricData) -> Measurement {
        Measurement { name: self.name, unit: self.unit, help: self.help, kind, data }
    }

    /// Returns the labels and what `read` returns for their value, in the order of the labels.
    fn sorted<T>(&self, read: impl Fn(&V) -> T) -> Vec<(MetricLabels, T)> {
        let series = self.lock();
        let mut keys: Vec<(&String, &V)> = series.iter().collect();
        keys.sort_by_key(|(key, _)| *key);
        let labelled = |key: &str| {
            let values = key.split(SEPARATOR).map(str::to_owned);
            self.labels.iter().copied().zip(values).collect()
        };
        keys.into_iter().map(|(key, value)| (labelled(key), read(value))).collect()
    }
}

impl Metric<u64> {
    pub(super) fn add(&self, labels: &[&str], amount: u64) {
        self.change(labels, || 0, |value| *value += amount);
    }

    pub(super) fn measure(&self) -> Measurement {
        self.measurement(MetricKind::Counter, MetricData::Numbers(self.sorted(|value| *value as f64)))
    }
}

impl Metric<Histogram> {
    /// Adds a value. `buckets` are the upper limits, which must always be the same.
    pub(super) fn record(&self, labels: &[&str], buckets: &[f64], value: f64) {
        let bucket = buckets.iter().position(|limit| value <= *limit).unwrap_or(buckets.len());
        let new = || Histogram { counts: vec![0; buckets.len() + 1], sum: 0.0 };
        self.change(labels, new, |histogram| {
            histogram.counts[bucket] += 1;
            histogram.sum += value;
        });
    }

    pub(super) fn measure(&self, limits: &'static [f64]) -> Measurement {
        let series = self.sorted(|value| (value.counts.clone(), value.sum));
        let distribution = |(labels, (counts, sum))| (labels, Distribution { limits, counts, sum });
        let data = MetricData::Distributions(series.into_iter().map(distribution).collect());
        self.measurement(MetricKind::Histogram, data)
    }
}

/// How often a value was in each of several ranges.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// The upper limits of the ranges. There is one more range, without an upper limit.
    pub limits: &'static [f64],
    pub counts: Vec<u64>,
    pub sum: f64,
}

fn key(values: &[&str]) -> String {
    let mut key = String::with_capacity(values.iter().map(|value| value.len() + 1).sum());
    for (position, value) in values.iter().enumerate() {
        if position > 0 {
            key.push(SEPARATOR);
        }
        key.extend(value.chars().map(|character| if character.is_control() { ' ' } else { character }));
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_label_combinations_is_bounded() {
        let metric: Metric<u64> = Metric::new(("x", "1"), "X", &["fixed", "open"], &[1]);
        for number in 0..10 * MAX_SERIES {
            metric.add(&["a", &number.to_string()], 1);
        }
        metric.add(&["b", ""], 1);
        let MetricData::Numbers(series) = metric.measure().data else { panic!("a counter") };
        assert!(series.len() <= MAX_SERIES + 2, "{}", series.len());
        let of = |fixed: &str, open: &str| {
            let labels = vec![("fixed", fixed.to_owned()), ("open", open.to_owned())];
            series.iter().find(|(found, _)| *found == labels).map(|(_, value)| *value)
        };
        assert_eq!(of("a", OTHER), Some((9 * MAX_SERIES) as f64));
        assert_eq!(of("b", ""), Some(1.0));
    }

    #[test]
    fn a_histogram_counts_what_is_in_each_range() {
        let metric: Metric<Histogram> = Metric::new(("t", "s"), "T", &["l"], &[]);
        for value in [0.1, 0.5, 3.0] {
            metric.record(&["a"], &[0.1, 1.0], value);
        }
        let MetricData::Distributions(series) = metric.measure(&[0.1, 1.0]).data else {
            panic!("a histogram")
        };
        assert_eq!(series[0].0, [("l", "a".to_owned())]);
        assert_eq!((&*series[0].1.counts, series[0].1.sum), (&[1, 1, 1][..], 3.6));
    }
}
