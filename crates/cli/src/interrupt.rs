//! Ctrl-C: exit with code 130, at once or after a clean stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

/// Whether an interrupt exits the process at once.
static EXIT_AT_ONCE: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| Arc::new(AtomicBool::new(true)));

/// Makes an interrupt exit the process with code 130, instead of ending it with the signal. Shells report
/// that as 130 too, but other parent processes do not.
pub(crate) fn exit_on_interrupt() {
    // If the handler cannot be set, the default action of the signal still ends the process.
    let _ = signal_hook::flag::register_conditional_shutdown(
        signal_hook::consts::SIGINT,
        130,
        EXIT_AT_ONCE.clone(),
    );
}

/// Waits for an interrupt, which then does not exit the process. The next one does.
pub(crate) async fn wait() {
    let interrupt = next_interrupt();
    EXIT_AT_ONCE.store(false, Ordering::SeqCst);
    interrupt.await;
    EXIT_AT_ONCE.store(true, Ordering::SeqCst);
}

/// Listens from the call on, not from the first poll.
#[cfg(unix)]
fn next_interrupt() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let listener = signal(SignalKind::interrupt());
    async move {
        match listener {
            Ok(mut interrupts) => {
                interrupts.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(not(unix))]
async fn next_interrupt() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Listens for SIGHUP from now on. Each future that the returned function creates ends at the next SIGHUP; on
/// systems other than Unix, it never ends.
pub(crate) fn hangups() -> impl FnMut() -> futures::future::BoxFuture<'static, ()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let listener =
            signal(SignalKind::hangup()).ok().map(|listener| Arc::new(tokio::sync::Mutex::new(listener)));
        move || -> futures::future::BoxFuture<'static, ()> {
            let listener = listener.clone();
            Box::pin(async move {
                match listener {
                    Some(listener) => drop(listener.lock().await.recv().await),
                    None => std::future::pending().await,
                }
            })
        }
    }
    #[cfg(not(unix))]
    {
        || Box::pin(std::future::pending())
    }
}

/// Waits for SIGTERM, which requests a clean stop. SIGINT exits the process at once.
pub(crate) async fn wait_for_termination() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminated) = signal(SignalKind::terminate()) {
            terminated.recv().await;
            return;
        }
    }
    std::future::pending::<()>().await;
}
