//! Opens the file: permissions, durability and migrations.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::SqliteOptions;
use super::error::SqliteFailure;
use super::index;

/// Identifies our files in the SQLite header: "TWcv".
const APPLICATION_ID: i64 = 0x5457_6376;
/// The format version that this code writes.
const VERSION: u64 = 4;

pub(super) fn open_to_write(path: &Path, options: &SqliteOptions) -> Result<Connection, SqliteFailure> {
    if path.is_dir() {
        return Err(SqliteFailure::Foreign("it is a directory".to_owned()));
    }
    create_private(path).map_err(|error| SqliteFailure::Unavailable(error.to_string()))?;
    let mut connection = connect(path, options)?;
    check_owner(&connection)?;
    use_wal(&connection, options.timeout)?;
    // A commit reaches the operating system before it is acknowledged, and the disk at the next `idle`. On
    // macOS, reaching the disk needs the second setting; elsewhere it has no effect.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    // The log is checkpointed in `idle`, or every 16 MB if the writer never pauses. The log file is then
    // truncated.
    connection.pragma_update(None, "wal_autocheckpoint", 4_096)?;
    connection.pragma_update(None, "journal_size_limit", 16 << 20)?;
    if let Some(max_bytes) = options.max_bytes {
        let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let pages = i64::try_from(max_bytes).unwrap_or(i64::MAX) / page.max(1);
        connection.pragma_update(None, "max_page_count", pages.max(1))?;
    }
    migrate(&mut connection)?;
    Ok(connection)
}

/// Runs after a short time without writes: indexes new messages and syncs them to the disk.
pub(super) fn idle(connection: &mut Connection) {
    // Errors (another writer, a full disk) are ignored here; the operation that needs the result reports
    // them.
    let _ = index::catch_up(connection);
    let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
}

pub(super) fn open_to_read(path: &Path, options: &SqliteOptions) -> Result<Connection, SqliteFailure> {
    let connection = connect(path, options)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// Opens a file that can be created again at any time.
pub(super) fn open_cache(path: &Path) -> Result<Connection, SqliteFailure> {
    create_private(path).map_err(|error| SqliteFailure::Unavailable(error.to_string()))?;
    connect(path, &SqliteOptions::default())
}

/// The format of a file beside the conversations.
#[derive(Clone, Copy)]
pub(super) struct FileFormat {
    /// Identifies the format in the SQLite header.
    application: i64,
    version: u64,
}

/// Files with keys of clients: "TWky".
pub(super) const KEYS: FileFormat = FileFormat { application: 0x5457_6b79, version: 1 };
/// Files with the state of clients: "TWst".
pub(super) const STATE: FileFormat = FileFormat { application: 0x5457_7374, version: 1 };

/// Opens a file beside the conversations, or creates it. The caller creates its tables.
pub(super) fn open_beside(
    path: &Path,
    format: FileFormat,
    timeout: Duration,
) -> Result<Connection, SqliteFailure> {
    let FileFormat { application, version } = format;
    create_private(path).map_err(|error| SqliteFailure::Unavailable(error.to_string()))?;
    let connection = connect(path, &SqliteOptions { timeout, ..SqliteOptions::default() })?;
    match number(&connection, "application_id")? {
        found if found == application => check_version(number(&connection, "user_version")?, version)?,
        0 if is_empty(&connection)? => {
            connection.pragma_update(None, "application_id", application)?;
            connection.pragma_update(None, "user_version", version as i64)?;
        }
        // Another process may have initialized the file in between.
        _ if number(&connection, "application_id")? == application => {}
        _ => return Err(SqliteFailure::Foreign("it is the database of another program".to_owned())),
    }
    use_wal(&connection, timeout)?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    Ok(connection)
}

fn is_empty(connection: &Connection) -> Result<bool, SqliteFailure> {
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
    Ok(tables == 0)
}

fn connect(path: &Path, options: &SqliteOptions) -> Result<Connection, SqliteFailure> {
    // Without `CREATE`, because the file already exists with our permissions. Without `URI`, so that a path
    // is only a path.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(options.timeout)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

/// Creates the file and its parent directories with access only for the owner. SQLite uses the same
/// permissions for its other files. Existing files keep their permissions.
fn create_private(path: &Path) -> io::Result<()> {
    let mut folders = DirBuilder::new();
    folders.recursive(true);
    let mut file = OpenOptions::new();
    file.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
        folders.mode(0o700);
        file.mode(0o600);
    }
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        folders.create(folder)?;
    }
    file.open(path).map(drop)
}

/// Rejects the database of another program before changing anything in it.
fn check_owner(connection: &Connection) -> Result<(), SqliteFailure> {
    let application = number(connection, "application_id")?;
    let version = number(connection, "user_version")?;
    if application == APPLICATION_ID {
        return check_version(version, VERSION);
    }
    let is_empty = is_empty(connection)?;
    // Checked again: another process may have initialized the file in between.
    if (application, version, is_empty) != (0, 0, true)
        && number(connection, "application_id")? != APPLICATION_ID
    {
        return Err(SqliteFailure::Foreign("it is the database of another program".to_owned()));
    }
    Ok(())
}

fn check_version(version: i64, known: u64) -> Result<(), SqliteFailure> {
    match u64::try_from(version) {
        Ok(found) if found > known => Err(SqliteFailure::Newer { found, known }),
        Ok(_) => Ok(()),
        Err(_) => Err(SqliteFailure::Damaged(format!("it has version {version}"))),
    }
}

/// Switches to WAL. This locks the complete file for a moment, and SQLite's busy timeout does not apply to
/// it.
fn use_wal(connection: &Connection, timeout: Duration) -> Result<(), SqliteFailure> {
    let start = Instant::now();
    loop {
        let outcome =
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        match outcome {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                return Err(SqliteFailure::Unavailable(format!(
                    "its directory does not support a write-ahead log, only `{mode}`"
                )));
            }
            Err(error) if is_busy(&error) && start.elapsed() < timeout => {
                thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
}

/// Migrates the file to the current version in one transaction, so a crash leaves the old version intact.
fn migrate(connection: &mut Connection) -> Result<(), SqliteFailure> {
    if number(connection, "user_version")? == VERSION as i64 {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Read again: another process may have migrated the file while this one waited for the lock.
    let version = number(&transaction, "user_version")?;
    check_version(version, VERSION)?;
    if version < 1 {
        transaction.execute_batch(include_str!("version-1.sql"))?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    }
    if version < 2 {
        transaction.execute_batch(include_str!("version-2.sql"))?;
    }
    if version < 3 {
        transaction.execute_batch(include_str!("version-3.sql"))?;
    }
    if version < 4 {
        transaction.execute_batch(include_str!("version-4.sql"))?;
    }
    transaction.pragma_update(None, "user_version", VERSION as i64)?;
    transaction.commit()?;
    Ok(())
}

fn number(connection: &Connection, pragma: &str) -> Result<i64, SqliteFailure> {
    Ok(connection.pragma_query_value(None, pragma, |row| row.get(0))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_checkpoints_the_log() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("conversations.db");
        let mut connection = open_to_write(&path, &SqliteOptions::default()).expect("the file opens");
        connection
            .execute("INSERT INTO conversation VALUES (1, 'a', NULL, NULL, 0, 0, 0, '{}', NULL, NULL)", [])
            .expect("the row is written");
        let length = || std::fs::metadata(&path).expect("the file exists").len();
        let before = length();
        idle(&mut connection);
        assert!(length() > before, "the log was not written to the file");
    }
}
