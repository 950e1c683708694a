//! The ids of the running requests of sessions.
//!
//! The SDK sends a response to the latest request with its id. An earlier request with the same id would get
//! no response until the session ends.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;

/// The time that a request waits until the previous one releases the id: a client may receive the end of a
/// response slightly before the server notices that it was sent.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Clone, Default)]
pub(super) struct RunningIds {
    ids: Arc<Mutex<HashSet<(String, String)>>>,
    released: Arc<Notify>,
}

/// The id of a running request. Dropping this releases it.
pub(super) struct RunningId {
    all: RunningIds,
    id: (String, String),
}

impl RunningIds {
    /// Reserves the id of a request. Returns `None` if another request of the session has it.
    pub(super) async fn reserve(&self, session: &str, id: &Value) -> Option<RunningId> {
        let id = (session.to_owned(), id.to_string());
        let reserved = async {
            loop {
                let mut released = std::pin::pin!(self.released.notified());
                released.as_mut().enable();
                if self.lock().insert(id.clone()) {
                    return;
                }
                released.await;
            }
        };
        tokio::time::timeout(RELEASE_TIMEOUT, reserved).await.ok()?;
        Some(RunningId { all: self.clone(), id })
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<(String, String)>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunningId {
    fn drop(&mut self) {
        self.all.lock().remove(&self.id);
        self.all.released.notify_waiters();
    }
}
