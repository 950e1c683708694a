//! Metrics that the operating system reports about this process.

use std::time::SystemTime;

use toolwire_gateway::metrics::{Measurement, MetricKind, MetricSource};

/// The unit of the times in `/proc/self/stat`, which is the same on all Linux systems.
const TICKS_PER_SECOND: f64 = 100.0;

/// The usual metrics of a process. Where there is no `/proc`, only the start is known.
pub(super) struct ProcessMetrics {
    start: SystemTime,
}

impl ProcessMetrics {
    pub(super) fn new() -> ProcessMetrics {
        ProcessMetrics { start: SystemTime::now() }
    }
}

impl MetricSource for ProcessMetrics {
    fn measure(&self) -> Vec<Measurement> {
        let started = self.start.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let values = [
            (
                "process.start_time",
                "s",
                "The start of the process, since the Unix epoch.",
                MetricKind::Gauge,
                Some(started.as_secs() as f64),
            ),
            ("process.cpu", "s", "The CPU time of the process.", MetricKind::Counter, cpu_seconds()),
            (
                "process.resident_memory",
                "By",
                "The resident memory of the process.",
                MetricKind::Gauge,
                resident_bytes(),
            ),
            (
                "process.open_fds",
                "1",
                "The open files and connections of the process.",
                MetricKind::Gauge,
                open_files(),
            ),
        ];
        let measured = values.into_iter().filter_map(|(name, unit, help, kind, value)| {
            Some(Measurement::new(name, unit, help, kind, vec![(Vec::new(), value?)]))
        });
        measured.collect()
    }
}

fn cpu_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in parentheses, may contain spaces. The first field after it is the third.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3)?.parse::<f64>().ok();
    Some((ticks(14)? + ticks(15)?) / TICKS_PER_SECOND)
}

fn resident_bytes() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? * 1024.0)
}

fn open_files() -> Option<f64> {
    // The folder itself is open while it is read.
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as f64)
}
