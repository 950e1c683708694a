//! Ctrl-C: exit code 130, at once or after what was begun is ended in good order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

/// Whether an interrupt ends the process by itself.
static AT_ONCE: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| Arc::new(AtomicBool::new(true)));

/// From here on, an interrupt ends the process with 130: scripts that look at the exit code itself should not
/// see a death by signal that only a shell translates.
pub(crate) fn ends_the_process() {
    // Where no handler can be set, the system's own way of ending the process is good enough.
    let _ =
        signal_hook::flag::register_conditional_shutdown(signal_hook::consts::SIGINT, 130, AT_ONCE.clone());
}

/// Waits for an interrupt, which then does not end the process. The next one does.
pub(crate) async fn awaited() {
    let interrupted = first();
    AT_ONCE.store(false, Ordering::SeqCst);
    interrupted.await;
    AT_ONCE.store(true, Ordering::SeqCst);
}

/// Listens from the call on, not from the first poll.
#[cfg(unix)]
fn first() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let listening = signal(SignalKind::interrupt());
    async move {
        match listening {
            Ok(mut interrupts) => {
                interrupts.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(not(unix))]
async fn first() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
