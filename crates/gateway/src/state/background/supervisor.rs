//! Finds responses whose gateway has died, so that they continue although no client asks for them.
//!
//! Each response is in a list of the store until it is complete, and is due when its lease may have expired.
//! All gateways read the list, and the one that gets the lease of a response continues it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use toolwire_contract::conversations::StoreError;
use toolwire_contract::state::StateKey;

use super::takeover::Takeover;
use crate::gateway::{Gateway, Inner};
use crate::ids::random_fraction;
use crate::response::Failure;
use crate::state::ResponseStorage;

/// The average number of times that the list is read in the lifetime of a lease.
const READS: u32 = 4;

/// The minimum time between two reads, on average.
const MIN_PAUSE: Duration = Duration::from_millis(100);

/// The number of responses that are read at once.
const PAGE: u64 = 16;

/// Continues the responses of gateways that have died, until `stop`.
pub(crate) async fn supervise(gateways: watch::Receiver<Gateway>, stop: CancellationToken) {
    loop {
        let lease = gateways.borrow().0.settings.limits.background_lease;
        // Not all gateways read the list at the same time.
        let pause = (lease / READS).max(MIN_PAUSE).mul_f64(0.5 + random_fraction());
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        let inner = gateways.borrow().0.clone();
        // The storage stays the same when the configuration is read again.
        let Some(storage) = inner.settings.responses.clone() else { return };
        // Calls of the tools of a server that is still starting would fail.
        if inner.given_tools.missing_servers().iter().any(|server| server.is_starting) {
            continue;
        }
        while !stop.is_cancelled() && inner.continue_due(&storage).await {}
    }
}

impl Inner {
    /// Continues responses of gateways that have died. Returns whether there may be more of them.
    async fn continue_due(self: &Arc<Inner>, storage: &ResponseStorage) -> bool {
        let due = match storage.store.due(PAGE).await {
            Ok(due) => due,
            Err(error) => {
                tracing::warn!(%error, "responses of gateways that have died cannot be found");
                return false;
            }
        };
        let is_full = due.len() as u64 == PAGE;
        for key in due {
            if self.backgrounds.is_closing() {
                return false;
            }
            if let Err(problem) = self.continue_one(storage, &key).await {
                tracing::warn!(problem, %key, "a response in the background is not continued");
                return false;
            }
        }
        is_full
    }

    async fn continue_one(
        self: &Arc<Inner>,
        storage: &ResponseStorage,
        key: &StateKey,
    ) -> Result<(), String> {
        // A response of this process is due if its entry has not been renewed yet.
        let taken = match self.backgrounds.progress(key) {
            Some(_) => Takeover::IsHeld,
            None => self.take(storage, key, None).await.map_err(|failure: Failure| failure.error.message)?,
        };
        match taken {
            // It is due again later, so that it does not block the others in the list.
            Takeover::IsHeld => {
                let pause = self.retry_pause();
                storage.store.schedule(key, pause).await.map_err(|error: StoreError| error.to_string())
            }
            Takeover::IsComplete(_) | Takeover::IsRefused | Takeover::Begun => Ok(()),
        }
    }
}
