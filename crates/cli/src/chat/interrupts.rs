//! Ctrl-C, each time it is pressed.

use std::io;

use futures::FutureExt;

/// From here on Ctrl-C does not end the process, but is told.
pub(crate) struct Interrupts {
    #[cfg(unix)]
    signals: tokio::signal::unix::Signal,
    #[cfg(windows)]
    signals: tokio::signal::windows::CtrlC,
}

impl Interrupts {
    #[cfg(unix)]
    pub(crate) fn begin() -> io::Result<Interrupts> {
        let interrupt = tokio::signal::unix::SignalKind::interrupt();
        Ok(Interrupts { signals: tokio::signal::unix::signal(interrupt)? })
    }

    #[cfg(windows)]
    pub(crate) fn begin() -> io::Result<Interrupts> {
        Ok(Interrupts { signals: tokio::signal::windows::ctrl_c()? })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        if self.signals.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Those that came while nothing was to be stopped are forgotten.
    pub(crate) fn forget(&mut self) {
        while self.signals.recv().now_or_never().flatten().is_some() {}
    }
}
