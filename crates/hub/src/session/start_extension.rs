//! Gives a server process more time to start, while its package is being installed or the machine is busy.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::config::MAX_CONNECT_EXTENSION;
use crate::process_table::{self, descendants, processes, transferred_bytes};
use crate::processor::ProcessorTimes;
use crate::sync::lock;
use crate::transport::Connection;

/// The interval over which the activity of the machine is measured.
const INTERVAL: Duration = Duration::from_secs(3);

/// A package runner that used less processor time (in clock ticks) and transferred fewer bytes than this
/// within an interval counts as idle.
const MIN_PROCESSOR_TIME: u64 = 5;
const MIN_BYTES: u64 = 64 * 1024;

/// Programs that may install a package before they start the server in it.
const PACKAGE_RUNNERS: [&str; 13] =
    ["bun", "bunx", "deno", "docker", "npm", "npx", "pipx", "pnpm", "pnpx", "podman", "uv", "uvx", "yarn"];

/// The reason why a server gets more time to start than its timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlowStart {
    /// Its command is a package runner such as `npx`, which is still working.
    Installing,
    /// The processor is busy.
    BusyProcessor,
}

impl SlowStart {
    /// Returns the reason in words, to be used after "because".
    pub(super) fn reason(self) -> &'static str {
        match self {
            SlowStart::Installing => "its package is being installed",
            SlowStart::BusyProcessor => "the processor is busy",
        }
    }

    /// Returns the maximum time for connecting, as a multiple of the timeout. An interrupted installation may
    /// leave a damaged package behind, so it gets more time, if it can be observed.
    fn max_extension(self) -> u32 {
        match self {
            SlowStart::Installing if process_table::exists() => MAX_CONNECT_EXTENSION,
            SlowStart::Installing | SlowStart::BusyProcessor => 4,
        }
    }
}

/// Receives the reason whenever the time is extended.
pub(crate) type OnSlowStart = Arc<dyn Fn(SlowStart) + Send + Sync>;

/// The extension of one attempt to connect.
pub(super) struct StartExtension {
    start: Instant,
    timeout: Duration,
    is_package_runner: bool,
    /// The id of the server's process, and the connection to it.
    process: Mutex<Option<(i32, Arc<Connection>)>>,
    on_slow_start: OnSlowStart,
    /// The last reason, and the time since the start when it was found.
    last: Mutex<Option<(SlowStart, Duration)>>,
}

impl StartExtension {
    pub(super) fn new(command: &str, timeout: Duration, on_slow_start: OnSlowStart) -> StartExtension {
        let program = Path::new(command).file_stem().and_then(|name| name.to_str());
        StartExtension {
            start: Instant::now(),
            timeout,
            is_package_runner: program.is_some_and(|name| PACKAGE_RUNNERS.contains(&name)),
            process: Mutex::new(None),
            on_slow_start,
            last: Mutex::new(None),
        }
    }

    pub(super) fn set_process(&self, process: Option<u32>, connection: &Arc<Connection>) {
        let process = process.and_then(|process| i32::try_from(process).ok());
        *lock(&self.process) = process.map(|process| (process, connection.clone()));
    }

    /// Waits, after the timeout has passed, until there is no reason left to extend it.
    pub(super) async fn expired(&self) {
        let mut before = self.measure();
        loop {
            sleep(INTERVAL).await;
            let now = self.measure();
            let Some(reason) = now.slow_start_since(&before) else { return };
            before = now;
            *lock(&self.last) = Some((reason, self.start.elapsed()));
            if self.start.elapsed() >= self.timeout * reason.max_extension() {
                return;
            }
            (self.on_slow_start)(reason);
        }
    }

    /// Returns the last reason and the extended time, rounded to seconds; `None` if it was not extended.
    pub(super) fn extended(&self) -> Option<(SlowStart, Duration)> {
        let (reason, after) = (*lock(&self.last))?;
        Some((reason, Duration::from_secs(after.as_secs_f64().round() as u64)))
    }

    fn measure(&self) -> Activity {
        Activity { processor: ProcessorTimes::read(), runner: self.measure_runner() }
    }

    fn measure_runner(&self) -> Runner {
        let process = lock(&self.process);
        // Package runners write nothing to stdout, so any output is the server's.
        let Some((pid, connection)) = process.as_ref().filter(|_| self.is_package_runner) else {
            return Runner::None;
        };
        if connection.has_output() {
            return Runner::None;
        }
        if !process_table::exists() {
            return Runner::Unknown;
        }
        let processes = processes();
        let runner = processes.iter().filter(|entry| entry.pid == *pid);
        let (time, bytes) = runner.chain(descendants(*pid, &processes)).fold((0, 0), |sum, entry| {
            (sum.0 + entry.processor_time, sum.1 + transferred_bytes(entry.pid).unwrap_or(0))
        });
        Runner::Active { time, bytes }
    }
}

/// A measurement of the machine's activity at one moment.
#[derive(Clone, Copy)]
struct Activity {
    processor: Option<ProcessorTimes>,
    runner: Runner,
}

/// A measurement of a package runner's activity at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runner {
    /// There is none, or it has started the server.
    None,
    /// The system has no process table.
    Unknown,
    /// The processor time and the transferred bytes of the runner and its descendants.
    Active { time: u64, bytes: u64 },
}

impl Activity {
    fn slow_start_since(&self, before: &Activity) -> Option<SlowStart> {
        let is_installing = match (self.runner, before.runner) {
            (Runner::Unknown, _) => true,
            // The values of a process are lost when it ends, so a decrease is activity too.
            (Runner::Active { time, bytes }, Runner::Active { time: time_before, bytes: bytes_before }) => {
                time.abs_diff(time_before) >= MIN_PROCESSOR_TIME || bytes.abs_diff(bytes_before) >= MIN_BYTES
            }
            _ => false,
        };
        if is_installing {
            return Some(SlowStart::Installing);
        }
        let is_busy = self.processor?.is_busy_since(before.processor?)?;
        is_busy.then_some(SlowStart::BusyProcessor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn activity(used: u64, available: u64, time: u64, bytes: u64) -> Activity {
        let processor = Some(ProcessorTimes { used, available });
        Activity { processor, runner: Runner::Active { time, bytes } }
    }

    #[test]
    fn only_a_reason_extends_the_time() {
        let before = activity(0, 0, 100, 0);
        let idle = activity(10, 600, 101, 1000);
        assert_eq!(idle.slow_start_since(&before), None);
        let busy = activity(590, 600, 101, 1000);
        assert_eq!(busy.slow_start_since(&before), Some(SlowStart::BusyProcessor));
        for (time, bytes) in [(150, 0), (100, 1 << 20), (10, 0)] {
            let working = activity(590, 600, time, bytes);
            assert_eq!(working.slow_start_since(&before), Some(SlowStart::Installing), "{time} {bytes}");
        }
        let unknown = |runner| Activity { processor: None, runner };
        assert_eq!(unknown(Runner::None).slow_start_since(&before), None);
        let installing = unknown(Runner::Unknown).slow_start_since(&unknown(Runner::Unknown));
        assert_eq!(installing, Some(SlowStart::Installing));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_server_that_writes_is_installed() {
        let extension = StartExtension::new("npx", Duration::from_secs(1), Arc::new(|_| {}));
        assert_eq!(extension.measure_runner(), Runner::None);
        let connection = Connection::new("a", crate::raw_capture::SdkSchemas::Unused);
        extension.set_process(Some(std::process::id()), &connection);
        assert!(matches!(extension.measure_runner(), Runner::Active { .. }));
        connection.set_has_output();
        assert_eq!(extension.measure_runner(), Runner::None);
    }

    #[test]
    fn package_runners_are_recognized_by_their_name() {
        let is_runner = |command| {
            StartExtension::new(command, Duration::from_secs(1), Arc::new(|_| {})).is_package_runner
        };
        assert!(is_runner("npx") && is_runner("/usr/bin/uvx") && is_runner("npx.cmd"));
        assert!(!is_runner("node") && !is_runner("/opt/npx/server") && !is_runner(""));
    }

    #[tokio::test(start_paused = true)]
    async fn the_extension_is_bounded() {
        let start = Instant::now();
        let extension = StartExtension::new("x", Duration::from_secs(10), Arc::new(|_| {}));
        extension.expired().await;
        assert!(start.elapsed() <= Duration::from_secs(40) + INTERVAL);
    }
}
