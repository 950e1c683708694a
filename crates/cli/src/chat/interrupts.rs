//! Ctrl-C presses and termination signals.

use std::io;

use futures::FutureExt;

/// A stream of Ctrl-C presses. While it exists, Ctrl-C does not end the process.
pub(crate) struct Interrupts {
    #[cfg(unix)]
    signals: tokio::signal::unix::Signal,
    #[cfg(windows)]
    signals: tokio::signal::windows::CtrlC,
}

impl Interrupts {
    #[cfg(unix)]
    pub(crate) fn listen() -> io::Result<Interrupts> {
        let interrupt = tokio::signal::unix::SignalKind::interrupt();
        Ok(Interrupts { signals: tokio::signal::unix::signal(interrupt)? })
    }

    #[cfg(windows)]
    pub(crate) fn listen() -> io::Result<Interrupts> {
        Ok(Interrupts { signals: tokio::signal::windows::ctrl_c()? })
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
