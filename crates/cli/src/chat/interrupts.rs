//! Ctrl-C, each time it is pressed; and being told to end.

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

    /// Whether one has come that nobody has waited for.
    pub(crate) fn has_come(&mut self) -> bool {
        self.signals.recv().now_or_never().flatten().is_some()
    }

    /// Those that came while nothing was to be stopped are forgotten.
    pub(crate) fn forget(&mut self) {
        while self.has_come() {}
    }
}

/// Waits until the process is told to end, by a signal or because its terminal is gone; and says the exit
/// code for it.
#[cfg(unix)]
pub(crate) fn told_to_end() -> io::Result<impl Future<Output = u8>> {
    use tokio::signal::unix::{SignalKind, signal};

    let (mut end, mut hang_up) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
    Ok(async move {
        let signal = tokio::select! {
            _ = end.recv() => SignalKind::terminate(),
            _ = hang_up.recv() => SignalKind::hangup(),
        };
        // As a shell writes a death by this signal.
        u8::try_from(128 + signal.as_raw_value()).unwrap_or(u8::MAX)
    })
}

#[cfg(windows)]
pub(crate) fn told_to_end() -> io::Result<impl Future<Output = u8>> {
    Ok(std::future::pending())
}
