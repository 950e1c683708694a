//! Conversations in one SQLite file: the default, for one machine and any number of its processes.
//!
//! **Acknowledged** means written: a message survives the end of the process by `kill -9` from then on. It is brought to the
//! disk, where it survives a crash of the system and a power cut too, as soon as nothing is written for a moment (20 ms);
//! whatever happens, the file stays whole and what is lost are the last messages. The file must not be on a network drive: the
//! log is shared memory between processes.
//!
//! Writers of several processes wait for each other, up to [`SqliteOptions::patience`]. Blocking work happens on two
//! threads that the store owns, one that writes and one that reads, so a long search holds up no message.

mod failure;
mod index;
mod open;
mod rows;
mod thread;

use std::path::PathBuf;
use std::time::Duration;

use futures_core::future::BoxFuture;
use rusqlite::Connection;
use toolwire_contract::{
    Conversation, ConversationId, ConversationPage, Conversations, Cursor, NewConversation, NewEntry,
    SearchResults, StoreError, Transcript,
};

use crate::clock::new_id;
use crate::words::Query;
use failure::{Access, Failure};
use thread::Worker;

/// Conversations in one SQLite file.
///
/// Dropping it waits for the work that was handed over, then closes the file.
pub struct Sqlite {
    place: String,
    patience: Duration,
    // Dropped in this order: the one that closes the file last tidies the log up.
    reader: Worker,
    writer: Worker,
}

/// How the file is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqliteOptions {
    /// How long to wait while another process writes.
    pub patience: Duration,
    /// How large the file may become, counted in its pages; without it, the disk is the limit.
    pub max_bytes: Option<u64>,
}

impl Default for SqliteOptions {
    fn default() -> SqliteOptions {
        SqliteOptions { patience: Duration::from_secs(10), max_bytes: None }
    }
}

impl Sqlite {
    /// Opens the file, and makes it if it is not there, for its owner alone. A file of an older version is brought up
    /// to date; one of a newer version, of another program, or with damage is refused and left as it is.
    pub async fn open(path: impl Into<PathBuf>, options: SqliteOptions) -> Result<Sqlite, StoreError> {
        let path = path.into();
        let place = path.display().to_string();
        let patience = options.patience;
        let explain = |failure: Failure| failure.at(&place, patience, Access::Reads);
        let (to_write, to_read) = ((path.clone(), options.clone()), (path, options));
        let open_to_write = move || open::open_to_write(&to_write.0, &to_write.1);
        let open_to_read = move || open::open_to_read(&to_read.0, &to_read.1);
        let writer = Worker::start("store-writer", open_to_write, open::rest).await.map_err(explain)?;
        let reader = Worker::start("store-reader", open_to_read, |_| ()).await.map_err(explain)?;
        Ok(Sqlite { place, patience, reader, writer })
    }

    async fn read<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.reader.run(job).await.map_err(|failure| failure.at(&self.place, self.patience, Access::Reads))
    }

    async fn write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.writer.run(job).await.map_err(|failure| failure.at(&self.place, self.patience, Access::Writes))
    }
}

impl Conversations for Sqlite {
    fn begin(&self, new: NewConversation) -> BoxFuture<'_, Result<Conversation, StoreError>> {
        Box::pin(async move {
            let id = new_id(&self.place)?;
            self.write(|connection| rows::begin(connection, id, new)).await
        })
    }

    fn append<'a>(
        &'a self,
        conversation: &'a ConversationId,
        entries: Vec<NewEntry>,
        expected: Option<u64>,
    ) -> BoxFuture<'a, Result<u64, StoreError>> {
        let id = conversation.clone();
        Box::pin(self.write(move |connection| rows::append(connection, id, entries, expected)))
    }

    fn get<'a>(
        &'a self,
        conversation: &'a ConversationId,
    ) -> BoxFuture<'a, Result<Conversation, StoreError>> {
        let id = conversation.clone();
        Box::pin(self.read(move |connection| rows::get(connection, &id)))
    }

    fn load<'a>(
        &'a self,
        conversation: &'a ConversationId,
        after: u64,
    ) -> BoxFuture<'a, Result<Transcript, StoreError>> {
        let id = conversation.clone();
        Box::pin(self.read(move |connection| rows::load(connection, &id, after)))
    }

    fn list(
        &self,
        limit: usize,
        after: Option<Cursor>,
    ) -> BoxFuture<'_, Result<ConversationPage, StoreError>> {
        Box::pin(self.read(move |connection| rows::list(connection, limit, after)))
    }

    fn rename<'a>(
        &'a self,
        conversation: &'a ConversationId,
        title: Option<String>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let id = conversation.clone();
        Box::pin(self.write(move |connection| rows::rename(connection, id, title)))
    }

    fn fork<'a>(
        &'a self,
        conversation: &'a ConversationId,
        at: u64,
    ) -> BoxFuture<'a, Result<Conversation, StoreError>> {
        let id = conversation.clone();
        Box::pin(async move {
            let new_id = new_id(&self.place)?;
            self.write(move |connection| rows::fork(connection, id, at, new_id)).await
        })
    }

    fn search<'a>(
        &'a self,
        query: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<SearchResults, StoreError>> {
        let query = Query::new(query);
        Box::pin(async move {
            if query.is_empty() {
                return Ok(SearchResults { hits: Vec::new(), is_complete: true });
            }
            if self.read(|connection| index::is_behind(connection)).await? {
                self.write(index::catch_up).await?;
            }
            self.read(move |connection| rows::search(connection, &query, limit)).await
        })
    }

    fn remove<'a>(&'a self, conversation: &'a ConversationId) -> BoxFuture<'a, Result<(), StoreError>> {
        let id = conversation.clone();
        Box::pin(self.write(move |connection| rows::remove(connection, id)))
    }

    fn restore(&self, transcript: Transcript) -> BoxFuture<'_, Result<Conversation, StoreError>> {
        Box::pin(self.write(move |connection| rows::restore(connection, transcript)))
    }
}
