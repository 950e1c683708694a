//! A time limit for a server, which stands still while a person is asked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// The time that a server has, from now on. A login takes a person as long as it takes, and is none of the server's time.
pub(crate) struct Limit {
    time: Duration,
    until: Mutex<Instant>,
    /// Whether a person is asked.
    asking: Option<watch::Receiver<bool>>,
    stood_still: AtomicBool,
}

impl Limit {
    pub(crate) fn new(time: Duration, asking: Option<watch::Receiver<bool>>) -> Limit {
        Limit { time, until: Mutex::new(Instant::now() + time), asking, stood_still: AtomicBool::new(false) }
    }

    /// The whole of it.
    pub(crate) fn time(&self) -> Duration {
        self.time
    }

    /// Whether a person was asked since this was last asked for.
    pub(crate) fn stood_still(&self) -> bool {
        self.stood_still.swap(false, Ordering::Relaxed)
    }

    /// Waits until it is over. One at a time may wait.
    pub(crate) async fn over(&self) {
        let Some(mut asking) = self.asking.clone() else { return sleep_until(self.until()).await };
        loop {
            let is_asking = *asking.borrow_and_update();
            let begun = Instant::now();
            tokio::select! {
                () = sleep_until(self.until()), if !is_asking => return,
                changed = asking.changed() => {
                    if is_asking {
                        self.stood_still.store(true, Ordering::Relaxed);
                        *self.until.lock().unwrap_or_else(PoisonError::into_inner) += begun.elapsed();
                    }
                    if changed.is_err() {
                        return sleep_until(self.until()).await;
                    }
                }
            }
        }
    }

    fn until(&self) -> Instant {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn it_stands_still_while_a_person_is_asked() {
        let (asked, asking) = watch::channel(false);
        let limit = Limit::new(5 * SECOND, Some(asking));
        let start = Instant::now();
        let person = async {
            tokio::time::sleep(2 * SECOND).await;
            asked.send_replace(true);
            tokio::time::sleep(300 * SECOND).await;
            asked.send_replace(false);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = limit.over() => {}
            () = person => {}
        }
        assert_eq!(start.elapsed(), 305 * SECOND);
        assert!(limit.stood_still() && !limit.stood_still());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_to_ask_leaves_it_as_it_is() {
        let start = Instant::now();
        Limit::new(5 * SECOND, None).over().await;
        let (asked, asking) = watch::channel(false);
        drop(asked);
        Limit::new(5 * SECOND, Some(asking)).over().await;
        assert_eq!(start.elapsed(), 10 * SECOND);
    }
}
