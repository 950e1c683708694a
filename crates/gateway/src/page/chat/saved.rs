//! Runs that wait for decisions, saved so that they survive a restart of the gateway.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use toolwire_agent::run::Run;
use toolwire_contract::conversations::ConversationId;

/// Stores texts by name, so that they survive the process. The gateway saves runs that wait for a decision.
pub trait RunStorage: Send + Sync {
    /// Returns the names of all texts.
    fn names(&self) -> Vec<String>;

    /// Stores a text, readable only for its owner. A crash leaves the old text or the new one.
    fn save(&self, name: String, text: String) -> BoxFuture<'_, std::io::Result<()>>;

    fn load(&self, name: String) -> BoxFuture<'_, std::io::Result<String>>;

    fn remove(&self, name: String) -> BoxFuture<'_, std::io::Result<()>>;
}

/// The runs by their conversations: in the storage, or in memory if there is none.
pub(super) struct SavedRuns {
    storage: Option<Arc<dyn RunStorage>>,
    /// The runs that were saved; `None` for those that are only in the storage.
    known: Mutex<HashMap<ConversationId, Option<String>>>,
}

impl SavedRuns {
    pub(super) fn new(storage: Option<Arc<dyn RunStorage>>) -> SavedRuns {
        let names = storage.as_ref().map(|storage| storage.names()).unwrap_or_default();
        let known = names.iter().filter_map(|name| Some((name.parse().ok()?, None))).collect();
        SavedRuns { storage, known: Mutex::new(known) }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<ConversationId, Option<String>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn contains(&self, id: &ConversationId) -> bool {
        self.known().contains_key(id)
    }

    /// Saves a run. If it cannot be stored, it is kept in memory.
    pub(super) async fn save(&self, id: &ConversationId, run: &Run) {
        let text = run.to_json();
        let stored = match &self.storage {
            Some(storage) => storage.save(id.to_string(), text.clone()).await,
            None => Err(std::io::ErrorKind::Unsupported.into()),
        };
        if let (Err(error), true) = (&stored, self.storage.is_some()) {
            tracing::warn!(%error, "a run that waits for a decision could not be saved");
        }
        self.known().insert(id.clone(), stored.is_err().then_some(text));
    }

    pub(super) async fn load(&self, id: &ConversationId) -> Option<Run> {
        let kept = self.known().get(id)?.clone();
        let text = match (kept, &self.storage) {
            (Some(text), _) => text,
            (None, Some(storage)) => storage.load(id.to_string()).await.ok()?,
            (None, None) => return None,
        };
        Run::from_json(&text).inspect_err(|error| tracing::warn!(%error, "a saved run cannot be read")).ok()
    }

    pub(super) async fn remove(&self, id: &ConversationId) {
        let removed = self.known().remove(id);
        if let (Some(None), Some(storage)) = (removed, &self.storage) {
            // If this fails, the text is ignored once its conversation has more messages.
            let _ = storage.remove(id.to_string()).await;
        }
    }
}
