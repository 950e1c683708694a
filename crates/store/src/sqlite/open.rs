//! Opens the file: who owns it, how safely it is written, and which version it has.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::SqliteOptions;
use super::failure::Failure;
use super::index;

/// In the header of the file, so that no other program's database is taken for ours: "TWcv".
const APPLICATION: i64 = 0x5457_6376;
/// The version that this code writes.
const VERSION: u64 = 3;

pub(super) fn open_to_write(path: &Path, options: &SqliteOptions) -> Result<Connection, Failure> {
    if path.is_dir() {
        return Err(Failure::Foreign("it is a folder".to_owned()));
    }
    create_private(path).map_err(|error| Failure::Gone(error.to_string()))?;
    let mut connection = connect(path, options)?;
    check_owner(&connection)?;
    use_wal(&connection, options.patience)?;
    // A commit is with the system before it is acknowledged, and on the disk at the next rest (`rest`). On macOS that takes a
    // command of its own; elsewhere the second of these changes nothing.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    // The log is brought into the file at a rest; whoever writes on and on does it himself, every 16 MB. What is left behind is cut
    // back then.
    connection.pragma_update(None, "wal_autocheckpoint", 4_096)?;
    connection.pragma_update(None, "journal_size_limit", 16 << 20)?;
    if let Some(most) = options.max_bytes {
        let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let pages = i64::try_from(most).unwrap_or(i64::MAX) / page.max(1);
        connection.pragma_update(None, "max_page_count", pages.max(1))?;
    }
    migrate(&mut connection)?;
    Ok(connection)
}

/// What is done when nobody writes for a moment: what was written is brought to the disk, and searches find it.
pub(super) fn rest(connection: &mut Connection) {
    // Whatever stands in the way now (another process that writes, a full disk) is told when it is in somebody's way.
    let _ = index::catch_up(connection);
    let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
}

pub(super) fn open_to_read(path: &Path, options: &SqliteOptions) -> Result<Connection, Failure> {
    let connection = connect(path, options)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

fn connect(path: &Path, options: &SqliteOptions) -> Result<Connection, Failure> {
    // Without `CREATE`: the file is there, with the permissions we gave it. Without `URI`: a path is only a path.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(options.patience)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

/// Makes the file, and the folders on the way to it, for its owner alone. SQLite gives its other files the same
/// permissions. What is already there keeps its own.
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

/// Refuses the database of another program before anything in it is touched.
fn check_owner(connection: &Connection) -> Result<(), Failure> {
    let application = number(connection, "application_id")?;
    let version = number(connection, "user_version")?;
    if application == APPLICATION {
        return check_version(version);
    }
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
    // Looked at once more: another process may have made it ours between the two looks.
    if (application, version, tables) != (0, 0, 0) && number(connection, "application_id")? != APPLICATION {
        return Err(Failure::Foreign("it is a database of another program".to_owned()));
    }
    Ok(())
}

fn check_version(version: i64) -> Result<(), Failure> {
    match u64::try_from(version) {
        Ok(found) if found > VERSION => Err(Failure::Newer { found, known: VERSION }),
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::Damaged(format!("it has the version {version}"))),
    }
}

/// Changing to WAL takes the whole file for a moment, and SQLite does not wait for that as it waits for other locks.
fn use_wal(connection: &Connection, patience: Duration) -> Result<(), Failure> {
    let began = Instant::now();
    loop {
        let outcome =
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        match outcome {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                return Err(Failure::Gone(format!("its folder allows no write-ahead log, only `{mode}`")));
            }
            Err(error) if is_busy(&error) && began.elapsed() < patience => {
                thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
}

/// Brings the file to the version of this code, in one transaction: a process that dies on the way leaves it as it was.
fn migrate(connection: &mut Connection) -> Result<(), Failure> {
    if number(connection, "user_version")? == VERSION as i64 {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Read again: while this one waited for the lock, another process may have done it.
    let version = number(&transaction, "user_version")?;
    check_version(version)?;
    if version < 1 {
        transaction.execute_batch(include_str!("version-1.sql"))?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
    }
    if version < 2 {
        transaction.execute_batch(include_str!("version-2.sql"))?;
    }
    if version < 3 {
        transaction.execute_batch(include_str!("version-3.sql"))?;
    }
    transaction.pragma_update(None, "user_version", VERSION as i64)?;
    transaction.commit()?;
    Ok(())
}

fn number(connection: &Connection, pragma: &str) -> Result<i64, Failure> {
    Ok(connection.pragma_query_value(None, pragma, |row| row.get(0))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_brings_the_log_into_the_file() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("conversations.db");
        let mut connection = open_to_write(&path, &SqliteOptions::default()).expect("it opens");
        connection
            .execute("INSERT INTO conversation VALUES (1, 'a', NULL, NULL, 0, 0, 0, '{}', NULL, NULL)", [])
            .expect("it is written");
        let length = || std::fs::metadata(&path).expect("it is there").len();
        let before = length();
        rest(&mut connection);
        assert!(length() > before, "the tables are in the file itself, no longer in the log alone");
    }
}
