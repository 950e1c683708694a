//! The state of a gateway's clients in one SQLite file, apart from the conversations: it expires, and is
//! never searched.
//!
//! An acknowledged document survives `kill -9`, and a power cut as soon as the store had a short time without
//! writes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_core::future::BoxFuture;
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};
use tokio::sync::OnceCell;
use toolwire_contract::conversations::StoreError;
use toolwire_contract::state::{Claim, HeldWrite, StateKey, StateStore};

use super::error::{Access, SqliteFailure};
use super::open;
use super::worker::Worker;
use crate::clock::now;

/// The maximum wait for other processes.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The number of expired documents that are removed at a time.
const REMOVED_AT_ONCE: u32 = 100;

/// Documents in one SQLite file. The file is created with the first one.
pub struct SqliteState {
    path: PathBuf,
    worker: OnceCell<Worker>,
}

impl SqliteState {
    /// Uses this file, which is created with access only for its owner.
    pub fn new(path: impl Into<PathBuf>) -> SqliteState {
        SqliteState { path: path.into(), worker: OnceCell::new() }
    }

    async fn run<T: Send + 'static>(
        &self,
        access: Access,
        job: impl FnOnce(&mut Connection) -> Result<T, SqliteFailure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let explain =
            |failure: SqliteFailure, access| failure.at(&self.path.display().to_string(), TIMEOUT, access);
        let open = || async {
            let path = self.path.clone();
            Worker::start("state", move || open_file(&path), idle).await
        };
        let worker =
            self.worker.get_or_try_init(open).await.map_err(|failure| explain(failure, Access::Reads))?;
        worker.run(job).await.map_err(|failure| explain(failure, access))
    }
}

fn open_file(path: &Path) -> Result<Connection, SqliteFailure> {
    let connection = open::open_beside(path, open::STATE, TIMEOUT)?;
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS state (
             owner TEXT NOT NULL, id TEXT NOT NULL, expires INTEGER NOT NULL, content TEXT NOT NULL,
             PRIMARY KEY (owner, id)
         );
         CREATE INDEX IF NOT EXISTS state_by_expiry ON state (expires);
         CREATE TABLE IF NOT EXISTS claim (
             owner TEXT NOT NULL, id TEXT NOT NULL, holder TEXT NOT NULL, expires INTEGER NOT NULL,
             PRIMARY KEY (owner, id)
         ) WITHOUT ROWID;
         CREATE TABLE IF NOT EXISTS log (
             owner TEXT NOT NULL, id TEXT NOT NULL, expires INTEGER NOT NULL,
             PRIMARY KEY (owner, id)
         ) WITHOUT ROWID;
         CREATE INDEX IF NOT EXISTS log_by_expiry ON log (expires);
         CREATE TABLE IF NOT EXISTS log_entry (
             owner TEXT NOT NULL, id TEXT NOT NULL, position INTEGER NOT NULL, content TEXT NOT NULL,
             PRIMARY KEY (owner, id, position)
         ) WITHOUT ROWID;
         CREATE TABLE IF NOT EXISTS unfinished (
             owner TEXT NOT NULL, id TEXT NOT NULL, due INTEGER NOT NULL,
             PRIMARY KEY (owner, id)
         ) WITHOUT ROWID;
         CREATE INDEX IF NOT EXISTS unfinished_by_time ON unfinished (due);",
    )?;
    Ok(connection)
}

/// Runs after a short time without jobs: removes what has expired, and writes the log to the file.
fn idle(connection: &mut Connection) {
    // An error is ignored, because the next operation reports it.
    let _ = remove_expired(connection);
    let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
}

fn remove_expired(connection: &Connection) -> Result<(), SqliteFailure> {
    let now = milliseconds(now().0);
    let mut expired =
        connection.prepare_cached("SELECT rowid FROM state WHERE expires <= ?1 ORDER BY expires LIMIT ?2")?;
    let rows = expired.query_map(params![now, REMOVED_AT_ONCE], |row| row.get(0))?;
    for row in rows.collect::<Result<Vec<i64>, _>>()? {
        connection.prepare_cached("DELETE FROM state WHERE rowid = ?1")?.execute([row])?;
    }
    connection.prepare_cached("DELETE FROM claim WHERE expires <= ?1")?.execute([now])?;
    let mut expired = connection
        .prepare_cached("SELECT owner, id FROM log WHERE expires <= ?1 ORDER BY expires LIMIT ?2")?;
    let logs = expired.query_map(params![now, REMOVED_AT_ONCE], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (owner, id) in logs.collect::<Result<Vec<(String, String)>, _>>()? {
        remove_log(connection, &owner, &id)?;
    }
    Ok(())
}

fn remove_log(connection: &Connection, owner: &str, id: &str) -> Result<(), SqliteFailure> {
    // The entries first: what is left if the process ends in between is found by its row in `log`.
    for table in ["log_entry", "log"] {
        let delete = format!("DELETE FROM {table} WHERE owner = ?1 AND id = ?2");
        connection.prepare_cached(&delete)?.execute([owner, id])?;
    }
    Ok(())
}

fn put(
    connection: &Connection,
    key: &StateKey,
    content: &str,
    lifetime: Duration,
) -> Result<(), SqliteFailure> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO state (owner, id, expires, content) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (owner, id) DO UPDATE SET expires = excluded.expires, content = excluded.content",
    )?;
    insert.execute(params![key.owner(), key.id(), end_of(lifetime), content])?;
    Ok(())
}

/// Replaces the end of a log.
fn write_log(
    connection: &Connection,
    key: &StateKey,
    position: u64,
    entries: &[String],
    lifetime: Duration,
) -> Result<(), SqliteFailure> {
    let (owner, id) = (key.owner(), key.id());
    connection
        .prepare_cached(
            "INSERT INTO log VALUES (?1, ?2, ?3)
             ON CONFLICT (owner, id) DO UPDATE SET expires = excluded.expires",
        )?
        .execute(params![owner, id, end_of(lifetime)])?;
    let position = milliseconds(position);
    connection
        .prepare_cached("DELETE FROM log_entry WHERE owner = ?1 AND id = ?2 AND position >= ?3")?
        .execute(params![owner, id, position])?;
    let mut insert = connection.prepare_cached("INSERT INTO log_entry VALUES (?1, ?2, ?3, ?4)")?;
    for (position, entry) in (position..).zip(entries) {
        insert.execute(params![owner, id, position, entry])?;
    }
    Ok(())
}

fn milliseconds(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns the time after which a lifetime has passed.
fn end_of(lifetime: Duration) -> i64 {
    milliseconds(now().0.saturating_add(u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX)))
}

impl StateStore for SqliteState {
    fn put<'a>(
        &'a self,
        key: &'a StateKey,
        content: String,
        lifetime: Duration,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let key = key.clone();
        Box::pin(self.run(Access::Writes, move |connection| put(connection, &key, &content, lifetime)))
    }

    fn get<'a>(&'a self, key: &'a StateKey) -> BoxFuture<'a, Result<Option<String>, StoreError>> {
        let key = key.clone();
        Box::pin(self.run(Access::Reads, move |connection| {
            let mut select = connection
                .prepare_cached("SELECT content FROM state WHERE owner = ?1 AND id = ?2 AND expires > ?3")?;
            let found =
                select.query_row(params![key.owner(), key.id(), milliseconds(now().0)], |row| row.get(0));
            Ok(found.optional()?)
        }))
    }

    fn remove<'a>(&'a self, key: &'a StateKey) -> BoxFuture<'a, Result<bool, StoreError>> {
        let key = key.clone();
        Box::pin(self.run(Access::Writes, move |connection| {
            let mut delete = connection
                .prepare_cached("DELETE FROM state WHERE owner = ?1 AND id = ?2 RETURNING expires")?;
            remove_log(connection, key.owner(), key.id())?;
            let removed: Option<i64> =
                delete.query_row([key.owner(), key.id()], |row| row.get(0)).optional()?;
            Ok(removed.is_some_and(|expires| expires > milliseconds(now().0)))
        }))
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<bool, StoreError>> {
        let Claim { key, holder, lifetime } = claim.clone();
        Box::pin(self.run(Access::Writes, move |connection| {
            // Immediate: two processes must not both read before one of them writes.
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let written = transaction
                .prepare_cached(
                    "INSERT INTO claim VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT (owner, id) DO UPDATE SET holder = excluded.holder, expires = excluded.expires
                     WHERE holder = excluded.holder OR expires <= ?5",
                )?
                .execute(params![
                    key.owner(),
                    key.id(),
                    holder,
                    end_of(lifetime),
                    milliseconds(now().0)
                ])?;
            transaction.commit()?;
            Ok(written == 1)
        }))
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<(), StoreError>> {
        let Claim { key, holder, .. } = claim.clone();
        Box::pin(self.run(Access::Writes, move |connection| {
            connection
                .prepare_cached("DELETE FROM claim WHERE owner = ?1 AND id = ?2 AND holder = ?3")?
                .execute(params![key.owner(), key.id(), holder])?;
            Ok(())
        }))
    }

    fn seize<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<(), StoreError>> {
        let Claim { key, holder, lifetime } = claim.clone();
        Box::pin(self.run(Access::Writes, move |connection| {
            connection
                .prepare_cached("INSERT OR REPLACE INTO claim VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![key.owner(), key.id(), holder, end_of(lifetime)])?;
            Ok(())
        }))
    }

    fn write_held<'a>(
        &'a self,
        claim: &'a Claim,
        write: HeldWrite,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        let Claim { key, holder, lifetime } = claim.clone();
        Box::pin(self.run(Access::Writes, move |connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let renewed = transaction
                .prepare_cached(
                    "UPDATE claim SET expires = ?4 WHERE owner = ?1 AND id = ?2 AND holder = ?3 AND expires > ?5",
                )?
                .execute(params![
                    key.owner(),
                    key.id(),
                    holder,
                    end_of(lifetime),
                    milliseconds(now().0)
                ])?;
            if renewed == 0 {
                return Ok(false);
            }
            if let Some(document) = &write.document {
                put(&transaction, &key, document, write.lifetime)?;
            }
            if !write.entries.is_empty() {
                write_log(&transaction, &key, write.position, &write.entries, write.log_lifetime)?;
            }
            transaction.commit()?;
            Ok(true)
        }))
    }

    fn log<'a>(
        &'a self,
        key: &'a StateKey,
        position: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        let key = key.clone();
        Box::pin(self.run(Access::Reads, move |connection| {
            let mut select = connection.prepare_cached(
                "SELECT content FROM log_entry JOIN log USING (owner, id)
                 WHERE owner = ?1 AND id = ?2 AND expires > ?3 AND position >= ?4 ORDER BY position LIMIT ?5",
            )?;
            let found = select.query_map(
                params![
                    key.owner(),
                    key.id(),
                    milliseconds(now().0),
                    milliseconds(position),
                    milliseconds(limit)
                ],
                |row| row.get(0),
            )?;
            Ok(found.collect::<Result<Vec<String>, _>>()?)
        }))
    }

    fn schedule<'a>(&'a self, key: &'a StateKey, after: Duration) -> BoxFuture<'a, Result<(), StoreError>> {
        let key = key.clone();
        Box::pin(self.run(Access::Writes, move |connection| {
            connection
                .prepare_cached("INSERT OR REPLACE INTO unfinished VALUES (?1, ?2, ?3)")?
                .execute(params![key.owner(), key.id(), end_of(after)])?;
            Ok(())
        }))
    }

    fn unschedule<'a>(&'a self, key: &'a StateKey) -> BoxFuture<'a, Result<(), StoreError>> {
        let key = key.clone();
        Box::pin(self.run(Access::Writes, move |connection| {
            connection
                .prepare_cached("DELETE FROM unfinished WHERE owner = ?1 AND id = ?2")?
                .execute([key.owner(), key.id()])?;
            Ok(())
        }))
    }

    fn due(&self, limit: u64) -> BoxFuture<'_, Result<Vec<StateKey>, StoreError>> {
        Box::pin(async move {
            // Gateways call this at intervals, also those that never store anything and need no file.
            if self.worker.get().is_none() && !tokio::fs::try_exists(&self.path).await.unwrap_or(true) {
                return Ok(Vec::new());
            }
            let read = move |connection: &mut Connection| {
                let mut select = connection.prepare_cached(
                    "SELECT owner, id FROM unfinished WHERE due <= ?1 ORDER BY due LIMIT ?2",
                )?;
                let found = select.query_map([milliseconds(now().0), milliseconds(limit)], |row| {
                    Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
                })?;
                Ok(found.collect::<Result<Vec<_>, _>>()?)
            };
            let found = self.run(Access::Reads, read).await?.into_iter();
            Ok(found.filter_map(|(owner, id)| StateKey::new(owner, id).ok()).collect())
        })
    }
}
