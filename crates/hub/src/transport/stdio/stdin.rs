//! The stdin of a server process.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::process::ChildStdin;
use tokio::sync::Mutex;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// The interval between checks whether the process has read a message from its stdin.
const STDIN_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The stdin of the process; `None` after it is closed.
#[derive(Clone)]
pub(super) struct ProcessStdin(pub(super) Arc<Mutex<Option<ChildStdin>>>);

impl ProcessStdin {
    /// Writes a line, and reports to `set_delivered` whether the process may have received all of it.
    ///
    /// The process may act on the line, and even exit, before the write returns, so delivery is reported
    /// before the write and withdrawn if the line was not written completely. Servers read lines, so an
    /// incomplete line has no effect.
    pub(super) async fn write(&self, mut line: &[u8], set_delivered: impl Fn(bool)) -> io::Result<()> {
        let mut stdin = self.0.lock().await;
        let stdin = stdin.as_mut().ok_or_else(stdin_closed)?;
        while !line.is_empty() {
            let written = poll_fn(|context| {
                set_delivered(true);
                let written = Pin::new(&mut *stdin).poll_write(context, line);
                if !matches!(written, Poll::Ready(Ok(count)) if count == line.len()) {
                    set_delivered(false);
                }
                written
            });
            match written.await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => line = &line[count..],
            }
        }
        stdin.flush().await
    }

    /// Waits until the process has read what was written. Also returns when another message is being written,
    /// because the process has already responded by then.
    pub(super) async fn wait_until_read(&self) {
        while self.0.try_lock().is_ok_and(|stdin| stdin.as_ref().is_some_and(has_unread_data)) {
            sleep(STDIN_POLL_INTERVAL).await;
        }
    }

    /// Closes stdin when `stop` is cancelled, which asks the server to exit.
    pub(super) async fn close_on(self, stop: CancellationToken) {
        stop.cancelled().await;
        self.0.lock().await.take();
    }
}

#[cfg(unix)]
fn has_unread_data(stdin: &ChildStdin) -> bool {
    rustix::io::ioctl_fionread(stdin).is_ok_and(|count| count > 0)
}

#[cfg(not(unix))]
fn has_unread_data(_stdin: &ChildStdin) -> bool {
    false
}

pub(super) fn stdin_closed() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the stdin of the process is closed")
}
