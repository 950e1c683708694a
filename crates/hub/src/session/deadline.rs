//! A deadline that is paused while a user logs in, and may be extended while a server starts.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::start_extension::StartExtension;
use crate::sync::lock;

/// The deadline for connecting to a server or listing its tools. The time that a user takes to log in does
/// not count.
pub(super) struct PausableDeadline {
    total: Duration,
    until: Mutex<Instant>,
    /// Whether a user is logging in.
    login: Option<watch::Receiver<bool>>,
    was_paused: AtomicBool,
    extension: Option<StartExtension>,
}

impl PausableDeadline {
    pub(super) fn new(total: Duration, login: Option<watch::Receiver<bool>>) -> PausableDeadline {
        let until = Mutex::new(Instant::now() + total);
        PausableDeadline { total, until, login, was_paused: AtomicBool::new(false), extension: None }
    }

    pub(super) fn extended_by(self, extension: Option<StartExtension>) -> PausableDeadline {
        PausableDeadline { extension, ..self }
    }

    pub(super) fn extension(&self) -> Option<&StartExtension> {
        self.extension.as_ref()
    }

    /// Returns the total time without pauses.
    pub(super) fn total(&self) -> Duration {
        self.total
    }

    /// Whether the deadline was paused since the last call of this function.
    pub(super) fn take_was_paused(&self) -> bool {
        self.was_paused.swap(false, Ordering::Relaxed)
    }

    /// Waits until the deadline has passed. Only one task may wait at a time.
    pub(super) async fn expired(&self) {
        self.passed().await;
        if let Some(extension) = &self.extension {
            extension.expired().await;
        }
    }

    async fn passed(&self) {
        let Some(mut login) = self.login.clone() else { return sleep_until(self.until()).await };
        loop {
            let is_paused = *login.borrow_and_update();
            let start = Instant::now();
            tokio::select! {
                () = sleep_until(self.until()), if !is_paused => return,
                changed = login.changed() => {
                    if is_paused {
                        self.was_paused.store(true, Ordering::Relaxed);
                        *lock(&self.until) += start.elapsed();
                    }
                    if changed.is_err() {
                        return sleep_until(self.until()).await;
                    }
                }
            }
        }
    }

    fn until(&self) -> Instant {
        *lock(&self.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_deadline_is_paused_while_a_user_logs_in() {
        let (set_login, login) = watch::channel(false);
        let deadline = PausableDeadline::new(5 * SECOND, Some(login));
        let start = Instant::now();
        let user = async {
            tokio::time::sleep(2 * SECOND).await;
            set_login.send_replace(true);
            tokio::time::sleep(300 * SECOND).await;
            set_login.send_replace(false);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = deadline.expired() => {}
            () = user => {}
        }
        assert_eq!(start.elapsed(), 305 * SECOND);
        assert!(deadline.take_was_paused() && !deadline.take_was_paused());
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_is_not_paused_without_a_login() {
        let start = Instant::now();
        PausableDeadline::new(5 * SECOND, None).expired().await;
        let (set_login, login) = watch::channel(false);
        drop(set_login);
        PausableDeadline::new(5 * SECOND, Some(login)).expired().await;
        assert_eq!(start.elapsed(), 10 * SECOND);
    }
}
