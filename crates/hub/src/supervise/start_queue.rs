//! Limits how many server processes start at the same time while the processor is busy.
//!
//! Package runners use a whole core for seconds. If dozens of them start at once on a small machine, none is ready
//! before its timeout. Servers that only wait while they start do not delay each other, so the limit applies only
//! while the processor has no time left.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

use crate::sync::lock;

/// The interval at which a waiting server checks the processor.
const CHECK_INTERVAL: Duration = Duration::from_millis(25);

/// The processor is busy if less than this share of its time was idle since the last check.
const MIN_IDLE_SHARE: f64 = 0.2;

/// Returns the time that all cores were idle, and their total time, since the machine started.
type ReadProcessorTimes = dyn Fn() -> Option<(u64, u64)> + Send + Sync;

/// The queue of the servers of a hub that are to be started.
pub(crate) struct StartQueue {
    permits: Arc<Semaphore>,
    processor_times: Box<ReadProcessorTimes>,
    last_times: Mutex<Option<(u64, u64)>>,
}

/// Held while a server starts. Without a permit, the server did not have to wait.
pub(crate) struct StartPermit(#[allow(dead_code)] Option<OwnedSemaphorePermit>);

impl StartQueue {
    pub(crate) fn new() -> StartQueue {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        StartQueue::with_processor(2 * cores.max(2), Box::new(processor_times))
    }

    fn with_processor(limit: usize, processor_times: Box<ReadProcessorTimes>) -> StartQueue {
        let last_times = Mutex::new(processor_times());
        StartQueue { permits: Arc::new(Semaphore::new(limit)), processor_times, last_times }
    }

    /// Waits until fewer servers than the limit are starting, or the processor has time left.
    pub(crate) async fn enter(&self) -> StartPermit {
        let mut permit = std::pin::pin!(self.permits.clone().acquire_owned());
        loop {
            tokio::select! {
                permit = &mut permit => return StartPermit(permit.ok()),
                () = sleep(CHECK_INTERVAL) => {
                    if self.is_idle() {
                        return StartPermit(None);
                    }
                }
            }
        }
    }

    /// Whether the processor had time left since the last check. Only one server is admitted per check, because it
    /// changes the answer for the others.
    fn is_idle(&self) -> bool {
        let mut last = lock(&self.last_times);
        let (Some(now), Some(before)) = ((self.processor_times)(), *last) else { return true };
        let (idle, total) = (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1));
        if total == 0 {
            return false;
        }
        *last = Some(now);
        idle as f64 / total as f64 >= MIN_IDLE_SHARE
    }
}

/// Reads the first line of `/proc/stat`. Other systems have no such file: there, no server waits.
fn processor_times() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let times: Vec<u64> = line.split_whitespace().map_while(|number| number.parse().ok()).collect();
    // The fields are user, nice, system, idle, iowait, …; the last two, for guests, are part of the first two.
    let idle = times.get(3)? + times.get(4)?;
    Some((idle, times.iter().take(8).sum()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::time::timeout;

    use super::*;

    /// A queue with a limit of two, on a processor that is always or never idle.
    fn queue(is_idle: bool) -> StartQueue {
        let total = AtomicU64::new(0);
        let times = move || {
            let total = total.fetch_add(100, Ordering::Relaxed);
            Some((if is_idle { total } else { 0 }, total))
        };
        StartQueue::with_processor(2, Box::new(times))
    }

    #[tokio::test]
    async fn servers_wait_while_the_processor_is_busy() {
        let queue = queue(false);
        let first = queue.enter().await;
        let _second = queue.enter().await;
        let mut third = std::pin::pin!(queue.enter());
        assert!(timeout(10 * CHECK_INTERVAL, &mut third).await.is_err(), "two servers are starting");
        drop(first);
        third.await;
    }

    #[tokio::test]
    async fn servers_do_not_wait_while_the_processor_is_idle() {
        let queue = queue(true);
        let mut permits = Vec::new();
        for _ in 0..10 {
            permits.push(queue.enter().await);
        }
        assert_eq!(permits.iter().filter(|permit| permit.0.is_some()).count(), 2);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_times_of_the_processor_are_read() {
        let (idle, total) = processor_times().expect("the file exists");
        assert!(total > idle);
    }
}
