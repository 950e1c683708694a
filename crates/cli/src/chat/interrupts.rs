//! Ctrl-C presses and termination signals.

use std::io;
use std::time::{Duration, Instant};

use futures::FutureExt;

/// Two presses within this time exit.
const MAX_REPEAT_TIME: Duration = Duration::from_secs(2);

/// A stream of Ctrl-C presses. While it exists, Ctrl-C does not end the process.
pub(crate) struct Interrupts {
    #[cfg(unix)]
    signals: tokio::signal::unix::Signal,
    #[cfg(windows)]
    signals: tokio::signal::windows::CtrlC,
    presses: Presses,
}

/// The presses that stop or clear something. A second press shortly after the first exits.
#[derive(Default)]
struct Presses {
    last: Option<Instant>,
}

impl Presses {
    fn is_recent(&self, now: Instant) -> bool {
        self.last.is_some_and(|last| now.saturating_duration_since(last) < MAX_REPEAT_TIME)
    }

    fn repeats(&mut self, now: Instant) -> bool {
        let repeats = self.is_recent(now);
        self.last = Some(now);
        repeats
    }
}

impl Interrupts {
    #[cfg(unix)]
    pub(crate) fn listen() -> io::Result<Interrupts> {
        let interrupt = tokio::signal::unix::SignalKind::interrupt();
        Ok(Interrupts { signals: tokio::signal::unix::signal(interrupt)?, presses: Presses::default() })
    }

    #[cfg(windows)]
    pub(crate) fn listen() -> io::Result<Interrupts> {
        Ok(Interrupts { signals: tokio::signal::windows::ctrl_c()?, presses: Presses::default() })
    }

    /// Waits for the next Ctrl-C.
    pub(crate) async fn next(&mut self) {
        if self.signals.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Consumes a pending Ctrl-C without waiting. Returns whether there was one.
    pub(crate) fn take_pending(&mut self) -> bool {
        self.signals.recv().now_or_never().flatten().is_some()
    }

    /// Records a press. Returns whether the last one was shortly before.
    pub(crate) fn repeats(&mut self) -> bool {
        self.presses.repeats(Instant::now())
    }

    /// Whether the last press was shortly before.
    pub(crate) fn is_recent(&self) -> bool {
        self.presses.is_recent(Instant::now())
    }

    /// Forgets the last press, because the user has typed something since.
    pub(crate) fn forget(&mut self) {
        self.presses = Presses::default();
    }

    /// Discards presses from a time when there was nothing to stop.
    pub(crate) fn discard_pending(&mut self) {
        while self.take_pending() {}
    }
}

/// Waits for SIGTERM or SIGHUP and returns the exit code for it.
#[cfg(unix)]
pub(crate) fn termination_signal() -> io::Result<impl Future<Output = u8>> {
    use tokio::signal::unix::{SignalKind, signal};

    let (mut terminate, mut hangup) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
    Ok(async move {
        let signal = tokio::select! {
            _ = terminate.recv() => SignalKind::terminate(),
            _ = hangup.recv() => SignalKind::hangup(),
        };
        // The exit code that a shell reports for a process ended by this signal.
        u8::try_from(128 + signal.as_raw_value()).unwrap_or(u8::MAX)
    })
}

#[cfg(windows)]
pub(crate) fn termination_signal() -> io::Result<impl Future<Output = u8>> {
    Ok(std::future::pending())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_press_shortly_after_another_repeats_it() {
        let start = Instant::now();
        let mut presses = Presses::default();
        let times = [0, 1_999, 4_000, 6_000, 6_100, 8_099]
            .map(|millis| presses.repeats(start + Duration::from_millis(millis)));
        assert_eq!(times, [false, true, false, false, true, true]);
    }
}
