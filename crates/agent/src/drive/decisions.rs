//! Decisions about calls that arrive while a run is driven.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::approval::Decision;

/// The decisions that the run has not used yet, with the ids of their calls.
#[derive(Default)]
pub(super) struct Decisions {
    queue: Mutex<VecDeque<(String, Decision)>>,
    added: Notify,
}

impl Decisions {
    fn queue(&self) -> MutexGuard<'_, VecDeque<(String, Decision)>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, id: String, decision: Decision) {
        self.queue().push_back((id, decision));
        self.added.notify_one();
    }

    /// Removes and returns all decisions.
    pub(super) fn take(&self) -> Vec<(String, Decision)> {
        self.queue().drain(..).collect()
    }

    /// Waits until there are decisions, and takes them.
    pub(super) async fn next(&self) -> Vec<(String, Decision)> {
        loop {
            let taken = self.take();
            if !taken.is_empty() {
                return taken;
            }
            self.added.notified().await;
        }
    }
}
