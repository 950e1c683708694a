//! A store for a question that is answered even if the store has no space left.

use std::sync::{Arc, OnceLock};

use futures::future::BoxFuture;
use toolwire_contract::conversations::{
    Conversation, ConversationId, ConversationPage, Conversations, Cursor, NewConversation, NewEntry,
    SearchResults, StoreError, Transcript,
};
use toolwire_store::InMemory;

/// Stores messages until the store is full. The following messages are dropped, and [`BestEffort::problem`]
/// has the reason.
pub(super) struct BestEffort {
    store: Arc<dyn Conversations>,
    problem: OnceLock<StoreError>,
}

impl BestEffort {
    pub(super) fn new(store: Arc<dyn Conversations>) -> BestEffort {
        BestEffort { store, problem: OnceLock::new() }
    }

    /// Returns why messages were dropped.
    pub(super) fn problem(&self) -> Option<&StoreError> {
        self.problem.get()
    }

    /// Returns `None` if the store is full, now or earlier.
    async fn until_full<T>(
        &self,
        operation: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<Option<T>, StoreError> {
        if self.problem.get().is_some() {
            return Ok(None);
        }
        match operation.await {
            Err(error @ StoreError::Full { .. }) => {
                // Only the first error is kept.
                let _ = self.problem.set(error);
                Ok(None)
            }
            outcome => outcome.map(Some),
        }
    }
}

impl Conversations for BestEffort {
    fn begin(&self, new: NewConversation) -> BoxFuture<'_, Result<Conversation, StoreError>> {
        Box::pin(async move {
            match self.until_full(self.store.begin(new.clone())).await? {
                Some(conversation) => Ok(conversation),
                None => InMemory::new().begin(new).await,
            }
        })
    }

    fn append<'a>(
        &'a self,
        conversation: &'a ConversationId,
        entries: Vec<NewEntry>,
        expected: Option<u64>,
    ) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move {
            let end = expected.unwrap_or_default() + entries.len() as u64;
            let appended = self.until_full(self.store.append(conversation, entries, expected)).await?;
            Ok(appended.unwrap_or(end))
        })
    }

    fn get<'a>(
        &'a self,
        conversation: &'a ConversationId,
    ) -> BoxFuture<'a, Result<Conversation, StoreError>> {
        self.store.get(conversation)
    }

    fn load<'a>(
        &'a self,
        conversation: &'a ConversationId,
        after: u64,
    ) -> BoxFuture<'a, Result<Transcript, StoreError>> {
        self.store.load(conversation, after)
    }

    fn load_range<'a>(
        &'a self,
        conversation: &'a ConversationId,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Transcript, StoreError>> {
        self.store.load_range(conversation, after, limit)
    }

    fn list(
        &self,
        limit: usize,
        after: Option<Cursor>,
    ) -> BoxFuture<'_, Result<ConversationPage, StoreError>> {
        self.store.list(limit, after)
    }

    fn rename<'a>(
        &'a self,
        conversation: &'a ConversationId,
        title: Option<String>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.store.rename(conversation, title)
    }

    fn fork<'a>(
        &'a self,
        conversation: &'a ConversationId,
        at: u64,
    ) -> BoxFuture<'a, Result<Conversation, StoreError>> {
        self.store.fork(conversation, at)
    }

    fn forks<'a>(
        &'a self,
        conversation: &'a ConversationId,
    ) -> BoxFuture<'a, Result<Vec<Conversation>, StoreError>> {
        self.store.forks(conversation)
    }

    fn search<'a>(
        &'a self,
        query: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<SearchResults, StoreError>> {
        self.store.search(query, limit)
    }

    fn search_in<'a>(
        &'a self,
        conversation: &'a ConversationId,
        query: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<SearchResults, StoreError>> {
        self.store.search_in(conversation, query, limit)
    }

    fn remove<'a>(&'a self, conversation: &'a ConversationId) -> BoxFuture<'a, Result<(), StoreError>> {
        self.store.remove(conversation)
    }

    fn restore(&self, transcript: Transcript) -> BoxFuture<'_, Result<Conversation, StoreError>> {
        self.store.restore(transcript)
    }
}
