//! The keys of a gateway's clients in one SQLite file, apart from the conversations.
//!
//! Requests and tokens per minute are counted in memory: several gateways on one machine that share the file
//! count separately. The tokens of a month are in the file.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_core::future::BoxFuture;
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};
use tokio::sync::OnceCell;
use toolwire_contract::conversations::{StoreError, Timestamp};
use toolwire_contract::keys::{KeyId, KeyRecord, KeyTable, LimitReached, Minute, Reservation, UsageCounter};

use super::error::{Access, SqliteFailure};
use super::open;
use super::worker::Worker;
use crate::clock::now;
use crate::key_json::{from_json, to_json};
use crate::usage::MinuteCounts;

/// The maximum wait for other processes.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Keys in one SQLite file. The file is created with the first key.
pub struct SqliteKeys {
    path: PathBuf,
    worker: OnceCell<Worker>,
    minutes: MinuteCounts,
}

impl SqliteKeys {
    /// Uses this file, which is created with access only for its owner.
    pub fn new(path: impl Into<PathBuf>) -> SqliteKeys {
        SqliteKeys { path: path.into(), worker: OnceCell::new(), minutes: MinuteCounts::default() }
    }

    fn explain(&self, failure: SqliteFailure, access: Access) -> StoreError {
        failure.at(&self.path.display().to_string(), TIMEOUT, access)
    }

    /// Opens the file. Returns `None` if it does not exist yet.
    async fn open_existing(&self) -> Result<Option<&Worker>, StoreError> {
        if let Some(worker) = self.worker.get() {
            return Ok(Some(worker));
        }
        match self.path.try_exists() {
            Ok(true) => self.open_or_create().await.map(Some),
            Ok(false) => Ok(None),
            // An unreadable file must not count as missing: a gateway without keys accepts every request.
            Err(error) => Err(self.explain(SqliteFailure::Unavailable(error.to_string()), Access::Reads)),
        }
    }

    async fn open_or_create(&self) -> Result<&Worker, StoreError> {
        let open = || async {
            let path = self.path.clone();
            Worker::start("keys", move || open_file(&path), idle).await
        };
        self.worker.get_or_try_init(open).await.map_err(|failure| self.explain(failure, Access::Reads))
    }

    async fn read<T: Default + Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, SqliteFailure> + Send + 'static,
    ) -> Result<T, StoreError> {
        match self.open_existing().await? {
            Some(worker) => worker.run(job).await.map_err(|failure| self.explain(failure, Access::Reads)),
            None => Ok(T::default()),
        }
    }

    async fn write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, SqliteFailure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let worker = self.open_or_create().await?;
        worker.run(job).await.map_err(|failure| self.explain(failure, Access::Writes))
    }
}

fn open_file(path: &Path) -> Result<Connection, SqliteFailure> {
    let connection = open::open_beside(path, open::KEYS, TIMEOUT)?;
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS key (
             id TEXT PRIMARY KEY, record TEXT NOT NULL, created INTEGER NOT NULL, revoked INTEGER
         ) WITHOUT ROWID;
         CREATE TABLE IF NOT EXISTS used (
             owner TEXT NOT NULL, month TEXT NOT NULL, tokens INTEGER NOT NULL, PRIMARY KEY (owner, month)
         ) WITHOUT ROWID;
         CREATE TABLE IF NOT EXISTS reserved (
             owner TEXT NOT NULL, id TEXT NOT NULL, month TEXT NOT NULL, tokens INTEGER NOT NULL,
             expires INTEGER NOT NULL, PRIMARY KEY (owner, id)
         ) WITHOUT ROWID;",
    )?;
    Ok(connection)
}

/// Writes the log to the file after a short time without jobs.
fn idle(connection: &mut Connection) {
    // An error is ignored, because the next operation reports it.
    let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
}

/// Runs a job whose result is on the disk when it ends: a revocation must survive a power cut.
fn durably<T>(
    connection: &mut Connection,
    job: impl FnOnce(&mut Connection) -> Result<T, SqliteFailure>,
) -> Result<T, SqliteFailure> {
    connection.pragma_update(None, "synchronous", "FULL")?;
    let done = job(connection);
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    done
}

type Row = (String, Option<i64>);

fn read_key((record, revoked): Row) -> Result<KeyRecord, SqliteFailure> {
    let key = from_json(&record).map_err(SqliteFailure::Damaged)?;
    let revoked = revoked.map(|time| Timestamp(time.try_into().unwrap_or(0)));
    Ok(KeyRecord { revoked, ..key })
}

fn find(connection: &Connection, id: &KeyId) -> Result<Option<KeyRecord>, SqliteFailure> {
    let mut select = connection.prepare_cached("SELECT record, revoked FROM key WHERE id = ?1")?;
    let row = select.query_row([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    row.map(read_key).transpose()
}

fn number(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}

impl KeyTable for SqliteKeys {
    fn add(&self, key: KeyRecord) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(self.write(move |connection| {
            durably(connection, |connection| {
                let insert = "INSERT OR IGNORE INTO key (id, record, created) VALUES (?1, ?2, ?3)";
                let values = params![key.id.as_str(), to_json(&key), number(key.created.0)];
                Ok(connection.execute(insert, values)? == 1)
            })
        }))
    }

    fn find<'a>(&'a self, id: &'a KeyId) -> BoxFuture<'a, Result<Option<KeyRecord>, StoreError>> {
        let id = id.clone();
        Box::pin(self.read(move |connection| find(connection, &id)))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<KeyRecord>, StoreError>> {
        Box::pin(self.read(|connection| {
            let mut select = connection.prepare("SELECT record, revoked FROM key ORDER BY created, id")?;
            let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.map(|row| read_key(row?)).collect()
        }))
    }

    fn revoke<'a>(
        &'a self,
        id: &'a KeyId,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<Option<KeyRecord>, StoreError>> {
        let id = id.clone();
        Box::pin(self.write(move |connection| {
            durably(connection, |connection| {
                let update = "UPDATE key SET revoked = ?2 WHERE id = ?1 AND revoked IS NULL";
                connection.execute(update, params![id.as_str(), number(at.0)])?;
                find(connection, &id)
            })
        }))
    }

    fn count(&self) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(self.read(|connection| {
            let count: i64 = connection.query_row("SELECT count(*) FROM key", [], |row| row.get(0))?;
            Ok(count.unsigned_abs())
        }))
    }
}

impl UsageCounter for SqliteKeys {
    fn reserve<'a>(
        &'a self,
        reservation: &'a Reservation,
    ) -> BoxFuture<'a, Result<Result<Minute, LimitReached>, StoreError>> {
        Box::pin(async move {
            let minute = match self.minutes.reserve(reservation, Instant::now()) {
                Ok(minute) => minute,
                Err(reached) => return Ok(Err(reached)),
            };
            let Some(limit) = reservation.limit.tokens_per_month else { return Ok(Ok(minute)) };
            let wanted = reservation.clone();
            match self.write(move |connection| reserve(connection, &wanted, limit)).await {
                Ok(true) => Ok(Ok(minute)),
                refused => {
                    self.minutes.cancel(reservation, minute);
                    refused.map(|_| Err(LimitReached::Budget))
                }
            }
        })
    }

    fn settle<'a>(
        &'a self,
        reservation: &'a Reservation,
        minute: Minute,
        used: u64,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.minutes.settle(reservation, minute, used);
            if reservation.limit.tokens_per_month.is_none() {
                return Ok(());
            }
            let settled = reservation.clone();
            self.write(move |connection| settle(connection, &settled, used)).await
        })
    }

    fn used<'a>(&'a self, owner: &'a str, month: &'a str) -> BoxFuture<'a, Result<u64, StoreError>> {
        let (owner, month) = (owner.to_owned(), month.to_owned());
        Box::pin(self.read(move |connection| Ok(used(connection, &owner, &month)?.unsigned_abs())))
    }
}

fn used(connection: &Connection, owner: &str, month: &str) -> Result<i64, SqliteFailure> {
    let mut select = connection.prepare_cached("SELECT tokens FROM used WHERE owner = ?1 AND month = ?2")?;
    Ok(select.query_row([owner, month], |row| row.get(0)).optional()?.unwrap_or(0))
}

/// Reserves tokens of a month; returns false if the budget does not have them.
fn reserve(
    connection: &mut Connection,
    reservation: &Reservation,
    limit: u64,
) -> Result<bool, SqliteFailure> {
    let Reservation { owner, id, tokens, month, lifetime, .. } = reservation;
    let now = now().0;
    let expires = now.saturating_add(u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX));
    // Immediate: two processes must not both read before one of them writes.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction
        .prepare_cached("DELETE FROM reserved WHERE owner = ?1 AND expires <= ?2")?
        .execute(params![owner, number(now)])?;
    let reserved: i64 = transaction
        .prepare_cached("SELECT coalesce(sum(tokens), 0) FROM reserved WHERE owner = ?1 AND month = ?2")?
        .query_row([owner, month], |row| row.get(0))?;
    let used = used(&transaction, owner, month)?;
    if used.saturating_add(reserved).saturating_add(number(*tokens)) > number(limit) {
        return Ok(false);
    }
    transaction
        .prepare_cached("INSERT OR REPLACE INTO reserved VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![owner, id, month, number(*tokens), number(expires)])?;
    transaction.commit()?;
    Ok(true)
}

fn settle(connection: &mut Connection, reservation: &Reservation, used: u64) -> Result<(), SqliteFailure> {
    let Reservation { owner, id, month, .. } = reservation;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.prepare_cached("DELETE FROM reserved WHERE owner = ?1 AND id = ?2")?.execute([owner, id])?;
    transaction
        .prepare_cached(
            "INSERT INTO used VALUES (?1, ?2, ?3)
             ON CONFLICT (owner, month) DO UPDATE SET tokens = min(tokens + excluded.tokens, 9007199254740991)",
        )?
        .execute(params![owner, month, number(used)])?;
    Ok(transaction.commit()?)
}
