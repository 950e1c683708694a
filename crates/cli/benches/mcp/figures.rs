//! Medians and units.

use std::time::Duration;

pub(crate) fn median(all: impl IntoIterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = all.into_iter().collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Returns the median of sorted times.
pub(crate) fn middle(times: &[Duration]) -> Duration {
    times[times.len() / 2]
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1_000_000.0
}
