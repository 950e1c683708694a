//! Responses in the background (`background: true`): they continue when the client has left, and any gateway
//! with the same store shows, cancels and continues them.
//!
//! The gateway that writes a response has its lease, which is a claim in the store. Each write renews it, and
//! fails if another gateway has taken it. So at most one gateway continues a response. A list in the store
//! contains the responses that are not complete, and when their leases may have expired.

mod ending;
mod guarded_tools;
mod journal;
mod run;
mod start;
mod stream;
mod supervisor;
mod takeover;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolwire_contract::state::StateKey;

pub(super) use ending::whole;
pub(crate) use guarded_tools::{CallGate, GateSender};
pub(crate) use journal::RunRecord;
pub(super) use start::StoredBackground;
pub(crate) use start::{BackgroundResponse, SavedRequest};
pub(crate) use supervisor::supervise;
pub(crate) use takeover::Resumed;

/// The responses that this process writes in the background.
#[derive(Default)]
pub(crate) struct Backgrounds {
    running: Mutex<HashMap<StateKey, Running>>,
    tasks: TaskTracker,
    /// Ends all responses, so that other gateways continue them.
    stop: CancellationToken,
}

struct Running {
    /// Ends the response. Nothing more is written.
    cancellation: CancellationToken,
    /// The number of entries of the log.
    progress: watch::Receiver<u64>,
}

/// Removes a response that is complete from the list.
struct Listed {
    backgrounds: Arc<Backgrounds>,
    key: StateKey,
    progress: watch::Receiver<u64>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut running = self.backgrounds.lock();
        // Another task may write the same response by now.
        if running.get(&self.key).is_some_and(|found| found.progress.same_channel(&self.progress)) {
            running.remove(&self.key);
        }
    }
}

impl Backgrounds {
    /// Starts a task that writes a response.
    fn spawn(
        self: &Arc<Backgrounds>,
        key: StateKey,
        progress: watch::Receiver<u64>,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let cancellation = CancellationToken::new();
        let running = Running { cancellation: cancellation.clone(), progress: progress.clone() };
        self.lock().insert(key.clone(), running);
        let listed = Listed { backgrounds: self.clone(), key, progress };
        self.tasks.spawn(async move {
            let _listed = listed;
            tokio::select! {
                biased;
                () = cancellation.cancelled() => {}
                () = task => {}
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<StateKey, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of entries of the log of a response that this process writes.
    fn progress(&self, key: &StateKey) -> Option<watch::Receiver<u64>> {
        self.lock().get(key).map(|running| running.progress.clone())
    }

    /// Ends a response that this process writes, because its right to do so was taken.
    fn end(&self, key: &StateKey) {
        if let Some(running) = self.lock().get(key) {
            running.cancellation.cancel();
        }
    }

    /// Whether the gateway stops, so that it begins no work of other gateways.
    fn is_closing(&self) -> bool {
        self.tasks.is_closed()
    }

    /// Waits until all responses are complete. After the time, the others are left to other gateways.
    pub(crate) async fn close(&self, grace_period: Duration) {
        self.tasks.close();
        if tokio::time::timeout(grace_period, self.tasks.wait()).await.is_err() {
            self.stop.cancel();
            self.tasks.wait().await;
        }
    }
}
