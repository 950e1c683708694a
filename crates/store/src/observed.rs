//! Reports the outcome of each operation of a store to an observer, for metrics.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_core::future::BoxFuture;
use toolwire_contract::conversations::{
    Conversation, ConversationId, ConversationPage, Conversations, Cursor, NewConversation, NewEntry,
    SearchResults, StoreError, Transcript,
};

/// Receives the outcome of each operation of a store.
pub trait StoreObserver: Send + Sync {
    /// `operation` is the name of a method of [`Conversations`].
    fn observe(&self, operation: &'static str, elapsed: Duration, error: Option<&StoreError>);
}

/// A store whose operations are observed.
pub struct Observed {
    store: Arc<dyn Conversations>,
    observer: Arc<dyn StoreObserver>,
}

impl Observed {
    pub fn new(store: Arc<dyn Conversations>, observer: Arc<dyn StoreObserver>) -> Observed {
        Observed { store, observer }
    }

    fn watch<'a, T: 'a>(
        &'a self,
        operation: &'static str,
        result: impl Future<Output = Result<T, StoreError>> + Send + 'a,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        Box::pin(async move {
            let start = Instant::now();
            let result = result.await;
            self.observer.observe(operation, start.elapsed(), result.as_ref().err());
            result
        })
    }
}

// Methods with a default implementation are forwarded too: the store may have a faster one.
impl Conversations for Observed {
    fn begin(&self, new: NewConversation) -> BoxFuture<'_, Result<Conversation, StoreError>> {
        self.watch("begin", self.store.begin(new))
    }

    fn append<'a>(
        &'a self,
        conversation: &'a ConversationId,
        entries: Vec<NewEntry>,
        expected: Option<u64>,
    ) -> BoxFuture<'a, Result<u64, StoreError>> {
        self.watch("append", self.store.append(conversation, entries, expected))
    }

    fn get<'a>(
        &'a self,
        conversation: &'a ConversationId,
    ) -> BoxFuture<'a, Result<Conversation, StoreError>> {
        self.watch("get", self.store.get(conversation))
    }

    fn load<'a>(
        &'a self,
        conversation: &'a ConversationId,
        after: u64,
    ) -> BoxFuture<'a, Result<Transcript, StoreError>> {
        self.watch("load", self.store.load(conversation, after))
    }

    fn load_range<'a>(
        &'a self,
        conversation: &'a ConversationId,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Transcript, StoreError>> {
        self.watch("load_range", self.store.load_range(conversation, after, limit))
    }

    fn list(
        &self,
        limit: usize,
        after: Option<Cursor>,
    ) -> BoxFuture<'_, Result<ConversationPage, StoreError>> {
        self.watch("list", self.store.list(limit, after))
    }

    fn rename<'a>(
        &'a self,
        conversation: &'a ConversationId,
        title: Option<String>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.watch("rename", self.store.rename(conversation, title))
    }

    fn fork<'a>(
        &'a self,
        conversation: &'a ConversationId,
        at: u64,
    ) -> BoxFuture<'a, Result<Conversation, StoreError>> {
        self.watch("fork", self.store.fork(conversation, at))
    }

    fn forks<'a>(
        &'a self,
        conversation: &'a ConversationId,
    ) -> BoxFuture<'a, Result<Vec<Conversation>, StoreError>> {
        self.watch("forks", self.store.forks(conversation))
    }

    fn search<'a>(
        &'a self,
        query: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<SearchResults, StoreError>> {
        self.watch("search", self.store.search(query, limit))
    }

    fn search_in<'a>(
        &'a self,
        conversation: &'a ConversationId,
        query: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<SearchResults, StoreError>> {
        self.watch("search_in", self.store.search_in(conversation, query, limit))
    }

    fn remove<'a>(&'a self, conversation: &'a ConversationId) -> BoxFuture<'a, Result<(), StoreError>> {
        self.watch("remove", self.store.remove(conversation))
    }

    fn restore(&self, transcript: Transcript) -> BoxFuture<'_, Result<Conversation, StoreError>> {
        self.watch("restore", self.store.restore(transcript))
    }

    fn export<'a>(&'a self, conversation: &'a ConversationId) -> BoxFuture<'a, Result<String, StoreError>> {
        self.watch("export", self.store.export(conversation))
    }

    fn import<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Conversation, StoreError>> {
        self.watch("import", self.store.import(text))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::InMemory;

    #[derive(Default)]
    struct Seen(Mutex<Vec<(&'static str, Option<&'static str>)>>);

    impl StoreObserver for Seen {
        fn observe(&self, operation: &'static str, _: Duration, error: Option<&StoreError>) {
            self.0.lock().expect("the list").push((operation, error.map(StoreError::code)));
        }
    }

    #[tokio::test]
    async fn each_operation_is_observed_once() {
        let seen = Arc::new(Seen::default());
        let store = Observed::new(Arc::new(InMemory::new()), seen.clone());
        let conversation = store.begin(NewConversation::default()).await.expect("a conversation");
        let entry = NewEntry::from(toolwire_contract::Message::user("hi"));
        assert_eq!(store.append(&conversation.id, vec![entry.clone()], Some(0)).await, Ok(1));
        assert!(store.append(&conversation.id, vec![entry], Some(0)).await.is_err());
        let text = store.export(&conversation.id).await.expect("a text");
        assert_eq!(store.load(&conversation.id, 0).await.expect("a transcript").to_json(), text);
        store.remove(&conversation.id).await.expect("it exists");
        assert_eq!(store.import(&text).await.expect("a conversation").id, conversation.id);
        let expected = [
            ("begin", None),
            ("append", None),
            ("append", Some("conflict")),
            ("export", None),
            ("load", None),
            ("remove", None),
            ("import", None),
        ];
        assert_eq!(*seen.0.lock().expect("the list"), expected);
    }
}
