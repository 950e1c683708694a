//! The number of instructions that a process executes, also in the kernel, as `perf` counts them.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The time in which `perf` attaches to a process.
const ATTACH_TIME: Duration = Duration::from_millis(500);

/// Counts until [`Counter::stop`].
pub(crate) struct Counter(Child);

impl Counter {
    /// Returns `None` without `perf`.
    pub(crate) async fn start(process: u32) -> Option<Counter> {
        let perf = Command::new("perf")
            .args(["stat", "-x", ";", "-e", "instructions", "-p", &process.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .ok()?;
        tokio::time::sleep(ATTACH_TIME).await;
        Some(Counter(perf))
    }

    /// Returns the number of instructions, if the processor counts them.
    pub(crate) fn stop(mut self) -> Option<f64> {
        let process = self.0.id().to_string();
        Command::new("kill").args(["-INT", &process]).status().ok()?;
        let lines = BufReader::new(self.0.stderr.take()?).lines();
        let counts = lines.map_while(Result::ok).filter(|line| line.contains("instructions"));
        let count = counts.filter_map(|line| line.split(';').next()?.parse::<f64>().ok()).sum();
        let _ = self.0.wait();
        Some(count)
    }
}
