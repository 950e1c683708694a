//! The load of the processor, read from `/proc/stat`. On systems without this file, the load is unknown.

use std::num::NonZeroUsize;
use std::sync::LazyLock;

/// The processor is busy if at least this share of the available time was used.
const MIN_BUSY_SHARE: f64 = 0.8;

/// The number of cores that this process may use, which a container may limit.
pub(crate) static AVAILABLE_CORES: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(1, NonZeroUsize::get));

/// The processor time of the machine since it started, in clock ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessorTimes {
    /// Of all cores, because it is unknown which of them this process may use.
    pub(crate) used: u64,
    /// Of as many cores as this process may use.
    pub(crate) available: u64,
}

impl ProcessorTimes {
    pub(crate) fn read() -> Option<ProcessorTimes> {
        parse(&std::fs::read_to_string("/proc/stat").ok()?, *AVAILABLE_CORES)
    }

    /// Whether the processor was busy since `before`; `None` if no time has passed.
    pub(crate) fn is_busy_since(self, before: ProcessorTimes) -> Option<bool> {
        let used = self.used.saturating_sub(before.used);
        let available = self.available.saturating_sub(before.available);
        (available > 0).then_some(used as f64 >= available as f64 * MIN_BUSY_SHARE)
    }
}

/// Parses a line with the sum of all cores, which is followed by a line for each.
fn parse(text: &str, available_cores: usize) -> Option<ProcessorTimes> {
    let (sum, rest) = text.split_once('\n')?;
    let cores = rest.lines().take_while(|line| line.starts_with("cpu")).count().max(1);
    let times = sum.strip_prefix("cpu ")?.split_whitespace();
    let times: Vec<u64> = times.map_while(|number| number.parse().ok()).collect();
    // The fields are user, nice, system, idle, iowait, …; the last two, for guests, are part of the first
    // two.
    let idle = times.get(3)? + times.get(4)?;
    let total: u64 = times.iter().take(8).sum();
    let available = total.saturating_mul(available_cores.min(cores) as u64) / cores as u64;
    Some(ProcessorTimes { used: total.saturating_sub(idle), available })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn the_times_of_the_processor_are_read() {
        let times = ProcessorTimes::read().expect("the file exists");
        assert!(times.used > 0 && times.available > 0);
    }

    #[test]
    fn only_the_available_cores_count() {
        let text = format!("cpu  100 20 30 700 50 0 0 100 7 7\n{}intr 1\n", "cpu0 1 2 3\n".repeat(16));
        for (cores, available) in [(2, 125), (16, 1000), (64, 1000)] {
            assert_eq!(parse(&text, cores), Some(ProcessorTimes { used: 250, available }));
        }
        assert_eq!(parse("cpu  1 2\n", 2), None);
    }

    #[test]
    fn a_processor_without_idle_time_is_busy() {
        let before = ProcessorTimes { used: 50, available: 100 };
        assert_eq!(ProcessorTimes { used: 140, available: 200 }.is_busy_since(before), Some(true));
        assert_eq!(ProcessorTimes { used: 120, available: 200 }.is_busy_since(before), Some(false));
        assert_eq!(before.is_busy_since(before), None);
    }
}
