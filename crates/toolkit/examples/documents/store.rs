//! An in-memory store of documents.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Document, Status};

#[derive(Default)]
pub(crate) struct Store(Mutex<BTreeMap<String, Document>>);

impl Store {
    pub(crate) fn titles(&self, status: Option<Status>) -> Vec<String> {
        let documents = self.documents();
        let matching =
            documents.values().filter(|document| status.is_none_or(|status| document.status == status));
        matching.map(|document| document.title.clone()).collect()
    }

    pub(crate) fn find(&self, title: &str) -> Option<Document> {
        self.documents().get(title).cloned()
    }

    /// Adds a document. Returns `false` if the title is taken.
    pub(crate) fn add(&self, document: Document) -> bool {
        let mut documents = self.documents();
        if documents.contains_key(&document.title) {
            return false;
        }
        documents.insert(document.title.clone(), document);
        true
    }

    /// Applies a change and returns its result, or `None` if the document does not exist.
    pub(crate) fn change<T>(&self, title: &str, change: impl FnOnce(&mut Document) -> T) -> Option<T> {
        self.documents().get_mut(title).map(change)
    }

    pub(crate) fn remove(&self, title: &str) -> Option<Document> {
        self.documents().remove(title)
    }

    /// A panic cannot leave a document half-changed, so a poisoned lock is used as usual.
    fn documents(&self) -> MutexGuard<'_, BTreeMap<String, Document>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
