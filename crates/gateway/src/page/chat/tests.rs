//! Functions that the tests of several modules use.

use std::sync::Arc;

use toolwire_contract::conversations::Conversations;

/// Returns an empty store.
pub(in crate::page) fn store() -> Arc<dyn Conversations> {
    Arc::new(toolwire_store::InMemory::new())
}
