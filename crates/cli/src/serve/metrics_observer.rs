//! Counts the operations of the store and the attempts of models, and checks the store for `/readyz`.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use toolwire_contract::conversations::{ConversationId, Conversations, StoreError};
use toolwire_gateway::{ReadinessCheck, metrics::Metrics};
use toolwire_llm::AttemptObserver;
use toolwire_store::StoreObserver;

/// Counts the operations of the store and the attempts of models.
pub(super) struct MetricsObserver {
    pub(super) metrics: Metrics,
    /// The names of models that metrics may contain, once they are known.
    pub(super) models: OnceLock<Vec<String>>,
}

impl StoreObserver for MetricsObserver {
    fn observe(&self, operation: &'static str, elapsed: Duration, error: Option<&StoreError>) {
        // An unknown id and a conflict are errors of the caller, not failures of the store.
        let failure = error.filter(|error| is_failure(error)).map(StoreError::code);
        self.metrics.record_store_operation(operation, elapsed, failure);
    }
}

fn is_failure(error: &StoreError) -> bool {
    !matches!(
        error,
        StoreError::UnknownConversation { .. }
            | StoreError::UnknownPosition { .. }
            | StoreError::Conflict { .. }
            | StoreError::Exists { .. }
            | StoreError::InvalidTranscript(_)
    )
}

impl AttemptObserver for MetricsObserver {
    fn attempted(&self, model: &str, failure: Option<&str>) {
        self.metrics.record_attempt(self.label(model), failure);
    }

    fn failed_over(&self, model: &str) {
        self.metrics.record_failover(self.label(model));
    }
}

impl MetricsObserver {
    fn label<'m>(&self, model: &'m str) -> &'m str {
        let is_known = self.models.get().is_some_and(|known| known.iter().any(|known| known == model));
        if is_known { model } else { "other" }
    }
}

/// Asks the store for a conversation that does not exist.
pub(super) struct StoreCheck(pub(super) Arc<dyn Conversations>);

impl ReadinessCheck for StoreCheck {
    fn name(&self) -> &'static str {
        "store"
    }

    fn check(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            let Ok(id) = UNKNOWN.parse::<ConversationId>() else { return Ok(()) };
            match self.0.get(&id).await {
                Err(error) if is_failure(&error) => Err(error.to_string()),
                _ => Ok(()),
            }
        })
    }
}

/// An id that no conversation has.
const UNKNOWN: &str = "00000000-0000-7000-8000-000000000000";

#[cfg(test)]
mod tests {
    use toolwire_store::InMemory;

    use super::*;

    #[tokio::test]
    async fn the_check_needs_no_conversation() {
        assert!(UNKNOWN.parse::<ConversationId>().is_ok());
        assert_eq!(StoreCheck(Arc::new(InMemory::new())).check().await, Ok(()));
    }
}
