//! Limits how many server processes start at the same time while the processor is busy.
//!
//! Package runners use a whole core for seconds. If dozens of them start at once on a small machine, none is
//! ready before its timeout. Servers that only wait while they start do not delay each other, so the limit
//! applies only while the processor has no time left, or its load is unknown.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

use crate::processor::{AVAILABLE_CORES, ProcessorTimes};
use crate::sync::lock;

/// The interval at which a waiting server checks the processor.
const CHECK_INTERVAL: Duration = Duration::from_millis(25);

type ReadProcessorTimes = dyn Fn() -> Option<ProcessorTimes> + Send + Sync;

/// The queue of the servers of a hub that are to be started.
pub(crate) struct StartQueue {
    permits: Arc<Semaphore>,
    /// Whether the limit also applies while the processor has time left.
    is_strict: bool,
    processor_times: Box<ReadProcessorTimes>,
    last_times: Mutex<Option<ProcessorTimes>>,
}

/// Held while a server starts. Without a permit, the server did not have to wait.
pub(crate) struct StartPermit(#[allow(dead_code)] Option<OwnedSemaphorePermit>);

impl StartQueue {
    /// With a configured limit, the load of the processor does not matter.
    pub(crate) fn new(limit: Option<NonZeroUsize>) -> StartQueue {
        let default = 2 * (*AVAILABLE_CORES).max(2);
        let queue = StartQueue::with_processor(
            limit.map_or(default, NonZeroUsize::get),
            Box::new(ProcessorTimes::read),
        );
        StartQueue { is_strict: limit.is_some(), ..queue }
    }

    fn with_processor(limit: usize, processor_times: Box<ReadProcessorTimes>) -> StartQueue {
        let last_times = Mutex::new(processor_times());
        let permits = Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS)));
        StartQueue { permits, is_strict: false, processor_times, last_times }
    }

    /// Waits until fewer servers than the limit are starting, or the processor has time left.
    pub(crate) async fn enter(&self) -> StartPermit {
        let mut permit = std::pin::pin!(self.permits.clone().acquire_owned());
        loop {
            tokio::select! {
                permit = &mut permit => return StartPermit(permit.ok()),
                () = sleep(CHECK_INTERVAL), if !self.is_strict => {
                    if self.is_idle() {
                        return StartPermit(None);
                    }
                }
            }
        }
    }

    /// Whether the processor had time left since the last check. Only one server is admitted per check,
    /// because it changes the answer for the others.
    fn is_idle(&self) -> bool {
        let mut last = lock(&self.last_times);
        let (Some(now), Some(before)) = ((self.processor_times)(), *last) else { return false };
        let Some(is_busy) = now.is_busy_since(before) else { return false };
        *last = Some(now);
        !is_busy
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::time::timeout;

    use super::*;

    /// A queue with a limit of two, on a processor that is always or never idle.
    fn queue(is_idle: bool) -> StartQueue {
        let available = AtomicU64::new(0);
        let times = move || {
            let available = available.fetch_add(100, Ordering::Relaxed);
            Some(ProcessorTimes { used: if is_idle { 0 } else { available }, available })
        };
        StartQueue::with_processor(2, Box::new(times))
    }

    /// Asserts that the third server starts only after one of the first two.
    async fn assert_third_waits(queue: &StartQueue) {
        let first = queue.enter().await;
        let _second = queue.enter().await;
        let mut third = std::pin::pin!(queue.enter());
        assert!(timeout(10 * CHECK_INTERVAL, &mut third).await.is_err(), "two servers are starting");
        drop(first);
        third.await;
    }

    #[tokio::test]
    async fn servers_wait_while_the_processor_is_busy_or_its_load_is_unknown() {
        assert_third_waits(&queue(false)).await;
        assert_third_waits(&StartQueue::with_processor(2, Box::new(|| None))).await;
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

    #[tokio::test]
    async fn a_configured_limit_applies_to_an_idle_processor_too() {
        assert_third_waits(&StartQueue { is_strict: true, ..queue(true) }).await;
    }
}
