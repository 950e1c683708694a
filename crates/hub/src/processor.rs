//! The load of the processor, read from `/proc/stat`. Other systems have no such file: there, it is unknown.

/// The processor is busy if less than this share of its time was idle.
const MIN_IDLE_SHARE: f64 = 0.2;

/// The time that all cores were idle, and their total time, since the machine started; in clock ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessorTimes {
    pub(crate) idle: u64,
    pub(crate) total: u64,
}

impl ProcessorTimes {
    pub(crate) fn read() -> Option<ProcessorTimes> {
        let text = std::fs::read_to_string("/proc/stat").ok()?;
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let times: Vec<u64> = line.split_whitespace().map_while(|number| number.parse().ok()).collect();
        // The fields are user, nice, system, idle, iowait, …; the last two, for guests, are part of the first two.
        let idle = times.get(3)? + times.get(4)?;
        Some(ProcessorTimes { idle, total: times.iter().take(8).sum() })
    }

    /// Whether the processor had no time left since `before`; `None` if no time has passed.
    pub(crate) fn is_busy_since(self, before: ProcessorTimes) -> Option<bool> {
        let (idle, total) = (self.idle.saturating_sub(before.idle), self.total.saturating_sub(before.total));
        (total > 0).then_some((idle as f64) < total as f64 * MIN_IDLE_SHARE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn the_times_of_the_processor_are_read() {
        let times = ProcessorTimes::read().expect("the file exists");
        assert!(times.total > times.idle);
    }

    #[test]
    fn a_processor_without_idle_time_is_busy() {
        let before = ProcessorTimes { idle: 50, total: 100 };
        assert_eq!(ProcessorTimes { idle: 60, total: 200 }.is_busy_since(before), Some(true));
        assert_eq!(ProcessorTimes { idle: 80, total: 200 }.is_busy_since(before), Some(false));
        assert_eq!(before.is_busy_since(before), None);
    }
}
