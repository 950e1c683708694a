//! Conversations in one SQLite file: the default, for one machine and any number of its processes.
//!
//! An **acknowledged** message survives `kill -9`. It is synced to the disk after 20 ms without writes, and
//! from then on also survives a system crash and a power cut. In any case the file stays consistent, and only
//! the last messages can be lost. The file must not be on a network drive, because the write-ahead log uses
//! shared memory between processes.
//!
//! Writers of several processes wait for each other, up to [`SqliteOptions::timeout`]. Blocking work runs on
//! two threads that the store owns, one for writing and one for reading, so a long search does not delay a
//! write.

mod embeddings;
mod error;
mod index;
mod keys;
mod open;
mod queries;
mod state;
mod worker;

use std::path::PathBuf;
use std::time::Duration;

use futures_core::future::BoxFuture;
use rusqlite::Connection;
use toolwire_contract::conversations::{
    Conversation, ConversationId, ConversationPage, Conversations, Cursor, NewConversation, NewEntry,
    SearchResults, StoreError, Transcript,
};

use crate::clock::new_id;
use crate::search_text::Query;
pub use embeddings::CachedEmbedder;
use error::{Access, SqliteFailure};
pub use keys::SqliteKeys;
pub use state::SqliteState;
use worker::Worker;

/// Conversations in one SQLite file.
///
/// Dropping it waits for the queued work, then closes the file.
pub struct Sqlite {
    place: String,
    timeout: Duration,
    // Dropped in this order: the connection that closes last removes the write-ahead log.
    reader: Worker,
    writer: Worker,
}

/// Options of a SQLite store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SqliteOptions {
    /// The maximum wait for other writers.
    pub timeout: Duration,
    /// The maximum size of the file; unlimited by default.
    pub max_bytes: Option<u64>,
}

impl Default for SqliteOptions {
    fn default() -> SqliteOptions {
        SqliteOptions { timeout: Duration::from_secs(10), max_bytes: None }
    }
}

impl Sqlite {
    /// Opens the file, or creates it with access only for its owner. A file of an older version is migrated.
    /// A file of a newer version, of another program, or with damage is rejected and left unchanged.
    pub async fn open(path: impl Into<PathBuf>, options: SqliteOptions) -> Result<Sqlite, StoreError> {
        let path = path.into();
        let place = path.display().to_string();
        let timeout = options.timeout;
        let explain = |failure: SqliteFailure| failure.at(&place, timeout, Access::Reads);
        let (to_write, to_read) = ((path.clone(), options.clone()), (path, options));
        let open_to_write = move || open::open_to_write(&to_write.0, &to_write.1);
        let open_to_read = move || open::open_to_read(&to_read.0, &to_read.1);
        let writer = Worker::start("store-writer", open_to_write, open::idle).await.map_err(explain)?;
        let reader = Worker::start("store-reader", open_to_read, |_| ()).await.map_err(explain)?;
        Ok(Sqlite { place, timeout, reader, writer })
    }

    async fn read<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, SqliteFailure> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.reader.run(job).await.map_err(|failure| failure.at(&self.place, self.timeout, Access::Reads))
    }

    /// Finds messages, in all conversations or in one.
    async fn find(
        &self,
        query: Query,
        conversation: Option<ConversationId>,
        limit: usize,
    ) -> Result<SearchResults, StoreError> {
        if query.is_empty() {
            return Ok(SearchResults { hits: Vec::new(), is_complete: true });
        }
        if self.read(|connection| index::is_behind(connection)).await? {
            self.write(index::catch_up).await?;
        }
        self.read(move |connection| queries::search(connection, &query, conversation.as_ref(), limit)).await
    }

    async fn write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, SqliteFailure> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.writer.run(job).await.map_err(|failure| failure.at(&self.place, self.timeout, Access::Writes))
    }
}

impl Conversations for Sqlite {
    fn begin(&self, new: NewConversation) -> BoxFuture<'_, Result<Conversation, StoreError>> {
        Box::pin(async move {
            let id = new_id(&self.place)?;
            self.write(|connection| queries::begin(connection, id, new)).await
        })
    }

    fn append<'a>(
        &'a self,
        conversation: &'a ConversationId,
        entries: Vec<NewEntry>,
        expected: Option<u64>,
    ) -> BoxFuture<'a, Result<u64, StoreError>> {
        let id = conversation.clone();
        Box::pin(self.write(move |connection| queries::append(connection, id, entries, expected)))
    }

    fn get<'a>(
        &'a self,
        conversation: &'a ConversationId,
    ) -> BoxFuture<'a, Result<Conversation, StoreError>> {
        let id = conversation.clone();
        Box::pin(self.read(move |connection| queries::get(connection, &id)))
    }

    fn load<'a>(
        &'a self,
        conversation: &'a ConversationId,
        after: u64,
    ) -> BoxFuture<'a, Result<Transcript, StoreError>> {
        let id = conversation.clone();
        Box::pin(self.read(move |connection| queries::load(connection, &id, after, u64::MAX)))
    }

    fn load_range<'a>(
        &'a self,
        conversation: &'a ConversationId,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Transcript, StoreError>> {
        let id = conversation.clone();
        let until = after.saturating_add(limit as u64);
        Box::pin(self.read(move |connection| queries::load(connection, &id, after, until)))
    }

    fn list(
        &self,
        limit: usize,
        after: Option<Cursor>,
    ) -> BoxFuture<'_, Result<ConversationPage, StoreError>> {
        Box::pin(self.read(move |connection| queries::list(connection, limit, after)))
    }

    fn rename<'a>(
        &'a self,
        conversation: &'a ConversationId,
        title: Option<String>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let id = conversation.clone();
        Box::pin(self.write(move |connection| queries::rename(connection, id, title)))
    }

    fn fork<'a>(
        &'a self,
        conversation: &'a ConversationId,
        at: u64,
    ) -> BoxFuture<'a, Result<Conversation, StoreError>> {
        let id = conversation.clone();
        Box::pin(async move {
            let new_id = new_id(&self.place)?;
            self.write(move |connection| queries::fork(connection, id, at, new_id)).await
        })
    }

    fn forks<'a>(
        &'a self,
        conversation: &'a ConversationId,
    ) -> BoxFuture<'a, Result<Vec<Conversation>, StoreError>> {
        let id = conversation.clone();
        Box::pin(self.read(move |connection| queries::forks(connection, &id)))
    }

    fn search<'a>(
        &'a self,
        query: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<SearchResults, StoreError>> {
        Box::pin(self.find(Query::new(query), None, limit))
    }

    fn search_in<'a>(
        &'a self,
        conversation: &'a ConversationId,
        query: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<SearchResults, StoreError>> {
        Box::pin(self.find(Query::new(query), Some(conversation.clone()), limit))
    }

    fn remove<'a>(&'a self, conversation: &'a ConversationId) -> BoxFuture<'a, Result<(), StoreError>> {
        let id = conversation.clone();
        Box::pin(self.write(move |connection| queries::remove(connection, id)))
    }

    fn restore(&self, transcript: Transcript) -> BoxFuture<'_, Result<Conversation, StoreError>> {
        Box::pin(self.write(move |connection| queries::restore(connection, transcript)))
    }
}
